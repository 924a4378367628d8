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

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from pipelines.landing.commit import authored
from pipelines.landing.ledger.start import check_origin, find_table
from pipelines.landing.ledger.state import TableState, check_adds_up, read_state
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.claim import Gap, Ledger, ShardLedger
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import ConfigError
from sls_io.planning import GAP_SKIPPED
from sls_io.window import HOUR_S, Cursor, IntervalSet


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


@dataclass(frozen=True)
class PlannedSkip:
    """A skip, and the table it was planned on."""

    view: Skip
    table: Table
    state: TableState


def plan_skip(
    lake: Lake, logstore: Logstore, client: SlsClient, cursors: Mapping[int, Cursor]
) -> PlannedSkip:
    """What going on at these cursors would pass over, of shards that are open; at the latest from where logs
    have settled. Changes nothing.

    A shard that is beyond its cursor stays where it is. Raises ConfigError when nothing has landed yet.
    """
    origin, table = client.origin(), find_table(lake, logstore, client)
    if table is None or table.current_snapshot() is None:
        raise ConfigError(
            f"nothing has landed in {logstore.table} yet: where its history begins says the setting `reset`"
        )
    state = read_state(table)
    check_adds_up(table, "nothing was changed")
    ledger = state.ledger(check_origin(state, origin, logstore.table).id)
    latest_s = int(client.now_s()) - logstore.budget.settle_s
    listed = {shard.id for shard in client.shards()}
    found = []
    for shard in sorted(cursors.keys() & listed & ledger.shards.keys()):
        entry = ledger.shards[shard]
        if not entry.closed:
            newest = client.cursor_at(shard, latest_s)
            target = min(cursors[shard], newest)
            at_s = latest_s if target == newest else client.cursor_time_s(shard, target)
            found.append(_skipped(client, shard, entry, target, at_s))
    time_s = max((one.reached_s for one in found), default=latest_s)
    later = tuple(one for one in found if one.target > one.frontier)
    return PlannedSkip(Skip(logstore.table, ledger.origin, time_s, later), table, state)


def execute_skip(lake: Lake, planned: PlannedSkip, *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Commit it; the new snapshot. Raises what `authored.commit` does."""
    state, view, head = planned.state, planned.view, planned.table.current_snapshot()
    if head is None or not view.shards:
        raise ConfigError(f"nothing to skip in {view.table}")
    ledger = skipped(state.ledger(view.origin), view)
    change = authored.Change(
        head,
        {**state.ledgers, view.origin: ledger},
        state.adopted,
        Deed(Operation.SKIP, ",".join(str(x.shard) for x in view.shards)),
        forgotten=state.forgotten,
        same_rows=True,
    )
    return authored.commit(lake, planned.table, state, change, now_ms=int(clock.now() * 1000))


def skipped(ledger: Ledger, view: Skip) -> Ledger:
    """The ledger afterwards: a gap wherever nothing between frontier and target is accounted for.

    The receive time reached moves, too. Else the next run would report the hours in between as landed.
    """
    changed = {}
    for one in view.shards:
        entry = ledger.shards.get(one.shard)
        if entry is None or entry.closed:
            continue  # taken out or closed since this was planned: nothing of it is missing
        missing = IntervalSet.of([(one.frontier, one.target)]).minus(entry.accounted)
        gaps = {*entry.gaps, *(Gap(Cursor(b), Cursor(e), GAP_SKIPPED) for b, e in missing)}
        reached_s = max(entry.reached_s, one.reached_s)
        changed[one.shard] = replace(entry, gaps=tuple(sorted(gaps)), reached_s=reached_s, suspect_s=0)
    return ledger.with_shards(changed)


def _skipped(
    client: SlsClient, shard: int, entry: ShardLedger, target: Cursor, reached_s: int
) -> SkippedShard:
    if target <= entry.frontier:
        return SkippedShard(shard, entry.frontier, entry.frontier, range(0), reached_s)
    begin = max(entry.frontier, client.cursor_at(shard, "begin"))
    first_s = client.cursor_time_s(shard, begin) if begin < target else reached_s
    hours = range(first_s // HOUR_S, (reached_s - 1) // HOUR_S + 1)
    return SkippedShard(shard, entry.frontier, target, hours, reached_s)
