"""Plans from values: what lands, what closes, and why every other shard waits."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.landing.ledger.fence import commit_due, merge
from pipelines.landing.ledger.values import Delta, Landed
from sls_io.planning import waits
from sls_io.planning.doubts import Second
from sls_io.planning.draft import Patience
from sls_io.planning.gone import passed_over
from sls_io.planning.plan import fallen_back, never_landed_in, only, plan_fill, since_start
from sls_io.planning.values import Again, Edge, Plan, Span, Survey, Suspicion
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import CURSOR_UNKNOWN, GAP_EXPIRED, GAP_SHARD_GONE, Gap, Ledger, ShardLedger
from sls_io.values.settings import Budget
from sls_io.values.shard import KEY_MAX, KEY_MIN, Head, Shard
from sls_io.values.window import HOUR_S, Cursor, IntervalSet
from tests.worlds.surveyed_shards import (
    IN_DOUBT,
    OUTAGE_S,
    POINTS,
    SETS,
    SINCE_S,
    UNTIL_S,
    apart,
    cuts,
    live,
    situations,
    surveyed,
    suspecting,
    too_high,
    unlisted,
    windows,
)

HALF = "8" + "0" * 31


def a_shard(number: int, *, readonly: bool = False, keys: tuple[str, str] = (KEY_MIN, KEY_MAX)) -> Shard:
    """A shard of these keys; of keys of its own (a hundredth) when none are said to be shared."""
    return Shard(number, readonly, *keys)


@settings(max_examples=300, deadline=None, database=None)
@given(situations())
def test_every_plan_keeps_the_rules(
    situation: tuple[list[Shard], list[Survey], dict[int, ShardLedger], Budget],
) -> None:
    shards, surveys, ledger, budget = situation
    plan = live(shards, surveys, ledger, budget=budget)
    planned = {p.window.shard for p in plan.windows}
    assert len(plan.windows) <= budget.windows_max
    assert sum({p.chain: p.bytes_max for p in plan.windows}.values()) <= budget.bytes_max
    assert all(s.id in planned or plan.waits.get(s.id) for s in shards)
    assert planned.isdisjoint(plan.waits)
    for survey in surveys:
        assert survey.head is not None
        entry = Ledger("o", ledger).shard(survey.shard, begin=survey.head.begin)
        gaps = [(int(g.begin), int(g.end)) for g in plan.change.gaps.get(survey.shard, ())]
        accounted = entry.accounted.union(gaps)
        at = accounted.run_end(entry.start)
        for _, begin, end, hour in [w for w in windows(plan) if w[0] == survey.shard]:
            assert begin == at, "a window begins where the frontier will be"
            assert not accounted.overlaps(begin, end)
            assert any(s.hour == hour and s.begin <= begin and end <= s.end for s in survey.spans)
            accounted = accounted.union([(begin, end)])
            at = accounted.run_end(entry.start)
        if gaps:
            assert survey.gone is Second.AGREES and survey.explained
        if survey.shard in plan.suspects and survey.gone is not Second.AGREES:
            assert not gaps
        if survey.shard in plan.change.closings:
            assert survey.head.readonly and survey.over is Second.AGREES
            assert plan.change.closings[survey.shard] == survey.head.end


def test_windows_begin_at_the_frontier_and_go_round_what_is_there() -> None:
    ledger = {0: ShardLedger(Cursor(0), IntervalSet.of([(0, 4), (6, 8)]))}
    plan = live([a_shard(0)], [surveyed(a_shard(0), 0, 12, (5, 4, 10), (6, 10, 12))], ledger)
    assert windows(plan) == [(0, 4, 6, 5), (0, 8, 10, 5), (0, 10, 12, 6)]
    assert plan.hours == (5, 6)


def test_an_idle_shard_holds_nobody_back() -> None:
    shards = [apart(0), apart(1)]
    ledger = {0: ShardLedger(Cursor(5)), 1: ShardLedger(Cursor(0))}
    plan = live(shards, [surveyed(shards[0], 5, 5), surveyed(shards[1], 0, 9, (7, 0, 9))], ledger)
    assert windows(plan) == [(1, 0, 9, 7)]
    assert plan.waits == {0: waits.DRAINED}


@pytest.mark.fault("4b.expired.plan")
def test_what_retention_took_is_a_gap_with_its_cause_and_the_rest_is_planned() -> None:
    survey = replace(surveyed(a_shard(0), 6, 9, (7, 6, 9)), gone=Second.AGREES, explained=True)
    plan = live([a_shard(0)], [survey], {0: ShardLedger(Cursor(2))})
    assert plan.change.gaps == {0: (Gap(Cursor(2), Cursor(6), GAP_EXPIRED),)}
    assert windows(plan) == [(0, 6, 9, 7)]


@pytest.mark.fault("4b.reshape.commit")
def test_a_read_only_shard_is_closed_by_the_landing_that_drains_it() -> None:
    shard = a_shard(0, readonly=True)
    survey = replace(surveyed(shard, 0, 9, (7, 5, 9)), over=Second.AGREES)
    drained = live([shard], [survey], {0: ShardLedger(Cursor(5))})
    assert drained.change.closings == {0: 9}
    part = live([shard], [surveyed(shard, 0, 9, (7, 5, 8))], {0: ShardLedger(Cursor(5))})
    assert part.change.closings == {}


@pytest.mark.fault("4b.drain.commit")
def test_an_empty_read_only_shard_is_closed_without_rows() -> None:
    shard = a_shard(0, readonly=True)
    survey = replace(surveyed(shard, 5, 5), over=Second.AGREES)
    plan = live([shard], [survey], {0: ShardLedger(Cursor(5))})
    assert (windows(plan), plan.change.closings) == ([], {0: 5})
    assert plan.waits[0] == waits.CLOSING
    assert commit_due(plan.change, Ledger("o", {0: ShardLedger(Cursor(5))}))


def family() -> list[Shard]:
    """Shard 0 was split into 1 and 2."""
    return [
        a_shard(0, readonly=True),
        a_shard(1, keys=(KEY_MIN, HALF)),
        a_shard(2, keys=(HALF, KEY_MAX)),
    ]


@pytest.mark.parametrize(
    ("parent", "ordered", "planned"),
    [
        (ShardLedger(Cursor(0), end=Cursor(0)), True, True),
        (ShardLedger(Cursor(0)), True, False),
        (ShardLedger(Cursor(0)), False, True),
        (None, True, False),
    ],
    ids=["closed", "open", "open, no order kept", "not in the ledger"],
)
@pytest.mark.fault("4b.reshape.plan")
def test_a_child_waits_until_its_parent_is_closed_in_the_ledger(
    parent: ShardLedger | None, ordered: bool, planned: bool
) -> None:
    ledger = {1: ShardLedger(Cursor(0))} | ({0: parent} if parent else {})
    child = family()[1]
    plan = live(family(), [surveyed(child, 0, 3, (7, 0, 3))], ledger, ordered=ordered)
    assert bool(plan.windows) is planned
    if not planned:
        assert plan.waits[1] == waits.for_parents([0])
    assert plan.waits[2] == (waits.HELD if planned else waits.for_parents([0]))


def test_a_parent_that_is_closed_and_not_listed_must_be_closed_where_the_child_lands() -> None:
    child = family()[1]
    closed = Ledger("o", {0: ShardLedger(Cursor(0), IntervalSet.of([(0, 3)]), rows=3, end=Cursor(3))})
    plan = live([child], [surveyed(child, 0, 3, (7, 0, 3))], dict(closed.shards))
    delta = Delta("o", plan.live, tuple(Landed(p.window, 3, 5) for p in plan.windows), plan.change)
    assert merge(closed, delta).accepted
    taken_back = Ledger("o", {0: ShardLedger(Cursor(0))})
    assert not merge(taken_back, delta).accepted


def test_rows_of_a_backfill_do_not_let_a_child_go_before_a_parent_that_one_list_lacks() -> None:
    child, filled = family()[1], ShardLedger(Cursor(0), landed=IntervalSet.of([(0, 2)]), rows=2)
    asked = surveyed(child, 0, 3, (7, 2, 3))
    waiting = live([child], [asked], {0: ShardLedger(Cursor(0)), 1: filled})
    assert not waiting.windows and waiting.waits[1] == waits.for_parents([0])
    begun = replace(filled, reached_s=7 * HOUR_S)  # by a live run, so its parents were closed before
    assert live([child], [asked], {0: ShardLedger(Cursor(0)), 1: begun}).windows


@pytest.mark.parametrize(
    ("listed", "begun", "unread", "expected"),
    [
        ([0, 1, 3, 4], [0, 1], [], [2]),
        ([0, 1, 3, 4], [0, 1, 4], [], []),
        ([0, 1, 3, 4], [0, 1], [2], []),
        ([0, 1], [0, 1], [], []),
        ([7, 9, 12], [], [7, 9], [8, 10, 11]),
        ([900], [3, 700], [], list(range(701, 900))),
        ([0, 2**60], [0], [], list(range(1, 1001))),
        ([0, 5], [], [], []),
    ],
)
def test_ids_that_were_passed_over(
    listed: list[int], begun: list[int], unread: list[int], expected: list[int]
) -> None:
    shards = {shard: ShardLedger(Cursor(0), reached_s=1) for shard in begun}
    ledger = Ledger("o", {**shards, **{shard: ShardLedger(Cursor(0)) for shard in unread}})
    assert passed_over(map(a_shard, listed), ledger) == expected


def test_a_child_seen_for_the_first_time_starts_at_its_begin() -> None:
    ledger = {0: ShardLedger(Cursor(0), end=Cursor(0))}
    plan = live(family(), [surveyed(family()[1], 4, 7, (7, 4, 7))], ledger)
    assert plan.change.starts == {1: 4}
    assert windows(plan) == [(1, 4, 7, 7)]


@pytest.mark.fault("4b.expired.plan")
@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("filling", [True, False], ids=["fill", "live"])
def test_a_child_first_seen_older_than_retention_has_a_gap_before_its_start(filling: bool, cut: bool) -> None:
    ledger = Ledger("o", {0: ShardLedger(Cursor(0), end=Cursor(0))})
    survey = replace(surveyed(family()[1], 4, 7, (7, 4, 7)), cut=cut)
    if filling:
        plan = plan_fill(surveys={1: survey}, ledger=ledger, budget=Budget(), until_s=UNTIL_S)
    else:
        plan = live(family(), [survey], dict(ledger.shards))
    gaps = (Gap(Cursor(0), Cursor(4), GAP_EXPIRED),) if cut else ()
    assert plan.change.gaps == ({1: gaps} if cut else {})
    assert windows(plan) == [(1, 4, 7, 7)]

    landed = tuple(Landed(p.window, 3, 5) for p in plan.windows)
    delta = Delta("o", plan.live, landed, plan.change)
    entry = merge(ledger, delta).ledger.shards[1]
    assert (entry.start, entry.gaps, entry.frontier, entry.rows) == (4, gaps, 7, 3)


# --- what one answer would give up -------------------------------------------------------------------


def told(survey: Survey, entry: ShardLedger, patience: Patience) -> Plan:
    """A plan of what was told of shard 0, beside another shard."""
    shards = [apart(1)] if not survey.listed else [apart(0), apart(1)]
    return live(shards, [survey], {0: entry}, patience=patience)


@pytest.mark.parametrize("doubted", IN_DOUBT, ids=["gone", "expired"])
def test_two_kinds_of_answers_are_remembered_and_nothing_is_given_up(
    doubted: Callable[[Second], Survey],
) -> None:
    plan = told(doubted(Second.AGREES), suspecting(), Patience(SINCE_S, OUTAGE_S))
    assert (plan.change.gaps, plan.change.closings, plan.windows) == ({}, {}, ())
    assert plan.change.suspicions == {0: Suspicion(Cursor(5), 0, SINCE_S)}
    assert "a later run" in plan.suspects[0]
    assert commit_due(plan.change, Ledger("o", {0: suspecting()}))


@pytest.mark.parametrize("doubted", IN_DOUBT, ids=["gone", "expired"])
@pytest.mark.parametrize(
    ("later_s", "known", "believed"),
    [(59, True, False), (60, True, True), (600, False, False)],
    ids=["too soon", "a group timeout later", "it was this run that suspected it"],
)
def test_what_a_later_run_is_told_again_after_a_group_timeout_is_believed(
    doubted: Callable[[Second], Survey], later_s: int, known: bool, believed: bool
) -> None:
    patience = Patience(SINCE_S + later_s, OUTAGE_S, {0: SINCE_S} if known else {})
    plan = told(doubted(Second.AGREES), suspecting(SINCE_S), patience)
    assert (0 in plan.change.gaps, 0 in plan.suspects) == (believed, not believed)
    assert plan.change.suspicions == ({0: Suspicion(Cursor(5), SINCE_S, 0)} if believed else {})
    if believed and doubted is unlisted:
        assert plan.change.gaps == {0: (Gap(Cursor(5), CURSOR_UNKNOWN, GAP_SHARD_GONE),)}
        assert plan.change.closings == {0: CURSOR_UNKNOWN}
        assert plan.waits[0] == waits.GONE_NOW


@pytest.mark.parametrize("doubted", IN_DOUBT, ids=["gone", "expired"])
@pytest.mark.parametrize("second", [Second.DENIES, Second.SILENT, Second.NONE])
def test_without_a_second_answer_that_agrees_nothing_is_ever_given_up(
    doubted: Callable[[Second], Survey], second: Second
) -> None:
    plan = told(doubted(second), suspecting(SINCE_S), Patience(10 * SINCE_S, OUTAGE_S, {0: SINCE_S}))
    assert (plan.change.gaps, plan.change.closings, plan.windows, set(plan.suspects)) == ({}, {}, (), {0})
    denied = {0: Suspicion(Cursor(5), SINCE_S, 0)}
    assert plan.change.suspicions == (denied if second is Second.DENIES else {}), "a denial begins anew"


@pytest.mark.parametrize("second", list(Second))
def test_a_shard_that_is_still_listed_is_never_written_off(second: Second) -> None:
    survey = Survey(0, None, gone=Second.DENIES if second is Second.AGREES else second)
    plan = told(survey, suspecting(SINCE_S), Patience(10 * SINCE_S, OUTAGE_S, {0: SINCE_S}))
    assert (plan.change.gaps, plan.change.closings, set(plan.suspects)) == ({}, {}, {0})


def test_what_is_older_than_the_service_keeps_logs_is_a_gap_at_once() -> None:
    plan = told(too_high(Second.AGREES, explained=True), suspecting(), Patience(SINCE_S, OUTAGE_S))
    assert plan.change.gaps == {0: (Gap(Cursor(5), Cursor(6), GAP_EXPIRED),)}
    assert (windows(plan), plan.suspects) == ([(0, 6, 9, 7)], {})


def test_a_good_answer_takes_a_suspicion_back() -> None:
    survey = surveyed(apart(0), 0, 9, (7, 5, 9))
    plan = told(survey, suspecting(SINCE_S), Patience(SINCE_S + 600, OUTAGE_S, {0: SINCE_S}))
    assert plan.change.suspicions == {0: Suspicion(Cursor(5), SINCE_S, 0)}
    assert (windows(plan), plan.suspects) == ([(0, 5, 9, 7)], {})


def test_a_suspicion_of_a_wrong_clock_in_the_future_begins_anew() -> None:
    future_s = 90 * HOUR_S
    plan = told(unlisted(Second.AGREES), suspecting(future_s), Patience(SINCE_S, OUTAGE_S, {0: future_s}))
    assert plan.change.suspicions == {0: Suspicion(Cursor(5), future_s, SINCE_S)}


def test_a_shard_that_is_neither_listed_nor_asked_for_is_suspect() -> None:
    plan = live([apart(1)], [], {0: suspecting()})
    assert (plan.change.gaps, plan.change.closings, set(plan.suspects)) == ({}, {}, {0})


@pytest.mark.parametrize("second", [Second.DENIES, Second.SILENT])
def test_the_end_of_a_read_only_shard_needs_a_second_answer(second: Second) -> None:
    shard = a_shard(0, readonly=True)
    drained = live([shard], [replace(surveyed(shard, 5, 5), over=second)], {0: ShardLedger(Cursor(5))})
    assert (drained.change.closings, set(drained.suspects)) == ({}, {0})
    survey = replace(surveyed(shard, 0, 9, (7, 5, 9)), over=second)
    last = live([shard], [survey], {0: ShardLedger(Cursor(5))})
    assert (windows(last), last.change.closings, set(last.suspects)) == ([(0, 5, 9, 7)], {}, {0})


def test_a_shard_whose_answers_contradict_each_other_is_left_alone() -> None:
    survey = replace(surveyed(apart(0), 0, 9, (7, 5, 9)), doubt="they contradict")
    plan = live([apart(0)], [survey], {0: suspecting()})
    assert (plan.windows, plan.suspects, plan.change.suspicions) == ((), {0: "they contradict"}, {})


def test_a_closed_shard_that_is_shown_again_is_opened_and_goes_on_at_its_frontier() -> None:
    gone = ShardLedger(
        Cursor(2),
        IntervalSet.of([(2, 5)]),
        gaps=(Gap(Cursor(5), CURSOR_UNKNOWN, GAP_SHARD_GONE),),
        end=CURSOR_UNKNOWN,
    )
    survey = replace(surveyed(apart(0), 0, 9, (7, 5, 9)), opened=True)
    plan = live([apart(0)], [survey], {0: gone})
    assert (plan.change.opened, windows(plan)) == ({0: CURSOR_UNKNOWN}, [(0, 5, 9, 7)])
    assert live([apart(0)], [replace(survey, opened=False)], {0: gone}).windows == ()
    landed = tuple(Landed(p.window, 3, 5) for p in plan.windows)
    entry = merge(Ledger("o", {0: gone}), Delta("o", True, landed, plan.change)).ledger.shards[0]
    assert (entry.closed, entry.gaps, entry.frontier) == (False, (), 9)


def test_gaps_that_can_be_read_again_are_said() -> None:
    again = Again(Cursor(3), Cursor(4), range(6, 7))
    plan = live([apart(0)], [replace(surveyed(apart(0), 3, 5), readable=(again,))], {0: suspecting()})
    assert plan.readable == {0: (again,)}


def test_a_removed_shard_that_was_closed_needs_nothing() -> None:
    plan = live([apart(1)], [], {0: ShardLedger(Cursor(2), end=Cursor(2))})
    assert (plan.change.gaps, plan.change.closings) == ({}, {})


def test_every_shard_gets_a_window_before_one_gets_two() -> None:
    shards = [apart(0), apart(1), apart(2)]
    surveys = [surveyed(s, 0, 3, (1, 0, 1), (2, 1, 2), (3, 2, 3)) for s in shards]
    ledger = {s.id: ShardLedger(Cursor(0)) for s in shards}
    plan = live(shards, surveys, ledger, budget=Budget(windows_max=4))
    assert [w[0] for w in windows(plan)] == [0, 1, 2, 0]
    few = live(shards, surveys, ledger, budget=Budget(windows_max=2))
    assert few.waits == {2: waits.WINDOWS}


def test_the_shard_that_is_furthest_behind_goes_first() -> None:
    shards = [apart(0), apart(1), apart(2)]
    surveys = [surveyed(s, 0, 2, (9 - s.id, 0, 1), (20, 1, 2)) for s in shards]
    ledger = {s.id: ShardLedger(Cursor(0)) for s in shards}
    plan = live(shards, surveys, ledger, budget=Budget(windows_max=4))
    assert [w[0] for w in windows(plan)] == [2, 1, 0, 0]
    assert windows(live(shards, surveys, ledger, budget=Budget(windows_max=1))) == [(2, 0, 1, 7)]


def test_closed_and_foreign_shards_say_so() -> None:
    plan = live([apart(0), apart(1)], [], {0: ShardLedger(Cursor(0), end=Cursor(0))})
    assert plan.waits == {0: waits.CLOSED, 1: waits.HELD}


# --- backfill ------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None, database=None)
@given(st.data(), SETS, SETS, SETS)
@pytest.mark.fault("4b.backfill.plan")
def test_a_backfill_plans_exactly_what_is_missing(
    data: st.DataObject, landed: IntervalSet, gaps: IntervalSet, withdrawn: IntervalSet
) -> None:
    begin, end = sorted((data.draw(POINTS), data.draw(POINTS)))
    entry = ShardLedger(
        Cursor(data.draw(POINTS)),
        landed,
        tuple(Gap(Cursor(b), Cursor(e), GAP_EXPIRED) for b, e in gaps),
        withdrawn,
    )
    survey = surveyed(apart(0), 0, 40, *(data.draw(st.composite(cuts)(begin, end)) if begin < end else ()))
    plan = plan_fill(surveys={0: survey}, ledger=Ledger("o", {0: entry}), budget=Budget(), until_s=UNTIL_S)
    missing = IntervalSet.of([(begin, end)]).minus(landed)
    assert IntervalSet.of((b, e) for _, b, e, _ in windows(plan)) == missing
    assert bool(plan.windows) != (0 in plan.waits)
    assert not plan.live
    assert (plan.change.gaps, plan.change.closings, plan.change.marks) == ({}, {}, {})


def test_nothing_before_the_start_of_a_shard_with_adopted_rows_is_filled() -> None:
    entries = {s: ShardLedger(Cursor(10)) for s in (0, 1)}
    ledger = Ledger("o", entries)
    surveys = {s: surveyed(apart(s), 0, 40, (1, 0, 5), (2, 5, 20)) for s in (0, 1)}
    plan = plan_fill(
        surveys=since_start(surveys, ledger, [1, 9]), ledger=ledger, budget=Budget(), until_s=UNTIL_S
    )
    assert sorted((s, b, e) for s, b, e, _ in windows(plan)) == [(0, 0, 5), (0, 5, 20), (1, 10, 20)]


def test_a_backfill_leaves_hours_of_removed_rows_before_the_start_and_brings_the_others() -> None:
    ledger = Ledger("o", {0: ShardLedger(Cursor(10)), 1: ShardLedger(Cursor(30))})
    surveys = {s: surveyed(apart(s), 0, 40, (1, 0, 5), (2, 5, 20), (3, 20, 25)) for s in (0, 1, 2)}
    kept = never_landed_in(surveys, ledger, IntervalSet.of([(2, 3)]))
    assert {s: [(x.hour, x.begin, x.end) for x in survey.spans] for s, survey in kept.items()} == {
        0: [(1, 0, 5), (2, 10, 20), (3, 20, 25)],
        1: [(1, 0, 5), (3, 20, 25)],
        2: [(1, 0, 5), (2, 5, 20), (3, 20, 25)],
    }


def test_a_backfill_names_shards_that_are_gone() -> None:
    plan = plan_fill(surveys={3: Survey(3, None)}, ledger=Ledger("o"), budget=Budget(), until_s=UNTIL_S)
    assert set(plan.waits) == set(plan.suspects) == {3}


# --- landings without rows -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reached_s", "mark", "due"),
    [
        (3 * HOUR_S + 5, Edge(3 * HOUR_S + 900, Cursor(5)), False),
        (3 * HOUR_S + 5, Edge(4 * HOUR_S, Cursor(5)), True),
        (3 * HOUR_S + 5, Edge(4 * HOUR_S, Cursor(6)), False),
        (0, Edge(3 * HOUR_S, Cursor(0)), True),
    ],
    ids=["same hour", "an hour edge was passed", "not reached", "never said before"],
)
def test_an_idle_shard_is_worth_a_landing_once_an_hour(reached_s: int, mark: Edge, due: bool) -> None:
    entry = ShardLedger(Cursor(5), reached_s=reached_s)
    plan = live([a_shard(0)], [surveyed(a_shard(0), 5, 5, marks=(mark,))], {0: entry})
    assert commit_due(plan.change, Ledger("o", {0: entry})) is due


def test_a_shard_seen_for_the_first_time_is_worth_a_landing() -> None:
    plan = live([a_shard(0)], [surveyed(a_shard(0), 5, 5)], {})
    assert commit_due(plan.change, Ledger("o", {9: ShardLedger(Cursor(0), end=Cursor(0))}))


def test_a_backlog_is_read_hour_by_hour_and_not_by_a_slice_of_each() -> None:
    """One shard, many hours: a few chains that advance together share the bytes of the run."""
    spans = tuple(Span(h, Cursor(10 * h), Cursor(10 * h + 10)) for h in range(100))
    shard = Shard(0, readonly=False)
    survey = Survey(0, Head(shard, Cursor(0), Cursor(1000)), spans)
    budget = Budget(bytes_max=400, tasks_min=4, shard_mb_per_s=40)
    plan = live([shard], [survey], {0: ShardLedger(start=Cursor(0))}, budget=budget)
    assert [p.chain for p in plan.windows[:6]] == [0, 1, 2, 3, 0, 1]
    assert {p.bytes_max for p in plan.windows} == {100}


def test_as_many_shards_as_tasks_have_one_chain_each() -> None:
    shards = [Shard(n, readonly=False) for n in range(4)]
    surveys = [
        Survey(
            s.id,
            Head(s, Cursor(0), Cursor(20)),
            (Span(1, Cursor(0), Cursor(10)), Span(2, Cursor(10), Cursor(20))),
        )
        for s in shards
    ]
    ledger = {s.id: ShardLedger(start=Cursor(0)) for s in shards}
    plan = live(shards, surveys, ledger, budget=Budget(tasks_min=4), ordered=False)
    chains = {(p.window.shard, p.chain) for p in plan.windows}
    assert len(plan.windows) == 8
    assert len(chains) == 4


@pytest.mark.parametrize(("mb_per_s", "readers"), [(1, 1), (10, 1), (10.5, 2), (30, 3), (1000, 4)])
def test_a_shard_has_no_more_readers_than_its_quota_feeds(mb_per_s: float, readers: int) -> None:
    """With the documented quota one reader takes all there is; a second would only be refused."""
    spans = tuple(Span(h, Cursor(10 * h), Cursor(10 * h + 10)) for h in range(20))
    shard = Shard(0, readonly=False)
    survey = Survey(0, Head(shard, Cursor(0), Cursor(200)), spans)
    budget = Budget(bytes_max=1200, tasks_min=4, shard_mb_per_s=mb_per_s)
    for plan in (
        live([shard], [survey], {0: ShardLedger(start=Cursor(0))}, budget=budget),
        plan_fill(surveys={0: survey}, ledger=Ledger("o"), budget=budget, until_s=0),
    ):
        assert {p.chain for p in plan.windows} == set(range(readers))
        assert {p.bytes_max for p in plan.windows} == {1200 // readers}


def test_a_shard_that_could_not_be_asked_waits_with_the_reason_and_nothing_is_concluded() -> None:
    """Not even that it is gone: nothing of it is known in this run."""
    shards = [a_shard(0), a_shard(1)]
    asked = surveyed(a_shard(0), 0, 10, (1, 0, 10))
    away = Survey(1, None, trouble="throttled")
    ledger = {n: ShardLedger(start=Cursor(0)) for n in (0, 1)}
    plan = live(shards, [asked, away], ledger)
    assert {p.window.shard for p in plan.windows} == {0}
    assert dict(plan.waits) == {1: Wait(Why.UNASKED, "throttled")}
    assert not plan.change.gaps and not plan.change.closings and not plan.change.starts


def test_a_shard_that_ends_before_its_frontier_has_fallen_back() -> None:
    zero, one, two, three = (apart(n) for n in range(4))
    landed = ShardLedger(Cursor(10), landed=IntervalSet.of([(10, 20)]))
    ledger = Ledger("o", {0: landed, 1: landed, 2: landed, 3: replace(landed, end=Cursor(20))})
    surveys = {
        0: surveyed(zero, 10, 15),
        1: surveyed(one, 10, 20),
        2: surveyed(two, 10, 25),
        3: surveyed(three, 10, 15),
        4: surveyed(apart(4), 10, 15),
    }
    assert fallen_back(surveys, ledger) == {0: (15, 20)}, "not at its end, closed, unknown or gone"
    assert fallen_back({0: Survey(0, None)}, ledger) == {}


def test_a_shard_that_begins_anew_is_planned_from_there_and_has_not_fallen_back() -> None:
    ledger = {0: ShardLedger(Cursor(30), reached_s=77)}
    survey = replace(surveyed(apart(0), 10, 20, (1, 10, 20)), anew=Cursor(10))
    plan = live([apart(0)], [survey], ledger)
    assert windows(plan) == [(0, 10, 20, 1)]
    assert plan.change.anew == {0: (30, 10)}
    assert commit_due(plan.change, Ledger("o", ledger))
    assert fallen_back({0: survey}, Ledger("o", ledger)) == {}
    assert fallen_back({0: replace(survey, anew=None)}, Ledger("o", ledger)) == {0: (20, 30)}


def test_a_child_that_nobody_has_waits_for_its_parents_and_for_no_holder() -> None:
    """A group grants a child only when its parents are done."""
    parent, child = Shard(0, readonly=True), Shard(1, readonly=False)
    open_ledger = {0: ShardLedger(start=Cursor(0))}
    asked = Survey(0, Head(parent, Cursor(0), Cursor(10)), (Span(0, Cursor(0), Cursor(10)),))

    assert live([parent, child], [asked], open_ledger).waits[1] == waits.for_parents([0])
    assert live([parent, child], [asked], open_ledger, ordered=False).waits[1] == waits.HELD


def test_of_surveys_only_the_cursors_that_are_named_are_left() -> None:
    surveys = {0: Survey(0, None, (Span(7, Cursor(500), Cursor(640)),)), 1: Survey(1, None, ())}
    named = {0: IntervalSet.of([(0, 550), (600, 610), (640, 900)])}
    found = only({**surveys, 2: surveys[0]}, named)
    assert found[0].spans == (Span(7, Cursor(500), Cursor(550)), Span(7, Cursor(600), Cursor(610)))
    assert found[1].spans == found[2].spans == ()
