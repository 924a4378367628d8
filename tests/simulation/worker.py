"""One run: carries out the effects of the production protocol against the simulated world.

`Worker.run` is a generator. Each `yield` is a place where others may act, time may pass or the worker
may be killed (the generator is dropped). `Habits` are deliberate bugs of a driver, for the mutants.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pipelines.landing.ledger import epochs
from pipelines.landing.ledger.epochs import Fenced
from pipelines.landing.ledger.values import Landed
from pipelines.landing.run import protocol
from sls_io.planning.values import PlannedWindow, Survey
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import CURSOR_UNKNOWN, Claim, Ledger
from sls_io.values.errors import ClaimLost, InvariantBroken, LandingUnknown, LedgerBroken, SlsError
from sls_io.values.settings import Budget
from sls_io.values.shard import Head
from sls_io.values.window import HOUR_S, Cursor, Window
from tests.simulation.checks import Checks
from tests.simulation.service import (
    Gone,
    Service,
    lied,
    model_survey_hours,
    model_survey_live,
    second_answers,
    shown_again,
    unlisted,
)
from tests.simulation.table import File, Request, Run, Table

SWEEP_FLOOR_S = 4 * HOUR_S
OUTAGE_S = 60.0
Doing = Generator[None, None, protocol.Event]


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong, 0..1 each."""

    reply_lost: float = 0.0
    request_lost: float = 0.0
    late: float = 0.0
    doubled: float = 0.0
    unreadable: float = 0.0
    stop_early: float = 0.0
    broken_page: float = 0.0
    steal: float = 0.0
    blind: float = 0.0


@dataclass(frozen=True)
class Habits:
    """Bugs a driver could have; none of them in production."""

    checkpoint_first: bool = False
    delete_on_refusal: bool = False
    rebase: bool = False
    append_after_rollback: bool = False
    end_before_status: bool = False
    no_proof: bool = False
    plan_from_checkpoint: bool = False
    forced_checkpoint_of_end: bool = False
    checkpoints_unfenced: bool = False


@dataclass
class World:
    """What workers share."""

    rng: Random
    service: Service
    table: Table
    checks: Checks
    faults: Faults
    habits: Habits
    on_the_way: list[Request]


class Worker:
    """A worker of the group; `hours` makes it a fill run of those receive hours."""

    def __init__(self, world: World, name: str, *, hours: range | None, budget: Budget, until_s: int) -> None:
        self.world, self.name, self.hours = world, name, hours
        self.ordered = True
        setting = protocol.Setting(
            live=hours is None, ordered=self.ordered, budget=budget, until_s=until_s, outage_s=OUTAGE_S
        )
        self.state = protocol.State(setting)
        self.base: tuple[int | None, int | None, int, int] = (None, None, 0, 0)
        self.files: dict[Window, File] = {}
        self.run_id, self.begun_s = world.table.next_id(), world.service.now_s
        self.as_run: Run | None = None
        self.early: dict[int, int] = {}
        self.outcome = ""

    def run(self) -> Iterator[None]:
        """One run from claim to release. The name of the error it ended with is in `outcome`."""
        try:
            self.state, queue = protocol.step(self.state, protocol.Begin())
            while queue:
                yield
                event = yield from _EXECUTORS[type(queue[0])](self, queue[0])
                yield
                self.state, more = protocol.step(self.state, event)
                queue = (*queue[1:], *more)
            self.outcome = "done"
        except InvariantBroken:
            raise
        except SlsError as error:
            self.outcome = type(error).__name__
        self.world.checks.saw(f"run ended: {self.outcome}")
        self._let_go()

    def _chance(self, rate: float) -> bool:
        return rate > 0 and self.world.rng.random() < rate

    def _let_go(self) -> None:
        owners = self.world.service.owners
        for shard in [s for s, holder in owners.items() if holder == self.name]:
            del owners[shard]

    # --- effects ---------------------------------------------------------------------------------

    def _claim(self, _: protocol.ClaimShards) -> Doing:
        service = self.world.service
        if self.hours is not None:
            return protocol.Claimed(Claim(self.name, frozenset(s.id for s in service.listed())))
        yield
        for shard in service.listed():
            free = shard.id not in service.owners
            if free or self._chance(self.world.faults.steal):
                service.owners[shard.id] = self.name
        mine = frozenset(s for s, holder in service.owners.items() if holder == self.name)
        if not mine:
            raise ClaimLost("others hold all shards")
        return protocol.Claimed(Claim(self.name, mine))

    def _claim_valid(self) -> bool:
        """What the worker believes: a paused one has not heard yet that its shards are gone."""
        claim = self.state.claim
        if self.hours is not None or claim is None or self._chance(self.world.faults.blind):
            return True
        owners = self.world.service.owners
        return all(owners.get(s, "") == self.name or s in self.world.service.removed for s in claim.shards)

    def _read(self, _: protocol.ReadLedger) -> Doing:
        yield
        self._look()
        self.files = {}
        self.early = {s.id: s.end for s in self.world.service.listed()}
        table = self.world.table
        if self.hours is None and self.as_run is None:
            epoch = epochs.taken(str(self.run_id), self.begun_s, table.epochs.get(self.name))
            seen = len(table.landings.get(self.name, ()))
            self.as_run = Run(self.run_id, self.name, self.begun_s, seen, epoch)
        return protocol.LedgerRead(table.ledger, self._fenced())

    def _fenced(self) -> Fenced | None:
        """As production's `Fencing.look`."""
        newest = self.world.table.epochs.get(self.name)
        if self.as_run is None or not self.as_run.epoch.fenced_by(newest):
            return None
        self.world.checks.saw("fenced")
        return Fenced.NEWER

    def _look(self) -> None:
        table = self.world.table
        if table.rolled_back and not self.world.habits.append_after_rollback:
            raise LedgerBroken("main no longer has the newest landing", cures=())
        self.base = (table.main, table.tag, table.schema, table.spec)

    def _starts(self, _: protocol.ResolveStart) -> Doing:
        shards = self.world.service.listed()
        yield
        latest = self.world.checks.latest
        return protocol.StartResolved({s.id: Cursor(s.end if latest else s.begin) for s in shards})

    def _survey(self, effect: protocol.SurveyShards) -> Doing:
        service = self.world.service
        early = self.early if self.world.habits.end_before_status else {}
        listed = tuple(s.value for s in service.listed())
        surveys: dict[int, Survey] = {}
        known = effect.ledger.shards
        for shard in listed:
            closed = shard.id in known and known[shard.id].closed
            if shard.id not in effect.claim.shards and self.hours is None and not closed:
                continue
            yield
            try:
                head = service.head(shard.id, readonly=shard.readonly)
            except Gone:
                surveys[shard.id] = Survey(shard.id, None)
                continue
            if shard.id in early:
                head = Head(head.shard, head.begin, Cursor(max(early[shard.id], head.begin)))
            if closed and self.hours is None:
                if not shown_again(head, effect.ledger):
                    continue
                self.world.checks.saw("shown again")
            surveys[shard.id] = self._survey_one(head, effect.ledger, opened=closed)
        if self.hours is not None:
            return protocol.Surveyed(listed, surveys, service.now_s)
        surveys |= unlisted(service, listed, effect.ledger)
        told = protocol.Surveyed(listed, surveys, service.now_s)
        return lied(told, effect.ledger, service.lies)

    def _survey_one(self, head: Head, ledger: Ledger, *, opened: bool) -> Survey:
        service, until_s = self.world.service, self.state.setting.until_s
        if self.hours is not None:
            return model_survey_hours(service, head, self.hours, until_s)
        if opened:
            ledger = ledger.with_shards({head.shard.id: ledger.shards[head.shard.id].opened_again()})
        frontier = ledger.shard(head.shard.id, begin=head.begin).frontier
        if self.world.habits.plan_from_checkpoint:
            frontier = Cursor(service.checkpoints.get(head.shard.id, frontier))
        survey = second_answers(model_survey_live(service, head, frontier, until_s), ledger)
        return replace(survey, opened=opened)

    def _write(self, effect: protocol.WriteWindows) -> Doing:
        landed: list[Landed] = []
        waits: dict[int, Wait] = {}
        for planned in effect.plan.windows:
            yield
            found = yield from self._write_one(planned)
            if found is None:
                waits[planned.window.shard] = Wait(Why.STOPPED, "stopped")
            else:
                landed.append(found)
        valid = self._claim_valid()
        return protocol.WindowsWritten(tuple(landed), waits, claim_valid=valid)

    def _write_one(self, planned: PlannedWindow) -> Generator[None, None, Landed | None]:
        """Two pages a window, time passing in between; the proof comes after the last page."""
        window, rng, faults = planned.window, self.world.rng, self.world.faults
        shard = self.world.service.shards[window.shard]
        expected = shard.groups(window.begin, window.end)
        end = int(window.end)
        if expected and self._chance(faults.stop_early):
            end = rng.choice(expected)
        middle = expected[len(expected) // 2] if expected else window.begin
        pulled: list[int] = []
        for begin, stop in ((int(window.begin), min(middle, end)), (min(middle, end), end)):
            if self._chance(faults.broken_page):
                end = begin
                break
            lost = shard.id in self.world.service.removed or begin < shard.begin
            if lost and not self.world.habits.no_proof:
                return None
            pulled += [c for c in shard.groups(begin, stop) if c >= shard.begin]
            yield
        if shard.begin > window.begin and not self.world.habits.no_proof:
            self.world.checks.saw("retention overtook a window")
            return None
        if end <= window.begin:
            return None
        table = self.world.table
        done = Window(window.shard, window.begin, Cursor(end), window.hour)
        file = File(table.next_id(), done, tuple(pulled), table.schema, self.world.service.now_s)
        file = File(file.id, done, file.cursors, self.base[2], file.written_s)
        table.written[file.id] = file
        self.files[done] = file
        return Landed(done, len(pulled), sum(pulled))

    def _publish(self, effect: protocol.Publish) -> Doing:
        table, faults = self.world.table, self.world.faults
        files = frozenset(self.files[x.window] for x in effect.delta.windows)
        live = self.state.setting.live
        checks = self.world.checks
        if self.state.tries:
            checks.saw("the same files were sent again")
            if len(files) < len(self.files):
                checks.saw("some windows were lost, the others sent again")
        request = Request(table.next_id(), *self.base, files=files, effect=effect, live=live, run=self.as_run)
        if self.world.habits.checkpoint_first:
            for shard, entry in effect.ledger.shards.items():
                self.world.service.save(self.name, shard, entry.frontier)
        yield
        if self._chance(faults.request_lost):
            return protocol.Answered(request.snapshot_id, accepted=False)
        if self._chance(faults.late):
            self.world.on_the_way.append(request)
            return protocol.Answered(request.snapshot_id, accepted=False)
        accepted = deliver(self.world, request)
        if self._chance(faults.doubled):
            self.world.on_the_way.append(request)
        if accepted and self._chance(faults.reply_lost):
            self.world.checks.saw("an answer was lost")
            accepted = False
        return protocol.Answered(request.snapshot_id, accepted=accepted)

    def _reload(self, effect: protocol.Reload) -> Doing:
        yield
        if self._chance(self.world.faults.unreadable):
            raise LandingUnknown("the table cannot be read")
        table, checks = self.world.table, self.world.checks
        landed = table.landed(effect.tries)
        written = self.base[2:]
        if landed is None:
            if self.world.habits.delete_on_refusal:
                table.deleted |= {f.id for f in self.files.values()}
            self._look()
        oldest = min((f.written_s for f in self.files.values()), default=self.world.service.now_s)
        fresh = self.world.service.now_s - oldest < SWEEP_FLOOR_S / 2
        fits = (table.schema, table.spec) == written
        checks.saw("unknown was landed" if landed is not None else "unknown was not landed")
        if not fresh:
            checks.saw("files too old")
        if not fits:
            checks.saw("schema or spec moved")
        return protocol.Reloaded(landed, table.ledger, fits, fresh, self._claim_valid(), self._fenced())

    def _reconcile(self, _: protocol.Reconcile) -> Doing:
        yield
        return protocol.Reconciled(())

    def _checkpoint(self, effect: protocol.PublishCheckpoints) -> Doing:
        service = self.world.service
        known = dict(service.checkpoints)
        yield
        if self._fenced() is not None and not self.world.habits.checkpoints_unfenced:
            return protocol.CheckpointsPublished()
        self.world.checks.publishing(self.world.table, self.as_run)
        for shard, cursor in effect.frontiers.items():
            yield
            if cursor == CURSOR_UNKNOWN:
                raise InvariantBroken("a checkpoint that is no cursor")
            if self.world.habits.forced_checkpoint_of_end and shard not in service.removed:
                service.checkpoints[shard] = service.shards[shard].end
            elif known.get(shard, -1) < cursor or shard in effect.closed:
                service.save(self.name, shard, cursor)
        return protocol.CheckpointsPublished()

    def _release(self, _: protocol.Release) -> Doing:
        yield
        self._let_go()
        return protocol.Released()


def deliver(world: World, request: Request) -> bool:
    """A request arrives at the catalog."""
    table = world.table
    careless = world.habits.rebase and table.main is not None and not table.has(request)
    if not table.fits(request) and not careless:
        world.checks.saw("a try was refused")
        return False
    world.checks.before(world.service, table, request)
    table.apply(request)
    return True


_EXECUTORS: dict[type, Callable[[Worker, Any], Doing]] = {
    protocol.ClaimShards: Worker._claim,
    protocol.ReadLedger: Worker._read,
    protocol.ResolveStart: Worker._starts,
    protocol.SurveyShards: Worker._survey,
    protocol.WriteWindows: Worker._write,
    protocol.Publish: Worker._publish,
    protocol.Reload: Worker._reload,
    protocol.Reconcile: Worker._reconcile,
    protocol.PublishCheckpoints: Worker._checkpoint,
    protocol.Release: Worker._release,
}
