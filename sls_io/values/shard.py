"""Shards: what the service says of them, who their parents are, and their five group states.

Key ranges are 32 lower-case hex digits, half-open, and tile [00..00, ff..ff). A split or merge
makes new shards with the next unused ids and turns the old ones read-only; the service exposes
no parent ids, so lineage is inferred: a parent has a lower id and an overlapping key range.

The state of a shard inside a consumer group is a table, `TRANSITIONS`. An illegal move is a
missing key. Source: the vendor's consumer README ("finite state automaton"), its nine edges;
there is no edge from transfer to over.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sls_io.values.errors import InvariantBroken
from sls_io.values.window import Cursor

KEY_MIN = "0" * 32
KEY_MAX = "f" * 32


@dataclass(frozen=True, slots=True)
class Shard:
    """One entry of ListShards. `created_s` is unix seconds; `end_key` is exclusive."""

    id: int
    readonly: bool
    begin_key: str = KEY_MIN
    end_key: str = KEY_MAX
    created_s: int = 0

    def overlaps(self, other: "Shard") -> bool:
        """Whether the key ranges share a key."""
        return self.begin_key < other.end_key and other.begin_key < self.end_key


@dataclass(frozen=True, slots=True)
class Head:
    """What the service says of a shard now. `end` was read after `readonly` was seen."""

    shard: Shard
    begin: Cursor
    end: Cursor

    @property
    def readonly(self) -> bool:
        return self.shard.readonly


def parents(shards: Iterable[Shard]) -> Mapping[int, frozenset[int]]:
    """Nearest ancestors of each shard: lower id, overlapping keys, not hidden by a nearer one.

    Whether the parent is read-only already is not asked: a listing made in the middle of a split may
    show the child before it shows that, and the child has to wait all the same. A grandparent is left
    out when every key it shares with the child lies in a nearer parent.

    Worked example: 0 was split into 1 and 2, these were merged into 3. Shard 2 is nearest to 3, and so is 1,
    which has the other half of the keys. All keys that 0 shares with 3 lie in 1 or 2, so it is hidden: 3
    waits for 1 and 2, and they for 0.
    """
    ordered = sorted(shards, key=lambda s: s.id)
    result: dict[int, frozenset[int]] = {}
    for position, child in enumerate(ordered):
        near: list[Shard] = []
        for candidate in reversed(ordered[:position]):
            if candidate.overlaps(child) and not _covered(candidate, child, near):
                near.append(candidate)
        result[child.id] = frozenset(s.id for s in near)
    return result


def ancestors(shards: Iterable[Shard]) -> Mapping[int, frozenset[int]]:
    """All ancestors of each shard: parents, their parents, and so on.

    By ids upwards: a parent has a lower id, so what is above it is known when its child's turn comes.
    """
    direct = parents(shards)
    result: dict[int, frozenset[int]] = {}
    for shard in sorted(direct):
        above = direct[shard]
        result[shard] = above.union(*(result[p] for p in above)) if above else above
    return result


def are_whole(shards: Iterable[Shard]) -> bool:
    """Whether every key can be written into one of these shards, as it can in those of each logstore: a list
    that lacks an open one says so itself.

    Worked example: 0 is read-only and was split at 8000... into 1 and 2. A list of 0 and 1 alone has no place
    for the keys from 8000... on.
    """
    keys = Shard(-1, readonly=False)
    return _covered(keys, keys, [shard for shard in shards if not shard.readonly])


def _covered(candidate: Shard, child: Shard, near: list[Shard]) -> bool:
    """Whether every key that the two share lies in one of `near`. In order of their begins each range may
    close the hole at `begin`; a range that begins behind it leaves a hole, which no later one, beginning
    further on, closes."""
    begin, end = max(candidate.begin_key, child.begin_key), min(candidate.end_key, child.end_key)
    for shard in sorted(near, key=lambda s: s.begin_key):
        if shard.begin_key <= begin < shard.end_key:
            begin = shard.end_key
    return begin >= end


class ShardState(StrEnum):
    """The state of one shard in one consumer group."""

    WAIT = "wait"
    NOT_ALLOC = "not_alloc"
    ALREADY_ALLOC = "already_alloc"
    TRANSFER = "transfer"
    OVER = "over"


class ShardEvent(StrEnum):
    """What can happen to a shard in a group."""

    ANCESTORS_OVER = "ancestors_over"
    ASSIGNED = "assigned"
    HOLDER_LOST = "holder_lost"
    REBALANCED = "rebalanced"
    RELEASED = "released"
    TAKER_LOST = "taker_lost"
    FORCED = "forced"
    FINISHED = "finished"


TRANSITIONS: Mapping[tuple[ShardState, ShardEvent], ShardState] = {
    (ShardState.WAIT, ShardEvent.ANCESTORS_OVER): ShardState.NOT_ALLOC,
    (ShardState.NOT_ALLOC, ShardEvent.ASSIGNED): ShardState.ALREADY_ALLOC,
    (ShardState.ALREADY_ALLOC, ShardEvent.HOLDER_LOST): ShardState.NOT_ALLOC,
    (ShardState.ALREADY_ALLOC, ShardEvent.REBALANCED): ShardState.TRANSFER,
    (ShardState.TRANSFER, ShardEvent.RELEASED): ShardState.ALREADY_ALLOC,
    (ShardState.TRANSFER, ShardEvent.TAKER_LOST): ShardState.ALREADY_ALLOC,
    (ShardState.TRANSFER, ShardEvent.HOLDER_LOST): ShardState.NOT_ALLOC,
    (ShardState.OVER, ShardEvent.FORCED): ShardState.NOT_ALLOC,
    (ShardState.ALREADY_ALLOC, ShardEvent.FINISHED): ShardState.OVER,
}


def initial_state(*, ordered: bool, ancestors_over: bool) -> ShardState:
    """Where a new shard begins: it waits only in an ordered group with an unfinished ancestor."""
    return ShardState.WAIT if ordered and not ancestors_over else ShardState.NOT_ALLOC


def next_state(state: ShardState, event: ShardEvent) -> ShardState:
    """The state after `event`. Raises InvariantBroken for a move that is not in the table.

    Of 40 pairs of state and event nine are moves. WAIT has one way out, its ancestors; OVER has one, a
    checkpoint that is forced to before the end.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvariantBroken(f"no move from {state} on {event}") from None
