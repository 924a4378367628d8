"""The wall clock of the machine is wrong by minutes, or jumps, at every step.

Claims and deadlines count monotonic seconds, receive times are the service's own, and a snapshot is never
older than the one before it. What a driver and its executors share is the service's clock.
"""

import pytest

from tests.worlds.lossy_catalog import lossy_catalog
from tests.worlds.one_logstore import World
from tests.worlds.wrong_clocks import MINUTES_S, Stepped, assert_snapshots_in_order


@pytest.mark.parametrize("minutes_s", MINUTES_S, ids=["ahead", "behind"])
@pytest.mark.parametrize(
    "step",
    [
        pytest.param("claim", id="claim", marks=pytest.mark.fault("4a.1.clock")),
        pytest.param("survey", id="survey", marks=pytest.mark.fault("4a.2.clock")),
        pytest.param("publish", id="publish", marks=pytest.mark.fault("4a.5a.clock")),
        pytest.param("reload", id="reload", marks=pytest.mark.fault("4a.5b.clock")),
        pytest.param("checkpoint", id="checkpoint", marks=pytest.mark.fault("4a.6.clock")),
        pytest.param("release", id="release", marks=pytest.mark.fault("4a.7.clock")),
    ],
)
def test_a_clock_that_jumps_at_a_step_changes_nothing(started: World, step: str, minutes_s: float) -> None:
    clock = Stepped()
    seen: list[str] = []
    lossy_catalog(started).script.append("lost" if step == "reload" else "")

    def on_event(name: str) -> None:
        if name == step:
            seen.append(name)
            clock.off_s = minutes_s

    report = started.land(clock=clock, on_event=on_event)

    assert seen
    assert (report.rows, report.replans) == (60, 0)
    assert abs(report.until_s + started.logstore.budget.settle_s - started.emulator.admin.now()) < 30
    assert_snapshots_in_order(started)
    started.put(10, pass_s=31)
    started.assert_next_lands(10)
    assert_snapshots_in_order(started)


@pytest.mark.fault("4a.8.clock")
@pytest.mark.parametrize("minutes_s", MINUTES_S, ids=["ahead", "behind"])
def test_a_clock_that_jumps_beside_a_renewal_ends_no_claim(started: World, minutes_s: float) -> None:
    clock, names = Stepped(), list[str]()

    def on_event(name: str) -> None:
        names.append(name)
        if name == "write.done":
            clock.off_s = minutes_s
            beat = started.fault("observe", call="heartbeat")
            started.emulator.admin.wait(beat)

    assert started.land(clock=clock, on_event=on_event).rows == 60
    assert "claim.lost" not in names
    started.assert_whole()


@pytest.mark.fault("4a.3.clock", "4a.4.clock")
@pytest.mark.parametrize("minutes_s", MINUTES_S, ids=["behind", "ahead"])
def test_executors_and_driver_need_not_agree_on_the_time(started: World, minutes_s: float) -> None:
    """The run's time is counted by the service's clock: with the driver's, executors that are ahead by
    more than it would land nothing, run after run."""
    assert started.land(clock=Stepped(minutes_s)).rows == 60
    started.assert_whole()


@pytest.mark.fault("4a.5a.stop")
def test_a_run_that_wakes_after_half_the_sweeps_floor_publishes_none_of_its_old_files(
    started: World,
) -> None:
    """It slept for thirteen hours between write and publish; the sweep may be about to take its files. A
    refresh, which a sweep begins with, has moved the table, so its first try is refused."""
    started.put(40, pass_s=60)
    clock = Stepped()
    old: set[str] = set()
    before = started.data_files()

    def on_event(name: str) -> None:
        if name == "publish" and not old:
            old.update(started.data_files() - before)
            clock.later_s = 13 * 3600.0
            table = started.table
            table.append(table.schema().as_arrow().empty_table())

    hours = started.hours
    report = started.land(mode="fill", hours=(hours.start, hours.stop), clock=clock, on_event=on_event)

    assert (report.rows, report.replans) == (100, 1)
    assert old and not old & set(started.published())
    assert old <= started.data_files(), "only the sweep deletes"
    started.assert_sound()
