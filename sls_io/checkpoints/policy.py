"""Where a reader begins when a kept checkpoint does not lie in its shard. Values in, values out.

    before the begin   retention took [checkpoint, begin) unread
    behind the end     the store is of another logstore, or that was made again

    stop    nothing is decided: CheckpointOutside (default)
    begin   from the oldest log that is there; what retention took is skipped
    end     from now on; all that is there is skipped

A shard without a checkpoint is no such case: a first start has a policy of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sls_io.checkpoints.store import CheckpointStore
from sls_io.values.errors import CheckpointOutside
from sls_io.values.shard import Head
from sls_io.values.window import Cursor

OutsidePolicy = Literal["stop", "begin", "end"]
OUTSIDE_POLICIES: tuple[OutsidePolicy, ...] = ("stop", "begin", "end")
Place = Literal["inside", "expired", "beyond"]


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin, and where the checkpoint lay; `moved_from` is the checkpoint that was not taken."""

    cursor: Cursor
    place: Place
    moved_from: Cursor | None = None


def place_of(cursor: Cursor, begin: Cursor, end: Cursor) -> Place:
    """Where a cursor lies; both edges are inside."""
    if cursor < begin:
        return "expired"
    return "beyond" if cursor > end else "inside"


def settled(
    shard: int, cursor: Cursor, *, begin: Cursor, end: Cursor, policy: OutsidePolicy = "stop"
) -> Start:
    """Where to begin in `shard`, kept at `cursor`, of which the service has [begin, end).

    Raises CheckpointOutside under the policy `stop`.
    """
    place = place_of(cursor, begin, end)
    if place == "inside":
        return Start(cursor, place)
    if policy == "stop":
        what = (
            f"before its begin {begin}: retention took what lies between"
            if place == "expired"
            else f"behind its end {end}: it is of another logstore, or that was made again"
        )
        raise CheckpointOutside(
            f"shard {shard}: the checkpoint {cursor} lies {what}. Say where to go on: from the begin, which "
            "skips what is gone, or from the end, which skips all that is there",
            shard=shard,
        )
    return Start(begin if policy == "begin" else end, place, cursor)


def begin(
    store: CheckpointStore, heads: Mapping[int, Head], *, policy: OutsidePolicy = "stop"
) -> Mapping[int, Start | None]:
    """Where a reader of these shards goes on, None for a shard without a checkpoint; thaws them.

    Raises CheckpointOutside before anything is thawed.
    """
    kept = store.read()
    starts: dict[int, Start | None] = {}
    for shard, head in heads.items():
        known = kept.get(shard)
        starts[shard] = (
            None
            if known is None or known.cursor is None
            else settled(shard, known.cursor, begin=head.begin, end=head.end, policy=policy)
        )
    store.thaw({shard: kept[shard].cursor for shard in heads if shard in kept and kept[shard].frozen})
    return starts
