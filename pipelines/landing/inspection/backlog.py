"""How much waits in a shard, about, and how long its read quota makes that take.

The service says no size of what was not read, and cursors are names, not amounts. What is known is how
many raw bytes of each receive hour landed before, and how far behind in receive time a shard is; so
this is an estimate for people, and nothing decides by it.
"""

from collections.abc import Mapping

from pyiceberg.table import Table

from pipelines.landing.ledger.state import windows_in
from pipelines.landing.run.report import Backlog
from sls_io.claim import Ledger
from sls_io.pace import MB
from sls_io.window import HOUR_S

HOURS = 24
"""The rate is that of so many receive hours before what was reached last."""
_LEAST_S = 600
_LANDINGS_MAX = 200


def rates_of(table: Table, ledger: Ledger) -> Mapping[int, float]:
    """Raw bytes a receive second, shard by shard, of what landed lately; none where too little is known."""
    found: dict[tuple[int, int], int] = {}
    for landed in windows_in(table, ledger.origin, _LANDINGS_MAX):
        place = landed.window.shard, landed.window.hour
        found[place] = found.get(place, 0) + landed.raw_bytes
    rates: dict[int, float] = {}
    for shard in {shard for shard, _ in found}:
        hours = {hour: size for (of, hour), size in found.items() if of == shard}
        entry = ledger.shards.get(shard)
        rate = rate_of(hours, entry.reached_s if entry else 0)
        if rate:
            rates[shard] = rate
    return rates


def rate_of(hours: Mapping[int, int], reached_s: int) -> float | None:
    """Bytes a second out of bytes by receive hour, up to the receive time reached; None: too little.

    Hours in which nothing came count as hours. `reached_s` 0: up to the end of the newest hour.
    """
    end_s = reached_s or (max(hours) + 1) * HOUR_S
    lately = {h: size for h, size in hours.items() if end_s - HOURS * HOUR_S <= h * HOUR_S < end_s}
    if not lately:
        return None
    covered_s = end_s - min(lately) * HOUR_S
    return sum(lately.values()) / covered_s if covered_s >= _LEAST_S else None


def backlog_of(rate: float | None, lag_s: float | None, mb_per_s: float) -> Backlog | None:
    """What waits in a shard that is `lag_s` receive seconds behind; None where nothing does or is known."""
    if rate is None or not lag_s:
        return None
    return Backlog(int(rate * lag_s), rate * HOUR_S, mb_per_s, rate * lag_s / (mb_per_s * MB))
