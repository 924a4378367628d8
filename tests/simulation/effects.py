"""What a worker can do next: each effect of the protocol carried out against values, in every way it can go.

The decisions are those of production's `protocol.step` (`steps.py`). What an effect asks of the service and
of the table is looked up, what it sends to the table is delivered by the catalog (`others.py`), and what
it makes is judged (`judging.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pipelines.landing.ledger import epochs
from pipelines.landing.ledger.epochs import Epoch, Fenced
from pipelines.landing.ledger.values import Landed
from pipelines.landing.run import protocol
from sls_io.planning.values import PlannedWindow, Survey
from sls_io.values.claim import Claim
from sls_io.values.settings import Budget
from sls_io.values.shard import Head
from sls_io.values.window import Cursor, Window
from tests.simulation.judging import Judge
from tests.simulation.lookups import Lookups
from tests.simulation.model import (
    ANSWER_LOST,
    CRASH,
    FENCED,
    FIRST_HOUR,
    IDLE,
    LATE,
    LIE,
    LIES,
    PAGE,
    PUT_OFF,
    REQUEST_LOST,
    UNREADABLE,
    Lake,
    Local,
    Move,
    Parts,
    Sent,
    Source,
    service,
)
from tests.simulation.others import Catalog
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
from tests.simulation.steps import Steps
from tests.simulation.table import File
from tests.simulation.worker import Habits

_ME = "me"
_SETTLE_S = 10


class Effects:
    """The moves of a worker that carries out its effect. `habits` are bugs of its driver."""

    def __init__(
        self, lookups: Lookups, steps: Steps, catalog: Catalog, judge: Judge, habits: Habits
    ) -> None:
        self.lookups, self.steps, self.catalog = lookups, steps, catalog
        self.judge, self.habits = judge, habits
        self.seen: Counter[str] = judge.checks.seen
        self._surveys: dict[tuple[Any, ...], protocol.Surveyed] = {}
        self._budget = Budget()

    def of(self, local: Local, parts: Parts, taken: int) -> Iterator[Move]:
        """Every way that a worker's effect can go; `taken` are shards that others hold, as bits.

        Raises Violated or InvariantBroken where a move must not happen.
        """
        effect = self.lookups.effect(local)
        if effect is None:
            yield from self._begin(parts)
        elif isinstance(effect, protocol.ClaimShards):
            yield from self._claim(local, parts, taken)
        else:
            yield from _DO[type(effect)](self, local, effect, parts)

    def _begin(self, parts: Parts) -> Iterator[Move]:
        now_s = self.lookups.service(parts).now_s
        for live in (True, False) if self.lookups.model.fills else (True,):
            setting = protocol.Setting(
                live=live,
                ordered=True,
                budget=self._budget,
                until_s=now_s - _SETTLE_S,
                replans_max=self.lookups.model.replans_max,
                tries_max=self.lookups.model.tries_max,
            )
            local = IDLE._replace(state=self.lookups.names.of(protocol.State(setting)))
            yield self.steps.feed(local, protocol.Begin(), "begin" if live else "begin a fill")

    def _claim(self, local: Local, parts: Parts, taken: int) -> Iterator[Move]:
        listed = [s.id for s in self.lookups.service(parts).listed()]
        if not self._live(local):
            yield self.steps.feed(local, protocol.Claimed(Claim("", frozenset(listed))), "claim")
            return
        free = [s for s in listed if self.lookups.model.one_name or not taken >> s & 1]
        if not free:
            yield self.steps.ended(local, "ClaimLost")
            return
        grants = [free]
        if self.lookups.model.singles and len(free) > 1:
            grants += [[s] for s in free]
        for grant in grants:
            held = local._replace(held=sum(1 << s for s in grant))
            yield self.steps.feed(held, protocol.Claimed(Claim("", frozenset(grant))), f"claim {grant}")

    def _read(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        lake = self.lookups.lake(parts)
        if lake.rolled_back and not self.habits.append_after_rollback:
            yield self.steps.ended(local, "LedgerBroken")
            return
        early = self.lookups.source(parts) if self.habits.end_before_status else None
        local = local._replace(fresh=True, schema=lake.schema, early=early)
        if self.lookups.model.one_name and self._live(local) and local.epoch < 0:
            begun_s = self.lookups.state(local).setting.until_s + _SETTLE_S
            local = local._replace(epoch=epochs.taken(_ME, begun_s, _newest(local, lake)).number)
        ledger = self.lookups.ledger(lake)
        yield self.steps.feed(local, protocol.LedgerRead(ledger, _fenced(local, lake)), "read the ledger")
        for why in Fenced if FENCED in self.lookups.kinds(parts) else ():
            yield self.steps.feed(local, protocol.LedgerRead(ledger, why), f"read: {FENCED}", FENCED)

    def _starts(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        starts = {s.id: Cursor(s.begin) for s in self.lookups.service(parts).listed()}
        yield self.steps.feed(local, protocol.StartResolved(starts), "resolve the start")

    def _survey(self, local: Local, effect: protocol.SurveyShards, parts: Parts) -> Iterator[Move]:
        """First the listing with each shard's status; then, perhaps much later, each shard's ends."""
        if local.listed is None:
            yield Move("list the shards", local._replace(listed=self.lookups.source(parts)))
            return
        event = self._surveyed(local, local.listed, effect, parts)
        yield self.steps.feed(local._replace(early=None), event, "survey")
        kinds = self.lookups.kinds(parts) if self._live(local) else frozenset()
        for kind, told in ((LIE, ONE_KIND), (LIES, TWO_KINDS)):
            for label, lie in all_lies(event, effect.ledger, told) if kind in kinds else ():
                yield self.steps.feed(local._replace(early=None), lie, label, kind)

    def _surveyed(
        self, local: Local, seen: Source, effect: protocol.SurveyShards, parts: Parts
    ) -> protocol.Surveyed:
        live, until_s = self._live(local), self.lookups.state(local).setting.until_s
        saved = parts.checkpoints if self.habits.plan_from_checkpoint else ()
        key = (local.effect, seen, local.early, parts.source, saved, live, until_s)
        if key in self._surveys:
            return self._surveys[key]
        now = self.lookups.service(parts)
        early = service(self.lookups.model, local.early) if local.early is not None else now
        listed = service(self.lookups.model, seen).listed()
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
            entry = entry.opened_again() if closed else entry
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
        self._surveys[key] = self.lookups.names.values[self.lookups.names.of(event)]
        return self._surveys[key]

    def _write(self, local: Local, effect: protocol.WriteWindows, parts: Parts) -> Iterator[Move]:
        now, planned = self.lookups.service(parts), effect.plan.windows
        whole = [self._pull(now, p, local.schema, p.window.end) for p in planned]
        if None in whole:
            self.seen["retention overtook a window"] += 1
        yield from self._written(local, whole, "write")
        if PAGE not in self.lookups.kinds(parts):
            return
        for at, one in enumerate(planned):
            cursors = now.shards[one.window.shard].groups(one.window.begin, one.window.end)
            for end in cursors or [int(one.window.begin)]:
                part = self._pull(now, one, local.schema, end)
                yield from self._written(local, [*whole[:at], part, *whole[at + 1 :]], PAGE, fault=PAGE)

    def _pull(self, now: Service, planned: PlannedWindow, schema: int, end: int) -> File | None:
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
            event = protocol.WindowsWritten(windows, {}, claim_valid=valid)
            yield self.steps.feed(local._replace(files=kept), event, label + _known(valid), fault=fault)

    def _publish(self, local: Local, effect: protocol.Publish, parts: Parts) -> Iterator[Move]:
        number = len(self.lookups.state(local).tries) + 1
        wanted = {x.window for x in effect.delta.windows}
        if number > 1:
            self.seen["the same files were sent again"] += 1
            self.seen["some windows were lost, the others sent again"] += len(wanted) < len(local.files)
        files = tuple(f for f in local.files if f.window in wanted)
        sent = Sent(local.effect, files, self._live(local), local.fresh, local.epoch)
        if self.habits.checkpoint_first:
            saved = tuple((s, int(e.frontier)) for s, e in effect.ledger.shards.items())
            self.judge.checkpoints(saved, parts)
        unknown = protocol.Answered(number, accepted=False)
        made = self.catalog.deliver(sent, parts, swept=local.swept)
        if made is None:
            self.seen["a try was refused"] += 1
            yield self.steps.feed(local, unknown, "publish: refused")
            return
        kinds, done = self.lookups.kinds(parts), self.catalog.landed(local)
        accepted = self.steps.feed(done, protocol.Answered(number, accepted=True), "publish: accepted")
        yield accepted._replace(lake=made, others="landed")
        if ANSWER_LOST in kinds:
            self.seen["an answer was lost"] += 1
            move = self.steps.feed(done, unknown, f"publish: {ANSWER_LOST}", ANSWER_LOST)
            yield move._replace(lake=made, others="landed")
        if REQUEST_LOST in kinds:
            yield self.steps.feed(local, unknown, f"publish: {REQUEST_LOST}", REQUEST_LOST)
        waiting = local._replace(flying=tuple(sorted({*local.flying, self.lookups.names.of(sent)})))
        if LATE in kinds:
            yield self.steps.feed(waiting, unknown, f"publish: {LATE}", LATE)
        if CRASH in kinds:
            yield Move(f"{CRASH}, its request on its way", IDLE, CRASH, lost=waiting.flying)

    def _reload(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        lake = self.lookups.lake(parts)
        if UNREADABLE in self.lookups.kinds(parts):
            yield self.steps.ended(local, "LandingUnknown", UNREADABLE)
        if lake.rolled_back and not local.landed and not self.habits.append_after_rollback:
            yield self.steps.ended(local, "LedgerBroken")
            return
        fits = lake.schema == local.schema
        self.seen["unknown was landed" if local.landed else "unknown was not landed"] += 1
        self.seen["files too old"] += local.swept
        self.seen["schema or spec moved"] += not fits
        deleted = local.swept or (self.habits.delete_on_refusal and not local.landed)
        for valid in self._beliefs(local):
            event = protocol.Reloaded(
                1 if local.landed else None,
                self.lookups.ledger(lake),
                fits,
                not local.swept,
                claim_valid=valid,
                fenced=_fenced(local, lake),
            )
            yield self.steps.feed(local._replace(fresh=True, swept=deleted), event, "reload" + _known(valid))
        for why in Fenced if FENCED in self.lookups.kinds(parts) and not local.landed else ():
            event = protocol.Reloaded(None, self.lookups.ledger(lake), fits, not local.swept, fenced=why)
            yield self.steps.feed(
                local._replace(fresh=True, swept=deleted), event, f"reload: {FENCED}", FENCED
            )

    def _reconcile(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        problems = ("rolled back",) if self.lookups.lake(parts).rolled_back else ()
        yield self.steps.feed(local, protocol.Reconciled(problems), "reconcile")

    def _checkpoint(self, local: Local, effect: protocol.PublishCheckpoints, parts: Parts) -> Iterator[Move]:
        saved, lake = dict(parts.checkpoints), self.lookups.lake(parts)
        fenced = _fenced(local, lake) is not None and not self.habits.checkpoints_unfenced
        if local.epoch >= 0 and not fenced:
            self.judge.newest(local.epoch, lake)
        for shard, cursor in effect.frontiers.items() if not fenced else ():
            if self.habits.forced_checkpoint_of_end and shard not in self.lookups.service(parts).removed:
                saved[shard] = self.lookups.service(parts).shards[shard].end
            elif local.held >> shard & 1 and (saved.get(shard, -1) < cursor or shard in effect.closed):
                saved[shard] = int(cursor)
        made = tuple(sorted(saved.items()))
        self.judge.checkpoints(made, parts)
        move = self.steps.feed(local, protocol.CheckpointsPublished(), "checkpoint")
        yield move._replace(checkpoints=made)
        if PUT_OFF in self.lookups.kinds(parts):
            yield move._replace(label=PUT_OFF, fault=PUT_OFF)

    def _release(self, local: Local, _: Any, parts: Parts) -> Iterator[Move]:
        yield self.steps.feed(local._replace(held=0), protocol.Released(), "release")

    def _live(self, local: Local) -> bool:
        return self.lookups.state(local).setting.live

    def _beliefs(self, local: Local) -> tuple[bool, ...]:
        """What a worker may think of its claim: a paused one has not heard yet that its shards are gone."""
        claim = self.lookups.state(local).claim
        if not self._live(local) or claim is None or all(local.held >> s & 1 for s in claim.shards):
            return (True,)
        return (True, False)


def _newest(local: Local, lake: Lake) -> Epoch | None:
    """The epoch in the table, as a run sees it."""
    return None if lake.epoch < 0 else Epoch(lake.epoch, _ME if local.newest else "another")


def _fenced(local: Local, lake: Lake) -> Fenced | None:
    """As production's `Fencing.look`."""
    if local.epoch < 0 or not Epoch(local.epoch, _ME).fenced_by(_newest(local, lake)):
        return None
    return Fenced.NEWER


def _known(valid: bool) -> str:
    return "" if valid else ", the claim is gone"


_DO: dict[type, Callable[[Effects, Local, Any, Parts], Iterator[Move]]] = {
    protocol.ReadLedger: Effects._read,
    protocol.ResolveStart: Effects._starts,
    protocol.SurveyShards: Effects._survey,
    protocol.WriteWindows: Effects._write,
    protocol.Publish: Effects._publish,
    protocol.Reload: Effects._reload,
    protocol.Reconcile: Effects._reconcile,
    protocol.PublishCheckpoints: Effects._checkpoint,
    protocol.Release: Effects._release,
}
LOOKS: dict[type, frozenset[str]] = {
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
