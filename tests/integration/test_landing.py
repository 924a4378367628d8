"""Whole runs over real sockets, real Spark and a real Iceberg catalog."""

import pytest

from tests.integration.world import HOUR0_S, World


def test_every_log_lands_once(world: World) -> None:
    """Two hours of logs, one run: rows, hours and checkpoints are what the service stored."""
    world.put(200)
    world.at(HOUR0_S + 3600 + 60)
    world.put(100)
    world.at(HOUR0_S + 3600 + 120)

    report = world.land()

    assert report.rows == 300
    assert {h: r.rows for h, r in report.hours.items()} == {HOUR0_S // 3600: 200, HOUR0_S // 3600 + 1: 100}
    world.assert_each_log_once()


@pytest.mark.fault("4b.empty.plan")
def test_a_second_run_without_new_data_commits_nothing(world: World) -> None:
    """Idle ticks must not grow the table's history."""
    world.put(20)
    world.at(HOUR0_S + 120)
    world.land()

    again = world.land()

    assert again.snapshot_id is None
    assert again.rows == 0
    world.assert_each_log_once()


def test_a_run_whose_time_is_over_before_it_pulls_says_that_logs_are_there(world: World) -> None:
    world.put(10)
    world.at(HOUR0_S + 180)
    hurried = world.changed(budget={"seconds_max": 1})

    def late(event: str) -> None:
        if event == "write":
            world.emulator.admin.advance(60)

    report = world.land(logstore=hurried, on_event=late)

    assert report.rows == 0
    assert "logs are there and none landed: shard 0: " in report.came_to_nothing
    assert "time is used up" in report.came_to_nothing
    assert world.land().came_to_nothing == ""
    world.assert_each_log_once()
