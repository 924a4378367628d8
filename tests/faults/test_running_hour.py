"""A seek back within the hour that runs, as in each first hour of a deployment."""

from collections.abc import Callable, Mapping

import pytest

from pipelines.landing.commit.planned import Tools, execute
from pipelines.landing.hours import hour_text
from pipelines.landing.operations.pause import plan_pause, plan_resume
from pipelines.landing.operations.seek import plan_seek
from sls_io.values.errors import LandingConflict
from sls_io.values.window import HOUR_S, Cursor
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World
from tests.worlds.two_runs import At

TO = ("checkpoints", "set", "--to", "table", "--from")


@pytest.fixture
def world(calm: World) -> World:
    """A new deployment: 20 logs landed a quarter of an hour ago, 10 some minutes ago, and 15 to come."""
    calm.emulator.admin.advance(HOUR_S + 60 - calm.emulator.admin.now() % HOUR_S)
    calm.land_more(20, pass_s=600)
    calm.begun(10, 15)
    calm.pass_by()
    return calm


def sought(
    world: World, cursors: Mapping[int, Cursor], on_event: Callable[[str], None] = lambda name: None
) -> None:
    """What `--execute` does, on the engine of this process."""
    with world.client as client:
        planned = plan_seek(world.lake, world.logstore, client, cursors)
        execute(world.lake, planned.decided, Tools(engine=world.engine, on_event=on_event))


def test_in_the_first_hour_of_a_deployment_what_has_landed_so_far_lands_again(
    world: World, command: Command
) -> None:
    files = set(world.published())
    before, rows = world.ledger, world.identities()
    dry = command(*TO, "-20m")
    assert dry["code"] == 0 and {s["way"] for s in dry["shards"]} == {"again"}, dry
    assert (dry["again"]["hours"], dry["again"]["rows"]) == (hour_text(world.hours[-1]), 30)

    sought(world, {entry["shard"]: Cursor(entry["cursor"]) for entry in dry["shards"]})

    assert world.ledger == before and world.identities() == rows, "no frontier moved, and nothing came early"
    assert not files & set(world.published()), "all of it was pulled again"
    world.assert_proved()
    assert command(*TO, "shift:-20m")["again"]["rows"] == 30, "and once more"
    world.assert_next_lands(15)
    world.assert_whole()


def test_a_landing_that_comes_meanwhile_stays_and_its_hour_is_whole(world: World) -> None:
    files, landing = set(world.published()), set[str]()

    def lands() -> None:
        assert world.land().rows == 15
        landing.update(set(world.published()) - files)

    begins = {shard: entry.start for shard, entry in world.ledger.shards.items()}
    sought(world, begins, At("publish", lands))

    assert landing and landing < set(world.published()) and not files & set(world.published())
    world.assert_next_lands(0)
    world.assert_whole()


def test_files_of_both_written_together_meanwhile_stop_it_and_nothing_changed(world: World) -> None:
    heads = list[int | None]()

    def lands_and_another_writes_them_together() -> None:
        world.land()
        world.table.overwrite(world.table.scan().to_arrow())
        heads.append(world.table.metadata.current_snapshot_id)

    begins = {shard: entry.start for shard, entry in world.ledger.shards.items()}
    with pytest.raises(LandingConflict, match="looked at, and others that landed since; nothing was changed"):
        sought(world, begins, At("publish", lands_and_another_writes_them_together))

    assert heads == [world.table.metadata.current_snapshot_id]
    sought(world, begins)
    world.assert_whole()


def test_a_shard_that_is_hours_behind_holds_no_other_back(calm: World) -> None:
    """Shard 1 is paused after its first logs; hours of shard 0 that it has not passed land again."""
    calm.land_hours(1)
    calm.carried_out(plan_pause, [1])
    calm.land_hours(2)
    before, rows = calm.ledger, calm.identities()
    sought(calm, {0: calm.ledger.shards[0].start})
    assert calm.ledger == before and calm.identities() == rows
    calm.assert_proved()
    calm.carried_out(plan_resume, [1])
    calm.land()
    calm.assert_whole()
