"""How wrong each kind is, and what becomes of it while nobody can look: the judges, as values."""

import io
from typing import Any

import pytest

from pipelines.cli.findings import say_findings
from pipelines.cli.output import Output
from pipelines.landing.inspection.error_rows import ErrorRows, HourErrors, share_text
from pipelines.landing.inspection.proof import Proof, ShardProof
from pipelines.landing.inspection.runway import CURE, Runway, ShardRunway
from pipelines.landing.ledger.mirror import Mirrored
from pipelines.landing.table import commands
from pipelines.landing.watch.health import (
    ABOUT,
    FINDINGS,
    Finding,
    Kind,
    Latest,
    Level,
    TimeLeft,
    Unknown,
    Vitals,
    Waits,
    falling,
    findings,
    rising,
    settled,
)
from pipelines.landing.watch.wear import WORN, Wear
from sls_io.planning.waits import Wait, Why, paused, unnamed
from sls_io.values.cures import Do
from sls_io.values.window import Cursor
from tests.worlds.components import logstore

DAY, NOW_S = 86_400.0, 1_790_000_000.0
OK, WARN, FAIL, UNKNOWN = Level
UNSURE = Wait(Why.SUSPECT, "nobody is sure")


def judged(facts: dict[str, Any], **settings: Any) -> Finding:
    """The finding of one fact."""
    (found,) = findings(Vitals(**facts), logstore(**settings))
    assert found.kind == next(iter(facts))
    return found


def days_left(*days: float, of: float = 30, **marks: Any) -> TimeLeft:
    shards = (ShardRunway(n, 1, left_s=each * DAY, **marks) for n, each in enumerate(days))
    return TimeLeft(Runway("bronze.x", of * DAY, tuple(shards)))


def errors_in(wrong: int, rows: int = 100) -> ErrorRows:
    return ErrorRows({9: HourErrors(rows, wrong)}, 9, ("o",), {"status is not int": wrong}, wrong)


def proof(**shard: Any) -> Proof:
    one = ShardProof(0, 5, 5, Cursor(9), None, False, **shard)
    return Proof("bronze.x", "o", (one,))


@pytest.mark.parametrize(
    ("fact", "level", "said"),
    [
        ({"reconciled": ()}, OK, "file by file"),
        ({"reconciled": ("a.parquet is gone",)}, FAIL, "a.parquet is gone"),
        ({"runway": days_left(8)}, OK, "has 8.0 d of 30.0 d left"),
        (
            {"runway": days_left(20, 7)},
            WARN,
            f"shard 1: its oldest log not landed is deleted in 7.0 d: {CURE}",
        ),
        ({"runway": days_left(0.9)}, FAIL, "21.6 h"),
        ({"runway": days_left(1.1, of=2)}, OK, "26.4 h"),
        ({"runway": days_left(0.9, of=2)}, WARN, "shard 0"),
        ({"runway": days_left(0.2, of=2)}, FAIL, "shard 0"),
        ({"runway": days_left(29, lost=True)}, FAIL, "retention took logs"),
        ({"runway": days_left(29, stays=UNSURE)}, WARN, "shard 0: nobody is sure"),
        ({"runway": days_left(29, stays=paused(0))}, OK, "has 29.0 d of 30.0 d left"),
        (
            {"runway": days_left(0.9, owed_since_s=0)},
            FAIL,
            "no run lands them, a backfill of their hours does",
        ),
        ({"runway": TimeLeft(Runway("bronze.x", None))}, OK, "deletes nothing"),
        ({"runway": TimeLeft(Runway("bronze.x", 30 * DAY, (), 20 * DAY))}, OK, "at least 20.0 d"),
        ({"runway": TimeLeft(Runway("bronze.x", 30 * DAY), ("shard 0",))}, FAIL, "this run named the gap"),
        ({"runway": TimeLeft(None, ("shard 0",))}, FAIL, "this run named the gap"),
        ({"runway": TimeLeft(None)}, OK, "no gap"),
        ({"runway": TimeLeft(Unknown("it is down"))}, UNKNOWN, "nobody knows the runway: it is down"),
        ({"runway": TimeLeft(Unknown("it is down"), ("shard 0",))}, FAIL, "named the gap; nobody knows"),
        ({"runway": TimeLeft(None, to_come="`start` is to come")}, WARN, "to come"),
        ({"lag": Waits(0.0)}, OK, "nothing waits"),
        ({"lag": Waits(1800.0)}, OK, "30 min ago"),
        ({"lag": Waits(1801.0)}, WARN, "look at the newest run of the micro-batch"),
        ({"lag": Waits(7201.0)}, FAIL, "2.0 h ago"),
        ({"lag": Waits(900.0, at_most=True)}, OK, "no log waits for longer than 15 min"),
        ({"lag": Waits(0.0, paused=(3,))}, OK, "shards 3 are paused, and logs wait there"),
        ({"lag": Waits(0.0, to_come="`start` is to come")}, WARN, "to come"),
        ({"commit": Latest(None)}, OK, "nothing has landed yet"),
        ({"commit": Latest(7200.0)}, OK, "2.0 h old"),
        ({"commit": Latest(7201.0)}, WARN, "turn on access_logs_schedule"),
        ({"commit": Latest(21_601.0, kept=False)}, FAIL, "is at least 6.0 h old"),
        ({"errors": ErrorRows({})}, OK, "no rows in the newest 24"),
        ({"errors": errors_in(1)}, OK, "1.0% of 100 rows of 1970-01-01-09:00 have an error"),
        ({"errors": errors_in(4, 10_012)}, OK, "0.04% of 10,012 rows of 1970-01-01-09:00 have an error"),
        ({"errors": errors_in(2)}, WARN, "have an error, most often: status is not int"),
        ({"errors": errors_in(51)}, FAIL, "51.0%"),
        ({"proven": proof()}, OK, "5 rows, each once"),
        ({"proven": proof(owed=("hours skipped",))}, WARN, "owed: shard 0: hours skipped"),
        ({"proven": proof(problems=("2 are missing",), owed=("x",))}, FAIL, "shard 0: 2 are missing"),
        ({"wear": WORN}, OK, "400 snapshots with 40.0 MB of ledgers, 200 manifests"),
        ({"wear": Wear(0, 0, 201)}, WARN, "201 manifests"),
        ({"wear": Wear(0, 30, 0, 40_050_000)}, WARN, "30 snapshots with 40.0 MB of ledgers"),
        ({"mirror": Mirrored("file /m")}, OK, "file /m: nothing has landed yet"),
        ({"mirror": Mirrored("file /m", 2, 2)}, OK, "file /m: 2 of 2 shards are where the table is"),
        ({"mirror": Mirrored("file /m", 2, 0, 1, 3600.0, None)}, OK, "1 of 2 shards"),
        (
            {"mirror": Mirrored("file /m", 2, 0, 1, 3601.0, 5)},
            WARN,
            "1 of 2 shards are where the table is; 1 behind, by",
        ),
        (
            {"mirror": Mirrored("file /m", 3, ahead=2)},
            WARN,
            "1 of 3 shards are where the table is; 2 further: who begins there skips logs",
        ),
        ({"mirror": Mirrored("file /m", trouble="it is full")}, WARN, "the mirror, file /m: it is full"),
    ],
)
def test_each_kind_has_one_judge(fact: dict[str, Any], level: Level, said: str) -> None:
    found = judged(fact)
    assert found.level is level and said in found.text


@pytest.mark.parametrize("wait", [paused(0), unnamed([1], nobodys=True)], ids=lambda wait: wait.kind)
def test_a_shard_that_no_run_of_ours_reads_waits_for_a_person_and_not_for_a_larger_budget(wait: Wait) -> None:
    found = judged({"runway": days_left(4, stays=wait)})
    assert found.level is WARN
    assert found.text == f"shard 0: its oldest log not landed is deleted in 4.0 d; {wait}"
    both = (ShardRunway(0, 1, 4 * DAY, stays=wait), ShardRunway(1, 1, 5 * DAY))
    beside = judged({"runway": TimeLeft(Runway("bronze.x", 30 * DAY, both))})
    assert CURE in beside.text, "of the other one a run helps"


@pytest.mark.parametrize(
    ("part", "rows", "said"),
    [
        (0, 100, "0.0%"),
        (1, 10_000_000, "0.00001%"),
        (4, 10_012, "0.04%"),
        (6, 10_000, "0.06%"),
        (1, 8, "12.5%"),
        (1, 3, "33.3%"),
        (999, 1_000, "99.9%"),
        (9_999_999, 10_000_000, "99.99999%"),
        (7, 7, "100.0%"),
    ],
)
def test_a_share_is_never_shown_as_none_or_as_all_where_it_is_not(part: int, rows: int, said: str) -> None:
    assert share_text(HourErrors(rows, part).share) == said


def test_every_kind_has_a_rule_and_says_what_it_is_about() -> None:
    assert {rule.kind for rule in FINDINGS} == {*Kind} == {*ABOUT} and len(FINDINGS) == len(Kind)


def test_a_fact_that_nobody_asked_for_is_no_finding_and_one_that_nobody_knows_is() -> None:
    assert findings(Vitals(), logstore()) == ()
    for kind in Kind:
        found = judged({kind.value: Unknown("the catalog is down", (commands.VERIFY,))})
        assert (found.level, found.text) == (UNKNOWN, "nobody knows: the catalog is down")
        assert found.cures == (commands.VERIFY,), "what settles it is not lost with the error"


def test_what_settles_a_ledger_is_told_once_for_people_and_with_each_finding_for_programs() -> None:
    cures = (commands.rollback(7), Do("restore the catalog"))
    found = findings(
        Vitals(("gone",), lag=Unknown("gone", cures), wear=Unknown("gone", cures), cures=cures), logstore()
    )
    assert [each.cures for each in found] == [cures] * 3
    shown = io.StringIO()
    say_findings(Output(file=shown), found)
    assert shown.getvalue().count("  sls-lake table rollback 7\n  restore the catalog\n") == 1


def test_a_pair_in_the_settings_overrides_what_the_retention_makes_of_it() -> None:
    pairs = {"runway_s": [3600, 60], "errors": [1, 1]}
    assert judged({"runway": days_left(0.1)}, health=pairs).level is OK
    assert judged({"runway": days_left(0.01)}, health=pairs).level is WARN
    assert judged({"errors": errors_in(100)}, health=pairs).level is OK


def test_a_finding_has_its_numbers_with_units_and_what_shows_and_mends_it() -> None:
    found = judged({"errors": errors_in(2)})
    assert found.numbers == {
        "error %": 2.0,
        "error rows": 2,
        "hour": "1970-01-01-09:00",
        "error rows in 24 h": 2,
    }
    look, mend = found.document("logs")["cures"]
    assert look["do"].startswith("SELECT __error__")
    mends = "sls-lake backfill --mode errors --local --from 1970-01-01-09:00 --to 1970-01-01-09:00 -l logs"
    assert mend == {"call": f"{mends} --execute", "does": "mends them once columns fit"}
    assert found.lines == ("2 of 2 rows with an error: status is not int",)
    numbers = judged({"runway": days_left(20, 7)}).numbers
    assert numbers == {
        "runway h": 168.0,
        "retention h": 720.0,
        "warning below h": 180.0,
        "error below h": 24.0,
        "shards": 2,
        "shards short": 1,
    }


def test_a_number_is_measured_against_its_limits_and_a_limit_of_0_is_never_passed() -> None:
    assert [rising(x, 1, 2) for x in (1, 1.5, 3)] == [OK, WARN, FAIL]
    assert [falling(x, 2, 1) for x in (3, 1.5, 0.5)] == [OK, WARN, FAIL]
    assert rising(1e9, 0, 0) is falling(0, 0, 0) is OK


@pytest.mark.parametrize(
    ("told", "since_s", "after_s", "level"),
    [
        (None, None, 0, UNKNOWN),
        (OK, None, 0, UNKNOWN),
        (FAIL, None, 0, FAIL),
        (WARN, NOW_S, 7200, UNKNOWN),
        (WARN, NOW_S, 7201, FAIL),
        (FAIL, NOW_S, 60, FAIL),
        (OK, NOW_S - 9000, 0, FAIL),
    ],
)
def test_what_nobody_knows_is_as_bad_as_it_was_told_and_an_error_in_time(
    told: Level | None, since_s: float | None, after_s: float, level: Level
) -> None:
    before = None if told is None else Finding(Kind.LAG, told, "before", since_s=since_s)
    unknown = Finding(Kind.LAG, UNKNOWN, "nobody knows: it is down")
    found = settled(unknown, before, logstore().health, NOW_S + after_s)
    assert found.level is level
    assert found.since_s == (NOW_S + after_s if since_s is None else since_s)
    assert ("Nobody could look for" in found.text) is (found.since_s < NOW_S + after_s)
    fine = Finding(Kind.LAG, OK, "nothing waits")
    assert settled(fine, before, logstore().health, NOW_S) is fine


def test_who_has_switched_the_lag_off_is_told_by_the_age_of_the_commit() -> None:
    blind = Finding(Kind.LAG, WARN, "nobody knows", since_s=NOW_S)
    unknown = Finding(Kind.LAG, UNKNOWN, "nobody knows")

    def after(hours: float, **health: Any) -> Level:
        return settled(unknown, blind, logstore(health=health).health, NOW_S + hours * 3600).level

    off = [0, 0]
    assert after(3, lag_s=off) is UNKNOWN and after(7, lag_s=off) is FAIL
    assert after(1e6, lag_s=off, commit_s=off) is UNKNOWN
