"""Consumer groups of the emulator: every edge of the state table, balance, hand-over, fences."""

from collections.abc import Callable

import pytest

from sls_io.emulator.storage.groups import ConsumerGroup, Shape
from sls_io.emulator.storage.refusal import Refused
from sls_io.values.shard import TRANSITIONS, Shard, ShardEvent, ShardState, ancestors

S, E = ShardState, ShardEvent
TIMEOUT_S = 10
END = 100


def shape(version: int, *shards: Shard) -> Shape:
    """Shards of one logstore; a readonly one ends at END."""
    return Shape(version, ancestors(shards), {s.id: END if s.readonly else None for s in shards})


def plain(count: int) -> Shape:
    """Writable shards that have nothing to do with each other."""
    return shape(1, *(Shard(i, False, f"{i:032x}", f"{i + 1:032x}") for i in range(count)))


HALF = "8" + "0" * 31
BEFORE_SPLIT = shape(1, Shard(0, False))
AFTER_SPLIT = shape(2, Shard(0, True), Shard(1, False, end_key=HALF), Shard(2, False, begin_key=HALF))


class Walk:
    """A group, its time, and what one shard looked like before the last step."""

    def __init__(self, view: Shape, *, order: bool = True) -> None:
        self.group = ConsumerGroup("g", TIMEOUT_S, order)
        self.view, self.now = view, 0.0
        self.group.look(self.now, view)

    def beat(self, consumer: str, *claimed: int) -> list[int]:
        return self.group.heartbeat(consumer, claimed, self.now, self.view)

    def save(self, shard: int, cursor: int, consumer: str = "a", *, forced: bool = False) -> None:
        self.group.save(shard, cursor, consumer, forced=forced, now=self.now, shape=self.view)

    def look(self) -> None:
        self.group.look(self.now, self.view)

    def state(self, shard: int) -> ShardState:
        return self.group.slots[shard].state


def ancestors_over() -> tuple[Walk, int, Callable[[], object]]:
    walk = Walk(AFTER_SPLIT)
    walk.beat("a")
    return walk, 1, lambda: walk.save(0, END)


def assigned() -> tuple[Walk, int, Callable[[], object]]:
    walk = Walk(plain(1))
    return walk, 0, lambda: walk.beat("a")


def holder_lost() -> tuple[Walk, int, Callable[[], object]]:
    walk = Walk(plain(1))
    walk.beat("a")
    walk.now += TIMEOUT_S + 1
    return walk, 0, walk.look


def in_transfer() -> Walk:
    walk = Walk(plain(2))
    assert walk.beat("a") == [0, 1]
    walk.now += 5
    assert walk.beat("b") == []
    assert walk.group.slots[1].taker == "b"
    return walk


def rebalanced() -> tuple[Walk, int, Callable[[], object]]:
    walk = Walk(plain(2))
    walk.beat("a")
    return walk, 1, lambda: walk.beat("b")


def released() -> tuple[Walk, int, Callable[[], object]]:
    walk = in_transfer()
    return walk, 1, lambda: walk.beat("a", 0)


def taker_lost() -> tuple[Walk, int, Callable[[], object]]:
    walk = in_transfer()
    walk.now += TIMEOUT_S - 1
    walk.group.members["a"] = walk.now
    walk.now += 2
    return walk, 1, walk.look


def both_lost() -> tuple[Walk, int, Callable[[], object]]:
    walk = in_transfer()
    walk.now += 2 * TIMEOUT_S
    return walk, 1, walk.look


def finished() -> tuple[Walk, int, Callable[[], object]]:
    walk = Walk(AFTER_SPLIT)
    walk.beat("a")
    return walk, 0, lambda: walk.save(0, END)


def forced() -> tuple[Walk, int, Callable[[], object]]:
    walk, _, finish = finished()
    finish()
    return walk, 0, lambda: walk.save(0, END - 5, "somebody", forced=True)


EDGES = {
    (S.WAIT, E.ANCESTORS_OVER): ancestors_over,
    (S.NOT_ALLOC, E.ASSIGNED): assigned,
    (S.ALREADY_ALLOC, E.HOLDER_LOST): holder_lost,
    (S.ALREADY_ALLOC, E.REBALANCED): rebalanced,
    (S.TRANSFER, E.RELEASED): released,
    (S.TRANSFER, E.TAKER_LOST): taker_lost,
    (S.TRANSFER, E.HOLDER_LOST): both_lost,
    (S.OVER, E.FORCED): forced,
    (S.ALREADY_ALLOC, E.FINISHED): finished,
}


def test_the_walk_knows_every_edge_of_the_table() -> None:
    assert set(EDGES) == set(TRANSITIONS)


@pytest.mark.parametrize("edge", EDGES, ids=lambda e: f"{e[0]}-{e[1]}")
def test_a_group_walks_the_edge(edge: tuple[ShardState, ShardEvent]) -> None:
    walk, shard, step = EDGES[edge]()
    assert walk.state(shard) is edge[0]
    step()
    assert walk.state(shard) is TRANSITIONS[edge]


def test_a_shard_in_transfer_goes_to_its_taker_when_the_holder_falls_silent() -> None:
    walk = in_transfer()
    walk.now += TIMEOUT_S - 6
    assert walk.beat("b") == []
    walk.now += 2
    assert 1 in walk.beat("b")


def test_a_shard_still_listed_is_not_handed_over() -> None:
    walk = in_transfer()
    assert walk.beat("a", 0, 1) == [0]
    assert walk.beat("b") == []
    assert walk.beat("a", 0) == [0]
    assert walk.beat("b") == [1]


def test_a_shard_just_granted_may_be_missing_from_the_next_list() -> None:
    walk = Walk(plain(2))
    walk.beat("a")
    assert walk.beat("a") == [0, 1]


def test_claims_of_a_stale_holder_keep_nothing_from_the_new_one() -> None:
    walk = Walk(plain(1))
    walk.beat("a")
    walk.now += TIMEOUT_S + 1
    assert walk.beat("b") == [0]
    with pytest.raises(Refused) as refused:
        walk.beat("a", 0)
    assert (refused.value.status, refused.value.code) == (400, "NotExistConsumerWithBody")
    assert walk.beat("a") == []
    assert walk.beat("b", 0) == [0]


@pytest.mark.parametrize("members", [1, 2, 3, 5, 8])
def test_members_differ_by_at_most_one_shard(members: int) -> None:
    walk = Walk(plain(7))
    held: dict[str, list[int]] = {f"c{i}": [] for i in range(members)}
    for _ in range(4):
        for name, shards in list(held.items()):
            held[name] = walk.beat(name, *shards)
    counts = [len(shards) for shards in held.values()]
    assert sum(counts) == 7
    assert max(counts) - min(counts) <= 1
    assert sorted(s for shards in held.values() for s in shards) == list(range(7))


def test_children_and_grandchildren_wait_until_all_ancestors_are_over() -> None:
    left, right = Shard(1, True, end_key=HALF), Shard(2, True, begin_key=HALF)
    merged = shape(3, Shard(0, True), left, right, Shard(3, False))
    walk = Walk(merged)
    assert walk.beat("a") == [0]
    walk.save(0, END)
    assert walk.beat("a") == [1, 2]
    walk.save(1, END)
    assert walk.beat("a") == [2]
    walk.save(2, END)
    assert walk.beat("a") == [3]


def test_without_order_nothing_waits() -> None:
    assert Walk(AFTER_SPLIT, order=False).beat("a") == [0, 1, 2]


def test_turning_order_off_releases_the_shards_that_wait() -> None:
    walk = Walk(AFTER_SPLIT)
    assert walk.beat("a") == [0]
    walk.group.configure(timeout_s=None, order=False, now=walk.now, shape=walk.view)
    assert walk.beat("a") == [0, 1, 2]


def test_a_shard_drained_before_its_split_is_over_once_it_is_readonly() -> None:
    walk = Walk(BEFORE_SPLIT)
    walk.beat("a")
    walk.save(0, END)
    assert walk.state(0) is S.ALREADY_ALLOC
    walk.view = AFTER_SPLIT
    assert walk.beat("a", 0) == [1, 2]
    assert walk.state(0) is S.OVER


def test_an_ancestor_that_retention_took_counts_as_over() -> None:
    walk = Walk(AFTER_SPLIT)
    walk.beat("a")
    walk.view = shape(3, Shard(1, False, end_key=HALF), Shard(2, False, begin_key=HALF))
    assert walk.beat("a") == [1, 2]


def test_an_empty_readonly_shard_needs_a_checkpoint_too() -> None:
    walk = Walk(AFTER_SPLIT)
    assert walk.beat("a") == walk.beat("a", 0) == [0]


def test_a_shard_at_its_end_in_transfer_is_over_after_the_hand_over() -> None:
    walk = Walk(shape(1, Shard(0, True, end_key=HALF), Shard(1, True, begin_key=HALF)))
    walk.beat("a")
    walk.beat("b")
    moving = next(i for i, slot in walk.group.slots.items() if slot.state is S.TRANSFER)
    walk.save(moving, END)
    assert walk.state(moving) is S.TRANSFER
    walk.beat("a", 1 - moving)
    assert walk.state(moving) is S.OVER


@pytest.mark.parametrize(
    ("consumer", "status", "code"),
    [("b", 400, "ConsumerNotMatch"), ("nobody", 404, "ConsumerNotExist"), ("", 400, "ParameterInvalid")],
)
def test_only_the_holder_moves_a_checkpoint_unless_forced(consumer: str, status: int, code: str) -> None:
    walk = in_transfer()
    walk.save(0, 5)
    with pytest.raises(Refused) as refused:
        walk.save(0, 7, consumer)
    assert (refused.value.status, refused.value.code) == (status, code)
    assert walk.group.slots[0].checkpoint == 5
    walk.save(0, 7, consumer, forced=True)
    assert walk.group.slots[0].checkpoint == 7


def test_an_evicted_holder_cannot_save() -> None:
    walk = Walk(plain(1))
    walk.beat("a")
    walk.now += TIMEOUT_S + 1
    with pytest.raises(Refused, match="ConsumerNotExist"):
        walk.save(0, 5)


def test_a_checkpoint_of_a_finished_shard_may_be_repeated_by_who_sent_it() -> None:
    walk, _, finish = finished()
    finish()
    walk.save(0, END)
    with pytest.raises(Refused, match="ConsumerNotMatch"):
        walk.save(0, END - 1)


def test_a_checkpoint_of_an_unknown_shard_is_refused() -> None:
    walk = Walk(plain(1))
    walk.beat("a")
    with pytest.raises(Refused) as refused:
        walk.save(9, 5)
    assert (refused.value.status, refused.value.code) == (404, "ShardNotExist")


@pytest.mark.parametrize(
    ("assignor", "given"),
    [
        ("range", {"a": [0, 1, 2, 3], "b": [4, 5, 6], "c": [7, 8, 9]}),
        ("round_robin", {"a": [0, 3, 6, 9], "b": [1, 4, 7], "c": [2, 5, 8]}),
        # 5 to 9 are on their way to b when c comes, so b has most by then and keeps four of them.
        ("sticky", {"a": [0, 1, 2], "b": [5, 6, 7, 8], "c": [3, 4, 9]}),
    ],
)
def test_an_assignor_that_a_test_asks_for_shares_10_shards_among_3(
    assignor: str, given: dict[str, list[int]]
) -> None:
    walk = Walk(plain(10))
    walk.group.assignor = assignor
    held: dict[str, list[int]] = {name: [] for name in given}
    for _ in range(6):
        for name, shards in list(held.items()):
            held[name] = walk.beat(name, *shards)
    assert held == given
    walk.group = ConsumerGroup.from_doc(walk.group.doc(), walk.now)
    assert {name: walk.beat(name, *shards) for name, shards in held.items()} == given


def test_a_group_written_down_and_read_back_goes_on_with_the_same_members() -> None:
    walk = in_transfer()
    walk.save(0, 5)
    walk.group = ConsumerGroup.from_doc(walk.group.doc(), 1000.0)
    walk.now = 1000.0 + TIMEOUT_S
    assert walk.beat("a", 0, 1) == [0]
    assert walk.group.slots[0].checkpoint == 5
    assert not ConsumerGroup.from_doc(walk.group.doc(), walk.now).changed


def test_a_clock_set_back_keeps_members_no_longer_than_their_time_out() -> None:
    walk = Walk(plain(1))
    walk.now = 10_000.0
    walk.beat("a")
    walk.now = 0.0
    walk.look()
    walk.now = TIMEOUT_S + 1.0
    walk.look()
    assert not walk.group.members


def test_members_that_are_forgotten_let_every_shard_go_at_once() -> None:
    walk = Walk(plain(2))
    assert walk.beat("a") == [0, 1]
    walk.group.forget_members(walk.now, walk.view)
    assert walk.beat("b") == [0, 1]
