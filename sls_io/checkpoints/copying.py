"""Positions copied from A to B: what differs, and what a copy would do. Values in, values out.

Where the positions come from does not matter: a ledger, a group, a store, a file, an edge or a time of each
shard. The copy itself is the target's own: `written` below, a group's as its only member (`moving.py`), a
table's as one commit. A copy that goes forward only can be run on a schedule: nothing goes back, and what a
person froze stays. Any other copy puts the target where the source is, back or forth.

    behind   the target is before the source, or has not begun      it goes forward
    back     the target is further                                  it goes back
    ahead    the same, where a copy goes forward only               it stays
    equal    both are at one cursor                                 it stays
    frozen   a person put it there, and no reader has begun yet     it stays, where a copy goes forward only
    empty    the source has no cursor of it                         it stays
    extra    only the target knows the shard                        it stays, or is dropped
    gone     the service has no such shard any more                 it stays
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from sls_io.checkpoints.policy import OutsidePolicy, Place, settled
from sls_io.checkpoints.store import CheckpointStore, Kept, Written
from sls_io.values.shard import Head, ancestors
from sls_io.values.window import Cursor

Positions = Mapping[int, Cursor | None]
"""By shard; None where the shard is known and has no cursor."""

Difference = Literal["behind", "back", "ahead", "equal", "frozen", "empty", "extra", "gone"]


@dataclass(frozen=True, slots=True)
class Move:
    """One shard: `checkpoint` is where the target is, `cursor` where the source is, a policy having been
    asked; `place` is where that lay before. `reopens`: the target had finished it, and its children
    `children` are read already."""

    shard: int
    checkpoint: Cursor | None
    cursor: Cursor | None
    difference: Difference
    place: Place = "inside"
    reopens: bool = False
    children: tuple[int, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether the target changes."""
        return self.difference in ("behind", "back")


def copy(
    source: Positions,
    target: Mapping[int, Kept],
    heads: Mapping[int, Head],
    *,
    forward_only: bool = False,
    outside: OutsidePolicy | None = None,
    shards: Collection[int] = (),
) -> tuple[Move, ...]:
    """Every shard that anybody knows, or these `shards`, in order.

    `heads` are the shards that the service lists, none where nobody asked. `outside`: what becomes of a
    source that does not lie in its shard; None copies it as it stands. Raises CheckpointOutside as it says.
    """
    known = {*source, *target, *heads}
    return tuple(
        _one(shard, source, target.get(shard), heads, forward_only, outside)
        for shard in sorted(known & set(shards) if shards else known)
    )


def written(
    target: CheckpointStore, moves: Iterable[Move], *, forward_only: bool = False, drop: bool = False
) -> tuple[Written, ...]:
    """Do it in a store; what became of each shard that moves. Unless the copy goes forward only these shards
    are frozen until a reader begins there. `drop`: the target forgets what only it knows."""
    moves = tuple(moves)
    cursors = {move.shard: move.cursor for move in moves if move.moves and move.cursor is not None}
    done = target.write(cursors) if forward_only else target.place(cursors)
    extra = {move.shard for move in moves if move.difference == "extra"} if drop else set()
    if extra:
        target.forget(extra)
    return done


def _one(
    shard: int,
    source: Positions,
    kept: Kept | None,
    heads: Mapping[int, Head],
    forward_only: bool,
    outside: OutsidePolicy | None,
) -> Move:
    """From what says most: only the target knows the shard; the source has no cursor; the service has no such
    shard. Only then is the source held against the shard, as `outside` says, and what comes of that against
    the target.

    Worked example: the service has [60, 100) of a shard, the target is at 50, the source at 40. With `begin`
    the source is 60, `expired`: the target is behind, and moves to 60. Without a policy it goes back to 40.
    """
    before, to, head = kept.cursor if kept else None, source.get(shard), heads.get(shard)
    if shard not in source and kept is not None:
        return Move(shard, before, None, "extra")
    if to is None:
        return Move(shard, before, None, "empty")
    if heads and head is None:
        return Move(shard, before, to, "gone")
    place: Place = "inside"
    if head is not None and outside is not None:
        start = settled(shard, to, begin=head.begin, end=head.end, policy=outside)
        to, place = start.cursor, start.place
    difference = _difference(before, to, frozen=bool(kept and kept.frozen), forward_only=forward_only)
    below = _below(head, before, to, heads) if difference == "back" else None
    return Move(shard, before, to, difference, place, below is not None, below or ())


def _difference(before: Cursor | None, to: Cursor, *, frozen: bool, forward_only: bool) -> Difference:
    """In the order of the head of this module: equal counts before frozen, since nothing would move."""
    if before == to:
        return "equal"
    if frozen and forward_only:
        return "frozen"
    if before is None or before < to:
        return "behind"
    return "ahead" if forward_only else "back"


def _below(
    head: Head | None, before: Cursor | None, to: Cursor, heads: Mapping[int, Head]
) -> tuple[int, ...] | None:
    """The children of a shard that the target had finished, and that it reads again; None for another.

    Its children were read because it was over. Read again, its logs come after theirs: a person is told
    first.
    """
    if head is None or before is None or not (head.shard.readonly and before >= head.end > to):
        return None
    lineage = ancestors(one.shard for one in heads.values())
    return tuple(sorted(other for other, above in lineage.items() if head.shard.id in above))
