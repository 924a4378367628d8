"""A run in production: carries out the effects of `protocol.py` and answers with facts.

    with Run(logstore, engine) as run:
        report = run.land()          # claim .. publish
        verdict = run.reconcile()    # the landing under the tag: files exist, counts agree
        saved = run.checkpoint()     # only now does the service hear of it

Leaving the block lets go of the claim, whatever happened. A live run holds shards in the consumer
group and moves frontiers; a fill run names receive hours, holds nothing and moves no checkpoint.
"""

import contextlib
import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from pipelines.landing import protocol, publish
from pipelines.landing.contract import Contract, partition_of
from pipelines.landing.engine import Engine
from pipelines.landing.freshness import Freshness
from pipelines.landing.ledger import Landed
from pipelines.landing.logstore import Logstore
from pipelines.landing.renewal import Renewal
from pipelines.landing.report import (
    CheckpointReport,
    HourReport,
    LandingReport,
    Verdict,
    gap_lines,
    readable_lines,
    stop_text,
    suspect_lines,
)
from pipelines.landing.slices import Place, check_nowhere
from pipelines.landing.start import (
    begins,
    check_ends,
    check_origin,
    chosen_of,
    find_table,
    origin_text,
    resolve_starts,
)
from pipelines.landing.state import TableState, check_ancestry, landed_snapshot, read_state, reconcile
from pipelines.landing.table import Lake
from pipelines.landing.write import (
    FileRow,
    WrittenWindow,
    assemble,
    check_not_all_failed,
    job_for,
    to_data_file,
    write_windows,
)
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.coordination.coordinator import Coordinator
from sls_io.coordination.server_group import ServerGroup
from sls_io.coordination.static import Static
from sls_io.errors import (
    ConfigError,
    InvariantBroken,
    LandingUnknown,
    LedgerBroken,
    ServiceError,
    SlsError,
    TransportError,
)
from sls_io.planning import Plan, since_start, since_start_in
from sls_io.shard import Shard
from sls_io.survey import from_hour, left_over, look_at, mark_cut, survey_hours
from sls_io.waits import Wait, Why
from sls_io.window import Cursor, IntervalSet, Window

Mode = Literal["live", "fill"]

PUBLISH_DEADLINE_S = 60.0
RELOAD_DEADLINE_S = 60.0
_TRIES_AT_ONCE = 3
_BACK_OFF_MAX_S = 0.5


class Run:
    """One run of one logstore; see the module's head for how it is used.

    `hours` (half-open, hours since 1970) goes with mode fill. `until_s` bounds the receive time; the
    service's own Date minus the settle time always does. `on_event` hears the name of each effect
    before (`publish`) and after (`publish.done`) it is carried out; `warn` a sentence for the operator, while
    the run works. A try that is not answered within
    `publish_deadline_s` counts as unknown: the table is asked, at most for `reload_deadline_s`.
    """

    def __init__(
        self,
        logstore: Logstore,
        engine: Engine,
        *,
        mode: Mode = "live",
        hours: tuple[int, int] | None = None,
        until_s: int | None = None,
        lake: Lake | None = None,
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
        self._asked_until_s, self._on_event, self._warn = until_s, on_event, warn
        self._publish_deadline_s, self._reload_deadline_s = publish_deadline_s, reload_deadline_s
        self.contract = Contract.from_columns(logstore.columns)
        self._client = SlsClient(logstore.service, clock=clock)
        self._group_client: SlsClient | None = None
        self._coordinator: Coordinator | None = None
        self._renewal: Renewal | None = None
        self._tag = f"sls-lake-{uuid.uuid4().hex[:12]}"
        self._attempt, self._fresh = "", Freshness(clock)
        self._rows: dict[Window, WrittenWindow] = {}
        self._stopped: dict[int, str] = {}
        self._effects: list[protocol.Effect] = []
        self._state: protocol.State | None = None
        self._checkpoints: list[CheckpointReport] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._let_go()
        finally:
            self._client.close()

    def land(self) -> LandingReport:
        """Claim, plan, write and publish; stops before any checkpoint. Call once.

        Raises what the tree of `sls_io.errors` says; whatever it raises, no checkpoint moved.
        """
        self._begun_s = self.clock.monotonic()
        self.engine.require()
        self._look_at_the_clock()
        self._deadline_s = self._now_s() + self.logstore.budget.seconds_max
        until = int(self._now_s()) - self.logstore.budget.settle_s
        self.until_s = min(until, self._asked_until_s or until)
        setting = protocol.Setting(
            live=self.mode == "live",
            ordered=self.logstore.group.order,
            budget=self.logstore.budget,
            until_s=self.until_s,
            outage_s=self.logstore.group.timeout_s,
        )
        self._state = protocol.State(setting)
        self._feed(protocol.Begin())
        self._drive(before=(protocol.Reconcile,))
        return self._report()

    def reconcile(self) -> Verdict:
        """Check the landing under the tag; while that fails no checkpoint moves."""
        self._drive(before=(protocol.PublishCheckpoints, protocol.Release))
        state = self._protocol
        return Verdict(problems=state.problems)

    def checkpoint(self) -> list[CheckpointReport]:
        """Publish the frontiers (live runs whose check held) and let go of the shards."""
        self._drive(before=())
        return self._checkpoints

    # --- driving ---------------------------------------------------------------------------------

    @property
    def _protocol(self) -> protocol.State:
        if self._state is None:
            raise InvariantBroken("land() comes first")
        return self._state

    def _feed(self, event: protocol.Event) -> None:
        self._state, effects = protocol.step(self._protocol, event)
        self._effects.extend(effects)

    def _drive(self, *, before: tuple[type, ...]) -> None:
        while self._effects and not isinstance(self._effects[0], before):
            effect = self._effects.pop(0)
            name = _EFFECT_NAMES[type(effect)]
            self._on_event(name)
            event = _EXECUTORS[type(effect)](self, effect)
            self._on_event(f"{name}.done")
            self._feed(event)

    def _look_at_the_clock(self) -> None:
        """The service's time by two of its answers, the earlier one: what is told too late is caught up
        with by the next run, while hours said to be reached in the future are never taken back."""
        self.origin = self._client.origin()
        first_s = self._client.now_s()
        self._client.shards()
        self._clock_s = min(first_s, self._client.now_s()) - self.clock.monotonic()

    def _now_s(self) -> float:
        return self._clock_s + self.clock.monotonic()

    # --- effects ---------------------------------------------------------------------------------

    def _claim(self, _: protocol.ClaimShards) -> protocol.Event:
        self._let_go()
        if self.mode == "fill":
            self._coordinator = Static(s.id for s in self._client.shards())
            return protocol.Claimed(self._coordinator.claim())
        group = self.logstore.group
        service = self.logstore.service.model_copy(
            update={
                "connect_timeout_s": min(self.logstore.service.connect_timeout_s, group.heartbeat_deadline_s),
                "read_timeout_s": group.heartbeat_deadline_s,
            }
        )
        self._group_client = SlsClient(service, deadline_s=group.heartbeat_deadline_s, clock=self.clock)
        self._coordinator = members = ServerGroup(self._group_client, group, clock=self.clock)
        claim = members.claim()
        for line in members.drift:
            self._warn(f"{line}: the group keeps its own, since other members rely on it")
        self._renewal = Renewal(self._coordinator, claim, clock=self.clock, lost=self._claim_lost)
        self._renewal.start()
        return protocol.Claimed(claim)

    def _claim_lost(self, why: str) -> None:
        self._on_event("claim.lost")
        self._warn(f"the claim was lost, what was not published yet is planned again: {why}")
        self.engine.cancel(self._tag)

    def _claim_valid(self) -> bool:
        return self._renewal is None or self._renewal.valid

    def _read_ledger(self, _: protocol.ReadLedger) -> protocol.Event:
        name = self.logstore.table
        found = find_table(self.lake, self.logstore, self._client)
        self._table = found or self.lake.ensure(name, self.contract)
        self._base = read_state(self._table)
        problems = reconcile(self._table)
        if problems:
            raise LedgerBroken(
                f"the newest landing in {self.logstore.table} does not add up ({'; '.join(problems)}); "
                "nothing was landed and no checkpoint moved",
                verb="sls-lake verify",
            )
        self.origin = check_origin(self._base, self.origin, self.logstore.table)
        if self.origin.id not in self._base.origins:
            self._check_identity()
        self._evolved = self.contract.evolved(self._table.metadata)
        self._partition(0, 0)  # a partitioning that we cannot write is refused before any work
        self._attempt, self._rows, self._fresh = uuid.uuid4().hex, {}, Freshness(self.clock)
        return protocol.LedgerRead(self._base.ledger(self.origin.id))

    def _check_identity(self) -> None:
        """A wrong creation time would be another logstore: a new history, which the next run refuses."""
        with SlsClient(self.logstore.service, clock=self.clock) as client:
            if client.origin() != self.origin:
                raise ServiceError(
                    "OriginUnclear",
                    f"two answers disagree on when logstore {self.origin.logstore} was made; nothing was "
                    "landed",
                    hint="Run again; if it stays, report it to the service",
                )

    def _resolve_start(self, _: protocol.ResolveStart) -> protocol.Event:
        asked: list[Mapping[int, Cursor | None]] = [{}]
        if self.logstore.reset == "group" and self._coordinator:
            asked = [self._coordinator.checkpoints(), self._coordinator.checkpoints()]
        starts = resolve_starts(self._client, self.logstore, asked)
        return protocol.StartResolved(starts, chosen_of(self.logstore, starts, asked))

    def _survey(self, effect: protocol.SurveyShards) -> protocol.Event:
        self._stopped = {}
        shards = tuple(self._client.shards())
        pieces = self.logstore.splits_per_hour
        if self.mode == "fill":
            surveys = survey_hours(
                self._client,
                shards,
                hours=self.hours,
                until_s=self.until_s,
                pieces=pieces,
                ledger=effect.ledger,
            )
            surveys = since_start(surveys, effect.ledger, self._base.adopted.shards_of(self.origin.id))
            surveys = since_start_in(surveys, effect.ledger, self._base.forgotten.hours(self.origin.id))
            surveys = from_hour(surveys, self._base.forgotten.before(self.origin.id))
            surveys = mark_cut(self._client, shards, effect.ledger, surveys)
        else:
            surveys = look_at(
                self._client,
                shards,
                self._readable(shards, effect),
                effect.ledger,
                until_s=self.until_s,
                windows_max=self.logstore.budget.windows_max,
                pieces=pieces,
                spare=True,
                begins=begins(self._client, self.logstore, self._base, self.origin.id),
            )
        check_ends(surveys, effect.ledger, self.logstore.table)
        return protocol.Surveyed(shards, surveys, int(self._now_s()))

    def _readable(self, shards: Iterable[Shard], effect: protocol.SurveyShards) -> list[Shard]:
        """The claimed shards, and those that the group is done with while the ledger is not."""
        known = effect.ledger.shards
        mine = [s for s in shards if s.id in effect.claim.shards]
        rest = [s for s in shards if s not in mine and not (s.id in known and known[s.id].closed)]
        if self._coordinator is not None and any(s.readonly for s in rest):
            # Not worth a run: whoever cannot be asked now is looked at by the next one.
            with contextlib.suppress(TransportError):
                mine += left_over(self._client, rest, self._coordinator.checkpoints())
        return mine

    def _write(self, effect: protocol.WriteWindows) -> protocol.Event:
        plan = effect.plan
        if self.mode == "fill":
            self._check_not_there(plan)
        job = job_for(
            self.logstore,
            self._table,
            origin=self.origin.id,
            attempt=self._attempt,
            windows=plan.windows,
            schema=self._schema,
            deadline_s=self._deadline_s,
        )
        self._fresh = Freshness(self.clock)
        try:
            rows = write_windows(self.engine, job, tag=self._tag)
        except Exception:
            if self._claim_valid():
                raise
            # The work was cancelled because the claim went away: nothing was written that counts.
            return protocol.Written((), {}, claim_valid=False)
        written = assemble(plan.windows, rows)
        check_not_all_failed(written)
        self._stopped = {shard: w.stopped for shard, w in _stopped(plan, written).items()}
        self._rows = {w.landed.window: w for w in written if w.landed}
        landed = tuple(w.landed for w in written if w.landed)
        reasons = {
            s: Wait(Why.STOPPED, stop_text(w.stopped, w.cause)) for s, w in _stopped(plan, written).items()
        }
        return protocol.Written(landed, reasons, claim_valid=self._claim_valid())

    def _check_not_there(self, plan: Plan) -> None:
        """Story: rows of an hour were put into the next one by another engine, and the hour was taken back.
        Its cursors count as withdrawn, and the rows are there."""
        head, found = self._table.current_snapshot(), dict[int, IntervalSet]()
        for window in (planned.window for planned in plan.windows):
            before = found.get(window.shard, IntervalSet())
            found[window.shard] = before.union([(window.begin, window.end)])
        if head is not None and found:
            check_nowhere(Place(self.logstore, self.origin, self._table, self._base, head), found)

    @property
    def _schema(self) -> Schema:
        return self._evolved if self._evolved is not None else self._table.schema()

    def _publish(self, effect: protocol.Publish) -> protocol.Event:
        request = publish.build(
            self._table,
            self._base,
            delta=effect.delta,
            ledger=effect.ledger,
            files=[f for x in effect.delta.windows for f in self._files(x)],
            attempt=self._attempt,
            origin=publish.Origin(self.origin.id, origin_text(self.origin)),
            now_ms=int(self.clock.now() * 1000),
            schema=self._evolved,
        )
        self._on_event("publish.built")
        refusal = publish.send(self._table.catalog, self._table, request, deadline_s=self._publish_deadline_s)
        return protocol.Answered(request.snapshot_id, accepted=not refusal)

    def _files(self, landed: Landed) -> list[DataFile]:
        partition = self._partition(landed.window.shard, landed.window.hour)
        return [
            to_data_file(row, partition=partition, spec_id=self._base.spec_id)
            for row in self._rows[landed.window].files
        ]

    def _partition(self, shard: int, hour: int) -> Record:
        return partition_of(self._table.spec(), self._schema, origin=self.origin.id, shard=shard, hour=hour)

    def _reload(self, effect: protocol.Reload) -> protocol.Event:
        written = self._base
        self._back_off(len(effect.tries))
        self._table = self._load_again()
        landed = landed_snapshot(self._table, effect.tries)
        self._base = read_state(self._table, newest=False)  # proven when the run began; this is a race
        fits = (self._base.schema_id, self._base.spec_id) == (written.schema_id, written.spec_id)
        # A fill is on its way while a person forgets its hours: planned again, nothing of them is in it.
        then, now = (base.forgotten.before(self.origin.id) for base in (written, self._base))
        forgets = self.mode == "fill" and then != now
        return protocol.Reloaded(
            landed=landed,
            ledger=self._base.ledger(self.origin.id),
            files_fit=fits and not forgets,
            files_fresh=self._fresh.publishable,
            claim_valid=self._claim_valid(),
        )

    def _back_off(self, tries: int) -> None:
        """A lost race is tried again at once; who keeps being refused waits, longer each time and not
        in step with others. Story: a catalog answers 429 within a millisecond, so without the wait all
        tries of a run are used up before it could recover, and each of them was one more request."""
        if tries > _TRIES_AT_ONCE:
            longest: float = min(_BACK_OFF_MAX_S, 0.02 * 2.0 ** (tries - _TRIES_AT_ONCE))
            self.clock.sleep(longest * random.uniform(0.5, 1.0))

    def _load_again(self) -> Table:
        deadline_s = self.clock.monotonic() + self._reload_deadline_s
        pause_s = 0.1
        while True:
            try:
                table = self.lake.load(self.logstore.table, deadline_s=self._reload_deadline_s)
            except LedgerBroken:
                raise
            except SlsError as error:
                if self.clock.monotonic() + pause_s > deadline_s:
                    raise LandingUnknown(
                        f"the answer to a commit was lost and {self.logstore.table} cannot be read: {error}. "
                        "Nothing was deleted; run again, the next run reads the table and knows"
                    ) from error
                self.clock.sleep(pause_s)
                pause_s = min(5.0, pause_s * 2)
                continue
            if table is None or str(table.metadata.table_uuid) != self._base.uuid:
                raise LedgerBroken(
                    f"table {self.logstore.table} was dropped or replaced while a landing was on its way; "
                    "whether the old one has it only its files say",
                    verb="sls-lake verify",
                )
            return table

    def _reconcile(self, _: protocol.Reconcile) -> protocol.Event:
        try:
            table = self.lake.load(self.logstore.table)
            if table is None:
                return protocol.Reconciled(("the table is gone",))
            check_ancestry(table)
        except LedgerBroken as error:
            return protocol.Reconciled((str(error),))
        return protocol.Reconciled(tuple(reconcile(table)))

    def _send_checkpoints(self, effect: protocol.PublishCheckpoints) -> protocol.Event:
        if self._coordinator is None:
            raise InvariantBroken("checkpoints without a claim")
        try:
            known = dict(self._coordinator.checkpoints())
        except SlsError as error:
            self._checkpoints = [
                CheckpointReport(s, c, f"put off: {error}") for s, c in effect.frontiers.items()
            ]
            return protocol.CheckpointsPublished()
        for shard, cursor in sorted(effect.frontiers.items()):
            # A closed shard's checkpoint is sent even when unchanged: only then does the service look
            # whether a read-only shard is over, and lets its children go.
            if known.get(shard) == cursor and shard not in effect.closed:
                outcome = "unchanged"
            else:
                outcome = self._send_checkpoint(shard, cursor)
            self._checkpoints.append(CheckpointReport(shard, cursor, outcome))
        return protocol.CheckpointsPublished()

    def _send_checkpoint(self, shard: int, cursor: Cursor) -> str:
        if self._coordinator is None or not self._claim_valid():
            return "put off: the claim was lost"
        try:
            published = self._coordinator.checkpoint(shard, cursor)
        except SlsError as error:
            # The landing stands without it; the next run repairs the checkpoint from the table.
            return f"put off: {error}"
        return "moved" if published == "sent" else "ahead of the table: the ledger decides"

    def _release(self, _: protocol.Release) -> protocol.Event:
        self._let_go()
        return protocol.Released()

    def _let_go(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal = None
        if self._coordinator is not None:
            coordinator, self._coordinator = self._coordinator, None
            coordinator.release()
        if self._group_client is not None:
            self._group_client.close()
            self._group_client = None

    # --- telling ---------------------------------------------------------------------------------

    def _report(self) -> LandingReport:
        state = self._protocol
        files = [(x.window.hour, row) for x in state.landed for row in self._file_rows(x)]
        hours: dict[int, HourReport] = {}
        for x in state.landed:
            mine = self._file_rows(x)
            old = hours.get(x.window.hour, HourReport(0, 0, 0, 0))
            hours[x.window.hour] = HourReport(
                rows=old.rows + x.rows,
                raw_bytes=old.raw_bytes + x.raw_bytes,
                files=old.files + len(mine),
                file_bytes=old.file_bytes + sum(r.size for r in mine),
            )
        plan, ledger = state.plan, self._protocol.ledger
        return LandingReport(
            mode=self.mode,
            origin=self.origin.id,
            table=self.logstore.table,
            snapshot_id=state.snapshot_id,
            rows=sum(x.rows for x in state.landed),
            raw_bytes=sum(x.raw_bytes for x in state.landed),
            files=len(files),
            file_bytes=sum(r.size for _, r in files),
            error_rows=sum(r.errors for _, r in files),
            pages=sum(r.pages for _, r in files),
            seconds=self.clock.monotonic() - self._begun_s,
            until_s=self.until_s,
            windows=len(state.landed),
            hours=dict(sorted(hours.items())),
            waits=dict(sorted((state.waits or {}).items())),
            stopped=dict(sorted(self._stopped.items())),
            gaps=gap_lines(plan) if plan else (),
            suspects=suspect_lines(plan) if plan else (),
            readable=readable_lines(plan) if plan else (),
            # A window that stopped early leaves its shard open, whatever was planned.
            closed=tuple(s for s in sorted(plan.closings) if ledger and ledger.closed({s})) if plan else (),
            lag_s=self._lag_s(),
            conflicts=state.conflicts,
            replans=state.replans,
            peak_bytes=max((r.peak_bytes for _, r in files), default=0),
        )

    def _file_rows(self, landed: Landed) -> tuple[FileRow, ...]:
        written = self._rows.get(landed.window)
        return written.files if written else ()

    def _lag_s(self) -> float | None:
        ledger = self._protocol.ledger
        reached = (
            [e.reached_s for e in ledger.shards.values() if not e.closed and e.reached_s] if ledger else []
        )
        return max(0.0, self._now_s() - min(reached)) if reached else None

    @property
    def base(self) -> TableState:
        """The table state of the last read; for people who look, not for deciding."""
        return self._base


def _stopped(plan: Plan, written: list[WrittenWindow]) -> dict[int, WrittenWindow]:
    """The first window of each shard that ended before its planned end."""
    found: dict[int, WrittenWindow] = {}
    for planned, window in zip(plan.windows, written, strict=True):
        if window.stopped:
            found.setdefault(planned.window.shard, window)
    return found


_EXECUTORS: dict[type, Callable[[Run, Any], protocol.Event]] = {
    protocol.ClaimShards: Run._claim,
    protocol.ReadLedger: Run._read_ledger,
    protocol.ResolveStart: Run._resolve_start,
    protocol.SurveyShards: Run._survey,
    protocol.WriteWindows: Run._write,
    protocol.Publish: Run._publish,
    protocol.Reload: Run._reload,
    protocol.Reconcile: Run._reconcile,
    protocol.PublishCheckpoints: Run._send_checkpoints,
    protocol.Release: Run._release,
}
_EFFECT_NAMES = {
    protocol.ClaimShards: "claim",
    protocol.ReadLedger: "read_ledger",
    protocol.ResolveStart: "resolve_start",
    protocol.SurveyShards: "survey",
    protocol.WriteWindows: "write",
    protocol.Publish: "publish",
    protocol.Reload: "reload",
    protocol.Reconcile: "reconcile",
    protocol.PublishCheckpoints: "checkpoint",
    protocol.Release: "release",
}
