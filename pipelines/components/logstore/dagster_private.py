"""What Dagster has and does not export; the only module that reaches into `dagster._core`.

Each name was looked up in the release that `CHECKED_WITH` says, and is used as it is there. A test compares
it with the release that is installed: whoever moves Dagster looks here first.
"""

from pathlib import Path

import dagster as dg
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
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
    "delete_what_a_run_left",
]

CHECKED_WITH = "1.13.27"
"""The release of Dagster."""
_SHARD_FILES = ("", "-wal", "-shm")


def delete_what_a_run_left(instance: dg.DagsterInstance, run_id: str) -> None:
    """Delete what `delete_run` leaves of a run, which is deleted: its results of checks, and where each run
    has a SQLite file of its own that file, which stays as large as it was."""
    storage, results = instance.event_log_storage, AssetCheckExecutionsTable
    if isinstance(storage, SqlEventLogStorage):
        with storage.index_connection() as connection:
            connection.execute(results.delete().where(results.c.run_id == run_id))
    if isinstance(storage, SqliteEventLogStorage):
        for end in _SHARD_FILES:
            Path(f"{storage.path_for_shard(run_id)}{end}").unlink(missing_ok=True)
