"""The shards of a run: claimed, renewed beside the work, their checkpoints published, let go.

A live run holds shards as the settings `shards` and `coordinator` say; a fill run reads what it names and
holds nothing.

A claim is renewed on a thread of its own, and checkpoints are sent side by side; this class is used by the
run's thread alone. What the run asks is `valid`: a claim that was lost turns work into waste, and never into
a wrong row, since the fence is in the commit.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from pipelines.landing.coordinators import check_unheld, coordinator_of
from pipelines.landing.ledger.epochs import Fenced
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.protocol import PublishCheckpoints
from pipelines.landing.run.report import CheckpointOutcome, CheckpointReport
from sls_io.coordination.coordinator import Coordinator
from sls_io.coordination.renewal import Renewal
from sls_io.coordination.server_group import ServerGroup
from sls_io.coordination.static import Static
from sls_io.values.claim import Claim
from sls_io.values.clock import Clock
from sls_io.values.errors import InvariantBroken, SlsError
from sls_io.values.settings import Budget
from sls_io.values.side_by_side import side_by_side
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient

_PUT_OFF = CheckpointOutcome.PUT_OFF
_ROUNDS_MAX = 3


def work_max_s(budget: Budget) -> int:
    """Seconds after which a live run hangs: well over its budget, since a run in its budget must never be
    cut, and short enough that a hung one does not keep its shards."""
    return int(2 * budget.seconds_max + 120)


@dataclass(frozen=True)
class Now:
    """What the table says at this moment: the held shards' frontiers, and why this run may publish none."""

    wanted: PublishCheckpoints
    fenced: Fenced | None = None


class Holding:
    """What a run holds now; nothing before `claim` and after `release`. `lost` hears, from another thread,
    why the claim went away; `warn` a sentence for the operator. `known_as` says by which id the leases
    have the logstore, as `leased_as` does."""

    def __init__(
        self,
        logstore: Logstore,
        *,
        clock: Clock,
        lost: Callable[[str], None],
        warn: Callable[[str], None],
        known_as: Callable[[], str],
    ) -> None:
        self._known_as = known_as
        self._logstore, self._clock, self._lost, self._warn = logstore, clock, lost, warn
        self._client: SlsClient | None = None
        self._coordinator: Coordinator | None = None
        self._weigh: Callable[[Mapping[int, int]], None] | None = None
        self._renewal: Renewal | None = None

    def claim(self) -> Claim:
        """Claim shards of the logstore; they are renewed until they are let go, or until the run has worked
        for so long since this claim that it must hang. Shards held before are let go first.

        Raises as `Coordinator.claim` does, and ClaimLost where others hold shards that the settings name.

        Worked example: with a `budget.seconds_max` of 240 heartbeats end 600 s after the claim. A run that
        hangs in somebody's function has lost its shards a group timeout later, and the next run gets them.
        """
        self.release()
        logstore = self._logstore
        self._client = SlsClient(logstore.service, clock=self._clock)
        known_as = self._known_as()
        check_unheld(logstore, self._client, self._clock, known_as=known_as)
        self._coordinator = members = coordinator_of(logstore, self._client, self._clock, known_as=known_as)
        if logstore.coordinator.weighs and not isinstance(members, ServerGroup | Static):
            self._weigh = members.weigh
        claim = members.claim()
        for line in members.drift if isinstance(members, ServerGroup) else ():
            self._warn(f"{line}: the group keeps its own, since other members rely on it")
        # Of each claim: what claims again goes on, as a process does that was stopped for days.
        until_s = self._clock.monotonic() + work_max_s(logstore.budget)
        self._renewal = Renewal(self._coordinator, claim, clock=self._clock, lost=self._lost, until_s=until_s)
        self._renewal.start()
        return claim

    def take(self, shards: Iterable[int]) -> Claim:
        """Hold these shards to read only: no group is asked, and no other member is told."""
        self.release()
        self._coordinator = Static(shards)
        return self._coordinator.claim()

    @property
    def valid(self) -> bool:
        """Whether the work still counts: the claim stands, or nothing had to be claimed."""
        return self._renewal is None or self._renewal.valid

    def checkpoints(self) -> Mapping[int, Cursor | None]:
        """The published cursor of every shard. Raises as `Coordinator.checkpoints` does."""
        return self._held.checkpoints()

    @property
    def _held(self) -> Coordinator:
        if self._coordinator is None:
            raise InvariantBroken("checkpoints without a claim")
        return self._coordinator

    def publish(self, wanted: PublishCheckpoints, now: Callable[[], Now]) -> tuple[CheckpointReport, ...]:
        """Publish a frontier for each shard; what became of each. One shard's failure stops no other.

        `now` says what the table says, before the first is sent and after the last; a run that has nothing to
        send does not ask. Story: A has landed up to 50 and is paused; B, with the same holder's name, lands
        and publishes 100. A wakes, and the service would take 50, because the name is right. What is on its
        way at that moment nobody calls back, so A looks again afterwards, and sends 100 itself.

        At most three rounds: each is needed only where another run landed while the last one was sent.

        Worked example: this run sends 50 for shard 0. Behind it the table says 100: another run landed and
        published 100, and 50 may have come after that. So 100 is sent once more; the table still says 100,
        and it ends.
        """
        coordinator = self._held
        if isinstance(coordinator, Static):
            return ()  # nobody keeps a checkpoint for it: the table has the position
        try:
            known = dict(coordinator.checkpoints())
            if not _to_send(wanted, known):
                return tuple(_unchanged(s, c) for s, c in sorted(wanted.frontiers.items()))
            table = now()
        except SlsError as error:
            return _put_off(wanted, str(error))
        if table.fenced is not None:
            return _put_off(wanted, table.fenced)
        reports: dict[int, CheckpointReport] = {}
        sending = table.wanted
        for _ in range(_ROUNDS_MAX):
            shards = _to_send(sending, known)
            for shard in sending.frontiers.keys() - shards:
                reports.setdefault(shard, _unchanged(shard, sending.frontiers[shard]))
            send = partial(self._publish, coordinator, sending.frontiers)
            reports |= {report.shard: report for report in side_by_side(send, sorted(shards))}
            known |= {shard: sending.frontiers[shard] for shard in shards}
            sent = {s for s in shards if reports[s].outcome is CheckpointOutcome.MOVED}
            newer = _moved_on(sending, sent, now) if sent else {}
            if not newer:
                break
            sending = PublishCheckpoints(newer, frozenset())
        return tuple(reports[shard] for shard in sorted(reports))

    def _publish(
        self, coordinator: Coordinator, frontiers: Mapping[int, Cursor], shard: int
    ) -> CheckpointReport:
        cursor = frontiers[shard]
        if not self.valid:
            return CheckpointReport(shard, cursor, _PUT_OFF, "the claim was lost")
        try:
            published = coordinator.checkpoint(shard, cursor)
        except SlsError as error:
            # The landing stands without it; the next run repairs the checkpoint from the table.
            return CheckpointReport(shard, cursor, _PUT_OFF, str(error))
        moved = CheckpointOutcome.MOVED if published == "sent" else CheckpointOutcome.AHEAD
        return CheckpointReport(shard, cursor, moved)

    def weigh(self, measured: Callable[[], Mapping[int, int]]) -> None:
        """Let whoever shares shards by weight know what they weigh; asked only where there is one."""
        if self._weigh is not None:
            self._weigh(measured())

    def release(self) -> None:
        """Let go of everything. Never raises for a service out of reach.

        Twice does no harm. In this order: heartbeats end, else one of them would take the shards back; the
        shards are let go; the client closes, by which they were.
        """
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal = None
        if self._coordinator is not None:
            coordinator, self._coordinator, self._weigh = self._coordinator, None, None
            coordinator.release()
        if self._client is not None:
            self._client.close()
            self._client = None


def _to_send(wanted: PublishCheckpoints, known: Mapping[int, Cursor | None]) -> frozenset[int]:
    """A closed shard's checkpoint is sent even when unchanged: only then does the service look whether a
    read-only shard is over, and lets its children go."""
    return frozenset(s for s, c in wanted.frontiers.items() if known.get(s) != c or s in wanted.closed)


def _moved_on(
    sent: PublishCheckpoints, shards: Iterable[int], now: Callable[[], Now]
) -> Mapping[int, Cursor]:
    """The frontiers of these shards that are not what was sent any more; none where nobody can say."""
    try:
        frontiers = now().wanted.frontiers
    except SlsError:
        return {}
    return {s: frontiers[s] for s in shards if s in frontiers and frontiers[s] > sent.frontiers[s]}


def _unchanged(shard: int, cursor: Cursor) -> CheckpointReport:
    return CheckpointReport(shard, cursor, CheckpointOutcome.UNCHANGED)


def _put_off(wanted: PublishCheckpoints, why: str) -> tuple[CheckpointReport, ...]:
    return tuple(CheckpointReport(s, c, _PUT_OFF, why) for s, c in sorted(wanted.frontiers.items()))
