"""One logstore as three assets: the service's, the landed table, and the published checkpoint.

    sls/<name>_logstore (external)  ->  bronze/<name>  ->  sls/<name>_checkpoint
                                        hourly, by         unpartitioned
                                        receive time

The table and the checkpoint are outputs of one step, so one run has one claim. The table's output is
`skippable`: the step logs an `AssetMaterialization` for each hour that was reached, and for no other. So an
output that was planned and did not come is no error, and each hour has its own rows, bytes and files, which
one result for a whole range could not carry.

What a run may do follows from its selection and tags:

    selected            sls/mode=live   another sls/mode, or none   dagster/backfill
    table (+ checkpt)   live            fill, replace, errors, rest the same; live is refused
    checkpoint alone    live            publish                     nothing moves; live is refused
    checks alone        looked at       looked at                   -

Live claims shards and moves checkpoints. It follows the service's clock, whatever hours its tick named: these
only show what is in progress. The job `<name>_now` selects the checkpoint alone, since an asset without
partitions is launched in one click; the hours of the table are logged all the same. A run without the tag is
a fill: it lands what the ledger lacks of the asked hours, with a static holder. Replace, errors and rest do
hours again that are there (`rework.py`); of a run of `<name>_rework` the config names which. A checkpoint
that is selected beside one of these reports that nothing moved. A run that is both live and a backfill is
refused: Dagster splits a backfill into runs, and these would claim shards side by side.

The order of a live run's step, and why: it lands, tells each hour, yields `reconciled`, and yields the
checkpoint only behind a check that passed. Dagster runs the code after a yielded check although the check
failed, so the order alone would move a checkpoint past rows that are not there; `_landed` looks itself. What
is red although the landing stands (a suspect shard, a service that failed before the end) is raised at the
very end, when all of that has been told: a step that fails earlier stores none of its later words.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any, Literal, cast

import dagster as dg
from pydantic import Field

from pipelines.components.logstore import checks, metadata, rework
from pipelines.components.logstore.failures import naming_cures, plainly, require_endpoint
from pipelines.components.logstore.health import OF_TABLE, after_last, specs, told_by_landing, verdict
from pipelines.components.logstore.schedule import (
    BACKFILL_TAG,
    CLAIMS_TAG,
    FILL,
    LIVE,
    MODE_TAG,
    MODES,
    REPLACE,
    REWORK,
    REWORKS,
    Mode,
    busy_run,
    checkpoint_of,
    hours_asked,
    require_hours,
)
from pipelines.components.logstore.spark import SparkEngine
from pipelines.components.logstore.telling import News, hour_events, untold, versions_told
from pipelines.landing.commit.after_commit import commits
from pipelines.landing.hours import HOUR_FORM, hours_text, minute_of
from pipelines.landing.inspection.brought import complete_hours
from pipelines.landing.inspection.describe import hour_rows, lacking_hours
from pipelines.landing.inspection.error_rows import ErrorRows, HourErrors, by_hour
from pipelines.landing.ledger.mirror import Mirrored
from pipelines.landing.ledger.summary import windows_of
from pipelines.landing.ledger.values import Landed
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.repair import execute_repair, plan_repair
from pipelines.landing.operations.reach import Lack, lacking, retention_took
from pipelines.landing.run.driver import Run
from pipelines.landing.run.holder_name import of_run
from pipelines.landing.run.report import LandingReport
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.health import Finding, Kind, Level, Vitals
from pipelines.landing.watch.vitals import after_landing, reconciled
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, LedgerBroken, ServiceError, SlsError, TransportError
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

Results = Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]

_SUSPECTS_MAX = 5
_FRESH_MIN_S = 60
"""Dagster refuses shorter bounds."""
HOURS_PER_RUN_MAX = 6
"""A backfill of more hours becomes several runs, so that a failure costs at most this much."""


@dataclass(frozen=True)
class Outcome:
    """How a landing ended: the gaps that it named, why the run is red although the landing stands, and where
    the mirror stands."""

    gaps: tuple[str, ...] = ()
    error: SlsError | None = None
    mirror: Mirrored | None = None


class Options(dg.Config):
    """What the step's config says beside the tags of its run. Every field may stay as it is."""

    mode: str = Field(
        default="",
        description="Only for the job <name>_rework, which needs it: `replace` lands the hours again, "
        "`errors` reads rows with an error again, `rest` fills columns that were declared later.",
    )
    execute: bool = Field(
        default=False,
        description="For replace, errors and rest: off, the run only says what it would do; on, it does it.",
    )
    since: str = Field(
        default="",
        description="Land only what was received from this minute on (UTC), like 2026-11-20-07:20. Empty: "
        "from the beginning of the hours.",
    )
    until: str = Field(
        default="",
        description="Land only what was received before this minute (UTC), like 2026-11-20-07:40. Empty: to "
        "the end of the hours.",
    )
    pull: str = Field(
        default="",
        description="Only for the check `proven`: what the service is asked for again and compared with the "
        "table. `all` that it still holds, or hours like 2026-11-20-07:00..2026-11-20-09:00. Empty: nothing.",
    )

    def part(self, hours: range) -> tuple[int, int]:
        """The part of a run's hours that is asked for: from and before which second. Raises ConfigError where
        nothing is left."""
        from_s = max(minute_of(self.since) if self.since else 0, hours.start * HOUR_S)
        until_s = min(minute_of(self.until) if self.until else hours.stop * HOUR_S, hours.stop * HOUR_S)
        if not from_s < until_s:
            raise ConfigError(
                f"since {self.since or 'the beginning'} until {self.until or 'the end'} is nothing of the "
                f"hours of this run, {hours_text(hours)}"
            )
        return from_s, until_s


def origin_key(logstore: Logstore) -> dg.AssetKey:
    """The logstore as the service has it. Lineage shows the last part of a key alone, so that is another
    one than the table's."""
    return dg.AssetKey(["sls", f"{logstore.name}_logstore"])


def bronze_key(logstore: Logstore) -> dg.AssetKey:
    """The landed table."""
    return dg.AssetKey(["bronze", logstore.name])


def checkpoint_key(logstore: Logstore) -> dg.AssetKey:
    """The cursors published to the service."""
    return checkpoint_of(logstore.name)


def hours_of(logstore: Logstore) -> dg.HourlyPartitionsDefinition:
    """Receive hours from `start`; the running hour is one of them, since live runs land into it."""
    return dg.HourlyPartitionsDefinition(
        start_date=logstore.start, fmt=HOUR_FORM, timezone="UTC", end_offset=1
    )


def mode_of(tags: Mapping[str, str], *, bronze: bool, checkpoint: bool, named: str = "") -> Mode:
    """What a run with these tags and this selection does; `named` is the mode that its config names.

    Raises ConfigError for a live backfill, and for a mode that does not exist: what was meant to replace
    hours must not fill them. A job that does hours again has no mode of its own: by a form that the page
    filled with defaults nothing is replaced.
    """
    asked, backfill = tags.get(MODE_TAG, FILL), BACKFILL_TAG in tags
    if asked not in MODES:
        raise ConfigError(f"the tag {MODE_TAG} says {asked!r}; it is one of {', '.join(MODES)}")
    if asked == REWORK and named not in REWORKS:
        raise ConfigError(f"`mode` in the config says {named!r}; name one of {', '.join(REWORKS)}")
    if asked != REWORK and named:
        raise ConfigError(
            f"`mode` in the config is for <name>_rework: here the tag {MODE_TAG} says what is done"
        )
    asked = named or asked
    if asked == LIVE and backfill:
        raise ConfigError(
            f"a backfill cannot claim shards: launch it again without the tag {MODE_TAG}, "
            "it then lands the hours and leaves the checkpoint"
        )
    if not bronze and asked != LIVE:
        return "nothing" if backfill else "publish"
    if asked == LIVE and not checkpoint:
        raise ConfigError(
            f"a live run selects the checkpoint too: launch the job, or drop the tag {MODE_TAG}"
        )
    return cast(Mode, asked)


def origin_spec(logstore: Logstore) -> dg.AssetSpec:
    """The external asset: nothing is run for it, it is where the lineage begins."""
    service = logstore.service
    return dg.AssetSpec(
        origin_key(logstore),
        description=f"Logstore {service.logstore} of {service.project}, read as group {logstore.group.name}.",
        group_name=logstore.name,
        tags=metadata.tags(logstore),
        kinds={"source"},
        metadata={
            "endpoint": service.endpoint,
            "project": service.project,
            "logstore": service.logstore,
            "group": logstore.group.name,
        },
    )


def _freshness(logstore: Logstore) -> dg.FreshnessPolicy | None:
    """Each live run that ends well publishes, so the bounds of the lag are those of the checkpoint's age,
    too; none where they are off."""
    lag_s = logstore.health.lag_s
    fail_s = max(lag_s.fail or lag_s.warn, _FRESH_MIN_S)
    warn_s = lag_s.warn if _FRESH_MIN_S <= lag_s.warn < fail_s else None
    if not any(lag_s):
        return None
    return dg.FreshnessPolicy.time_window(
        fail_window=timedelta(seconds=fail_s), warn_window=timedelta(seconds=warn_s) if warn_s else None
    )


def landing_assets(logstore: Logstore, *, unset: str = "") -> dg.AssetsDefinition:
    """The step that lands and publishes, with its two outputs and its check. `unset` names the
    environment variable of the endpoint when it is not set: every run is refused then."""
    bronze, checkpoint = bronze_key(logstore), checkpoint_key(logstore)

    @dg.multi_asset(
        name=f"bronze__{logstore.name}",
        can_subset=True,
        specs=[
            dg.AssetSpec(
                bronze,
                deps=[origin_key(logstore)],
                partitions_def=hours_of(logstore),
                skippable=True,
                description=f"Every log once, by receive hour, with typed columns.{metadata.PLOTS_OF_HOUR}",
                group_name=logstore.name,
                tags=metadata.tags(logstore),
                kinds={"spark", "iceberg"},
                metadata=metadata.table(logstore),
            ),
            dg.AssetSpec(
                checkpoint,
                deps=[bronze],
                skippable=True,
                description=f"{metadata.published_to(logstore)}{metadata.PLOTS_OF_LANDING}",
                group_name=logstore.name,
                tags=metadata.tags(logstore),
                kinds={"source"},
                freshness_policy=_freshness(logstore),
            ),
        ],
        check_specs=specs(logstore, OF_TABLE),
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=HOURS_PER_RUN_MAX),
    )
    def land(context: dg.AssetExecutionContext, config: Options, spark: SparkEngine) -> Results:
        selected = context.selected_asset_keys
        with plainly(logstore):
            require_endpoint(logstore, unset)
            if not selected:
                yield from _looked_at(context, logstore, spark, pull=config.pull)
                return
            mode = mode_of(
                context.run.tags,
                bronze=bronze in selected,
                checkpoint=checkpoint in selected,
                named=config.mode,
            )
            if mode == "publish":
                yield _publish(context, logstore)
            elif mode == LIVE or bronze in selected:
                yield from _table(context, logstore, spark, mode, config)
            if mode not in ("live", "publish") and checkpoint in selected:
                yield dg.MaterializeResult(asset_key=checkpoint, metadata=metadata.not_moved())

    return land


def _looked_at(
    context: dg.AssetExecutionContext, logstore: Logstore, spark: SparkEngine, *, pull: str
) -> Results:
    """The checks that were asked for, by a run that lands nothing."""
    asked = {key.name for key in context.selected_asset_check_keys}
    if Kind.RECONCILED.value in asked:
        yield dg.AssetCheckResult(**verdict(logstore, _reconciled_now(context, logstore)))
    if Kind.PROVEN.value in asked:
        yield checks.prove(logstore, spark, pull=pull)


def _table(
    context: dg.AssetExecutionContext,
    logstore: Logstore,
    spark: SparkEngine,
    mode: Mode,
    config: Options,
) -> Results:
    """Land, or do hours again; then the checks beside, whatever became of it."""
    lake = Lake.default().one_look()  # begun after the landing: what is told of a table is of one moment
    seen = cache(lambda: after_landing(logstore, lake))
    if (config.since or config.until) and mode != FILL:
        raise ConfigError(f"since and until are for a fill, and this run is {mode}: leave them out")

    def also(outcome: Outcome, *, fails: bool) -> Results:
        # Story: somebody runs `<name>_now` from its page, which leaves the checks out, and the landing fails.
        # What a step logs is stored with its next result, and this one has none: so nobody is told of it.
        alone = fails and not _selected(context, Kind.PROVEN.value)
        tell = context.instance.report_runless_asset_event if alone else context.log_event
        facts = replace(seen(), mirror=outcome.mirror)
        for event in told_by_landing(logstore, context.instance, facts, outcome.gaps):
            tell(event)
        proven = checks.proven_by_landing(context.instance, logstore, lake, landed=mode == LIVE and not fails)
        yield from _told(context, proven, tell)

    if mode != LIVE:
        require_hours(context, logstore)  # before any check is told: Dagster tells one with its partition
    try:
        if mode in (LIVE, FILL):
            outcome = yield from _land(context, logstore, spark, lake, seen, config, live=mode == LIVE)
        else:
            yield from _again(context, logstore, spark, mode, execute=config.execute)
            outcome = Outcome()
    except SlsError:
        yield from also(Outcome(), fails=True)
        raise
    yield from also(outcome, fails=outcome.error is not None)
    if outcome.error is not None:
        raise outcome.error


def _again(
    context: dg.AssetExecutionContext, logstore: Logstore, spark: SparkEngine, mode: Mode, *, execute: bool
) -> Results:
    """Do hours again that are there, or say what would happen."""
    bronze, hours = bronze_key(logstore), hours_asked(context, mode)
    context.log.info(f"{mode} {hours_text(hours)}{'' if execute else ', dry run'}")
    with commits(logstore.table) as made:
        try:
            with naming_cures(logstore):
                if mode == REPLACE:
                    events, snapshot = rework.replaced(logstore, bronze, spark, hours, execute=execute)
                else:
                    events, snapshot = rework.mended(
                        context.instance, logstore, bronze, spark, hours, mode, execute=execute
                    )
                made.snapshot(snapshot)
        except SlsError as error:
            rework.once_more(context, bronze, hours, mode, error)
            # Nothing was changed or nobody knows: what the table holds is true all the same.
            yield from _told(
                context, verdict(logstore, _reconciled_now(context, logstore)), context.log_event
            )
            raise
        for event in events:
            context.log_event(event)
            context.log.info(rework.sentence(event))
        if not execute:
            context.log.warning(rework.DRY)
        found = _reconciled_now(context, logstore)
        yield from _checked(context, logstore, found)
        if found.since_s is not None:
            raise TransportError(found.text)


def _land(
    context: dg.AssetExecutionContext,
    logstore: Logstore,
    spark: SparkEngine,
    lake: Lake,
    seen: Callable[[], Vitals],
    config: Options,
    *,
    live: bool,
) -> Generator[dg.MaterializeResult[None] | dg.AssetCheckResult, None, Outcome]:
    """Land, then report and publish. Raises what `Run.land` does; what comes after a landing is returned."""
    bronze = bronze_key(logstore)
    hours = range(0) if live else hours_asked(context, "fill")
    asked: dict[str, Any] = {}
    if not live:
        from_s, until_s = config.part(hours)
        asked = {"hours": (hours.start, hours.stop), "from_s": from_s, "until_s": until_s}
    mode: Literal["live", "fill"] = "live" if live else "fill"
    heard: dict[str, Any] = {"on_event": _log(context), "warn": context.log.warning}
    with (
        of_run(logstore) if live else nullcontext() as name,
        Run(logstore, spark.engine(), mode=mode, name=name, **heard, **asked) as run,
    ):
        try:
            report = run.land()
        except LedgerBroken as error:
            # The table contradicts itself, so nothing was landed: the red check is where people look.
            yield from _checked(context, logstore, checks.reconciled(logstore, (str(error),)))
            return Outcome()
        try:
            with commits(logstore.table) as made:
                made.snapshot(report.snapshot_id)
                lacks = () if live else _cannot_come(context, logstore, hours, lake)
                if live:
                    news = untold(context.instance, logstore, bronze, report, lake)
                else:
                    reached = _filled_hours(logstore, lake, report, hours, until_s)
                    reached -= {hour for lack in lacks for hour in lack.hours}
                    _observe(context, logstore, report, set(report.hours) - reached)
                    told = versions_told(context.instance, bronze, reached)
                    news = News(frozenset(reached), _windows_of(logstore, lake, report), told=told)
                yield from _landed(context, logstore, lake, run, report, news, seen)
        except SlsError as error:
            return Outcome(report.gaps, error, run.mirrored)
    return Outcome(report.gaps, _undone(report, hours, lacks), run.mirrored)


def _undone(report: LandingReport, hours: range, lacks: Sequence[Lack]) -> SlsError | None:
    """Why a run is red although what it landed stands; None: it is not."""
    if report.suspects:
        return ServiceError(
            "ShardSuspect",
            "; ".join(report.suspects[:_SUSPECTS_MAX]),
            hint="Nothing was given up; the next run asks again",
        )
    if report.trouble:
        return TransportError(f"not all landed that was to, and what landed stands: {report.trouble}")
    if report.spent:
        return ConfigError(report.came_to_nothing)
    if lacks:
        told = "; ".join(lack.text for lack in lacks[:_SUSPECTS_MAX])
        others = set(hours).difference(hour for lack in lacks for hour in lack.hours)
        return ConfigError(f"{told}. What else was asked for has landed" if others else told)
    return None


def _landed(
    context: dg.AssetExecutionContext,
    logstore: Logstore,
    lake: Lake,
    run: Run,
    report: LandingReport,
    news: News,
    seen: Callable[[], Vitals],
) -> Results:
    """Report the hours, check; publish last, and only where the check passed."""
    live = run.mode == "live"
    if report.came_to_nothing:
        context.log.warning(report.came_to_nothing)
    for line in (*report.suspects, *report.readable):
        context.log.warning(line)
    if news.left:
        context.log.info(f"{news.left:,} more hours were not told yet: the next runs tell them")
    in_table = hour_rows(logstore, lake, report.origin, news.hours)
    errors = _errors_of(logstore, lake, report.origin, news.hours)
    for event in hour_events(logstore, report, news, in_table, errors, _now(logstore, seen())):
        context.log_event(event)
    if live:
        for event in rework.left_red(context.instance, bronze_key(logstore), news.hours):
            context.log_event(event)
    found = run.reconcile()
    yield from _checked(context, logstore, checks.reconciled(logstore, found.problems))
    if found.ok and live:
        yield dg.MaterializeResult(
            asset_key=checkpoint_key(logstore),
            metadata={
                **metadata.checkpoint(run.checkpoint()),
                **metadata.mirror(run.mirrored),
                **metadata.landing(report),
            },
        )


def _now(logstore: Logstore, seen: Vitals) -> metadata.Metadata:
    """What the newest of the hours shows beside: Dagster takes a table's columns from its newest event."""
    wrong = seen.errors if isinstance(seen.errors, ErrorRows) and seen.errors.causes else None
    return metadata.runway(seen) | (metadata.columns(logstore, wrong) if wrong is not None else {})


def _reconciled_now(context: dg.AssetExecutionContext, logstore: Logstore) -> Finding:
    """The newest landing, looked at by a run that made none. A table that the catalog has lost is no
    table without landings."""
    found = checks.reconciled(logstore, reconciled(logstore))
    return after_last(context.instance, logstore, found, SYSTEM_CLOCK.now())


def _checked(context: dg.AssetExecutionContext, logstore: Logstore, found: Finding) -> Results:
    """The check's result; a run launched without the check fails where the check would have."""
    yield from _told(context, verdict(logstore, found), context.log_event)
    if found.level is Level.FAIL and not _selected(context, found.kind.value):
        raise LedgerBroken(found.text, cures=(commands.VERIFY,))


def _told(
    context: dg.AssetExecutionContext, said: dict[str, Any], tell: Callable[[dg.AssetCheckEvaluation], None]
) -> Results:
    """A verdict on the table, beside a landing. The page's *Materialize* on `<name>_now` selects the asset of
    the job and leaves out the checks of others, which it would show as not evaluated: `tell` them."""
    if _selected(context, said["check_name"]):
        yield dg.AssetCheckResult(**said)
    else:
        tell(dg.AssetCheckEvaluation(**said))


def _selected(context: dg.AssetExecutionContext, check: str) -> bool:
    return any(key.name == check for key in context.selected_asset_check_keys)


def _log(context: dg.AssetExecutionContext) -> Callable[[str], None]:
    return lambda event: context.log.info(f"landing: {event}")


def _cannot_come(
    context: dg.AssetExecutionContext, logstore: Logstore, hours: range, lake: Lake
) -> list[Lack]:
    """Say what of the asked hours cannot come, whoever asks; returns what retention has taken. Hours that are
    still to come, that nothing was received in, or that somebody removed for good are no failure."""
    with SlsClient(logstore.service) as client:
        lacks = lacking(lake, logstore, client, hours)
        lost = retention_took(client, lacks)
    for lack in lacks:
        context.log.warning(f"cannot come: {lack.text}")
    return lost


def _observe(
    context: dg.AssetExecutionContext, logstore: Logstore, report: LandingReport, hours: set[int]
) -> None:
    """Show what came of hours that stay to be done."""
    for event in hour_events(logstore, report, News(frozenset(hours)), {}):
        context.log_event(
            dg.AssetObservation(event.asset_key, partition=event.partition, metadata=event.metadata)
        )


def _filled_hours(
    logstore: Logstore, lake: Lake, report: LandingReport, asked: range, until_s: int
) -> set[int]:
    """Asked hours of which the service has nothing more, up to what had settled: landed now, landed
    before, or empty. An hour that a budget or `until_s` cut short is not among them: it stays to be done."""
    with SlsClient(logstore.service) as client:
        settled_s = report.until_s
        if until_s < asked.stop * HOUR_S:
            settled_s = min(int(client.now_s()) - logstore.budget.settle_s, asked.stop * HOUR_S)
        lacking = lacking_hours(logstore, lake, client, asked, settled_s)
    done = {*report.hours, *complete_hours(asked, settled_s)}
    return done - lacking


def _windows_of(logstore: Logstore, lake: Lake, report: LandingReport) -> dict[int, list[Landed]]:
    """What a landing pulled, by receive hour; nothing when its snapshot is gone by now."""
    table = lake.load(logstore.table) if report.snapshot_id is not None else None
    snapshot = table.snapshot_by_id(report.snapshot_id) if table is not None and report.snapshot_id else None
    found: dict[int, list[Landed]] = {}
    for each in windows_of(snapshot)[1] if snapshot is not None else ():
        found.setdefault(each.window.hour, []).append(each)
    return found


def _errors_of(logstore: Logstore, lake: Lake, origin: str, hours: Collection[int]) -> dict[int, HourErrors]:
    """Rows with errors that the table holds of these hours by now."""
    table = lake.load(logstore.table)
    if table is None or not hours:
        return {}
    return by_hour(table, {origin}, min(hours), max(hours) + 1)


def _publish(context: dg.AssetExecutionContext, logstore: Logstore) -> dg.MaterializeResult[None]:
    """Publish the frontier that the ledger has. It claims shards, so it says so and waits for none."""
    context.instance.add_run_tags(context.run.run_id, {CLAIMS_TAG: logstore.name})
    busy = busy_run(context.instance, logstore.name, but=context.run.run_id)
    if busy is not None:
        raise ConfigError(
            f"run {busy.run_id} holds the claim on {logstore.name}: launch again when it is done"
        )
    lake = Lake.default()
    with SlsClient(logstore.service) as client:
        published = execute_repair(logstore, lake, client, plan_repair(logstore, lake, client))
    return dg.MaterializeResult(
        asset_key=checkpoint_key(logstore),
        metadata=metadata.checkpoint(published),
    )
