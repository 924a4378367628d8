"""A landing as a state machine: every event in every phase, and every way out of an unknown answer."""

import ast
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from pipelines.landing.ledger.epochs import Fenced
from pipelines.landing.ledger.fence import merge
from pipelines.landing.ledger.values import Landed
from pipelines.landing.run import protocol
from pipelines.landing.run.protocol import (
    Answered,
    Begin,
    CheckpointsPublished,
    Claimed,
    ClaimShards,
    Effect,
    Event,
    LedgerRead,
    Phase,
    Publish,
    PublishCheckpoints,
    ReadLedger,
    Reconcile,
    Reconciled,
    Release,
    Released,
    Reload,
    Reloaded,
    Setting,
    StartResolved,
    State,
    Surveyed,
    SurveyShards,
    WindowsWritten,
    WriteWindows,
    step,
)
from sls_io.planning.values import Edge, LedgerChange, Plan, PlannedWindow, Span, Survey
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import CURSOR_UNKNOWN, Claim, Ledger, ShardLedger
from sls_io.values.errors import ConfigError, InvariantBroken, LandingConflict
from sls_io.values.settings import Budget
from sls_io.values.shard import Head, Shard
from sls_io.values.window import HOUR_S, Cursor, IntervalSet, Window

SETTING = Setting(live=True, ordered=True, budget=Budget(), until_s=10 * HOUR_S, replans_max=2, tries_max=4)
FILL = replace(SETTING, live=False)
CLAIM = Claim("h", frozenset({0, 1}))
KEYS = ("0" * 32, "8" + "0" * 31, "f" * 32)
SHARDS = (Shard(0, False, KEYS[0], KEYS[1]), Shard(1, False, KEYS[1], KEYS[2]))


def ledger(*frontiers: int) -> Ledger:
    """Shards 0, 1, .. with [0, frontier) landed."""
    return Ledger("o", {s: ShardLedger(Cursor(0), IntervalSet.of([(0, f)])) for s, f in enumerate(frontiers)})


def landed(shard: int, begin: int, end: int) -> Landed:
    """A written window of hour 3."""
    return Landed(Window(shard, Cursor(begin), Cursor(end), 3), end - begin, 1)


def surveyed(*unread: tuple[int, int], shards: tuple[Shard, ...] = SHARDS) -> Surveyed:
    """Shard by shard what is unread, in hour 3."""
    surveys = {}
    for shard, (begin, end) in zip(shards, unread, strict=False):
        spans = (Span(3, Cursor(begin), Cursor(end)),) if begin < end else ()
        marks = (Edge(SETTING.until_s, Cursor(end)),)
        surveys[shard.id] = Survey(shard.id, Head(shard, Cursor(0), Cursor(end)), spans, marks)
    return Surveyed(shards, surveys)


def follow(setting: Setting, *events: Event) -> tuple[State, tuple[Effect, ...]]:
    """The state after `events`, and the effects of the last one."""
    state, effects = State(setting), tuple[Effect, ...]()
    for event in events:
        state, effects = step(state, event)
    return state, effects


READ = (Begin(), Claimed(CLAIM), LedgerRead(ledger(2, 0)))
WRITTEN = (*READ, surveyed((2, 5), (0, 4)), WindowsWritten((landed(0, 2, 5), landed(1, 0, 4)), {}))


def reloaded(
    now: Ledger, *, found: int | None = None, fit: bool = True, fresh: bool = True, claim_valid: bool = True
) -> Reloaded:
    """What a reload found."""
    return Reloaded(found, now, fit, fresh, claim_valid)


def refused(
    now: Ledger,
    *,
    found: int | None = None,
    fit: bool = True,
    fresh: bool = True,
    claim_valid: bool = True,
    setting: Setting = SETTING,
) -> tuple[State, tuple[Effect, ...]]:
    """Both windows were written and try 77 was not accepted; then the reload."""
    answer = reloaded(now, found=found, fit=fit, fresh=fresh, claim_valid=claim_valid)
    return follow(setting, *WRITTEN, Answered(77, accepted=False), answer)


# --- the table of phases and events --------------------------------------------------------------

IN_PHASE: Mapping[Phase, tuple[Event, ...]] = {
    Phase.NEW: (),
    Phase.CLAIMING: (Begin(),),
    Phase.READING: (Begin(), Claimed(CLAIM)),
    Phase.STARTING: (Begin(), Claimed(CLAIM), LedgerRead(Ledger("o"))),
    Phase.SURVEYING: READ,
    Phase.WRITING: WRITTEN[:-1],
    Phase.PUBLISHING: WRITTEN,
    Phase.RELOADING: (*WRITTEN, Answered(77, accepted=False)),
    Phase.RECONCILING: (*WRITTEN, Answered(77, accepted=True)),
    Phase.CHECKPOINTING: (*WRITTEN, Answered(77, accepted=True), Reconciled(())),
    Phase.RELEASING: (*WRITTEN, Answered(77, accepted=True), Reconciled(()), CheckpointsPublished()),
    Phase.DONE: (
        *WRITTEN,
        Answered(77, accepted=True),
        Reconciled(()),
        CheckpointsPublished(),
        Released(),
    ),
}
EVENTS: tuple[Event, ...] = (
    Begin(),
    Claimed(CLAIM),
    LedgerRead(ledger(2, 0)),
    StartResolved({0: Cursor(0)}),
    surveyed((2, 5), (0, 4)),
    WindowsWritten((landed(0, 2, 5),), {}),
    Answered(78, accepted=True),
    reloaded(ledger(2, 0)),
    Reconciled(()),
    CheckpointsPublished(),
    Released(),
)
ANSWERS = {
    Phase.NEW: Begin,
    Phase.CLAIMING: Claimed,
    Phase.READING: LedgerRead,
    Phase.STARTING: StartResolved,
    Phase.SURVEYING: Surveyed,
    Phase.WRITING: WindowsWritten,
    Phase.PUBLISHING: Answered,
    Phase.RELOADING: Reloaded,
    Phase.RECONCILING: Reconciled,
    Phase.CHECKPOINTING: CheckpointsPublished,
    Phase.RELEASING: Released,
}


@pytest.mark.parametrize(
    ("phase", "event"),
    list(product(Phase, EVENTS)),
    ids=lambda x: str(x) if isinstance(x, Phase) else type(x).__name__,
)
def test_each_phase_takes_the_one_event_that_answers_its_effect(phase: Phase, event: Event) -> None:
    state, _ = follow(SETTING, *IN_PHASE[phase])
    assert state.phase is phase
    if ANSWERS.get(phase) is type(event):
        assert step(state, event)[0] != state
    else:
        with pytest.raises(InvariantBroken, match=f"is {phase} cannot take {type(event).__name__}"):
            step(state, event)


def test_every_phase_but_the_last_has_one_effect_under_way() -> None:
    for phase, events in IN_PHASE.items():
        if phase in (Phase.NEW, Phase.DONE):
            continue
        _, effects = follow(SETTING, *events)
        assert len(effects) == 1, phase


def test_a_step_changes_nothing_but_what_it_returns() -> None:
    before, _ = follow(SETTING, *IN_PHASE[Phase.RELOADING])
    copy = replace(before)
    assert step(before, reloaded(ledger(2, 0))) == step(before, reloaded(ledger(2, 0)))
    assert before == copy


def test_the_protocol_imports_nothing_that_reads_time_chance_or_the_world() -> None:
    tree = ast.parse(Path(protocol.__file__).read_text(encoding="utf-8"))
    names = {
        alias.name if isinstance(node, ast.Import) else node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    pure = {"collections.abc", "dataclasses", "enum", "typing"} | {
        f"pipelines.landing.ledger.{name}" for name in ("epochs", "fence", "values")
    }
    pure |= {f"sls_io.values.{name}" for name in ("claim", "errors", "settings", "shard", "window")}
    pure |= {f"sls_io.planning.{name}" for name in ("draft", "plan", "values", "waits")}
    assert names <= pure


# --- the way of a landing ------------------------------------------------------------------------


def test_a_landing_goes_claim_read_survey_write_publish_reconcile_checkpoint_release() -> None:
    events = IN_PHASE[Phase.DONE]
    state, seen = State(SETTING), list[type]()
    for event in events:
        state, effects = step(state, event)
        seen += [type(e) for e in effects]
    assert seen == [
        ClaimShards, ReadLedger, SurveyShards, WriteWindows, Publish, Reconcile, PublishCheckpoints, Release,
    ]  # fmt: skip
    assert (state.snapshot_id, [x.rows for x in state.landed]) == (77, [3, 4])


def test_a_table_without_a_ledger_first_lands_where_its_history_begins() -> None:
    starts = {0: Cursor(7), 1: Cursor(9)}
    state, effects = follow(SETTING, *IN_PHASE[Phase.STARTING], StartResolved(starts))
    (publish,) = effects
    assert isinstance(publish, Publish)
    assert publish.delta.first and not publish.delta.windows
    assert {s: e.start for s, e in publish.ledger.shards.items()} == starts
    assert step(state, Answered(5, accepted=True))[1] == (ReadLedger(),)


def test_the_second_of_two_first_starts_reads_the_ledger_of_the_first() -> None:
    events = (*IN_PHASE[Phase.STARTING], StartResolved({0: Cursor(7)}), Answered(5, accepted=False))
    _, effects = follow(SETTING, *events, reloaded(ledger(3)))
    assert effects == (ReadLedger(),)


def test_a_first_start_whose_request_was_lost_is_sent_again() -> None:
    events = (*IN_PHASE[Phase.STARTING], StartResolved({0: Cursor(7)}), Answered(5, accepted=False))
    _, effects = follow(SETTING, *events, reloaded(Ledger("o")))
    assert isinstance(effects[0], Publish)
    assert effects[0].delta.first


def test_a_logstore_without_shards_has_no_first_start() -> None:
    with pytest.raises(ConfigError, match="no shards"):
        follow(SETTING, *IN_PHASE[Phase.STARTING], StartResolved({}))


def test_with_nothing_to_land_checkpoints_are_repaired_all_the_same() -> None:
    idle = replace(
        ledger(5, 4),
        shards={s: replace(e, reached_s=SETTING.until_s) for s, e in ledger(5, 4).shards.items()},
    )
    events = (Begin(), Claimed(CLAIM), LedgerRead(idle), surveyed((5, 5), (4, 4)))
    state, effects = follow(SETTING, *events)
    assert effects == (Reconcile(),)
    assert step(state, Reconciled(()))[1] == (PublishCheckpoints({0: Cursor(5), 1: Cursor(4)}, frozenset()),)


def test_an_hour_that_passed_without_rows_is_landed_without_rows() -> None:
    events = (Begin(), Claimed(CLAIM), LedgerRead(ledger(5, 4)), surveyed((5, 5), (4, 4)))
    _, (publish,) = follow(SETTING, *events)
    assert isinstance(publish, Publish)
    assert not publish.delta.windows
    assert {e.reached_s for e in publish.ledger.shards.values()} == {SETTING.until_s}


@pytest.mark.parametrize("claim_valid", [True, False])
def test_a_claim_lost_while_writing_publishes_nothing(claim_valid: bool) -> None:
    written = WindowsWritten((landed(0, 2, 5),), {}, claim_valid=claim_valid)
    _, effects = follow(SETTING, *WRITTEN[:-1], written)
    assert isinstance(effects[0], Publish if claim_valid else ClaimShards)


FENCED = reloaded(ledger(2, 0))


@pytest.mark.parametrize("again", [True, False], ids=["when it reads again", "when it was refused"])
def test_an_older_run_lets_go_without_a_commit_or_a_checkpoint(again: bool) -> None:
    """The same windows would fit; whoever came after goes on."""
    lost = WindowsWritten((), {}, claim_valid=False)
    fenced = (
        (lost, Claimed(CLAIM), LedgerRead(ledger(2, 0), Fenced.NEWER))
        if again
        else (WRITTEN[-1], Answered(77, accepted=False), replace(FENCED, fenced=Fenced.NEWER))
    )
    state, effects = follow(SETTING, *WRITTEN[:-1], *fenced)
    assert effects == (Release(),) and state.fenced is Fenced.NEWER and not state.landed
    assert step(state, Released())[0].phase is Phase.DONE


@pytest.mark.parametrize("again", [True, False], ids=["when it reads again", "when it was refused"])
def test_an_aborted_landing_ends_its_run(again: bool) -> None:
    lost = WindowsWritten((), {}, claim_valid=False)
    fenced = (
        (lost, Claimed(CLAIM), LedgerRead(ledger(2, 0), Fenced.ABORTED))
        if again
        else (
            WRITTEN[-1],
            Answered(77, accepted=False),
            replace(FENCED, fenced=Fenced.ABORTED),
        )
    )
    with pytest.raises(LandingConflict, match="a person aborted this landing"):
        follow(SETTING, *WRITTEN[:-1], *fenced)


def test_a_try_that_landed_counts_whatever_came_after_it() -> None:
    answer = replace(reloaded(ledger(5, 4), found=77), fenced=Fenced.NEWER)
    _, effects = follow(SETTING, *WRITTEN, Answered(77, accepted=False), answer)
    assert effects == (Reconcile(),)


def test_nothing_written_lands_nothing() -> None:
    known = {s: replace(e, reached_s=SETTING.until_s) for s, e in ledger(2, 0).shards.items()}
    events = (Begin(), Claimed(CLAIM), LedgerRead(Ledger("o", known)), surveyed((2, 5), (0, 4)))
    state, effects = follow(SETTING, *events, WindowsWritten((), {0: Wait(Why.STOPPED, "a broken page")}))
    assert effects == (Reconcile(),)
    assert state.waits is not None
    assert state.waits[0] == Wait(Why.STOPPED, "a broken page")


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ([(2, 5), (5, 9), (9, 12)], [2, 5, 9]),
        ([(2, 4), (5, 9), (9, 12)], [2]),
        ([(5, 9), (9, 12)], []),
        ([(2, 5), (9, 12)], [2]),
        ([(2, 5), (5, 6), (9, 12)], [2, 5]),
    ],
    ids=["whole", "first stopped", "first missing", "middle missing", "middle stopped"],
)
def test_what_a_stopped_window_leaves_behind_it_is_dropped_in_its_shard_only(
    written: list[tuple[int, int]], kept: list[int]
) -> None:
    planned = [Window(0, Cursor(b), Cursor(e), 3) for b, e in ((2, 5), (5, 9), (9, 12))]
    other = landed(1, 0, 4)
    plan = Plan(
        "o",
        True,
        0,
        tuple(PlannedWindow(w, 1) for w in (*planned, other.window)),
        change=LedgerChange(marks={0: (), 1: ()}),
    )
    state, _ = follow(SETTING, *READ)
    state = replace(state, phase=Phase.WRITING, plan=plan)
    _, (publish,) = step(state, WindowsWritten((*(landed(0, b, e) for b, e in written), other), {}))
    assert isinstance(publish, Publish)
    assert [x.window.begin for x in publish.delta.windows if x.window.shard == 0] == kept
    assert [x for x in publish.delta.windows if x.window.shard == 1] == [other]


def test_a_window_that_ends_after_its_plan_is_a_bug_and_stops_the_landing() -> None:
    windows = [Window(0, Cursor(b), Cursor(e), 3) for b, e in ((2, 5), (5, 9))]
    state, _ = follow(SETTING, *READ)
    state = replace(
        state, phase=Phase.WRITING, plan=Plan("o", True, 0, tuple(PlannedWindow(w, 1) for w in windows))
    )
    with pytest.raises(InvariantBroken, match="do not fit"):
        step(state, WindowsWritten((landed(0, 2, 6), landed(0, 5, 9)), {}))


# --- after any answer but "accepted" ------------------------------------------------------------


def test_a_try_that_is_in_main_has_landed_whatever_else_changed() -> None:
    state, effects = refused(ledger(5, 4), found=77, fit=False, fresh=False, claim_valid=False)
    assert effects == (Reconcile(),)
    assert (state.snapshot_id, len(state.landed)) == (77, 2)


def test_all_tries_of_an_attempt_are_looked_for() -> None:
    state, _ = refused(ledger(2, 0))
    _, effects = step(state, Answered(78, accepted=False))
    assert effects == (Reload((77, 78)),)


def test_the_same_windows_are_sent_again_when_they_still_fit() -> None:
    _, effects = refused(ledger(2, 0))
    (publish,) = effects
    assert isinstance(publish, Publish)
    assert publish.delta.windows == (landed(0, 2, 5), landed(1, 0, 4))
    assert publish.ledger.shards[1].frontier == 4


def test_a_try_is_computed_on_the_ledger_that_was_reloaded() -> None:
    now = ledger(2, 0).with_shards({9: ShardLedger(Cursor(1))})
    _, (publish,) = refused(now)
    assert isinstance(publish, Publish)
    assert publish.ledger == merge(now, publish.delta).ledger
    assert 9 in publish.ledger.shards


def test_windows_that_lost_are_left_out_and_the_others_go_on() -> None:
    state, (publish,) = refused(ledger(3, 0))
    assert isinstance(publish, Publish)
    assert publish.delta.windows == (landed(1, 0, 4),)
    done, _ = step(state, Answered(78, accepted=True))
    assert done.landed == (landed(1, 0, 4),)


@pytest.mark.parametrize(
    ("facts", "effect"),
    [
        ({"claim_valid": False}, ClaimShards),
        ({"fit": False}, ReadLedger),
        ({"fresh": False}, ReadLedger),
        ({"claim_valid": False, "fit": False, "fresh": False}, ClaimShards),
    ],
    ids=["claim lost", "schema moved", "files old", "all of it"],
)
def test_facts_that_forbid_another_try_plan_again(facts: dict[str, bool], effect: type) -> None:
    state, effects = refused(ledger(2, 0), **facts)  # type: ignore[arg-type]
    assert [type(e) for e in effects] == [effect]
    assert (state.tries, state.delta, state.replans) == ((), None, 1)


def test_all_windows_lost_plans_again() -> None:
    state, effects = refused(ledger(3, 1))
    assert effects == (ReadLedger(),)
    assert state.conflicts == 1


def test_tries_are_counted() -> None:
    state, _ = follow(SETTING, *WRITTEN)
    for number in range(SETTING.tries_max):
        assert state.phase is Phase.PUBLISHING
        state, _ = step(state, Answered(number, accepted=False))
        state, effects = step(state, reloaded(ledger(2, 0)))
    assert effects == (ReadLedger(),)


def test_planning_again_is_counted_and_then_left_to_the_next_run() -> None:
    state, _ = follow(SETTING, *WRITTEN)
    for _ in range(SETTING.replans_max):
        state, _ = step(state, Answered(1, accepted=False))
        state, _ = step(state, reloaded(ledger(3, 1)))
        for event in (LedgerRead(ledger(2, 0)), *WRITTEN[len(READ) :]):
            state, _ = step(state, event)
    state, _ = step(state, Answered(2, accepted=False))
    with pytest.raises(LandingConflict, match="all of the windows; the next run goes on"):
        step(state, reloaded(ledger(3, 1)))


def test_a_landing_without_rows_that_another_run_has_done_is_not_done_again() -> None:
    events = (Begin(), Claimed(CLAIM), LedgerRead(ledger(5, 4)), surveyed((5, 5), (4, 4)))
    state, (publish,) = follow(SETTING, *events)
    assert isinstance(publish, Publish)
    state, _ = step(state, Answered(1, accepted=False))
    assert step(state, reloaded(publish.ledger))[1] == (Reconcile(),)


# --- checkpoints ---------------------------------------------------------------------------------


def test_checkpoints_are_the_frontiers_of_held_shards_after_the_landing() -> None:
    known = ledger(2, 0, 8)
    events = (Begin(), Claimed(CLAIM), LedgerRead(known), *WRITTEN[len(READ) :])
    _, effects = follow(SETTING, *events, Answered(1, accepted=True), Reconciled(()))
    assert effects == (PublishCheckpoints({0: Cursor(5), 1: Cursor(4)}, frozenset()),)


def test_while_the_landing_does_not_add_up_no_checkpoint_moves() -> None:
    state, effects = follow(SETTING, *WRITTEN, Answered(1, accepted=True), Reconciled(("a file is gone",)))
    assert effects == (Release(),)
    assert state.problems == ("a file is gone",)


def test_a_backfill_never_moves_a_checkpoint() -> None:
    _, effects = follow(FILL, *WRITTEN, Answered(1, accepted=True), Reconciled(()))
    assert effects == (Release(),)


def test_a_closed_shard_is_named_and_one_that_retention_removed_is_left_out() -> None:
    known = Ledger(
        "o",
        {
            0: ShardLedger(Cursor(3), end=Cursor(3), reached_s=SETTING.until_s),
            1: ShardLedger(Cursor(0), IntervalSet.of([(0, CURSOR_UNKNOWN)]), end=CURSOR_UNKNOWN),
        },
    )
    events = (Begin(), Claimed(CLAIM), LedgerRead(known), Surveyed((SHARDS[0],), {}), Reconciled(()))
    _, effects = follow(SETTING, *events)
    assert effects == (PublishCheckpoints({0: Cursor(3)}, frozenset({0})),)
