"""What to land now, what to close, and why each other shard waits. Pure.

A plan is made from values only: the claim, what the service says of the shards (heads), the hour
edges of what is unread (spans), the ledger, the budget, and `until`, the receive time this run may
reach. Rules:

- a live window begins at its shard's frontier; later windows of the shard follow without a hole,
  skipping what the ledger already has;
- a window lies in one receive hour. Spans say where hours begin, as cursors the service gave for
  a time; nothing here computes a cursor;
- a child is planned only when all its parents are closed in the ledger, in groups that keep order;
- a shard without new data holds nobody back: it is reported as drained and its mark travels;
- what retention took between frontier and begin cursor becomes a gap with its cause, never an
  empty hour;
- one answer gives nothing up. A gap, a shard that is gone and the end of a shard need a second kind of
  answer (`Second`); where it is not known why the data should be gone, both must say the same again in
  a later run, a group timeout later. Until then the shard is a suspect: said, remembered, left alone;
- what the service shows again is opened again;
- a shard that is left alone (paused, gathering) stays as it is, its children wait, nothing is given up;
- every shard without a window has a reason in `waits`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from sls_io.planning import doubts, waits
from sls_io.planning.doubts import Second
from sls_io.planning.draft import Draft, Patience
from sls_io.planning.gone import believed, gone, opened_again
from sls_io.planning.values import Plan, PlannedWindow, Span, Survey
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import (
    GAP_EXPIRED,
    Gap,
    Ledger,
    ShardLedger,
)
from sls_io.values.settings import SHARD_MB_PER_S, Budget
from sls_io.values.shard import Head, Shard, parents
from sls_io.values.window import Cursor, IntervalSet, Window


def lineage(
    shards: Iterable[Shard], ledger: Ledger, *, ordered: bool, hidden: Iterable[int] = ()
) -> Mapping[int, frozenset[int]]:
    """Parents of each listed shard that the ledger must have closed first.

    A parent that is neither listed nor in the ledger was removed before this history began and holds nobody
    back. A shard that is in the ledger and not in the list has unknown keys: until it is closed, it holds
    back every later shard that has not begun. So do the `hidden` ones: the ledger lacks them, too, and they
    may be there (`gone.passed_over`), and those are waited for in a group that keeps no order, too: once a
    later shard has begun, nobody would ask for them again. One that is closed now is named all the same: on a
    table that somebody takes back meanwhile it is open again.

    Story: a parent with logs left is missing from one list. By that list its child has no parent: it
    would land first, and the parent's logs, a run later, after it. A child has begun when a live run has
    reached something of it: rows that a backfill brought say nothing of its parents.
    """
    listed = list(shards)
    there = {s.id for s in listed}
    missing = {*hidden} - ledger.shards.keys()
    if ordered:
        missing |= ledger.shards.keys() - there
    begun = {s for s, entry in ledger.shards.items() if entry.reached_s}
    needed: dict[int, frozenset[int]] = {}
    for child, above in (parents(listed) if ordered else dict.fromkeys(there, frozenset[int]())).items():
        behind = () if child in begun else (s for s in missing if s < child)
        if above := above.union(behind):
            needed[child] = above
    return needed


def plan_live(
    *,
    shards: Iterable[Shard],
    surveys: Mapping[int, Survey],
    ledger: Ledger,
    budget: Budget,
    until_s: int,
    ordered: bool = True,
    patience: Patience = Patience(),
    left: Mapping[int, Wait] = MappingProxyType({}),
    name_gaps: bool = True,
) -> Plan:
    """Plan the surveyed shards from their frontiers: those that are held, and those that the ledger has open
    and the service does not list. A listed shard without a survey waits for whoever holds it.

    Of the shards that are `left` alone, each with its reason, nothing is planned. Without `name_gaps` a
    shard that lost logs to retention is a suspect until somebody decides, and nothing of it is planned
    either.
    """
    listed = list(shards)
    surveys = {shard: survey for shard, survey in surveys.items() if shard not in left}
    draft = Draft(patience, name_gaps)
    # From here on they are open, and their children wait for them again.
    ledger = opened_again(draft, surveys, ledger)
    ledger = _begun_anew(draft, surveys, ledger)
    needed = draft.change.lineage
    hidden = (shard for shard, survey in surveys.items() if not survey.listed)
    needed.update(lineage(listed, ledger, ordered=ordered, hidden=hidden))
    for shard in sorted(surveys):
        _plan_shard(draft, surveys[shard], ledger, needed.get(shard, frozenset()))
    for shard in (s.id for s in listed if s.id not in surveys):
        draft.waits[shard] = _not_surveyed(shard, ledger, needed.get(shard, frozenset()), left)
    asked = {*surveys, *(s.id for s in listed)}
    for shard in (s for s, known in ledger.shards.items() if not known.closed and s not in asked):
        if shard in left:
            draft.waits[shard] = left[shard]
        else:
            gone(draft, Survey(shard, None, listed=False, gone=Second.SILENT), ledger)
    return _whole(draft, ledger.origin, budget, live=True, until_s=until_s)


def plan_fill(
    *,
    surveys: Mapping[int, Survey],
    ledger: Ledger,
    budget: Budget,
    until_s: int,
) -> Plan:
    """Plan what the ledger lacks of the surveyed spans: a backfill.

    Windows need not begin at a frontier and children do not wait for parents: a backfill brings hours, in any
    order. Landed intervals are left out. What was withdrawn is planned again: the spans are of hours that
    somebody named, and a live run, which nobody asked, never does it. Gaps are planned, too: a span is what
    the service says that it has now, and a gap is only what it once said to be gone.
    """
    draft = Draft(Patience())
    for shard, survey in sorted(surveys.items()):
        if survey.head is None:
            draft.suspect(shard, doubts.LISTED_AND_GONE)
            continue
        entry = ledger.shard(shard, begin=survey.head.begin)
        if shard not in ledger.shards:
            _start(draft, survey, entry.start)
        pieces = _windows(shard, survey.spans, entry.landed)
        draft.windows[shard] = pieces
        if not pieces:
            draft.waits[shard] = waits.NOTHING_MISSING
    return _whole(draft, ledger.origin, budget, live=False, until_s=until_s)


def since_start(surveys: Mapping[int, Survey], ledger: Ledger, shards: Iterable[int]) -> Mapping[int, Survey]:
    """The surveys with nothing before the start of these shards' history.

    A backfill may bring hours from before a history begins. It may not for a shard with adopted rows: these
    lie before its start, nobody knows which of its logs they are, and some would land twice.
    """
    floors = {shard: ledger.shards[shard].start for shard in shards if shard in ledger.shards}
    return {
        shard: replace(
            survey,
            spans=tuple(
                replace(span, begin=max(span.begin, floors[shard]))
                for span in survey.spans
                if span.end > floors[shard]
            ),
        )
        if shard in floors
        else survey
        for shard, survey in surveys.items()
    }


def only(surveys: Mapping[int, Survey], cursors: Mapping[int, IntervalSet]) -> Mapping[int, Survey]:
    """The surveys with these cursors of each shard and nothing else.

    Worked example: the span [500, 640) and the cursors {[0, 550), [600, 610)}: [500, 550) and [600, 610).
    """
    return {
        shard: replace(
            survey,
            spans=tuple(
                replace(span, begin=Cursor(begin), end=Cursor(end))
                for span in survey.spans
                for begin, end in cursors.get(shard, IntervalSet()).within(span.begin, span.end)
            ),
        )
        for shard, survey in surveys.items()
    }


def never_landed_in(
    surveys: Mapping[int, Survey], ledger: Ledger, hours: IntervalSet
) -> Mapping[int, Survey]:
    """The surveys with nothing of these receive hours (since 1970) from before a shard's start, or withdrawn.

    Rows of these hours were removed for good. As a rule their intervals are landed and nobody plans them. A
    ledger that began anew knows only where it starts, which is after them. Where a file is lost and given up,
    nobody knows which of its cursors were those of removed rows.
    """

    def kept(span: Span, entry: ShardLedger) -> Iterator[Span]:
        if not hours.overlaps(span.hour, span.hour + 1):
            yield span
            return
        rest = IntervalSet.of([(max(span.begin, entry.start), span.end)]).minus(entry.withdrawn)
        yield from (replace(span, begin=Cursor(begin), end=Cursor(end)) for begin, end in rest)

    found = dict(surveys)
    for shard in surveys.keys() & ledger.shards.keys():
        spans = (left for span in surveys[shard].spans for left in kept(span, ledger.shards[shard]))
        found[shard] = replace(surveys[shard], spans=tuple(spans))
    return found


def fallen_back(surveys: Mapping[int, Survey], ledger: Ledger) -> Mapping[int, tuple[Cursor, Cursor]]:
    """The shards that end before their frontier, with (end, frontier); without shards that begin anew.

    The ledger is read before the ends are, and an end never moves back, so these are not the cursors that
    it speaks of. Story: a logstore is deleted and made again within the second of its creation, so it has
    the same identity; its cursors begin anew below the frontier, and every run would find nothing new.
    """
    return {
        shard: (survey.head.end, ledger.shards[shard].frontier)
        for shard, survey in sorted(surveys.items())
        if survey.head is not None
        and survey.anew is None
        and shard in ledger.shards
        and not ledger.shards[shard].closed
        and survey.head.end < ledger.shards[shard].frontier
    }


def _begun_anew(draft: Draft, surveys: Mapping[int, Survey], ledger: Ledger) -> Ledger:
    """The ledger with other starts of shards that begin elsewhere after all."""
    starts = {
        s: survey.anew for s, survey in surveys.items() if survey.anew is not None and s in ledger.shards
    }
    draft.change.anew.update({s: (ledger.shards[s].start, start) for s, start in starts.items()})
    return ledger.with_shards({s: ledger.shards[s].begun_anew(start) for s, start in starts.items()})


def _not_surveyed(shard: int, ledger: Ledger, needed: frozenset[int], left: Mapping[int, Wait]) -> Wait:
    """What a listed shard waits for that nobody here holds."""
    known = ledger.shards.get(shard)
    if known is not None and known.closed:
        return waits.CLOSED
    # A child is granted to nobody before its parents are done: no holder has it.
    return left.get(shard) or _unfinished(needed, ledger) or waits.HELD


def _plan_shard(draft: Draft, survey: Survey, ledger: Ledger, needed: frozenset[int]) -> None:
    """The questions in order of what they need: a service that did not answer, answers that contradict each
    other, a shard that is not there, one that is done, one whose parents are not."""
    shard, head = survey.shard, survey.head
    if survey.readable:
        draft.readable[shard] = survey.readable
    if survey.trouble:
        draft.waits[shard] = Wait(Why.UNASKED, survey.trouble)
        return
    if survey.doubt:
        draft.suspect(shard, survey.doubt)
        return
    if head is None:
        gone(draft, survey, ledger)
        return
    entry = ledger.shard(shard, begin=head.begin)
    if shard not in ledger.shards:
        _start(draft, survey, entry.start)
    if entry.closed:
        draft.waits[shard] = waits.CLOSED
        return
    if unfinished := _unfinished(needed, ledger):
        draft.waits[shard] = unfinished
    else:
        _plan_open(draft, survey, head, entry)


def _plan_open(draft: Draft, survey: Survey, head: Head, entry: ShardLedger) -> None:
    """The windows, the gap and the closing of a shard that may be read.

    Worked example: the frontier is 100, the shard is read-only and the service has [150, 400). Two kinds of
    answers agree, and logs of that age are deleted: [100, 150) is a gap, the windows begin at 150, and where
    they end at 400 and a second answer says that this is the end, it is closed there.

    What is planned is an upper bound: gap, closing and marks travel beside the windows, and the ledger takes
    a closing or a mark only where the frontier has got to.
    """
    shard, frontier = survey.shard, entry.frontier
    if frontier >= head.begin:
        draft.remember(shard, entry, 0)
    elif not believed(draft, survey, entry):
        draft.suspect(shard, doubts.EXPIRED[survey.gone].format(begin=head.begin, frontier=frontier))
        return
    elif not draft.name_gaps:
        draft.stop_at_loss(shard, doubts.LOST.format(begin=head.begin, frontier=frontier))
        return
    else:
        draft.change.gaps[shard] = (Gap(frontier, head.begin, GAP_EXPIRED),)
        frontier = entry.accounted.union([(frontier, head.begin)]).run_end(entry.start)
    draft.change.marks[shard] = survey.marks
    accounted = entry.accounted.union([(int(g.begin), int(g.end)) for g in draft.change.gaps.get(shard, ())])
    pieces = _windows(shard, [s for s in survey.spans if s.end > frontier], accounted)
    if head.readonly and (pieces[-1].end if pieces else frontier) >= head.end:
        if survey.over is Second.AGREES:
            # Applied by the ledger only if the frontier really gets there: a window may stop early.
            draft.change.closings[shard] = head.end
        elif survey.over is not Second.NONE:
            draft.suspects[shard] = doubts.END[survey.over].format(end=head.end)
    if pieces:
        draft.windows[shard] = pieces
    elif shard in draft.change.closings:
        draft.waits[shard] = waits.CLOSING
    elif shard in draft.suspects:
        draft.suspect(shard, draft.suspects[shard])
    else:
        draft.waits[shard] = waits.DRAINED


def _unfinished(needed: Iterable[int], ledger: Ledger) -> Wait | None:
    """Which parents a shard waits for; None when all are closed."""
    open_parents = sorted(p for p in needed if p not in ledger.shards or not ledger.shards[p].closed)
    return waits.for_parents(open_parents) if open_parents else None


def _start(draft: Draft, survey: Survey, begin: Cursor) -> None:
    """Story: a shard is split, nobody lands for longer than retention, the child's first logs are
    deleted. When it is seen at last it begins where retention left it, and nothing would tell that it
    ever began earlier. Its age tells; that it may have been empty then is for the reader to know."""
    draft.change.starts[survey.shard] = begin
    if survey.cut and begin > 0:
        draft.change.gaps[survey.shard] = (Gap(Cursor(0), begin, GAP_EXPIRED),)


def _windows(shard: int, spans: Iterable[Span], accounted: IntervalSet) -> list[Window]:
    """Worked example: of [0, 100) the ledger has [20, 30): [0, 20) and [30, 100) are left, both of the span's
    hour."""
    return [
        Window(shard, Cursor(begin), Cursor(end), span.hour)
        for span in spans
        for begin, end in IntervalSet.of([(span.begin, span.end)]).minus(accounted)
    ]


def _whole(draft: Draft, origin: str, budget: Budget, *, live: bool, until_s: int) -> Plan:
    """The plan, as far as the budget goes."""
    windows = _within_budget(draft, budget)
    return Plan(origin, live, until_s, windows, draft.change, draft.waits, draft.suspects, draft.readable)


def _within_budget(draft: Draft, budget: Budget) -> tuple[PlannedWindow, ...]:
    """Rank by rank over the shards, so that every shard advances before one advances twice.

    In a rank the shard that is furthest behind goes first. Were it the lowest id, a run that ends
    early would advance the same shards again and again while the others run into retention.

    Worked example: three windows of A, one of B, and room for three: A's first and B's, then A's second.
    """
    chosen: list[Window] = []
    rank = 0
    while len(chosen) < budget.windows_max:
        layer = [pieces[rank] for pieces in draft.windows.values() if rank < len(pieces)]
        layer.sort(key=lambda window: (window.hour, window.shard))
        if not layer:
            break
        chosen.extend(layer[: budget.windows_max - len(chosen)])
        rank += 1
    for shard, pieces in draft.windows.items():
        if pieces and not any(w.shard == shard for w in chosen):
            draft.waits[shard] = waits.WINDOWS
    return _in_chains(chosen, budget)


def _in_chains(windows: list[Window], budget: Budget) -> tuple[PlannedWindow, ...]:
    """Deal the windows of each shard to chains in turn, and the bytes to chains evenly.

    Story: a shard is 100 hours behind and the budget is worth four of them. Had each window a
    hundredth of the budget, all would stop early and all but the first be thrown away, run after run.
    In a chain the first hours are read whole and the others not at all; and because windows are dealt
    in turn, the chains of one shard advance together, so that at most the last window of each is lost.

    A shard has no more chains than its quota feeds: four readers of 10 MB a second get no more out of
    it than one, and are refused most of the time.

    Worked example: 2 shards, 4 tasks, a quota of 20 MB a second: two readers of a shard are fed, so there are
    four chains with a quarter of the bytes each. A's windows 0, 2 and 4 are one chain, 1 and 3 the other.
    """
    shards = {w.shard for w in windows}
    wide = max(1, min(budget.tasks_min // max(1, len(shards)), _readers_fed(budget)))
    seen: dict[int, int] = {}
    chains: dict[tuple[int, int], int] = {}
    dealt: list[tuple[Window, int]] = []
    for window in windows:
        turn = seen.get(window.shard, 0)
        seen[window.shard] = turn + 1
        dealt.append((window, chains.setdefault((window.shard, turn % wide), len(chains))))
    share = max(1, budget.bytes_max // max(1, len(chains)))
    return tuple(PlannedWindow(window, share, chain) for window, chain in dealt)


def _readers_fed(budget: Budget) -> int:
    """How many readers of one shard at a time its quota feeds, each with the documented quota's worth."""
    return max(1, math.ceil(budget.shard_mb_per_s / SHARD_MB_PER_S))
