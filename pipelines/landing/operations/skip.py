"""Live runs go on from a later receive time; what they pass over is owed.

A seek forward on a table: each open shard's ledger gets a gap from its frontier to the first cursor at or
after the time, with the cause `skipped`, in one commit that moves no row. Frontiers follow, since a frontier
counts gaps. Nothing is given up by it: each live run and `verify` go on to say which of these gaps the
service can still read, with the backfill that lands them, and Dagster shows their hours as missing. What
retention takes before somebody does stays a gap with that cause.

Worked example: landings stood still for a day and what counts is what comes now. `checkpoints set --from
latest --to table --forward-only`: the frontier of shard 3 moves from 500, received 07:10 yesterday, to 9000,
and [500, 9000) is owed. The next run lands from 9000. `sls-lake backfill --from <yesterday>-07:00` lands the
rest beside the live runs, and the gap is gone.

A seek back needs no commit of its own: hours that have landed are landed again by `sls-lake backfill --mode
replace`, hours that were taken back by a plain backfill. `seek.py` is both ways.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pipelines.landing.commit import authored
from pipelines.landing.commit.planned import Planned
from pipelines.landing.hours import moment_text
from pipelines.landing.ledger.fence import merge
from pipelines.landing.ledger.place import Place, look
from pipelines.landing.ledger.values import Deed, Delta, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.planning.values import Edge, LedgerChange
from sls_io.values.claim import GAP_SKIPPED, Gap, ShardLedger
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.client import SlsClient


@dataclass(frozen=True)
class SkippedShard:
    """One shard: its frontier, the cursor where live runs go on, the receive hours in between as far as
    somebody knows (since 1970; empty where nothing lies between), and the receive time at the cursor
    (unix seconds), before which nothing is open then."""

    shard: int
    frontier: Cursor
    target: Cursor
    hours: range
    reached_s: int


@dataclass(frozen=True)
class Skip:
    """What a skip changes; `time_s` is the receive time (unix seconds) where live runs go on, the latest of
    the shards'."""

    table: str
    origin: str
    time_s: int
    shards: tuple[SkippedShard, ...]

    @property
    def change(self) -> LedgerChange:
        """What becomes of the ledger: a gap wherever nothing between frontier and target is accounted for.

        The receive time reached moves, too. Else the next run would report the hours in between as landed.
        """
        change = LedgerChange()
        for x in self.shards:
            change.gaps[x.shard] = (Gap(x.frontier, x.target, GAP_SKIPPED),)
            change.marks[x.shard] = (Edge(x.reached_s, x.target),)
        return change


def plan_skip(
    lake: Lake, logstore: Logstore, client: SlsClient, cursors: Mapping[int, Cursor]
) -> Planned[Skip]:
    """What going on at these cursors would pass over, of shards that are open; at the latest from where logs
    have settled. Changes nothing.

    A shard that is beyond its cursor stays where it is. Raises ConfigError when nothing has landed yet.
    """
    place, found = look(lake, logstore, client, started=False), []
    latest_s = int(client.now_s()) - logstore.budget.settle_s
    listed = {shard.id for shard in client.shards()}
    open_ones = {s for s, entry in place.ledger.shards.items() if s in listed and not entry.closed}
    for shard in sorted(cursors.keys() & open_ones):
        newest = client.cursor_at(shard, latest_s)
        target = min(cursors[shard], newest)
        at_s = latest_s if target == newest else client.cursor_time_s(shard, target)
        found.append(_skipped(client, shard, place.ledger.shards[shard], target, at_s))
    return _planned(place, found, max((x.reached_s for x in found), default=latest_s))


def _planned(place: Place, found: Collection[SkippedShard], time_s: int) -> Planned[Skip]:
    view = Skip(place.name, place.origin.id, time_s, tuple(x for x in found if x.target > x.frontier))
    merged = merge(place.ledger, Delta(view.origin, live=False, change=view.change))
    ledgers = {**place.state.ledgers, view.origin: merged.ledger}
    deed = Deed(Operation.SKIP, ",".join(str(x.shard) for x in view.shards))
    change = replace(authored.unchanged(place.head, place.state, deed), ledgers=ledgers)
    nothing = f"no shard is behind {moment_text(time_s)} UTC: nothing to skip"
    return Planned(view, place, change if view.shards else None, nothing=nothing)


def _skipped(
    client: SlsClient, shard: int, entry: ShardLedger, target: Cursor, reached_s: int
) -> SkippedShard:
    """What a shard passes over on its way to `target`, received at `reached_s`; nothing where it is there.

    Hours are those that somebody can still be shown: from the frontier's log, or from the oldest one that is
    left. Worked example: the frontier 200 was received at 07:57, the target 600 at 09:45: hours 07, 08 and
    09. With retention at 650, beyond the target, only 09 is named, since nothing tells when the logs that are
    passed over came.
    """
    if target <= entry.frontier:
        return SkippedShard(shard, entry.frontier, entry.frontier, range(0), reached_s)
    begin = max(entry.frontier, client.cursor_at(shard, "begin"))
    first_s = client.cursor_time_s(shard, begin) if begin < target else reached_s
    hours = range(first_s // HOUR_S, (reached_s - 1) // HOUR_S + 1)
    return SkippedShard(shard, entry.frontier, target, hours, reached_s)
