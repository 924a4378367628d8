"""Claims and ledgers as values, and the hand-moved clock they are judged by."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sls_io.values.claim import Claim, Gap, Ledger, ShardLedger
from sls_io.values.clock import ManualClock
from sls_io.values.window import Cursor, IntervalSet

PAIRS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=4).map(IntervalSet.of)


def test_a_claim_ends_at_its_moment_and_not_before() -> None:
    clock = ManualClock()
    claim = Claim("h", frozenset({0}), until_s=clock.monotonic() + 10)
    clock.advance(9.5)
    assert claim.valid(clock.monotonic())
    clock.advance(0.5)
    assert not claim.valid(clock.monotonic())


@pytest.mark.fault("4a.8.clock", "4a.1.clock")
def test_stepping_the_wall_clock_neither_ends_nor_lengthens_a_claim() -> None:
    clock = ManualClock()
    claim = Claim("h", frozenset({0}), until_s=clock.monotonic() + 10)
    clock.set(clock.now() + 10_000)
    assert claim.valid(clock.monotonic())
    clock.set(0)
    clock.sleep(10)
    assert not claim.valid(clock.monotonic())


def test_a_claim_without_an_end_never_ends() -> None:
    assert Claim("h", frozenset()).valid(1e18)


@settings(max_examples=150, deadline=None, database=None)
@given(st.integers(0, 30), PAIRS, PAIRS, PAIRS)
def test_the_frontier_is_the_first_cursor_from_start_that_nothing_settles(
    start: int, landed: IntervalSet, gaps: IntervalSet, withdrawn: IntervalSet
) -> None:
    entry = ShardLedger(
        start=Cursor(start),
        landed=landed,
        gaps=tuple(Gap(Cursor(b), Cursor(e), "expired") for b, e in gaps),
        withdrawn=withdrawn,
    )
    inside = {at for part in (landed, gaps, withdrawn) for b, e in part for at in range(b, e)}
    frontier = start
    while frontier in inside:
        frontier += 1
    assert entry.frontier == frontier
    assert {at for b, e in entry.accounted for at in range(b, e)} == inside


def test_a_shard_never_seen_before_starts_at_its_begin() -> None:
    ledger = Ledger("o", {0: ShardLedger(start=Cursor(5))})
    assert ledger.shard(1, begin=Cursor(7)) == ShardLedger(start=Cursor(7))
    assert ledger.shard(0, begin=Cursor(7)).start == 5


def test_a_ledger_is_started_once_it_has_a_shard() -> None:
    assert not Ledger("o").started
    assert Ledger("o").with_shards({3: ShardLedger(start=Cursor(0))}).started


def test_changing_a_ledger_makes_another_and_leaves_the_old_one() -> None:
    old = Ledger("o", {0: ShardLedger(start=Cursor(1)), 1: ShardLedger(start=Cursor(2))})
    new = old.with_shards({1: ShardLedger(start=Cursor(9))})
    assert (new.shards[0].start, new.shards[1].start) == (1, 9)
    assert old.shards[1].start == 2


@pytest.mark.parametrize(("asked", "closed"), [((), True), ((0,), True), ((0, 1), False), ((7,), False)])
def test_shards_are_closed_when_each_is_known_and_has_an_end(asked: tuple[int, ...], closed: bool) -> None:
    ledger = Ledger("o", {0: ShardLedger(start=Cursor(1), end=Cursor(1)), 1: ShardLedger(start=Cursor(2))})
    assert ledger.closed(asked) is closed


def test_a_shard_that_ends_at_cursor_zero_is_closed() -> None:
    assert ShardLedger(start=Cursor(0), end=Cursor(0)).closed
