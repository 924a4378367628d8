"""What each worker, the service and other people can do next in a small world of values.

What a worker does is worked out once for each pair of its own number and of the parts of the world that
its effect looks at; everything else is looking it up. The decisions are those of production's
`protocol.step`; what a commit, a table or a checkpoint must be is judged where it is made.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pipelines.landing import protocol
from pipelines.landing.ledger import Landed
from pipelines.landing.protocol import Phase
from sls_io.claim import Claim, Ledger
from sls_io.errors import InvariantBroken, SlsError
from sls_io.planning import CURSOR_UNKNOWN, Planned, Survey, opened
from sls_io.settings import Budget
from sls_io.shard import Head
from sls_io.window import Cursor, Window
from tests.simulation.checks import Checks, Violated
from tests.simulation.model import (
    ANSWER_LOST,
    CLAIM_LOST,
    COMMIT,
    CRASH,
    FIRST_HOUR,
    IDLE,
    LATE,
    LIE,
    LIES,
    PAGE,
    PUT_OFF,
    REQUEST_LOST,
    RETENTION,
    ROLLBACK,
    SCHEMA,
    SWEEP,
    UNREADABLE,
    Lake,
    Local,
    Model,
    Move,
    Names,
    Parts,
    Sent,
    Source,
    essence,
    service,
    table_of,
)
from tests.simulation.service import (
    ONE_KIND,
    TWO_KINDS,
    Gone,
    Service,
    all_lies,
    model_survey_hours,
    model_survey_live,
    second_answers,
    shown_again,
    unlisted,
)
from tests.simulation.table import ORIGIN, File, Request
from tests.simulation.worker import Habits

Step = tuple[int, int, Phase]
_LANDED = {"landed": (0, 2, 2), "moved": (0, 1, 2), "rolled back": (0, 0, 2)}
_NO_BASE = (Phase.CLAIMING, Phase.READING, Phase.RECONCILING, Phase.CHECKPOINTING, Phase.RELEASING)


class Moves:
    """All moves of a model. Raises Violated or InvariantBroken where one must not happen."""

    def __init__(self, model: Model, habits: Habits) -> None:
        self.model, self.habits = model, habits
        self.names = Names()
        self.checks = Checks(latest=False)
        self.checks.lied_to = None if LIES in model.kinds else set()
        self.seen: Counter[str] = self.checks.seen
        self.last_stage = model.hours - 1 + model.split
        self.taken_steps: list[tuple[protocol.State, protocol.Event]] = []
        self.struck: set[tuple[str, str]] = set()
        self._steps: dict[tuple[int, int], Step | None] = {}
        self.workers: list[Local] = []
        self.held: list[int] = []
        self.claims: list[bool] = []
        self._numbers: dict[Local, int] = {}
        self._looks: list[tuple[bool, bool, bool]] = []
        self._behind: dict[tuple[int, str], int] = {}
        self._surveys: dict[tuple[Any, ...], protocol.Surveyed] = {}
        self._delivered: dict[tuple[Sent, int, int, bool], int] = {}
        self._worked_out: dict[tuple[int, Parts, int], tuple[tuple[int, Move], ...]] = {}
        self._budget = Budget()

    def first(self) -> Parts:
        """Nothing has happened."""
        lake = Lake(self.names.of(Ledger(ORIGIN)))
        return Parts(self.names.of(Source(0, 0)), self.names.of(lake), (), (), self.model.faults)

    def worker(self, local: Local) -> int:
        """The number of what a worker is like."""
        number = self._numbers.get(local)
        if number is None:
            number = self._numbers[local] = len(self.workers)
            effect = self.names.values[local.effect] if local.effect >= 0 else None
            self.workers.append(local)
            self.held.append(local.held)
            self.claims.append(isinstance(effect, protocol.ClaimShards))
            looks = _LOOKS[type(effect)] | (_ARRIVING if local.flying else frozenset())
            looks = looks if self.habits == Habits() else _ANYTHING
            self._looks.append(("source" in looks, "lake" in looks, "checkpoints" in looks))
        return number

    def of(self, worker: int, parts: Parts, taken: int) -> tuple[tuple[int, Move], ...]:
        """What a worker can do, with its number afterwards; `taken` are shards that others hold, as bits."""
        source, lake, checkpoints = self._looks[worker]
        seen = Parts(
            parts.source if source else _UNSEEN,
            parts.lake if lake else _UNSEEN,
            parts.checkpoints if checkpoints else _UNSEEN,
            _UNSEEN,
            parts.faults and 1,
        )
        key = (worker, seen, taken if self.claims[worker] else 0)
        found = self._worked_out.get(key)
        if found is None:
            local = self.workers[worker]
            effect = self.names.values[local.effect] if local.effect >= 0 else None
            moves = list(self._work_out(local, effect, seen, taken))
            found = self._worked_out[key] = tuple([(self.worker(move.local), move) for move in moves])
            self.struck |= {(move.fault, type(effect).__name__) for move in moves if move.fault}
        return found

    def after(self, parts: Parts, move: Move) -> Parts:
        """What is shared after a worker's move."""
        lost = parts.lost if not move.others or self.habits.rebase else ()
        return Parts(
            parts.source,
            parts.lake if move.lake is None else move.lake,
            parts.checkpoints if move.checkpoints is None else move.checkpoints,
            tuple(sorted({*lost, *move.lost})) if move.lost else lost,
            parts.faults - bool(move.fault),
        )

    def behind(self, worker: int, how: str) -> int:
        """The worker's number after somebody moved the table, or its own when nobody did."""
        if not how:
            return worker
        known = self._behind.get((worker, how))
        if known is None:
            known = self._behind[worker, how] = self.worker(self.outdated(self.workers[worker], how))
        return known

    def _work_out(self, local: Local, effect: Any, parts: Parts, taken: int) -> Iterator[Move]:
        kinds = self._kinds(parts)
        if effect is None:
            yield from self._begin(parts)
            return
        if isinstance(effect, protocol.ClaimShards):
            yield from self._claim(local, parts, taken)
        else:
            yield from _DO[type(effect)](self, local, effect, parts)
        if CRASH in kinds:
            yield Move(CRASH, IDLE, CRASH, lost=local.flying)
        if CLAIM_LOST in kinds and local.held:
            yield Move(CLAIM_LOST, local._replace(held=0), CLAIM_LOST)
        if SWEEP in kinds and local.files and not local.swept:
            swept = self.outdated(local._replace(swept=True), "moved")
            yield Move(SWEEP, swept, SWEEP, others="moved")
        for number in local.flying:
            made = self.deliver(self.names.values[number], parts, swept=local.swept)
            if made is not None:
                self.seen["a late request landed"] += 1
                waiting = local._replace(flying=tuple(n for n in local.flying if n != number))
                yield Move("a late request lands", self._own(waiting), lake=made, others="landed")

    def outdated(self, local: Local, how: str) -> Local:
        """The worker after somebody moved the table: its base is old, its requests are refused."""
        flying = local.flying if self.habits.rebase else ()
        return local._replace(fresh=False, landed=_LANDED[how][local.landed], flying=flying)

    def _own(self, local: Local) -> Local:
        return self.outdated(local, "landed")._replace(landed=1)

    def _feed(self, local: Local, event: protocol.Event, label: str, fault: str = "") -> Move:
        """The move in which the worker hands `event` to the protocol."""
        found = self._step(local.state, self.names.of(event))
        if found is None:
            return Move(f"{label}, run ends", IDLE, fault=fault, lost=local.flying)
        state, effect, phase = found
        if effect < 0:
            return Move(f"{label}, run ends", IDLE, fault=fault, lost=local.flying)
        local = local._replace(state=state, effect=effect, listed=None)
        if phase not in _NO_BASE:
            return Move(label, local, fault=fault)
        # The attempt is over: no later question of this worker is about its tries.
        lost = local.flying
        local = local._replace(fresh=False, schema=0, files=(), swept=False, landed=0, flying=())
        return Move(label, local, fault=fault, lost=lost)

    def _step(self, state: int, event: int) -> Step | None:
        key = (state, event)
        if key in self._steps:
            return self._steps[key]
        before, what = self.names.values[state], self.names.values[event]
        self.taken_steps.append((before, what))
        result: Step | None = None
        try:
            after, effects = protocol.step(before, what)
        except InvariantBroken:
            raise
        except SlsError as error:
            self.seen[f"run ended: {type(error).__name__}"] += 1
        else:
            effect = self.names.of(effects[0]) if effects else -1
            result = (self.names.of(essence(after)), effect, after.phase)
        self._steps[key] = result
        return result

    def _end(self, local: Local, error: str, fault: str = "") -> Move:
        self.seen[f"run ended: {error}"] += 1
        return Move(f"run ends: {error}", IDLE, fault=fault, lost=local.flying)

    # --- effects ---------------------------------------------------------------------------------

    def _begin(self, parts: Parts) -> Iterator[Move]:
        now_s = self._service(parts).now_s
        for live in (True, False) if self.model.fills else (True,):
            setting = protocol.Setting(
                live=live,
                ordered=True,
                budget=self._budget,
                until_s=now_s - 10,
                replans_max=self.model.replans_max,
                tries_max=self.model.tries_max,
            )
            local = IDLE._replace(state=self.names.of(protocol.State(setting)))
            yield self._feed(local, protocol.Begin(), "begin" if live else "begin a fill")

    def _claim(self, local: Local, parts: Parts, taken: int) -> Iterator[Move]:
        listed = [s.id for s in self._service(parts).listed()]
        if not self._live(local):
            yield self._feed(local, protocol.Claimed(Claim("", frozenset(listed))), "claim")
            return
        free = [s for s in listed if not taken >> s & 1]
        if not free:
            yield self._end(local, "ClaimLost")
            return
        grants = [free]
        if self.model.singles and len(free) > 1:
            grants += [[s] for s in free]
        for grant in grants:
            held = local._replace(held=sum(1 << s for s in grant))
            yield self._feed(held, protocol.Claimed(Claim("", frozenset(grant))), f"claim {grant}")

    def _read(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        lake = self._lake(parts)
        if lake.rolled_back and not self.habits.append_after_rollback:
            yield self._end(local, "LedgerBroken")
            return
        early = self.names.values[parts.source] if self.habits.end_before_status else None
        local = local._replace(fresh=True, schema=lake.schema, early=early)
        yield self._feed(local, protocol.LedgerRead(self._ledger(lake)), "read the ledger")

    def _starts(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        starts = {s.id: Cursor(s.begin) for s in self._service(parts).listed()}
        yield self._feed(local, protocol.StartResolved(starts), "resolve the start")

    def _survey(self, local: Local, effect: protocol.SurveyShards, parts: Parts) -> Iterator[Move]:
        """First the listing with each shard's status; then, perhaps much later, each shard's ends."""
        if local.listed is None:
            yield Move("list the shards", local._replace(listed=self.names.values[parts.source]))
            return
        event = self._surveyed(local, local.listed, effect, parts)
        yield self._feed(local._replace(early=None), event, "survey")
        kinds = self._kinds(parts) if self._live(local) else frozenset()
        for kind, told in ((LIE, ONE_KIND), (LIES, TWO_KINDS)):
            for label, lie in all_lies(event, effect.ledger, told) if kind in kinds else ():
                yield self._feed(local._replace(early=None), lie, label, kind)

    def _surveyed(
        self, local: Local, seen: Source, effect: protocol.SurveyShards, parts: Parts
    ) -> protocol.Surveyed:
        live, until_s = self._live(local), self._state(local).setting.until_s
        saved = parts.checkpoints if self.habits.plan_from_checkpoint else ()
        key = (local.effect, seen, local.early, parts.source, saved, live, until_s)
        if key in self._surveys:
            return self._surveys[key]
        now = self._service(parts)
        early = service(self.model, local.early) if local.early is not None else now
        listed = service(self.model, seen).listed()
        surveys: dict[int, Survey] = {}
        for shard in listed:
            known = effect.ledger.shards.get(shard.id)
            closed = live and known is not None and known.closed
            if live and shard.id not in effect.claim.shards and not closed:
                continue
            try:
                head = now.head(shard.id, readonly=shard.readonly)
            except Gone:
                surveys[shard.id] = Survey(shard.id, None)
                continue
            if shard.id in early.shards:
                head = Head(head.shard, head.begin, Cursor(max(early.shards[shard.id].end, head.begin)))
            if closed and not shown_again(head, effect.ledger):
                continue
            entry = effect.ledger.shard(shard.id, begin=head.begin)
            entry = opened(entry) if closed else entry
            frontier = Cursor(dict(saved).get(shard.id, entry.frontier))
            if live:
                self.seen["shown again"] += closed
                survey = model_survey_live(now, head, frontier, until_s)
                survey = second_answers(survey, effect.ledger.with_shards({shard.id: entry} if known else {}))
                surveys[shard.id] = replace(survey, opened=closed)
            else:
                second = range(FIRST_HOUR + 1, FIRST_HOUR + 2)
                surveys[shard.id] = model_survey_hours(now, head, second, until_s)
        values = tuple(s.value for s in listed)
        surveys |= unlisted(now, values, effect.ledger) if live else {}
        event = protocol.Surveyed(values, surveys, now.now_s)
        self._surveys[key] = self.names.values[self.names.of(event)]
        return self._surveys[key]

    def _write(self, local: Local, effect: protocol.WriteWindows, parts: Parts) -> Iterator[Move]:
        now, planned = self._service(parts), effect.plan.windows
        whole = [self._pull(now, p, local.schema, p.window.end) for p in planned]
        if None in whole:
            self.seen["retention overtook a window"] += 1
        yield from self._written(local, whole, "write")
        if PAGE not in self._kinds(parts):
            return
        for at, one in enumerate(planned):
            cursors = now.shards[one.window.shard].groups(one.window.begin, one.window.end)
            for end in cursors or [int(one.window.begin)]:
                part = self._pull(now, one, local.schema, end)
                yield from self._written(local, [*whole[:at], part, *whole[at + 1 :]], PAGE, fault=PAGE)

    def _pull(self, now: Service, planned: Planned, schema: int, end: int) -> File | None:
        window = planned.window
        shard = now.shards[window.shard]
        overtaken = shard.id in now.removed or shard.begin > window.begin
        if end <= window.begin or (overtaken and not self.habits.no_proof):
            return None
        done = Window(window.shard, window.begin, Cursor(end), window.hour)
        return File(0, done, tuple(c for c in shard.groups(done.begin, end) if c >= shard.begin), schema, 0)

    def _written(self, local: Local, files: list[File | None], label: str, fault: str = "") -> Iterator[Move]:
        kept = tuple(f for f in files if f is not None)
        windows = tuple(Landed(f.window, len(f.cursors), sum(f.cursors)) for f in kept)
        for valid in self._beliefs(local):
            event = protocol.Written(windows, {}, claim_valid=valid)
            yield self._feed(local._replace(files=kept), event, label + _known(valid), fault=fault)

    def _publish(self, local: Local, effect: protocol.Publish, parts: Parts) -> Iterator[Move]:
        number = len(self._state(local).tries) + 1
        wanted = {x.window for x in effect.delta.windows}
        if number > 1:
            self.seen["the same files were sent again"] += 1
            self.seen["some windows were lost, the others sent again"] += len(wanted) < len(local.files)
        files = tuple(f for f in local.files if f.window in wanted)
        sent = Sent(local.effect, files, self._live(local), local.fresh)
        if self.habits.checkpoint_first:
            saved = tuple((s, int(e.frontier)) for s, e in effect.ledger.shards.items())
            self.judge_checkpoints(saved, parts)
        unknown = protocol.Answered(number, accepted=False)
        made = self.deliver(sent, parts, swept=local.swept)
        if made is None:
            self.seen["a try was refused"] += 1
            yield self._feed(local, unknown, "publish: refused")
            return
        kinds, done = self._kinds(parts), self._own(local)
        accepted = self._feed(done, protocol.Answered(number, accepted=True), "publish: accepted")
        yield accepted._replace(lake=made, others="landed")
        if ANSWER_LOST in kinds:
            self.seen["an answer was lost"] += 1
            move = self._feed(done, unknown, f"publish: {ANSWER_LOST}", ANSWER_LOST)
            yield move._replace(lake=made, others="landed")
        if REQUEST_LOST in kinds:
            yield self._feed(local, unknown, f"publish: {REQUEST_LOST}", REQUEST_LOST)
        waiting = local._replace(flying=tuple(sorted({*local.flying, self.names.of(sent)})))
        if LATE in kinds:
            yield self._feed(waiting, unknown, f"publish: {LATE}", LATE)
        if CRASH in kinds:
            yield Move(f"{CRASH}, its request on its way", IDLE, CRASH, lost=waiting.flying)

    def _reload(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        lake = self._lake(parts)
        if UNREADABLE in self._kinds(parts):
            yield self._end(local, "LandingUnknown", UNREADABLE)
        if lake.rolled_back and not local.landed and not self.habits.append_after_rollback:
            yield self._end(local, "LedgerBroken")
            return
        fits = lake.schema == local.schema
        self.seen["unknown was landed" if local.landed else "unknown was not landed"] += 1
        self.seen["files too old"] += local.swept
        self.seen["schema or spec moved"] += not fits
        deleted = local.swept or (self.habits.delete_on_refusal and not local.landed)
        for valid in self._beliefs(local):
            event = protocol.Reloaded(
                1 if local.landed else None, self._ledger(lake), fits, not local.swept, claim_valid=valid
            )
            yield self._feed(local._replace(fresh=True, swept=deleted), event, "reload" + _known(valid))

    def _reconcile(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        problems = ("rolled back",) if self._lake(parts).rolled_back else ()
        yield self._feed(local, protocol.Reconciled(problems), "reconcile")

    def _checkpoint(self, local: Local, effect: protocol.PublishCheckpoints, parts: Parts) -> Iterator[Move]:
        saved = dict(parts.checkpoints)
        for shard, cursor in effect.frontiers.items():
            if self.habits.forced_checkpoint_of_end and shard not in self._service(parts).removed:
                saved[shard] = self._service(parts).shards[shard].end
            elif local.held >> shard & 1 and (saved.get(shard, -1) < cursor or shard in effect.closed):
                saved[shard] = int(cursor)
        made = tuple(sorted(saved.items()))
        self.judge_checkpoints(made, parts)
        move = self._feed(local, protocol.CheckpointsPublished(), "checkpoint")
        yield move._replace(checkpoints=made)
        if PUT_OFF in self._kinds(parts):
            yield move._replace(label=PUT_OFF, fault=PUT_OFF)

    def _release(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        yield self._feed(local._replace(held=0), protocol.Released(), "release")

    # --- the service, other people, requests whose sender is gone --------------------------------

    def of_others(self, parts: Parts) -> Iterator[tuple[str, Parts, str]]:
        """(label, parts afterwards, what it does to every worker's base)."""
        source, lake = self.names.values[parts.source], self._lake(parts)
        if source.stage < self.last_stage:
            yield "the service goes on", self._at(parts, source._replace(stage=source.stage + 1)), ""
        for number in parts.lost:
            made = self.deliver(self.names.values[number], parts, swept=False)
            if made is not None:
                self.seen["a late request landed"] += 1
                yield "a late request lands", parts._replace(lake=made, lost=()), "landed"
        if lake.rolled_back and lake.before is not None:
            settled = Lake(lake.before[0], lake.rows, lake.schema, fallen=True)
            yield "a person settles", parts._replace(lake=self.names.of(settled), lost=()), "moved"
        if not parts.faults:
            return
        fewer = parts._replace(faults=parts.faults - 1)
        if RETENTION in self.model.kinds and source.expired < source.stage:
            yield RETENTION, self._at(fewer, source._replace(expired=source.expired + 1)), ""
        if not self._ledger(lake).started:
            return
        if COMMIT in self.model.kinds:
            yield COMMIT, fewer._replace(lost=self._still(parts)), "moved"
        if SCHEMA in self.model.kinds and not lake.schema:
            other = lake._replace(schema=1)
            yield SCHEMA, fewer._replace(lake=self.names.of(other), lost=self._still(parts)), "moved"
        older = lake.before if ROLLBACK in self.model.kinds and not lake.rolled_back else None
        if older is not None and self.names.values[older[0]].started:
            self.seen["rolled back by hand"] += 1
            back = lake._replace(rows=older[1], rolled_back=True)
            yield ROLLBACK, fewer._replace(lake=self.names.of(back), lost=self._still(parts)), "rolled back"

    def _still(self, parts: Parts) -> tuple[int, ...]:
        return parts.lost if self.habits.rebase else ()

    def _at(self, parts: Parts, source: Source) -> Parts:
        return parts._replace(source=self.names.of(source))

    # --- the table -------------------------------------------------------------------------------

    def deliver(self, sent: Sent, parts: Parts, *, swept: bool) -> int | None:
        """The table after a request arrived, None when it is refused. Raises Violated."""
        if not sent.fresh and not (self.habits.rebase and self._ledger(self._lake(parts)).started):
            return None
        key = (sent, parts.source, parts.lake, swept)
        made = self._delivered.get(key)
        if made is None:
            made = self._delivered[key] = self._deliver(sent, parts, swept=swept)
        return made

    def _deliver(self, sent: Sent, parts: Parts, *, swept: bool) -> int:
        lake = self._lake(parts)
        before = self._ledger(lake)
        effect: protocol.Publish = self.names.values[sent.effect]
        files = frozenset(
            File(-1 if swept else n, f.window, f.cursors, f.schema, 0) for n, f in enumerate(sent.files)
        )
        request = Request(0, None, None, lake.schema, 0, files, effect, sent.live)
        self.checks.before(self._service(parts), table_of(lake, before), request)
        rows = tuple(sorted([*lake.rows, *((f.window.shard, c) for f in files for c in f.cursors)]))
        kept = (lake.ledger, lake.rows) if ROLLBACK in self.model.kinds else None
        made = Lake(self.names.of(effect.ledger), rows, lake.schema, kept, fallen=lake.fallen)
        if made.ledger == lake.ledger:
            raise Violated("a landing that changes nothing")
        self._judge_rows(made, parts)
        for shard, entry in before.shards.items():
            after = effect.ledger.shards.get(shard)
            if after is None or after.start != entry.start:
                raise Violated(f"shard {shard}: its history begins elsewhere now")
            if after.frontier < entry.frontier < CURSOR_UNKNOWN:
                raise Violated(f"shard {shard}: the frontier went back")
        return self.names.of(made)

    def _judge_rows(self, lake: Lake, parts: Parts) -> None:
        if len(set(lake.rows)) < len(lake.rows):
            raise Violated(f"rows twice: {lake.rows}")
        for shard, entry in self._ledger(lake).shards.items():
            rows = [c for s, c in lake.rows if s == shard]
            truth = self._service(parts).shards[shard]
            said = [c for begin, end in entry.landed for c in truth.groups(begin, end)]
            if rows != said or (len(rows), sum(rows)) != (entry.rows, entry.sum):
                raise Violated(f"shard {shard}: the ledger says {said}, the table has {rows}")
            if entry.closed and entry.frontier != entry.end:
                raise Violated(f"shard {shard}: closed at {entry.end}, its frontier is {entry.frontier}")
            if any(entry.landed.overlaps(g.begin, g.end) for g in entry.gaps):
                raise Violated(f"shard {shard}: rows inside a gap")
        if {s for s, _ in lake.rows} - set(self._ledger(lake).shards):
            raise Violated("rows of a shard that the ledger does not know")

    def judge_checkpoints(self, made: tuple[tuple[int, int], ...], parts: Parts) -> None:
        """No checkpoint is beyond its frontier, none goes back; a rollback by a person excuses both."""
        lake, before = self._lake(parts), dict(parts.checkpoints)
        shards = self._ledger(lake).shards
        for shard, cursor in made if not lake.fallen else ():
            frontier = shards[shard].frontier if shard in shards else -1
            if cursor > frontier:
                raise Violated(f"shard {shard}: checkpoint {cursor} is beyond the frontier {frontier}")
            if cursor < before.get(shard, -1):
                raise Violated(f"shard {shard}: the checkpoint went back to {cursor}")

    def judge_end(self, parts: Parts) -> None:
        """Nothing is left to do: everything must be there."""
        now, lake = self._service(parts), self._lake(parts)
        self.checks.at_the_end(now, table_of(lake, self._ledger(lake)), now.now_s - 10)

    # --- reading numbers -------------------------------------------------------------------------

    def _service(self, parts: Parts) -> Service:
        return service(self.model, self.names.values[parts.source])

    def _lake(self, parts: Parts) -> Lake:
        found: Lake = self.names.values[parts.lake]
        return found

    def _ledger(self, lake: Lake) -> Ledger:
        found: Ledger = self.names.values[lake.ledger]
        return found

    def _state(self, local: Local) -> protocol.State:
        found: protocol.State = self.names.values[local.state]
        return found

    def _kinds(self, parts: Parts) -> frozenset[str]:
        """The faults that may still happen."""
        return self.model.kinds if parts.faults else frozenset()

    def _live(self, local: Local) -> bool:
        return self._state(local).setting.live

    def _beliefs(self, local: Local) -> tuple[bool, ...]:
        """What a worker may think of its claim: a paused one has not heard yet that its shards are gone."""
        claim = self._state(local).claim
        if not self._live(local) or claim is None or all(local.held >> s & 1 for s in claim.shards):
            return (True,)
        return (True, False)


def _known(valid: bool) -> str:
    return "" if valid else ", the claim is gone"


_DO: dict[type, Callable[[Moves, Local, Any, Parts], Iterator[Move]]] = {
    protocol.ReadLedger: Moves._read,
    protocol.ResolveStart: Moves._starts,
    protocol.SurveyShards: Moves._survey,
    protocol.WriteWindows: Moves._write,
    protocol.Publish: Moves._publish,
    protocol.Reload: Moves._reload,
    protocol.Reconcile: Moves._reconcile,
    protocol.PublishCheckpoints: Moves._checkpoint,
    protocol.Release: Moves._release,
}
_LOOKS: dict[type, frozenset[str]] = {
    type(None): frozenset({"source"}),
    protocol.ClaimShards: frozenset({"source"}),
    protocol.ReadLedger: frozenset({"lake"}),
    protocol.ResolveStart: frozenset({"source"}),
    protocol.SurveyShards: frozenset({"source"}),
    protocol.WriteWindows: frozenset({"source"}),
    protocol.Publish: frozenset({"source", "lake"}),
    protocol.Reload: frozenset({"lake"}),
    protocol.Reconcile: frozenset({"lake"}),
    protocol.PublishCheckpoints: frozenset({"lake", "checkpoints"}),
    protocol.Release: frozenset(),
}
"""The parts of the world that an effect looks at, besides whether faults are left: it is shown no others."""
_ARRIVING = frozenset({"source", "lake"})
_ANYTHING = frozenset({"source", "lake", "checkpoints"})
"""What drivers with bad habits look at."""
_UNSEEN: Any = None
