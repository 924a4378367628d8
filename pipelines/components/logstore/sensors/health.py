"""`<name>_health_sensor`: tells what is wrong with a logstore, and asks for what looks again or mends it.

It tells a check's verdict when its level changes, and when somebody can look again or nobody can any more, so
the event log stays small. What runs land and prove stands with the table, and is theirs: of `reconciled` it
tells only what has gone wrong since, and takes back only what it told itself.

Where a kind begins to fail, it asks for the job `<name>_health` as well. That looks again and fails with the
sentences of what is wrong: whatever sends failures of runs, sends these. At most once an hour for a kind: one
that fails again sooner is owed, and asked for when the hour is over, if it still fails. `docs/alerts.md` has
both ways.

A table that is worn wants no person: it asks for the maintenance, once, and again when a quarter more has
come.

Why a job that fails, and not a message of our own: whoever runs Dagster has told it once where failed runs
are sent, by mail, chat or pager. A second way would be one more secret and one more thing that is broken when
it is needed. And why at most once an hour: a lag that goes up and down over its bound every ten minutes would
send six alerts an hour, and people switch off what sends six an hour.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

import dagster as dg
from pydantic import TypeAdapter, ValidationError

from pipelines.components.logstore.health import Told, last_told, looked, verdict
from pipelines.components.logstore.maintenance import maintaining
from pipelines.components.logstore.sensors.ticks import Job, Lookout, Sighting
from pipelines.landing.logstore import Logstore
from pipelines.landing.watch.health import Finding, Kind, Level
from pipelines.landing.watch.wear import WORN, Wear
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.window import HOUR_S

_EVERY_S = 300
_MORE = 1.25
"""What a maintenance could not lower is tried again once it has grown by so much."""


def health_lookout(
    logstore: Logstore,
    job: Job,
    maintenance: Job,
    *,
    unset: str = "",
    clock: Clock = SYSTEM_CLOCK,
    worn: Wear = WORN,
) -> Lookout:
    """What the sensor does; `job` fails where a check does, `maintenance` is asked for above `worn`. `unset`
    names the endpoint's variable where it is not set: nobody can look at the service then, and it says so."""

    def health(instance: dg.DagsterInstance, cursor: str) -> Sighting:
        memory, now_s = _memory(cursor), clock.now()
        found = looked(logstore, instance, unset, clock)
        wear = next(each for each in found if each.kind is Kind.WEAR)
        others = [each for each in found if each is not wear]
        levels = {each.kind.value: each.level.value for each in others}
        told = last_told(instance, logstore, [each.kind for each in others])
        events = (
            dg.AssetCheckEvaluation(**verdict(logstore, each))
            for each in others
            if _is_news(each, memory.levels.get(each.kind.value), told.get(each.kind))
        )
        red, owed = _begun(memory, levels, now_s)
        key = f"health-{'-'.join(red)}-{logstore.name}-{int(now_s)}"
        requests = [dg.RunRequest(key, job_name=job.name)] if red else []
        upkeep, why, counts = _upkeep(instance, logstore, maintenance, wear, memory.worn, worn)
        asked_s = memory.asked_s | dict.fromkeys(red, now_s)
        return Sighting(
            f"{_said(others)}; {why}",
            json.dumps(asdict(_Memory(levels, asked_s, owed, counts))),
            (*requests, *upkeep),
            (*events,),
        )

    return Lookout(
        logstore,
        "health",
        health,
        _EVERY_S,
        "Tells the checks of the logstore, runs the health job where one begins to fail, and asks for a "
        "maintenance when files, snapshots or manifests are too many.",
        jobs=(job, maintenance),
    )


def _is_news(found: Finding, before: str | None, told: Told | None) -> bool:
    """Whether a verdict is told: `before` is the level of the last tick, `told` what the check says by now.

    Story: a run finds that a page's rows are missing, which nobody sees who did not pull it. A tick that
    finds every file where it should be would take that back.
    """
    seen_again = told is not None and (told.finding.since_s is None) != (found.since_s is None)
    if found.level.value == before and not seen_again:
        return False
    if found.kind is not Kind.RECONCILED:
        return True
    fine, by_run = found.level is Level.OK, told is None or told.by_run
    return not by_run or not (fine or (told is not None and told.finding.level is Level.FAIL))


def _begun(memory: "_Memory", levels: Mapping[str, str], now_s: float) -> tuple[list[str], list[str]]:
    """(kinds for which the job is asked for now, those for which it is owed).

    A time that is still to come was written while the clock was wrong: nothing was asked for then.

    Worked example: for `lag` the job was asked for at 07:00. At 07:20 it begins to fail once more: within the
    hour, so it is owed. At 08:00 it still fails, and is asked for; had it become well meanwhile, it would not
    be. A kind for which nothing was asked yet has no hour to wait for.
    """
    failing = {kind for kind, level in levels.items() if level == Level.FAIL.value}
    begun = {kind for kind in failing if memory.levels.get(kind) != Level.FAIL.value}
    owed = begun | (failing & {*memory.owed})
    red = sorted(kind for kind in owed if not 0 <= now_s - memory.asked_s.get(kind, float("-inf")) < HOUR_S)
    return red, sorted(owed.difference(red))


def _upkeep(
    instance: dg.DagsterInstance,
    logstore: Logstore,
    job: Job,
    found: Finding,
    before: Mapping[str, int],
    worn: Wear,
) -> tuple[list[dg.RunRequest], str, Mapping[str, int]]:
    """(the maintenance that is asked for, why or why not, the counts for which one was asked for last).

    Story: a table has 250 manifests and a limit of 200, and a file in one of them cannot be read, so each
    maintenance puts that hour off and leaves 240. Asked for at each tick it would run all day. Asked for at
    250, it is asked for again above 312, and once more as soon as the count was below 200 in between.
    """
    if found.level in (Level.UNKNOWN, Level.FAIL):
        return [], found.text, before
    counts = {name: int(count) for name, count in found.numbers.items()}
    over = Wear(**counts).over(worn)
    if not over:
        # Below the limits again: the next time they are passed is a new one.
        return [], found.text, {}
    if not any(counts[name] > _MORE * before.get(name, 0) for name in over):
        again = "it is asked for again when there are a quarter more"
        return [], f"{found.text}: a maintenance was asked for, and could not lower that; {again}", before
    busy = maintaining(instance, logstore)
    if busy is not None:
        return [], f"{found.text}; run {busy.run_id} ({busy.status.value}) maintains {logstore.table}", before
    return [dg.RunRequest(job_name=job.name)], found.text, {name: counts[name] for name in over}


@dataclass(frozen=True, slots=True)
class _Memory:
    """What a tick leaves to the next, by kind: its level, when a run was asked for, unix seconds, and for
    which kinds one is still owed; and the counts for which a maintenance was asked for."""

    levels: dict[str, str] = field(default_factory=dict)
    asked_s: dict[str, float] = field(default_factory=dict)
    owed: list[str] = field(default_factory=list)
    worn: Mapping[str, int] = field(default_factory=dict)


_AS_MEMORY = TypeAdapter(_Memory)


def _memory(cursor: str) -> _Memory:
    """The cursor's; none where it is another's or an earlier release's: then all is told again."""
    try:
        return _AS_MEMORY.validate_json(cursor or "{}")
    except ValidationError:
        return _Memory()


def _said(found: Iterable[Finding]) -> str:
    wrong = [f"{each.kind.value}: {each.text}" for each in found if each.level is not Level.OK]
    return "; ".join(wrong) or "nothing is wrong"
