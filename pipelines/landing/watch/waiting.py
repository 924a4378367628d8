"""What waits in a logstore, as far as a bound needs it known.

Seconds come from the service. Bytes are an estimate: the service says no size of what was not read, so the
rate at which logs landed lately is taken times the time that they wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from pipelines.landing.ledger.left import rates_of
from pipelines.landing.ledger.start import begun
from pipelines.landing.logstore import Logstore
from pipelines.landing.watch.look import Look
from sls_io.values.errors import ShardGone
from sls_io.values.side_by_side import answers
from sls_io.wire.client import SlsClient
from sls_io.wire.pace import MB


class Demand(NamedTuple):
    """How much may wait before a run is asked for; a bound of 0 is never passed."""

    lag_s: float
    mb: float

    @classmethod
    def of(cls, logstore: Logstore) -> "Demand":
        """Half of what is a warning, and half of what one run takes: asked for at once, the run comes before
        the warning, and is no larger than the schedule's."""
        return cls(logstore.health.lag_s.warn / 2, logstore.budget.bytes_max / MB / 2)


@dataclass(frozen=True, slots=True)
class Waiting:
    """`lag_s`: age of the oldest log that waits, of `shard`; 0 and None where none does. `mb`: about how much
    waits in all. `asked`: shards that the service was asked about. While that is 0 the numbers are the most
    that can be: what the ledger leaves open."""

    lag_s: float = 0.0
    shard: int | None = None
    mb: float = 0.0
    asked: int = 0

    def over(self, bounds: Demand) -> tuple[str, ...]:
        """The bounds that are passed, a phrase each."""
        found = []
        if 0 < bounds.lag_s < self.lag_s:
            found.append(f"the oldest log of shard {self.shard} waits for {self.lag_s:,.0f} s")
        if 0 < bounds.mb < self.mb:
            found.append(f"about {self.mb:,.0f} MB wait")
        return tuple(found)


def waiting(client: SlsClient, look: Look, bounds: Demand, *, settle_s: int) -> Waiting:
    """What waits, of shards that are not paused and, where the settings name shards, are among them.

    The ledger alone answers while no bound can be passed; shards are asked, in two calls each, only where
    one might be. Before the first landing what waits is what that one would land. Raises as `begun`.

    Worked example: the ledger says that shard 0 was read up to 300 s ago, and 1 MB a second came lately: at
    most 300 MB wait. With bounds of 500 MB and 600 s that is all there is to know; with 200 MB shard 0 is
    asked, and may have nothing.
    """
    if not look.ledger.started:
        if look.logstore.ahead(look.now_s):
            return Waiting()
        look = replace(look, ledger=begun(client, look.logstore, look.ledger))
    ages = {s: max(0.0, look.now_s - at) for s, at in look.own_by.items() if _lands(look, s)}
    rates = rates_of(look.table, look.ledger) if bounds.mb and look.table is not None else {}
    most = _sum(ages, rates)
    if not most.over(bounds):
        return most
    late = [s for s, age in ages.items() if age > settle_s]
    told = dict(answers(partial(_age_s, client, look), late))
    found = _sum({**dict.fromkeys(ages, 0.0), **told}, rates)
    return replace(found, asked=len(late))


def _lands(look: Look, shard: int) -> bool:
    """Whether a run would land something of it."""
    return shard not in look.paused and look.logstore.reads(shard)


def _sum(ages: Mapping[int, float], rates: Mapping[int, float]) -> Waiting:
    """`rates`: raw bytes a receive second of each shard, as they landed lately.

    Worked example: shard 0 waits for 300 s at 1 MB a second, shard 1 for 10 s, and of that no rate is known:
    the oldest log is of shard 0, and about 300 MB wait.
    """
    shard = max(ages, key=lambda s: ages[s], default=None)
    if shard is None or not ages[shard]:
        return Waiting()
    return Waiting(ages[shard], shard, sum(rates.get(s, 0.0) * age for s, age in ages.items()) / MB)


def _age_s(client: SlsClient, look: Look, shard: int) -> float:
    """Age of the oldest log of the shard that waits; 0 where none does."""
    entry = look.ledger.shards.get(shard)
    try:
        end = client.cursor_at(shard, "end")
        at = entry.frontier if entry is not None else client.cursor_at(shard, "begin")
        since_s = client.waits_since_s(shard, at) if at < end else None
        return 0.0 if since_s is None else max(0.0, look.now_s - since_s)
    except ShardGone:
        return 0.0
