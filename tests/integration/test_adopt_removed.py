"""What `table forget` removed does not come back when a ledger begins anew behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.engine import InProcess
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.operations.forget import plan_forget_where
from sls_io.emulator import start
from tests.worlds.command_line import Command
from tests.worlds.landed_hours import numbers
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World, make_lake, new_world
from tests.worlds.two_hours import snapshots

REMOVED = range(7, 10)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One shard with ten landed rows of the first hour, of which the last three were removed for good, and
    three logs of the same hour that came after; landings run in this process."""
    with start(now=HOUR0_S + 60.0) as emulator:
        world = new_world(emulator, make_lake(tmp_path / "lake"), InProcess(), shards=1)
        world.land_more(10, logs_a_group=1, until_s=HOUR0_S + 120)
        world.carried_out(plan_forget_where, "n >= 7")
        world.put(3, logs_a_group=1, until_s=HOUR0_S + 240)
        yield world


def lose_the_ledger(world: World) -> None:
    """A row goes by hand, and the tag: no ledger is proven by the rows any more."""
    world.table.delete("n == 3")
    world.table.manage_snapshots().remove_tag(TAG).commit()


@pytest.mark.parametrize("at", ["rows", "begin", "latest", "2026-09-21-13:00"])
def test_a_ledger_that_begins_anew_begins_after_the_rows_that_were_removed(
    world: World, command: Command, at: str
) -> None:
    lose_the_ledger(world)
    kept = [n for n in numbers(world) if n < 7]

    done = command("table", "adopt", "--at", at, "--without-missing", "--execute")

    later = [] if at == "latest" else [10, 11, 12]
    assert done["code"] == 0
    world.land()
    assert numbers(world) == [*kept, *later], "what followed in the hour has landed, what was removed has not"
    world.assert_proved()


def test_a_start_that_a_person_names_is_not_before_the_rows_that_were_removed(
    world: World, command: Command
) -> None:
    last = max(row["__cursor__"] for row in world.table_rows())
    lose_the_ledger(world)
    verb = ("table", "adopt", "--without-missing", "--execute", "--start")

    refused = command(*verb, f"0={last + 1}")

    assert refused["code"] == 2 and f"the first cursor after them is {last + 4}" in refused["error"]
    assert command(*verb, f"0={last + 4}")["code"] == 0
    world.land()
    assert not set(numbers(world)) & set(REMOVED)


def test_no_backfill_brings_removed_rows_from_before_a_ledger_that_began_anew(
    world: World, command: Command
) -> None:
    """Nothing is left of the shard, so no adopted rows tell that it had any."""
    world.carried_out(plan_forget_where, "n != 3")
    lose_the_ledger(world)
    assert numbers(world) == []

    assert command("table", "adopt", "--at", "latest", "--without-missing", "--execute")["code"] == 0
    world.at(HOUR0_S + 3600 + 120)
    world.land(mode="fill", hours=(HOUR0, HOUR0 + 1))

    assert not set(numbers(world)) & {n for n in range(10) if n != 3}, "none of the removed rows"


def test_a_table_that_may_be_from_before_a_removal_is_not_adopted_while_a_landing_after_it_is_kept(
    world: World, command: Command
) -> None:
    """`main` is put back to before the removal, somebody writes to it, and its landings are expired."""
    older = snapshots(world)
    removal = world.table.metadata.refs[TAG].snapshot_id
    world.table.manage_snapshots().rollback_to_snapshot(older[-2]).commit()
    world.table.append(world.table.scan().to_arrow().slice(0, 1))
    world.table.delete("n == 3")
    world.table.maintenance.expire_snapshots().by_ids(
        [s for s in older if s not in (removal, world.table.metadata.current_snapshot_id)]
    ).commit()
    assert set(numbers(world)) >= set(REMOVED), "they are there again"

    refused = command("table", "adopt", "--at", "rows", "--without-missing", "--execute")

    assert refused["code"] == 1 and f"sls-lake table rollback {removal}" in refused["error"]
    assert command("table", "rollback", str(removal), "--execute")["code"] == 0
    world.land()
    assert numbers(world) == [n for n in range(13) if n not in REMOVED]
    world.assert_proved()
