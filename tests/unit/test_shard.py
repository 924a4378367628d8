"""Lineage from key ranges, and the five states of a shard in a consumer group."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sls_io.values.errors import InvariantBroken
from sls_io.values.shard import (
    KEY_MAX,
    KEY_MIN,
    TRANSITIONS,
    Shard,
    ShardEvent,
    ShardState,
    ancestors,
    are_whole,
    initial_state,
    next_state,
    parents,
)

S, E = ShardState, ShardEvent
Key = tuple[int, int]
WIDTH = 64
"""Key ranges in these tests are [a, b) of 0..64, written as 32 hex digits."""


def shard(number: int, keys: Key, *, readonly: bool) -> Shard:
    """A shard of the key range [a, b) of 64 parts; 64 is the end of all keys."""
    begin, end = (KEY_MAX if at == WIDTH else f"{at * 4:02x}" + "0" * 30 for at in keys)
    return Shard(number, readonly, begin, end)


class History:
    """Splits and merges, with the parents written down as they happen."""

    def __init__(self, shards: int = 1) -> None:
        self.keys: dict[int, Key] = {}
        self.live: list[int] = []
        self.truth: dict[int, frozenset[int]] = {}
        step = WIDTH // shards
        for at in range(shards):
            self._add((at * step, WIDTH if at == shards - 1 else (at + 1) * step), frozenset())

    def split(self, number: int) -> bool:
        """Halve a shard; False when it is too narrow."""
        begin, end = self.keys[number]
        if end - begin < 2:
            return False
        self.live.remove(number)
        middle = (begin + end) // 2
        self._add((begin, middle), frozenset({number}))
        self._add((middle, end), frozenset({number}))
        return True

    def merge(self, number: int) -> bool:
        """Join a shard with its right neighbour; False when it is the last."""
        begin, end = self.keys[number]
        right = next((s for s in self.live if self.keys[s][0] == end), None)
        if right is None:
            return False
        self.live.remove(number)
        self.live.remove(right)
        self._add((begin, self.keys[right][1]), frozenset({number, right}))
        return True

    def listed(self) -> list[Shard]:
        """What ListShards would say."""
        return [shard(n, keys, readonly=n not in self.live) for n, keys in self.keys.items()]

    def _add(self, keys: Key, above: frozenset[int]) -> None:
        number = len(self.keys)
        self.keys[number], self.truth[number] = keys, above
        self.live.append(number)


def test_key_ranges_that_touch_share_no_key() -> None:
    left, right = shard(0, (0, 32), readonly=False), shard(1, (32, 64), readonly=False)
    assert not left.overlaps(right)
    assert left.overlaps(shard(2, (31, 33), readonly=False))
    assert right.overlaps(Shard(3, False, KEY_MIN, KEY_MAX))


def test_a_split_shard_is_the_parent_of_both_halves() -> None:
    history = History(2)
    history.split(0)
    assert parents(history.listed()) == {0: set(), 1: set(), 2: {0}, 3: {0}}


def test_both_merged_shards_are_parents() -> None:
    history = History(2)
    history.merge(0)
    assert parents(history.listed()) == {0: set(), 1: set(), 2: {0, 1}}


def test_a_grandparent_is_an_ancestor_but_no_parent() -> None:
    history = History()
    history.split(0)
    history.split(1)
    history.merge(4)
    assert parents(history.listed())[3] == {1}
    assert parents(history.listed())[5] == {2, 4}
    assert ancestors(history.listed())[5] == {0, 1, 2, 4}


def test_split_then_merge_back_hides_the_first_shard_behind_both_halves() -> None:
    history = History()
    history.split(0)
    history.merge(1)
    assert parents(history.listed())[3] == {1, 2}
    assert ancestors(history.listed())[3] == {0, 1, 2}


def test_a_grandparent_takes_the_place_of_a_parent_that_retention_removed() -> None:
    history = History()
    history.split(0)
    history.merge(1)
    left = [s for s in history.listed() if s.id != 1]
    assert parents(left)[3] == {0, 2}


def test_a_child_listed_before_its_parent_turned_read_only_waits_all_the_same() -> None:
    listed = [shard(0, (0, 64), readonly=False), shard(1, (0, 32), readonly=False)]
    assert parents(listed)[1] == {0}


def test_shards_side_by_side_are_no_relations() -> None:
    assert set(parents(History(4).listed()).values()) == {frozenset()}


def test_order_of_the_listing_does_not_matter() -> None:
    history = History(2)
    history.split(1)
    history.merge(0)
    assert parents(reversed(history.listed())) == parents(history.listed())


@settings(max_examples=100, deadline=None, database=None)
@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 99)), max_size=12))
def test_inferred_lineage_is_what_happened(shards: int, moves: list[tuple[bool, int]]) -> None:
    history = History(shards)
    for split, pick in moves:
        number = history.live[pick % len(history.live)]
        history.split(number) if split else history.merge(number)
    assert parents(history.listed()) == history.truth
    assert are_whole(history.listed())
    for lacking in history.listed():
        assert are_whole(s for s in history.listed() if s.id != lacking.id) is lacking.readonly
    above = ancestors(history.listed())
    for child, direct in history.truth.items():
        assert above[child] == direct.union(*(above[p] for p in direct))


EDGES = {
    (S.WAIT, E.ANCESTORS_OVER): S.NOT_ALLOC,
    (S.NOT_ALLOC, E.ASSIGNED): S.ALREADY_ALLOC,
    (S.ALREADY_ALLOC, E.HOLDER_LOST): S.NOT_ALLOC,
    (S.ALREADY_ALLOC, E.REBALANCED): S.TRANSFER,
    (S.ALREADY_ALLOC, E.FINISHED): S.OVER,
    (S.TRANSFER, E.RELEASED): S.ALREADY_ALLOC,
    (S.TRANSFER, E.TAKER_LOST): S.ALREADY_ALLOC,
    (S.TRANSFER, E.HOLDER_LOST): S.NOT_ALLOC,
    (S.OVER, E.FORCED): S.NOT_ALLOC,
}
"""The nine edges of the vendor's picture, written a second time so that a slip shows."""


@pytest.mark.parametrize(("state", "event"), list(product(S, E)), ids=str)
def test_a_shard_moves_along_the_nine_edges_and_no_other(state: ShardState, event: ShardEvent) -> None:
    target = EDGES.get((state, event))
    if target is None:
        with pytest.raises(InvariantBroken, match=f"no move from {state} on {event}"):
            next_state(state, event)
    else:
        assert next_state(state, event) is target


def test_the_table_has_nine_edges() -> None:
    assert dict(TRANSITIONS) == EDGES
    assert len(EDGES) == 9


@pytest.mark.parametrize(
    ("ordered", "ancestors_over", "state"),
    [
        (True, False, S.WAIT),
        (True, True, S.NOT_ALLOC),
        (False, False, S.NOT_ALLOC),
        (False, True, S.NOT_ALLOC),
    ],
)
def test_only_an_ordered_group_makes_a_child_wait(
    ordered: bool, ancestors_over: bool, state: ShardState
) -> None:
    assert initial_state(ordered=ordered, ancestors_over=ancestors_over) is state
