"""What a tick of the schedule asks for, or why it asks for nothing. No engine, no service."""

from datetime import datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from pipelines.components.logstore.schedule import (
    BACKFILL_TAG,
    CLAIMS_TAG,
    MAX_RUNTIME_TAG,
    MODE_TAG,
    PARTITION_TAG,
    busy_run,
    decide,
    microbatch_schedule,
)
from pipelines.landing.hours import hour_of
from pipelines.landing.inspection.brought import oldest_reached_s
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.window import Cursor
from tests.worlds.components import START, at, lake_home, logstore

__all__ = ["lake_home"]
from tests.worlds.dagster_home import new_dagster


@pytest.mark.parametrize(
    ("now", "hour"),
    [
        ("2026-11-21T08:20:00", "2026-11-21-08:00"),
        # An hour has begun, but not by as much as the service needs to settle.
        ("2026-11-21T09:00:05", "2026-11-21-08:00"),
    ],
)
@pytest.mark.parametrize("start", [START, "1970-01-01-00:00"])
def test_a_tick_names_the_open_hour_alone(start: str, now: str, hour: str) -> None:
    decision = decide(logstore(start=start), now_s=at(now), busy=None)
    assert isinstance(decision, dg.RunRequest)
    assert decision.tags[PARTITION_TAG] == hour
    assert decision.tags[MODE_TAG] == "live"
    assert decision.tags[CLAIMS_TAG] == "access_logs"
    assert int(decision.tags[MAX_RUNTIME_TAG]) > logstore().budget.seconds_max


def test_a_tick_before_the_start_is_skipped_and_says_so() -> None:
    decision = decide(logstore(), now_s=at("2026-11-19T23:00:00"), busy=None)
    assert isinstance(decision, dg.SkipReason)
    assert START in (decision.skip_message or "")


@pytest.mark.parametrize(
    "status",
    [
        dg.DagsterRunStatus.NOT_STARTED,
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    ],
)
def test_a_tick_is_skipped_while_a_run_claims_and_names_it(
    status: dg.DagsterRunStatus, lake_home: Path
) -> None:
    with new_dagster() as instance:
        run = create_run_for_test(instance, status=status, tags={CLAIMS_TAG: "access_logs"})
        decision = tick(instance)
        assert isinstance(decision, dg.SkipReason)
        assert run.run_id in (decision.skip_message or "")


def test_runs_that_ended_and_runs_of_other_logstores_hold_nobody_up(lake_home: Path) -> None:
    with new_dagster() as instance:
        create_run_for_test(instance, status=dg.DagsterRunStatus.FAILURE, tags={CLAIMS_TAG: "access_logs"})
        create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags={CLAIMS_TAG: "orders"})
        create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags={BACKFILL_TAG: "b"})
        assert busy_run(instance, "access_logs") is None
        assert isinstance(tick(instance), dg.RunRequest)


def test_a_tick_of_days_ago_asks_for_the_hour_that_is_open_now(lake_home: Path) -> None:
    now_s = SYSTEM_CLOCK.now()
    with new_dagster() as instance:
        decision = tick(instance)
    assert isinstance(decision, dg.RunRequest)
    hour = hour_of(decision.tags[PARTITION_TAG])
    assert hour >= int(now_s - logstore().budget.settle_s) // 3600


EARLY = "2020-01-01-00:00"


def tick(instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
    """The decision of a tick that was due long ago, which is the first one that the page offers."""
    job = dg.define_asset_job("access_logs_microbatch", selection="*")
    due = datetime.fromisoformat("2020-01-03T08:20:00+00:00")
    with dg.build_schedule_context(instance, scheduled_execution_time=due) as context:
        decision = microbatch_schedule(logstore(start=EARLY), job)(context)
    assert isinstance(decision, dg.RunRequest | dg.SkipReason)
    return decision


def entry(reached_s: int, *, closed: bool = False) -> ShardLedger:
    return ShardLedger(start=Cursor(0), reached_s=reached_s, end=Cursor(0) if closed else None)


def test_the_oldest_receive_time_is_taken_over_open_shards() -> None:
    assert oldest_reached_s([]) is None
    assert oldest_reached_s([Ledger("o")]) is None
    mixed = Ledger("o", {0: entry(10, closed=True), 1: entry(30), 2: entry(20)})
    assert oldest_reached_s([mixed]) == 20
    assert oldest_reached_s([Ledger("o", {0: entry(10, closed=True)})]) == 10
