"""Hours that are there already, done again: the modes `replace`, `errors` and `rest` of a run.

The tag `sls/mode` says what becomes of the hours, so the ordinary dialogue of a backfill can say it.
The job <name>_rework has the tag `rework`, and its config names one of the last three:

    fill      what the ledger lacks; always done, and what a run without the tag does (`assets.py`)
    replace   what is there leaves and the hours are pulled again, all of a run in one commit
    errors    rows with an error are read again from their kept bytes; nothing is pulled
    rest      columns that were declared later are filled from `__rest__`, and what is declared drop or hash
              by now leaves the rows; nothing is pulled

The last three take something away, so they only show what they would do, as an observation of each
hour, until the step's config says `execute: true`. Then each hour is materialized of which the table has
rows, or which the table has whole and empty.

Whatever asks somebody is done before the commit: nothing fails between it and the word that it was made.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import dagster as dg

from pipelines.components.logstore import metadata
from pipelines.components.logstore.schedule import ERRORS, MODE_TAG, REPLACE, REST, REWORK, REWORKS
from pipelines.components.logstore.spark import SparkEngine
from pipelines.components.logstore.telling import UNKNOWN_HOURS_TAG, UNKNOWN_TAG, hours_tag, versions_told
from pipelines.landing.commit.planned import Tools
from pipelines.landing.contents.spread import Spread
from pipelines.landing.hours import hour_of, hour_text, hours_text
from pipelines.landing.inspection.brought import oldest_reached_s
from pipelines.landing.inspection.describe import hour_rows
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.mend import Kept, plan_mend
from pipelines.landing.operations.replace import execute_replace, plan_replace
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import (
    ConfigError,
    LandingConflict,
    LandingUnknown,
    ServiceError,
    SlsError,
    TransportError,
)
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

DRY = "Dry run, nothing was changed: launch again with `execute: true` to do it."

_RUNS_MAX = 20
_REFUSED = (ConfigError, LandingConflict, ServiceError, TransportError)
"""What says that hours which are there were left as they are."""

Event = dg.AssetMaterialization | dg.AssetObservation
Done = tuple[list[Event], int | None]
"""An event for each hour, and the snapshot that was committed; None: none was."""


def replaced(
    logstore: Logstore, bronze: dg.AssetKey, spark: SparkEngine, hours: range, *, execute: bool
) -> Done:
    """Drop the hours and land them again in one commit; without `execute` say what would happen.

    Raises ConfigError when there is nothing to replace, or retention has taken a part of the hours; nothing
    has changed then.
    """
    lake = Lake.default()
    with SlsClient(logstore.service) as client, Spread(spark.engine()).kept():
        planned = plan_replace(lake, logstore, client, hours)
        again = Counter(p.window.hour for p in planned.coming.windows)
        shown: dict[int, metadata.Metadata] = {
            hour: {
                "rows replaced": dg.MetadataValue.int(planned.view.hours.get(hour, 0)),
                "windows pulled again": dg.MetadataValue.int(again[hour]),
                "hours in one commit": dg.MetadataValue.text(hours_text(hours)),
                **metadata.of(planned.view, word="in all"),
            }
            for hour in hours
        }
        if not execute:
            return _planned(bronze, shown, REPLACE), None
        report, view = execute_replace(lake, planned, Tools(engine=spark.engine()))
    # What landed of an hour is all that the table has of it: the rest of it has left. Unless a live run was
    # faster, and landed more of the hour that runs.
    grew = planned.view.running if report.conflicts else ()
    landed = {hour: report.hours[hour].rows if hour in report.hours else 0 for hour in hours}
    rows = {hour: None if hour in grew else count for hour, count in landed.items()}
    done = metadata.of(view, word="in all")
    values = {
        hour: metadata.hour(report, hour, rows_in_table=rows[hour]) | shown[hour] | done for hour in hours
    }
    tags = metadata.version_tags(report.snapshot_id)
    return [_done(bronze, hour, REPLACE, values[hour], tags) for hour in hours], report.snapshot_id


_KEPT: dict[str, Kept] = {ERRORS: "errors", REST: "rest"}


def mended(
    instance: dg.DagsterInstance,
    logstore: Logstore,
    bronze: dg.AssetKey,
    spark: SparkEngine,
    hours: range,
    mode: str,
    *,
    execute: bool,
) -> Done:
    """Read rows of the hours again from what they keep; without `execute` say what would become of them."""
    lake = Lake.default()
    with SlsClient(logstore.service) as client, Spread(spark.engine()).kept():
        planned = plan_mend(lake, logstore, client, hours, kept_in=_KEPT[mode])
        view = planned.view
        shown = {
            "hours in one commit": dg.MetadataValue.text(hours_text(hours)),
            **metadata.of(view, tables=("left",), word="in all"),
        }
        if not execute:
            return _planned(bronze, dict.fromkeys(hours, shown), mode), None
        rows = hour_rows(logstore, lake, view.origin, hours)  # each stays, whatever is read anew
        whole_s = oldest_reached_s([planned.place.state.ledger(view.origin)]) or 0
        told = versions_told(instance, bronze, hours)
        # Asked a second time nothing would change, and that is no failure: the hours are done.
        snapshot = planned.carry_out(lake, Tools()).snapshot if planned.needed else None
    tags = {h: metadata.version_tags(told.get(h) if snapshot is None else snapshot) for h in hours}
    if snapshot is not None:
        shown["snapshot"] = dg.MetadataValue.text(str(snapshot))
    there = {h: rows.get(h, 0) for h in hours if rows.get(h) or (h + 1) * HOUR_S <= whole_s}
    counts = {h: {"dagster/partition_row_count": dg.MetadataValue.int(n)} for h, n in there.items()}
    return [_done(bronze, hour, mode, {**shown, **counts[hour]}, tags[hour]) for hour in there], snapshot


def once_more(
    context: dg.AssetExecutionContext, bronze: dg.AssetKey, hours: range, mode: str, error: SlsError
) -> None:
    """Tell the hours once more as they were told last, after a run that did not say what became of them.

        refused   nothing was changed: the data version stays, so nothing downstream takes the hour for new
        unknown   the answer to the commit was lost: a new data version, so that whoever reads looks again;
                  the next live run tells what became of it
        else      nobody can tell: Dagster shows each hour of a failed run as failed, until `left_red`

    An hour that was never told stays so. Reported without the run: a backfill would count them as done.
    """
    run, instance = context.run.run_id, context.instance
    if isinstance(error, LandingUnknown):
        # For `telling`: Dagster finds runs by their tags, and events by none of our own.
        instance.add_run_tags(run, {UNKNOWN_TAG: bronze.path[-1], UNKNOWN_HOURS_TAG: hours_tag(hours)})
        told, version = f"unknown, look: {mode} may have been committed", f"{metadata.UNKNOWN}{run}"
    elif isinstance(error, _REFUSED):
        told, version = f"as before, {mode} was refused", ""
    else:
        return
    for event in _told_last(instance, bronze, hours, told, version):
        instance.report_runless_asset_event(event)


def left_red(
    instance: dg.DagsterInstance, bronze: dg.AssetKey, but: Collection[int]
) -> Iterator[dg.AssetMaterialization]:
    """The hours that a run of these modes left without a word, as they were told last; `but` those.

    Story: a worker is killed while it pulls an hour again. The table is as it was, and no live run has
    anything to tell of that hour: the page would show it as failed for ever. Where the dead run had
    committed, its hours are news (`telling.untold`), and among `but`.
    """
    asked = dg.RunsFilter(tags={MODE_TAG: [*REWORKS, REWORK]}, statuses=[dg.DagsterRunStatus.FAILURE])
    modes = {run.run_id: run.tags[MODE_TAG] for run in instance.get_runs(asked, limit=_RUNS_MAX)}
    if not modes:
        return
    # As the page does: what was announced for a partition, and did not come. Of a canceled run it shows none.
    kept = instance.event_log_storage
    failed = kept.get_latest_asset_partition_materialization_attempts_without_materializations(bronze)
    for partition, (run_id, _) in sorted(failed.items()):
        hour = hour_of(partition)
        if run_id in modes and hour not in but:
            told = f"as before, {modes[run_id]} ended without a word"
            yield from _told_last(instance, bronze, range(hour, hour + 1), told, "")


def _told_last(
    instance: dg.DagsterInstance, bronze: dg.AssetKey, hours: range, mode: str, version: str
) -> Iterator[dg.AssetMaterialization]:
    """Their newest events with another mode; with their own data version where `version` is empty."""
    for hour in hours:
        asked = dg.AssetRecordsFilter(asset_key=bronze, asset_partitions=[hour_text(hour)])
        records = instance.fetch_materializations(asked, limit=1).records
        told = records[0].asset_materialization if records else None
        if told is not None:
            of_hour = version or (told.tags or {}).get(metadata.DATA_VERSION_TAG)
            yield dg.AssetMaterialization(
                bronze,
                partition=hour_text(hour),
                metadata={**told.metadata, "mode": mode},
                tags={metadata.DATA_VERSION_TAG: of_hour} if of_hour else None,
            )


def sentence(event: Event) -> str:
    """For the run's log: the hour, the mode and the numbers, on one line."""
    numbers = (
        f"{name} {value.value:,}"
        for name, value in event.metadata.items()
        if isinstance(value, dg.IntMetadataValue) and not name.startswith(("dagster/", "landing "))
    )
    return f"{event.partition}: {', '.join(numbers)}"


def _planned(bronze: dg.AssetKey, shown: Mapping[int, metadata.Metadata], mode: str) -> list[Event]:
    return [
        dg.AssetObservation(
            bronze,
            partition=hour_text(hour),
            description=DRY,
            metadata={"mode": f"{mode}, dry run", **values},
        )
        for hour, values in shown.items()
    ]


def _done(
    bronze: dg.AssetKey, hour: int, mode: str, values: metadata.Metadata, tags: Mapping[str, str]
) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        bronze, partition=hour_text(hour), metadata={"mode": mode, **values}, tags=dict(tags)
    )
