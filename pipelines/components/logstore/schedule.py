"""The tick: asks for one live run, or says why not.

It plans no work. It names the open hour alone, that of now - settle: the partition bar shows it as in
progress, and every hour that a run names and does not reach would look unfinished until the next one. What to
land the run finds out itself, by the service's clock. Now is when the tick is evaluated: the page previews
ticks of days ago, and these ask for the same run.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Literal

import dagster as dg

from pipelines.components.logstore.dagster_private import (
    NOT_FINISHED_STATUSES,
    UnresolvedAssetJobDefinition,
    instance_kept_open,
)
from pipelines.landing.bounds import turned_on
from pipelines.landing.hours import check_begun, hour_of, hour_text
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.holding import work_max_s
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError
from sls_io.values.window import HOUR_S

Job = UnresolvedAssetJobDefinition | dg.JobDefinition

MODE_TAG = "sls/mode"
CLAIMS_TAG = "sls/claims"
SHARED_TAG = "sls/shared"
"""Of a run of several logstores: what it claims is not the logstore that its tag names."""
BACKFILL_TAG = "dagster/backfill"
PARTITION_TAG = "dagster/partition"
RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"
PRIORITY_TAG = "dagster/priority"
MAX_RUNTIME_TAG = "dagster/max_runtime"

LIVE, FILL, REPLACE, ERRORS, REST, REWORK = "live", "fill", "replace", "errors", "rest", "rework"
REWORKS = (REPLACE, ERRORS, REST)
"""What does hours again that are there."""
MODES = (LIVE, FILL, *REWORKS, REWORK)
"""What the tag `sls/mode` may say; without it a run fills, and of `rework` the config names one."""
Mode = Literal["live", "fill", "replace", "errors", "rest", "publish", "nothing"]
"""What a run does."""
LIVE_PRIORITY = "10"


def checkpoint_of(logstore: str) -> dg.AssetKey:
    """The cursors of `logstore` that are published to the service."""
    return dg.AssetKey(["sls", f"{logstore}_checkpoint"])


def live_tags(logstore: Logstore, hour: int) -> dict[str, str]:
    """Run tags of a live micro-batch that shows this hour as in progress."""
    return {PARTITION_TAG: hour_text(hour), **claiming_tags(logstore)}


def claiming_tags(logstore: Logstore) -> dict[str, str]:
    """Run tags of any live run: it claims shards, comes first, and is ended when it hangs."""
    return {
        MODE_TAG: LIVE,
        CLAIMS_TAG: logstore.name,
        PRIORITY_TAG: LIVE_PRIORITY,
        MAX_RUNTIME_TAG: str(work_max_s(logstore.budget)),
    }


def busy_run(instance: dg.DagsterInstance, logstore: str, *, but: str = "") -> dg.DagsterRun | None:
    """An unfinished run that claims shards of `logstore`, queued ones included; `but` is not one."""
    return busy_runs(instance, [logstore], but=but).get(logstore)


def busy_runs(
    instance: dg.DagsterInstance, logstores: Collection[str], *, but: str = ""
) -> dict[str, dg.DagsterRun]:
    """Logstore -> an unfinished run that claims shards of it, for those that have one.

    Its tag names one logstore, or it makes the checkpoints of several (`SharedRun`).
    """
    found: dict[str, dg.DagsterRun] = {}
    for tag, wanted in ((CLAIMS_TAG, list(logstores)), (MODE_TAG, [LIVE])):
        filters = dg.RunsFilter(tags={tag: wanted}, statuses=list(NOT_FINISHED_STATUSES))
        for run in instance.get_runs(filters=filters):
            claimed, selected = run.tags.get(CLAIMS_TAG), _selected(instance, run)
            for name in logstores if run.run_id != but else ():
                if claimed == name or checkpoint_of(name) in selected:
                    found.setdefault(name, run)
    return found


def _selected(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Collection[dg.AssetKey | None]:
    """The assets that a run was asked for.

    `dagster job launch` selects none, it runs the whole job: which assets these are its own log says, from
    the moment it was made. Tags cannot say it: a database keeps an index of them, which takes no thousand
    names.
    """
    if run.asset_selection is not None or SHARED_TAG not in run.tags:
        return run.asset_selection or ()
    planned = instance.get_records_for_run(
        run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    )
    return [record.asset_key for record in planned.records]


def held_by(run: dg.DagsterRun, logstore: str) -> dg.SkipReason:
    """Why nothing is asked for while `run` is not finished."""
    who = f"run {run.run_id} ({run.job_name}, {run.status.value})"
    return dg.SkipReason(f"{who} holds the claim on {logstore}")


def decide(logstore: Logstore, *, now_s: float, busy: dg.DagsterRun | None) -> dg.RunRequest | dg.SkipReason:
    """One live run, or why not."""
    if busy is not None:
        return held_by(busy, logstore.name)
    hour = int(now_s - logstore.budget.settle_s) // HOUR_S
    if hour < logstore.start_hour:
        return dg.SkipReason(f"{logstore.name} starts at {logstore.start} UTC, which is still to come")
    return dg.RunRequest(tags=live_tags(logstore, hour))


def live_request(
    instance: dg.DagsterInstance,
    logstore: Logstore,
    *,
    run_key: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.RunRequest | dg.SkipReason:
    """What anybody who wants a live run now asks for: schedule, drain and backlog; or why not.

    `run_key`: asked for once. `tags` come beside those of a live run.
    """
    asked = decide(logstore, now_s=SYSTEM_CLOCK.now(), busy=busy_run(instance, logstore.name))
    if isinstance(asked, dg.SkipReason):
        return asked
    return dg.RunRequest(run_key=run_key, tags={**asked.tags, **(tags or {})})


def unset_text(logstore: Logstore, unset: str) -> str:
    """Why nothing is done while the environment variable of the endpoint is not set."""
    return f"set the environment variable {unset} to the endpoint of {logstore.name}"


def schedule_of(
    name: str,
    job: Job,
    cron: str,
    ask: Callable[[dg.DagsterInstance], dg.RunRequest | dg.SkipReason],
    what: str,
    *,
    skips: str = "",
) -> dg.ScheduleDefinition:
    """`<name>_schedule`, stopped until somebody turns it on, or dev does. `skips` says why every tick is
    skipped, where that is so."""
    status = dg.DefaultScheduleStatus

    @dg.schedule(
        name=f"{name}_schedule",
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=status.RUNNING if turned_on(name) else status.STOPPED,
        description=what,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if skips:
            return dg.SkipReason(skips)
        instance_kept_open(context)
        return ask(context.instance)

    return tick


def microbatch_schedule(logstore: Logstore, job: Job, *, unset: str = "") -> dg.ScheduleDefinition:
    """`<logstore>_schedule`."""
    what = "Requests one live micro-batch when no other run holds the claim."
    ask = partial(live_request, logstore=logstore)
    skips = unset_text(logstore, unset) if unset else ""
    return schedule_of(logstore.name, job, logstore.schedule, ask, what, skips=skips)


def proof_schedule(logstore: Logstore, job: Job, *, unset: str = "") -> dg.ScheduleDefinition:
    """`<logstore>_proof_schedule`."""

    def ask(instance: dg.DagsterInstance) -> dg.RunRequest:
        return dg.RunRequest()

    name, skips = f"{logstore.name}_proof", unset_text(logstore, unset) if unset else ""
    return schedule_of(name, job, logstore.proof, ask, "Proves the whole table.", skips=skips)


def require_hours(context: dg.AssetExecutionContext, logstore: Logstore) -> None:
    """Raises ConfigError for a run that names no receive hours."""
    if not context.has_partition_key and not context.has_partition_key_range:
        raise ConfigError(
            f"this run names no receive hours, so it can land nothing: give it a partition (--partition "
            f"{logstore.start}), or for what is new launch the job {logstore.name}_now"
        )


def hours_asked(context: dg.AssetExecutionContext, mode: Mode) -> range:
    """The hours of the run's partitions. Raises ConfigError for such as Dagster's page does not offer:
    whoever launches a run by GraphQL may tag it with any two."""
    # Not the context's list of keys: an end before the begin ends in Dagster's own error there.
    keys = [context.run.tags.get(tag) for tag in (RANGE_START_TAG, RANGE_END_TAG)]
    first, last = (hour_of(key) for key in (keys if all(keys) else [context.partition_key] * 2) if key)
    if last < first:
        raise ConfigError(
            f"the hours of this run end before they begin: {hour_text(first)} is its first and "
            f"{hour_text(last)} its last. Launch it again with the two the other way round"
        )
    check_begun(range(first, last + 1), SYSTEM_CLOCK.now(), mode)
    return range(first, last + 1)
