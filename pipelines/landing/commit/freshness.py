"""Whether files that were written may still be published: the writers' side of the contract with the sweep.

A writer makes one before its first file, and asks it after each time that it loaded the table. Asked before,
the answer would be worth nothing: paused in between, a sweep takes the files, and the table looks as if
nothing had happened.
"""

from pipelines.landing.table.lake import SWEEP_FLOOR_S
from sls_io.clock import Clock


class Freshness:
    """The age of files, from before the first of them was begun.

    By the clock that says more: the monotonic one stands still while a machine is suspended, and the
    wall clock may be put back.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._begun_s, self._begun_at = clock, clock.monotonic(), clock.now()

    @property
    def age_s(self) -> float:
        """Seconds since the first file was begun, at least."""
        return max(self._clock.monotonic() - self._begun_s, self._clock.now() - self._begun_at)

    @property
    def publishable(self) -> bool:
        """Whether no sweep can have taken the files, nor will before they are published."""
        return self.age_s < SWEEP_FLOOR_S / 2
