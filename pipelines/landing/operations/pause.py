"""Shards that live runs leave alone until somebody says otherwise.

What is paused stands in a property of the table, beside the ledger and in a commit of its own: it outlives
runs, deployments and rollbacks, and the table's history says when it was asked for. Nothing of a paused shard
lands by itself, nothing of it is given up, and its children wait for it; a backfill that names hours lands
them. A run that has begun goes on with the shards it planned.

Worked example: shard 3 sends what breaks a downstream job. `shards pause 3`: the next run lands the others
and says that 3 is paused. `shards resume 3`: the next run goes on at the frontier of 3. What retention took
meanwhile is a named gap, as after any other standstill, and the runway warns before.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial

from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect
from pipelines.landing.commit.planned import Planned
from pipelines.landing.ledger.place import Place, look
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError
from sls_io.wire.client import SlsClient


@dataclass(frozen=True)
class Pause(Effect):
    """What changes: the shards that are paused before and after, and those that somebody named."""

    QUIET = frozenset({"named", "before", "after"})

    table: str
    origin: str
    named: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def headline(self) -> str:
        before, after = (_list(shards) or "none" for shards in (self.before, self.after))
        return (
            f"{self.table}: paused shards: {before}; then: {after}. Runs that begin from then on keep to it"
        )


def plan_pause(lake: Lake, logstore: Logstore, client: SlsClient, shards: Collection[int]) -> Planned[Pause]:
    """What pausing these shards would change. Changes nothing.

    Raises ConfigError when nothing has landed yet, or a shard is closed, or nobody knows it.
    """
    place, named = look(lake, logstore, client, started=False), frozenset(shards)
    entries = place.ledger.shards
    there = {shard.id for shard in client.shards()} | entries.keys()
    if unknown := sorted(named - there):
        raise ConfigError(f"no such shard: {_list(unknown)}; there are {_list(sorted(there))}")
    if closed := sorted(s for s in named if s in entries and entries[s].closed):
        raise ConfigError(f"closed already, nothing more of it lands: shard {_list(closed)}")
    after = place.state.paused_of(place.origin.id) | named
    return _planned(place, Operation.PAUSE, named, after, partial(plan_pause, lake, logstore, client, shards))


def plan_resume(lake: Lake, logstore: Logstore, client: SlsClient, shards: Collection[int]) -> Planned[Pause]:
    """What resuming these shards would change. Changes nothing. Raises ConfigError when nothing has landed
    yet."""
    place, named = look(lake, logstore, client, started=False), frozenset(shards)
    after = place.state.paused_of(place.origin.id) - named
    again = partial(plan_resume, lake, logstore, client, shards)
    return _planned(place, Operation.RESUME, named, after, again)


def _planned(
    place: Place,
    operation: Operation,
    named: frozenset[int],
    after: frozenset[int],
    again: Callable[[], Planned[Pause]],
) -> Planned[Pause]:
    origin, before = place.origin.id, place.state.paused_of(place.origin.id)
    deed = Deed(operation, ",".join(map(str, sorted(named))))
    change = replace(authored.unchanged(place.head, place.state, deed), paused={origin: after})
    view = Pause(place.name, origin, tuple(sorted(named)), tuple(sorted(before)), tuple(sorted(after)))
    return Planned(view, place, change if before != after else None, again=again)


def _list(shards: Iterable[int]) -> str:
    return ", ".join(map(str, shards))
