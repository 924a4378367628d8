"""Other hands change a table: what still fits lands on, everything else is refused before any work, in one
sentence that every verb says, with what takes the change back."""

import json
import sqlite3
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.update import RemovePropertiesUpdate, SetCurrentSchemaUpdate, SetPropertiesUpdate
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
)
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from pipelines.cli.main import EXIT_USAGE
from pipelines.landing.commit.planned import execute
from pipelines.landing.hours import hour_text
from pipelines.landing.operations.mend import plan_mend
from pipelines.landing.operations.replace import plan_replace
from pipelines.landing.operations.undo import plan_undo
from sls_io.values.errors import ConfigError, LedgerBroken
from sls_io.values.window import HOUR_S
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World, group
from tests.worlds.printed_cures import named

Change = Callable[[World], None]


@pytest.fixture
def world(calm: World) -> World:
    """Two receive hours of 20 rows, and 20 logs to come."""
    return calm.land_hours(2, more=20)


def schema(change: Callable[[Any], object]) -> Change:
    """A change of the schema, as another engine makes it."""

    def made(world: World) -> None:
        with world.table.update_schema(allow_incompatible_changes=True) as update:
            change(update)

    return made


def spec(change: Callable[[Any], object]) -> Change:
    """A change of the partitioning."""

    def made(world: World) -> None:
        with world.table.update_spec() as update:
            change(update)

    return made


def properties(**values: str) -> Change:
    """Table properties; `__` stands for a hyphen and `_` for a dot."""
    named = {name.replace("__", "-").replace("_", "."): value for name, value in values.items()}

    def made(world: World) -> None:
        update = SetPropertiesUpdate(updates=named)
        world.table.catalog.commit_table(world.table, (), (update,))

    return made


def metadata(change: Callable[[dict[str, Any]], object]) -> Change:
    """A new metadata file that PyIceberg itself would not write."""

    def made(world: World) -> None:
        old = Path(world.table.metadata_location.removeprefix("file://"))
        document = json.loads(old.read_text())
        change(document)
        number = int(old.name.split("-")[0]) + 1
        new = old.with_name(f"{number:05d}-{uuid.uuid4()}.metadata.json")
        new.write_text(json.dumps(document))
        point_at(world, f"file://{new}")

    return made


def point_at(world: World, location: str) -> None:
    """The catalog names this metadata file."""
    path = world.lake.sqlite_path
    assert path is not None
    with sqlite3.connect(path) as connection:
        connection.execute("update iceberg_tables set metadata_location = ?", (location,))
    connection.close()


def required(document: dict[str, Any]) -> None:
    """A required column, as an engine of a later release may add one with a default."""
    added = json.loads(json.dumps(document["schemas"][-1]))
    document["last-column-id"] += 1
    added["schema-id"] += 1
    added["fields"].append(
        {"id": document["last-column-id"], "name": "must", "required": True, "type": "string"}
    )
    document["schemas"].append(added)
    document["current-schema-id"] = added["schema-id"]


def added_anew(document: dict[str, Any]) -> None:
    """A column of ours that was dropped and added with the same name and type."""
    other = json.loads(json.dumps(document["schemas"][-1]))
    other["schema-id"] += 1
    document["last-column-id"] += 1
    (field,) = (f for f in other["fields"] if f["name"] == "__raw__")
    field["id"] = document["last-column-id"]
    document["schemas"].append(other)
    document["current-schema-id"] = other["schema-id"]


def retyped(document: dict[str, Any]) -> None:
    other = json.loads(json.dumps(document["schemas"][-1]))
    other["schema-id"] += 1
    (field,) = (f for f in other["fields"] if f["name"] == "n")
    field["type"] = "string"
    document["schemas"].append(other)
    document["current-schema-id"] = other["schema-id"]


FITS: dict[str, Change] = {
    "columns in another order": schema(lambda u: (u.move_first("n"), u.move_after("__origin__", "status"))),
    "strange columns": schema(
        lambda u: [u.add_column((n,), StringType()) for n in ("a b", '"q"', "ä", "1x")]
    ),
    "identifier fields": schema(lambda u: u.set_identifier_fields("__shard__", "__cursor__", "__index__")),
    "the shard in the partitioning": spec(lambda u: u.add_field("__shard__", IdentityTransform(), "shard")),
    "a day in the partitioning": spec(lambda u: u.add_field("__receive_hour__", DayTransform(), "day")),
    "a part of the origin": spec(lambda u: u.add_field("__origin__", TruncateTransform(3), "o3")),
    "a data folder elsewhere": properties(write_data_path="file:///nowhere/data"),
    "metadata in its own folder, by name": lambda world: properties(
        write_metadata_path=f"{world.table.location()}/metadata/"
    )(world),
    "object storage layout": properties(write_object__storage_enabled="true"),
    "no statistics": properties(write_metadata_metrics_default="none"),
    "gzipped metadata": properties(write_metadata_compression__codec="gzip"),
    "manifests in zstd": properties(write_avro_compression__codec="zstd"),
    "a tag that became a branch": metadata(lambda d: d["refs"]["sls-lake"].update(type="branch")),
    "a ref to nowhere": metadata(lambda d: d["refs"].update(x={"snapshot-id": 5, "type": "tag"})),
}


@pytest.mark.parametrize("change", FITS.values(), ids=FITS)
def test_what_still_fits_lands_on_and_proves(world: World, command: Command, change: Change) -> None:
    change(world)
    assert command("verify")["ok"]
    assert world.land().rows == 20
    world.assert_proved()
    assert world.identities().keys() == world.truth().keys() and sum(world.identities().values()) == 60
    said = command("table", "forget", "--where", "n = 3", "--execute")
    assert said["executed"] and said["rows"] == 1
    assert command("verify")["ok"]


HOURS = "ADD PARTITION FIELD hours(__receive_hour__)"
ORIGIN = "ADD PARTITION FIELD __origin__"


def day_for_hour(update: Any) -> None:
    update.remove_field("__receive_hour___hour")
    update.add_field("__receive_hour__", DayTransform(), "day")


UNUSABLE: dict[str, tuple[Change, str, str]] = {
    "no hour in the partitioning": (
        spec(lambda u: u.remove_field("__receive_hour___hour")),
        "not partitioned by hours(__receive_hour__)",
        HOURS,
    ),
    "no origin in the partitioning": (
        spec(lambda u: u.remove_field("__origin__")),
        "not partitioned by __origin__",
        ORIGIN,
    ),
    "no partitioning": (
        spec(lambda u: (u.remove_field("__origin__"), u.remove_field("__receive_hour___hour"))),
        "not partitioned by __origin__ and hours(__receive_hour__)",
        HOURS,
    ),
    "days in the place of hours": (spec(day_for_hour), "not partitioned by hours(__receive_hour__)", HOURS),
    "a part of the origin in its place": (
        spec(lambda u: (u.remove_field("__origin__"), u.add_field("__origin__", TruncateTransform(3), "o3"))),
        "not partitioned by __origin__",
        ORIGIN,
    ),
    "metadata elsewhere": (
        lambda world: properties(write_metadata_path=f"{world.table.location()}-elsewhere")(world),
        "'write.metadata.path'",
        "UNSET TBLPROPERTIES ('write.metadata.path')",
    ),
    "format version 3": (
        metadata(lambda d: d.update({"format-version": 3, "next-row-id": 40})),
        "format version 3",
        "another `table`",
    ),
    "a renamed system column": (
        schema(lambda u: u.rename_column("__shard__", "shard")),
        "renamed to 'shard'",
        "sls-lake table columns --restore --execute",
    ),
    "a dropped system column": (
        schema(lambda u: u.delete_column("__index__")),
        "'__index__' of table",
        "sls-lake table columns --restore --execute",
    ),
    "a system column under another id": (
        metadata(added_anew),
        "'__raw__' of table",
        "sls-lake table columns --restore --execute",
    ),
    "a required column": (metadata(required), "'must' of table", "DROP NOT NULL"),
    "a codec nobody knows": (
        properties(write_avro_compression__codec="lzo"),
        "'write.avro.compression-codec'",
        "UNSET TBLPROPERTIES",
    ),
    "metrics nobody knows": (
        properties(write_metadata_metrics_default="all"),
        "'write.metadata.metrics.default'",
        "UNSET TBLPROPERTIES",
    ),
    "a location provider nobody has": (
        metadata(lambda d: d["properties"].update({"write.py-location-provider.impl": "no.such.Provider"})),
        "'write.py-location-provider.impl'",
        "UNSET TBLPROPERTIES",
    ),
    "a number that is none": (
        metadata(lambda d: d["properties"].update({"write.metadata.previous-versions-max": "many"})),
        "'write.metadata.previous-versions-max'",
        "UNSET TBLPROPERTIES",
    ),
    "a flag that is none": (
        metadata(lambda d: d["properties"].update({"write.object-storage.enabled": "maybe"})),
        "'write.object-storage.enabled'",
        "UNSET TBLPROPERTIES",
    ),
    "a mapping of names that is none": (
        properties(schema_name__mapping_default="nonsense"),
        "'schema.name-mapping.default'",
        "UNSET TBLPROPERTIES",
    ),
}


@pytest.mark.parametrize(("change", "says", "cure"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_table_that_cannot_be_written_is_refused_by_every_verb_before_any_work(
    world: World, command: Command, change: Change, says: str, cure: str
) -> None:
    before, location = world.files(), world.table.metadata_location
    hour = hour_text(min(w.window.hour for _, windows in world.landings() for w in windows))
    pulls = world.watch_pulls()
    change(world)

    with pytest.raises(LedgerBroken) as raised:
        world.land()

    assert says in str(raised.value) and cure in named(raised.value.cures)
    assert (pulls.asked, world.files()) == ([], before), "no page was pulled and no file written"
    for verb in (
        ("verify",),
        ("land", "--dry-run"),
        ("describe",),
        ("landings", "show"),
        ("table", "undo", "--hour", hour, "--execute"),
        ("table", "forget", "--where", "n = 3", "--execute"),
        ("table", "maintain", "--execute"),
        ("backfill", "--mode", "replace", "--local", "--from", hour),
        ("backfill", "--mode", "errors", "--local", "--from", hour),
    ):
        said = command(*verb)
        told = said["error"] + json.dumps(said, ensure_ascii=False)
        assert says in told and cure in told, (verb, said)
        assert "did not foresee" not in told, (verb, said)
        assert said["code"] != 0 or verb == ("landings", "show"), (verb, said)
    point_at(world, location)
    world.assert_next_lands(20)


def test_a_system_column_that_its_own_engine_puts_back_lands_on(world: World) -> None:
    schema(lambda u: u.rename_column("__tags__", "tags"))(world)
    schema(lambda u: u.rename_column("tags", "__tags__"))(world)
    schema(lambda u: u.delete_column("__raw__"))(world)
    with pytest.raises(LedgerBroken, match="'__raw__'"):
        world.land()
    world.table.catalog.commit_table(world.table, (), (SetCurrentSchemaUpdate(schema_id=0),))
    world.assert_next_lands(20)


def test_a_property_that_is_taken_back_lets_landings_go_on(world: World) -> None:
    properties(write_avro_compression__codec="lzo")(world)
    with pytest.raises(LedgerBroken, match="cannot follow"):
        world.land()
    update = RemovePropertiesUpdate(removals=["write.avro.compression-codec"])
    world.table.catalog.commit_table(world.table, (), (update,))
    assert world.land().rows == 20


def partition_again(world: World) -> None:
    """What the statements that a refusal prints do, as any engine's API does it."""
    transforms: dict[str, tuple[str, Transform[Any, Any]]] = {
        ORIGIN: ("__origin__", IdentityTransform()),
        HOURS: ("__receive_hour__", HourTransform()),
    }
    with pytest.raises(LedgerBroken) as raised:
        world.land()
    with world.table.update_spec() as update:
        for statement, (column, transform) in transforms.items():
            if statement in named(raised.value.cures):
                update.add_field(column, transform, f"again_{column}")


def replaced(world: World, hour: int) -> None:
    """As `sls-lake backfill --mode replace` does it, without a JVM."""
    world.carried_out(plan_replace, range(hour, hour + 1))


def nothing(world: World) -> None:
    """As sls-lake made it."""


def shard_and_back(world: World) -> None:
    spec(lambda u: u.add_field("__shard__", IdentityTransform(), "shard"))(world)
    spec(lambda u: u.remove_field("shard"))(world)


PARTITIONED: dict[str, Change] = {
    "as it was made": nothing,
    **{name: UNUSABLE[name][0] for name in UNUSABLE if name.startswith(("no ", "days", "a part"))},
    **{name: FITS[name] for name in FITS if name.startswith(("the shard", "a day", "a part"))},
    "a shard that came and went": shard_and_back,
}


@pytest.mark.parametrize("change", PARTITIONED.values(), ids=PARTITIONED)
def test_a_table_partitioned_anew_is_landed_compacted_taken_back_and_proven(
    world: World, command: Command, change: Change
) -> None:
    change(world)
    if change in [UNUSABLE[name][0] for name in UNUSABLE]:
        partition_again(world)
    for _ in range(2):
        world.land_more(30)
    world.emulator.admin.advance(HOUR_S)
    world.land_more(10, pass_s=HOUR_S)
    hours = sorted({w.window.hour for _, windows in world.landings() for w in windows if w.rows})

    done = command("table", "maintain", "--only", "compact", "--execute")
    assert done["code"] == 0 and done["compacted"], done
    world.assert_whole()
    for shard in (0, 1):
        shown = world.table.scan(row_filter=f"__shard__ = {shard}").to_arrow()
        assert len(shown) == sum(s == shard for s, _, _ in world.identities()), "a filter hides rows"
    assert [n for n in command("verify")["notes"] if "other origins" in n] == []
    said = command("table", "undo", "--hour", hour_text(hours[0]), "--execute")
    assert said["executed"] and said["rows"] == 20, said
    for hour in hours[1:3]:
        replaced(world, hour)
    said = command("table", "forget", "--before", hour_text(hours[2]), "--execute")
    assert said["executed"] and said["rows"] == 20, said
    assert command("verify")["ok"]


def rewritten(world: World, *filters: str) -> None:
    """Another engine writes the table's files anew while it is not partitioned, one file for each filter."""
    names = [field.name for field in world.table.spec().fields]
    spec(lambda u: [u.remove_field(name) for name in names])(world)
    for rows in filters:
        table = world.table
        table.overwrite(table.scan(row_filter=rows).to_arrow(), overwrite_filter=rows)
    partition_again(world)


def test_files_of_one_hour_that_say_nothing_of_it_are_taken_back_and_replaced(
    world: World, command: Command
) -> None:
    first, second, *_ = hours = sorted({w.window.hour for _, ws in world.landings() for w in ws if w.rows})
    edge = datetime.fromtimestamp(second * HOUR_S, UTC).isoformat()
    rewritten(world, f"__receive_hour__ < '{edge}'", f"__receive_hour__ >= '{edge}'")
    proof = command("verify")
    assert proof["ok"] and not [n for n in proof["notes"] if "other origins" in n], proof
    for hour in hours:
        replaced(world, hour)
    rewritten(world, f"__receive_hour__ < '{edge}'")
    assert command("table", "undo", "--hour", hour_text(first), "--execute")["rows"] == 20
    assert command("verify")["ok"]


def test_a_file_of_several_hours_is_told_with_what_parts_it(world: World, command: Command) -> None:
    hours = sorted({w.window.hour for _, ws in world.landings() for w in ws if w.rows})
    rewritten(world, "__shard__ >= 0")
    for verb in (
        ("table", "undo", "--hour", hour_text(hours[0])),
        ("backfill", "--mode", "replace", "--local", "--from", hour_text(hours[0])),
        ("table", "forget", "--before", hour_text(hours[1])),
    ):
        said = command(*verb)
        assert said["code"] == EXIT_USAGE and "rewrite_data_files" in said["error"], said
    both = f"{hour_text(hours[0])}..{hour_text(hours[-1])}"
    assert command("table", "undo", "--hour", both)["rows"] == 40, "together they are whole"
    assert command("verify")["ok"]
    table = world.table
    table.overwrite(table.scan().to_arrow())
    assert command("table", "undo", "--hour", hour_text(hours[0]), "--execute")["rows"] == 20
    assert command("verify")["ok"]


NOT_LANDED: dict[str, tuple[Change, str]] = {
    "a partitioning by a log's value": (
        spec(lambda u: u.add_field("n", BucketTransform(4), "bucket")),
        "partitioned by 'n'",
    ),
    "a twin in another case": (schema(lambda u: u.add_column(("N",), StringType())), "the table has 'N'"),
    "a column that was widened": (
        schema(lambda u: u.update_column("status", LongType())),
        "the table has long",
    ),
}


@pytest.mark.parametrize(("change", "says"), NOT_LANDED.values(), ids=NOT_LANDED)
def test_what_the_contract_cannot_follow_is_said_by_plan_and_verify_too(
    world: World, command: Command, change: Change, says: str
) -> None:
    change(world)
    with pytest.raises(ConfigError, match=says):
        world.land()
    hours = world.hours
    span = ("--from", hour_text(hours.start), "--to", hour_text(hours.stop - 1))
    for dry in (("land", "--dry-run"), ("backfill", "--mode", "replace", "--local", *span)):
        assert says in command(*dry)["error"]
    proof = command("verify")
    assert proof["ok"] and any("landings are refused" in n and says in n for n in proof["notes"])


def test_rows_whose_partition_says_a_value_of_them_are_not_read_again(calm: World) -> None:
    """Read again the value is another one, and the file would stand in the partition of the old one."""
    calm.logstore = calm.changed(columns={"n": "long", "at": "timestamp(%d/%m/%Y, UTC)"})
    with calm.client as client:
        client.put_raw(group([{"n": "1", "at": "2026-02-03T04:05:06Z"}]))
    calm.emulator.admin.advance(HOUR_S)
    calm.land()
    spec(lambda u: u.add_field("at", DayTransform(), "day"))(calm)
    calm.table.overwrite(calm.table.scan().to_arrow())
    fixed = calm.changed(columns={"n": "long", "at": "timestamp(iso, UTC)"})
    hours = {w.window.hour for _, windows in calm.landings() for w in windows if w.rows}
    span = range(min(hours), max(hours) + 1)
    with calm.client as client, pytest.raises(ConfigError, match=r"partitioned by 'at'.*rewrite_data_files"):
        plan_mend(calm.lake, fixed, client, span)

    spec(lambda u: u.remove_field("day"))(calm)
    calm.table.overwrite(calm.table.scan().to_arrow())
    with calm.client as client:
        execute(calm.lake, plan_mend(calm.lake, fixed, client, span))
    assert [row["at"].isoformat() for row in calm.table_rows()] == ["2026-02-03T04:05:06+00:00"]
    calm.assert_proved()


def test_a_column_of_another_type_is_not_a_damaged_file(world: World, command: Command) -> None:
    """The files hold numbers, the table says text: no reader can follow, and no file is to blame."""
    metadata(retyped)(world)
    said = command("table", "forget", "--where", "n = '3'", "--execute")
    assert said["code"] != 0 and "it is whole" in said["error"] and "sls-lake table" not in said["error"]
    with pytest.raises(ConfigError, match="the table has string"):
        world.land()


def test_metadata_that_is_whole_is_not_called_cut_off(world: World, command: Command) -> None:
    location = world.table.metadata_location
    metadata(lambda d: d.update({"format-version": 9}))(world)
    for verb in (("verify",), ("land", "--dry-run"), ("landings", "show")):
        said = command(*verb)
        told = said["error"] + json.dumps(said)
        assert "is whole" in told and "cut off" not in told, (verb, said)
    point_at(world, location)
    assert command("verify")["ok"]


def test_a_table_without_its_branch_main_is_rolled_back_to_its_newest_landing(
    world: World, command: Command
) -> None:
    metadata(lambda d: (d["refs"].pop("main"), d.update({"current-snapshot-id": -1})))(world)
    said = command("table", "forget", "--where", "n = 3")
    words = said["error"].rpartition("sls-lake table rollback ")[2].split()

    done = command("table", "rollback", words[0], "--execute")

    assert done["executed"], done
    world.assert_next_lands(20)


def test_values_of_another_engine_that_leave_with_an_hour_are_counted_in_nested_columns_too(
    world: World,
) -> None:
    """Files have statistics of what is inside of a list, a map or a struct, and none of itself."""
    nested: dict[str, Any] = {
        "list": ListType(901, StringType(), element_required=False),
        "map": MapType(902, StringType(), 903, StringType(), value_required=False),
        "struct": StructType(NestedField(904, "a", StringType()), NestedField(905, "b", StringType())),
        "empty": ListType(906, StringType(), element_required=False),
    }
    with world.table.update_schema() as update:
        for name, kind in nested.items():
            update.add_column(name, kind)
    rows = [dict(row) for row in world.table.scan().to_arrow().to_pylist()]
    for row in rows[::2]:
        row |= {"list": ["x"], "map": [("k", "v")], "struct": {"a": None, "b": "y"}, "empty": []}
    world.table.overwrite(pa.Table.from_pylist(rows, world.table.schema().as_arrow()))

    hours = sorted({row["__receive_hour__"] for row in rows})
    first = int(hours[0].timestamp()) // HOUR_S
    view = world.asked(plan_undo, range(first, first + len(hours))).view
    assert view.others == dict.fromkeys(("list", "map", "struct"), len(rows[::2]))
