"""Shards that a person paused, and shards that a person wants to decide about once retention took logs."""

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.commit.planned import Tools, execute
from pipelines.landing.inspection.describe import preview
from pipelines.landing.ledger import codec
from pipelines.landing.ledger.state import ancestry, facts
from pipelines.landing.operations.pause import plan_pause, plan_resume
from sls_io.planning.waits import Why
from sls_io.values.claim import GAP_EXPIRED
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import PROJECT, World
from tests.worlds.two_runs import At


@pytest.fixture
def world(started: World) -> World:
    """Two shards: 20 logs landed, 60 wait."""
    return started


def landed_shards(world: World) -> set[int]:
    """The shards of the newest landing."""
    return {landed.window.shard for landed in world.landings()[-1][1]}


def test_a_paused_shard_stays_where_it_is_and_the_others_land(world: World, command: Command) -> None:
    frontier = world.ledger.shards[0].frontier
    dry = command("shards", "pause", "0")
    assert (dry["code"], dry["before"], dry["after"], dry["committed"]) == (0, [], [0], None)
    with world.client as client:
        assert not preview(world.logstore, world.lake, client).waits, "a dry run changes nothing"

    done = command("shards", "pause", "0", "--execute")
    report = world.land()

    assert done["committed"] == list(ancestry(world.table))[1].snapshot_id
    assert report.rows > 0 and landed_shards(world) == {1}
    assert report.waits[0].kind is Why.PAUSED
    assert not report.suspects and world.ledger.shards[0].frontier == frontier
    assert "paused" in command("describe", json=False)["text"]
    assert "sls-lake shards resume" in command("land", "--dry-run", json=False)["text"]

    assert command("shards", "resume", "0", "--execute")["after"] == []
    assert world.land().rows > 0
    world.assert_each_log_once()
    world.assert_whole()


def test_a_pause_outlives_a_rollback(world: World, command: Command) -> None:
    world.land()
    assert command("shards", "pause", "1", "--execute")["code"] == 0
    first = next(s.snapshot_id for s in world.table.snapshots() if s.summary and s.summary["added-records"])
    assert command("table", "rollback", str(first), "--execute")["code"] == 0
    report = world.land()
    assert report.waits[1].kind is Why.PAUSED and landed_shards(world) == {0}
    command("shards", "resume", "1", "--execute")
    world.land()
    world.assert_each_log_once()


def test_children_wait_for_a_paused_parent(world: World, command: Command) -> None:
    world.land()
    command("shards", "pause", "0", "--execute")
    world.put(10, key="0" * 32)
    world.emulator.admin.split(PROJECT, world.logstore.service.logstore, 0)
    world.put(10, key="0" * 32, pass_s=60)
    for _ in range(2):
        report = world.land()
        assert report.rows == 0 and report.waits[0].kind is Why.PAUSED
        world.pass_by()
    command("shards", "resume", "0", "--execute")
    while world.land().rows:
        world.pass_by()
    world.assert_each_log_once()


def test_a_run_that_has_begun_lands_what_it_planned(world: World, command: Command) -> None:
    def pause(name: str) -> None:
        if name == "publish.built" and not world.reports[1:]:
            command("shards", "pause", "0", "--execute")

    report = world.land(on_event=pause)
    assert (report.rows, report.conflicts) == (60, 1)
    assert world.land_more(10).waits[0].kind is Why.PAUSED


def test_a_backfill_lands_the_hours_of_a_paused_shard(world: World, command: Command) -> None:
    command("shards", "pause", "0", "1", "--execute")
    assert world.land().rows == 0
    hours = world.hours
    assert world.land(mode="fill", hours=(hours.start, hours.stop)).rows == 60
    world.assert_each_log_once()


def test_who_commits_meanwhile_makes_nobody_ask_again_for_a_pause(world: World) -> None:
    for plan, paused in ((plan_pause, {0}), (plan_resume, set[int]())):
        world.put(40, pass_s=60)
        with world.client as client:
            planned = plan(world.lake, world.logstore, client, [0])
            done = execute(world.lake, planned, Tools(on_event=At("publish", world.land)))
        assert done.conflicts == 1
        assert facts(world.table).paused_of(world.ledger.origin) == paused
    world.land()
    world.assert_each_log_once()


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_what_changes_nothing_commits_nothing(world: World, command: Command, verb: str) -> None:
    if verb == "pause":
        command("shards", "pause", "1", "--execute")
    head = world.table.metadata.current_snapshot_id
    said = command("shards", verb, "1", "--execute")
    assert (said["code"], said["committed"], world.table.metadata.current_snapshot_id) == (0, None, head)


def test_a_shard_that_nobody_knows_or_that_is_closed_is_not_paused(world: World, command: Command) -> None:
    unknown = command("shards", "pause", "7", "--execute")
    assert unknown["code"] == EXIT_USAGE and "no such shard: 7; there are 0, 1" in unknown["error"]
    world.land()
    world.emulator.admin.split(PROJECT, world.logstore.service.logstore, 0)
    world.emulator.admin.advance(60)
    world.land()
    assert world.ledger.shards[0].closed
    closed = command("shards", "pause", "0", "--execute")
    assert closed["code"] == EXIT_USAGE and "closed already" in closed["error"]


def test_a_property_that_is_no_list_of_shards_stops_landings(world: World, command: Command) -> None:
    name = codec.PAUSED_PROPERTY_PREFIX + world.origin
    world.table.transaction().set_properties({name: "all"}).commit_transaction()
    said = command("land")
    assert said["code"] == EXIT_FAILED and name in said["error"] and "remove the property" in said["error"]


def test_without_gaps_a_loss_leaves_the_shard_to_a_person(world: World) -> None:
    frontier = world.ledger.shards[0].frontier
    world.emulator.admin.advance(31 * 24 * 3600)
    stopped = world.changed(expired="fail")

    for _ in range(3):
        report = world.land(logstore=stopped)
        assert report.gaps == () and report.waits[0].kind is Why.LOST
        assert any("`expired: gap`" in line for line in report.suspects)
        assert world.ledger.shards[0].frontier == frontier
        world.pass_by(3600)
    gaps = world.land().gaps
    assert len(gaps) == 2 and gaps[0].startswith(f"shard 0: [{frontier}, ") and GAP_EXPIRED in gaps[0]
    assert world.land(logstore=stopped).suspects == (), "what has a name stops nothing"
