"""Whether files that were written may still be published: the writers' side of the contract with the sweep.

A writer makes one before its first file, and asks it after each time that it loaded the table. Asked before,
the answer would be worth nothing: paused in between, a sweep takes the files, and the table looks as if
nothing had happened.
"""

from pipelines.landing.table.lake import SWEEP_FLOOR_S
from sls_io.values.clock import Clock

TIMEOUT_S = 3600.0
"""How long a landing has from its first file to its commit, at least."""


def landing_timeout_s(seconds_max: float) -> float:
    """The time-out of a landing whose run pulls for at most so long: what a sound run never needs, so one
    that is older hangs."""
    return max(TIMEOUT_S, 1.5 * seconds_max)


class Freshness:
    """The age of files, from before the first of them was begun; after `timeout_s` nobody publishes them.

    By the clock that says more: the monotonic one stands still while a machine is suspended, and the
    wall clock may be put back.

    Worked example: a laptop is closed ten minutes after the first file and opened 13 hours later. The
    monotonic clock says 600 s, the wall clock 46,800 s: not publishable. Put back by an hour instead, the
    wall clock says less than nothing, and the 600 s hold.
    """

    def __init__(self, clock: Clock, timeout_s: float = SWEEP_FLOOR_S / 2) -> None:
        self._clock, self._begun_s, self._begun_at = clock, clock.monotonic(), clock.now()
        self._timeout_s = timeout_s

    @property
    def age_s(self) -> float:
        """Seconds since the first file was begun, at least."""
        return max(self._clock.monotonic() - self._begun_s, self._clock.now() - self._begun_at)

    @property
    def publishable(self) -> bool:
        """Whether no sweep can have taken the files, nor will before they are published; and the time-out is
        not over."""
        return self.age_s < min(self._timeout_s, SWEEP_FLOOR_S / 2)

    @property
    def timed_out(self) -> bool:
        """Whether the time-out is over."""
        return self.age_s >= self._timeout_s
