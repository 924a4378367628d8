"""Which ledger the rows of a table prove, as values; of one shard `tests/simulation/test_adopting.py` tries
all of it."""

import pytest

from pipelines.landing.contents.cells import Tally
from pipelines.landing.contents.explained import Compared, LostFile
from pipelines.landing.ledger.values import Adopted
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.window import Cursor, IntervalSet

LEDGER = Ledger(
    "a",
    {
        0: ShardLedger(Cursor(5), IntervalSet.of([(5, 9)]), rows=4, sum=2**64 - 1),
        1: ShardLedger(Cursor(7)),
    },
)


def test_rows_adopted_before_count_beside_the_landed_ones_and_every_shard_counts() -> None:
    adopted = Adopted({("a", 0): (2, 3), ("b", 0): (7, 7)}, others=5)
    both = {("a", 0): Tally(6, 2), ("b", 3): Tally(9, 9)}
    assert Compared(both).proves(LEDGER, adopted)
    assert not Compared({("a", 0): Tally(4, 2**64 - 1)}).proves(LEDGER, adopted), "adopted rows went away"
    for more in (1, 2):
        assert not Compared({**both, ("a", more): Tally(1, 0)}).proves(LEDGER, adopted), "a shard more"


@pytest.mark.parametrize(
    ("there", "lost", "proven"),
    [
        (Tally(1, 7), (3, None), True),
        (Tally(1, 7), (3, range(1, 2)), False),
        (Tally(1, 7, doubled=1), (3, range(1)), False),
    ],
    ids=["of any shard", "of another shard", "a row twice"],
)
def test_exactly_the_rows_of_a_lost_file_may_be_missing(
    there: Tally, lost: tuple[int, range | None], proven: bool
) -> None:
    found = Compared({("a", 0): there}, (LostFile("a", "folder/file", *lost),))
    assert found.proves(LEDGER, Adopted()) == proven


def test_a_row_too_many_in_one_shard_hides_none_that_is_missing_in_another() -> None:
    adopted = Adopted({("a", 1): (4, 5)})
    found = Compared({("a", 0): Tally(5, 7)}, (LostFile("a", "folder/file", 3, None),))
    assert not found.proves(LEDGER, adopted)
