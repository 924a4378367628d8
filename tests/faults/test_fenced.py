"""Runs that may commit no more: aborted by a person, timed out, or older than one of the same deployment."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import EXIT_USAGE
from pipelines.landing.commit.freshness import TIMEOUT_S
from pipelines.landing.commit.planned import Tools, execute
from pipelines.landing.inspection.landings import Landings, Stage, landings_of, one_of
from pipelines.landing.ledger import epochs
from pipelines.landing.ledger.state import read_state
from pipelines.landing.maintenance.abort import plan_abort
from pipelines.landing.operations.replace import execute_replace, plan_replace
from pipelines.landing.run.report import CheckpointOutcome
from pipelines.landing.table.lake import SWEEP_FLOOR_S
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import LandingConflict
from sls_io.values.window import HOUR_S
from tests.faults.forked_run import Forge
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World
from tests.worlds.two_runs import At
from tests.worlds.wrong_clocks import Stepped

TO_COME = 60


@pytest.fixture
def world(started: World) -> World:
    """Two shards: 20 logs landed, 60 wait."""
    return started


def on_their_way(world: World, later_s: float = 0.0) -> Landings:
    """The landings as somebody sees them so much later."""
    clock = Stepped(later_s)
    return landings_of(world.logstore, world.lake, clock=clock)


def staged(world: World, later_s: float = 0.0) -> dict[str, Stage]:
    """Run -> state of those that are not committed."""
    found = on_their_way(world, later_s).found
    return {x.run: x.state for x in found if x.state is not Stage.COMMITTED}


def abort_all(world: World) -> list[str]:
    """Abort whatever is on its way."""
    runs = [run for run, state in staged(world).items() if state in (Stage.OPEN, Stage.HANGING)]
    for run in runs:
        execute(world.lake, plan_abort(world.lake, world.logstore, run))
    return runs


@pytest.mark.fault("4a.5a.stop")
def test_a_run_that_was_aborted_while_it_slept_publishes_nothing(world: World, forge: Forge) -> None:
    """Its claim stands and its windows fit: without the abort it would land them."""
    run = forge.run(world.logstore, world.lake, act="stop", point="commit")
    run.stopped()
    (aborted,) = abort_all(world)
    rows = len(world.table_rows())

    assert run.wake() == 2, "it ends with an error"

    assert len(world.table_rows()) == rows == 20
    assert staged(world) == {aborted: Stage.ABORTED}
    world.pass_by()
    world.assert_next_lands(TO_COME)
    assert staged(world) == {aborted: Stage.ABORTED}, "the next run is another one"


@pytest.mark.parametrize("point", ["write.done", "publish", "publish.built"])
def test_an_abort_between_two_steps_ends_the_run(world: World, point: str) -> None:
    """It has pulled all, and no name of it is in the table yet."""
    with pytest.raises(LandingConflict, match="a person aborted this landing"):
        world.land(on_event=At(point, lambda: abort_all(world)))
    assert len(world.table_rows()) == 20
    world.assert_next_lands(TO_COME)


def test_a_replace_is_aborted_as_well(world: World) -> None:
    """The rows that it was to take out stay, and those that it wrote are nobody's."""
    world.land()
    hour = world.emulator.admin.now() // HOUR_S
    world.emulator.admin.advance(2 * HOUR_S)
    world.land()
    before = world.table_rows()
    with world.client as client:
        planned = plan_replace(world.lake, world.logstore, client, range(int(hour), int(hour) + 1))
        aborting = At("publish", lambda: abort_all(world))
        with pytest.raises(LandingConflict, match="a person aborted this landing: nothing was replaced"):
            execute_replace(world.lake, planned, Tools(engine=world.engine, on_event=aborting))
    assert sorted(map(str, world.table_rows())) == sorted(map(str, before))
    assert list(staged(world).values()) == [Stage.ABORTED]
    with world.client as client:
        planned = plan_replace(world.lake, world.logstore, client, range(int(hour), int(hour) + 1))
        assert execute_replace(world.lake, planned, Tools(engine=world.engine))[0].rows == len(before)
    world.assert_whole()


def test_a_fill_is_aborted_as_well(world: World) -> None:
    hours = world.hours
    with pytest.raises(LandingConflict, match="a person aborted this landing"):
        world.land(
            mode="fill", hours=(hours.start, hours.stop), on_event=At("publish", lambda: abort_all(world))
        )
    assert len(world.table_rows()) == 20
    world.assert_next_lands(TO_COME)


def test_an_aborted_run_does_not_begin_again_under_another_id(world: World) -> None:
    """Its first try was refused since the schema changed, so it plans again, and reads the table for that."""

    def on_event(name: str) -> None:
        if name == "publish":
            with world.table.update_schema() as update:
                update.add_column("more", world.table.schema().find_type("__topic__"))
        elif name == "reload.done":
            abort_all(world)

    with pytest.raises(LandingConflict, match="a person aborted this landing"):
        world.land(on_event=on_event)
    assert len(world.table_rows()) == 20
    world.assert_next_lands(TO_COME)


@pytest.mark.fault("4a.5a.late")
def test_a_landing_that_was_committed_first_is_not_aborted(world: World, command: Command) -> None:
    """The abort was planned before; its commit is refused, and it looks again."""
    plans: list[Any] = []

    def plan() -> None:
        (run,) = staged(world)
        plans.append(plan_abort(world.lake, world.logstore, run))

    world.land(on_event=At("publish", plan))
    head = world.table.metadata.current_snapshot_id
    said = command("landings", "abort", plans[0].view.run, "--execute")
    assert (
        said["code"] == EXIT_USAGE and "is committed" in said["error"] and "takes rows back" in said["error"]
    )
    with pytest.raises(Exception, match="is committed"):
        execute(world.lake, plans[0])
    assert world.table.metadata.current_snapshot_id == head
    world.assert_whole()


def test_what_is_on_its_way_is_seen_by_its_owner_and_by_no_reader(world: World, command: Command) -> None:
    """`list`, `describe` and a dry run of `abort`, beside a run that has written and not published."""
    seen: list[dict[str, Any]] = []

    def look() -> None:
        assert len(world.table_rows()) == 20, "a reader sees what is committed"
        seen.append(command("landings", "show", "--state", "open"))
        run = seen[0]["landings"][0]["run"]
        seen.append(command("landings", "show", run))
        seen.append(command("landings", "abort", run))
        seen.append(command("landings", "abort", run, json=False))
        seen.append(command("landings", "show", json=False))

    report = world.land(on_event=At("publish", look))

    assert report.rows == TO_COME, "a dry run stops nobody"
    listed, described, dry, text, table = seen
    (one,) = listed["landings"]
    assert one["state"] == "open" and one["snapshot_id"] is None and one["size"] > 0
    assert {f["part"]["shard"] for f in described["files"]} == {0, 1}
    assert sum(f["part"]["rows"] for f in described["files"]) == TO_COME
    frontiers = [w.window for w in world.landings()[-1][1]]
    for file in described["files"]:
        window = next(w for w in frontiers if w.shard == file["part"]["shard"])
        assert window.begin <= file["part"]["first_cursor"] <= file["part"]["last_cursor"] < window.end
    assert (dry["executed"], dry["committed"], dry["state"]) == (False, None, "open")
    assert "dry run" in text["text"] and "committed" in table["text"] and one["run"] in table["text"]
    done = command("landings", "show")["landings"]
    assert [x["state"] for x in done] == ["committed"] * 3 and [x["rows"] for x in done] == [0, 20, TO_COME]
    assert done[-1]["run"] == one["run"] and done[-1]["files"] == []


def test_one_that_is_silent_for_longer_than_the_time_out_hangs(world: World, command: Command) -> None:
    (run,) = left_behind(world)

    assert staged(world, TIMEOUT_S - 60) == {run: Stage.OPEN}
    assert staged(world, TIMEOUT_S + 60) == {run: Stage.HANGING}
    assert command("landings", "show", "--state", "hanging")["landings"] == []
    age(world, run, 2 * TIMEOUT_S)
    hanging = command("landings", "show", "--state", "hanging")
    assert [(x["run"], x["state"]) for x in hanging["landings"]] == [(run, "hanging")]
    assert (
        f"landings abort {run}   # makes sure"
        in command("landings", "show", "--state", "hanging", json=False)["text"]
    )
    said = command("landings", "abort", run, "--execute")
    assert said["executed"] and said["committed"] == world.table.metadata.current_snapshot_id
    assert command("landings", "show", "--state", "hanging")["landings"] == []
    again = command("landings", "abort", run, "--execute")
    assert (again["code"], again["committed"], again["state"]) == (0, None, "aborted")
    assert command("landings", "show")["landings"][-1]["verb"] == f"abort {run}"
    world.pass_by()
    world.assert_next_lands(TO_COME)


def age(world: World, run: str, seconds: float) -> None:
    """The files of a landing were written so long ago."""
    folder, then_s = (
        Path(world.lake.properties["warehouse"].removeprefix("file://")),
        SYSTEM_CLOCK.now() - seconds,
    )
    for file in one_of(on_their_way(world).found, run).files:
        os.utime(next(folder.rglob(Path(file.path).name)), (then_s, then_s))


def left_behind(world: World) -> list[str]:
    """A run is interrupted before its commit; what it leaves behind."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.land(on_event=At("publish", interrupt))
    return list(staged(world))


def test_the_time_out_ends_a_landing_once_the_table_has_moved_on(world: World) -> None:
    (run,) = left_behind(world)
    age(world, run, SWEEP_FLOOR_S)
    world.pass_by()
    world.land()

    one = one_of(on_their_way(world).found, run)

    assert one.state is Stage.ABORTED and one.aborted_s is None and "time-out" in one.why
    assert one.files and all(file.size for file in one.files), "a landing deletes nothing"


@pytest.mark.parametrize("slept_s", [TIMEOUT_S, 13 * 3600.0])
def test_a_run_that_wakes_after_its_time_out_sends_nothing(world: World, slept_s: float) -> None:
    """Nobody has committed meanwhile, so its try would be taken."""
    clock, old = Stepped(), set[str]()

    def sleep() -> None:
        old.update(staged(world))
        clock.later_s = slept_s

    report = world.land(
        mode="fill", hours=(world.hours.start, world.hours.stop), clock=clock, on_event=At("publish", sleep)
    )

    assert (report.rows, report.replans) == (TO_COME, 1)
    assert old and old == set(staged(world)), "the old files are nobody's"
    world.assert_each_log_once()


def test_an_unknown_landing_is_refused_with_those_there_are(world: World, command: Command) -> None:
    said = command("landings", "abort", "00000000", "--execute")
    assert said["code"] == EXIT_USAGE and "no landing '00000000'" in said["error"]
    assert "none is on its way" in said["error"]


def test_a_landing_is_named_by_eight_digits_and_by_no_fewer(world: World, command: Command) -> None:
    """What a person saw may be gone, and fewer digits may be those of a run at work."""
    (run,) = left_behind(world)
    for words in (("show", run[:7]), ("abort", run[:1], "--execute")):
        said = command("landings", *words)
        assert said["code"] == EXIT_USAGE and f"no landing '{words[1]}'" in said["error"]
        assert f"on their way are {run}; give the first 8 digits of its id" in said["error"]
    wrong = command("landings", "show", "0" * 8)
    assert wrong["code"] == EXIT_USAGE and "digits" not in wrong["error"]
    for named in (run, run.upper(), f"{run}-and-what-follows"):
        assert command("landings", "show", named)["run"] == run


# --- one deployment, two processes ---------------------------------------------------------------


@pytest.mark.fault("4b.overlap.commit", "4a.5a.stop")
def test_an_older_run_of_the_same_deployment_commits_nothing_after_a_newer_one(
    world: World, forge: Forge
) -> None:
    """It is stopped before its commit; its shards are its own all the time, by the very same name."""
    run = forge.run(world.logstore, world.lake, act="stop", point="commit")
    run.stopped()
    world.emulator.admin.advance(15)
    assert world.land().rows == TO_COME
    world.put(10, pass_s=15)
    landings, checkpoints = world.landings(), world.checkpoints()

    assert run.wake() == 0

    assert world.landings() == landings and world.checkpoints() == checkpoints
    world.pass_by()
    world.assert_next_lands(10)


def test_the_older_one_says_who_fenced_it_and_what_to_do(world: World) -> None:
    said: list[str] = []
    with world.run(on_event=At("publish", world.land), warn=said.append) as run:
        report = run.land()
        assert run.reconcile().ok and run.checkpoint() == []
    assert (report.rows, report.snapshot_id) == (0, None)
    (line,) = said
    assert "newer run of the same deployment" in line and "'lake/sls-lake'" in line and "group.holder" in line
    world.assert_whole()


@pytest.mark.fault("4a.6.stop")
def test_a_checkpoint_of_two_runs_with_one_name_does_not_move_back(world: World, forge: Forge) -> None:
    """The older one has landed and is stopped before it publishes; the newer one lands and publishes more."""
    run = forge.run(world.logstore, world.lake, act="stop", point="checkpoint")
    run.stopped()
    world.put(20, pass_s=15)
    saved = world.fault("observe", call="save_checkpoint", times=None)
    assert world.land().rows == 20
    sent = hits(world, saved)
    frontiers = world.checkpoints()

    assert run.wake() == 0

    assert world.checkpoints() == frontiers and hits(world, saved) == sent, "the older one sent nothing"
    world.assert_whole()


def test_a_checkpoint_on_its_way_is_healed_by_the_run_that_sent_it(world: World, forge: Forge) -> None:
    """The older one has looked and sent; its request is held until the newer one has published more."""
    logstore = world.logstore.service.logstore
    world.logstore = world.changed(
        service={**world.logstore.service.model_dump(), "read_timeout_s": 60.0},
        group={
            **world.logstore.group.model_dump(),
            "timeout_s": 300,
            "heartbeat_s": 20,
        },
    )
    held = world.emulator.admin.fault("hold", call="save_checkpoint", logstore=logstore)
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(world.land()))
    thread.start()
    world.emulator.admin.wait(held)
    assert world.land_more(20, pass_s=15).rows == 20
    world.assert_whole()

    world.emulator.admin.release(held)
    thread.join(60)

    assert done[0].rows == TO_COME
    world.assert_whole()


def test_a_run_without_new_logs_commits_nothing_and_asks_the_table_no_more_often(world: World) -> None:
    world.land()
    head = world.table.metadata.current_snapshot_id
    before = read_state(world.table).epochs
    with world.run() as run:
        run.land()
        run.reconcile()
        assert {x.outcome for x in run.checkpoint()} == {CheckpointOutcome.UNCHANGED}
    assert world.table.metadata.current_snapshot_id == head and read_state(world.table).epochs == before


def test_each_deployment_has_an_epoch_of_its_own_and_a_fill_none(world: World) -> None:
    world.land()
    (origin,) = read_state(world.table).origins
    first = read_state(world.table).epochs[origin]["lake/sls-lake"]
    world.put(10, pass_s=60)
    hours = world.hours
    world.land(mode="fill", hours=(hours.start, hours.stop))
    assert read_state(world.table).epochs[origin] == {"lake/sls-lake": first}
    world.put(10, pass_s=31)
    world.land(logstore=world.with_holder("another"))
    known = read_state(world.table).epochs[origin]
    assert set(known) == {"lake/sls-lake", "lake/another"} and known["lake/sls-lake"] == first
    world.land_more(10, pass_s=31)
    assert read_state(world.table).epochs[origin]["lake/sls-lake"].number > first.number
    assert epochs.PROPERTY_PREFIX + origin in world.table.properties


def hits(world: World, fault: int) -> int:
    """How often a fault was met."""
    return next(int(f["hits"]) for f in world.emulator.admin.faults() if f["id"] == fault)
