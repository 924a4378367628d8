"""The service's checkpoints, made again from the table.

A checkpoint is derived: what has landed is in the ledger, and nothing plans from a checkpoint. It
matters to people who watch the group's lag and to the service, which ends a read-only shard only when
its checkpoint is at the end. Every live run does the same after its landing; this is for when none
runs. It is owner-checked like there: shards are claimed, nothing is forced, nothing moves back.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial

from pipelines.landing.coordinators import coordinator_of
from pipelines.landing.inspection.describe import describe, read_ledger
from pipelines.landing.ledger.newest_landing import check_adds_up
from pipelines.landing.ledger.start import leased_as
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import CheckpointOutcome, CheckpointReport
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints.copying import Move, copy
from sls_io.checkpoints.store import Kept
from sls_io.coordination.coordinator import Coordinator
from sls_io.values.claim import CURSOR_UNKNOWN
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ConfigError, SlsError
from sls_io.values.side_by_side import side_by_side
from sls_io.wire.client import SlsClient


def plan_repair(
    logstore: Logstore, lake: Lake, client: SlsClient, *, shards: Collection[int] = ()
) -> tuple[Move, ...]:
    """The ledger copied to the group, forwards, of all its shards or of these `shards`. Changes nothing.

    Raises LedgerBroken when the newest landing does not add up, ConfigError when nothing has landed, or the
    settings name shards: the checkpoints of the group are of others then.
    """
    if logstore.shards is not None:
        raise ConfigError(
            "the settings name `shards`, so landings publish no checkpoint: the table has the position, and "
            f"what group {logstore.group.name!r} keeps is of whoever reads with it"
        )
    table = lake.load(logstore.table)
    if table is not None:
        check_adds_up(table, "no checkpoint was moved")
    found = describe(logstore, lake, client)
    # After the checkpoints that these are held against, see `describe`.
    ledger = read_ledger(logstore, lake, client)
    if not ledger.started:
        raise ConfigError(f"nothing has landed in {logstore.table} yet, so no checkpoint follows from it")
    views = {view.shard: view for view in found if view.shard in ledger.shards}
    frontiers = {shard: ledger.shards[shard].frontier for shard in views}
    kept = {shard: Kept(view.checkpoint) for shard, view in views.items()}
    gone = {
        shard
        for shard, view in views.items()
        if view.status == "gone" or ledger.shards[shard].end == CURSOR_UNKNOWN
    }
    moves = copy(frontiers, kept, {}, forward_only=True, shards=shards)
    return tuple(replace(move, difference="gone") if move.shard in gone else move for move in moves)


def execute_repair(
    logstore: Logstore, lake: Lake, client: SlsClient, moves: Iterable[Move], *, clock: Clock = SYSTEM_CLOCK
) -> list[CheckpointReport]:
    """Claim the group's shards and publish the frontiers of `moves`; what became of each.

    Raises ClaimLost when others hold all shards: their own landings publish checkpoints.
    """
    group = coordinator_of(logstore, client, clock, known_as=leased_as(lake, logstore, client))
    claim = group.claim()
    try:
        return list(side_by_side(partial(_published, group, claim.shards), moves))
    finally:
        group.release()


def _published(group: Coordinator, held: Collection[int], move: Move) -> CheckpointReport:
    """What became of it.

    Worked example: the ledger has shard 0 at 500, shard 1 at 300 and shard 2 at 70; the group keeps 400, 350
    and 70. Shard 0 moves, or is `not held` while others have it. Shard 1 is `ahead` and stays: never
    backwards. Shard 2 is sent again where it is held, and is `unchanged` either way.
    """
    if move.cursor is None or move.difference in ("gone", "ahead"):
        return CheckpointReport(move.shard, move.cursor or 0, CheckpointOutcome(move.difference))
    same = move.difference == "equal"
    if move.shard not in held:
        # Over for good, or somebody else's: it publishes by itself, or has nothing more to publish.
        kept_by_others = CheckpointOutcome.UNCHANGED if same else CheckpointOutcome.NOT_HELD
        return CheckpointReport(move.shard, move.cursor, kept_by_others)
    try:
        # An equal one is sent again: only then does the service see that a read-only shard is over.
        published = group.checkpoint(move.shard, move.cursor)
    except SlsError as error:
        return CheckpointReport(move.shard, move.cursor, CheckpointOutcome.PUT_OFF, str(error))
    if published == "ahead":
        return CheckpointReport(move.shard, move.cursor, CheckpointOutcome.AHEAD)
    moved = CheckpointOutcome.UNCHANGED if same else CheckpointOutcome.MOVED
    return CheckpointReport(move.shard, move.cursor, moved)
