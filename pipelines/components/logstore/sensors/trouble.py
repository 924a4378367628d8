"""`<name>_trouble_sensor`: what somebody should hear of, as checks, and as a run that fails.

Five checks stand with `sls/<name>_logstore`: `lag`, `runway`, `commit`, `errors`, `reconciled`. Each passes,
warns, or fails with severity ERROR. That asset has no hours, so a verdict stays what it is until it
changes; the checks of `bronze/<name>` are those of its runs. The sensor tells a check's verdict when its
level changes, so the event log stays small.

What nobody can look at stays as it was told, and fails when nobody could for as long as a log may wait: how
long that is stands in the newest event of the check itself, for the sensor and for the run that it asks for.

Where a check begins to fail, the sensor asks for the job `<name>_trouble` as well. It looks again and fails
with the sentences of what is wrong: whatever sends failures of runs, sends these. At most once an hour for
a kind: one that fails again sooner is owed, and asked for when the hour is over, if it still fails.
`docs/alerts.md` has both ways.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field

import dagster as dg
from pydantic import TypeAdapter, ValidationError

from pipelines.components.logstore.dagster_private import UnresolvedAssetJobDefinition
from pipelines.components.logstore.failures import plainly, require_endpoint
from pipelines.components.logstore.sensors.ticks import Answer, Job, client_of, sensor_of
from pipelines.components.logstore.verdicts import after_last, verdict
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.troubles import Finding, Kind, Level, troubles
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import SlsError
from sls_io.window import HOUR_S

_WHAT = {
    Kind.LAG: "Age of the oldest log that has not landed.",
    Kind.RUNWAY: "Time until retention deletes the oldest log that has not landed.",
    Kind.COMMIT: "Age of this logstore's newest landing: a schedule that runs commits once an hour at least.",
    Kind.ERRORS: "Rows with an error in the worst of the newest hours.",
    Kind.RECONCILED: "The newest landing is there, file by file, and the ledger can be trusted.",
}


def trouble_checks(
    logstore: Logstore, origin: dg.AssetKey, *, unset: str = "", clock: Clock = SYSTEM_CLOCK
) -> dg.AssetChecksDefinition:
    """The five checks; a run of them fails where one of them does."""
    specs = [dg.AssetCheckSpec(kind.value, asset=origin, description=_WHAT[kind]) for kind in Kind]

    @dg.multi_asset_check(specs=specs, can_subset=True, name=f"trouble__{logstore.name}")
    def look(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        asked = {key.name for key in context.selected_asset_check_keys}
        with plainly():
            found = _looked(logstore, context.instance, origin, unset, clock)
            found = [each for each in found if each.kind.value in asked]
        for each in found:
            yield dg.AssetCheckResult(**verdict(dg.AssetCheckKey(origin, each.kind.value), each))
        red = [f"{each.kind.value}: {each.text}" for each in found if each.level is Level.FAIL]
        if red:
            raise dg.Failure(description="; ".join(red), allow_retries=False)

    return look


def trouble_job(logstore: Logstore, origin: dg.AssetKey) -> UnresolvedAssetJobDefinition:
    """`<name>_trouble`: the five checks in one run."""
    keys = (dg.AssetCheckKey(origin, kind.value) for kind in Kind)
    return dg.define_asset_job(
        f"{logstore.name}_trouble",
        selection=dg.AssetSelection.checks(*keys),
        executor_def=dg.in_process_executor,
        description="Looks for trouble, and fails with what is wrong: what an alert on failed runs sends.",
    )


def trouble_sensor(
    logstore: Logstore,
    job: Job,
    origin: dg.AssetKey,
    *,
    unset: str = "",
    clock: Clock = SYSTEM_CLOCK,
) -> dg.SensorDefinition:
    """The sensor; `job` fails where a check does. `unset` names the endpoint's variable where it is not set:
    nobody can look at the service then."""
    settings = logstore.sensors.trouble

    def evaluate(context: dg.SensorEvaluationContext) -> Answer:
        memory, now_s = _memory(context.cursor), clock.now()
        found = _looked(logstore, context.instance, origin, unset, clock)
        levels = {each.kind.value: each.level.value for each in found}
        unseen = [each.kind.value for each in found if each.unseen]
        begun = {kind for kind, level in levels.items() if memory.levels.get(kind) != level}
        told = begun.union({*unseen} ^ {*memory.unseen})
        failing = {each.kind.value for each in found if each.level is Level.FAIL}
        begun &= failing
        owed = begun | (failing & {*memory.owed})
        red = sorted(kind for kind in owed if now_s - memory.asked_s.get(kind, 0.0) >= HOUR_S)
        requests = [dg.RunRequest(run_key=f"trouble-{'-'.join(red)}-{int(now_s)}")] if red else []
        asked_s = memory.asked_s | dict.fromkeys(red, now_s)
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if red else _said(found),
            asset_events=[
                dg.AssetCheckEvaluation(**verdict(dg.AssetCheckKey(origin, each.kind.value), each))
                for each in found
                if each.kind.value in told
            ],
            cursor=json.dumps(asdict(_Memory(levels, asked_s, sorted(owed.difference(red)), unseen))),
        )

    return sensor_of(
        logstore,
        "trouble",
        evaluate,
        job=job,
        every_s=settings.every_s,
        running=settings.running,
        description="Tells the checks of the logstore, and runs the trouble job where one begins to fail.",
    )


def _looked(
    logstore: Logstore, instance: dg.DagsterInstance, origin: dg.AssetKey, unset: str, clock: Clock
) -> list[Finding]:
    """What is found now, and of what nobody can look at what was told last.

    What is missing is found, too: keys that are gone, an endpoint, a home that is no folder. Raised, each
    tick would be red on its page, or skipped, and nobody hear of it.
    """
    lake: Lake | SlsError
    client: SlsClient | SlsError
    with ExitStack() as opened:
        try:
            lake = Lake.default()
        except SlsError as error:
            lake = error
        try:
            require_endpoint(logstore, unset)
            client = opened.enter_context(client_of(logstore))
        except SlsError as error:
            client = error
        found = troubles(logstore, lake, client, clock=clock)
    bounds, now_s = logstore.sensors.trouble, clock.now()
    return [
        after_last(instance, dg.AssetCheckKey(origin, each.kind.value), each, bounds, now_s) for each in found
    ]


@dataclass(frozen=True, slots=True)
class _Memory:
    """What a tick leaves to the next, by kind: the level that was told, when a run was asked for, unix
    seconds, for which kinds one is still owed, and which nobody could look at."""

    levels: dict[str, str] = field(default_factory=dict)
    asked_s: dict[str, float] = field(default_factory=dict)
    owed: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


def _memory(cursor: str | None) -> _Memory:
    """The cursor's; none where it is another's or an earlier release's: then all is told again."""
    try:
        return TypeAdapter(_Memory).validate_json(cursor or "{}")
    except ValidationError:
        return _Memory()


def _said(found: Iterable[Finding]) -> str:
    wrong = [f"{each.kind.value}: {each.text}" for each in found if each.level is not Level.OK]
    return "; ".join(wrong) or "nothing is wrong"
