"""A landing as a state machine of named effects. Pure: no time, random, threads, sockets, tables.

    claim -> read ledger -> survey -> plan -> write -> publish -> reconcile -> checkpoint -> release

`step(state, event)` returns the next state and the effects to carry out; whoever drives it (the
production run, a simulator, an exhaustive checker) answers each effect with its event. A landing on
a table without a ledger publishes a first start (zero rows) and reads the ledger again.

After any answer to a publish but "accepted" the table is reloaded and facts decide, in this order:
one of our tries is in `main`: landed; a person aborted the landing: give up; a newer run of the same
deployment has committed: let go; schema or spec moved: plan again; our files may be swept:
plan again; the windows still fit: append the same files again; some lost: go on with the others;
all lost: plan again. A table rolled back by hand, or one that cannot be read, never gets here: the
driver raises LedgerBroken or LandingUnknown instead of answering.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from pipelines.landing.ledger.epochs import Fenced
from pipelines.landing.ledger.fence import commit_due, delta_of, merge
from pipelines.landing.ledger.values import Delta, Landed
from sls_io.planning.draft import Patience
from sls_io.planning.plan import plan_fill, plan_live
from sls_io.planning.values import LedgerChange, Plan, Survey
from sls_io.planning.waits import Wait
from sls_io.values.claim import CURSOR_UNKNOWN, Claim, Ledger
from sls_io.values.errors import ConfigError, InvariantBroken, LandingConflict
from sls_io.values.settings import Budget
from sls_io.values.shard import Shard
from sls_io.values.window import Cursor

_T = TypeVar("_T")


class Phase(StrEnum):
    """What the landing waits for."""

    NEW = "new"
    CLAIMING = "claiming"
    READING = "reading"
    STARTING = "starting"
    SURVEYING = "surveying"
    WRITING = "writing"
    PUBLISHING = "publishing"
    RELOADING = "reloading"
    RECONCILING = "reconciling"
    CHECKPOINTING = "checkpointing"
    RELEASING = "releasing"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Setting:
    """What does not change during a run. `live` moves frontiers and checkpoints; fill does not. `outage_s`:
    what is suspected for less than this is not believed. `name_gaps`: what retention took becomes a named
    gap; else the shard stops there.

    Both counts only end what would go on for ever. `tries_max` is about one set of files, and each try of it
    meets a table that has moved, or one that refuses; `replans_max` is about the whole run. Worked example:
    with 50 and 8 a run sends at most 450 tries for its windows, 50 for each of nine plans, and leaves the
    rest to the next run.
    """

    live: bool
    ordered: bool
    budget: Budget
    until_s: int
    outage_s: float = 0.0
    name_gaps: bool = True
    replans_max: int = 8
    tries_max: int = 50


# --- effects -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimShards:
    """Join and wait for shards."""


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """Load the table, prove and reconcile its ledger."""


@dataclass(frozen=True, slots=True)
class ResolveStart:
    """Resolve the reset policy once, for every listed shard."""


@dataclass(frozen=True, slots=True)
class SurveyShards:
    """Ask the service for heads and hour edges of the claimed shards."""

    ledger: Ledger
    claim: Claim


@dataclass(frozen=True, slots=True)
class WriteWindows:
    """Write the plan's windows to files nobody sees yet."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Publish:
    """One try: commit these windows and this ledger on the exact table state it was computed on."""

    delta: Delta
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Reload:
    """Load the table again and look for any of these tries."""

    tries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Check the landing under the tag: its files exist, its counts agree."""


@dataclass(frozen=True, slots=True)
class PublishCheckpoints:
    """Send these frontiers to whoever keeps checkpoints; `closed` even when unchanged."""

    frontiers: Mapping[int, Cursor]
    closed: frozenset[int]


@dataclass(frozen=True, slots=True)
class Release:
    """Let go of the shards."""


Effect = (
    ClaimShards
    | ReadLedger
    | ResolveStart
    | SurveyShards
    | WriteWindows
    | Publish
    | Reload
    | Reconcile
    | PublishCheckpoints
    | Release
)

# --- events --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    """Start the run."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The shards we may read."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class LedgerRead:
    """The proven ledger of the origin; `fenced`: why this run may commit no more, if so."""

    ledger: Ledger
    fenced: Fenced | None = None


@dataclass(frozen=True, slots=True)
class StartResolved:
    """Where each listed shard's history begins; `chosen` are those where a policy chose that. `ahead`: no
    history begins yet, and what each shard waits for."""

    starts: Mapping[int, Cursor]
    chosen: frozenset[int] = frozenset()
    ahead: Mapping[int, Wait] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Surveyed:
    """All listed shards, a survey of each that may be read, the service's time (unix seconds), and the
    shards that are left alone, with the reason."""

    shards: tuple[Shard, ...]
    surveys: Mapping[int, Survey]
    now_s: int = 0
    left: Mapping[int, Wait] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WindowsWritten:
    """What was proven, per window, with actual ends; stopped or overtaken windows as they ended.

    `waits` adds reasons for windows that ended early.
    """

    windows: tuple[Landed, ...]
    waits: Mapping[int, Wait]
    claim_valid: bool = True


@dataclass(frozen=True, slots=True)
class Answered:
    """A try was answered: accepted, or anything else at all, and `why` in that case, for people."""

    snapshot_id: int
    accepted: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Facts of the reloaded table; `landed` is the try found in main, if any. `fenced`: why this run may
    commit no more, if so."""

    landed: int | None
    ledger: Ledger
    files_fit: bool
    files_fresh: bool
    claim_valid: bool = True
    fenced: Fenced | None = None


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What disagrees in the landing under the tag; empty when nothing does."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckpointsPublished:
    """Checkpoints were sent (or put off: the next run repairs them)."""


@dataclass(frozen=True, slots=True)
class Released:
    """The shards are let go."""


Event = (
    Begin
    | Claimed
    | LedgerRead
    | StartResolved
    | Surveyed
    | WindowsWritten
    | Answered
    | Reloaded
    | Reconciled
    | CheckpointsPublished
    | Released
)


@dataclass(frozen=True, slots=True)
class State:
    """Where a landing is.

    `ledger` is the newest proven one; after a publish was accepted it is the one we published.
    `tries` are the snapshot ids of this attempt's requests; `landed` sums what was accepted; `suspected`
    is what the ledger suspected when this run first read it. `fenced`: why it let go before its end.
    `refusal`: why the last try was refused.

    Every field is a value, and `step` changes none in place: a search may keep a state, go on from it in two
    ways, and compare both ends. What is given up leaves it: to plan again takes out plan, delta and tries, so
    that what was planned on an old ledger cannot be published on a new one by an oversight.
    """

    setting: Setting
    phase: Phase = Phase.NEW
    claim: Claim | None = None
    ledger: Ledger | None = None
    plan: Plan | None = None
    delta: Delta | None = None
    tries: tuple[int, ...] = ()
    landed: tuple[Landed, ...] = ()
    snapshot_id: int | None = None
    waits: Mapping[int, Wait] | None = None
    problems: tuple[str, ...] = ()
    replans: int = 0
    conflicts: int = 0
    suspected: Mapping[int, int] | None = None
    fenced: Fenced | None = None
    refusal: str = ""


Step = tuple[State, tuple[Effect, ...]]


def step(state: State, event: Event) -> Step:
    """The next state and what to do. Raises InvariantBroken for an event that cannot come now.

    Raises LandingConflict when planning again did not help `replans_max` times, or a person aborted the
    landing.
    """
    handler = _HANDLERS.get((state.phase, type(event)))
    if handler is None:
        raise InvariantBroken(f"a landing that is {state.phase} cannot take {type(event).__name__}")
    return handler(state, event)


def _begin(state: State, _: Begin) -> Step:
    return replace(state, phase=Phase.CLAIMING), (ClaimShards(),)


def _claimed(state: State, event: Claimed) -> Step:
    return replace(state, phase=Phase.READING, claim=event.claim), (ReadLedger(),)


def _read(state: State, event: LedgerRead) -> Step:
    """The run begins a plan here: the first, one after a refusal, or the one behind a first start.

    What is suspected is noted only the first time, since only that is the look of an earlier run. A suspicion
    that turns up while this run plans again may come of the very outage that it is in, and a run that plans
    for longer than `outage_s` would agree with itself.
    """
    if event.fenced is not None:
        return _fenced(state, event.fenced)
    state = replace(state, ledger=event.ledger, delta=None, tries=())
    if state.suspected is None:
        known = {s: e.suspect_s for s, e in event.ledger.shards.items() if e.suspect_s}
        state = replace(state, suspected=known)
    if not event.ledger.started:
        return replace(state, phase=Phase.STARTING), (ResolveStart(),)
    claim = _there(state, state.claim, "has no claim")
    return replace(state, phase=Phase.SURVEYING), (SurveyShards(event.ledger, claim),)


def _start_resolved(state: State, event: StartResolved) -> Step:
    """A first start is a landing without rows: it brings where each listed shard begins, and nothing else.
    Only behind it is anything pulled. So a run that is killed in its first write has fixed where history
    begins, and what retention takes before the next one is a gap with a name.

    Raises ConfigError where no shard is listed. An empty start would be a history of nothing, and each shard
    that is listed later would count as a child and begin at its own begin.
    """
    origin = _ledger(state).origin
    if event.ahead:
        # A cursor of a time to come is the end of now. Fixed as the start, it would be published as a
        # checkpoint past logs that nobody has read, and an earlier `start` would come too late for them.
        return replace(state, phase=Phase.RELEASING, waits=event.ahead), (Release(),)
    if not event.starts:
        raise ConfigError("the logstore lists no shards, so its history cannot begin; check its name")
    change = LedgerChange(starts=dict(event.starts), chosen=event.chosen.intersection(event.starts))
    delta = Delta(origin, state.setting.live, change=change, first=True)
    return _publish(state, delta)


def _surveyed(state: State, event: Surveyed) -> Step:
    """From a survey to a plan, and from there one of three ways: windows are written; a change without rows
    that is worth a commit is published; else what is there is proven again, and checkpoints are repaired from
    it.

    Worked example: a shard was read up to 09:58 and nothing came since. At 09:59 the plan has no window and
    no hour's edge to pass: no commit. At 10:03 it has one: a commit without rows says that hour 9 is
    complete.
    """
    ledger, setting = _ledger(state), state.setting
    if setting.live:
        plan = plan_live(
            shards=event.shards,
            surveys=event.surveys,
            ledger=ledger,
            budget=setting.budget,
            until_s=setting.until_s,
            ordered=setting.ordered,
            patience=Patience(event.now_s, setting.outage_s, state.suspected or {}),
            left=event.left,
            name_gaps=setting.name_gaps,
        )
    else:
        plan = plan_fill(surveys=event.surveys, ledger=ledger, budget=setting.budget, until_s=setting.until_s)
    state = replace(state, plan=plan, waits=plan.waits)
    if plan.windows:
        return replace(state, phase=Phase.WRITING), (WriteWindows(plan),)
    if commit_due(plan.change, ledger):
        return _publish(state, Delta(plan.origin, plan.live, change=plan.change))
    return replace(state, phase=Phase.RECONCILING), (Reconcile(),)


def _written(state: State, event: WindowsWritten) -> Step:
    """What retention overtook or a stopped window left is not in the delta. Where nothing is left of it but
    what a run without rows would not commit either, nothing is committed."""
    plan = _there(state, state.plan, "has no plan")
    state = replace(state, waits={**plan.waits, **event.waits})
    if not event.claim_valid:
        return _again(state, Phase.CLAIMING, "the claim was lost while windows were written")
    delta = delta_of(plan, event.windows)
    unchanged = merge(_ledger(state), delta).ledger == _ledger(state)
    if not delta.windows and (unchanged or not commit_due(plan.change, _ledger(state))):
        return replace(state, phase=Phase.RECONCILING), (Reconcile(),)
    return _publish(state, delta)


def _answered(state: State, event: Answered) -> Step:
    """What counts is that the answer was "accepted". Anything else means: look.

    Each try has a snapshot id of its own, and all of them are looked for. Story: the first try is not
    answered, the second is refused, since the first has arrived meanwhile. Whoever looks for the second alone
    takes the landing of its own run for another's: it plans again, and reports no row.
    """
    state = replace(state, tries=(*state.tries, event.snapshot_id), refusal=event.why)
    if event.accepted:
        ledger = merge(_ledger(state), _delta(state)).ledger
        return _published(state, ledger, event.snapshot_id)
    return replace(state, phase=Phase.RELOADING), (Reload(state.tries),)


def _reloaded(state: State, event: Reloaded) -> Step:
    """What a try means that was not accepted, by facts of the reloaded table, in the order in which they
    outweigh one another. It is there: nothing else counts, even if the claim is lost or the files are old by
    now. The run is fenced: it commits no more. There is no claim, the files do not fit, a sweep may have
    them, or tries are used up: plan again. Else the same files go on the new table, but for windows that
    another landing was first with.

    Worked example: a try brings [100, 150) and [150, 200) of shard 0. Another holder landed [100, 150)
    meanwhile: the first is lost, and the second begins at the frontier, which is 150 by now: it is published.
    Had the other landed [100, 130), both would be lost: 150 is behind its frontier.
    """
    if event.landed is not None:
        return _published(state, event.ledger, event.landed)
    if event.fenced is not None:
        return _fenced(state, event.fenced)
    state = replace(state, ledger=event.ledger, conflicts=state.conflicts + 1)
    if not event.claim_valid:
        return _again(state, Phase.CLAIMING, "the claim was lost before the windows were published")
    if not event.files_fit:
        return _again(state, Phase.READING, "the table's schema or partitioning changed")
    if not event.files_fresh:
        return _again(state, Phase.READING, "the landing took longer than its time-out")
    if len(state.tries) >= state.setting.tries_max:
        why = f", the last one as {state.refusal}" if state.refusal else ""
        return _again(state, Phase.READING, f"{len(state.tries)} tries were refused{why}")
    delta = _delta(state)
    merged = merge(event.ledger, delta)
    if delta.first and event.ledger.started:
        return _again(state, Phase.READING, "another run was first with the first start")
    if delta.windows and not merged.accepted:
        return _again(state, Phase.READING, "another landing won all of the windows")
    if not merged.accepted and merged.ledger == event.ledger:
        return replace(state, phase=Phase.RECONCILING, delta=None, tries=()), (Reconcile(),)
    return _publish(state, replace(delta, windows=merged.accepted))


def _published(state: State, ledger: Ledger, snapshot_id: int) -> Step:
    """A try is in the table, whether its answer said so or a look did. `ledger` is what the table has now.

    Behind a first start the ledger is read again, and not taken from the try: the survey that follows needs a
    table that was loaded with its tag and proven, and an attempt that begins with it.
    """
    delta = _delta(state)
    state = replace(
        state,
        ledger=ledger,
        snapshot_id=snapshot_id,
        landed=(*state.landed, *delta.windows),
        delta=None,
        tries=(),
    )
    if delta.first:
        return replace(state, phase=Phase.READING), (ReadLedger(),)
    return replace(state, phase=Phase.RECONCILING), (Reconcile(),)


def _reconciled(state: State, event: Reconciled) -> Step:
    """Without a proof no checkpoint moves: one that was moved past rows that are not there could be believed
    by whoever begins at it."""
    state = replace(state, problems=event.problems)
    if event.problems or not state.setting.live:
        return replace(state, phase=Phase.RELEASING), (Release(),)
    held = _there(state, state.claim, "has no claim").shards
    return replace(state, phase=Phase.CHECKPOINTING), (checkpoints_of(_ledger(state), held),)


def checkpoints_of(ledger: Ledger, held: frozenset[int]) -> PublishCheckpoints:
    """The frontiers of the held shards.

    Worked example: shards 0, 1 and 2 are held, with frontiers 50, 80 and 90; 1 is closed at 80, and 2 was
    written off, so that its end is unknown. Sent are 50 for shard 0 and 80 for shard 1, the latter also where
    the group has 80 already.
    """
    # Nobody knows where a shard that retention removed ended, and nobody asks for its checkpoint.
    shards = {s: e for s, e in ledger.shards.items() if s in held and e.end != CURSOR_UNKNOWN}
    return PublishCheckpoints(
        {s: e.frontier for s, e in shards.items()}, frozenset(s for s, e in shards.items() if e.closed)
    )


def _checkpointed(state: State, _: CheckpointsPublished) -> Step:
    return replace(state, phase=Phase.RELEASING), (Release(),)


def _released(state: State, _: Released) -> Step:
    return replace(state, phase=Phase.DONE), ()


def _fenced(state: State, why: Fenced) -> Step:
    """Nothing more is committed and no checkpoint moves: whoever came after goes on, from the ledger.

    Story: A writes its windows and is paused. B, of the same deployment, begins, lands and publishes 100. A
    wakes with a ledger from before, and would publish 50 under the very name of B.
    """
    if why is Fenced.ABORTED:
        raise LandingConflict(
            f"{why}: nothing of it was published, its files are left to the sweep; the next run lands what "
            "it had pulled"
        )
    state = replace(state, phase=Phase.RELEASING, delta=None, tries=(), fenced=why)
    return state, (Release(),)


def _publish(state: State, delta: Delta) -> Step:
    """A try of `delta` on the newest ledger that is known. What it writes is computed from the very ledger
    that the commit requires; what does not fit must have been taken out of `delta` before."""
    merged = merge(_ledger(state), delta)
    if merged.lost:
        # Their files would be appended without a word in the ledger: rows of unknown origin.
        raise InvariantBroken(f"a try would bring windows that do not fit: {merged.lost[0].window}")
    return replace(state, phase=Phase.PUBLISHING, delta=delta), (Publish(delta, merged.ledger),)


def _again(state: State, phase: Phase, why: str) -> Step:
    """Plan again from the ledger (or from a fresh claim), a counted number of times.

    Counted, so that two runs that keep refusing each other end, and the next one begins with a fresh look.
    """
    if state.replans >= state.setting.replans_max:
        raise LandingConflict(
            f"gave up after planning {state.replans} times again: {why}; the next run goes on"
        )
    effect: Effect = ClaimShards() if phase is Phase.CLAIMING else ReadLedger()
    state = replace(state, phase=phase, replans=state.replans + 1, plan=None, delta=None, tries=())
    return state, (effect,)


def _there(state: State, value: _T | None, lacks: str) -> _T:
    if value is None:
        raise InvariantBroken(f"a landing that is {state.phase} {lacks}")
    return value


def _ledger(state: State) -> Ledger:
    return _there(state, state.ledger, "has read no ledger")


def _delta(state: State) -> Delta:
    return _there(state, state.delta, "has nothing to publish")


_HANDLERS: Mapping[tuple[Phase, type], Callable[[State, Any], Step]] = {
    (Phase.NEW, Begin): _begin,
    (Phase.CLAIMING, Claimed): _claimed,
    (Phase.READING, LedgerRead): _read,
    (Phase.STARTING, StartResolved): _start_resolved,
    (Phase.SURVEYING, Surveyed): _surveyed,
    (Phase.WRITING, WindowsWritten): _written,
    (Phase.PUBLISHING, Answered): _answered,
    (Phase.RELOADING, Reloaded): _reloaded,
    (Phase.RECONCILING, Reconciled): _reconciled,
    (Phase.CHECKPOINTING, CheckpointsPublished): _checkpointed,
    (Phase.RELEASING, Released): _released,
}
