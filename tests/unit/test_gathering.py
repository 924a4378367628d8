"""Shards that wait until enough has come, or it has waited long enough."""

import pytest

from pipelines.landing.ledger.left import gathering
from sls_io.planning.values import Span, Survey
from sls_io.planning.waits import Why
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.errors import SlsError
from sls_io.values.settings import Budget
from sls_io.values.window import HOUR_S, Cursor

NOW_S = 500 * HOUR_S + 1800
BUDGET = Budget(mb_min=32, wait_max_s=900)


def held(
    age_s: int, rate: float | None, *, spans: bool = True, first_s: int | SlsError = NOW_S - HOUR_S
) -> bool:
    """Whether shard 0, drained so many seconds before now, waits; `rate` in raw bytes a second, `first_s`
    when its first log came, or what asking for that raises."""

    def received_s(shard: int, cursor: Cursor) -> int:
        assert (shard, cursor) == (0, Cursor(5))
        if isinstance(first_s, SlsError):
            raise first_s
        return first_s

    span = Span(500, Cursor(5), Cursor(9))
    found = gathering(
        {0: Survey(0, None, (span,) if spans else ())},
        Ledger("o", {0: ShardLedger(Cursor(1), reached_s=NOW_S - age_s)}),
        BUDGET,
        {} if rate is None else {0: rate},
        received_s,
        until_s=NOW_S,
    )
    assert all(wait.kind is Why.GATHERING for wait in found.values())
    return 0 in found


@pytest.mark.parametrize(
    ("age_s", "mb_per_minute", "waits"),
    [(600, 2, True), (899, 2, True), (900, 2, False), (479, 4, True), (481, 4, False), (0, 2, True)],
)
def test_a_shard_lands_when_enough_waits_or_it_waited_long_enough(
    age_s: int, mb_per_minute: float, waits: bool
) -> None:
    assert held(age_s, mb_per_minute * 1e6 / 60) is waits


def test_a_shard_of_which_nothing_is_known_or_nothing_waits_is_not_held_up() -> None:
    assert not held(600, None)
    assert not held(600, 1.0, spans=False)
    assert gathering({7: Survey(7, None)}, Ledger("o"), BUDGET, {7: 1.0}, begun_s, until_s=NOW_S) == {}


def begun_s(shard: int, cursor: Cursor) -> int:
    """The first log came with the hour."""
    return 500 * HOUR_S


def test_a_shard_that_was_quiet_gathers_from_its_first_log_on() -> None:
    assert held(1700, 100.0, first_s=NOW_S - 30), "reached half an hour ago, and its oldest log is new"
    assert held(1700, 100.0, first_s=NOW_S - 899)
    assert not held(1700, 100.0, first_s=NOW_S - 900)
    assert not held(1700, 1e6, first_s=NOW_S - 60), "as much as was asked for came at once"
    assert held(600, 100.0, first_s=SlsError("not asked"))


def test_a_shard_whose_first_log_cannot_be_told_lands() -> None:
    assert not held(1700, 100.0, first_s=SlsError("not there"))


def test_the_oldest_log_counts_from_its_hour_where_nothing_was_reached() -> None:
    """The shard's history began, and nothing of it landed: it has waited since its first hour began."""
    survey = Survey(0, None, (Span(500, Cursor(5), Cursor(9)),))
    ledger = Ledger("o", {0: ShardLedger(Cursor(1))})
    late = BUDGET.model_copy(update={"wait_max_s": 1801})
    assert 0 in gathering({0: survey}, ledger, late, {0: 1.0}, begun_s, until_s=NOW_S)
    assert gathering({0: survey}, ledger, BUDGET, {0: 1.0}, begun_s, until_s=NOW_S) == {}
