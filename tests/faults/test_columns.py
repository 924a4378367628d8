"""Columns with names and values that any language would trip over: they land, are removed, and prove."""

import duckdb
import pytest
from pyiceberg.types import StringType

from pipelines.landing.commit.planned import execute
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.operations.forget import plan_forget_where
from sls_io.values.errors import ConfigError
from sls_io.values.window import HOUR_S
from tests.worlds.landed_hours import numbers
from tests.worlds.one_logstore import World, group

COLUMNS = {
    "n": "long",
    "a.b": "string",
    "a": "string",
    "select": "string",
    "a-b.c": "string",
    "x" * 200: "string",
    "d": "double",
    "f": "float",
    "m": "decimal(38,10)",
    "day": "date",
    "at": "timestamp(iso, UTC)",
    "yes": "boolean",
}
VALUES: dict[str, tuple[str, str]] = {
    "a.b": ("x", "\"a.b\" = 'x'"),
    "a": ("line\nbreak", "a = E'line\\nbreak'"),
    "select": ("\\", "\"select\" = '\\'"),
    "a-b.c": ("it's \0 'here'", "a-b.c = E'it\\'s \\0 \\'here\\''"),
    "x" * 200: ("😀" * 17, f"{'x' * 200} = '{'😀' * 17}'"),
    "d": ("1e299", "d = 1e299"),
    "f": ("0.1", "f = 0.1"),
    "m": ("12345678901234567890.0000000001", "m = 12345678901234567890.0000000001"),
    "day": ("1582-10-04", "day = '1582-10-04'"),
    "at": ("2026-02-03T04:05:06.000007Z", "at = '2026-02-03T05:05:06.000007+01:00'"),
    "yes": ("true", "yes = true"),
}
"""Column -> what one log has in it, and the filter that takes this log."""


@pytest.fixture
def world(calm: World) -> World:
    """An hour with a log of its own for each column, and thirty others."""
    calm.logstore = calm.changed(columns=COLUMNS)
    logs = [{"n": str(i), column: text} for i, (column, (text, _)) in enumerate(VALUES.items())]
    others = [{"n": str(100 + i), "a.b": "y", "a": "b", "d": str(i), "day": "2026-01-01"} for i in range(30)]
    with calm.client as client:
        client.put_raw(group(logs))
        client.put_raw(group(others))
    calm.emulator.admin.advance(HOUR_S)
    calm.land()
    return calm


def remove(world: World, where: str) -> int:
    """Remove for good what a filter takes; how many rows."""
    with world.client as client:
        planned = plan_forget_where(world.lake, world.logstore, client, where)
        execute(world.lake, planned)
    return planned.view.rows


def test_a_row_is_removed_by_any_column_and_value_and_no_other_is(world: World) -> None:
    left = numbers(world)
    assert not [row for row in world.table_rows() if row["__error__"]]
    for number, (_, where) in enumerate(VALUES.values()):
        assert remove(world, where) == 1, where
        left.remove(number)
        assert numbers(world) == left, where
    world.assert_proved()
    said = duckdb.connect().execute(f"select count(*) from read_parquet({world.published()!r})").fetchall()
    assert said == [(30,)]


def test_a_healthy_file_is_not_called_damaged_for_a_column_with_a_dot(world: World) -> None:
    assert remove(world, "a.b = 'x'") == 1
    assert remove(world, "\"a.b\" = 'y' and n < 110") == 10
    world.assert_proved()


@pytest.mark.parametrize("column", ["__tags__", "__rest__"])
def test_a_map_column_is_asked_for_null_and_nothing_is_called_destroyed(world: World, column: str) -> None:
    rows = numbers(world)
    with pytest.raises(ConfigError, match="nothing to do"):
        remove(world, f"{column} is null and {column} is not null")
    with pytest.raises(ConfigError, match="a map: of such a column only"):
        remove(world, f"{column} = 'x'")
    assert numbers(world) == rows
    null = [row["n"] for row in world.table_rows() if row[column] is None]
    assert remove(world, f"{column} is not null or n = 0") == len(rows) - len(set(null) - {0})
    world.assert_proved()


def test_columns_that_other_engines_added_are_named_as_they_are(world: World) -> None:
    names = ["a b", '"q"', "ä", "0leading", "where", "日志", "y" * 200, ".dot", "it's"]
    with world.table.update_schema() as update:
        for name in names:
            update.add_column((name,), StringType())
    for name in names:
        quoted = name.replace('"', '""')
        with pytest.raises(ConfigError, match="nothing to do"):
            remove(world, f"\"{quoted}\" = 'x'")
        planned = world.asked(plan_forget_where, f'"{quoted}" is null and "{quoted}" is null and n = 101')
        assert planned.view.rows == 1 and name in planned.view.what
    assert remove(world, '"a b" is null and "日志" is null and n = 101') == 1
    world.land_more(10, pass_s=2 * HOUR_S)
    assert Maintainer(world.logstore, world.lake).execute(["compact"]).compacted
    world.assert_proved()
