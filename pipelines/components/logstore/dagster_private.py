"""What Dagster has and does not export; the only module that reaches into `dagster._core`.

Each name was looked up in the release that `CHECKED_WITH` says, and is used as it is there. A test compares
it with the release that is installed: whoever moves Dagster looks here first.
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import dagster as dg
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.instance import InstanceRef
from dagster._core.storage.asset_check_execution_record import COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
from dagster._core.storage.dagster_run import IN_PROGRESS_RUN_STATUSES, NOT_FINISHED_STATUSES
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable

__all__ = [
    "CHECKED_WITH",
    "COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES",
    "IN_PROGRESS_RUN_STATUSES",
    "NOT_FINISHED_STATUSES",
    "DefinitionsLoadContext",
    "DefinitionsLoadType",
    "UnresolvedAssetJobDefinition",
    "delete_runs",
    "instance_kept_open",
]

CHECKED_WITH = "1.13.27"
"""The release of Dagster."""
_SHARD_FILES = ("", "-wal", "-shm")


def instance_kept_open(context: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext) -> None:
    """Give the context of a tick the instance that an earlier tick of this process has opened.

    Dagster opens one for each tick that asks for it, and closes it. With SQLite files that is 100 ms of CPU,
    four times of what a quiet tick spends otherwise; a code server of a hundred logstores does little else.
    """
    if context._instance is None and context.instance_ref is not None:
        context._instance = _open(context.instance_ref)


_OPENED: list[tuple[InstanceRef, dg.DagsterInstance]] = []
"""The one that is open; a process has ticks of one instance alone."""


def _open(ref: InstanceRef) -> dg.DagsterInstance:
    for known, instance in _OPENED:
        if known == ref:
            return instance
    instance = dg.DagsterInstance.from_ref(ref)
    _OPENED[:] = [(ref, instance)]
    return instance


def delete_runs(instance: dg.DagsterInstance, run_ids: Sequence[str]) -> None:
    """Delete runs that have ended, with what `delete_run` leaves of them: results of checks, captured output,
    and where each run has a SQLite file of its own that file.

    Each run by itself would cost a search of all results of checks, which have no index by run, and, with
    SQLite, its file opened, looked at for migrations and emptied, to be deleted then. A run's own row goes
    last: killed in the middle, the next time finds the run again.
    """
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        with storage.index_connection() as connection:
            for run_id in run_ids:
                storage.delete_events_for_run(connection, run_id)
        holding = storage.get_concurrency_run_ids() if storage.supports_global_concurrency_limits else set()
        for run_id in holding.intersection(run_ids):
            storage.free_concurrency_slots_for_run(run_id)
        for run_id, end in product(run_ids, _SHARD_FILES):
            Path(f"{storage.path_for_shard(run_id)}{end}").unlink(missing_ok=True)
    else:
        for run_id in run_ids:
            storage.delete_events(run_id)
    if isinstance(storage, SqlEventLogStorage):
        results = AssetCheckExecutionsTable
        with storage.index_connection() as connection:
            connection.execute(results.delete().where(results.c.run_id.in_(run_ids)))
    for run_id in run_ids:
        instance.compute_log_manager.delete_logs(prefix=[run_id])
        instance.run_storage.delete_run(run_id)
