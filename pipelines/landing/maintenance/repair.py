"""The service's checkpoints, made again from the table.

A checkpoint is derived: what has landed is in the ledger, and nothing plans from a checkpoint. It
matters to people who watch the group's lag and to the service, which ends a read-only shard only when
its checkpoint is at the end. Every live run does the same after its landing; this is for when none
runs. It is owner-checked like there: shards are claimed, nothing is forced, nothing moves back.
"""

from dataclasses import dataclass, replace

from pipelines.landing.coordinators import coordinator_of
from pipelines.landing.inspection.describe import describe, read_ledger
from pipelines.landing.ledger.state import check_adds_up
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import CheckpointOutcome, CheckpointReport
from pipelines.landing.table.lake import Lake
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.coordination.coordinator import Coordinator
from sls_io.errors import ConfigError, SlsError
from sls_io.planning import CURSOR_UNKNOWN
from sls_io.window import Cursor


@dataclass(frozen=True)
class Point:
    """One shard's checkpoint beside its frontier, what would become of it or has, and why it was put off."""

    shard: int
    checkpoint: Cursor | None
    frontier: Cursor
    outcome: CheckpointOutcome
    why: str = ""

    @property
    def report(self) -> CheckpointReport:
        """The same as a run tells it."""
        return CheckpointReport(self.shard, self.frontier, self.outcome, self.why)


def plan_repair(logstore: Logstore, lake: Lake, client: SlsClient) -> list[Point]:
    """Every shard of the ledger. Raises LedgerBroken when the newest landing does not add up,
    ConfigError when nothing has landed; changes nothing."""
    table = lake.load(logstore.table)
    if table is not None:
        check_adds_up(table, "no checkpoint was moved")
    ledger = read_ledger(logstore, lake, client)
    if not ledger.started:
        raise ConfigError(f"nothing has landed in {logstore.table} yet, so no checkpoint follows from it")
    points = []
    for view in describe(logstore, lake, client):
        entry = ledger.shards.get(view.shard)
        if entry is None:
            continue
        if view.status == "gone" or entry.end == CURSOR_UNKNOWN:
            outcome = CheckpointOutcome.GONE
        elif view.checkpoint is None or view.checkpoint < entry.frontier:
            outcome = CheckpointOutcome.BEHIND
        else:
            equal = view.checkpoint == entry.frontier
            outcome = CheckpointOutcome.EQUAL if equal else CheckpointOutcome.AHEAD
        points.append(Point(view.shard, view.checkpoint, entry.frontier, outcome))
    return points


def execute_repair(
    logstore: Logstore, client: SlsClient, points: list[Point], *, clock: Clock = SYSTEM_CLOCK
) -> list[Point]:
    """Claim the group's shards and publish the frontiers of `points`; what became of each.

    Raises ClaimLost when others hold all shards: their own landings publish checkpoints.
    """
    group = coordinator_of(logstore, client, clock)
    claim = group.claim()
    try:
        return [_published(group, point, held=point.shard in claim.shards) for point in points]
    finally:
        group.release()


def _published(group: Coordinator, point: Point, *, held: bool) -> Point:
    """What became of it."""
    if point.outcome in (CheckpointOutcome.GONE, CheckpointOutcome.AHEAD):
        return point
    same = point.outcome is CheckpointOutcome.EQUAL
    if not held:
        # Over for good, or somebody else's: it publishes by itself, or has nothing more to publish.
        kept_by_others = CheckpointOutcome.UNCHANGED if same else CheckpointOutcome.NOT_HELD
        return replace(point, outcome=kept_by_others)
    try:
        # An equal one is sent again: only then does the service see that a read-only shard is over.
        published = group.checkpoint(point.shard, point.frontier)
    except SlsError as error:
        return replace(point, outcome=CheckpointOutcome.PUT_OFF, why=str(error))
    if published == "ahead":
        return replace(point, outcome=CheckpointOutcome.AHEAD)
    return replace(point, outcome=CheckpointOutcome.UNCHANGED if same else CheckpointOutcome.MOVED)
