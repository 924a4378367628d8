"""`<name>_maintenance`: what `sls-lake table maintain --execute` does, as a job with a schedule.

Safe beside landings. Two maintenances of one table would only wait for each other and look at
the same files twice, so there is one at a time: every launch of the job carries the tag
`sls/maintains`, whose limit the instance's queue keeps (`docs/deploy/dagster.yaml`), a tick
while one is unfinished is skipped, and a run that finds an older one at work ends at once, for
instances without that limit.

The step is red where something is left unsettled, a commit whose answer was lost above all. What is only put
off (an hour with a file that cannot be read) is a warning: the next maintenance looks again.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from pipelines.components.logstore import metadata
from pipelines.components.logstore.dagster_private import IN_PROGRESS_RUN_STATUSES, NOT_FINISHED_STATUSES
from pipelines.components.logstore.failures import naming_cures, plainly
from pipelines.components.logstore.pruning import upkeep_is_dry
from pipelines.components.logstore.schedule import Job, schedule_of
from pipelines.components.logstore.spark import RESOURCE_KEY, SPARK, SparkEngine
from pipelines.landing.commit.planned import execute
from pipelines.landing.contents.spread import Spread
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.compact import TARGET_BYTES
from pipelines.landing.maintenance.expiry import KEPT
from pipelines.landing.maintenance.maintain import (
    MANIFESTS_MAX,
    STEPS,
    Maintainer,
    Maintenance,
)
from pipelines.landing.operations.forget import has_landed, plan_forget_older
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError, amount
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

MAINTAINS_TAG = "sls/maintains"
_MIB = 1024**2
_SHOWN = 50


class Upkeep(dg.Config):
    """What is done, as the options of `sls-lake table maintain`. Every field may stay as it is."""

    execute: bool = Field(default=True, description="Off: the run only says what it would do.")
    steps: list[str] = Field(
        default=[],
        description="Some of compact, manifests, expire, sweep, metadata. None named: all of them.",
    )
    target_mb: int = Field(
        default=TARGET_BYTES // _MIB,
        description="Small files are written together to files of this size, in MiB.",
    )
    snapshots: int | None = Field(
        default=None, description=f"How many of the newest snapshots are kept; without it {KEPT}."
    )
    keep_hours: float = Field(default=0.0, description="Younger snapshots are kept, however many there are.")
    manifests: int = Field(default=MANIFESTS_MAX, description="If there are more manifests, they become few.")
    older_than_hours: float = Field(
        default=24.0,
        description="Files that no snapshot has are deleted when they are older than this; at least 24.",
    )


def forget_op(logstore: Logstore) -> dg.OpDefinition:
    """Removes what is older than `forget_after_days`, unless the upkeep beside it is a dry run."""
    age = amount(logstore.forget_after_days, "day")

    @dg.op(
        name=f"forget__{logstore.name}",
        description=f"Removes rows received more than {age} ago, for good.",
        tags={"dagster/compute_kind": "iceberg"},
    )
    def forget(context: dg.OpExecutionContext, spark: SparkEngine) -> Iterator[dg.Output[None]]:
        lake, shown_only = Lake.default(), upkeep_is_dry(context.run_config, logstore)
        with (
            plainly(logstore),
            naming_cures(logstore),
            SlsClient(logstore.service) as client,
            Spread(spark.engine()).kept(),
        ):
            rows = 0
            if has_landed(lake, logstore, client):
                planned = plan_forget_older(lake, logstore, client, logstore.forget_after_days)
                rows = planned.view.rows
                if planned.needed and not shown_only:
                    execute(lake, planned)
        done = "would be removed" if shown_only else "removed"
        context.log.info(f"{amount(rows, 'row')} older than {age} {done}")
        yield dg.Output(None, metadata={f"rows {done}": rows})

    return forget


def maintenance_job(logstore: Logstore, bronze: dg.AssetKey, prune: dg.OpDefinition) -> dg.JobDefinition:
    """The job: the table's upkeep, and `prune` beside it, which waits for nothing.

    What the upkeep did is an observation of the table, so that its numbers are plotted there. It asks the
    catalog alone, never the service.
    """

    @dg.op(
        name=f"maintain__{logstore.name}",
        description="Compacts sealed hours, regroups manifests, expires snapshots, deletes old files.",
        tags={"dagster/compute_kind": "iceberg"},
    )
    def maintain(
        context: dg.OpExecutionContext, config: Upkeep, spark: SparkEngine
    ) -> Iterator[dg.Output[None]]:
        with plainly(logstore), naming_cures(logstore), Spread(spark.engine()).kept():
            _refuse_second(context, logstore)
            maintainer = Maintainer(
                logstore,
                Lake.default(),
                target_bytes=config.target_mb * _MIB,
                manifests_max=config.manifests,
                snapshots_max=config.snapshots,
                keep_s=config.keep_hours * HOUR_S,
                floor_s=config.older_than_hours * HOUR_S,
                on_event=lambda event: context.log.info(f"maintenance: {event}"),
            )
            steps = config.steps or list(STEPS)
            done = maintainer.execute(steps) if config.execute else maintainer.plan(steps)
        for why in done.put_off:
            context.log.warning(f"put off: {why}")
        context.log.info(sentence(done))
        figures = metadata.of(done, tables=("compacted",))
        context.log_event(dg.AssetObservation(bronze, description=sentence(done), metadata=figures))
        # What was logged is stored when something is yielded, and lost when the step fails before.
        yield dg.Output(None, metadata=figures)
        if done.unsettled:
            raise dg.Failure(description="; ".join(done.put_off[:_SHOWN]), allow_retries=False)

    @dg.job(
        name=f"{logstore.name}_maintenance",
        executor_def=dg.in_process_executor,
        resource_defs={RESOURCE_KEY: SPARK},
        tags={MAINTAINS_TAG: logstore.name},
        description=(
            f"Keeps {logstore.table} small and fast beside landings: sealed hours are compacted once, "
            "manifests regrouped, old snapshots expired, files nobody refers to deleted. Deletes old runs of "
            "this logstore from Dagster's storage, too; hours and checks stay. `execute: false` only shows "
            "what would be done."
        ),
    )
    def job() -> None:
        maintain()
        prune()
        if logstore.forget_after_days:
            forget_op(logstore)()

    return job


def maintenance_schedule(logstore: Logstore, job: Job) -> dg.ScheduleDefinition:
    """`<name>_maintenance_schedule`."""

    def ask(instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
        busy = maintaining(instance, logstore)
        if busy is not None:
            return dg.SkipReason(f"run {busy.run_id} ({busy.status.value}) maintains {logstore.table}")
        return dg.RunRequest()

    what = "Requests one maintenance when no other one of the table is unfinished."
    return schedule_of(f"{logstore.name}_maintenance", job, logstore.maintenance, ask, what)


def maintaining(instance: dg.DagsterInstance, logstore: Logstore) -> dg.DagsterRun | None:
    """An unfinished run that maintains the table, queued ones included."""
    unfinished = dg.RunsFilter(tags={MAINTAINS_TAG: logstore.name}, statuses=list(NOT_FINISHED_STATUSES))
    return next(iter(instance.get_runs(filters=unfinished, limit=1)), None)


def _refuse_second(context: dg.OpExecutionContext, logstore: Logstore) -> None:
    """When two runs began at once, the one that was requested first goes on: they never both give up.

    Story: A and B begin in the same second. Did each give up where it sees another one at work, both would
    see each other and nobody maintain. Numbers of the run storage rise in the order of the requests, and both
    runs see the same ones: A (41) sees nobody below 41 and goes on, B (42) sees 41 and ends. Raises
    ConfigError for B. A queued run does not count, so B goes on where A is begun late, and then both do: that
    costs looks at the same files, and no row.
    """
    at_work = dg.RunsFilter(tags={MAINTAINS_TAG: logstore.name}, statuses=list(IN_PROGRESS_RUN_STATUSES))
    records = context.instance.get_run_records(filters=at_work)
    mine = next((r.storage_id for r in records if r.dagster_run.run_id == context.run_id), None)
    older = [r.dagster_run.run_id for r in records if mine is not None and r.storage_id < mine]
    if older:
        raise ConfigError(f"run {older[-1]} maintains {logstore.table}: launch again when it is done")


def sentence(done: Maintenance) -> str:
    """What was done, or would be, in one line."""
    what = (
        f"{amount(len(done.compacted), 'hour')} compacted, {amount(len(done.expired), 'snapshot')} expired, "
        f"{amount(len(done.swept) + len(done.metadata), 'file')} deleted"
    )
    return what if done.executed else f"Dry run, nothing was changed; it would be: {what}."
