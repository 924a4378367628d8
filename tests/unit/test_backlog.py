"""What waits in a shard, estimated, and how it is said."""

import io

import pytest

from pipelines.cli.backlog import say_backlog
from pipelines.cli.output import Output
from pipelines.landing.ledger.left import HOURS, rate_of
from pipelines.landing.run.report import Backlog
from sls_io.values.window import HOUR_S

H = 500
GB = 1_000_000_000


@pytest.mark.parametrize(
    ("hours", "reached_s", "rate"),
    [
        ({H: 3600, H + 1: 7200}, (H + 2) * HOUR_S, 1.5),
        ({H: 3600, H + 1: 7200}, 0, 1.5),
        ({H: 3600, H + 1: 1800}, (H + 1) * HOUR_S + 1800, 1.0),
        ({H: 7200}, (H + 4) * HOUR_S, 0.5),  # hours in which nothing came are hours
        ({H: 3600, H + 1: 99}, (H + 1) * HOUR_S, 1.0),  # begun and not yet reached
        ({H - HOURS: 10**9, H: 86_400}, (H + 1) * HOUR_S, 24.0),  # only the last day counts
        ({H: 3600}, H * HOUR_S + 599, None),
        ({H: 3600}, (H + HOURS + 1) * HOUR_S, None),
    ],
)
def test_the_rate_is_what_landed_of_the_last_day_by_receive_time(
    hours: dict[int, int], reached_s: int, rate: float | None
) -> None:
    assert rate_of(hours, reached_s) == (None if rate is None else pytest.approx(rate))


def test_what_waits_takes_as_long_as_the_quota_says() -> None:
    found = Backlog.of(GB / HOUR_S, 12 * HOUR_S, 10.0)
    assert found is not None
    assert found.raw_bytes == pytest.approx(12 * GB) and found.reading_s == pytest.approx(1200)
    assert not found.hopeless


@pytest.mark.parametrize(("rate", "lag_s"), [(None, 100.0), (5.0, None), (5.0, 0.0)])
def test_where_nothing_waits_or_is_known_nothing_is_said(rate: float | None, lag_s: float | None) -> None:
    assert Backlog.of(rate, lag_s, 10.0) is None
    assert said(None) == ""


def said(backlog: Backlog | None) -> str:
    shown = io.StringIO()
    say_backlog(Output(as_json=False, file=shown), 3, backlog)
    return " ".join(shown.getvalue().split())


def test_the_quota_that_binds_is_said_with_the_time_it_takes_and_where_that_is_from() -> None:
    text = said(Backlog.of(GB / HOUR_S, 12 * HOUR_S, 10.0))
    assert "shard 3 is bound by the shard's quota: 10 MB/s" in text
    assert "About 12,000.0 MB wait, 20 min 00 s of reading at least" in text
    assert "1,000.0 MB a receive hour that landed lately" in text and "split it" not in text


def test_a_short_wait_is_not_worth_a_line() -> None:
    assert said(Backlog.of(1000.0, 600.0, 10.0)) == ""


def test_a_shard_that_gets_more_than_its_quota_lets_out_is_said_to_be_hopeless() -> None:
    text = said(Backlog.of(12e6, 60.0, 10.0))
    assert "more comes to shard 3 than the quota lets out: split it" in text
