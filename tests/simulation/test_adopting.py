"""Every small table whose ledger is in doubt: which ledger is kept, what is adopted and what is given up.

A shard with cursors 0 to 3, a row each. An older landing brought 0 and 1, the newer one all, or all but the
row 1 that was removed for good by then. Any of the rows are there; beside them one of nobody, one that the
shard never had, one twice. A file may be lost, the newest ledger damaged, the tag gone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pipelines.landing.contents.cells import Cell, Counted
from pipelines.landing.contents.explained import Compared, LostFile
from pipelines.landing.ledger.state import TableState
from pipelines.landing.ledger.values import Adopted, Forgotten, Gone
from pipelines.landing.recovery import adopt
from pipelines.landing.recovery.adopt import Unsettled
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.errors import LedgerBroken
from sls_io.values.window import Cursor, IntervalSet
from tests.simulation.mutants import Bug, Wrong, must_find

KEY = ("o", 0)
REMOVED = Forgotten({KEY: Gone(1, 2, IntervalSet.of([(1, 2)]))})
STRANGE = 6
"""The cursor of a row that no landing brought."""


@dataclass(frozen=True)
class Doubt:
    """rows: cursors that are there; `lost`, how many rows a lost file held; `nobody`, rows of no logstore."""

    rows: frozenset[int]
    twice: bool
    lost: int
    nobody: int
    removed: bool
    damaged: bool
    tagged: bool

    @property
    def known(self) -> dict[int, frozenset[int]]:
        """By landing, the newest first, the rows that its ledger knows, as far as it can be read."""
        newer = {} if self.damaged else {2: frozenset({0, 2, 3} if self.removed else range(4))}
        return {**newer, 1: frozenset({0, 1})}

    @property
    def found(self) -> Unsettled:
        """The same as the product sees it."""
        pasts = [
            SimpleNamespace(
                id=at,
                ledgers={"o": _ledger(rows, end=2 * at)},
                adopted=Adopted(),
                removed=REMOVED if self.removed and at == 2 else Forgotten(),
            )
            for at, rows in self.known.items()
        ]
        newest = adopt._newest(cast(Any, pasts))
        ledgers = {"o": newest["o"].ledgers["o"]} if self.tagged and not self.damaged else {}
        state = TableState("", 9, 2 if self.tagged else None, 0, 0, 0, ledgers, {"o": "r/p/l@1"})
        state = replace(state, forgotten=REMOVED if self.removed else Forgotten())
        cells = tuple(Cell("o", 0, 0, 1, 2**row, row, row) for row in [*self.rows, *([0] * self.twice)])
        counted = Counted({("file", frozenset()): cells}, {KEY: int(self.twice)})
        tallies = {("o", shard): there for shard, there in counted.shards(newest["o"].ledgers["o"]).items()}
        lost = (LostFile("o", "folder/gone", self.lost, range(1)),) * bool(self.lost)
        origin = SimpleNamespace(id="o", region="r", project="p", logstore="l", created_s=1)
        table = SimpleNamespace(metadata=SimpleNamespace(snapshots=[]))  # no landing can be gone back to
        place = SimpleNamespace(name="t", state=state, origin=origin, table=table)
        rows = len(cells) + self.nobody + self.lost
        return Unsettled(
            cast(Any, place), cast(Any, pasts), newest, Compared(tallies, lost), rows, "doubt", "doubt"
        )


def _ledger(rows: frozenset[int], end: int) -> Ledger:
    landed, total = IntervalSet.of([(0, end)]), sum(2**row for row in rows)
    return Ledger("o", {0: ShardLedger(Cursor(0), landed, rows=len(rows), sum=total)})


def doubts() -> Iterator[Doubt]:
    """All of them."""
    flags = product((False, True), repeat=6)
    for bits, lost, (strange, *rest) in product(range(16), range(3), flags):
        rows = frozenset(row for row in range(4) if bits >> row & 1) | frozenset({STRANGE} if strange else ())
        twice, nobody, removed, damaged, tagged = rest
        if 0 in rows or not twice:
            yield Doubt(rows, twice, lost, int(nobody), removed, damaged, tagged)


def judge(doubt: Doubt) -> str:
    """Raises Wrong where the decision is; what it was."""
    try:
        decided = adopt._decide(doubt.found)
    except LedgerBroken:
        if not doubt.twice:
            raise Wrong("refused, and no row is there twice") from None
        return "refused"
    if doubt.twice:
        raise Wrong("a row is adopted twice")
    if decided.adopted.others != doubt.nobody:
        raise Wrong(f"{decided.adopted.others} rows of nobody")
    # Which rows were in a lost file nobody knows: how many, and none that would land again.
    true = [
        at
        for at, rows in doubt.known.items()
        if (at == 2 or not doubt.removed)
        and len(doubt.rows) + doubt.lost == len(rows)
        and (doubt.rows == rows or (doubt.lost and max(doubt.rows, default=0) < 2 * at))
    ]
    kept = decided.sources.get("o")
    if kept != next(iter(true), None):
        raise Wrong(f"the ledger of {kept} is kept")
    if kept is not None:
        return "kept"
    rows, known = doubt.rows, next(iter(doubt.known.values()))
    if decided.adopted.shards != ({KEY: (len(rows), sum(2**row for row in rows))} if rows else {}):
        raise Wrong("other rows are adopted than are there")
    # A row that is back after its removal may hide a missing one: so many at least.
    lacking, given, hidden = len(known - rows), decided.missing, len(rows - known - {STRANGE})
    least = max(lacking - hidden, int(len(rows) == len(known) and lacking == hidden > 0))
    if not least <= given <= lacking or decided.adopted.missing.get(KEY, 0) != given:
        raise Wrong(f"{given} rows are given up of {lacking}")
    return "begun" if not given else "given up"


def test_a_ledger_is_kept_where_it_is_true_and_else_all_rows_are_adopted_and_counted() -> None:
    said = [judge(doubt) for doubt in doubts()]
    assert len(said) == 2_304
    assert all(said.count(each) > 20 for each in ("refused", "kept", "begun", "given up"))


BUGS: tuple[Bug, ...] = (
    ("a ledger from before a removal", adopt._proven, "past.removed != found.place.state.forgotten", "False"),
    ("any ledger is true", adopt._proven, "and found.there.proves(ledger, past.adopted)", ""),
    ("rows are adopted twice", adopt._check_once, "if not doubled:", "if True:"),
    ("rows are given up in silence", adopt._differences, "max(0, -landed)", "0"),
    ("as many rows are the same", adopt._differences, "missing = foreign = 1", "pass"),
    ("what is missing is not remembered", adopt._with_rows, "+ each.missing", "+ 0"),
    ("lost files are rows of nobody", adopt._others, " - sum(x.rows for x in found.there.lost)", ""),
    ("a kept ledger lands rows again", Compared.proves, "there.rows > rows or behind", "there.rows > rows"),
    ("a short file hides rows", Compared.proves, "short == sum(each.rows for each in files)", "True"),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug[0])
def test_the_search_finds(bug: Bug) -> None:
    must_find(bug, lambda: [judge(doubt) for doubt in doubts()])
