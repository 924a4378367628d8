"""Cursors and interval sets. The algebra is compared with a bitmap: a set of integers."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sls_io.values.errors import ConfigError, InvariantBroken
from sls_io.values.window import Cursor, IntervalSet, Window, cursor_from_wire, cursor_to_wire

SIZE = 40
POINTS = st.integers(0, SIZE)
PAIRS = st.lists(st.tuples(POINTS, POINTS), max_size=8)
quick = settings(max_examples=150, deadline=None, database=None)


def bitmap(pairs: IntervalSet | list[tuple[int, int]]) -> set[int]:
    """The cursors that are inside."""
    return {at for begin, end in pairs for at in range(begin, end)}


def assert_normal(found: IntervalSet) -> None:
    """Sorted, disjoint, never touching, none empty."""
    flat = [at for pair in found.pairs for at in pair]
    assert flat == sorted(set(flat))


@quick
@given(PAIRS)
def test_a_set_of_intervals_holds_what_its_intervals_hold(pairs: list[tuple[int, int]]) -> None:
    made = IntervalSet.of(pairs)
    assert_normal(made)
    assert bitmap(made) == bitmap(pairs)
    assert bool(made) == bool(bitmap(pairs))


@quick
@given(PAIRS)
def test_equal_contents_are_equal_sets(pairs: list[tuple[int, int]]) -> None:
    single = IntervalSet.of((at, at + 1) for at in bitmap(pairs))
    assert single == IntervalSet.of(pairs)
    assert IntervalSet.of(single) == single


@quick
@given(PAIRS, PAIRS)
def test_union_and_minus_are_those_of_sets(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    a, b = IntervalSet.of(left), IntervalSet.of(right)
    for found, expected in (
        (a.union(b), bitmap(a) | bitmap(b)),
        (a.union(right), bitmap(a) | bitmap(b)),
        (a.minus(b), bitmap(a) - bitmap(b)),
    ):
        assert_normal(found)
        assert bitmap(found) == expected


@quick
@given(PAIRS, POINTS, POINTS)
def test_within_and_overlaps_agree_with_a_bitmap(pairs: list[tuple[int, int]], begin: int, end: int) -> None:
    held = IntervalSet.of(pairs)
    inside = set(range(begin, end))
    assert bitmap(held.within(begin, end)) == bitmap(held) & inside
    assert_normal(held.within(begin, end))
    if begin < end:
        assert held.overlaps(begin, end) == bool(bitmap(held) & inside)


@quick
@given(PAIRS, POINTS)
def test_run_end_is_the_first_cursor_from_start_that_is_not_inside(
    pairs: list[tuple[int, int]], start: int
) -> None:
    held = IntervalSet.of(pairs)
    at = start
    while at in bitmap(held):
        at += 1
    assert held.run_end(start) == at


@quick
@given(st.integers(0, 2**63 - 1))
def test_a_cursor_survives_the_wire(cursor: int) -> None:
    text = cursor_to_wire(cursor)
    assert len(text) % 4 == 0
    assert base64.b64decode(text) == str(cursor).encode()
    assert cursor_from_wire(text) == cursor


def test_cursors_are_compared_as_integers_not_as_texts() -> None:
    assert "99" > "100"
    assert cursor_from_wire(cursor_to_wire(99)) < cursor_from_wire(cursor_to_wire(100))


@pytest.mark.parametrize("text", ["", "abc", "MTI", "bm8gbnVtYmVy", "MTI=\n", "é", "MS41", "!!!!"])
def test_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a cursor"):
        cursor_from_wire(text)


@pytest.mark.parametrize("number", ["-5", "+5", " 12", "1_0", "12\n", "٣"])
def test_numbers_the_service_never_prints_are_no_cursors(number: str) -> None:
    with pytest.raises(ConfigError, match="not a cursor"):
        cursor_from_wire(base64.b64encode(number.encode()).decode())


@pytest.mark.parametrize(("begin", "end"), [(5, 5), (6, 5)])
def test_an_empty_window_cannot_be_made(begin: int, end: int) -> None:
    with pytest.raises(InvariantBroken):
        Window(0, Cursor(begin), Cursor(end), 1)


@pytest.mark.fault("4b.recreated.commit")
def test_a_window_id_names_origin_shard_and_cursors_and_nothing_else() -> None:
    window = Window(1, Cursor(2), Cursor(3), 4)
    assert window.id("a") == Window(1, Cursor(2), Cursor(3), 99).id("a")
    others = [
        window.id("b"),
        Window(0, Cursor(2), Cursor(3), 4).id("a"),
        Window(1, Cursor(1), Cursor(3), 4).id("a"),
        Window(1, Cursor(2), Cursor(4), 4).id("a"),
        Window(12, Cursor(3), Cursor(4), 4).id("a"),
    ]
    assert len({window.id("a"), *others}) == 1 + len(others)
    assert window.id("a") == "f9c6ea91da81fd66"
