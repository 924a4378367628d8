"""How far a reader is behind, shard by shard: what the service says of the places it has got to.

Seconds are those since the oldest log that waits was received. LogGroups can only be bounded: cursors rise
by one with each group and may jump, so their distance is the most that can wait, and never less.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sls_io.checkpoints.policy import Place, place_of
from sls_io.values.errors import CursorExpired, ShardGone
from sls_io.values.shard import Shard, ShardState, ancestors
from sls_io.values.side_by_side import side_by_side
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient
from sls_io.wire.heads import Heads


@dataclass(frozen=True, slots=True)
class ShardLag:
    """One listed shard and the place `at` of a reader, None where it has none.

    `received_s`: receive time of the log at `at`, unix seconds; None at the end, and where retention has
    taken it. `lag_s`, `groups_max`: 0 at the end; counted from the begin where `at` is before it or None.
    """

    shard: int
    readonly: bool
    begin: Cursor
    end: Cursor
    at: Cursor | None
    place: Place
    received_s: int | None
    lag_s: float
    groups_max: int

    @property
    def drained(self) -> bool:
        """Read-only, and read to its end."""
        return self.readonly and self.at is not None and self.at >= self.end


def lags(
    client: SlsClient, places: Mapping[int, Cursor | None], *, heads: Heads | None = None
) -> tuple[ShardLag, ...]:
    """Every listed shard in order; one that retention takes meanwhile is left out. `heads`: what was asked
    already."""
    shards = client.shards()
    now_s = client.now_s()
    asked = heads or Heads(client)
    found = side_by_side(lambda shard: _lag(client, asked, shard, places.get(shard.id), now_s), shards)
    return tuple(one for one in found if one is not None)


def states(
    found: Iterable[ShardLag], shards: Iterable[Shard], holders: Mapping[int, str], *, order: bool
) -> Mapping[int, ShardState]:
    """The state of each shard in a group, as far as it shows: the service tells nobody.

    A shard with a holder may also be on its way to another one, which looks the same from outside.

    What is drained and held by nobody is over; what is held is held; of the rest a shard waits in an ordered
    group while an ancestor of it is not over.
    """
    above = ancestors(shards)
    drained = {one.shard: one.drained for one in found}
    over = {shard for shard, done in drained.items() if done and not holders.get(shard)}
    return {
        shard: ShardState.OVER
        if shard in over
        else ShardState.ALREADY_ALLOC
        if holders.get(shard)
        else ShardState.WAIT
        if order and not above.get(shard, frozenset()) <= over
        else ShardState.NOT_ALLOC
        for shard in drained
    }


class GroupState(StrEnum):
    """A consumer group in the words of Kafka's tools."""

    STABLE = "Stable"
    """Each shard that can be read has a holder."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Somebody holds shards, and another shard is free or on its way."""
    EMPTY = "Empty"
    """Nobody holds a shard."""
    DEAD = "Dead"
    """It is not there."""


def group_state(found: Mapping[int, ShardState]) -> GroupState:
    """Of a group that is there, by the `states` of its shards: those that wait or are over hold up nothing.

    Worked example: shard 0 is over, 1 and 2 are its children. One held and one free is a rebalance; both held
    is stable.
    """
    there = set(found.values())
    if not there & {ShardState.ALREADY_ALLOC, ShardState.TRANSFER}:
        return GroupState.EMPTY
    moves = there & {ShardState.NOT_ALLOC, ShardState.TRANSFER}
    return GroupState.PREPARING_REBALANCE if moves else GroupState.STABLE


def _lag(client: SlsClient, heads: Heads, shard: Shard, at: Cursor | None, now_s: float) -> ShardLag | None:
    """Worked example: the service has [100, 150), the reader is at 90: it is `expired`, at most 50 groups
    wait, and its lag is the age of the group at 100."""
    try:
        head = heads.head(shard)
        counted = head.begin if at is None else max(at, head.begin)
        oldest_s = None if counted >= head.end else _waits_since_s(client, heads, shard.id, counted)
    except ShardGone:
        return None
    place = "inside" if at is None else place_of(at, head.begin, head.end)
    return ShardLag(
        shard=shard.id,
        readonly=shard.readonly,
        begin=head.begin,
        end=head.end,
        at=at,
        place=place,
        received_s=oldest_s if at is not None and place == "inside" else None,
        lag_s=0.0 if oldest_s is None else max(0.0, now_s - oldest_s),
        groups_max=max(0, head.end - counted),
    )


def _waits_since_s(client: SlsClient, heads: Heads, shard: int, at: Cursor) -> int | None:
    try:
        return heads.cursor_time_s(shard, at)
    except CursorExpired:
        return client.waits_since_s(shard, at)
