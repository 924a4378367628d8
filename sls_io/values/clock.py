"""The only place that reads time or sleeps.

Everything else takes a `Clock`, so that a test moves time by hand and the simulator owns it.
Wall time is for people and for the service; every deadline counts monotonic seconds, because
a wall clock may step backwards under a claim.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch, monotonic seconds, and sleep."""

    def now(self) -> float:
        """Wall time, unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Wait `duration_s` seconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        time.sleep(duration_s)


class ManualClock:
    """A clock that stands still until `advance` or `sleep` moves it."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, duration_s: float) -> None:
        self.advance(duration_s)

    def advance(self, duration_s: float) -> None:
        """Move both wall and monotonic time forward."""
        self._now += duration_s
        self._monotonic += duration_s

    def set(self, now: float) -> None:
        """Step the wall clock only, as an operator or NTP would."""
        self._now = now


SYSTEM_CLOCK = SystemClock()
