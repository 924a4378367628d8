"""The emulator's clock: the machine's, moved by an offset, or standing still.

Receive times, retention, group time-outs and the `Date` header follow it. The skew of signed
requests does not: clients sign with their own machine's time.
"""

import math
from collections.abc import Mapping
from typing import Any

from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ConfigError

NOW_MIN, NOW_MAX = 0.0, 7_258_118_400.0
"""1970 to 2199. Cursors grow out of nanoseconds, and in 2262 those leave the 64 bits that a cursor has."""
_RANGE = f"the clock goes from 0 to {NOW_MAX:.0f} unix seconds (1970 to 2199)"


def checked(now: float) -> float:
    """`now` when the clock can show it. Raises ConfigError with the range, also for NaN."""
    if not (math.isfinite(now) and NOW_MIN <= now <= NOW_MAX):
        raise ConfigError(_RANGE)
    return now


class MovedClock:
    """`set` and `advance` keep it running (or frozen) as it was; `freeze` stops and starts it.

    Worked example: the machine says 1000. Set to 5000 it runs on from there; frozen, it says 5000 while ten
    seconds pass; advanced by 3600 it says 8600, and still stands. Set back to 100 and let run on, it says
    105 five seconds later. `elapsed` went from 50 to 4050, 4060, 7660, stayed with the way back, and is
    7665: all that passed, and all that was skipped.
    """

    def __init__(self, machine: Clock = SYSTEM_CLOCK) -> None:
        self._machine = machine
        self._offset_s = 0.0
        self._frozen_at: float | None = None
        self._moved_on_s = 0.0

    def elapsed(self) -> float:
        """Seconds that never stand still and never go back: the machine's, and every move forward."""
        return self._machine.monotonic() + self._moved_on_s

    def now(self) -> float:
        """Unix seconds."""
        return self._machine.now() + self._offset_s if self._frozen_at is None else self._frozen_at

    def set(self, now: float) -> None:
        """Make it `now`. Raises ConfigError out of range."""
        now = checked(now)
        self._moved_on_s += max(0.0, now - self.now())
        if self._frozen_at is None:
            self._offset_s = now - self._machine.now()
        else:
            self._frozen_at = now

    def advance(self, duration_s: float) -> None:
        """Move it on; a negative duration moves it back. Raises ConfigError out of range."""
        self.set(self.now() + duration_s)

    def freeze(self, frozen: bool) -> None:
        """Stop it where it is, or let it run on from there."""
        now = self.now()
        self._frozen_at = now if frozen else None
        if not frozen:
            self._offset_s = now - self._machine.now()

    def doc(self) -> dict[str, Any]:
        """To be written down, so that a restart keeps the time that was set."""
        return {"offset_s": self._offset_s, "frozen_at": self._frozen_at}

    def restore(self, doc: Mapping[str, Any]) -> None:
        """What `doc` gave. Raises ConfigError when it shows a time out of range."""
        frozen_at, offset_s = doc.get("frozen_at"), float(doc.get("offset_s", 0.0))
        checked(self._machine.now() + offset_s if frozen_at is None else float(frozen_at))
        self._offset_s, self._frozen_at = offset_s, frozen_at
