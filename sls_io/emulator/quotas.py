"""Quotas as amounts per interval: pure; a limit of 0 is none.

The service counts per shard and second (soft) and per project and minute (hard), and answers 403. A call
goes through while its interval is not used up; what it takes beyond that is owed by the next ones. So a
page of 10 MB passes where 10 MB a second are allowed, and over time nobody gets more than the limit.
"""

from collections import Counter
from collections.abc import Mapping

from sls_io.emulator.storage.refusal import Refused

Amounts = Mapping[tuple[object, ...], tuple[int, int, int]]
"""key -> (amount, limit, interval in seconds); a limit of 0 is none. A key begins with what is counted."""

_SAID = {
    ("WriteQuotaExceed", "write_bytes"): "Project write quota exceed: inflow: {used}",
    ("WriteQuotaExceed", "write_calls"): "Project write quota exceed: qps: {used}",
    ("ReadQuotaExceed", "read_calls"): "Read QPS Exceed",
    ("ShardWriteQuotaExceed", "write_bytes"): "shard write quota exceed, please split shard",
    ("ShardWriteQuotaExceed", "write_calls"): "shard write quota exceed, please split shard",
    ("ShardReadQuotaExceed", "read_bytes"): "shard read bytes exceed quota limits",
    ("ShardReadQuotaExceed", "read_calls"): "shard read qps exceed quota limits",
}
"""As the vendor's pages "Handle resource throttling errors" and "Data read and write" have them. Neither they
nor its clients know a header that says how long to wait."""


class Meter:
    """How much of each quota the running interval has used, and how many calls were refused by code."""

    def __init__(self) -> None:
        self._used: dict[tuple[object, ...], tuple[int, int]] = {}
        self.refused: Counter[str] = Counter()

    def take(self, wanted: Amounts, elapsed_s: float, code: str) -> None:
        """Use up all of `wanted`, or refuse with 403 `code` and use nothing.

        `elapsed_s` are seconds that never go back; see `MovedClock.elapsed`.

        Worked example: 10 MB a second, pages of 6 MB. In second 0 two pass, since after the first only 6
        are used; the third is refused at 12. Second 1 begins with 2 owed, so two pass, and 14 are used;
        second 2 begins with 4. A page of 25 MB passes in second 0, second 1 is refused whole, and second 2
        begins with 5.
        """
        taken = {}
        for key, (amount, limit, interval_s) in wanted.items():
            if not limit:
                continue
            interval = int(elapsed_s) // interval_s
            began, used = self._used.get(key, (interval, 0))
            used = max(0, used - limit * (interval - began))
            if used >= limit:
                self.refused[code] += 1
                said = _SAID.get((code, str(key[0])), "quota exceed").format(used=used)
                raise Refused(403, code, f"{said} (limit {limit} in {interval_s} s)")
            taken[key] = (interval, used + amount)
        self._used |= taken

    def forget(self) -> None:
        """Start counting anew, for instance after the limits changed."""
        self._used.clear()
