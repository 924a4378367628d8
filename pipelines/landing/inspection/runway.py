"""How long until retention deletes logs that have not landed: the runway of every shard.

The service deletes a log once it is older than the logstore's retention, landed or not. What it
takes before a landing has it is a named gap, for ever, so this is looked at long before: the oldest
log behind a shard's frontier, or of those that a person skipped and that are owed, its age by the service's
own clock, and what is left of the retention.

The pace is what the ledgers of the last day say: receive seconds landed in a second. Below 1 a shard
falls behind, and the runway ends later than with no landing at all, but it ends.

What was lost is said for a day, by everybody who looks. Story: a run names a gap, and nothing waits any more.
Were the loss the run's own word alone, the next look would find all well, at most five minutes later, and
whoever asks in between sees it by chance.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from pipelines.landing.bounds import Thresholds
from pipelines.landing.inspection.upcoming import TAKEN, left_alone
from pipelines.landing.ledger.pinned import left_to_others, own
from pipelines.landing.ledger.start import begun, table_and_ledger
from pipelines.landing.ledger.state import ancestry, landed_by_now
from pipelines.landing.ledger.summary import is_landing, ledgers_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import gap_lines
from pipelines.landing.table.lake import Lake
from sls_io.planning import waits
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import GAP_SKIPPED, Gap, Ledger, ShardLedger
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import CursorExpired, ShardGone
from sls_io.values.shard import Head, Shard
from sls_io.values.side_by_side import side_by_side
from sls_io.values.window import HOUR_S, Cursor, IntervalSet
from sls_io.wire.client import SlsClient
from sls_io.wire.heads import Heads

PACE_S = 24 * HOUR_S
"""The pace is measured over this long, or since the oldest landing that is known."""
_DAY_S = 24.0 * HOUR_S


@dataclass(frozen=True)
class ShardRunway:
    """One shard.

    waiting_since_s  receive time of the oldest log behind the frontier, which runs land; None: nothing waits
    owed_since_s     the same of those that a person skipped, which only a backfill lands; None: no such log
    left_s           seconds until the older of both is deleted; None: there is none, or none is ever deleted
    lost             retention was faster: the next landing names a gap, where it does not leave the shard as
                     it is. What waits is what is left then
    stays            why the next landing leaves it as it is, in the landing's own words: the settings do not
                     name it, or it is paused; it does not believe yet that logs are gone; or they are
                     (`lost`), and that is left to a person
    pace             receive seconds landed in a second; None where nothing tells it
    """

    shard: int
    waiting_since_s: int | None = None
    left_s: float | None = None
    lost: bool = False
    pace: float | None = None
    stays: Wait | None = None
    owed_since_s: int | None = None

    @property
    def suspect(self) -> bool:
        """Whether it is said that logs are gone, and not proven."""
        return self.stays is not None and self.stays.kind is Why.SUSPECT

    @property
    def owed(self) -> bool:
        """Whether what is deleted first was skipped, so that no run lands it."""
        since_s = self.waiting_since_s
        return self.owed_since_s is not None and (since_s is None or self.owed_since_s < since_s)

    @property
    def overtaken_in_s(self) -> float | None:
        """Seconds until retention reaches the frontier at the present pace; None: never.

        Worked example: 3 days are left, and half a receive second lands in a second: retention gains half a
        second in each, and is there in 6 days.
        """
        if self.left_s is None or self.pace is None or self.pace >= 1:
            return None
        return max(0.0, self.left_s) / (1 - self.pace)


@dataclass(frozen=True)
class Runway:
    """All shards of a logstore; `retention_s` is None for a logstore that deletes nothing. `least_s`: what is
    left at least, where the ledger alone said so and no shard was asked. `named`: gaps of the last day, a
    phrase each."""

    table: str
    retention_s: float | None
    shards: tuple[ShardRunway, ...] = ()
    least_s: float | None = None
    named: tuple[str, ...] = ()

    @property
    def shortest_s(self) -> float | None:
        """What is left where least is; the whole retention when nothing waits, None for ever."""
        if self.retention_s is None or self.least_s is not None:
            return self.least_s
        left = [s.left_s for s in self.shards if s.left_s is not None]
        left += [0.0 for s in self.shards if s.lost]
        return max(0.0, min(left, default=self.retention_s))

    @property
    def lost(self) -> bool:
        """Whether logs are gone that had not landed."""
        return any(s.lost for s in self.shards)

    @property
    def suspect(self) -> bool:
        """Whether a shard is."""
        return any(s.suspect for s in self.shards)

    def limits(self, asked: Thresholds | None) -> Thresholds:
        """Below how many seconds a warning begins, and an error; 0 for never.

        Worked example, in hours: of a retention of 1 day a warning begins below 12 and an error below 3; of 7
        days below 42 and 21; of 30 days below 180 and 24.
        """
        if asked is not None or self.retention_s is None:
            return asked or Thresholds(0.0, 0.0)
        warn_s = min(self.retention_s / 2, max(self.retention_s / 4, _DAY_S))
        return Thresholds(warn_s, min(_DAY_S, self.retention_s / 8))

    def waits_for_a_person(self, below_s: float) -> bool:
        """Whether no run helps any of the `short` ones: it was skipped, or runs leave its shard alone."""
        short = self.short(below_s)
        return bool(short) and all(s.owed or s.stays for s in short)

    def short(self, below_s: float) -> tuple[ShardRunway, ...]:
        """The shards with less time left, the shortest first, and before them the lost and those in doubt."""
        late = {s.shard for s in self.shards if s.left_s is not None and s.left_s < below_s}
        found = [s for s in self.shards if s.suspect or s.lost or s.shard in late]
        return tuple(sorted(found, key=lambda s: (not s.lost, not s.suspect, s.left_s or 0.0, s.shard)))


def runway(
    logstore: Logstore,
    lake: Lake,
    client: SlsClient,
    *,
    clock: Clock = SYSTEM_CLOCK,
    heads: Heads | None = None,
) -> Runway:
    """Look at every shard that this deployment answers for. Changes nothing. `heads`: what was asked already.

    Before the first landing a shard begins where that one would begin it now. Which shards nobody reads is
    asked of the table's ledger all the same: in a ledger that only would begin, nobody reads any.

    Raises LedgerBroken when the table cannot be trusted, ConfigError where the settings refuse to begin, and
    what the service's calls raise.

    What is shown as lost is only what a run would believe: a shard whose begin has passed its frontier is
    asked of the planner once more, and its `stays` then has the planner's own words. That second survey
    costs calls, so it is made for such shards alone.
    """
    retention_s, since_ms = client.retention_s(), int((clock.now() - PACE_S) * 1000)
    table, ledger, paused = table_and_ledger(lake, logstore, client)
    earlier = _earlier(table, ledger.origin, since_ms)
    listed = {s.id: s for s in client.shards()}
    mine = own(logstore, listed.values(), ledger)
    left = {**left_to_others(logstore, listed.values(), ledger), **{s: waits.paused(s) for s in paused}}
    named = gaps_since(table, ledger, mine, since_ms)
    if not ledger.started:
        ledger = begun(client, logstore, ledger)
    now_s = client.now_s()
    asked = heads or Heads(client)

    def one(shard: int, known: Ledger = ledger) -> ShardRunway:
        entry = known.shards.get(shard)
        pace = None if shard in left else _pace(earlier, entry, shard, clock.now())
        seen = _look(asked, shard, listed.get(shard), entry, retention_s, now_s, pace)
        return replace(seen, stays=left.get(shard))

    shards = tuple(side_by_side(one, sorted(mine)))
    if table is not None and any(s.lost for s in shards):
        table, ledger = landed_by_now(table, ledger)
        shards = tuple(one(s.shard, ledger) if s.lost else s for s in shards)
    lost = [s.shard for s in shards if s.lost]
    if lost:
        why = left_alone(logstore, client, table, ledger, listed, lost)
        shards = tuple(
            replace(s, lost=why[s.shard].kind is not Why.SUSPECT, stays=why[s.shard]) if s.shard in why else s
            for s in shards
        )
    return Runway(logstore.table, retention_s, shards, named=named)


def gaps_since(table: Table | None, ledger: Ledger, mine: Set[int], since_ms: int) -> tuple[str, ...]:
    """The gaps of the shards `mine` that landings have named since then, a phrase each; not what a person
    skipped, which is owed.

    What gaps of the newest ledger from before do not cover. Where the history has none from before, because
    older snapshots are expired, those of its oldest ledger count as older.

    Worked example: yesterday's ledger has the gap [0, 100). A fill lands [0, 40) of it, and a landing names
    [150, 180): of the gaps [40, 100) and [150, 180) the second one alone is new.
    """
    now = {shard: _lost(entry) for shard, entry in ledger.shards.items() if shard in mine}
    if table is None or not any(now.values()):
        return ()
    before, known = Ledger(ledger.origin), None
    for snapshot in filter(is_landing, ancestry(table)):
        known = snapshot
        if snapshot.timestamp_ms < since_ms:
            break
    if known is not None and (known.timestamp_ms < since_ms or known.parent_snapshot_id is not None):
        before = ledgers_of(known).get(ledger.origin, before)
    then = {shard: _lost(entry) for shard, entry in before.shards.items()}
    return gap_lines({s: _beyond(gaps, then.get(s, ())) for s, gaps in now.items()})


def _lost(entry: ShardLedger) -> list[Gap]:
    return [gap for gap in entry.gaps if gap.cause != GAP_SKIPPED]


def _beyond(gaps: Iterable[Gap], older: Iterable[Gap]) -> list[Gap]:
    """The parts of `gaps` that none of the `older` ones covers. By cursors: one that a fill has made smaller
    is another gap, and no other loss."""
    known = IntervalSet.of((gap.begin, gap.end) for gap in older)
    return [
        replace(gap, begin=Cursor(begin), end=Cursor(end))
        for gap in gaps
        for begin, end in IntervalSet.of([(gap.begin, gap.end)]).minus(known)
    ]


def _look(
    heads: Heads,
    shard: int,
    listed: Shard | None,
    entry: ShardLedger | None,
    retention_s: float | None,
    now_s: float,
    pace: float | None,
) -> ShardRunway:
    """A shard that is not listed counts as lost while the ledger has it open, for the planner to confirm. Of
    a closed one only what is owed can still be lost."""
    owed, closed = _owed(entry), entry is not None and entry.closed
    gone = ShardRunway(shard, lost=entry is not None and not closed, pace=None if closed else pace)
    if listed is None or (closed and not owed):
        return gone
    try:
        head = heads.head(listed)
        if entry is None:
            # A gap with a cause is all that can come of what went unseen.
            lost = _began_unseen(head, retention_s, now_s)
        else:
            lost = not closed and entry.frontier < head.begin
        since_s, owed_since_s = (
            None if at is None else heads.cursor_time_s(shard, at)
            for at in (_behind(entry, head), _first_owed(owed, head))
        )
    except (ShardGone, CursorExpired):
        # Retention passed between two of the calls.
        return gone
    left_s = _left_s((since_s, owed_since_s), retention_s, now_s)
    return ShardRunway(shard, since_s, left_s, lost, pace, owed_since_s=owed_since_s)


def _left_s(since_s: Iterable[int | None], retention_s: float | None, now_s: float) -> float | None:
    """Seconds until the oldest of these is deleted; None: there is none, or none is ever deleted."""
    first_s = min((at_s for at_s in since_s if at_s is not None), default=None)
    return None if retention_s is None or first_s is None else first_s + retention_s - now_s


def _first_owed(owed: Iterable[Gap], head: Head) -> Cursor | None:
    """The cursor of the oldest log that was skipped and is still there."""
    return min((max(gap.begin, head.begin) for gap in owed if gap.end > head.begin), default=None)


def _behind(entry: ShardLedger | None, head: Head) -> Cursor | None:
    """The cursor of the oldest log behind the frontier that is still there; None where nothing waits for a
    run."""
    frontier = head.begin if entry is None else max(entry.frontier, head.begin)
    return frontier if frontier < head.end and not (entry is not None and entry.closed) else None


def _owed(entry: ShardLedger | None) -> list[Gap]:
    """What a person skipped: it can still be landed, and so be lost, of a closed shard, too."""
    return [gap for gap in entry.gaps if gap.cause == GAP_SKIPPED] if entry is not None else []


def _began_unseen(head: Head, retention_s: float | None, now_s: float) -> bool:
    """A shard that no landing saw, older than the service keeps logs: its beginning may be gone."""
    created_s = head.shard.created_s
    return retention_s is not None and head.begin > 0 and 0 < created_s < now_s - retention_s


_Old = tuple[Ledger, float]
"""A ledger and when it was committed, seconds by the writer's clock."""


def _earlier(table: Table | None, origin: str, not_before_ms: int) -> list[_Old]:
    """The ledgers of `main` since then, oldest first, and one from before where there is one.

    Ends at the first landing from before, so that the pace is over a whole day where the table is older than
    that, and at a landing that does not know the origin: what is before it is of another history.
    """
    found: list[_Old] = []
    for snapshot in filter(is_landing, () if table is None else ancestry(table)):
        ledger = ledgers_of(snapshot).get(origin)
        if ledger is None:
            break
        found.append((ledger, snapshot.timestamp_ms / 1000))
        if snapshot.timestamp_ms < not_before_ms:
            break
    return found[::-1]


def _pace(earlier: Iterable[_Old], entry: ShardLedger | None, shard: int, now_s: float) -> float | None:
    """From the oldest of the ledgers in which the shard had reached anything.

    Worked example: the ledger of 5,000 s had reached 1,000; now it is 9,000 and the shard has reached 4,600:
    3,600 receive seconds in 4,000 s, so the pace is 0.9, and the shard falls behind.
    """
    for old, at_s in earlier:
        then = old.shards.get(shard)
        if entry is not None and then is not None and then.reached_s and now_s > at_s:
            return max(0.0, (entry.reached_s - then.reached_s) / (now_s - at_s))
    return None


def spoken(found: Runway, below_s: float) -> Iterable[str]:
    """The shards with less than `below_s` left, a sentence each; one sentence when there is none."""
    short = found.short(below_s)
    if found.retention_s is None and not short:
        yield "the logstore deletes nothing: no log can be lost to retention"
        return
    if not short:
        least = "at least " * (found.least_s is not None)
        left = f"{least}{days(found.shortest_s)} of {days(found.retention_s)} left"
        yield f"the oldest log that is not landed has {left}"
    for shard in short:
        yield f"shard {shard.shard}: {_said(shard)}"


def _said(shard: ShardRunway) -> str:
    """What there is to say of one with little time left. Where runs leave it as it is, that is said in the
    place of a pace: no run is fast enough for it."""
    if shard.suspect or shard.lost:
        return str(shard.stays or f"{TAKEN}; the next run names the gap")
    left = days(shard.left_s)
    if shard.owed:
        return (
            f"the oldest logs that were skipped are deleted in {left}; no run lands them, a backfill of "
            "their hours does"
        )
    then = ""
    if shard.stays:
        then = f"; {shard.stays}"
    elif shard.overtaken_in_s is not None:
        then = f"; at the present pace retention is there in {days(shard.overtaken_in_s)}"
    elif shard.pace is not None:
        then = "; landings catch up at the present pace"
    return f"its oldest log not landed is deleted in {left}{then}"


def days(seconds: float | None) -> str:
    """`12 min`, `5.2 h`, `7.5 d`; `ever` for None."""
    if seconds is None:
        return "ever"
    if seconds < HOUR_S:
        return f"{max(0.0, seconds) / 60:.0f} min"
    return f"{seconds / HOUR_S:.1f} h" if seconds < 48 * HOUR_S else f"{seconds / (24 * HOUR_S):.1f} d"


CURE = (
    "turn the schedule on, give runs a larger budget or more cores, or raise the logstore's retention "
    "in the service until landings have caught up"
)
"""What to do about a short runway."""
