"""A `start` that a person set wrong: what lies before it is said and stays landable, and nobody is blamed."""

from pathlib import Path

import pytest
from pyiceberg.table import Table

from pipelines.cli.main import run
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.describe import preview
from pipelines.landing.inspection.verify import verify
from pipelines.landing.ledger.codec import ASKED_PROPERTY_PREFIX
from pipelines.landing.ledger.state import facts
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from sls_io.planning.waits import Why
from sls_io.values.window import HOUR_S
from tests.worlds.command_line import Command, settings
from tests.worlds.one_logstore import World
from tests.worlds.wrong_answers import backfill

TO_COME = "2199-01-01-00:00"


@pytest.fixture
def world(quick: World) -> World:
    """40 logs in an hour that is over, and nothing landed."""
    quick.put(40, pass_s=2 * HOUR_S)
    return quick


def told(world: World, logstore: Logstore) -> list[str]:
    """What a whole run that has no checkpoint to publish says to its operator."""
    said: list[str] = []
    with Run(logstore, world.engine, lake=world.lake, warn=said.append) as live:
        live.land()
        assert live.reconcile().ok
        assert live.checkpoint() == []
    return said


def this_hour(world: World) -> str:
    """The hour that is running, as `start` names it."""
    return hour_text(int(world.emulator.admin.now()) // HOUR_S)


@pytest.mark.parametrize(("setting", "value"), [("start", TO_COME), ("reset", "2199-01-01T00:00:00")])
def test_while_the_start_is_to_come_no_checkpoint_moves_and_the_logs_that_wait_are_named(
    world: World, setting: str, value: str
) -> None:
    logstore = world.changed(**{setting: value})

    (line,) = told(world, logstore)

    assert f"`{setting}` is {value}, which is to come: nothing lands before" in line
    assert "has logs from before it, received since" in line and "not landed" in line
    assert set(world.checkpoints().values()) <= {None}
    assert not world.ledger.started
    with world.client as client:
        plan = preview(logstore, world.lake, client)
    assert {wait.kind for wait in plan.waits.values()} == {Why.AHEAD}
    report = world.land(logstore=logstore)
    assert (report.rows, report.snapshot_id, report.lag_s) == (0, None, None)


def test_what_waited_before_a_start_to_come_lands_whole_once_it_is_lowered(world: World) -> None:
    told(world, world.changed(start=TO_COME))
    world.put(10, pass_s=60)

    report = world.land()

    assert (report.rows, report.gaps, report.readable) == (50, (), ())
    world.assert_sound()


def test_the_verb_says_that_no_history_has_begun(
    world: World, command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(world).replace("start: 2026-01-01-00:00", f"start: {TO_COME}"))
    capsys.readouterr()
    assert run(["land", "--logstore", str(defs)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "no history has begun, nothing was landed and no checkpoint moved" in said
    assert f"note: `start` is {TO_COME}, which is to come" in said and "nothing new" not in said


def test_a_start_that_was_lowered_before_anything_landed_is_no_wrong_answer_of_the_service(
    world: World,
) -> None:
    world.land(logstore=world.changed(start=this_hour(world)))

    report = world.land()

    assert report.rows == 40 and report.readable
    for line in report.readable:
        assert "`start` or `reset` names an earlier time than when the history began" in line
        assert "the service" not in line
    world.assert_sound()


def test_a_start_that_was_lowered_after_a_landing_names_the_backfill_and_blames_nobody(world: World) -> None:
    world.logstore = world.changed(start=this_hour(world))
    assert world.land_more(10).rows == 10
    world.logstore = world.changed(start="2026-01-01-00:00")

    lines = world.land().readable

    with world.client as client:
        proof = verify(world.logstore, world.lake, client)
        assert preview(world.logstore, world.lake, client).readable == lines
    problems = [f"shard {s.shard}: {text}" for s in proof.shards for text in s.problems]
    assert sorted(problems) == sorted(lines) and lines
    for line in lines:
        assert "`start` or `reset` names an earlier time" in line and "wrong" not in line
        backfill(world, line)
    world.assert_sound()


def test_a_table_that_does_not_say_what_was_asked_for_then_leaves_open_who_was_wrong(world: World) -> None:
    """An earlier release made it."""
    world.land(logstore=world.changed(start=this_hour(world)))
    forget_asked(world.table)

    line, *_ = world.land().readable

    assert "the service told a wrong begin then, or `start` was lowered since" in line
    world.assert_each_log_once()


@pytest.mark.parametrize("text", ["9" * 5000, "-1", "soon", "\u0661"])
def test_what_was_asked_for_then_and_edited_by_hand_is_as_good_as_none(world: World, text: str) -> None:
    world.land()
    (origin,) = facts(world.table).asked
    with world.table.transaction() as change:
        change.set_properties({ASKED_PROPERTY_PREFIX + origin: text})
    assert not facts(world.table).asked
    assert world.land_more(5).rows == 5


def forget_asked(table: Table) -> None:
    """Take the property out that a first start sets."""
    names = [name for name in table.properties if name.startswith(ASKED_PROPERTY_PREFIX)]
    assert names and facts(table).asked
    with table.transaction() as change:
        change.remove_properties(*names)
