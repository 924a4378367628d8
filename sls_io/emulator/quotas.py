"""Quotas as counters per interval: pure, off unless a limit is set.

The service counts per shard and second (soft) and per project and minute (hard), and answers 403.
A call that would pass the limit is refused whole, except that one call always fits an empty interval.
"""

from collections.abc import Mapping

from sls_io.emulator.refusal import Refused

Amounts = Mapping[tuple[object, ...], tuple[int, int, int]]
"""key -> (amount, limit, interval in seconds); a limit of 0 is none."""


class Meter:
    """How much of each quota the running interval has used."""

    def __init__(self) -> None:
        self._used: dict[tuple[object, ...], tuple[int, int]] = {}

    def take(self, wanted: Amounts, now: float, code: str) -> None:
        """Use up all of `wanted`, or refuse with 403 `code` and use nothing."""
        taken = {}
        for key, (amount, limit, interval_s) in wanted.items():
            if not limit:
                continue
            interval = int(now) // interval_s
            began, used = self._used.get(key, (interval, 0))
            used = used if began == interval else 0
            if used and used + amount > limit:
                raise Refused(403, code, f"quota of {limit} in {interval_s} s is used up")
            taken[key] = (interval, used + amount)
        self._used |= taken

    def forget(self) -> None:
        """Start counting anew, for instance after the limits changed."""
        self._used.clear()
