"""How long until retention deletes what has not landed: limits, paces and sentences, as values."""

import pytest

from pipelines.landing.bounds import Thresholds
from pipelines.landing.inspection.runway import Runway, ShardRunway, days, spoken
from sls_io.planning.waits import Wait, Why

HOUR = 3600.0
DAY = 24 * HOUR


def left(*hours: float, retention_s: float | None = 30 * DAY) -> Runway:
    shards = tuple(ShardRunway(n, 1_790_000_000, left_s=h * HOUR) for n, h in enumerate(hours))
    return Runway("bronze.x", retention_s, shards)


@pytest.mark.parametrize(
    ("retention_days", "warn_h", "fail_h"),
    [(1, 12, 3), (2, 24, 6), (3, 24, 9), (4, 24, 12), (8, 48, 24), (30, 180, 24), (3000, 18_000, 24)],
)
def test_a_warning_begins_at_a_quarter_of_the_retention_and_an_error_at_a_day_or_an_eighth(
    retention_days: int, warn_h: int, fail_h: int
) -> None:
    found = Runway("bronze.x", retention_days * DAY)
    assert found.limits(None) == (warn_h * HOUR, fail_h * HOUR)
    assert found.limits(Thresholds(7, 5)) == (7, 5)


def test_the_shortest_shard_decides_and_a_lost_one_comes_first() -> None:
    found = left(700, 100, 20)
    assert found.shortest_s == 20 * HOUR and not found.lost
    assert [s.shard for s in found.short(180 * HOUR)] == [2, 1]
    lost = Runway("bronze.x", 30 * DAY, (*found.shards, ShardRunway(7, lost=True)))
    assert (lost.lost, lost.shortest_s, lost.short(0)[0].shard) == (True, 0.0, 7)


def test_a_log_that_is_overdue_is_no_less_than_nothing() -> None:
    assert left(-2).shortest_s == 0.0


def test_without_waiting_logs_all_of_the_retention_is_left_and_without_retention_there_is_no_end() -> None:
    idle = Runway("bronze.x", 3 * DAY, (ShardRunway(0), ShardRunway(1)))
    assert (idle.short(DAY), idle.shortest_s) == ((), 3 * DAY)
    for_ever = Runway("bronze.x", None, (ShardRunway(0, 1_790_000_000),))
    assert (for_ever.short(DAY), for_ever.shortest_s, for_ever.limits(None)) == ((), None, (0, 0))
    assert "deletes nothing" in next(iter(spoken(for_ever, DAY)))


@pytest.mark.parametrize(
    ("pace", "overtaken_hours"), [(None, None), (0.0, 10), (0.5, 20), (1.0, None), (7.0, None)]
)
def test_retention_reaches_the_frontier_only_where_landings_are_slower(
    pace: float | None, overtaken_hours: float | None
) -> None:
    one = ShardRunway(0, 1_790_000_000, left_s=10 * HOUR, pace=pace)
    assert one.overtaken_in_s == (None if overtaken_hours is None else overtaken_hours * HOUR)


def test_each_short_shard_is_a_sentence_that_says_when_and_whether_landings_catch_up() -> None:
    stays = Wait(Why.PAUSED, "somebody paused it")
    shards = (
        ShardRunway(4, 1, left_s=7 * HOUR, stays=stays),
        ShardRunway(0, 1, left_s=5 * HOUR, pace=0.5),
        ShardRunway(1, 1, left_s=6 * HOUR, pace=3.0),
        ShardRunway(2, lost=True),
        ShardRunway(3, 1, left_s=700 * HOUR),
    )
    lost, slow, fast, still = spoken(Runway("bronze.x", 30 * DAY, shards), 180 * HOUR)
    assert lost == "shard 2: retention took logs that had not landed; the next run names the gap"
    assert slow.startswith("shard 0: its oldest log not landed is deleted in 5.0 h; at the present pace")
    assert slow.endswith("in 10.0 h")
    assert fast.endswith("6.0 h; landings catch up at the present pace")
    assert still == "shard 4: its oldest log not landed is deleted in 7.0 h; somebody paused it"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 min"), (720, "12 min"), (18_720, "5.2 h"), (7.5 * DAY, "7.5 d"), (None, "ever")],
)
def test_times_are_short(seconds: float | None, text: str) -> None:
    assert days(seconds) == text
