"""A claim is renewed beside the work, and no longer than the work can take."""

import threading

from pipelines.landing.run.holding import work_max_s
from sls_io.coordination.renewal import Renewal
from sls_io.coordination.static import Static
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from sls_io.values.settings import Budget


class Counting(Static):
    """A static holder that beats at once, and says when it has beaten so often."""

    renew_every_s = 0.001

    def __init__(self) -> None:
        super().__init__([3])
        self.beats, self.often = 0, threading.Event()

    def renew(self):  # type: ignore[no-untyped-def]
        self.beats += 1
        if self.beats == 5:
            self.often.set()
        return super().renew()


def test_work_that_hangs_is_over_in_time_where_nothing_has_to_be_renewed() -> None:
    said, told = list[str](), threading.Event()
    holder = Static([3])

    def lost(why: str) -> None:
        said.append(why)
        told.set()

    at_s = SYSTEM_CLOCK.monotonic()
    renewal = Renewal(holder, holder.claim(), clock=SYSTEM_CLOCK, lost=lost, until_s=at_s)
    renewal.start()
    assert told.wait(60) and not renewal.valid, "it beats once an hour"
    renewal.stop()
    assert "something in it hangs" in said[0]


def test_work_that_hangs_loses_its_claim_once_no_budget_explains_it() -> None:
    holder, clock, said, told = Counting(), ManualClock(), list[str](), threading.Event()

    def lost(why: str) -> None:
        said.append(why)
        told.set()

    until_s = work_max_s(Budget(seconds_max=240))
    renewal = Renewal(holder, holder.claim(), clock=clock, lost=lost, until_s=until_s)
    renewal.start()
    assert holder.often.wait(60) and renewal.valid
    clock.advance(until_s - 1)
    before = holder.beats
    while holder.beats < before + 2:
        assert not told.is_set(), said
    assert (renewal.valid, until_s) == (True, 600)

    clock.advance(1)

    assert told.wait(60)
    renewal.stop()
    assert (renewal.valid, until_s) == (False, 600)
    (why,) = said
    assert "something in it hangs" in why
