"""One store copied into another, forwards only: run it on a schedule, and a second place knows.

What differs is worked out from two readings, without I/O; the copy itself is the target's monotone write.
Nothing goes back: a target that is ahead stays, and is said. `clone` (store.py) is the copy that overwrites.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sls_io.checkpoints.store import CheckpointStore, Kept, Written
from sls_io.window import Cursor

Difference = Literal["behind", "equal", "ahead", "frozen", "empty", "extra"]
"""The target beside the source: behind, it is copied; equal; ahead, it stays; frozen, it stays; the source
has an entry and no cursor; only the target knows the shard."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One shard in both stores."""

    shard: int
    source: Cursor | None
    target: Cursor | None
    difference: Difference


def compared(source: Mapping[int, Kept], target: Mapping[int, Kept]) -> tuple[Compared, ...]:
    """Every shard that either knows, in order."""
    return tuple(_one(s, source.get(s), target.get(s)) for s in sorted({*source, *target}))


def mirror(
    source: CheckpointStore, target: CheckpointStore, *, drop: bool = False
) -> tuple[tuple[Compared, ...], tuple[Written, ...]]:
    """Copy what is behind, as it was compared; `drop`: the target forgets shards that the source has not.

    Raises when either cannot be read, or the target cannot be written at all.
    """
    had = source.read()
    found = compared(had, target.read())
    behind = {one.shard: one.source for one in found if one.difference == "behind" and one.source is not None}
    written = target.write(behind) if behind else ()
    if drop and any(one.difference == "extra" for one in found):
        target.drop(had)
    return found, written


def _one(shard: int, source: Kept | None, target: Kept | None) -> Compared:
    at = source.cursor if source else None
    there = target.cursor if target else None
    difference: Difference = "behind"
    if source is None:
        difference = "extra"
    elif at is None:
        difference = "empty"
    elif there == at:
        difference = "equal"
    elif target is not None and target.frozen:
        difference = "frozen"
    elif there is not None and there > at:
        difference = "ahead"
    return Compared(shard, at, there, difference)
