"""What somebody should hear of: lag, runway, a stale commit, rows with errors, files that are gone.

Each kind has a level. What cannot be looked at is a warning that says why, since an alert for every answer
that is lost would be switched off. Not to be able to look for longer than a log may wait is the trouble
itself: nobody knows then whether one does. So whoever looks again says what was told before (`settled`).

Shards are asked only where the ledger leaves open whether a bound is passed: see `look.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing.bounds import Falling, Rising, TroubleSettings
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.error_rows import error_rows
from pipelines.landing.inspection.runway import CURE, Runway, days, runway, spoken
from pipelines.landing.ledger import codec
from pipelines.landing.ledger.state import ancestry, facts, origins_named, read_state, reconcile
from pipelines.landing.ledger.summary import summary_of, windows_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake, NoMetadata
from pipelines.landing.watch.look import Look, look
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import LedgerBroken, SlsError

_LINES_MAX = 3
_Given = TypeVar("_Given", Lake, SlsClient)


class Kind(StrEnum):
    """What may be wrong."""

    LAG = "lag"
    RUNWAY = "runway"
    COMMIT = "commit"
    ERRORS = "errors"
    RECONCILED = "reconciled"


class Level(StrEnum):
    """How wrong: `fail` wants a person now, `warn` in working hours."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One kind: its level, a sentence with the cure, and numbers by name, units last. `unseen`: nobody could
    look; `since_s`: since when, unix seconds, where that is known."""

    kind: Kind
    level: Level
    text: str
    numbers: dict[str, float] = field(default_factory=dict)
    unseen: bool = False
    since_s: float | None = None


def troubles(
    logstore: Logstore,
    lake: Lake | SlsError,
    client: SlsClient | SlsError,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[Finding, ...]:
    """One finding for each kind, in their order. Changes nothing; raises no SlsError and no OSError.

    `lake` and `client` are why there is none where a setting or keys are gone: then nobody can look, either.
    """
    bounds = logstore.sensors.trouble
    try:
        seen: Look | SlsError | OSError = look(logstore, _there(lake), _there(client))
    except LedgerBroken as error:
        return _broken(error)
    except (SlsError, OSError) as error:
        seen = error
    return (
        *_by_the_service(logstore, lake, client, seen, bounds),
        _commit(logstore, lake, bounds.commit_s, clock),
        _errors(logstore, lake),
        _reconciled(logstore, lake),
    )


def settled(found: Finding, told: Finding | None, bounds: TroubleSettings, now_s: float) -> Finding:
    """What is said of a kind after `told`, which was said last; None: nothing was.

    What cannot be looked at stays as bad as it was told, is at least a warning, and fails once nobody could
    look for longer than a log may wait (`lag_s.fail`; where that is off, `commit_s.fail`).
    """
    if not found.unseen:
        return found
    since_s = told.since_s if told is not None and told.unseen and told.since_s is not None else now_s
    failing = told is not None and told.level is Level.FAIL
    longest_s = bounds.lag_s.fail or bounds.commit_s.fail
    blind_s = max(0.0, now_s - since_s)
    level = Level.FAIL if failing or 0 < longest_s < blind_s else Level.WARN
    text = f"{found.text}. Nobody could look for {days(blind_s)}" if blind_s else found.text
    return replace(found, level=level, text=text, since_s=since_s)


def _there(given: _Given | SlsError) -> _Given:
    if isinstance(given, SlsError):
        raise given
    return given


def _broken(error: LedgerBroken) -> tuple[Finding, ...]:
    """A ledger that contradicts itself: nothing else can be looked at, and one alert is enough for now."""
    others = (_unseen(kind, error) for kind in Kind if kind is not Kind.RECONCILED)
    return (*others, Finding(Kind.RECONCILED, Level.FAIL, str(error)))


def _by_the_service(
    logstore: Logstore,
    lake: Lake | SlsError,
    asked: SlsClient | SlsError,
    seen: Look | SlsError | OSError,
    bounds: TroubleSettings,
) -> tuple[Finding, Finding]:
    """Lag and runway."""
    try:
        client = _there(asked)
        if not isinstance(seen, Look):
            raise seen
        passed_s, retention_s = seen.passed_s, client.retention_s()
        if passed_s is None and (to_come := logstore.ahead(seen.now_s)):
            return Finding(Kind.LAG, Level.WARN, to_come), Finding(Kind.RUNWAY, Level.WARN, to_come)
        age_s = 0.0 if passed_s is None else max(0.0, seen.now_s - passed_s)
        left_s = None if retention_s is None else retention_s - age_s
        limits = _runway_limits(bounds.runway_s, retention_s)
        if age_s <= bounds.lag_s.warn and (left_s is None or left_s >= limits.warn):
            return _lag(age_s, bounds.lag_s, at_most=True), _runway(left_s, limits, None)
        found = runway(logstore, _there(lake), client)
    except (SlsError, OSError) as error:
        return _unseen(Kind.LAG, error), _unseen(Kind.RUNWAY, error)
    since = [s.waiting_since_s for s in found.shards if s.waiting_since_s is not None]
    lag_s = max(0.0, seen.now_s - min(since)) if since else 0.0
    return _lag(lag_s, bounds.lag_s), _runway(found.shortest_s, limits, found)


def _lag(lag_s: float, limits: Rising, *, at_most: bool = False) -> Finding:
    said = f"the oldest log that waits was received {days(lag_s)} ago"
    if at_most:
        return Finding(Kind.LAG, Level.OK, f"no log waits for longer than {days(lag_s)}", {"lag s": lag_s})
    level = rising(lag_s, limits)
    cure = "look at the newest run of the micro-batch; `sls-lake plan` says why a shard waits"
    text = said if level is Level.OK else f"{said}: {cure}"
    return Finding(Kind.LAG, level, text if lag_s else "nothing waits", {"lag s": lag_s})


def _runway_limits(limits: Falling, retention_s: float | None) -> Falling:
    """A logstore that keeps three days must not be in trouble all the time."""
    if retention_s is None:
        return limits
    return Falling(warn=min(limits.warn, retention_s / 4), fail=min(limits.fail, retention_s / 8))


def _runway(left_s: float | None, limits: Falling, found: Runway | None) -> Finding:
    numbers = {} if left_s is None else {"runway s": max(0.0, left_s)}
    if found is not None and found.level == "lost":
        return Finding(Kind.RUNWAY, Level.FAIL, "; ".join([*spoken(found)][:_LINES_MAX]), numbers)
    if found is not None and found.level == "suspect":
        return Finding(Kind.RUNWAY, Level.WARN, "; ".join([*spoken(found)][:_LINES_MAX]), numbers)
    said = f"retention deletes the oldest log that waits in {days(left_s)} at the earliest"
    if left_s is None:
        return Finding(Kind.RUNWAY, Level.OK, "the logstore deletes nothing")
    level = falling(left_s, limits)
    return Finding(Kind.RUNWAY, level, said if level is Level.OK else f"{said}: {CURE}", numbers)


def _commit(logstore: Logstore, lake: Lake | SlsError, limits: Rising, clock: Clock) -> Finding:
    """How old the newest landing is. A schedule that runs commits once an hour, also where nothing comes."""

    def of() -> Finding:
        table = _there(lake).load(logstore.table)
        newest, kept = _newest_landing(logstore, table) if table is not None else (None, True)
        if newest is None:
            return Finding(Kind.COMMIT, Level.OK, "nothing has landed yet")
        age_s, least = max(0.0, clock.now() - newest.timestamp_ms / 1000), "" if kept else "at least "
        level, said = (
            rising(age_s, limits),
            f"the newest landing of {logstore.name} is {least}{days(age_s)} old",
        )
        cure = f": turn on {logstore.name}_schedule, and look at its newest run"
        return Finding(
            Kind.COMMIT, level, said if level is Level.OK else said + cure, {"commit age s": age_s}
        )

    return _asked(Kind.COMMIT, of)


def _newest_landing(logstore: Logstore, table: Table) -> tuple[Snapshot | None, bool]:
    """Its newest landing in `main`; where none is kept, the oldest snapshot with its ledger, and False.

    Story: the schedule of one logstore is dead. Another one lands in the same table, a maintenance compacts
    it, another engine writes: all of them commit, and a maintenance lets the last landing expire. Whatever
    has its ledger is younger than that landing was.
    """
    state, oldest = facts(table, damaged_too=True), None
    mine = origins_named(state, logstore.service.project, logstore.service.logstore)
    for snapshot in ancestry(table):
        said = summary_of(snapshot)
        # What a person or a maintenance does names an origin, too, and is no landing.
        if codec.VERB_KEY not in said and windows_of(snapshot)[0] in mine:
            return snapshot, True
        if any(f"{codec.LEDGER_PREFIX}{origin}" in said for origin in mine):
            oldest = snapshot
    return oldest, False


def _errors(logstore: Logstore, lake: Lake | SlsError) -> Finding:
    def of() -> Finding:
        found = error_rows(logstore, _there(lake))
        if found.worst is None:
            return Finding(Kind.ERRORS, Level.OK, "no rows in the newest hours")
        hour, limits = found.hours[found.worst], logstore.errors
        level = (
            Level.FAIL if hour.share > limits.fail else Level.WARN if hour.share > limits.warn else Level.OK
        )
        said = f"{hour.share:.1%} of {hour.rows:,} rows of {hour_text(found.worst)} have an error"
        cure = "; the check `clean` says which, and how to see them"
        numbers = {"error %": 100 * hour.share, "error rows": float(hour.errors)}
        return Finding(Kind.ERRORS, level, said if level is Level.OK else said + cure, numbers)

    return _asked(Kind.ERRORS, of)


def _reconciled(logstore: Logstore, lake: Lake | SlsError) -> Finding:
    def of() -> Finding:
        table = _there(lake).load(logstore.table)
        if table is not None:
            read_state(table)  # `look` comes so far only where the service answers
        problems = reconcile(table) if table is not None else []
        if problems:
            return Finding(Kind.RECONCILED, Level.FAIL, "; ".join(problems[:_LINES_MAX]))
        return Finding(Kind.RECONCILED, Level.OK, "the newest landing is there, file by file")

    return _asked(Kind.RECONCILED, of)


def _asked(kind: Kind, of: Callable[[], Finding]) -> Finding:
    """What can be known of the table; a ledger that cannot be trusted is what `reconciled` is about."""
    try:
        return of()
    except (SlsError, OSError) as error:
        if kind is Kind.RECONCILED and isinstance(error, LedgerBroken | NoMetadata):
            return Finding(kind, Level.FAIL, str(error))
        return _unseen(kind, error)


def _unseen(kind: Kind, error: SlsError | OSError) -> Finding:
    return Finding(kind, Level.WARN, f"nobody knows: {error}", unseen=True)


def rising(value: float, limits: Rising) -> Level:
    """The level of a number that should be low; a limit of 0 is never passed."""
    if 0 < limits.fail < value:
        return Level.FAIL
    return Level.WARN if 0 < limits.warn < value else Level.OK


def falling(value: float, limits: Falling) -> Level:
    """The level of a number that should be high."""
    if value < limits.fail:
        return Level.FAIL
    return Level.WARN if value < limits.warn else Level.OK
