"""A step of `<name>_maintenance`: deletes old runs of a logstore, so that Dagster's own storage stays small.

A live run takes about a quarter of a megabyte there (`docs/deploy/README.md`), and nothing of Dagster removes
it. What the page shows stays: a run is kept that told the newest of an hour, of the checkpoint or of a check,
and so is one that has not ended. Ticks have a setting of Dagster's own, `retention` in `dagster.yaml`.

Why not all runs of an age: Dagster keeps an event with its run. Story: hour 07:00 was landed a year ago and
nothing came of it since. With its run the event goes, the page shows the hour as missing, and the next
backfill of what is missing asks for a year of hours. Worked example: a schedule of five minutes makes 288
runs a day, twelve an hour. The newest word of an hour is that of the last of its twelve. So of the runs of a
day about 24 stay for their hours after two weeks, and about 264 are deleted.

A run that many logstores have in common (`shared_run.py`) told something of each, so it stays as long as one
of them has its newest word there. It is no one's own: whichever of them has its maintenance first looks at
these runs, for all. The others leave them alone for half a day: each would read the hours of all, which for a
hundred logstores is a hundred times a hundred. Two that begin at once both look, and delete the same runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pydantic import Field

from pipelines.components.logstore.dagster_private import delete_runs
from pipelines.components.logstore.failures import plainly
from pipelines.landing.logstore import Logstore
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ConfigError

_DAY_S = 86_400.0
_SHARED_EVERY_S = _DAY_S / 2
_PAGE = 500
_ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
_JOBS = ("microbatch", "now", "health")
"""Those that a clock or a sensor starts many times a day."""


@dataclass(frozen=True)
class PrunedJobs:
    """Jobs, and what their runs tell: assets and checks whose newest events must stay."""

    jobs: tuple[str, ...]
    assets: tuple[dg.AssetKey, ...]
    checks: tuple[dg.AssetCheckKey, ...]


class Ages(dg.Config):
    """Which old runs are deleted. Every field may stay as it is."""

    execute: bool = Field(default=True, description="Off: the step only counts them.")
    days: float = Field(default=14.0, description="Runs that ended well longer ago than this are deleted.")
    failed_days: float = Field(
        default=90.0, description="So are failed runs that ended longer ago than this."
    )


def prune_op(
    logstore: Logstore,
    assets: Iterable[dg.AssetKey],
    checks: Iterable[dg.AssetCheckKey],
    *,
    shared: Callable[[], PrunedJobs] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    page: int = _PAGE,
) -> dg.OpDefinition:
    """The step. `assets` and `checks` are those whose newest events must stay; `shared`: the same of the run
    that the logstore has in common with others, asked where the step runs; `page` runs are asked for, and
    deleted, together."""
    own = PrunedJobs(tuple(f"{logstore.name}_{job}" for job in _JOBS), tuple(assets), tuple(checks))

    @dg.op(name=f"prune__{logstore.name}", description="Deletes old runs and what they logged.")
    def prune(context: dg.OpExecutionContext, config: Ages) -> Iterator[dg.Output[None]]:
        with plainly(logstore):
            if not 1 <= config.days <= config.failed_days:
                raise ConfigError("days is at least 1 and not above failed_days")
        execute = config.execute and not upkeep_is_dry(context.run_config, logstore)
        instance, now_s = context.instance, clock.now()
        old, kept = list(_old(instance, own, config, now_s, page)), _newest(instance, own)
        common = shared() if shared is not None else None
        if common is not None and _is_due(instance, common, now_s, mark=execute):
            old += _old(instance, common, config, now_s, page)
            kept |= _newest(instance, common)
        gone = [run for run in old if run not in kept]
        for at in range(0, len(gone) if execute else 0, page):
            delete_runs(instance, gone[at : at + page])
        context.log.info(
            f"{len(gone):,} old runs {'deleted' if execute else 'would be deleted'}, "
            f"{len(old) - len(gone):,} stay for what they told"
        )
        counts = {"runs deleted" if execute else "runs that would be": len(gone)}
        yield dg.Output(None, metadata={**counts, "old runs that stay": len(old) - len(gone)})

    return prune


def upkeep_is_dry(config: Mapping[str, Any], logstore: Logstore) -> bool:
    """Whether the upkeep beside a step is a dry run: who asked for one expects that nothing goes."""
    upkeep = config.get("ops", {}).get(f"maintain__{logstore.name}", {}).get("config", {})
    return upkeep.get("execute") is False


def _is_due(instance: dg.DagsterInstance, shared: PrunedJobs, now_s: float, *, mark: bool) -> bool:
    """Whether nobody has looked at the shared runs for half a day; with `mark`, somebody does now."""
    name, marks = f"sls/pruned/{','.join(shared.jobs)}", instance.daemon_cursor_storage
    looked_s = float(marks.get_cursor_values({name}).get(name, "-inf"))
    # One that is still to come was written while a clock was wrong.
    due = not 0 <= now_s - looked_s < _SHARED_EVERY_S
    if due and mark:
        marks.set_cursor_values({name: str(now_s)})
    return due


def _old(
    instance: dg.DagsterInstance, told: PrunedJobs, ages: Ages, now_s: float, page: int
) -> Iterator[str]:
    """Ids of ended runs that are old enough, a page at a time: a year of them is a hundred thousand records.
    All are listed before the first is deleted, since a page begins behind a run that must still be there:
    where another step deletes it meanwhile, the rest is left to the next time.

    A run that was asked for another asset stays: nobody here looks after that one's newest word. Story: a
    logstore leaves the project for a file of its own. What its hours say stands with shared runs of before.
    """
    looked_after = {*told.assets}
    for job in told.jobs:
        wanted = dg.RunsFilter(job_name=job, statuses=list(_ENDED))
        cursor, more = None, True
        while more:
            records = instance.get_run_records(wanted, limit=page, cursor=cursor)
            for record in records:
                run = record.dagster_run
                good = run.status is dg.DagsterRunStatus.SUCCESS
                kept_s = (ages.days if good else ages.failed_days) * _DAY_S
                is_old = record.end_time is not None and record.end_time < now_s - kept_s
                if is_old and looked_after.issuperset(run.asset_selection or ()):
                    yield run.run_id
            cursor, more = (records[-1].dagster_run.run_id if records else None), len(records) == page


def _newest(instance: dg.DagsterInstance, told: PrunedJobs) -> set[str]:
    """Ids of the runs that told the newest of each hour, of each asset and of each check."""
    kept: set[str] = set()
    storage = instance.event_log_storage
    for asset in told.assets:
        latest = instance.get_latest_materialization_event(asset)
        kept |= {latest.run_id} if latest is not None else set()
        by_hour = storage.get_latest_storage_id_by_partition(
            asset, dg.DagsterEventType.ASSET_MATERIALIZATION
        ).values()
        ids = sorted(by_hour)
        for at in range(0, len(ids), _PAGE):
            asked = dg.AssetRecordsFilter(asset, storage_ids=ids[at : at + _PAGE])
            kept |= {record.run_id for record in instance.fetch_materializations(asked, limit=_PAGE).records}
    for check in told.checks:
        history = storage.get_asset_check_execution_history(check, limit=1)
        kept |= {record.run_id for record in history}
    return kept
