"""Shards that a person paused, and losses that a person wants to decide about, as plans."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sls_io.planning import waits
from sls_io.planning.doubts import Second
from sls_io.planning.draft import Patience
from sls_io.planning.values import Survey
from sls_io.planning.waits import Why
from sls_io.values.claim import ShardLedger
from sls_io.values.settings import Budget
from sls_io.values.shard import Shard
from tests.worlds.surveyed_shards import IN_DOUBT, OUTAGE_S, SINCE_S, live, situations, suspecting, windows


@given(situations(), st.sets(st.integers(0, 2)))
def test_of_a_paused_shard_nothing_is_planned_and_the_others_are_planned_as_without_it(
    situation: tuple[list[Shard], list[Survey], dict[int, ShardLedger], Budget], paused: set[int]
) -> None:
    shards, surveys, ledger, _ = situation
    whole = live(shards, surveys, ledger)
    plan = live(shards, surveys, ledger, left={s: waits.paused(s) for s in paused})
    for found in (
        plan.change.closings,
        plan.change.gaps,
        plan.change.starts,
        plan.change.marks,
        plan.change.opened,
        plan.change.suspicions,
    ):
        assert not paused & set(found)
    assert not paused & {p.window.shard for p in plan.windows} and not paused & set(plan.suspects)
    for shard in paused & {s.id for s in shards}:
        closed = shard in ledger and ledger[shard].closed
        assert plan.waits[shard].kind is (Why.CLOSED if closed else Why.PAUSED)
    assert [w for w in windows(whole) if w[0] not in paused] == windows(plan)
    assert {s: g for s, g in whole.change.gaps.items() if s not in paused} == plan.change.gaps


def test_a_paused_shard_that_the_service_does_not_list_is_not_given_up() -> None:
    plan = live([], [], {0: suspecting()}, left={0: waits.paused(0)})
    assert (plan.change.gaps, plan.suspects, plan.change.suspicions) == ({}, {}, {})
    assert plan.waits == {0: waits.paused(0)}


@pytest.mark.parametrize("doubted", IN_DOUBT, ids=["gone", "expired"])
def test_a_proven_loss_stops_the_shard_where_no_gap_is_to_be_named(
    doubted: Callable[[Second], Survey],
) -> None:
    """The suspicion stays: it is what the next run proves the loss by, once gaps may be named."""
    patience = Patience(SINCE_S + 60, OUTAGE_S, {0: SINCE_S})
    survey, ledger = doubted(Second.AGREES), {0: suspecting(SINCE_S)}
    shards = [survey.head.shard] if survey.head else []
    stopped = live(shards, [survey], ledger, patience=patience, name_gaps=False)
    nothing = (stopped.change.gaps, stopped.change.closings, stopped.windows, stopped.change.suspicions)
    assert nothing == ({}, {}, (), {})
    assert stopped.waits[0].kind is Why.LOST and "`expired: gap`" in stopped.suspects[0]
    assert 0 in live(shards, [survey], ledger, patience=patience).change.gaps
