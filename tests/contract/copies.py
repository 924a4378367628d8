"""One store copied to another, as the command line does it."""

from sls_io.checkpoints.copying import Move, copy, written
from sls_io.checkpoints.store import CheckpointStore, Written


def copied(
    source: CheckpointStore, target: CheckpointStore, *, forward_only: bool = False, drop: bool = False
) -> tuple[tuple[Move, ...], tuple[Written, ...]]:
    """What differed, and what became of each shard that moved."""
    positions = {shard: kept.cursor for shard, kept in source.read().items()}
    moves = copy(positions, target.read(), {}, forward_only=forward_only)
    return moves, written(target, moves, forward_only=forward_only, drop=drop)
