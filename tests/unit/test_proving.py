"""What follows from the evidence of a table, as values."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pipelines.landing.contents.cells import Cell, Counted
from pipelines.landing.inspection.evidence import Contents, Evidence, Scope, ServiceShard
from pipelines.landing.inspection.proof import NOT_VERIFIED, OWED, VERIFIED, ShardProof
from pipelines.landing.inspection.proving import prove
from pipelines.landing.inspection.second_pull import SecondPull
from pipelines.landing.inspection.whole import no_file
from pipelines.landing.ledger.state import TableState
from pipelines.landing.ledger.values import Adopted, Forgotten, Gone
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.window import Cursor, IntervalSet, Window
from sls_io.wire.client import Origin

OURS = Origin("r", "p", "l", 1, known_as="ours")
ENTRY = ShardLedger(Cursor(0), IntervalSet.of([(0, 9)]), rows=3, sum=30)
HOUR7, HOUR8 = Window(0, Cursor(0), Cursor(5), 7), Window(0, Cursor(5), Cursor(9), 8)
CELLS = (Cell("ours", 0, 7, 2, 12, 1, 4), Cell("ours", 0, 8, 1, 18, 6, 6))
THEIRS = Cell("theirs", 0, 7, 4, 40, 0, 3)

Change = Callable[[Evidence], Evidence]


def evidence() -> Evidence:
    """Of a table that holds what its ledgers say, windows and service too."""
    ledgers = {"ours": Ledger("ours", {0: ENTRY})}
    ledgers["theirs"] = Ledger("theirs", {0: replace(ENTRY, rows=4, sum=40)})
    state = TableState("u", 1, 1, 0, 0, 0, ledgers, dict.fromkeys(ledgers, "text"))
    windows = {HOUR7: (2, 12), HOUR8: (1, 18)}
    return Evidence(
        table="t",
        origin=OURS,
        state=state,
        asked=Scope(pull=True, hours=None, sums_of_others=True, rows=no_file),
        there=contents(*CELLS, THEIRS),
        landed={HOUR7: 2, HOUR8: 1},
        pulled=SecondPull(dict(windows)),
        windows=windows,
        answers={0: ServiceShard(end=Cursor(9))},
        problems=(),
        lost=(),
        notes=(),
        since_ms=None,
    )


def contents(*cells: Cell, twins: int = 0) -> Contents:
    rows = Counter[str]()
    for cell in cells:
        rows[cell.origin] += cell.rows
    return Contents(Counted({("f", frozenset()): cells}, {("ours", 0): twins}), rows)


def there(*cells: Cell, twins: int = 0) -> Change:
    return lambda e: replace(e, there=contents(*cells, twins=twins))


def state(**changes: Any) -> Change:
    return lambda e: replace(e, state=replace(e.state, **changes))


def answer(**changes: Any) -> Change:
    return lambda e: replace(e, answers={0: replace(e.answers[0], **changes)})


def held(rows: int, total: int) -> Change:
    return lambda e: replace(e, windows={**e.windows, HOUR8: (rows, total)})


def test_a_table_that_holds_what_its_ledgers_say_is_verified() -> None:
    proof, wrong = prove(evidence())
    assert proof.verdict == VERIFIED and not wrong and not (proof.short or proof.strange)
    (shard,) = proof.shards
    assert (shard.windows, shard.windows_pulled, shard.rows_pulled) == (2, 2, 3)
    assert proof.notes == (
        "and 4 rows of origin theirs (text), as its ledger says (its service was not asked)",
    )


@pytest.mark.parametrize(
    ("change", "said", "is_so"),
    [
        (there(CELLS[0], THEIRS), "holds 2 rows, the ledger 3", lambda s: not s.strange and not s.others),
        (there(*CELLS, CELLS[1], THEIRS), "holds 4 rows, the ledger 3", lambda s: s.strange),
        (there(CELLS[0], replace(CELLS[1], sum=19), THEIRS), "do not add up", lambda s: s.others),
        (there(*CELLS, THEIRS, twins=1), "1 rows are there more than once", lambda s: s.strange),
        (there(CELLS[0], replace(CELLS[1], first=9, last=9), THEIRS), "lie outside", lambda s: s.strange),
        (held(0, 0), "holds 0 rows, its landing brought 1", lambda s: s.hours_short == (8,)),
        (held(2, 36), "holds 2 rows, the service 1", lambda s: s.hours_over == (8,)),
        (held(1, 19), "holds other rows than the service", lambda s: s.hours_short == (8,)),
        (answer(end=Cursor(8)), "not the same logstore", lambda s: s.end == 8),
        (answer(shown=("opened again",)), "opened again", lambda s: s.end == 9),
    ],
    ids=[
        "a row gone", "a row more", "another row instead", "a row twice", "a row where nothing landed",
        "a window short", "a window with more", "a window with others", "behind the end", "shown again",
    ],
)  # fmt: skip
def test_what_is_not_as_the_ledger_says_is_a_problem_of_the_shard(
    change: Change, said: str, is_so: Callable[[ShardProof], bool]
) -> None:
    proof, wrong = prove(change(evidence()))
    (shard,) = proof.shards
    assert proof.verdict == NOT_VERIFIED and not wrong and not proof.problems
    assert any(said in problem for problem in shard.problems), shard.problems
    assert is_so(shard), shard


def test_a_shard_that_begins_anew_before_its_start_is_no_other_logstore() -> None:
    empty = {"ours": Ledger("ours", {0: ShardLedger(Cursor(9))})}
    change = state(ledgers=empty, origins={"ours": "text"})
    early = answer(end=Cursor(5), shown=("begins at 3",))
    (shard,) = prove(early(change(there()(evidence()))))[0].shards
    assert shard.problems[0] == "begins at 3" and not any("not the same" in text for text in shard.problems)


def test_what_was_skipped_is_owed_and_proven() -> None:
    proof, _ = prove(answer(owed=("[9, 12) was skipped",))(evidence()))
    assert proof.verdict == OWED


def test_windows_of_an_hour_with_removed_rows_are_proven_by_the_shard_alone() -> None:
    gone = Forgotten({("ours", 0): Gone(1, 5, IntervalSet.of([(8, 9)]))})
    proof, _ = prove(held(0, 0)(state(forgotten=gone)(evidence())))
    (shard,) = proof.shards
    assert proof.verdict == VERIFIED and (shard.windows, shard.windows_left) == (1, 1)


def test_adopted_rows_lie_outside_and_are_expected() -> None:
    adopted = Adopted({("ours", 0): (5, 7)})
    before = Cell("ours", 0, 6, 5, 7, 20, 24)
    proof, _ = prove(state(adopted=adopted)(there(*CELLS, before, THEIRS)(evidence())))
    assert proof.verdict == VERIFIED and proof.absent == ("5 rows adopted",)
    assert prove(state(adopted=adopted)(evidence()))[0].short, "adopted rows went away"


def test_rows_of_a_shard_that_no_ledger_knows_are_strange() -> None:
    proof, _ = prove(there(*CELLS, replace(CELLS[0], shard=4), THEIRS)(evidence()))
    assert proof.strange and "that the ledger does not know" in proof.shards[1].problems[0]


@pytest.mark.parametrize("sums", [True, False])
def test_the_rows_of_another_origin_are_held_against_its_ledger(sums: bool) -> None:
    scope = Scope(pull=False, hours=None, sums_of_others=sums, rows=no_file)
    proof, wrong = prove(replace(there(*CELLS)(evidence()), asked=scope))
    assert wrong == ("theirs",) and not proof.short and "origin theirs (text)" in proof.problems[0]


def test_rows_of_an_origin_without_a_ledger_are_named_and_no_more() -> None:
    proof, wrong = prove(there(*CELLS, THEIRS, replace(THEIRS, origin="new"))(evidence()))
    assert proof.verdict == VERIFIED and not wrong
    assert "4 rows of other origins, which this proof is not about: 4 of new" in proof.notes[-1]
