"""The fence of a landing: what it brings is accepted only where it fits the ledger that is there.

No window may overlap what has landed, each live window begins at its shard's frontier, and parents are
closed before children. `merge` is computed against the exact table state that the commit then requires:
the catalog refuses it on any other (`fence` in `commit/publish.py`). What fences an older or an aborted run
is in `epochs.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pipelines.landing.ledger.values import Delta, Landed
from sls_io.planning.values import Edge, LedgerChange, Plan, Suspicion
from sls_io.values.claim import Gap, Ledger, ShardLedger
from sls_io.values.window import HOUR_S, Cursor, IntervalSet, Window


@dataclass(frozen=True, slots=True)
class Merged:
    """The ledger after a delta, which of its windows are in it, and which lost to another landing."""

    ledger: Ledger
    accepted: tuple[Landed, ...]
    lost: tuple[Landed, ...]


def commit_due(change: LedgerChange, ledger: Ledger) -> bool:
    """Whether a change is worth a commit that brings no rows: closings, openings, gaps, suspicions, another
    start, or an hour edge passed.

    Worked example: a shard has reached 09:58, and nothing comes. A run at 09:59 commits nothing; one at 10:03
    has passed an hour's edge and says so. A quiet shard costs a commit an hour and not one a run.
    """
    if change.closings or change.gaps or change.opened or change.suspicions or change.anew:
        return True
    for shard, marks in change.marks.items():
        entry = ledger.shards.get(shard)
        if entry is None or entry.closed:
            continue
        reached = max((m.time_s for m in marks if m.cursor <= entry.frontier), default=0)
        if reached // HOUR_S > entry.reached_s // HOUR_S:
            return True
    return bool(change.starts.keys() - ledger.shards.keys())


def delta_of(plan: Plan, written: Iterable[Landed]) -> Delta:
    """What a landing brings of what was written. In a live run, what a stopped window leaves behind it in its
    shard is dropped.

    Story: windows 1 and 2 of a shard are written side by side, 1 runs out of budget half way. Were 2
    landed, its rows would be in the table before older ones of the same shard.

    Worked example: [0, 50) and [50, 90) were planned, the first was proven up to 30. What lands is [0, 30).
    """
    if not plan.live:
        return Delta(plan.origin, plan.live, tuple(written), plan.change)
    proven = {(x.window.shard, x.window.begin): x for x in written}
    kept: list[Landed] = []
    stopped: set[int] = set()
    for planned in sorted(p.window for p in plan.windows):
        landed = proven.get((planned.shard, planned.begin))
        if planned.shard in stopped or landed is None:
            stopped.add(planned.shard)
            continue
        kept.append(landed)
        if landed.window.end < planned.end:
            stopped.add(planned.shard)
    return Delta(plan.origin, plan.live, tuple(kept), plan.change)


def merge(ledger: Ledger, delta: Delta) -> Merged:
    """Apply `delta` to `ledger`, window by window, refusing what another landing was first with.

    A refused live window takes the later windows of its shard with it, since they no longer begin
    at the frontier. Closings and marks apply only where the frontier really is where they say.

    In this order: an entry for a shard that is seen first, since a window needs one; what is opened, and what
    is suspected, since a gap may rest on it; gaps, since a window behind one begins at the frontier that the
    gap made; windows; and closings and marks last, which ask where the frontier got to.

    Worked example: the frontier is 100. The delta brings the gap [100, 150), the window [150, 200) and a
    closing at 200: the frontier is 150, then 200, and the shard is closed. On a table where another landing
    brought [150, 180) meanwhile, the window is lost, the frontier is 180, and nothing is closed.

    One run of the checks proves a whole try: the ledger that comes out is the one that the commit writes, and
    the commit requires the table that went in.
    """
    shards, change = dict(ledger.shards), delta.change
    for shard, start in change.starts.items():
        shards.setdefault(shard, ShardLedger(start=start, told=shard not in change.chosen))
    _begin_anew(shards, change.anew)
    _open(shards, change.opened)
    stale = _suspected(shards, change.suspicions)
    _note_gaps(shards, {shard: gaps for shard, gaps in change.gaps.items() if shard not in stale})
    accepted: list[Landed] = []
    lost: list[Landed] = []
    for landed in sorted(delta.windows, key=lambda x: x.window):
        shard = landed.window.shard
        if _fits(shards.get(shard), landed.window, delta, ledger):
            shards[shard] = _with_window(shards[shard], landed)
            accepted.append(landed)
        else:
            lost.append(landed)
    _close(shards, change.closings)
    for shard, marks in change.marks.items():
        if shard in shards:
            shards[shard] = _with_marks(shards[shard], marks)
    return Merged(Ledger(ledger.origin, shards), tuple(accepted), tuple(lost))


def _begin_anew(shards: dict[int, ShardLedger], anew: Mapping[int, tuple[Cursor, Cursor]]) -> None:
    """Move starts. A shard that landed from the old one meanwhile keeps it: what lies before is a fill's."""
    for shard, (seen, start) in anew.items():
        entry = shards.get(shard)
        if entry is not None and not entry.closed and entry.start == entry.frontier == seen:
            shards[shard] = entry.begun_anew(start)


def _open(shards: dict[int, ShardLedger], ends: Mapping[int, Cursor]) -> None:
    """Open what is closed at these ends. Closed at another one, a shard was opened by somebody else
    meanwhile and has been looked at since."""
    for shard, end in ends.items():
        entry = shards.get(shard)
        if entry is not None and entry.end == end:
            shards[shard] = entry.opened_again()


def _note_gaps(shards: dict[int, ShardLedger], found: Mapping[int, tuple[Gap, ...]]) -> None:
    """Write down what is missing. Of a shard that a person took out of the ledger since, or that another run
    drained and closed, nothing is missing any more."""
    for shard, gaps in found.items():
        entry = shards.get(shard)
        if entry is not None and not entry.closed:
            kept = [g for gap in gaps for g in _trim(gap, entry.accounted)]
            noted = replace(entry, gaps=tuple(sorted({*entry.gaps, *kept})))
            # Where the frontier passed a gap, what was suspected of it is decided.
            passed = noted.frontier > entry.frontier
            shards[shard] = replace(noted, suspect_s=0) if passed else noted


def _close(shards: dict[int, ShardLedger], ends: Mapping[int, Cursor]) -> None:
    """Close what is landed up to its end."""
    for shard, end in ends.items():
        entry = shards.get(shard)
        if entry is not None and entry.frontier >= end and not entry.closed:
            shards[shard] = replace(entry, end=end, suspect_s=0)


def _suspected(shards: dict[int, ShardLedger], suspicions: Mapping[int, Suspicion]) -> set[int]:
    """Apply what the landing suspects of shards; returns the shards of which the ledger says something else
    by now.

    Story: A is told that a shard is gone, as it was told a run ago, and plans its gap. B is told better,
    takes the suspicion back, perhaps lands a window. A's try is refused; merged into the new ledger, its
    gap would cover what B has just seen. What A's proof began with is no longer there, so it is dropped.
    """
    stale = set()
    for shard, found in suspicions.items():
        entry = shards.get(shard)
        known = None if entry is None or entry.closed else (entry.frontier, entry.suspect_s)
        if entry is not None and known == (found.frontier, found.seen_s):
            shards[shard] = replace(entry, suspect_s=found.now_s)
        else:
            stale.add(shard)
    return stale


def lowered(then: Mapping[str, Ledger], now: Mapping[str, Ledger]) -> dict[str, Ledger]:
    """The ledgers `then`; and for every shard that only `now` knows, its start and what was lost before it.

    For a table that went back: without its start, such a shard would begin wherever retention is by then.
    What was suspected then is not any more: it may have been denied since, and is told anew if it is true.
    """
    result: dict[str, Ledger] = {}
    for origin in sorted({*then, *now}):
        before = then.get(origin) or Ledger(origin)
        later = now[origin].shards if origin in now else {}
        news = {
            s: ShardLedger(e.start, gaps=tuple(g for g in e.gaps if g.end <= e.start), told=e.told)
            for s, e in later.items()
            if s not in before.shards
        }
        sure = {s: replace(e, suspect_s=0) for s, e in before.shards.items() if e.suspect_s}
        result[origin] = before.with_shards({**sure, **news})
    return result


def withdrawn(entry: ShardLedger, taken: IntervalSet, *, rows: int, total: int) -> ShardLedger:
    """`entry` after `rows` rows of the identity sum `total` left, all that is landed of `taken`.

    What leaves counts as withdrawn: the frontier stays, no live run lands it again.

    Worked example: [0, 100) is landed and [20, 40) taken back: landed is {[0, 20), [40, 100)}, withdrawn
    [20, 40), the frontier 100. `left` is what is in both, by taking away twice.
    """
    left = entry.landed.minus(entry.landed.minus(taken))
    left_with = replace(entry, landed=entry.landed.minus(left), withdrawn=entry.withdrawn.union(left))
    return left_with.counting(-rows, -total)


def _fits(entry: ShardLedger | None, window: Window, delta: Delta, base: Ledger) -> bool:
    """A fill may land wherever nothing has landed. A live window must also meet no gap and nothing withdrawn,
    begin where its shard stands, and have its parents closed in the very table that the commit requires."""
    if entry is None or entry.landed.overlaps(window.begin, window.end):
        return False
    if not delta.live:
        # A gap is what the service once said it had no more. A fill brings what it shows again: it was
        # pulled, so it is there, and the gap shrinks by it. No frontier moves: both are accounted.
        return True
    if any(g.begin < window.end and window.begin < g.end for g in entry.gaps):
        return False
    # A: plans a live window up to the end. B: fills a part of it and takes that back (withdrawn).
    # Only a backfill that names the hours may land it again, so A's window is refused.
    if entry.withdrawn.overlaps(window.begin, window.end):
        return False
    # A: plans a child's window while its parent has data left. B: lands it first, out of order.
    # The parents are looked up in the base that this commit requires, so B is refused here.
    needed = delta.change.lineage.get(window.shard, frozenset())
    return window.begin == entry.frontier and base.closed(needed)


def _with_window(entry: ShardLedger, landed: Landed) -> ShardLedger:
    pair = (int(landed.window.begin), int(landed.window.end))
    reached = replace(
        entry,
        landed=entry.landed.union([pair]),
        gaps=tuple(g for gap in entry.gaps for g in _trim(gap, IntervalSet.of([pair]))),
        withdrawn=entry.withdrawn.minus(IntervalSet.of([pair])),
    )
    return reached.counting(landed.rows, landed.sum)


def _with_marks(entry: ShardLedger, marks: Iterable[Edge]) -> ShardLedger:
    """A mark is a time and the cursor it was resolved to: all before that cursor was received before that
    time. So a frontier that is there has reached the time, and one cursor before it has not."""
    reached = max((m.time_s for m in marks if m.cursor <= entry.frontier), default=0)
    return replace(entry, reached_s=max(entry.reached_s, reached))


def _trim(gap: Gap, accounted: IntervalSet) -> list[Gap]:
    """Worked example: of a gap [100, 200) with [120, 150) accounted are left [100, 120) and [150, 200)."""
    rest = IntervalSet.of([(gap.begin, gap.end)]).minus(accounted)
    return [Gap(Cursor(b), Cursor(e), gap.cause) for b, e in rest]
