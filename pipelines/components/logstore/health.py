"""A logstore's findings as checks: two stand with the table, the others with the logstore of the service.

    bronze/<name>          reconciled, proven             verdicts on what landed: those of runs
    sls/<name>_logstore    runway, lag, commit, errors;   the job `<name>_health` takes a look, and fails
                           mirror, where it has one       where one does: what sends failed runs, sends these

The logstore's asset has no hours, so a verdict stays what it is until it changes. Whoever knows one tells it:
the health sensor each of them when its level changes, a run that lands, or that failed to, each of its own:
landings that stand still are what makes a runway short, and what producers changed is seen at once.

Since when nobody could look stands in the newest event of the check itself: sensor, runs and a person's
*Execute* go on with the same one, and nothing else has to be remembered.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import dagster as dg

from pipelines.components.logstore.dagster_private import COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
from pipelines.components.logstore.failures import plainly, require_endpoint
from pipelines.components.logstore.metadata import Metadata, bullets, short
from pipelines.components.logstore.schedule import ERRORS, MODE_TAG
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.health import (
    ABOUT,
    Finding,
    Kind,
    Level,
    TimeLeft,
    Vitals,
    findings,
    settled,
)
from pipelines.landing.watch.vitals import vitals
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.cures import Call, Cure
from sls_io.wire.client import SlsClient

OF_TABLE = (Kind.RECONCILED, Kind.PROVEN)
OF_LOGSTORE = (Kind.RUNWAY, Kind.LAG, Kind.COMMIT, Kind.ERRORS)
"""Of each; one that has a mirror has a check of that, too."""
CALL_S = 10.0
"""Seconds for one call of a look, its retries included."""
_SINCE = "nobody could look since"
_LINES_MAX = 50


def check_key(logstore: Logstore, kind: Kind) -> dg.AssetCheckKey:
    """The check that shows a kind."""
    path = ["bronze", logstore.name] if kind in OF_TABLE else ["sls", f"{logstore.name}_logstore"]
    return dg.AssetCheckKey(dg.AssetKey(path), kind.value)


def kinds_of(logstore: Logstore) -> tuple[Kind, ...]:
    """What stands with the logstore as the service has it."""
    return (*OF_LOGSTORE, Kind.MIRROR) if logstore.mirror else OF_LOGSTORE


def specs(logstore: Logstore, kinds: tuple[Kind, ...]) -> list[dg.AssetCheckSpec]:
    """The checks that show these kinds."""
    return [
        dg.AssetCheckSpec(
            kind.value,
            asset=check_key(logstore, kind).asset_key,
            blocking=kind is Kind.RECONCILED,
            description=ABOUT[kind],
        )
        for kind in kinds
    ]


def health_checks(
    logstore: Logstore, *, unset: str = "", clock: Clock = SYSTEM_CLOCK
) -> dg.AssetChecksDefinition:
    """The checks of the logstore; a run of them fails where one of them does. One of all fails also for a
    `reconciled` that has gone red since the newest run: the sensor that asked for it has told that."""
    kinds = kinds_of(logstore)

    @dg.multi_asset_check(specs=specs(logstore, kinds), can_subset=True, name=f"health__{logstore.name}")
    def look(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        asked = {Kind(key.name) for key in context.selected_asset_check_keys}
        if asked == {*kinds}:
            asked.add(Kind.RECONCILED)
        with plainly(logstore):
            found = [each for each in looked(logstore, context.instance, unset, clock) if each.kind in asked]
        for each in found:
            if each.kind in kinds:
                yield dg.AssetCheckResult(**verdict(logstore, each))
        red = [f"{each.kind.value}: {each.text}" for each in found if each.level is Level.FAIL]
        if red:
            raise dg.Failure(description="; ".join(red), allow_retries=False)

    return look


def told_by_landing(
    logstore: Logstore,
    instance: dg.DagsterInstance,
    seen: Vitals,
    gaps: tuple[str, ...] = (),
    clock: Clock = SYSTEM_CLOCK,
) -> list[dg.AssetCheckEvaluation]:
    """What a run that lands tells beside its landing; `gaps` are those that it has just named."""
    left = (
        replace(seen.runway, gaps=gaps) if isinstance(seen.runway, TimeLeft) else TimeLeft(seen.runway, gaps)
    )
    found = findings(replace(seen, runway=left), logstore)
    told = (after_last(instance, logstore, each, clock.now()) for each in found)
    return [dg.AssetCheckEvaluation(**verdict(logstore, each)) for each in told]


def looked(
    logstore: Logstore, instance: dg.DagsterInstance, unset: str, clock: Clock = SYSTEM_CLOCK
) -> list[Finding]:
    """What is found now, and of what nobody can look at what was told last.

    What is missing is found, too: keys that are gone, an endpoint, a home that is no folder. Raised, each
    tick would be red on its page, or skipped, and nobody hear of it.
    """
    with ExitStack() as opened:

        @cache
        def client() -> SlsClient:
            require_endpoint(logstore, unset)
            return opened.enter_context(SlsClient(logstore.service, deadline_s=CALL_S))

        found = findings(vitals(logstore, Lake.default, client, clock=clock), logstore)
    return [after_last(instance, logstore, each, clock.now()) for each in found]


# --- what a check says, and has said -----------------------------------------------------------------------


class Told(NamedTuple):
    """The newest verdict of a check, as a finding and as Dagster has it; and whether a run told it, not a
    sensor."""

    finding: Finding
    said: dg.AssetCheckEvaluation
    by_run: bool


def last_told(instance: dg.DagsterInstance, logstore: Logstore, kinds: Iterable[Kind]) -> dict[Kind, Told]:
    """The newest verdicts, of those that have one.

    All newest records in one question; a record of a check that a run is about to make has no verdict yet,
    and only of such a check the one before is asked for. Story: a proof runs for an hour. Were its empty
    record taken, the check would have said nothing for that hour: each tick would tell a red finding anew,
    and a landing would call the table never proven.
    """
    keys, storage = {check_key(logstore, kind): kind for kind in kinds}, instance.event_log_storage
    found, done = dict[Kind, Told](), COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
    for key, newest in storage.get_latest_asset_check_execution_by_key([*keys]).items():
        records = (
            [newest]
            if newest.status in done
            else storage.get_asset_check_execution_history(key, limit=1, status=done)
        )
        for record in records:
            if key in keys and record.evaluation is not None:
                found[keys[key]] = _told(keys[key], record.evaluation, by_run=bool(record.run_id))
    return found


def _told(kind: Kind, said: dg.AssetCheckEvaluation, *, by_run: bool) -> Told:
    bad = Level.FAIL if said.severity is dg.AssetCheckSeverity.ERROR else Level.WARN
    since = said.metadata.get(_SINCE)
    since_s = since.value if isinstance(since, dg.TimestampMetadataValue) else None
    found = Finding(kind, Level.OK if said.passed else bad, said.description or "", since_s=since_s)
    return Told(found, said, by_run)


def after_last(instance: dg.DagsterInstance, logstore: Logstore, found: Finding, now_s: float) -> Finding:
    """`settled` after what the check said last."""
    told = last_told(instance, logstore, [found.kind]) if found.level is Level.UNKNOWN else {}
    last = told.get(found.kind)
    return settled(found, last.finding if last is not None else None, logstore.health, now_s)


def verdict(logstore: Logstore, found: Finding) -> dict[str, Any]:
    """What a check says, for the result of a run and the event of a sensor: Dagster has a type for each."""
    key = check_key(logstore, found.kind)
    return {
        "asset_key": key.asset_key,
        "check_name": key.name,
        "passed": found.level is Level.OK,
        "severity": dg.AssetCheckSeverity.ERROR if found.level is Level.FAIL else dg.AssetCheckSeverity.WARN,
        "description": found.text,
        "metadata": _metadata(logstore, found),
    }


def _metadata(logstore: Logstore, found: Finding) -> Metadata:
    values: Metadata = {name: _number(value) for name, value in found.numbers.items()}
    if found.lines:
        values["found"] = bounded(found.lines)
    cures = _named(found.cures, logstore.option)
    if found.kind is Kind.ERRORS and cures and "hour" in found.numbers:
        at, config = found.numbers["hour"], f"ops: {{bronze__{logstore.name}: {{config: {{execute: true}}}}}}"
        cures["mend on this page"] = (
            f"Materialize bronze/{logstore.name} [{at}...{at}] with the tag {MODE_TAG}: {ERRORS} and the "
            f"config {config}"
        )
    values |= {name: dg.MetadataValue.text(text) for name, text in cures.items()}
    return values | ({} if found.since_s is None else {_SINCE: dg.MetadataValue.timestamp(found.since_s)})


def _named(cures: Sequence[Cure], option: str) -> dict[str, str]:
    """What each does -> how it is typed; several that say nothing of it are lines of one. Worked example:
    `verify`, which proves it, and two things to do by hand are the entries "proves it", of one line, and "by
    hand", of two: each name is a row of the page's table, and names must differ."""
    named: dict[str, list[str]] = {}
    for cure in cures:
        does = cure.does if isinstance(cure, Call) else "by hand"
        named.setdefault(does or "what settles it", []).append(commands.shown(cure, option))
    return {does: "\n".join(lines) for does, lines in named.items()}


def bounded(lines: Sequence[str]) -> dg.MetadataValue:
    """A list of so many lines at most: a table with thousands of wrong shards must not fill the storage."""
    more = len(lines) - _LINES_MAX
    rest = [f"and {more:,} more; a proof lists all"] if more > 0 else []
    return bullets([*lines[:_LINES_MAX], *rest])


def _number(value: float | str) -> dg.MetadataValue:
    if isinstance(value, str):
        return dg.MetadataValue.text(value)
    return dg.MetadataValue.int(value) if isinstance(value, int) else short(value)
