"""What must hold, asked of the world after every event, before every commit and at the end.

no duplicate    windows of the files in main are disjoint in each shard
no invention    a file holds exactly the groups of its window, all of the window's hour
one truth       the ledger's landed set, rows and sums are those of the files in main
no rows lost    files of main exist, and fit the schema they are committed under
order           a live window begins at its shard's frontier; parents are closed before children
honest gaps     a new gap holds no group that could still be read; a shard is written off only where an
                earlier landing had suspected it, a group timeout before
honest end      a closed shard ends where the service says
newest run      of two runs of one name the older lands nothing after the newer, and moves no checkpoint
truth order     a checkpoint is never beyond the frontier
monotone        a frontier never goes back, but for a rollback by a person
no loss         at the end every frontier is at its shard's end, every group in rows or a gap; and what
                can still be read is in rows, however wrong the service's answers were
"""

from collections import Counter
from itertools import pairwise

from sls_io.values.claim import CURSOR_UNKNOWN, GAP_SHARD_GONE, Gap
from sls_io.values.window import HOUR_S, IntervalSet
from tests.simulation.service import Service, SimShard
from tests.simulation.table import Request, Run, Table


class Violated(AssertionError):
    """An invariant does not hold."""


class Checks:
    """Remembers what it needs from event to event. `seen` counts rare situations that came up."""

    def __init__(self, *, latest: bool, outage_s: float = 0.0) -> None:
        self.latest, self.outage_s = latest, outage_s
        self.lied_to: set[int] | None = None
        self.unheard = set[int]()
        self.seen: Counter[str] = Counter()
        self._version = -1
        self._frontiers: dict[int, int] = {}
        self._fallen: set[int] = set()

    def saw(self, what: str) -> None:
        """Count a situation."""
        self.seen[what] += 1

    def misled(self, shard: int) -> bool:
        """Whether both kinds of answers were wrong about the shard for as long as that takes."""
        return self.lied_to is None or shard in self.lied_to

    def rolled_back(self) -> None:
        """A person took the table back: frontiers may fall now, and checkpoints be beyond them."""
        self._fallen |= set(self._frontiers)
        self._frontiers = {}
        self.saw("rolled back by hand")

    def before(self, service: Service, table: Table, request: Request) -> None:
        """A commit is about to be accepted: judge it against the state it replaces."""
        base = table.ledger
        made = request.effect.ledger
        if request.run is not None and table.newer(request.run):
            raise Violated(f"an older run of {request.run.name} landed after a newer one")
        for file in request.files:
            if file.schema != table.schema:
                raise Violated(f"{file.window}: written for schema {file.schema}, table has {table.schema}")
            if file.id in table.deleted:
                raise Violated(f"{file.window}: its file was deleted")
            _judge_content(service.shards[file.window.shard], file.window.hour, file)
        for shard, entry in made.shards.items():
            old = base.shards.get(shard)
            known = IntervalSet.of((g.begin, g.end) for g in old.gaps) if old else IntervalSet()
            for gap in entry.gaps:
                if not IntervalSet.of([(gap.begin, gap.end)]).minus(known):
                    continue  # a fill may have landed a part of what was a gap
                self.saw("gap")
                since_s = old.suspect_s if old else 0
                self._judge_gap(service, service.shards[shard], gap, since_s)
            if entry.closed and not (old and old.closed):
                self._judge_closing(service, service.shards[shard], entry.end)
                if not request.files:
                    self.saw("closed with zero rows")
        if request.live:
            self._judge_order(service, table, request)
        elif request.files:
            self.saw("fill landed")

    def publishing(self, table: Table, run: Run | None) -> None:
        """A run has looked at the table, and is about to move a checkpoint."""
        if run is not None and table.newer(run):
            raise Violated(f"an older run of {run.name} moves a checkpoint after a newer one has landed")

    def after(self, service: Service, table: Table) -> None:
        """After every event; looks closely only when the table has changed."""
        ledger = table.ledger
        if table.version != self._version:
            self._version = table.version
            if not table.rolled_back:
                self._judge_table(table)
                for shard, entry in ledger.shards.items():
                    frontier = int(entry.frontier)
                    if frontier < self._frontiers.get(shard, 0) < CURSOR_UNKNOWN:
                        raise Violated(f"shard {shard}: the frontier went back to {frontier}")
                    self._frontiers[shard] = frontier
        for shard, checkpoint in service.checkpoints.items():
            if shard not in self._fallen and checkpoint > self._frontiers.get(shard, -1):
                raise Violated(f"shard {shard}: checkpoint {checkpoint} is beyond the frontier")

    def at_the_end(self, service: Service, table: Table, until_s: int) -> None:
        """Faults stopped long ago: everything must be there."""
        ledger = table.ledger
        held = {s: _cursors(table, s) for s in ledger.shards}
        for shard in service.listed():
            entry = ledger.shards.get(shard.id)
            if entry is None:
                raise Violated(f"shard {shard.id} was never read")
            if entry.frontier < shard.end:
                raise Violated(f"shard {shard.id}: stuck at {entry.frontier}, its end is {shard.end}")
            if shard.readonly != entry.closed:
                raise Violated(f"shard {shard.id}: read-only {shard.readonly}, closed {entry.closed}")
            if not entry.closed and entry.reached_s // HOUR_S < until_s // HOUR_S:
                raise Violated(f"shard {shard.id}: idle, yet its receive time stays at {entry.reached_s}")
        for number, entry in ledger.shards.items():
            shard = service.shards[number]
            for cursor in shard.groups(int(entry.start), shard.end):
                excused = any(g.begin <= cursor < g.end for g in entry.gaps)
                if excused and number not in service.removed and cursor >= shard.begin:
                    raise Violated(f"shard {number}: group {cursor} is a gap and can be read")
                if (cursor in held[number]) == excused:
                    raise Violated(
                        f"shard {number}: group {cursor} is {'in a gap, too' if excused else 'lost'}"
                    )

    # --- judges ----------------------------------------------------------------------------------

    def _judge_table(self, table: Table) -> None:
        ledger = table.ledger
        by_shard: dict[int, list[tuple[int, int, int, int]]] = {s: [] for s in ledger.shards}
        for file in table.files:
            w = file.window
            if file.id in table.deleted:
                raise Violated(f"{w}: its file was deleted")
            by_shard.setdefault(w.shard, []).append((w.begin, w.end, len(file.cursors), sum(file.cursors)))
        for shard, windows in by_shard.items():
            windows.sort()
            for left, right in pairwise(windows):
                if right[0] < left[1]:
                    raise Violated(f"shard {shard}: rows twice, {left[:2]} and {right[:2]}")
            entry = ledger.shards.get(shard)
            known = (entry.landed.pairs, entry.rows, entry.sum) if entry else ((), 0, 0)
            if (_joined(windows), sum(w[2] for w in windows), sum(w[3] for w in windows)) != known:
                raise Violated(f"shard {shard}: the ledger says {known}, the files {windows}")
            if entry and entry.closed and entry.frontier != entry.end:
                raise Violated(f"shard {shard}: closed at {entry.end}, its frontier is {entry.frontier}")
            if entry and any(entry.landed.overlaps(g.begin, g.end) for g in entry.gaps):
                raise Violated(f"shard {shard}: rows inside a gap")

    def _judge_order(self, service: Service, table: Table, request: Request) -> None:
        base, made = table.ledger, request.effect.ledger
        frontiers: dict[int, int] = {}
        for file in sorted(request.files, key=lambda f: f.window):
            shard = file.window.shard
            entry = made.shards.get(shard)
            if entry is None:
                raise Violated(f"shard {shard}: rows without a ledger")
            old = base.shard(shard, begin=entry.start)
            old = old.opened_again() if old.end == CURSOR_UNKNOWN else old
            accounted = old.accounted.union((g.begin, g.end) for g in entry.gaps)
            at = frontiers.get(shard, int(accounted.run_end(entry.start)))
            if file.window.begin != at:
                raise Violated(f"shard {shard}: a live window begins at {file.window.begin}, not at {at}")
            frontiers[shard] = int(accounted.union([(entry.start, file.window.end)]).run_end(entry.start))
            for parent in service.shards[shard].parents - service.removed:
                # Who was misled for so long has landed the children; the parent was opened again behind them.
                # Where the table knew nothing of it, both kinds of answers are believed at once.
                misled = self.misled(parent) or parent in self.unheard
                if not base.closed([parent]) and not misled:
                    raise Violated(f"shard {shard} before its parent {parent}")
                self.saw("child after parent")

    def _judge_gap(self, service: Service, shard: SimShard, gap: Gap, since_s: int) -> None:
        begin, end = int(gap.begin), int(gap.end)
        if gap.cause == GAP_SHARD_GONE:
            self.saw("shard written off")
            if not since_s or service.now_s - since_s < self.outage_s:
                raise Violated(f"shard {shard.id} was written off, suspected since {since_s} only")
            if shard.id not in service.removed:
                self.saw("a shard that is there was written off")
                if not self.misled(shard.id):
                    raise Violated(f"shard {shard.id} was written off and is still there")
        elif shard.id not in service.removed and shard.groups(max(begin, shard.begin), end):
            raise Violated(f"shard {shard.id}: the gap [{begin}, {end}) can still be read")

    def _judge_closing(self, service: Service, shard: SimShard, end: int | None) -> None:
        if end not in (shard.end, CURSOR_UNKNOWN):
            raise Violated(f"shard {shard.id} closed at {end}, its end is {shard.end}")
        if not shard.readonly and end != CURSOR_UNKNOWN:
            raise Violated(f"shard {shard.id} closed and can still be written")


def _judge_content(shard: SimShard, hour: int, file: object) -> None:
    window, cursors = file.window, file.cursors  # type: ignore[attr-defined]
    if list(cursors) != shard.groups(window.begin, window.end):
        raise Violated(f"{window}: holds {cursors}, was written {shard.groups(window.begin, window.end)}")
    for cursor in cursors:
        if shard.time_of(cursor) // HOUR_S != hour:
            raise Violated(f"{window}: group {cursor} is of another hour")


def _joined(windows: list[tuple[int, int, int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for begin, end, _, _ in windows:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return tuple(joined)


def _cursors(table: Table, shard: int) -> set[int]:
    return {c for f in table.files if f.window.shard == shard for c in f.cursors}
