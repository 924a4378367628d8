"""Which ledger the rows of a table prove, as values."""

import pytest

from pipelines.landing.contents.cells import Key, Tally
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


def test_rows_and_identity_sums_of_every_shard_prove_a_ledger() -> None:
    assert Compared({("a", 0): Tally(4, 2**64 - 1), ("b", 3): Tally(9, 9)}).proves(LEDGER, Adopted())


@pytest.mark.parametrize(
    "tallies",
    [
        {},
        {("a", 0): Tally(3, 2**64 - 1)},
        {("a", 0): Tally(4, 1)},
        {("a", 0): Tally(4, 2**64 - 1), ("a", 1): Tally(1, 0)},
        {("a", 0): Tally(4, 2**64 - 1), ("a", 2): Tally(1, 0)},
    ],
    ids=["rows gone", "a row gone", "another row instead", "a row more", "a shard more"],
)
def test_one_row_more_or_less_proves_nothing(tallies: dict[Key, Tally]) -> None:
    assert not Compared(tallies).proves(LEDGER, Adopted())


def test_rows_adopted_before_count_beside_the_landed_ones() -> None:
    adopted = Adopted({("a", 0): (2, 3), ("b", 0): (7, 7)}, others=5)
    assert Compared({("a", 0): Tally(6, 2)}).proves(LEDGER, adopted)
    assert not Compared({("a", 0): Tally(4, 2**64 - 1)}).proves(LEDGER, adopted), "adopted rows went away"


@pytest.mark.parametrize(
    ("there", "lost", "proven"),
    [
        (Tally(1, 7), (3, range(1)), True),
        (Tally(1, 7), (3, None), True),
        (Tally(2, 7), (3, range(1)), False),
        (Tally(1, 7), (3, range(1, 2)), False),
        (Tally(1, 7, doubled=1), (3, range(1)), False),
        (Tally(4, 2**64 - 1), (3, range(1)), False),
    ],
    ids=["its rows", "of any shard", "fewer", "of another shard", "a row twice", "none is missing"],
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
