"""Whole runs over real sockets, real Spark and a real Iceberg catalog."""

from importlib.metadata import version
from pathlib import Path

import pytest
from aliyun.log.version import USER_AGENT

from pipelines.cli.main import EXIT_FAILED
from tests.worlds.command_line import Command, settings
from tests.worlds.one_logstore import HOUR0_S, World

pytestmark = pytest.mark.spark


def test_every_log_lands_once(world: World) -> None:
    """Two hours of logs, one run: rows, hours and checkpoints are what the service stored."""
    world.put(200, until_s=HOUR0_S + 3600 + 60)
    world.put(100, until_s=HOUR0_S + 3600 + 120)

    report = world.land()

    assert report.rows == 300
    assert {h: r.rows for h, r in report.hours.items()} == {HOUR0_S // 3600: 200, HOUR0_S // 3600 + 1: 100}
    world.assert_each_log_once()


def test_all_that_a_landing_asks_the_service_says_which_deployment_asks(world: World) -> None:
    """The driver, its heartbeats and the tasks in Spark's workers."""
    world.logstore = world.changed(group={**world.logstore.group.model_dump(), "holder": "team-a"})
    world.put(20, until_s=HOUR0_S + 120)
    watched = world.emulator.admin.fault("observe", times=None)

    world.land()

    fault = next(f for f in world.emulator.admin.faults() if f["id"] == watched)
    assert {"heartbeat", "pull_logs", "list_shards"} <= {seen["call"] for seen in fault["seen"]}
    who = f"sls-lake/{version('sls-lake')} (lake/team-a), {USER_AGENT}"
    assert {seen["user_agent"] for seen in fault["seen"]} == {who}


def test_a_run_whose_time_is_over_before_it_pulls_says_that_logs_are_there(world: World) -> None:
    world.put(10, until_s=HOUR0_S + 180)
    world.engine.ready()  # else heartbeats of the time after it go out while Java starts
    hurried = world.changed(budget={"seconds_max": 1})

    def late(event: str) -> None:
        if event == "write":
            world.emulator.admin.advance(60)

    report = world.land(logstore=hurried, on_event=late)

    assert report.rows == 0
    assert "logs are there and none landed: shard 0: " in report.came_to_nothing
    assert "time is used up" in report.came_to_nothing
    assert "`budget.seconds_max`" in report.came_to_nothing and report.undone
    after = world.land()
    assert after.came_to_nothing == "" and not after.undone
    world.assert_each_log_once()


def test_land_exits_as_one_that_did_not_do_its_work_when_its_time_is_over_before_anything_landed(
    world: World, command: Command, tmp_path: Path
) -> None:
    """A scheduler that only sees the exit code would call a shard that is stuck for ever healthy."""
    world.put(10, until_s=HOUR0_S + 180)
    defs = tmp_path / "defs.yaml"
    world.fault("delay", call="get_cursor", delay_s=1.2)  # an answer says the time in whole seconds
    for seconds, code in (("0.001", EXIT_FAILED), ("240", 0)):
        defs.write_text(f"{settings(world)}  budget: {{seconds_max: {seconds}}}\n")
        said = command("land")
        assert (said["code"], said["rows"]) == (code, 0 if code else 10), said
