"""The emulator's quotas as values: amounts, limits, seconds."""

import pytest

from sls_io.emulator.moved_clock import MovedClock
from sls_io.emulator.quotas import Amounts, Meter
from sls_io.emulator.storage.refusal import Refused
from sls_io.values.clock import ManualClock


def wanted(amount: int, limit: int, interval_s: int = 1) -> Amounts:
    return {("shard",): (amount, limit, interval_s)}


def taken(meter: Meter, amount: int, limit: int, at_s: float, interval_s: int = 1) -> bool:
    try:
        meter.take(wanted(amount, limit, interval_s), at_s, "ReadQuotaExceed")
    except Refused as refused:
        assert (refused.status, refused.code) == (403, "ReadQuotaExceed")
        return False
    return True


def test_calls_pass_until_the_interval_is_used_up() -> None:
    meter = Meter()
    assert [taken(meter, 1, 3, 7.0 + i / 10) for i in range(5)] == [True, True, True, False, False]
    assert taken(meter, 1, 3, 8.0)
    assert meter.refused == {"ReadQuotaExceed": 2}


def test_what_a_call_takes_beyond_its_interval_is_owed_by_the_next_ones() -> None:
    meter = Meter()
    assert [taken(meter, 25, 10, at) for at in (0.0, 0.5, 1.0, 1.9, 2.0, 3.0)] == [
        True, False, False, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 7, 10, 26])
def test_over_time_nobody_gets_more_than_the_limit_nor_much_less(size: int) -> None:
    meter = Meter()
    got = sum(size for tick in range(10_000) if taken(meter, size, 10, tick / 100))
    assert 10 * 100 - 10 <= got <= 10 * 100 + size


def test_a_refused_call_uses_nothing() -> None:
    meter = Meter()
    both: Amounts = {("a",): (1, 0, 1), ("b",): (1, 10, 60), ("c",): (5, 5, 1)}
    meter.take(both, 0.0, "X")
    with pytest.raises(Refused):
        meter.take(both, 0.5, "X")
    assert [taken_b for taken_b in range(20) if _take_b(meter)] == list(range(9))


def _take_b(meter: Meter) -> bool:
    try:
        meter.take({("b",): (1, 10, 60)}, 1.0, "X")
    except Refused:
        return False
    return True


def test_quota_seconds_pass_with_the_machine_and_with_every_move_forward_and_never_stand_still() -> None:
    machine = ManualClock()
    clock = MovedClock(machine)
    began = clock.elapsed()
    clock.advance(5)
    clock.advance(-100)
    clock.freeze(True)
    machine.advance(2)
    clock.set(clock.now() + 3)
    clock.freeze(False)
    machine.set(machine.now() + 1000)  # the machine's wall clock is stepped: no second has passed
    assert clock.elapsed() - began == pytest.approx(10)
