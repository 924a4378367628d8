"""The health of a logstore: what may be wrong with it, and the one place that says how wrong it is.

`FINDINGS` has a rule for each kind: what it is about, the fact that it judges, its limits in the settings,
and the judge, which is pure. `land`, `describe`, the checks and the sensors judge by this table and show the
same findings; `vitals.py` looks. A fact that nobody asked for is no finding.

What nobody knows is a finding, too: its level is `unknown`, and everybody shows it as a warning, since an
alert for every answer that is lost would be switched off. Not to be able to look for longer than a log may
wait is an error of its own: nobody knows then whether one does. So whoever looks again says what was told
before (`settled`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from pipelines.landing.bounds import Health
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.error_rows import HOURS, ErrorRows, share_text
from pipelines.landing.inspection.proof import OWED, Proof
from pipelines.landing.inspection.runway import CURE, Runway, days, spoken
from pipelines.landing.ledger.mirror import Mirrored
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.watch.wear import WORN, Wear
from sls_io.values.cures import Call, Cure, Do
from sls_io.values.errors import amount
from sls_io.values.window import HOUR_S
from sls_io.wire.pace import MB

_LINES_MAX = 3


class Kind(StrEnum):
    """What may be wrong."""

    RECONCILED = "reconciled"
    PROVEN = "proven"
    RUNWAY = "runway"
    LAG = "lag"
    COMMIT = "commit"
    ERRORS = "errors"
    WEAR = "wear"
    MIRROR = "mirror"


class Level(StrEnum):
    """How wrong: `fail` wants a person now, `warn` in working hours; `unknown`: nobody could look."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One kind: its level, and a sentence with the cure.

    numbers  by name, units last
    lines    what there is to say, a sentence each; `text` has the first `said` of them
    cures    what shows it or mends it
    since_s  since when nobody could look, unix seconds; None: somebody could
    """

    kind: Kind
    level: Level
    text: str
    numbers: Mapping[str, float | str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    cures: tuple[Cure, ...] = ()
    since_s: float | None = None
    said: int = 0

    @property
    def more(self) -> tuple[str, ...]:
        """The lines for which the sentence has no room."""
        return self.lines[self.said :]

    def document(self, logstore: str) -> dict[str, Any]:
        """For a program, with cures as elsewhere; `logstore` as the option that names it, "" for none."""
        return {**asdict(self), "cures": commands.documents(self.cures, logstore)}


@dataclass(frozen=True)
class Unknown:
    """A fact that nobody knows, why, and what settles that."""

    why: str
    cures: tuple[Cure, ...] = ()


@dataclass(frozen=True)
class Waits:
    """Age of the oldest log that waits, in shards that are not paused; `at_most`: the ledger alone says so.
    `paused`: shards that a person paused, and in which logs wait. `unread`: a sentence for each shard of the
    settings whose children nobody reads. `to_come`: why nothing lands yet.

    Worked example: shard 0 waits since 10:00, shard 1, paused, since 8:00. At 10:05 `age_s` is 300 and
    `paused` is (1,): what a person paused is said beside the lag and is none itself.
    """

    age_s: float
    at_most: bool = False
    paused: tuple[int, ...] = ()
    unread: tuple[str, ...] = ()
    to_come: str = ""


@dataclass(frozen=True)
class TimeLeft:
    """The runway, None where nobody asked for it; and the gaps that a run has just named."""

    runway: Runway | Unknown | None
    gaps: tuple[str, ...] = ()
    to_come: str = ""


@dataclass(frozen=True)
class Latest:
    """Age of the newest landing, None before the first; `kept`: it is still in the table's history."""

    age_s: float | None
    kept: bool = True


@dataclass(frozen=True)
class Vitals:
    """What is known of a logstore: a fact for each kind, by its name; None where nobody asked. `cures`: what
    settles a ledger that contradicts itself.

    The name of each field is the value of its `Kind`: `findings` reads the fact of a rule by that. A field is
    None, where nobody asked, or an `Unknown`, where somebody asked in vain: the first is no finding, the
    second is one.
    """

    reconciled: tuple[str, ...] | Unknown | None = None
    proven: Proof | Unknown | None = None
    runway: TimeLeft | Unknown | None = None
    lag: Waits | Unknown | None = None
    commit: Latest | Unknown | None = None
    errors: ErrorRows | Unknown | None = None
    wear: Wear | Unknown | None = None
    mirror: Mirrored | Unknown | None = None
    cures: tuple[Cure, ...] = ()


@dataclass(frozen=True)
class Rule:
    """How one kind is judged: by the fact of its name, and the pair of its name in the settings, where it has
    one. `about` is what a check of it says of itself."""

    kind: Kind
    about: str
    judge: Callable[[Any, Logstore], Finding]


def findings(vitals: Vitals, logstore: Logstore) -> tuple[Finding, ...]:
    """A finding for each fact that somebody asked for, in the order of the table."""
    found = []
    for rule in FINDINGS:
        fact = getattr(vitals, rule.kind.value)
        if isinstance(fact, Unknown):
            found.append(Finding(rule.kind, Level.UNKNOWN, f"nobody knows: {fact.why}", cures=fact.cures))
        elif fact is not None:
            found.append(rule.judge(fact, logstore))
    return tuple(
        replace(each, cures=vitals.cures) if vitals.cures and each.kind is Kind.RECONCILED else each
        for each in found
    )


def settled(found: Finding, told: Finding | None, health: Health, now_s: float) -> Finding:
    """What is said of a kind after `told`, which was said last; None: nothing was.

    What nobody knows stays an error where that was told, and becomes one once nobody could look for longer
    than a log may wait (the second of `health.lag_s`; where that is off, of `commit_s`).

    Worked example: `lag_s.fail` is 3,600. From 10:00 on nobody can look: at 10:30 the level is unknown, at
    11:05 it is an error.
    """
    if found.level is not Level.UNKNOWN:
        return found
    since_s = now_s if told is None or told.since_s is None else told.since_s
    failing = told is not None and told.level is Level.FAIL
    longest_s = health.lag_s.fail or health.commit_s.fail
    blind_s = max(0.0, now_s - since_s)
    level = Level.FAIL if failing or 0 < longest_s < blind_s else Level.UNKNOWN
    text = f"{found.text}. Nobody could look for {days(blind_s)}" if blind_s else found.text
    return replace(found, level=level, text=text, since_s=since_s)


def rising(value: float, warn: float, fail: float) -> Level:
    """The level of a number that should be low; a limit of 0 is never passed.

    Worked example: of the limits 60 and 0, 100 is a warning, and so is any number above 60: there is no
    error.
    """
    if 0 < fail < value:
        return Level.FAIL
    return Level.WARN if 0 < warn < value else Level.OK


def falling(value: float, warn: float, fail: float) -> Level:
    """The level of a number that should be high.

    Worked example: of the limits 10 and 3, 11 is well, 5 is a warning and 2 an error. Of 0 and 0 every number
    is well.
    """
    if value < fail:
        return Level.FAIL
    return Level.WARN if value < warn else Level.OK


# --- judges ------------------------------------------------------------------------------------------------


def _reconciled(problems: tuple[str, ...], logstore: Logstore) -> Finding:
    if not problems:
        return Finding(Kind.RECONCILED, Level.OK, "the newest landing is there, file by file")
    return Finding(
        Kind.RECONCILED,
        Level.FAIL,
        _some(problems),
        lines=problems,
        said=_LINES_MAX,
        cures=(commands.VERIFY,),
    )


def _proven(proof: Proof, logstore: Logstore) -> Finding:
    """Skipped logs are owed and not lost: a warning, until they are landed."""
    problems = [*proof.problems, *(f"shard {s.shard}: {text}" for s in proof.shards for text in s.problems)]
    owed = [f"{OWED}: shard {s.shard}: {text}" for s in proof.shards for text in s.owed]
    level = Level.OK if proof.ok else Level.WARN if proof.verdict == OWED else Level.FAIL
    numbers = {"rows": proof.rows, "problems": len(problems), "owed": len(owed)}
    said = _some(problems or owed) or f"{amount(proof.rows, 'row')}, each once, as the ledger says"
    return Finding(Kind.PROVEN, level, said, numbers, (*problems, *owed), said=_LINES_MAX)


def _runway(left: TimeLeft, logstore: Logstore) -> Finding:
    named, found = _named(left), left.runway
    if left.to_come:
        return Finding(Kind.RUNWAY, Level.WARN, left.to_come)
    if not isinstance(found, Runway):
        return _not_seen(named, found)
    warn_s, fail_s = found.limits(logstore.health.runway_s)
    level = Level.OK if found.shortest_s is None else falling(found.shortest_s, warn_s, fail_s)
    if named or found.lost:
        level = Level.FAIL
    short = found.short(warn_s)
    owed = sum(shard.owed for shard in short)
    helps = bool(named) or not found.waits_for_a_person(warn_s)
    cure = f": {CURE}" * (level is not Level.OK and helps)
    if level is Level.OK and found.suspect:
        level = Level.WARN
    numbers: dict[str, float | str] = {"warning below h": warn_s / HOUR_S, "error below h": fail_s / HOUR_S}
    if found.shortest_s is not None and found.retention_s is not None:
        numbers |= {"runway h": found.shortest_s / HOUR_S, "retention h": found.retention_s / HOUR_S}
    if found.least_s is None:
        numbers |= {"shards": len(found.shards), "shards short": len(short)}
    lines = (*named, *spoken(found, warn_s))
    cures = (commands.OWED,) * bool(owed)
    return Finding(Kind.RUNWAY, level, f"{_some(lines)}{cure}", numbers, lines, cures, said=_LINES_MAX)


def _named(left: TimeLeft) -> tuple[str, ...]:
    """The gaps of the run that looks, and those that others have named within a day. Each is a loss that has
    happened, whatever is left, so it is an error beside any number."""
    lately = left.runway.named if isinstance(left.runway, Runway) else ()
    return (
        *(f"{gap}: lost to retention, this run named the gap" for gap in left.gaps),
        *(f"{gap}: lost to retention, named within a day" for gap in lately if gap not in left.gaps),
    )


def _not_seen(named: tuple[str, ...], why: Unknown | None) -> Finding:
    """The runway of a run that named these gaps, and that did not see how much is left."""
    if why is None:
        return Finding(Kind.RUNWAY, Level.FAIL if named else Level.OK, _some(named) or "no gap was named")
    level = Level.FAIL if named else Level.UNKNOWN
    said = "; ".join((*named[:_LINES_MAX], f"nobody knows the runway: {why.why}"))
    return Finding(Kind.RUNWAY, level, said, cures=why.cures)


def _lag(waits: Waits, logstore: Logstore) -> Finding:
    """What the ledger alone says is an upper bound, so it is said as "no log waits for longer than", and only
    where it passes no limit."""
    if waits.to_come:
        return Finding(Kind.LAG, Level.WARN, waits.to_come)
    level, numbers = rising(waits.age_s, *logstore.health.lag_s), {"lag s": waits.age_s}
    late = level is not Level.OK
    if waits.unread and not late:
        level = Level.WARN
    paused = f"; shards {', '.join(map(str, waits.paused))} are paused, and logs wait there" * bool(
        waits.paused
    )
    if waits.at_most and not late:
        said = f"no log waits for longer than {days(waits.age_s)}"
    elif waits.age_s:
        said = f"the oldest log that waits was received {days(waits.age_s)} ago"
    else:
        said = "nothing waits"
    cure = ": look at the newest run of the micro-batch"
    said = "; ".join((*waits.unread[:_LINES_MAX], f"{said}{paused}{cure * late}"))
    return Finding(
        Kind.LAG,
        level,
        said,
        numbers,
        waits.unread,
        () if level is Level.OK else (commands.DRY_RUN,),
        said=_LINES_MAX,
    )


def _commit(newest: Latest, logstore: Logstore) -> Finding:
    if newest.age_s is None:
        return Finding(Kind.COMMIT, Level.OK, "nothing has landed yet")
    level = rising(newest.age_s, *logstore.health.commit_s)
    least = "" if newest.kept else "at least "
    said = f"the newest landing of {logstore.name} is {least}{days(newest.age_s)} old"
    cure = f": turn on {logstore.name}_schedule, and look at its newest run"
    numbers = {"commit age s": newest.age_s}
    return Finding(Kind.COMMIT, level, f"{said}{cure * (level is not Level.OK)}", numbers)


def _errors(found: ErrorRows, logstore: Logstore) -> Finding:
    """The worst hour decides: one bad hour in a day of good ones would be lost in a share of the day.

    Worked example: 23 hours have 1,000,000 rows each without an error, the last has 1,000 with 300: its share
    is 30 %, of the day it would be a thousandth of a percent. With the default limits, 1 % and 50 %, it is a
    warning.
    """
    if found.worst is None:
        return Finding(Kind.ERRORS, Level.OK, f"no rows in the newest {HOURS} receive hours")
    hour, limits, at = found.hours[found.worst], logstore.health.errors, hour_text(found.worst)
    # A limit of 0 is passed by the first row: unlike a bound in seconds it is no switch.
    level = Level.WARN if hour.share > limits.warn else Level.OK
    level = Level.FAIL if hour.share > limits.fail else level
    said = f"{share_text(hour.share)} of {hour.rows:,} rows of {at} have an error"
    numbers: dict[str, float | str] = {
        "error %": 100 * hour.share,
        "error rows": hour.errors,
        "hour": at,
        f"error rows in {HOURS} h": sum(h.errors for h in found.hours.values()),
    }
    causes = found.causes or {}
    if not causes:
        return Finding(Kind.ERRORS, level, said, numbers)
    top = f", most often: {', '.join(causes)}" * (level is not Level.OK)
    owners = ", ".join(f"'{name}'" for name in found.origins)
    cures = (
        Do(
            f"SELECT __error__, count(*) FROM {logstore.table} WHERE __error__ IS NOT NULL AND "
            f"__receive_hour__ = TIMESTAMP '{at[:10]} {at[11:]}:00+00:00' AND __origin__ IN ({owners}) "
            "GROUP BY __error__ ORDER BY 2 DESC"
        ),
        Call(
            ("backfill", "--mode", "errors", "--local", "--from", at, "--to", at),
            harmless=True,
            does="mends them once columns fit",
        ),
    )
    lines = tuple(
        f"{rows:,} of {amount(found.sample, 'row')} with an error: {why}" for why, rows in causes.items()
    )
    return Finding(Kind.ERRORS, level, f"{said}{top}", numbers, lines, cures)


def _wear(found: Wear, logstore: Logstore) -> Finding:
    level = Level.WARN if found.over(WORN) else Level.OK
    return Finding(Kind.WEAR, level, str(found), {**found.numbers})


def _mirror(found: Mirrored, logstore: Logstore) -> Finding:
    """No error at any lag: the table is the truth, and the next run copies again."""
    late = found.lag_s > _MIRROR_LATE_S
    level = Level.WARN if late or found.trouble or found.ahead else Level.OK
    numbers: dict[str, float | str] = {}
    if found.shards:
        numbers = {"mirror lag s": found.lag_s, "shards behind": found.behind}
        numbers |= {"shards ahead": found.ahead} if found.ahead else {}
        numbers |= {} if found.raw_bytes is None else {"mirror behind MB": found.raw_bytes / MB}
    said = f"the mirror, {found}"
    if found.behind and not found.trouble:
        said += f"; {found.behind} behind, by {days(found.lag_s)} at most"
    cures = (_of_mirror(found, logstore.mirror),) if level is not Level.OK else ()
    return Finding(Kind.MIRROR, level, said, numbers, cures=cures)


def _of_mirror(found: Mirrored, where: str) -> Cure:
    """What lets the mirror follow again: a copy that goes forward moves nothing that is further or frozen."""
    if found.no_group:
        return commands.made_group(where.partition(":")[2])
    return commands.put_into(where) if found.ahead or found.frozen else commands.copied_to(where)


_MIRROR_LATE_S = HOUR_S


def _some(lines: Sequence[str]) -> str:
    return "; ".join(lines[:_LINES_MAX])


FINDINGS: tuple[Rule, ...] = (
    Rule(
        Kind.RECONCILED,
        "The files of the newest landing exist, their rows are what the service counted page by page, and "
        "the ledger was not rolled back. While this fails no checkpoint moves.",
        _reconciled,
    ),
    Rule(
        Kind.PROVEN,
        "Every row is there once and nothing is missing: rows and identity sums of each shard against the "
        "ledger, apart from named gaps, withdrawn hours and rows removed by decision. Reads the whole "
        "table's identities, and every column of a seventh of its files, each day another one. Warns while "
        "skipped logs are owed. A run that lands takes the first proof of a small table; later ones repeat "
        "the last verdict.",
        _proven,
    ),
    Rule(
        Kind.RUNWAY,
        "Time until the service's retention deletes the oldest log that has not landed; an error when logs "
        "were lost.",
        _runway,
    ),
    Rule(
        Kind.LAG,
        "Age of the oldest log that has not landed; a warning, too, while nobody reads the children of a "
        "shard that the settings name.",
        _lag,
    ),
    Rule(
        Kind.COMMIT,
        "Age of this logstore's newest landing: a schedule that runs commits once an hour at least.",
        _commit,
    ),
    Rule(
        Kind.ERRORS,
        f"Rows with an error in each of the newest {HOURS} receive hours: values that do not fit their "
        "columns, bytes that cannot be read. All of them are kept. The worst hour decides.",
        _errors,
    ),
    Rule(Kind.WEAR, "Files, snapshots and manifests since the newest maintenance.", _wear),
    Rule(
        Kind.MIRROR,
        "The second place of the table's positions, where `mirror` names one: warns when it cannot be "
        "written, and when it is more than an hour of receive time behind the table.",
        _mirror,
    ),
)
"""Every kind, in the order in which it is told."""
ABOUT: Mapping[Kind, str] = {rule.kind: rule.about for rule in FINDINGS}
