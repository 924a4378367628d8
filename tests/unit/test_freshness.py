"""Files older than half of the sweep's floor are not published, whichever clock says so."""

from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.table.lake import SWEEP_FLOOR_S
from sls_io.values.clock import ManualClock


def test_files_are_publishable_for_half_of_the_floor() -> None:
    clock = ManualClock()
    fresh = Freshness(clock)
    clock.advance(SWEEP_FLOOR_S / 2 - 1)
    assert fresh.publishable
    clock.advance(1)
    assert not fresh.publishable


def test_a_suspended_machine_has_aged_although_its_monotonic_clock_stood_still() -> None:
    clock = ManualClock()
    fresh = Freshness(clock)
    clock.set(clock.now() + SWEEP_FLOOR_S)
    assert not fresh.publishable


def test_a_wall_clock_that_is_put_back_makes_nothing_younger() -> None:
    clock = ManualClock()
    fresh = Freshness(clock)
    clock.advance(SWEEP_FLOOR_S)
    clock.set(clock.now() - 2 * SWEEP_FLOOR_S)
    assert fresh.age_s == SWEEP_FLOOR_S and not fresh.publishable
