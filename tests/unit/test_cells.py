"""Rows counted once, by cell: what was asked for is a sum over cells, anything else is refused."""

import random

import numpy as np
import pytest

from pipelines.landing.contents.cells import Counted, Identities, Tally, cells_in, edges, totals
from sls_io.decoding.decode import identity_sum
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.errors import InvariantBroken
from sls_io.values.window import Cursor, IntervalSet, Window

LANDED = Ledger("o", {0: ShardLedger(Cursor(5), IntervalSet.of([(5, 9)]))})
WINDOW = Window(0, Cursor(5), Cursor(7), 3)


def rows(*cursors: int, hour: int = 3) -> Identities:
    """One row at each of these cursors."""
    at = np.array(cursors, dtype=np.int64)
    return Identities("o", 0, hour, at, np.zeros_like(at))


def total(*cursors: int) -> int:
    return identity_sum(0, *rows(*cursors)[3:])


def counted(*parts: Identities) -> Counted:
    return Counted({("file", frozenset()): cells_in(parts, edges([LANDED], {"o": [WINDOW]}))})


def test_a_shard_and_its_windows_are_sums_over_cells_in_whatever_order_rows_are_read() -> None:
    there = counted(rows(8, 4), rows(6, 5))
    assert sorted((c.first, c.last, c.rows) for c in there.cells("o")) == [(4, 4, 1), (5, 6, 2), (8, 8, 1)]
    tally = Tally(rows=4, sum=total(4, 5, 6, 8), outside=1, last=8)
    assert there.shards(LANDED) == {0: tally}
    assert there.windows("o", [WINDOW]) == {WINDOW: (2, total(5, 6))}


def test_a_row_that_somebody_put_into_another_hour_is_missing_in_its_window() -> None:
    there = counted(rows(6, hour=4), rows(5))
    assert there.windows("o", [WINDOW]) == {WINDOW: (1, total(5))}
    assert there.shards(LANDED)[0].rows == 2


def test_nobody_guesses_where_rows_lie_that_were_counted_without_an_edge_there() -> None:
    (cell,) = cells_in([rows(5, 6)], edges([LANDED]))
    assert cell.landed(LANDED) and not cell.within(7, 9)
    with pytest.raises(InvariantBroken, match=r"\[6, 9\) takes a part of them"):
        cell.within(6, 9)


@pytest.mark.parametrize("seed", range(20))
def test_cells_say_of_every_interval_between_edges_what_its_rows_say(seed: int) -> None:
    dice = random.Random(seed)
    cursors = [dice.randrange(40) for _ in range(dice.randrange(1, 60))]
    begin, end = sorted(dice.sample(range(42), 2))
    ledger = Ledger("o", {0: ShardLedger(Cursor(0), IntervalSet.of([(begin, end)]))})
    parts = [rows(*cursors[at : at + 7]) for at in range(0, len(cursors), 7)]
    cells = cells_in(parts, edges([ledger], {"o": [WINDOW]}))
    for low, high in ((begin, end), (5, 7), (0, 99)):
        inside = [cursor for cursor in cursors if low <= cursor < high]
        found = totals(cell for cell in cells if cell.within(low, high))
        assert found.get(("o", 0), (0, 0)) == (len(inside), total(*inside) if inside else 0)
