"""Names of columns as Spark takes them: those that are accepted are read, the reserved ones are not."""

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.names import RESERVED
from tests.worlds.one_logstore import World, group

pytestmark = pytest.mark.spark


TABLE = "bronze.named"
CHANGELOG = {"_change_type", "_change_ordinal", "_commit_snapshot_id"}
"""Read from a table, and missing from its changelog, which has columns of its own by these names."""
COLUMNS = ["a.b", "a", "select", "a-b.c", "_x", "file", "pos", "partition", "x" * 200]


def test_spark_reads_a_table_with_names_that_are_accepted(world: World, spark_lake: Lake) -> None:
    world.lake = spark_lake
    world.logstore = world.changed(table=TABLE, columns=dict.fromkeys(COLUMNS, "string"))
    with world.client as client:
        client.put_raw(group([dict.fromkeys(COLUMNS, f"v{n}") for n in range(3)]))
    world.emulator.admin.advance(3600)
    world.land()
    world.carried_out(plan_forget_where, "a.b = 'v1' and select = 'v1'")

    rows = [row.asDict() for row in world.engine.session.sql(f"SELECT * FROM lake.{TABLE}").collect()]

    assert sorted(row["a.b"] for row in rows) == ["v0", "v2"]
    assert all(row[name] == row["a"] for row in rows for name in COLUMNS)
    filtered = world.engine.session.sql(f"SELECT count(*) FROM lake.{TABLE} WHERE `a.b` = 'v2'").collect()
    assert filtered[0][0] == 1
    world.assert_proved()


@pytest.mark.parametrize("name", sorted(RESERVED - CHANGELOG))
def test_spark_does_not_show_a_column_with_a_reserved_name(world: World, spark_lake: Lake, name: str) -> None:
    """What a log has under such a key could not be read: the table fails, or shows something else."""
    catalog = spark_lake.catalog()
    catalog.create_namespace_if_not_exists("bronze")
    made = f"bronze.reserved{name}"
    table = catalog.create_table(made, Schema(NestedField(1, name, LongType(), required=False)))
    table.append(table.scan().to_arrow().from_pylist([{name: 7}], schema=table.schema().as_arrow()))
    try:
        rows = world.engine.session.sql(f"SELECT * FROM lake.{made}").collect()
    except Exception as error:  # Spark's own
        assert name in str(error)
    else:
        assert [row[0] for row in rows] != [7], "Spark reads it: it need not be reserved"
    finally:
        catalog.drop_table(made)
