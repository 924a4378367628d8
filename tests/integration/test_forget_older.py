"""What is older than so many days leaves at each maintenance, and no fill lands any of it again."""

import dagster as dg

from pipelines.landing.commit.planned import execute
from pipelines.landing.inspection.proof import VERIFIED
from pipelines.landing.ledger.state import read_state
from pipelines.landing.operations.forget import plan_forget_older
from tests.worlds.command_line import Command
from tests.worlds.dagster_page import DAY_S, Page
from tests.worlds.landed_hours import numbers
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World
from tests.worlds.three_hours import fill, started

__all__ = ["started"]


def test_hours_leave_that_are_older_than_so_many_days(started: World, command: Command) -> None:
    older = ("table", "forget", "--older-than", "1")
    early = command(*older, "--execute")
    assert (early["code"], early["committed"]) == (0, None), early
    started.at(HOUR0_S + 25 * 3600 + 300)
    started.land()
    assert numbers(started) == list(range(90))

    done = command(*older, "--execute")

    assert (done["code"], done["rows"], done["before"]) == (0, 10, HOUR0 + 1)
    assert done["what"].endswith("older than 1 day")
    assert numbers(started) == list(range(10, 90))
    assert fill(started, HOUR0) == 0, "no backfill brings them back"
    assert started.proof(pull=True).verdict == VERIFIED
    again = command(*older)
    assert again["code"] == 0 and again["rows"] == 0, "nothing is needed until an hour has passed"


def test_hours_that_have_not_landed_stay_until_they_have(started: World) -> None:
    started.at(HOUR0_S + 100 * 3600)
    with started.client as client:
        plan = plan_forget_older(started.lake, started.logstore, client, 1)
        reached = min(e.reached_s for e in started.ledger.shards.values()) // 3600
        assert plan.view.before == reached < HOUR0 + 100 - 24
        execute(started.lake, plan)
    assert started.land().rows == 60, "what waits lands, and leaves the next time"
    assert read_state(started.table).forgotten.before(started.origin) == reached


def test_the_maintenance_does_it_where_the_settings_say_so(page: Page) -> None:
    world = page.world
    kept = len(world.table_rows())
    assert "forget__access_logs" not in steps(page.run("maintenance"))
    nothing = page.run("maintenance", logstore=world.changed(table="other.access_logs", forget_after_days=1))
    assert "forget__access_logs" in steps(nothing), "where nothing has landed nothing is old"
    world.logstore = world.changed(forget_after_days=1)
    page.world.at(HOUR0_S + DAY_S + 3600 + 300)
    page.land()
    dry = page.run("maintenance", config={"ops": {"maintain__access_logs": {"config": {"execute": False}}}})
    assert dry.success and len(world.table_rows()) == kept

    done = page.run("maintenance")

    assert done.success and "forget__access_logs" in steps(done)
    assert min(int(r["__receive_hour__"].timestamp()) // 3600 for r in world.table_rows()) == HOUR0 + 1
    world.assert_proved()


def steps(result: dg.ExecuteInProcessResult) -> set[str]:
    """Steps that succeeded."""
    return {e.step_key for e in result.all_events if e.is_step_success and e.step_key}
