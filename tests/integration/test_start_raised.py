"""`start` that somebody raises after the first landing changes nothing of hours that have landed."""

from pathlib import Path

import pytest

from pipelines.cli.main import EXIT_USAGE
from pipelines.landing.ledger.codec import ASKED_PROPERTY_PREFIX
from pipelines.landing.operations.seek import plan_seek
from tests.worlds.changed_table import expire_all
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0, World
from tests.worlds.three_hours import HOUR, NEXT, fill, hours_in_table, replaced

LATER = "2026-09-21-16:00"
EARLIER = "2026-09-21-13:00"


@pytest.fixture
def raised(world: World, command: Command, tmp_path: Path) -> World:
    """The history began at HOUR, with ten rows in each of three hours; `start` is the third by now."""
    world.logstore = world.changed(start=HOUR)
    world.landed_at(2, 64, 124, more=60)
    defs = tmp_path / "defs.yaml"
    lines = defs.read_text().splitlines()
    defs.write_text("\n".join(f"  start: {LATER}" if "start:" in line else line for line in lines))
    world.logstore = world.changed(start=LATER)
    return world


def test_an_hour_that_was_taken_back_before_the_raised_start_lands_again_as_the_undo_says(
    raised: World, command: Command
) -> None:
    done = command("table", "undo", "--hour", NEXT, "--execute")
    assert done["code"] == 0 and hours_in_table(raised) == [0, 2]

    dry = command("backfill", "--from", NEXT, "--dry-run")
    assert dry["code"] == 0 and {part["hour"] for part in dry["coming"]} == {HOUR0 + 1}
    assert fill(raised) == 10

    raised.land()
    raised.assert_sound()


def test_hours_before_the_raised_start_are_replaced_and_read_again(raised: World, command: Command) -> None:
    for mode in ("replace", "errors", "rest"):
        dry = command("backfill", "--from", HOUR, "--mode", mode)
        assert dry["code"] == 0 and not dry["executed"], (mode, dry["error"])
    assert replaced(raised).rows == 10
    raised.land()
    raised.assert_sound()


def test_rows_that_are_there_are_within_the_history_when_nothing_else_tells(
    raised: World, command: Command
) -> None:
    """As a table is whose older landings are expired, of a release that did not keep what was asked for."""
    expire_all(raised)
    with raised.table.transaction() as change:
        change.remove_properties(*(x for x in raised.table.properties if x.startswith(ASKED_PROPERTY_PREFIX)))
    for mode in ("replace", "rest"):
        assert command("backfill", "--from", HOUR, "--mode", mode)["code"] == 0, mode


def test_before_the_history_nothing_lands(raised: World, command: Command) -> None:
    for more in (("--dry-run",), ("--local",), ("--mode", "rest")):
        refused = command("backfill", "--from", EARLIER, *more)
        assert refused["code"] == EXIT_USAGE and f"starts at {HOUR}: nothing before" in refused["error"]


def test_dagster_has_no_partitions_of_these_hours_so_the_way_without_it_is_named(
    raised: World, command: Command
) -> None:
    for more in ((), ("--mode", "replace", "--execute")):
        refused = command("backfill", "--from", NEXT, *more)
        assert refused["code"] == EXIT_USAGE and f"began at {HOUR}: add --local" in refused["error"]


def test_shards_go_back_to_hours_before_the_raised_start(raised: World) -> None:
    back = {shard: entry.start for shard, entry in raised.ledger.shards.items()}
    planned = raised.asked(plan_seek, back)
    assert (planned.hours.start, len(planned.gone)) == (HOUR0, 0)
