"""What of receive hours cannot be landed, ever or yet, and why: a sentence each.

The service answers for an hour that it no longer has, or does not have yet, as for one without logs. So
"nothing is missing" needs its clock, the oldest log it keeps, and what the ledger calls withdrawn, a gap or
forgotten. For a cursor that retention took, the windows of landings tell its hour, as far back as snapshots
are kept.

Why the service alone cannot be asked: GetCursor for a time before a shard's oldest log answers with the begin
cursor. An hour of which all is gone, and an hour in which nothing was sent, both have two equal edges. Why
the ledger alone cannot be asked either: it keeps cursors and no hours, so of [0, 150) it does not know that
this was 07:00 to 08:30. Only the windows of past landings have both, and they leave with their snapshots.
What no window tells any more is `unsure`, also beside what is known to be lost.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from pyiceberg.table import Table

from pipelines.landing.contents.cells import rows_by_hour
from pipelines.landing.hours import hour_text, hours_text, moment_text
from pipelines.landing.ledger.start import known
from pipelines.landing.ledger.state import TableState, ancestry, facts, windows_in
from pipelines.landing.ledger.summary import is_landing, ledgers_of
from pipelines.landing.ledger.values import Landed
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import rows_of
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import CURSOR_UNKNOWN, Gap, Ledger, ShardLedger
from sls_io.values.errors import CursorExpired, ShardGone, some_of
from sls_io.values.shard import Shard
from sls_io.values.side_by_side import answers
from sls_io.values.window import HOUR_S, Cursor, IntervalSet
from sls_io.wire.client import SlsClient

NEVER: Final = ("future", "forgotten", "before")
"""Nothing at all can be landed of an hour with a `Lack` of one of these kinds."""
Kind = Literal["future", "forgotten", "before", "withdrawn", "unsure", "gap"]


@dataclass(frozen=True)
class Lack:
    """Something of these receive hours (since 1970) that nobody can land.

    future     they have not come yet
    forgotten  `table forget --before` said that nothing of them is landed
    before     nothing of them or earlier has landed, and the service keeps nothing as old
    withdrawn  rows were taken back, and retention has taken them since
    unsure     the same, and whether these rows were of these hours nobody knows any more
    gap        a named gap of the ledger lies in them
    """

    kind: Kind
    hours: range
    text: str


@dataclass(frozen=True)
class Oldest:
    """The oldest log that the service keeps of a shard: its cursor, and its receive time (unix seconds; None
    for a shard without logs)."""

    begin: Cursor
    at_s: int | None


def lacking(lake: Lake, logstore: Logstore, client: SlsClient, hours: range) -> tuple[Lack, ...]:
    """What of these hours cannot be landed. Changes nothing. Raises what the service's calls raise."""
    origin, table = client.origin(), lake.load(logstore.table)
    state = facts(table, damaged_too=True) if table is not None else None
    origin = known(state, origin) if state is not None else origin
    return tuple(_lacking(table, state, origin.id, client, hours))


def first_hour(lake: Lake, logstore: Logstore, client: SlsClient) -> int:
    """`first_hour_of` the table as it is now; `start` where there is none."""
    table = lake.load(logstore.table)
    if table is None:
        return logstore.start_hour
    state = facts(table, damaged_too=True)
    return first_hour_of(logstore, table, state, known(state, client.origin()).id)


def first_hour_of(logstore: Logstore, table: Table, state: TableState, origin: str) -> int:
    """The receive hour before which nothing lands: `start`, or an earlier one with which the table's history
    began, by what the settings named then, by a landing, or by the rows that are there.

    Story: `start` was Monday, and somebody writes Friday. The ledger goes on, so rows of Tuesday are there,
    are proven, and can be taken back. By the settings alone nobody could land them again, nor read them again
    to take a person's values out.
    """
    then_s = state.asked.get(origin)
    asked = [] if then_s is None else [then_s // HOUR_S]
    landed = (x.window.hour for x in windows_in(table, origin))
    return min([logstore.start_hour, *asked, *landed, *_hours_there(table, origin)])


def retention_took(client: SlsClient, lacks: Collection[Lack]) -> list[Lack]:
    """Those of `lacks` behind which there may be logs that retention took. There are none where an hour lies
    before the oldest log and the service would still have all of it: nothing was received then.

    Whether anything was received in an hour that is older, nobody can say. It stays in the answer, also when
    only a part of it is older: a backfill that is red although nothing came costs a look, and an hour that is
    called complete although its first half is gone is a loss that nobody hears of.

    Worked example: it is 06:30 of the next day, the service keeps 24 hours, and the hours 00 to 09 of this
    day lie before the oldest log. What is older than 06:30 can be gone, so 00 to 06 stay in the answer: 06
    since a part of it is. Of 07 to 09 the service would still have every log, so nothing came then. Of a
    logstore that keeps all logs (None) retention takes nothing.
    """
    kept_s = client.retention_s()
    ended = 0 if kept_s is None else -int(-(client.now_s() - kept_s) // HOUR_S)
    found = [lack for lack in lacks if lack.kind in ("withdrawn", "gap")]
    for lack in lacks:
        hours = range(lack.hours.start, min(lack.hours.stop, ended))
        if lack.kind == "before" and hours:
            found.append(replace(lack, hours=hours))
    return found


def not_over(logstore: Logstore, client: SlsClient, hours: range) -> range:
    """Those of these hours that the service still writes into, or whose newest logs have not settled: what
    came of them can land, and more will. They end at the service's clock, `settle_s` after their last
    second.

    Worked example: `settle_s` is 60 and 07 to 11 are asked for. At 09:00:30 the answer is 08 and 09: the last
    logs of 08 may still come to light. At 09:01:00 it is 09 alone. Hours 10 and 11 are no part of it: they
    are in the future, which is a `Lack` of its own.
    """
    now_s = client.now_s()
    first = int(now_s - logstore.budget.settle_s) // HOUR_S
    return range(max(hours.start, first), min(hours.stop, int(now_s) // HOUR_S + 1))


def taken(table: Table, origin: str, client: SlsClient, cursors: Mapping[int, IntervalSet]) -> list[str]:
    """What retention has taken already of these cursors of each shard, a sentence a shard.

    For a person who is about to let their rows go. `table` and `origin` say which hours they are of.
    """
    said = []
    kept = oldest(client)
    for shard, intervals in sorted(cursors.items()):
        begin = kept[shard].begin if shard in kept else CURSOR_UNKNOWN
        lost = intervals.within(0, begin)
        if lost:
            known = [x for x in windows_in(table, origin) if x.window.shard == shard]
            hours = sorted({x.window.hour for x in known if lost.overlaps(x.window.begin, x.window.end)})
            where = f" of {', '.join(map(hour_text, hours))}" if hours else ""
            said.append(
                f"shard {shard}: retention has already taken {_intervals(lost)}{where}: these rows cannot be "
                "landed again"
            )
    return said


@dataclass(frozen=True)
class StillThere:
    """What the service still has of cursors that would land again: at most `lost` of the `rows` rows are gone
    from it, and with 0 none is. The lost rows are of `hours` (since 1970), as far as landings tell."""

    rows: int
    lost: int
    hours: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.lost:
            return f"the service still has all {self.rows:,} rows"
        of = f", of {some_of(map(hour_text, self.hours))}" if self.hours else ""
        which = f"up to {self.lost:,} of the {self.rows:,} rows"
        return f"retention has taken {which}{of}: they would be lost"


def kept_of(
    client: SlsClient,
    rows: Mapping[int, int],
    cursors: Mapping[int, IntervalSet],
    landed: Iterable[Landed],
    *,
    never: int = 0,
) -> StillThere:
    """What the service has of these cursors of each shard, which held `rows` rows. `landed` are windows with
    the rows that they landed with, the newest first. `never` rows more are lost whatever the service has,
    since no landing brings them.

    The number is a bound: more may be said to be lost than is, never less. Rows are not spread evenly over
    cursors, so [0, 150) of [0, 300) is not half of the rows; known are the rows of whole windows. And a
    window tells how many rows it brought, not how many are left of it: some may have been removed since. So
    what the safe windows brought cannot simply be taken off. Of each shard of which a cursor is gone:

    - lost are at most the rows that the windows with a gone cursor brought, and never more than there are
    - a cursor that landed more than once is told by its newest window (`told`)
    - rows beyond what all windows brought lie in none of them, and count as lost
    - where no window tells a gone cursor, all rows of the shard count as lost

    Rows of a shard without cursors count as lost, too: nobody says where they were.

    Worked example: 300 rows land again from the windows [0, 100) of hour 07, [100, 200) of 08 and [200, 300)
    of 09, with 100 rows each, and the service begins at 150. Up to 200 rows are lost, of 07 and 08. Of
    [100, 200) all 100 count, since nobody knows how many lie before 150. Once the snapshot with the window of
    09 is expired, its 100 rows are known to nobody, and all 300 count as lost.

    With rows that left: [0, 100) brought 50 rows, [100, 200) brought 100, and 90 of these were removed. The
    60 rows that are left land again, and the service begins at 100. Up to 50 are lost. Were the 100 of the
    safe window taken off the 60, nothing would be.
    """
    windows = list(landed)
    begins = {shard: each.begin for shard, each in oldest(client).items()}
    lost = never + sum(number for shard, number in rows.items() if not cursors.get(shard))
    hours = set[int]()
    for shard, intervals in cursors.items():
        gone = intervals.within(0, begins.get(shard, CURSOR_UNKNOWN))
        if gone:
            mine = (x for x in windows if x.window.shard == shard)
            more, of = _lost_of(rows.get(shard, 0), intervals, gone, mine)
            lost, hours = lost + more, hours | of
    return StillThere(never + sum(rows.values()), lost, tuple(sorted(hours)))


def told(
    intervals: IntervalSet, windows: Iterable[Landed]
) -> tuple[list[tuple[Landed, IntervalSet]], IntervalSet]:
    """Which of a shard's cursors its windows tell, and the cursors that none does.

    The windows come newest first, and each cursor is told by the newest one that had it: what was landed,
    taken back and landed again is counted once.

    Worked example: [0, 30) is asked for. The newest window is [20, 40), an older one [10, 40): the newest
    tells [20, 30), the older one [10, 20), and [0, 10) nobody does.
    """
    found, left = [], intervals
    for x in windows:
        pair = IntervalSet.of([(x.window.begin, x.window.end)])
        part = pair.minus(pair.minus(left))
        if part:
            found.append((x, part))
            left = left.minus(pair)
    return found, left


def _lost_of(
    rows: int, intervals: IntervalSet, gone: IntervalSet, windows: Iterable[Landed]
) -> tuple[int, set[int]]:
    """How many of a shard's `rows` rows at `intervals` are lost at most with the cursors `gone`, and of which
    hours they are. `kept_of` has the rule."""
    taken, safe, hours = 0, 0, set[int]()
    parts, left = told(intervals, windows)
    for x, part in parts:
        if any(gone.overlaps(begin, end) for begin, end in part):
            taken += x.rows
            hours.add(x.window.hour)
        else:
            safe += x.rows
    if any(gone.overlaps(begin, end) for begin, end in left):
        return rows, hours
    return min(rows, max(taken, rows - safe)), hours


def oldest(client: SlsClient) -> dict[int, Oldest]:
    """The oldest log that the service keeps of each shard that it lists.

    A shard is left out where it goes, or its oldest log does, between one call and the next. Whoever looks it
    up finds nothing, and takes it that the service has nothing of the shard any more: too much may be said to
    be lost, never too little.
    """

    def of(shard: Shard) -> Oldest | None:
        try:
            head = client.head(shard)
            at_s = client.cursor_time_s(shard.id, head.begin) if head.begin < head.end else None
        except (ShardGone, CursorExpired):
            return None
        return Oldest(head.begin, at_s)

    return {shard.id: oldest for shard, oldest in answers(of, client.shards()) if oldest is not None}


def _lacking(
    table: Table | None, state: TableState | None, origin: str, client: SlsClient, hours: range
) -> Iterator[Lack]:
    now_s = client.now_s()
    come = range(hours.start, min(hours.stop, int(now_s) // HOUR_S + 1))
    if len(come) < len(hours):
        later = range(max(hours.start, come.stop), hours.stop)
        clock = f"the service's clock says {moment_text(int(now_s))}"
        yield Lack("future", later, f"{hours_text(later)}: not received yet, {clock}")
    before = state.forgotten.before(origin) if state else 0
    if come and come.start < before:
        gone = range(come.start, min(come.stop, before))
        yield Lack("forgotten", gone, f"{hours_text(gone)}: removed by `table forget`, for good")
        come = range(gone.stop, come.stop)
    if not come:
        return
    kept = oldest(client)
    if table is not None and state is not None:
        yield from _of_ledger(table, state.ledger(origin), origin, kept, come, client)
    times = [x.at_s // HOUR_S for x in kept.values() if x.at_s is not None]
    landed = [x.window.hour for x in windows_in(table, origin)] if table is not None else []
    there = [*times, *landed, *(_hours_there(table, origin) if table is not None else ())]
    # Three kinds of evidence bound what is "never": the oldest log of any shard, the oldest window of a
    # landing, and the oldest file of the table, since windows leave with their snapshots and files stay. From
    # the first hour with any of them on, an hour without rows may have been empty; only what is older than
    # all of them never comes.
    never = range(come.start, min([come.stop, *there]))
    if never:
        since = (
            f"the oldest log that it still has is of {hour_text(min(times))}" if times else "it has no log"
        )
        yield Lack(
            "before",
            never,
            f"{hours_text(never)}: nothing so old has landed, nor can it: the service keeps nothing of it, "
            f"{since}",
        )


def _of_ledger(
    table: Table, ledger: Ledger, origin: str, kept: Mapping[int, Oldest], hours: range, client: SlsClient
) -> Iterator[Lack]:
    """What the ledger has of these hours that cannot come any more: withdrawn, or in a gap."""
    known = list(windows_in(table, origin))
    for shard, entry in sorted(ledger.shards.items()):
        mine = [x for x in known if x.window.shard == shard]
        oldest_log = kept.get(shard, Oldest(CURSOR_UNKNOWN, None))
        if oldest_log.at_s is None or oldest_log.at_s >= hours.start * HOUR_S:
            yield from _withdrawn(shard, entry, oldest_log.begin, mine, hours)
        yield from _gaps(table, origin, shard, entry, oldest_log.begin, mine, hours, client)


def _withdrawn(
    shard: int, entry: ShardLedger, begin: Cursor, known: Iterable[Landed], hours: range
) -> Iterator[Lack]:
    """What retention has taken of a shard's withdrawn cursors, an entry an hour of `known` windows.

    `known` comes newest first (`told`).

    Worked example: [0, 300) is withdrawn and the service begins at 150. Windows say [0, 100) of hour 07 and
    [100, 200) of 08, 100 rows each. Of 07 100 rows are lost, of 08 at most 100, at [100, 150). Where no
    window tells of [0, 100) any more, one entry of the kind `unsure` covers all hours that were asked for,
    beside that of 08: what is known of one hour says nothing of the rest.
    """
    lost = entry.withdrawn.within(0, begin)
    rows: dict[int, int] = {}
    where: dict[int, IntervalSet] = {}
    in_part: set[int] = set()
    parts, left = told(lost, known)
    for x, part in parts:
        if x.window.hour in hours:
            rows[x.window.hour] = rows.get(x.window.hour, 0) + x.rows
            where[x.window.hour] = where.get(x.window.hour, IntervalSet()).union(part)
            # Of a window that is lost in part nobody knows how many of its rows are.
            if part != IntervalSet.of([(x.window.begin, x.window.end)]):
                in_part.add(x.window.hour)
    for hour, intervals in sorted(where.items()):
        yield Lack(
            "withdrawn",
            range(hour, hour + 1),
            f"shard {shard}: {'at most ' if hour in in_part else ''}{rows[hour]} withdrawn rows of "
            f"{hour_text(hour)}, {_intervals(intervals)}: retention took them, they cannot come back",
        )
    if left:
        yield Lack(
            "unsure",
            hours,
            f"shard {shard}: {_intervals(left)} were withdrawn and retention has taken them; whether they "
            "are of these hours nobody knows any more",
        )


def _gaps(
    table: Table,
    origin: str,
    shard: int,
    entry: ShardLedger,
    begin: Cursor,
    known: list[Landed],
    hours: range,
    client: SlsClient,
) -> Iterator[Lack]:
    """Gaps between a window of an hour before and one of an hour after some of these hours."""
    for gap in entry.gaps:
        # A gap has cursors and no hours. Its hours lie between those of the landings around it: the window
        # behind it, or the service's word on the cursor behind it while that is still there, and the window
        # before it.
        after = min((x.window.hour for x in known if x.window.begin >= gap.end), default=None)
        if after is None and begin <= gap.end < CURSOR_UNKNOWN:
            try:
                after = client.cursor_time_s(shard, gap.end) // HOUR_S
            except (CursorExpired, ShardGone):
                after = None
        earlier = max((x.window.hour for x in known if x.window.end <= gap.begin), default=None)
        if after is None or earlier is None:
            continue
        # The landing before the gap may have stopped within its last hour: the rest is in the gap, too.
        whole = _reached_before(table, origin, shard, gap) >= (earlier + 1) * HOUR_S
        inside = range(max(hours.start, earlier + 1 if whole else earlier), min(hours.stop, after))
        if inside:
            yield Lack(
                "gap",
                inside,
                f"shard {shard}: the gap [{gap.begin}, {gap.end}) {gap.cause} lies in {hours_text(inside)}: "
                "these logs cannot be landed any more",
            )


def _reached_before(table: Table, origin: str, shard: int, gap: Gap) -> int:
    """The receive time (unix seconds) that the newest ledger without the gap had reached."""
    for snapshot in filter(is_landing, ancestry(table)):
        ledger = ledgers_of(snapshot, damaged_too=True).get(origin)
        entry = ledger.shards.get(shard) if ledger else None
        if entry is None or not any(g.begin < gap.end and gap.begin < g.end for g in entry.gaps):
            return entry.reached_s if entry else 0
    return 0


def _hours_there(table: Table, origin: str) -> set[int]:
    """The receive hours of which the table has files of `origin`, from its manifests."""
    return {hour for hour in rows_by_hour(table, rows_of(origin)) if hour is not None}


def _intervals(intervals: IntervalSet) -> str:
    return ", ".join(f"[{b}, {e})" for b, e in intervals)
