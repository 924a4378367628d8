"""What a contract may say, the table's schema, and how it may change."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

from pipelines.landing.table.contract import Contract, arrow_schema, partition_spec
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError
from sls_io.values.window import Cursor
from sls_io.wire import loggroup
from sls_io.wire.page import Page


@pytest.mark.parametrize(
    ("columns", "cure"),
    [
        ({"__time__": "string"}, "leave it out"),
        ({"status code": "string"}, "leave it out"),
        ({"1st": "string"}, "leave it out"),
        ({"": "string"}, "leave it out"),
        ({"a" * 256: "string"}, "leave it out"),
        ({"Status": "int", "status": "int"}, "leave one out"),
        ({"n": "integer"}, "use one of string, boolean, int"),
        ({"n": "decimal(39,2)"}, "precision of 1 to 38"),
        ({"n": "decimal(5,6)"}, "scale of 0"),
        ({"n": "decimal(0,0)"}, "precision of 1"),
        ({"n": "decimal"}, "decimal\\(p,s\\)"),
        ({"n": "timestamp"}, "timestamp\\(iso, UTC\\)"),
        ({"n": "timestamp(%H:%M)"}, "needs %d, one of %Y, %y"),
        ({"n": "timestamp(%Y-%m-%d %Y, UTC)"}, "at most once"),
        ({"n": "timestamp(%Y-%m-%d %q, UTC)"}, "use each of"),
        ({"n": "timestamp(%Y-%m-%d %, UTC)"}, "use each of"),
        ({"n": "timestamp(%Y-%m-%d)"}, "add a zone"),
        ({"n": "timestamp(%Y-%m-%d %z, UTC)"}, "remove the zone"),
        ({"n": "timestamp(%Y-%m-%d, Mars/Olympus)"}, "use a name such as UTC"),
        ({"n": "timestamp(epoch_s, UTC)"}, "remove the zone"),
    ],
)
def test_a_contract_that_cannot_be_names_the_key_and_the_cure(columns: dict[str, str], cure: str) -> None:
    with pytest.raises(ConfigError, match=cure) as caught:
        Contract.from_columns(columns)
    assert any(name[:50] in str(caught.value) for name in columns)


def test_log_keys_with_dots_and_dashes_may_be_columns() -> None:
    names = {"user-agent": "string", "http.status": "int", "_x": "long", "A9": "double"}
    assert [c.name for c in Contract.from_columns(names).shown] == list(names)


def test_a_dropped_key_has_no_column_and_a_hashed_one_has_text() -> None:
    contract = Contract.from_columns({"ssn": "drop", "mail": "hash", "n": "int"})
    schema = contract.iceberg_schema()
    assert "ssn" not in schema.column_names
    assert schema.find_type("mail") == StringType()
    assert [d.pii for d in contract.declared] == ["drop", "hash", ""]


APACHE = "%d/%b/%Y:%H:%M:%S %z"
ALL = {
    "a": "string",
    "b": "boolean",
    "c": "int",
    "d": "long",
    "e": "float",
    "f": "double",
    "g": "decimal(9,2)",
    "h": "date",
    "i": f"timestamp({APACHE})",
    "j": "timestamp(epoch_ms)",
    "k.l-m": "hash",
    "n": "drop",
}


def test_field_ids_are_those_a_catalog_would_give() -> None:
    schema = Contract.from_columns(ALL).iceberg_schema()
    assert assign_fresh_schema_ids(schema) == schema
    required = [f.name for f in schema.fields if f.required]
    assert required == ["__origin__", "__shard__", "__cursor__", "__index__", "__receive_hour__"]


def test_the_arrow_form_is_pyicebergs_but_for_the_large_types() -> None:
    schema = Contract.from_columns(ALL).iceberg_schema()
    ours, theirs = arrow_schema(schema), schema_to_pyarrow(schema)
    assert ours.names == theirs.names
    assert [f.metadata for f in ours] == [f.metadata for f in theirs]
    assert [f.nullable for f in ours] == [f.nullable for f in theirs]
    assert "large" not in str(ours)
    assert ours.field("__tags__").type.key_field.metadata == theirs.field("__tags__").type.key_field.metadata


def test_contract_and_decoder_travel_to_another_process() -> None:
    contract = Contract.from_columns(ALL)
    assert pickle.loads(pickle.dumps(contract)) == contract
    decoder = pickle.loads(pickle.dumps(contract.decoder("o", contract.iceberg_schema())))
    assert decoder.decode(logs({"c": "5"}), hour=1).batch.column("c").to_pylist() == [5]


def logs(*rows: Mapping[str, str]) -> Page:
    """A page of one group with these logs."""
    group = b""
    for row in rows:
        log = b"\x08\x05"
        for key, value in row.items():
            pair = b"".join(
                tag + loggroup.varint(len(text.encode())) + text.encode()
                for tag, text in ((b"\x0a", key), (b"\x12", value))
            )
            log += b"\x12" + loggroup.varint(len(pair)) + pair
        group += loggroup.frame(log)
    raw = loggroup.frame(group)
    return Page(0, Cursor(1), Cursor(2), 1, len(raw), "", raw, None)


# --- evolution ---------------------------------------------------------------------------------


def evolved(before: dict[str, str], after: dict[str, str], **more: Any) -> Schema | None:
    return Contract.from_columns(after).evolve(Contract.from_columns(before).iceberg_schema(), **more)


@pytest.mark.parametrize("after", [{"a": "int"}, {}, {"a": "int", "p": "drop"}, {"b": "hash", "a": "int"}])
def test_a_contract_the_table_already_fits_changes_nothing(after: dict[str, str]) -> None:
    assert evolved({"a": "int", "b": "string"}, after) is None


def test_a_new_key_is_a_nullable_column_with_a_new_id_beside_the_others() -> None:
    before = Contract.from_columns({"a": "int"}).iceberg_schema()
    after = evolved({"a": "int"}, {"z": "date", "a": "int", "b": "decimal(5,1)"})
    assert after is not None and after.schema_id == before.schema_id + 1
    names = [f.name for f in after.fields]
    assert names[names.index("a") :] == ["a", "z", "b", "__rest__", "__error__", "__raw__"]
    new = [after.find_field(n) for n in ("z", "b")]
    assert [f.field_id for f in new] == [before.highest_field_id + 1, before.highest_field_id + 2]
    assert not any(f.required for f in new)
    assert [f for f in after.fields if f not in new] == list(before.fields)


def test_new_ids_begin_after_those_of_columns_that_are_gone() -> None:
    after = evolved({}, {"a": "int"}, last_column_id=500, schema_id=9)
    assert after is not None
    assert (after.find_field("a").field_id, after.schema_id) == (501, 9)


def test_int_and_float_widen_under_the_same_id() -> None:
    before = Contract.from_columns({"a": "int", "b": "float"}).iceberg_schema()
    after = evolved({"a": "int", "b": "float"}, {"a": "long", "b": "double"})
    assert after is not None
    assert (after.find_type("a"), after.find_type("b")) == (LongType(), DoubleType())
    assert [f.field_id for f in after.fields] == [f.field_id for f in before.fields]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("long", "int"),
        ("double", "float"),
        ("int", "double"),
        ("int", "string"),
        ("string", "int"),
        ("string", "date"),
        ("decimal(5,2)", "decimal(9,2)"),
        ("timestamp(epoch_s)", "string"),
        ("int", "hash"),
    ],
)
def test_any_other_change_is_refused_and_names_the_way(before: str, after: str) -> None:
    with pytest.raises(ConfigError, match="column 'a'") as caught:
        evolved({"a": before}, {"a": after})
    assert after in str(caught.value)
    assert [cure.words for cure in caught.value.cures if isinstance(cure, Call)] == [
        ("table", "columns", "--retype", "a")
    ]


def test_several_types_that_changed_are_named_at_once_with_one_command() -> None:
    with pytest.raises(
        ConfigError, match=r"column 'a'.*; column 'b': the table has string, .* date\."
    ) as caught:
        evolved({"a": "int", "b": "string", "c": "int"}, {"a": "string", "b": "date", "c": "long"})
    assert [cure.words for cure in caught.value.cures if isinstance(cure, Call)] == [
        ("table", "columns", "--retype", "a", "--retype", "b")
    ]


def test_another_format_of_the_same_type_changes_nothing() -> None:
    assert evolved({"t": "timestamp(epoch_s)"}, {"t": "timestamp(iso)"}) is None


def test_a_twin_of_a_column_that_was_removed_is_refused() -> None:
    with pytest.raises(ConfigError, match="'Status'"):
        evolved({"Status": "int"}, {"status": "int"})


def test_a_table_of_someone_else_is_refused() -> None:
    contract = Contract.from_columns({})
    with pytest.raises(ConfigError, match="__origin__"):
        contract.evolve(Schema(NestedField(1, "a", StringType())))
    fields = contract.iceberg_schema().fields
    theirs = Schema(*fields, NestedField(99, "mine", IntegerType(), required=True))
    with pytest.raises(ConfigError, match="'mine' is required"):
        contract.evolve(theirs)
    assert contract.evolve(Schema(*fields, NestedField(99, "mine", IntegerType()))) is None


def test_a_removed_key_keeps_its_column_and_its_values_go_to_the_rest() -> None:
    schema = Contract.from_columns({"a": "int", "b": "int"}).iceberg_schema()
    decoder = Contract.from_columns({"b": "int"}).decoder("o", schema)
    batch = decoder.decode(logs({"a": "1", "b": "2"}), hour=1).batch
    (row,) = batch.to_pylist()
    assert (row["a"], row["b"], row["__rest__"], row["__error__"]) == (None, 2, [("a", "1")], None)


# --- the table itself --------------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    found = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.sqlite", warehouse=f"file://{tmp_path}/warehouse")
    found.create_namespace("bronze")
    return found


def test_files_with_the_batches_as_they_are_read_back_through_the_table(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    contract = Contract.from_columns(ALL)
    schema = contract.iceberg_schema()
    table = catalog.create_table(
        "bronze.t", schema, partition_spec=partition_spec(schema), properties={"format-version": "2"}
    )
    assert table.schema() == schema and table.format_version == 2
    assert table.spec() == PartitionSpec(*partition_spec(schema).fields)
    row = {"a": "x", "b": "true", "c": "1", "d": "2", "e": "1.5", "f": "2.5", "g": "3.25", "h": "2024-02-29"}
    row |= {"i": "11/Dec/2024:10:00:01 +0800", "j": "1700000000000", "k.l-m": "p", "n": "secret", "o": "rest"}
    batch = contract.decoder("o-1", table.schema()).decode(logs(row, {"c": "abc"}), hour=489_000).batch
    path = f"{tmp_path}/one.parquet"
    with pq.ParquetWriter(path, batch.schema, compression="zstd") as writer:
        writer.write_batch(batch)
    table.add_files([path])
    assert [f.file.partition[1] for f in table.scan().plan_files()] == [489_000]
    read = table.scan().to_arrow().cast(batch.schema)
    assert read.equals(pa.Table.from_batches([batch]))
    assert len(table.scan(row_filter="g = 3.25").to_arrow()) == 1


def test_a_table_evolves_and_older_files_still_read(catalog: SqlCatalog, tmp_path: Path) -> None:
    first = Contract.from_columns({"a": "int", "b": "float"})
    schema = first.iceberg_schema()
    table = catalog.create_table("bronze.t", schema, partition_spec=partition_spec(schema))

    def add(contract: Contract, name: str, row: dict[str, str]) -> None:
        batch = contract.decoder("o", table.schema()).decode(logs(row), hour=1).batch
        pq.write_table(pa.Table.from_batches([batch]), f"{tmp_path}/{name}.parquet")
        table.add_files([f"{tmp_path}/{name}.parquet"])

    add(first, "one", {"a": "1", "b": "0.5"})
    second = Contract.from_columns({"a": "long", "b": "double", "c.d": "string"})
    wanted = second.evolve(table.schema(), last_column_id=table.metadata.last_column_id)
    assert wanted is not None
    with table.update_schema() as update:
        update.union_by_name(wanted)
    assert table.schema().as_struct().fields[9:11] == wanted.as_struct().fields[9:11]
    assert second.evolve(table.schema()) is None
    add(second, "two", {"a": str(2**40), "b": "1e300", "c.d": "x"})
    read = table.scan(selected_fields=("a", "b", "c.d")).to_arrow().sort_by("a")
    assert read.to_pydict() == {"a": [1, 2**40], "b": [0.5, 1e300], "c.d": [None, "x"]}
