"""A run in production: carries out the effects of `protocol.py` and answers with facts.

    with Run(logstore, engine) as run:
        report = run.land()          # claim .. publish
        verdict = run.reconcile()    # the landing under the tag: files exist, counts agree
        saved = run.checkpoint()     # only now does the service hear of it

Leaving the block lets go of the claim, whatever happened. A live run holds shards in the consumer
group and moves frontiers; a fill run names receive hours, holds nothing and moves no checkpoint.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from pipelines.landing import json_log
from pipelines.landing.commit import publish
from pipelines.landing.commit.freshness import Freshness, landing_timeout_s
from pipelines.landing.commit.lost_answer import loaded_again
from pipelines.landing.ledger.epochs import RUN_CHARS, Fenced
from pipelines.landing.ledger.left import weights_of
from pipelines.landing.ledger.mirror import Mirrored, mirrored
from pipelines.landing.ledger.newest_landing import reconcile
from pipelines.landing.ledger.pinned import check_named, spoken, unread
from pipelines.landing.ledger.start import (
    asked_of,
    check_same_logstore,
    chosen_of,
    find_table,
    kept_since,
    kept_text,
    landing_beside,
    leased_as,
    lowered,
    published_cursors,
    resolve_starts,
    waiting_before,
)
from pipelines.landing.ledger.state import check_ancestry, check_before_loss, landed_snapshot, read_state
from pipelines.landing.logstore import Logstore
from pipelines.landing.run import protocol
from pipelines.landing.run.attempt import Attempt
from pipelines.landing.run.holder_name import HolderName
from pipelines.landing.run.holding import Holding, Now
from pipelines.landing.run.hooks import Hooks
from pipelines.landing.run.older_runs import Fencing
from pipelines.landing.run.refusals import Refusals
from pipelines.landing.run.report import (
    CheckpointOutcome,
    CheckpointReport,
    LandingReport,
    Verdict,
    stop_text,
)
from pipelines.landing.run.reporting import report_of
from pipelines.landing.run.surveyor import Surveyor
from pipelines.landing.run.textfile import DONE, UNDONE, UNWRITABLE, RunCounts
from pipelines.landing.run.write import WrittenWindow, check_not_all_failed, crowded
from pipelines.landing.spark.session import Engine
from pipelines.landing.table import commands
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.former import uuid_of
from pipelines.landing.table.lake import Lake
from pipelines.landing.transform import Transform
from sls_io.planning.values import Plan
from sls_io.planning.waits import Wait, Why
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.deadline import Deadline
from sls_io.values.errors import (
    ConfigError,
    InvariantBroken,
    LedgerBroken,
    ServiceError,
)
from sls_io.values.window import Cursor
from sls_io.wire.client import Origin, SlsClient

Mode = Literal["live", "fill"]

PUBLISH_DEADLINE_S = 60.0
RELOAD_DEADLINE_S = 60.0
_BESIDE_S = 24 * 3600
"""How lately another logstore of the table has landed that a run speaks of."""


@dataclass(frozen=True)
class Bounds:
    """How far a run may go; `_s` by the service's clock unless said otherwise.

    origin      the logstore, as the service says
    begun_s     when the run began
    offset_s    add it to our monotonic clock to get the service's time
    deadline_s  until when pages are pulled
    until_s     what is received from then on is left for the next run
    """

    origin: Origin
    begun_s: int
    offset_s: float
    deadline_s: float
    until_s: int


class Run:
    """One run of one logstore; see the module's head for how it is used.

    `hours` (half-open, hours since 1970) goes with mode fill, and so does `from_s`, for a part of the first
    one. `until_s` bounds the receive time; the service's own Date minus the settle time always does. `name`
    is the deployment's, as this process has it.
    `on_event` hears the name of each effect before (`publish`) and after (`publish.done`) it is carried
    out; `warn` a sentence for the operator, while the run works. A try that is not answered within
    `publish_deadline_s` counts as unknown: the table is asked, at most for `reload_deadline_s`.
    """

    def __init__(
        self,
        logstore: Logstore,
        engine: Engine,
        *,
        mode: Mode = "live",
        hours: tuple[int, int] | None = None,
        from_s: int = 0,
        until_s: int | None = None,
        lake: Lake | None = None,
        name: HolderName | None = None,
        clock: Clock = SYSTEM_CLOCK,
        on_event: Callable[[str], None] = lambda name: None,
        warn: Callable[[str], None] = lambda sentence: None,
        publish_deadline_s: float = PUBLISH_DEADLINE_S,
        reload_deadline_s: float = RELOAD_DEADLINE_S,
    ) -> None:
        if (mode == "fill") != (hours is not None):
            raise ConfigError("a fill run names its hours, a live run never does")
        self.logstore, self.engine, self.mode, self.clock = logstore, engine, mode, clock
        self.hours = range(*hours) if hours else range(0)
        self.lake = lake or Lake.default()
        self._from_s, self._asked_until_s, self._asked = from_s, until_s, dict[str, str]()
        self._on_event, self._warn = on_event, warn
        self._publish_deadline_s, self._reload_deadline_s = publish_deadline_s, reload_deadline_s
        self._waits_s = publish_deadline_s + reload_deadline_s
        self._client = SlsClient(logstore.service, clock=clock)
        self._id, self._name = uuid.uuid4().hex, name or HolderName(None)
        self._tag = f"sls-lake-{self._id[:12]}"
        self._fencing = Fencing(logstore.deployment if mode == "live" else "", self._id)
        self._holding = Holding(
            logstore,
            clock=clock,
            lost=self._claim_lost,
            warn=warn,
            known_as=lambda: leased_as(self.lake, logstore, self._client),
        )
        self._hooks = Hooks(logstore.name, logstore.hooks, warn)
        Transform(logstore.transform)  # one that cannot be loaded ends the run before it began
        self._effects: list[protocol.Effect] = []
        self._checkpoints: tuple[CheckpointReport, ...] = ()
        self._state: protocol.State | None = None
        self._bounds_found: Bounds | None = None
        self._attempt_begun: Attempt | None = None
        self._stopped: Mapping[int, str] = {}
        self._deadline = Deadline()
        self._refusals = Refusals(self.lake.place, logstore.table, clock)
        self._counts = RunCounts(logstore.name, mode, clock)
        self._report: LandingReport | None = None
        self.mirrored: Mirrored | None = None
        self._failed: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._let_go()
        finally:
            self._client.close()
            self._tell_monitors(error or self._failed)

    def land(self) -> LandingReport:
        """Claim, plan, write and publish; stops before any checkpoint. Call once.

        Raises what the tree of `sls_io.values.errors` says; whatever it raises, no checkpoint moved.

        Worked example: `budget.seconds_max` is 240, publish and reload may take 60 s each: others are waited
        for until 360 s after the begin, and for 120 s behind the pulling where that ends later.
        """
        begun_s = self.clock.monotonic()
        self._deadline = Deadline.after(self.logstore.budget.seconds_max + self._waits_s, tell=self._warn)
        self.engine.require()
        bounds = self._bounds_found = self._look_at_the_clock()
        setting = protocol.Setting(
            live=self.mode == "live",
            ordered=self.logstore.group.order,
            budget=self.logstore.budget,
            until_s=bounds.until_s,
            outage_s=self.logstore.group.timeout_s,
            name_gaps=self.logstore.expired == "gap",
        )
        self._state = protocol.State(setting)
        self._feed(protocol.Begin())
        self._drive(before=(protocol.Reconcile,))
        self._report = report_of(
            self._protocol,
            self._attempt,
            mode=self.mode,
            logstore=self.logstore.option,
            until_s=bounds.until_s,
            now_s=self._now_s(),
            seconds=self.clock.monotonic() - begun_s,
            stopped=self._stopped,
            lowered=lowered(self.logstore, self._attempt.base, self._attempt.origin.id),
        )
        return self._report

    def reconcile(self) -> Verdict:
        """Check the landing under the tag; while that fails no checkpoint moves."""
        self._worked()
        self._drive(before=(protocol.PublishCheckpoints, protocol.Release))
        return Verdict(problems=self._protocol.problems)

    def checkpoint(self) -> list[CheckpointReport]:
        """Publish the frontiers (live runs whose check held) and let go of the shards; then `mirrored` is
        known, which fails nothing."""
        self._worked()
        self._drive(before=())
        if self.mode == "live":
            self.mirrored = mirrored(self.logstore, self.lake, clock=self.clock)
        return list(self._checkpoints)

    # --- driving ---------------------------------------------------------------------------------

    @property
    def _protocol(self) -> protocol.State:
        if self._state is None:
            raise InvariantBroken("land() comes first")
        return self._state

    @property
    def _bounds(self) -> Bounds:
        if self._bounds_found is None:
            raise InvariantBroken("land() comes first")
        return self._bounds_found

    @property
    def _attempt(self) -> Attempt:
        if self._attempt_begun is None:
            raise InvariantBroken("the ledger is read first")
        return self._attempt_begun

    def _feed(self, event: protocol.Event) -> None:
        self._state, effects = protocol.step(self._protocol, event)
        self._effects.extend(effects)

    def _drive(self, *, before: tuple[type, ...]) -> None:
        """The protocol says what to do, and hears what came of it; nothing is decided here. An effect ends as
        one event, so between two of them a run is in a state of the protocol and in no other."""
        while self._effects and not isinstance(self._effects[0], before):
            effect = self._effects.pop(0)
            name, carry_out = _EFFECTS[type(effect)]
            self._on_event(name)
            # The shards are let go of, however late it is.
            deadline = Deadline() if isinstance(effect, protocol.Release) else self._deadline
            try:
                with deadline.kept():
                    event = carry_out(self, effect)
            except BaseException as error:
                self._failed = error
                raise
            if isinstance(effect, _WORK):
                self._worked()
            self._on_event(f"{name}.done")
            self._feed(event)

    def _worked(self) -> None:
        """However long others took, the catalog gets its time after them. Story: a hook works for ten
        minutes, the run's deadline is over, and a catalog that nobody asked is called out of reach."""
        self._deadline = self._deadline.at_least(self._waits_s)

    def _look_at_the_clock(self) -> Bounds:
        """The service's time: the earlier of two answers. With a time that is too early the next run catches
        up; an hour that was called reached before it was over is never taken back.

        Worked example: two answers say 10:00:05 and 10:00:02: it is 10:00:02, and with 10 s to settle,
        `until_s` is 09:59:52.
        """
        origin = self._client.origin()
        first_s = self._client.now_s()
        self._client.shards()
        now_s, monotonic_s = min(first_s, self._client.now_s()), self.clock.monotonic()
        until_s = int(now_s) - self.logstore.budget.settle_s
        return Bounds(
            origin=origin,
            begun_s=int(now_s),
            offset_s=now_s - monotonic_s,
            deadline_s=now_s + self.logstore.budget.seconds_max,
            until_s=min(until_s, self._asked_until_s or until_s),
        )

    def _now_s(self) -> float:
        return self._bounds.offset_s + self.clock.monotonic()

    def _claim_lost(self, why: str) -> None:
        self._on_event("claim.lost")
        self._hooks.lost(why)
        self._warn(f"the claim was lost, what was not published yet is planned again: {why}")
        self.engine.cancel(self._tag)

    # --- effects ---------------------------------------------------------------------------------

    def _claim(self, _: protocol.ClaimShards) -> protocol.Event:
        """A fill claims nothing: it reads all listed shards, and moves no checkpoint."""
        if self.mode == "live":
            claim = self._holding.claim()
            self._hooks.assigned(claim.shards)
            return protocol.Claimed(claim)
        return protocol.Claimed(self._holding.take(s.id for s in self._client.shards()))

    def _read_ledger(self, _: protocol.ReadLedger) -> protocol.Event:
        """A table is made where there is none and never was one. The attempt begins with the table that was
        read here: what it publishes is required to meet this one."""
        contract, name = Contract.from_columns(self.logstore.columns), self.logstore.table
        table = find_table(self.lake, self.logstore, self._client) or self.lake.ensure(name, contract)
        attempt = Attempt.begun(table, self.logstore, self._bounds.origin, contract, self._freshness())
        if attempt.origin.id not in attempt.base.origins:
            self._check_identity(attempt.origin)
        elif self._attempt_begun is None:
            since_s = self._bounds.begun_s - _BESIDE_S
            if said := landing_beside(attempt.base, attempt.origin, self.logstore, since_s):
                self._warn(said)
        self._attempt_begun = attempt
        json_log.of_landing(attempt.id[:RUN_CHARS])
        fenced = self._fencing.read(attempt.base, attempt.origin.id, attempt.id, begun_s=self._bounds.begun_s)
        return protocol.LedgerRead(attempt.ledger, fenced=self._told(fenced))

    def _freshness(self) -> Freshness:
        return Freshness(self.clock, landing_timeout_s(self.logstore.budget.seconds_max))

    def _told(self, fenced: Fenced | None) -> Fenced | None:
        """The same, with a word for the operator."""
        if fenced is Fenced.NEWER:
            self._warn(
                f"{fenced}, so this one published nothing more: if two are meant to run at once, give each "
                f"a `group.holder` of its own (both are {self._fencing.deployment!r})"
            )
        return fenced

    def _check_identity(self, origin: Origin) -> None:
        """A wrong creation time names another logstore: a landing would begin a new history, and the next run
        would refuse the table."""
        with SlsClient(self.logstore.service, clock=self.clock) as client:
            if client.origin() != origin:
                raise ServiceError(
                    "OriginUnclear",
                    f"two answers disagree on when logstore {origin.logstore} was made; nothing was landed",
                    hint="Run again; if it stays, report it to the service",
                )

    def _resolve_start(self, _: protocol.ResolveStart) -> protocol.Event:
        """Where the configured start is to come, no history begins. Else checkpoints are asked for twice, as
        all is that fixes where a history begins."""
        if to_come := self.logstore.ahead(self._bounds.begun_s):
            self._warn("; ".join(filter(None, (to_come, waiting_before(self._client, self.logstore)))))
            wait = Wait(Why.AHEAD, to_come)
            return protocol.StartResolved({}, ahead={s.id: wait for s in self._client.shards()})
        asked: list[Mapping[int, Cursor | None]] = [{}]
        if self.logstore.reset == "group":
            asked = [self._published(), self._published()]
        check_named(self.logstore, self._client.shards(), self._attempt.ledger)
        starts = resolve_starts(self._client, self.logstore, asked)
        if kept_s := kept_since(self._client, self.logstore):
            self._warn(kept_text(self.logstore, kept_s))
        self._asked = asked_of(self.logstore, self._attempt.origin.id, kept_s)
        return protocol.StartResolved(starts, chosen_of(self.logstore, starts, asked))

    def _published(self) -> Mapping[int, Cursor | None]:
        """Who names its shards is in no group: it may begin where one stands, which need not be there."""
        if self.logstore.shards is not None:
            return published_cursors(self._client, self.logstore, known_as=self._attempt.origin.id)
        return self._holding.checkpoints()

    def _survey(self, effect: protocol.SurveyShards) -> protocol.Event:
        """What was stopped in the plan before is forgotten: it is surveyed anew."""
        self._stopped = {}
        attempt, shards, left = self._attempt, tuple(self._client.shards()), dict[int, Wait]()
        surveyor = Surveyor(
            self._client,
            self.logstore,
            attempt.table,
            attempt.base,
            effect.ledger,
            shards,
            self._bounds.until_s,
        )
        if self.mode == "fill":
            surveys = surveyor.of_hours(self.hours, self._from_s)
        else:
            surveys = surveyor.claimed(effect.claim.shards, self._holding.checkpoints, self.engine)
            left.update(surveyor.left_alone(surveys))
            for said in spoken(unread(self.logstore, shards, effect.ledger)):
                self._warn(said)
        return protocol.Surveyed(shards, surveys, int(self._now_s()), left)

    def _write(self, effect: protocol.WriteWindows) -> protocol.Event:
        """An error of the work counts only while the claim stands: lost, the work was cancelled by us."""
        plan, attempt = effect.plan, self._attempt
        if self.mode == "fill":
            attempt.check_not_there(self.logstore, plan)
        fresh, deadline_s = self._freshness(), self._bounds.deadline_s
        try:
            written = attempt.write(
                self.engine, self.logstore, plan.windows, deadline_s=deadline_s, tag=self._tag
            )
        except Exception:
            if self._holding.valid:
                raise
            # The work was cancelled because the claim went away: nothing was written that counts.
            return protocol.WindowsWritten((), {}, claim_valid=False)
        if told := crowded(written, self.logstore.budget.task_mb):
            self._warn(told)
        check_not_all_failed(written)
        stopped = _stopped(plan, written)
        self._stopped = {shard: window.stopped for shard, window in stopped.items()}
        self._attempt_begun = attempt = attempt.wrote(written, fresh)
        reasons = {s: Wait(Why.STOPPED, stop_text(w.stopped, w.cause)) for s, w in stopped.items()}
        return protocol.WindowsWritten(attempt.landed, reasons, claim_valid=self._holding.valid)

    def _publish(self, effect: protocol.Publish) -> protocol.Event:
        """A try is known by the snapshot id that it would make: only by that can it be found again, also
        where it arrives after its answer was given up."""
        attempt = self._attempt
        if effect.delta.change.gaps:
            check_before_loss(attempt.table, self.clock.now())
        request = attempt.request(
            effect.delta,
            effect.ledger,
            now_ms=int(self.clock.now() * 1000),
            properties={
                **self._fencing.properties(attempt.base, attempt.origin.id),
                **(self._asked if effect.delta.first else {}),
                **self.logstore.protection(attempt.table.properties),
            },
        )
        self._name.lands(self._id)
        self._on_event("publish.built")
        if attempt.fresh.timed_out or self._to_publish_s <= 0:
            # Never sent: the table says the same as before, and that the files are too old or it is too late.
            return protocol.Answered(request.snapshot_id, accepted=False)
        deadline_s = min(self._publish_deadline_s, self._to_publish_s)
        refusal = publish.send(attempt.table.catalog, attempt.table, request, deadline_s=deadline_s)
        self._refusals.hear(refusal)
        return protocol.Answered(request.snapshot_id, refusal is None, str(refusal or ""))

    @property
    def _to_publish_s(self) -> float:
        """Seconds in which tries may be sent: after each the table is asked, within the run's deadline.

        Worked example: 100 s are left to the run, and asking the table may take 60: tries may be sent for 40
        s.
        """
        return self._deadline.left_s - self._reload_deadline_s

    def _reload(self, effect: protocol.Reload) -> protocol.Event:
        """Found or not comes first. Only a try that is not there can be refused, so only then is asked
        whether this run may go on, whether somebody else changed the table, and whether there is time."""
        before = self._attempt.base
        self._refusals.back_off(len(effect.tries))
        table = loaded_again(
            self.lake,
            self.logstore.table,
            before.uuid,
            clock=self.clock,
            seconds_max=self._reload_deadline_s,
        )
        landed = landed_snapshot(table, effect.tries)
        attempt = self._attempt_begun = self._attempt.on(table, self.logstore)
        fenced = self._fencing.look(attempt.base, attempt.origin.id) if landed is None else None
        if landed is None and fenced is None:
            self._refusals.check(moved=attempt.base != before)
            if self._to_publish_s <= 0:
                raise self._refusals.too_late(self._publish_deadline_s)
        return protocol.Reloaded(
            landed=landed,
            ledger=attempt.ledger,
            files_fit=attempt.fits(before, fill=self.mode == "fill"),
            files_fresh=attempt.fresh.publishable,
            claim_valid=self._holding.valid,
            fenced=self._told(fenced),
        )

    def _reconcile(self, _: protocol.Reconcile) -> protocol.Event:
        """Loaded anew: it is the landing under the tag that must add up, whoever made it. Of such a
        table alone is believed what shards weigh."""
        try:
            table = self.lake.load(self.logstore.table)
            if table is None:
                return protocol.Reconciled(("the table is gone",))
            check_ancestry(table)
            problems = tuple(reconcile(table))
            # A shard whose logstore was made again looks like one that retention overtook: only this question
            # tells.
            if self._stopped:
                check_same_logstore(self.logstore, self._attempt.base, self.clock)
            if not problems:
                origin = self._attempt.origin.id
                self._holding.weigh(lambda: weights_of(table, read_state(table, newest=False).ledger(origin)))
        except LedgerBroken as error:
            return protocol.Reconciled((str(error),))
        return protocol.Reconciled(problems)

    def _send_checkpoints(self, effect: protocol.PublishCheckpoints) -> protocol.Event:
        self._checkpoints = self._holding.publish(effect, self._frontiers_now)
        if any(point.outcome is CheckpointOutcome.PUT_OFF for point in self._checkpoints):
            check_same_logstore(self.logstore, self._attempt.base, self.clock)
        return protocol.CheckpointsPublished()

    def _frontiers_now(self) -> Now:
        """What the table says now: others may have landed since this run looked. Raises SlsError.

        Checkpoints are what the table says at the moment of sending. What this run landed is in it, and so is
        what others landed since.
        """
        table = self.lake.load(self.logstore.table, deadline_s=self._reload_deadline_s)
        if table is None:
            raise LedgerBroken(f"table {self.logstore.table} is gone", cures=(commands.VERIFY,))
        base, claim, origin = read_state(table, newest=False), self._protocol.claim, self._attempt.origin.id
        held = claim.shards if claim is not None else frozenset()
        return Now(protocol.checkpoints_of(base.ledger(origin), held), self._fencing.look(base, origin))

    def _release(self, _: protocol.Release) -> protocol.Event:
        self._let_go()
        return protocol.Released()

    def _tell_monitors(self, error: BaseException | None) -> None:
        """Count the run, however it ended; one that never began to land is none."""
        state, report = self._state, self._report
        if state is None and error is None:
            return
        undone = report is None or report.undone or bool(state and state.problems)
        outcome = type(error).__name__ if error is not None else UNDONE if undone else DONE
        conflicts = state.conflicts if state is not None else 0
        try:
            self._counts.tell(
                report,
                outcome,
                conflicts=conflicts,
                unanswered=self._refusals.unanswered,
                table_uuid=uuid_of(begun.table) if (begun := self._attempt_begun) is not None else "",
            )
        except UNWRITABLE as trouble:
            self._warn(f"the metrics of this run are not kept: {trouble}")

    def _let_go(self) -> None:
        """The hook is told while the shards are still held, and once for each claim: the second call, of a
        run that ended well, tells nothing."""
        self._hooks.before_release(landed=self._state is not None and bool(self._state.landed))
        self._holding.release()


def _stopped(plan: Plan, written: list[WrittenWindow]) -> dict[int, WrittenWindow]:
    """The first window of each shard that ended before its planned end.

    The first of a shard, since what lies behind a window that stopped is not landed either.
    """
    found: dict[int, WrittenWindow] = {}
    for planned, window in zip(plan.windows, written, strict=True):
        if window.stopped:
            found.setdefault(planned.window.shard, window)
    return found


_WORK = (protocol.ClaimShards, protocol.ResolveStart, protocol.SurveyShards, protocol.WriteWindows)
_EFFECTS: dict[type, tuple[str, Callable[[Run, Any], protocol.Event]]] = {
    protocol.ClaimShards: ("claim", Run._claim),
    protocol.ReadLedger: ("read_ledger", Run._read_ledger),
    protocol.ResolveStart: ("resolve_start", Run._resolve_start),
    protocol.SurveyShards: ("survey", Run._survey),
    protocol.WriteWindows: ("write", Run._write),
    protocol.Publish: ("publish", Run._publish),
    protocol.Reload: ("reload", Run._reload),
    protocol.Reconcile: ("reconcile", Run._reconcile),
    protocol.PublishCheckpoints: ("checkpoint", Run._send_checkpoints),
    protocol.Release: ("release", Run._release),
}
"""The name of each effect, and what carries it out."""
