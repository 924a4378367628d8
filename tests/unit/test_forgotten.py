"""Values that may not land, and what they kept out, as the text of a snapshot and as values."""

from dataclasses import replace

import pytest

from pipelines.landing.barring import Bar, Bars
from pipelines.landing.ledger.codec import decode_forgotten, encode_forgotten
from pipelines.landing.ledger.values import BARRED_MAX, Forgotten, Gone, Landed
from sls_io.values.errors import LedgerBroken
from sls_io.values.window import Cursor, IntervalSet, Window

ORIGIN = "a"
BARRED = Forgotten(
    {(ORIGIN, 0): Gone(10, 71, IntervalSet.of([(5, 7)]))},
    Bars("00ff", frozenset({Bar(ORIGIN, 10, "xyz-_A"), Bar(ORIGIN, 10, "b"), Bar("b-1", 11, "c")}), 2),
    {(ORIGIN, 0): {8: (3, 2**64 - 1), 9: (1, 5)}, ("b-1", 4): {8: (36, 1)}},
    {("b-1", 3): Gone(7, 9, IntervalSet.of([(1, 3)]))},
)


def test_values_that_may_not_land_have_a_text_of_their_own_version() -> None:
    text = encode_forgotten(BARRED)
    assert text.startswith(f"2;00ff;2;2;{ORIGIN}:a:b,xyz-_A;b-1:b:c;{ORIGIN}:0:a:1z:5-7:8.3.")
    again = decode_forgotten(text)
    assert again == BARRED
    assert (again.bars.values, again.barred, again.older) == (BARRED.bars.values, BARRED.barred, BARRED.older)
    ended = replace(BARRED, bars=BARRED.bars.less(BARRED.bars.values))
    assert decode_forgotten(encode_forgotten(ended)).bars == ended.bars == BARRED.bars


@pytest.mark.parametrize(
    "cut", ["2;", "2;zz;1;0", "2;00;1;1", "2;00;1;1;a:b", "2;00;1;0;a:0:1:2:5-6:8.3:0:0:"]
)
def test_damaged_values_that_may_not_land_stop_with_the_verb(cut: str) -> None:
    with pytest.raises(LedgerBroken, match="damaged"):
        decode_forgotten(cut)


def test_rows_that_are_kept_out_go_and_come_with_their_hour_and_are_no_removal() -> None:
    decided = Forgotten(bars=Bars("00", begun=1))
    window = Window(0, Cursor(5), Cursor(9), 8)
    counted = decided.landed(ORIGIN, [Landed(window, 4, 0, barred=(2, 7)), Landed(window, 4, 0)])
    assert counted == decided and counted.barred_of(ORIGIN, 0) == {8: (2, 7)}
    assert counted.without_barred(ORIGIN, range(8, 9), [1]).barred_of(ORIGIN, 0) == {8: (2, 7)}
    assert counted.without_barred("b-1").barred_of(ORIGIN, 0) == {8: (2, 7)}
    assert counted.without_barred(ORIGIN, range(8, 9), [0]).barred == {}
    assert not counted.hours(ORIGIN)
    past = counted.all_before(ORIGIN, (0,), 9)
    assert past.barred == {} and past.of(ORIGIN, 0).rows == 2 and past != counted
    assert past.counting(counted) == past and past.counting(counted).barred == counted.barred


def test_only_so_many_hours_are_kept_one_by_one_and_older_ones_are_summed_up() -> None:
    decided = Forgotten(bars=Bars("00", begun=1))
    windows = [
        Landed(Window(0, Cursor(hour), Cursor(hour + 1), hour), 0, 0, barred=(1, 2))
        for hour in range(BARRED_MAX + 3)
    ]
    counted = decided.landed(ORIGIN, windows)
    assert len(counted.barred_of(ORIGIN, 0)) == BARRED_MAX
    assert counted.of(ORIGIN, 0) == Gone(3, 6, IntervalSet.of([(0, 3)]))
    assert counted.hours(ORIGIN).pairs == ((0, 3),), "nobody knows what is kept out of which of these hours"
    assert counted == decided
