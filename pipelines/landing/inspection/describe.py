"""Looking without touching: what a live run would do, and where every shard stands.

Nothing here claims a shard, writes a file or commits. `preview` plans as if every shard were ours.

What is asked does not grow with the number of shards, but for their heads, which are asked for side by
side. Of the table metadata and manifests are read, and no file of rows.

Story: a person moves a group's checkpoint ahead of the table. Whoever makes a lag of it says that nothing
waits, while the next run lands from the frontier all the same. So lag and backlog come from ledger and
service, and the checkpoint is only shown beside them (`ahead` says when it is further).
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from pyiceberg.table import Table

from pipelines.landing.contents.cells import rows_by_hour
from pipelines.landing.coordinators import standing_if_there
from pipelines.landing.inspection.upcoming import upcoming
from pipelines.landing.ledger.barred import bars_of
from pipelines.landing.ledger.left import rates_of
from pipelines.landing.ledger.newest_landing import check_adds_up
from pipelines.landing.ledger.pinned import check_named
from pipelines.landing.ledger.place import landable
from pipelines.landing.ledger.start import (
    begun,
    check_reset,
    fill_only,
    known,
    leased_as,
    lowered,
    table_and_ledger,
    unknown_beside,
)
from pipelines.landing.ledger.state import ancestry, facts
from pipelines.landing.ledger.summary import windows_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import Backlog, PlanReport, gap_lines, readable_lines, suspect_lines
from pipelines.landing.table.contract import rows_of
from pipelines.landing.table.lake import Lake
from sls_io.planning.plan import plan_fill
from sls_io.planning.survey import survey_hours
from sls_io.planning.waits import FIRST_START, Wait, Why
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.errors import CursorExpired, ShardGone
from sls_io.values.settings import Budget
from sls_io.values.shard import Head, Shard
from sls_io.values.side_by_side import side_by_side
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.client import GroupCheckpoint, SlsClient
from sls_io.wire.heads import Heads

_STATES = {"readwrite": "open", "readonly": "read-only"}


@dataclass(frozen=True)
class ShardView:
    """One shard as service, group and table see it. Cursors are integers, None where unknown.

    `reached_s` is the receive time up to which the table has it; `lag_s` counts from there to the
    service's now, 0 for a closed or drained shard. `backlog` is None where nothing waits or is known.
    `suspect_s`: since when the service says that it is gone, unix seconds; 0: it does not. `paused`: somebody
    paused it. `consumers` says who is how far with it, where leases tell. `behind_bytes`: raw bytes that
    wait, about, 0 where nothing does, None where nobody knows. `snapshot_id`: the newest one with rows of it,
    None where the table's history has none. `left`: the settings name shards, and this one is left to others.
    """

    shard: int
    status: str
    holder: str
    checkpoint: Cursor | None
    frontier: Cursor | None
    end: Cursor | None
    rows: int
    reached_s: int
    lag_s: float | None
    closed: bool
    backlog: Backlog | None = None
    suspect_s: int = 0
    paused: bool = False
    consumers: Mapping[str, str] = field(default_factory=dict)
    behind_bytes: int | None = None
    snapshot_id: int | None = None
    left: bool = False

    @property
    def state(self) -> str:
        """In one word: open, read-only, closed, paused, suspect, left."""
        if self.closed:
            return "closed"
        if self.left:
            return "left"
        if self.paused:
            return "paused"
        return "suspect" if self.suspect_s or self.status == "gone" else _STATES[self.status]

    @property
    def ahead(self) -> bool:
        """Whether a checkpoint was published that the table has not reached. A checkpoint follows its
        landing, so the table has been further."""
        return self.checkpoint is not None and self.frontier is not None and self.checkpoint > self.frontier


def read_ledger(logstore: Logstore, lake: Lake, client: SlsClient) -> Ledger:
    """The ledger alone of `table_and_ledger`."""
    return table_and_ledger(lake, logstore, client)[1]


def refusal(logstore: Logstore, lake: Lake, client: SlsClient) -> str:
    """Why each landing is refused although the table is well: it is another logstore's; "" for no reason."""
    table = lake.load(logstore.table)
    if table is None or logstore.shared:
        return ""
    return unknown_beside(facts(table), client.origin(), logstore)


def preview(logstore: Logstore, lake: Lake, client: SlsClient) -> PlanReport:
    """What a live run that got every shard would do now, and why each shard waits. Before the first landing
    it begins where the first start would.

    Worked example of what it may say: `first_start` and windows from the begin, where no table is there; no
    windows and one reason for all shards, where `start` is to come; else windows, closings and gaps of the
    very plan that a run would make.

    Raises ConfigError and LedgerBroken where a run would be refused before it plans: columns that do not fit,
    a named shard that is none, a newest landing that does not add up.
    """
    table, ledger, _ = table_and_ledger(lake, logstore, client)
    if table is not None:
        landable(logstore, table)
        check_adds_up(table, "nothing can be landed")
    until_s = int(client.now_s()) - logstore.budget.settle_s
    first, shards, unknown = not ledger.started, client.shards(), ""
    check_named(logstore, shards, ledger)
    if first:
        check_reset(logstore)
        unknown = unknown_beside(facts(table), client.origin(), logstore) if table is not None else ""
        to_come = logstore.ahead(client.now_s())
        if to_come or (unknown and not logstore.shared):
            wait = Wait(Why.AHEAD, to_come) if to_come else FIRST_START
            waits = dict.fromkeys((s.id for s in shards), wait)
            return PlanReport(ledger.origin, logstore.table, True, until_s, waits=waits, unknown=unknown)
        ledger = begun(client, logstore, ledger)
    plan = upcoming(logstore, client, table, ledger, shards, shards, until_s=until_s)
    return PlanReport(
        origin=ledger.origin,
        table=logstore.table,
        first_start=first,
        until_s=until_s,
        unknown=unknown,
        windows=tuple((p.window.shard, p.window.hour, p.window.begin, p.window.end) for p in plan.windows),
        closings=dict(plan.change.closings),
        gaps=gap_lines(plan.change.gaps),
        waits=dict(sorted(plan.waits.items())),
        backlog=_backlog(
            logstore, table, ledger, {p.window.shard: p.window.hour for p in plan.windows[::-1]}, until_s
        ),
        suspects=suspect_lines(plan),
        readable=readable_lines(
            plan, lowered(logstore, facts(table), ledger.origin) if table else None, logstore.option
        ),
    )


def _backlog(
    logstore: Logstore, table: Table | None, ledger: Ledger, hours: Mapping[int, int], until_s: int
) -> Mapping[int, Backlog]:
    """Of the shards with windows, which begin in these receive hours."""
    rates = rates_of(table, ledger) if table is not None else {}
    found: dict[int, Backlog] = {}
    for shard, hour in sorted(hours.items()):
        entry = ledger.shards.get(shard)
        since_s = max(hour * HOUR_S, entry.reached_s if entry else 0)
        backlog = Backlog.of(rates.get(shard), until_s - since_s, logstore.budget.shard_mb_per_s)
        if backlog is not None:
            found[shard] = backlog
    return found


def lacking_hours(
    logstore: Logstore, lake: Lake, client: SlsClient, hours: range, until_s: int
) -> frozenset[int]:
    """The receive hours, since 1970, of which the service has something before `until_s` that the
    table has not. What a fill left behind, whatever made it stop.

    Whether an hour has *something* is asked for, so it is not cut (`pieces=1`) and no budget ends it: a fill
    that was bounded would call what lies behind its bound complete.
    """
    surveys = survey_hours(client, client.shards(), hours=hours, until_s=until_s, pieces=1)
    table, ledger, _ = table_and_ledger(lake, logstore, client)
    if table is not None:
        surveys = fill_only(surveys, ledger, facts(table), ledger.origin)
    plan = plan_fill(surveys=surveys, ledger=ledger, budget=Budget().unended, until_s=until_s)
    return frozenset(p.window.hour for p in plan.windows)


def hour_rows(logstore: Logstore, lake: Lake, origin: str, hours: Collection[int]) -> Mapping[int, int]:
    """Rows the table holds now of each of these receive hours, from its manifests alone; empty when
    the table's partitioning no longer tells hours apart.

    Of a table that was partitioned anew by hand it gives nothing, and not a part: half of an hour's rows
    would look like an hour of few.
    """
    table = lake.load(logstore.table)
    if table is None or not hours:
        return dict.fromkeys(hours, 0)
    there = rows_by_hour(table, rows_of(origin, range(min(hours), max(hours) + 1)))
    return {} if None in there else {hour: there[hour] for hour in hours}


def describe(
    logstore: Logstore, lake: Lake, client: SlsClient, *, heads: Heads | None = None
) -> list[ShardView]:
    """Every shard the service lists or the ledger knows, in order of id. `heads`: what was asked already.

    Checkpoints before the table. Story: the ledger is read, a run lands and publishes, and the checkpoints
    are read: they are ahead of the table, and a person is told that an older copy of it was restored.
    Leases are of the table's own name for the logstore: for that it is loaded before, in another look.
    """
    known_as = leased_as(lake.anew(), logstore, client)
    group = standing_if_there(logstore, client, known_as=known_as)
    table, ledger, paused = table_and_ledger(lake, logstore, client)
    listed = {s.id: s for s in client.shards()}
    now_s = client.now_s()
    rates = rates_of(table, ledger) if table is not None else {}
    asked = heads or Heads(client)

    def view(shard: int) -> ShardView:
        entry, checkpoint = ledger.shards.get(shard), group.checkpoints.get(shard)
        return _view(shard, listed.get(shard), asked, entry, checkpoint, now_s)

    views = [*side_by_side(view, sorted({*listed, *ledger.shards}))]
    quota = logstore.budget.shard_mb_per_s
    newest = _newest_snapshots(table, ledger) if table is not None else {}
    backlogs = {v.shard: Backlog.of(rates.get(v.shard), v.lag_s, quota) for v in views}
    return [
        replace(
            v,
            backlog=(backlog := backlogs[v.shard]),
            behind_bytes=backlog.raw_bytes if backlog else 0 if v.lag_s == 0 else None,
            snapshot_id=newest.get(v.shard),
            paused=v.shard in paused,
            consumers=dict(group.consumers.get(v.shard, {})),
            # Where shards are named, what the group has is of others, and follows other landings.
            checkpoint=v.checkpoint if logstore.shards is None else None,
            left=not logstore.reads(v.shard),
        )
        for v in views
    ]


def kept_out(logstore: Logstore, lake: Lake, client: SlsClient) -> dict[str, int]:
    """Of how many values of each column no row lands, since a person decided it."""
    table = lake.load(logstore.table)
    if table is None:
        return {}
    state, names = facts(table), {field.field_id: field.name for field in table.schema().fields}
    found = Counter(names.get(bar.field, "") for bar in bars_of(state, known(state, client.origin())))
    return dict(sorted(found.items()))


def _newest_snapshots(table: Table, ledger: Ledger) -> Mapping[int, int]:
    """Shard -> the newest snapshot that brought a window of it.

    Stops once each shard of the ledger has one: a table of which all shards land goes back one snapshot, and
    one with a shard that is quiet for a week goes back as far as its history reaches.
    """
    found: dict[int, int] = {}
    for snapshot in ancestry(table):
        origin, windows = windows_of(snapshot)
        for shard in {x.window.shard for x in windows} if origin == ledger.origin else ():
            found.setdefault(shard, snapshot.snapshot_id)
        if found.keys() >= ledger.shards.keys():
            break
    return found


def _lag_s(heads: Heads, entry: ShardLedger, head: Head | None, now_s: float) -> float | None:
    """Age of the oldest log that waits; 0 when nothing waits, None while retention is taking that log, and of
    a shard that is gone.

    Worked example: the frontier is 50, retention begins the shard at 80 and its end is 90: the oldest log
    that waits is at 80, and its receive time counts. From 50 the service would answer that the cursor is
    expired.
    """
    if entry.closed or head is None:
        return 0.0 if entry.closed else None
    at = max(entry.frontier, head.begin)
    if at >= head.end:
        return 0.0
    try:
        return max(0.0, now_s - heads.cursor_time_s(head.shard.id, at))
    except CursorExpired:
        return None


def _view(
    shard: int,
    listed: Shard | None,
    heads: Heads,
    entry: ShardLedger | None,
    checkpoint: GroupCheckpoint | None,
    now_s: float,
) -> ShardView:
    head: Head | None = None
    if listed is not None:
        try:
            head = heads.head(listed)
        except ShardGone:
            listed = None
    status = "gone" if listed is None else "readonly" if listed.readonly else "readwrite"
    known = entry or ShardLedger(start=Cursor(0))
    return ShardView(
        shard=shard,
        status=status,
        holder=checkpoint.holder if checkpoint else "",
        checkpoint=checkpoint.cursor if checkpoint else None,
        frontier=entry.frontier if entry else None,
        end=head.end if head else None,
        rows=known.rows,
        reached_s=known.reached_s,
        lag_s=_lag_s(heads, entry, head, now_s) if entry else None,
        closed=known.closed,
        suspect_s=known.suspect_s,
    )
