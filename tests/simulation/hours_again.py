"""Small worlds in which hours are landed again, and what must be true of each decision.

One shard, three receive hours: cursors 0 and 1, 2 and 3, and 4. Each row is where it belongs, gone, in the
next hour's file, or in both; a file may be unreadable, and retention may have taken the first cursors. What
`replace.accepted` lets leave is taken out of such a world, what the service has is put in, by three lines
that share nothing with the product, and then it is looked whether that was right. In some worlds the
shard has landed only up to a cursor within an hour; a live run lands one more while the hour is pulled.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import cast

from pyiceberg.table import Table

from pipelines.landing.contents.cells import Cell, Cells
from pipelines.landing.contents.holdings import Asks, Holdings, Listed, ServiceEdges
from pipelines.landing.contents.slices import RowsElsewhere
from pipelines.landing.inspection import cures
from pipelines.landing.ledger.reading import Unreadable
from pipelines.landing.ledger.values import Adopted, Forgotten, Gone
from pipelines.landing.operations import replace as replacing
from pipelines.landing.operations import undo
from pipelines.landing.operations.undo import Leaving
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.errors import ConfigError, LandingConflict, LedgerBroken
from sls_io.values.window import HOUR_S, Cursor, IntervalSet
from tests.simulation.mutants import Wrong

FIRST = 100
HOUR_OF = (FIRST, FIRST, FIRST + 1, FIRST + 1, FIRST + 2)
SPANS = (range(FIRST, FIRST + 1), range(FIRST + 1, FIRST + 2), range(FIRST, FIRST + 2))
_PLACES: tuple[tuple[int, ...], ...] = ((0,), (), (1,), (0, 1))
"""Where a row may be: hours after its own."""
_REACHED_S = {2: HOUR_S, 3: HOUR_S + 60, 4: 2 * HOUR_S, 5: 3 * HOUR_S}
"""What a frontier has reached of the receive time, seconds after the first hour began."""
Row = tuple[int, int]
"""A cursor, and the receive hour of the file that it is in."""


Answer = Leaving | range | tuple[range, ...] | None
Rule = Callable[[Holdings, range], Answer]
"""What decides about receive hours."""


@dataclass(frozen=True)
class Hours:
    """places: where each row is; `begin`, the first cursor that the service has; `lost`, the hour whose file
    cannot be read; `frontier`, up to where the shard has landed, and when it was looked at, if that was
    before; `case`, what else is special."""

    places: tuple[tuple[int, ...], ...]
    begin: int = 0
    lost: int | None = None
    frontier: int = 5
    looked: int = 5
    case: str = ""

    @property
    def start(self) -> int:
        """The ledger's first cursor."""
        return 1 if self.case == "adopted" else 0

    @property
    def landed(self) -> IntervalSet:
        """What the ledger calls landed; of a world that `lacks` a cursor, all others."""
        every = IntervalSet.of([(self.start, self.frontier)])
        return every.minus(IntervalSet(((2, 3),))) if self.case == "lacks" else every

    @cached_property
    def files(self) -> dict[int, tuple[Row, ...]]:
        """Rows by the hour of their file."""
        far = 2 if self.case == "far" else 1
        rows = sorted(
            (HOUR_OF[c] + later * (far if c < 2 else 1), c)
            for c, where in enumerate(self.places)
            for later in where
        )
        return {hour: tuple((c, at) for at, c in rows if at == hour) for hour in sorted({h for h, _ in rows})}

    @cached_property
    def stored(self) -> dict[Listed, tuple[Row, ...]]:
        """The same as files of the table; of a `loose` world the first two are one without a partition."""
        files, found = dict(self.files), dict[Listed, tuple[Row, ...]]()
        later = {(c, at) for rows in files.values() for c, at in rows if c >= self.looked}
        if later and self.case != "together":
            files = {at: tuple(row for row in rows if row not in later) for at, rows in files.items()}
            found = {_listed("later", tuple(sorted(later)), max(at for _, at in later)): tuple(sorted(later))}
        if self.case == "loose":
            both = tuple(row for hour in SPANS[2] for row in files.pop(hour, ()))
            found = {_listed("loose", both, None): both} if both else found
        return found | {_listed(f"of {hour}", rows, hour): rows for hour, rows in files.items() if rows}

    def passed(self, hours: range) -> bool:
        """Whether the frontier has passed these hours."""
        return not any(of in hours for of in HOUR_OF[self.frontier :])

    def at(self, hour: int) -> Cursor:
        """The service's first cursor of an hour."""
        return Cursor(max(self.begin, sum(of < hour for of in HOUR_OF)))

    def holdings(self) -> Holdings:
        """What is known before anybody asks."""
        entry = ShardLedger(
            Cursor(self.start),
            self.landed,
            withdrawn=IntervalSet(((2, 3),) if self.case == "lacks" else ()),
            rows=len(_cursors(self.landed)),
            reached_s=FIRST * HOUR_S + _REACHED_S[self.frontier],
        )
        gone = Gone(1, 1, IntervalSet.of([(FIRST + 1, FIRST + 2)]))
        return Holdings(
            "t",
            Ledger("o", {0: entry}),
            Adopted({("o", 0): (1, 1)}) if self.case == "adopted" else Adopted(),
            Forgotten({("o", 0): gone}) if self.case == "forgotten" else Forgotten(),
            tuple(self.stored),
            # A proof has counted all files, and asked for no other edges.
            {f.shown: self._cells(rows, fine=False) for f, rows in self.stored.items() if self.case == "far"},
            service=ServiceEdges((FIRST + 3) * HOUR_S, frozenset({0})),
        )

    def decide(self, rule: Rule, hours: range) -> Answer | RowsElsewhere | None:
        """What a rule says of these hours; None where it refuses. Each thing is asked once."""
        held, asked = self.holdings(), Counter[object]()
        while True:
            try:
                return rule(held, hours)
            except Asks as asks:
                asked.update([*asks.marks, *((f, bool(asks.cut)) for f in asks.files)])
                if any(count > 1 for count in asked.values()):
                    raise Wrong("something was asked for twice") from None
                held = self._answered(held, asks)
            except RowsElsewhere as error:
                return error
            except (ConfigError, LandingConflict, LedgerBroken):
                return None

    def _answered(self, held: Holdings, asks: Asks) -> Holdings:
        counted, lost = dict(held.counted), dict(held.lost)
        for file in asks.files:
            if file.hour is not None and file.hour == self.lost:
                lost[file.shown] = Unreadable(cast(Table, None), file.shown[0], "it is gone")
            else:
                counted[file.shown] = self._cells(self.stored[file], fine=bool(asks.cut))
        marks, hours = dict(held.edges.marks), dict(held.edges.hours)
        for mark in asks.marks:
            marks[mark] = {0: Cursor(self.begin) if mark == "begin" else self.at(mark)}
        if asks.cursor is not None:
            cursor = asks.cursor[1]
            hours[asks.cursor] = HOUR_OF[cursor] if cursor >= self.begin else None
        service = replace(held.edges, marks=marks, hours=hours)
        return replace(held, counted=counted, lost=lost, service=service)

    def _cells(self, rows: tuple[Row, ...], *, fine: bool) -> Cells:
        """Cut at the edges of the ledger; `fine`: at each row."""
        parts: dict[object, list[Row]] = {}
        for cursor, hour in rows:
            cut = cursor if fine else sum(cursor >= edge for pair in self.landed for edge in pair)
            parts.setdefault((hour, cut), []).append((cursor, hour))
        return tuple(
            Cell("o", 0, those[0][1], len(those), sum(c for c, _ in those), those[0][0], those[-1][0])
            for those in parts.values()
        )


def _listed(path: str, rows: tuple[Row, ...], hour: int | None) -> Listed:
    cursors, hours = [c for c, _ in rows], [at for _, at in rows]
    origin = None if hour is None else "o"
    span = range(min(hours), max(hours) + 1)
    shown = path, frozenset[str]()
    return Listed(shown, origin, hour, span, range(1), range(min(cursors), max(cursors) + 1))


def worlds() -> Iterator[Hours]:
    """All of them."""
    for places in product(_PLACES, _PLACES, _PLACES, _PLACES, ((0,), ())):
        for begin in range(3):
            yield from (Hours(places, begin, lost) for lost in (None, FIRST, FIRST + 1))
            cases = ["forgotten", "loose", "far", *(["adopted"] if len(places[0]) == 1 else [])]
            yield from (Hours(places, begin, case=case) for case in [*cases, "lacks"] if begin < 2)
            for frontier in (2, 3):
                if not any(places[frontier:]):
                    yield Hours(places, begin, frontier=frontier)
                    yield Hours(places, begin, lost=FIRST + 1, frontier=frontier)


def judge(world: Hours, hours: range) -> str:
    """Raises Wrong where the decision about these hours is; what it was."""
    if isinstance(world.decide(_open, hours), range) and not world.passed(hours):
        raise Wrong("an hour is taken back that is still on its way")
    said = world.decide(replacing.accepted, hours)
    if isinstance(said, Leaving):
        _judge_landing(world, hours, said)
        return "accepted"
    if _must_work(world, hours):
        raise Wrong("refused, and nothing stands against it")
    if isinstance(said, RowsElsewhere):
        together = world.decide(replacing.accepted_together, said.hours)
        if not isinstance(together, range):
            return "elsewhere"
        also = world.decide(replacing.accepted, together)
        if not isinstance(also, Leaving) or not set(hours) <= set(together):
            raise Wrong(f"{together} is named, and refused")
        _judge_landing(world, together, also)
        return "together"
    return "refused"


def _open(held: Holdings, hours: range) -> range:
    """These hours, where they may be taken back."""
    undo.check_open(held, hours)
    return hours


def judge_named(world: Hours) -> int:
    """Raises Wrong where hours are named as a cure that cannot be landed again, or others are not; how many
    spans are named."""
    hours = SPANS[2]
    named = world.decide(cures.replaceable, hours)
    if not isinstance(named, tuple):
        raise Wrong("nothing is said")
    for span in named:
        if not isinstance(world.decide(replacing.accepted, span), Leaving):
            raise Wrong(f"{span} is named, and refused")
    for hour in (range(at, at + 1) for at in hours):
        alone = isinstance(world.decide(replacing.accepted, hour), Leaving)
        if alone and not any(set(hour) <= set(span) for span in named):
            raise Wrong(f"{hour} is not named")
    return len(named)


def judge_later(world: Hours, hours: range) -> str:
    """One more cursor lands while the hours are pulled. Raises Wrong where what leaves then is."""
    left = world.decide(replacing.accepted, hours)
    if not isinstance(left, Leaving):
        return "refused"
    more = replace(world, places=(*world.places[: world.frontier], (0,), *world.places[world.frontier + 1 :]))
    found = set()
    for case in ("", "together"):
        later = replace(more, frontier=world.frontier + 1, looked=world.frontier, case=case)
        again = later.decide(partial(undo.leaving, holed=True, only=left.taken), hours)
        if not isinstance(again, Leaving):
            if not case:
                raise Wrong("what landed since stops it, and lies in a file of its own")
            found.add("stopped")
            continue
        if again.taken != left.taken:
            raise Wrong(f"{again.taken} is withdrawn, and {left.taken} comes")
        gone = {cursor for file in again.files for cursor, _ in later.stored[file]}
        stays = {c for file, rows in later.stored.items() if file not in again.files for c, _ in rows}
        if world.frontier in gone:
            raise Wrong("what landed since leaves, and does not come again")
        if stays & _cursors(left.taken.get(0, IntervalSet())):
            raise Wrong("what was looked at stays, and comes again")
        found.add("left")
    return "left" if "left" in found else "stopped"


def _judge_landing(world: Hours, hours: range, left: Leaving) -> None:
    """Take out what leaves, put in what the service has of what is landed no more, and look."""
    inside = range(max(world.at(hours.start), world.start), world.at(hours.stop))
    taken, landed = _cursors(left.taken.get(0, IntervalSet())), _cursors(world.landed)
    coming = [c for c in inside if c < world.frontier and (c in taken or c not in landed)]
    held = world.holdings()
    may = replacing.passed(held.ledger, held.adopted)[0]
    if [c for c in inside if may.overlaps(c, c + 1)] != [c for c in inside if c < world.frontier]:
        raise Wrong("a log is landed that no live run has got to, or another one is not")
    # What a file that cannot be read held of other hours was gone before.
    dropped = [
        cursor
        for file in left.files
        for cursor, _ in world.stored[file]
        if file.hour != (world.lost or -1) or HOUR_OF[cursor] in hours
    ]
    # What was in a file that cannot be read is not there.
    stays = [file for file in world.stored if file not in left.files and file.hour != (world.lost or -1)]
    after = Counter([*(c for file in stays for c, _ in world.stored[file]), *coming])
    if world.case == "forgotten" and FIRST + 1 in hours:
        raise Wrong("a removed row comes back")
    for cursor in dropped:
        if not after[cursor]:
            raise Wrong(f"row {cursor} is lost")
    for cursor in {*coming, *taken}:
        if after[cursor] != 1:
            raise Wrong(f"row {cursor} is there {after[cursor]} times")


def _cursors(intervals: IntervalSet) -> set[int]:
    return {cursor for begin, end in intervals for cursor in range(begin, end)}


def _must_work(world: Hours, hours: range) -> bool:
    """Whether nothing at all stands against landing these hours again: rows where they belong or gone, the
    service has all of them, and what was adopted lies in another hour."""
    mine = [c for c, of in enumerate(HOUR_OF) if of in hours and world.start <= c < world.frontier]
    near = [*mine, *(c for c, of in enumerate(HOUR_OF) if of + 1 in hours)]
    beside = world.case == "adopted" and world.places[0] == (1,) and hours == SPANS[0]
    plain = (world.case == "" or beside) and all(world.places[c] in ((0,), ()) for c in near)
    whole = bool(mine) and world.begin <= mine[0] and (world.begin == 0 or world.lost is None)
    return plain and whole and any(world.places[c] for c in mine)
