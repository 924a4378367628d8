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
- every shard without a window has a reason in `waits`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sls_io.claim import Gap, Ledger
from sls_io.settings import Budget
from sls_io.shard import Head, Shard, parents
from sls_io.window import HOUR_S, Cursor, IntervalSet, Window

GAP_EXPIRED = "expired"
GAP_SHARD_GONE = "shard_gone"
CURSOR_UNKNOWN = Cursor(2**63 - 1)
"""End of a gap in a shard that retention removed: nobody can say where it ended."""
NOTHING_MISSING = "nothing missing in these hours"
_CLOSED = "closed: read-only and drained"


@dataclass(frozen=True, slots=True)
class Edge:
    """The first group received at or after `time_s` (unix seconds) is at `cursor`."""

    time_s: int
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Span:
    """Unread cursors [begin, end) of one shard, all received within `hour` (since 1970)."""

    hour: int
    begin: Cursor
    end: Cursor


@dataclass(frozen=True, slots=True)
class Survey:
    """What the service said of one shard for this run.

    head    its status and ends, or None when the service no longer knows the shard
    spans   the unread part up to `until`, hour by hour, in order, as far as it was looked at
    marks   times and the cursors they resolved to: reaching the cursor means reaching the time
    cut     it is older than the service keeps logs and was never seen: its beginning may be gone
    """

    shard: int
    head: Head | None
    spans: tuple[Span, ...] = ()
    marks: tuple[Edge, ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A window to write; its end is an upper bound.

    Windows of one `chain` are written one after the other by one task, and share its `bytes_max` of
    raw bytes: when those are used up, the rest of the chain is not pulled at all.
    """

    window: Window
    bytes_max: int
    chain: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything one landing needs to know, decided before any log is pulled.

    `starts` are shards first seen now; `marks` per shard as in `Survey`; `lineage` holds the
    parents that must be closed before a window of the key's shard may land (empty when the group
    keeps no order); `waits` says for each shard without a window what it waits for.
    """

    origin: str
    live: bool
    until_s: int
    windows: tuple[Planned, ...] = ()
    closings: Mapping[int, Cursor] = field(default_factory=dict)
    gaps: Mapping[int, tuple[Gap, ...]] = field(default_factory=dict)
    starts: Mapping[int, Cursor] = field(default_factory=dict)
    marks: Mapping[int, tuple[Edge, ...]] = field(default_factory=dict)
    lineage: Mapping[int, frozenset[int]] = field(default_factory=dict)
    waits: Mapping[int, str] = field(default_factory=dict)

    @property
    def hours(self) -> tuple[int, ...]:
        """The receive hours the windows lie in, ascending."""
        return tuple(sorted({p.window.hour for p in self.windows}))


def lineage(shards: Iterable[Shard], ledger: Ledger, *, ordered: bool) -> Mapping[int, frozenset[int]]:
    """Parents of each listed shard that the ledger must have closed first.

    A parent that is neither listed nor in the ledger was removed before this history began and
    holds nobody back.
    """
    if not ordered:
        return {}
    listed = list(shards)
    return {child: above for child, above in parents(listed).items() if above}


def plan_live(
    *,
    shards: Iterable[Shard],
    held: Iterable[int],
    surveys: Mapping[int, Survey],
    ledger: Ledger,
    budget: Budget,
    until_s: int,
    ordered: bool = True,
) -> Plan:
    """Plan the held shards from their frontiers. `surveys` has one entry for each held shard."""
    listed = list(shards)
    needed = lineage(listed, ledger, ordered=ordered)
    draft = _Draft()
    for shard in sorted(set(held)):
        _plan_shard(draft, surveys[shard], ledger, needed.get(shard, frozenset()))
    for entry in listed:
        known = ledger.shards.get(entry.id)
        if entry.id not in surveys:
            draft.waits[entry.id] = _CLOSED if known and known.closed else "held by another holder"
    for shard, known in ledger.shards.items():
        if not known.closed and shard not in {s.id for s in listed}:
            _write_off(draft, shard, ledger)
    return Plan(
        origin=ledger.origin,
        live=True,
        until_s=until_s,
        windows=_within_budget(draft, budget),
        closings=draft.closings,
        gaps=draft.gaps,
        starts=draft.starts,
        marks=draft.marks,
        lineage=needed,
        waits=draft.waits,
    )


def plan_fill(
    *,
    surveys: Mapping[int, Survey],
    ledger: Ledger,
    budget: Budget,
    until_s: int,
) -> Plan:
    """Plan what the ledger lacks of the surveyed spans: a backfill.

    Windows need not begin at a frontier and children do not wait for parents: a backfill brings
    hours, in any order. Landed and gap intervals are left out. What was withdrawn is planned again:
    the spans are of hours that somebody named, and a live run, which nobody asked, never does it.
    """
    draft = _Draft()
    for shard, survey in sorted(surveys.items()):
        if survey.head is None:
            draft.waits[shard] = "removed by retention"
            continue
        entry = ledger.shard(shard, begin=survey.head.begin)
        if shard not in ledger.shards:
            _start(draft, survey, entry.start)
        pieces = _windows(shard, survey.spans, entry.kept)
        draft.windows[shard] = pieces
        if not pieces:
            draft.waits[shard] = NOTHING_MISSING
    return Plan(
        origin=ledger.origin,
        live=False,
        until_s=until_s,
        windows=_within_budget(draft, budget),
        gaps=draft.gaps,
        starts=draft.starts,
        waits=draft.waits,
    )


def since_start(surveys: Mapping[int, Survey], ledger: Ledger, shards: Iterable[int]) -> Mapping[int, Survey]:
    """The surveys with nothing before the start of these shards' history.

    A backfill may bring hours from before a history begins. Not of a shard with adopted rows: those
    lie before its start, and nobody knows which of its logs they are, so some would come twice.
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


def from_hour(surveys: Mapping[int, Survey], hour: int) -> Mapping[int, Survey]:
    """The surveys with nothing of receive hours before `hour` (since 1970)."""
    return {
        shard: replace(survey, spans=tuple(span for span in survey.spans if span.hour >= hour))
        for shard, survey in surveys.items()
    }


def zero_row_landing_due(plan: Plan, ledger: Ledger) -> bool:
    """Whether a landing without rows is worth a commit: closings, gaps, or an hour edge passed."""
    if plan.closings or plan.gaps:
        return True
    for shard, marks in plan.marks.items():
        entry = ledger.shards.get(shard)
        if entry is None or entry.closed:
            continue
        reached = max((m.time_s for m in marks if m.cursor <= entry.frontier), default=0)
        if reached // HOUR_S > entry.reached_s // HOUR_S:
            return True
    return bool(set(plan.starts) - set(ledger.shards))


class _Draft:
    def __init__(self) -> None:
        self.windows: dict[int, list[Window]] = {}
        self.closings: dict[int, Cursor] = {}
        self.gaps: dict[int, tuple[Gap, ...]] = {}
        self.starts: dict[int, Cursor] = {}
        self.marks: dict[int, tuple[Edge, ...]] = {}
        self.waits: dict[int, str] = {}


def _plan_shard(draft: _Draft, survey: Survey, ledger: Ledger, needed: frozenset[int]) -> None:
    shard, head = survey.shard, survey.head
    if head is None:
        _write_off(draft, shard, ledger)
        return
    entry = ledger.shard(shard, begin=head.begin)
    if shard not in ledger.shards:
        _start(draft, survey, entry.start)
    if entry.closed:
        draft.waits[shard] = _CLOSED
        return
    open_parents = sorted(p for p in needed if p not in ledger.shards or not ledger.shards[p].closed)
    if open_parents:
        draft.waits[shard] = f"parents not closed yet: {', '.join(map(str, open_parents))}"
        return
    frontier = entry.frontier
    if frontier < head.begin:
        draft.gaps[shard] = (Gap(frontier, head.begin, GAP_EXPIRED),)
        frontier = entry.settled.union([(frontier, head.begin)]).run_end(entry.start)
    draft.marks[shard] = survey.marks
    settled = entry.settled.union([(int(g.begin), int(g.end)) for g in draft.gaps.get(shard, ())])
    pieces = _windows(shard, [s for s in survey.spans if s.end > frontier], settled)
    if head.readonly and (pieces[-1].end if pieces else frontier) >= head.end:
        # Applied by the ledger only if the frontier really gets there: a window may stop early.
        draft.closings[shard] = head.end
    if pieces:
        draft.windows[shard] = pieces
    elif shard in draft.closings:
        draft.waits[shard] = "read-only and drained: closed by this landing"
    else:
        draft.waits[shard] = "drained: nothing new before the settle time"


def _start(draft: _Draft, survey: Survey, begin: Cursor) -> None:
    """Story: a shard is split, nobody lands for longer than retention, the child's first logs are
    deleted. When it is seen at last it begins where retention left it, and nothing would tell that it
    ever began earlier. Its age tells; that it may have been empty then is for the reader to know."""
    draft.starts[survey.shard] = begin
    if survey.cut and begin > 0:
        draft.gaps[survey.shard] = (Gap(Cursor(0), begin, GAP_EXPIRED),)


def _write_off(draft: _Draft, shard: int, ledger: Ledger) -> None:
    """The service no longer knows the shard: what the ledger lacks of it can never be landed."""
    known = ledger.shards.get(shard)
    draft.waits[shard] = "removed by retention"
    if known is not None and not known.closed:
        draft.gaps[shard] = (Gap(known.frontier, CURSOR_UNKNOWN, GAP_SHARD_GONE),)
        draft.closings[shard] = CURSOR_UNKNOWN
        draft.waits[shard] = "removed by retention: the rest of it is a named gap"


def _windows(shard: int, spans: Iterable[Span], settled: IntervalSet) -> list[Window]:
    return [
        Window(shard, Cursor(begin), Cursor(end), span.hour)
        for span in spans
        for begin, end in IntervalSet.of([(span.begin, span.end)]).minus(settled)
    ]


def _within_budget(draft: _Draft, budget: Budget) -> tuple[Planned, ...]:
    """Rank by rank over the shards, so that every shard advances before one advances twice.

    In a rank the shard that is furthest behind goes first. Were it the lowest id, a run that ends
    early would advance the same shards again and again while the others run into retention.
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
            draft.waits[shard] = "the run's window budget is used up"
    return _in_chains(chosen, budget)


def _in_chains(windows: list[Window], budget: Budget) -> tuple[Planned, ...]:
    """Deal the windows of each shard to chains in turn, and the bytes to chains evenly.

    Story: a shard is 100 hours behind and the budget is worth four of them. Had each window a
    hundredth of the budget, all would stop early and all but the first be thrown away, run after run.
    In a chain the first hours are read whole and the others not at all; and because windows are dealt
    in turn, the chains of one shard advance together, so that at most the last window of each is lost.
    """
    shards = {w.shard for w in windows}
    wide = max(1, budget.tasks_min // max(1, len(shards)))
    seen: dict[int, int] = {}
    chains: dict[tuple[int, int], int] = {}
    dealt: list[tuple[Window, int]] = []
    for window in windows:
        turn = seen.get(window.shard, 0)
        seen[window.shard] = turn + 1
        dealt.append((window, chains.setdefault((window.shard, turn % wide), len(chains))))
    share = max(1, budget.bytes_max // max(1, len(chains)))
    return tuple(Planned(window, share, chain) for window, chain in dealt)
