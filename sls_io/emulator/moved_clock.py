"""The emulator's clock: the machine's, moved by an offset, or standing still.

Receive times, retention, group time-outs and the `Date` header follow it. The skew of signed
requests does not: clients sign with their own machine's time.
"""

from collections.abc import Mapping
from typing import Any

from sls_io.clock import SYSTEM_CLOCK, Clock


class MovedClock:
    """`set` and `advance` keep it running (or frozen) as it was; `freeze` stops and starts it."""

    def __init__(self, machine: Clock = SYSTEM_CLOCK) -> None:
        self._machine = machine
        self._offset_s = 0.0
        self._frozen_at: float | None = None

    def now(self) -> float:
        """Unix seconds."""
        return self._machine.now() + self._offset_s if self._frozen_at is None else self._frozen_at

    def set(self, now: float) -> None:
        """Make it `now`."""
        if self._frozen_at is None:
            self._offset_s = now - self._machine.now()
        else:
            self._frozen_at = now

    def advance(self, duration_s: float) -> None:
        """Move it on; a negative duration moves it back."""
        self.set(self.now() + duration_s)

    def freeze(self, frozen: bool) -> None:
        """Stop it where it is, or let it run on from there."""
        now = self.now()
        self._frozen_at = now if frozen else None
        if not frozen:
            self.set(now)

    def doc(self) -> dict[str, Any]:
        """To be written down, so that a restart keeps the time that was set."""
        return {"offset_s": self._offset_s, "frozen_at": self._frozen_at}

    def restore(self, doc: Mapping[str, Any]) -> None:
        """What `doc` gave."""
        self._offset_s = float(doc.get("offset_s", 0.0))
        self._frozen_at = doc.get("frozen_at")
