"""How fast one reader may ask its shard, so that a quota is kept instead of run into.

The service gives each shard a read quota: 10 MB and 100 calls a second unless the vendor raised it. A
reader that asks as fast as it can decode uses it up several times over, is refused, waits, and is refused
again, and so is every other consumer of the shard. One that spaces its calls is hardly ever refused.

The other way, to ask until refused and then to wait, uses the quota as well. But the refusals are what
other readers of the shard feel: the service counts per shard and not per reader (docs/decisions/0025).
"""

from sls_io.values.clock import SYSTEM_CLOCK, Clock

MB = 1_000_000
CALLS_PER_MB = 10
"""Calls a second follow MB a second as in the documented quota: 100 for 10. A raised quota raises both."""


class Pace:
    """A bucket of one reader's share, `mb_per_s`; what a call took is paid for before the next one.

    Worked example: 10 MB/s. A call at second 0 takes 0.2 s and brings 5 MB, which is half a second's share:
    the next one may be sent at 0.5, so the reader waits 0.3 s and not 0.5. That one brings 1 kB: now the
    100 calls a second count, and the next is due at 0.51. A call that took longer than its share delays
    nothing.
    """

    def __init__(self, mb_per_s: float, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._bytes_per_s, self._calls_per_s = mb_per_s * MB, mb_per_s * CALLS_PER_MB
        self._began_s = self._asked_s = self._free_s = clock.monotonic()
        self._waited_s = 0.0

    @property
    def free_s(self) -> float:
        """The monotonic second from which the next call may be sent."""
        return self._free_s

    @property
    def bound(self) -> bool:
        """Whether the quota holds the reader back: it spent most of its time waiting for the quota."""
        return self._waited_s > (self._clock.monotonic() - self._began_s) / 2

    def wait(self) -> None:
        """Sleep until the next call may be sent; it counts from here."""
        pause_s = self._free_s - self._clock.monotonic()
        if pause_s > 0:
            self._waited_s += pause_s
            self._clock.sleep(pause_s)
        self._asked_s = self._clock.monotonic()

    def took(self, raw_bytes: int) -> None:
        """The call brought so many raw bytes. Time it took itself is time paid."""
        self._free_s = self._asked_s + max(raw_bytes / self._bytes_per_s, 1 / self._calls_per_s)
