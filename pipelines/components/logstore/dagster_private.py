"""What Dagster has and does not export; the only module that reaches into `dagster._core`.

Each name was looked up in the release that `CHECKED_WITH` says, and is used as it is there. A test compares
it with the release that is installed: whoever moves Dagster looks here first.
"""

from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.asset_check_execution_record import COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
from dagster._core.storage.dagster_run import IN_PROGRESS_RUN_STATUSES, NOT_FINISHED_STATUSES

__all__ = [
    "CHECKED_WITH",
    "COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES",
    "IN_PROGRESS_RUN_STATUSES",
    "NOT_FINISHED_STATUSES",
    "DefinitionsLoadContext",
    "DefinitionsLoadType",
    "UnresolvedAssetJobDefinition",
]

CHECKED_WITH = "1.13.27"
"""The release of Dagster."""
