"""What a run says of the logs that it leaves."""

from collections.abc import Sequence

import pytest

from pipelines.landing.run.report import PlanReport, notes_of
from pipelines.landing.run.reporting import lag_s, noted_gaps
from sls_io.planning.values import LedgerChange, Plan
from sls_io.planning.waits import DRAINED, WINDOWS, Wait, paused
from sls_io.values.claim import Gap, Ledger, ShardLedger
from sls_io.values.window import Cursor

NOW_S, UNTIL_S = 10_000.0, 9_990


def ledger(*reached_s: int, closed: bool = False) -> Ledger:
    """One shard each, read up to these receive times."""
    shards = {
        shard: ShardLedger(start=Cursor(0), reached_s=at, end=Cursor(0) if closed else None)
        for shard, at in enumerate(reached_s)
    }
    return Ledger("o", shards)


@pytest.mark.parametrize(
    ("kept", "waits", "lag"),
    [
        (ledger(UNTIL_S, UNTIL_S), {}, 0.0),
        (ledger(UNTIL_S, 4_000), {1: DRAINED}, 0.0),
        (ledger(UNTIL_S, 4_000), {1: paused(1)}, 6_000.0),
        (ledger(7_000, 4_000), {0: WINDOWS, 1: DRAINED}, 3_000.0),
        (ledger(7_000, 4_000), {0: WINDOWS, 1: WINDOWS}, 6_000.0),
        (ledger(UNTIL_S, 0), {1: paused(1)}, None),
        (ledger(0, closed=True), {}, 0.0),
        (None, {}, None),
    ],
)
def test_what_is_left_is_no_older_than_the_receive_time_its_shard_has_reached(
    kept: Ledger | None, waits: dict[int, Wait], lag: float | None
) -> None:
    assert lag_s(kept, waits, until_s=UNTIL_S, now_s=NOW_S) == lag


@pytest.mark.parametrize(
    ("drained", "said"),
    [
        ([3], "shard 3 waits: "),
        ([0, 1], "shards 0, 1 wait: "),
        ([0, 1, 2, 3, 7, 9, 10], "shards 0 to 3, 7, 9, 10 wait: "),
        (range(64), "shards 0 to 63 wait: "),
    ],
)
def test_shards_that_wait_for_the_same_are_one_line(drained: Sequence[int], said: str) -> None:
    waits = {**dict.fromkeys(drained, DRAINED), 99: WINDOWS}
    report = PlanReport("o", "bronze.logs", first_start=False, until_s=UNTIL_S, waits=waits)
    first, second = notes_of(report)
    assert first.text == f"{said}{DRAINED}" and second.text == f"shard 99 waits: {WINDOWS}"


def test_a_gap_is_told_as_the_table_has_it_and_not_as_it_was_planned() -> None:
    """Story: while a run wrote, another one landed the first part of what this one called missing."""
    missing, of_another = Gap(Cursor(100), Cursor(150), "expired"), Gap(Cursor(0), Cursor(9), "expired")
    change = LedgerChange(gaps={0: (missing,), 7: (of_another,)})
    plan = Plan("o", True, UNTIL_S, change=change)
    left, older = Gap(Cursor(130), Cursor(150), "expired"), Gap(Cursor(0), Cursor(10), "skipped")
    shard = ShardLedger(start=Cursor(0), gaps=(older, left))

    assert noted_gaps(plan, Ledger("o", {0: shard})) == {0: [left]}
    assert noted_gaps(plan, None) == {}, "of a plan that was not published nothing is lost"
