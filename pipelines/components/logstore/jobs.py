"""What can be launched by name: parts of the same assets and checks, so that results stand with them.

One job carries the tag that makes a run live, `<name>_now`. It has no partitions, so no backfill can be
launched from it. Those that take something away carry their mode as a tag,
not as config: the page fills a form with defaults, and a job that replaces must not become one that
fills by such a form. They are dry runs until their config says `execute: true`.

Jobs that touch the table select its checks as well. The page calls a check not evaluated whose newest
result is older than the newest hour.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from pipelines.components.logstore.assets import bronze_key, checkpoint_key
from pipelines.components.logstore.checks import NAMES, PROVEN, RUNWAY
from pipelines.components.logstore.dagster_private import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
    UnresolvedAssetJobDefinition,
)
from pipelines.components.logstore.schedule import ERRORS, MODE_TAG, REPLACE, REST, Job, claiming_tags
from pipelines.landing.logstore import Logstore

_REWORK = {
    REPLACE: "Drops the chosen hours and lands them whole again, all of a run in one commit.",
    ERRORS: "Reads rows with an error again after a change of the columns; pulls nothing.",
    REST: "Fills columns that were declared later from `__rest__` of older rows, and takes plain values of "
    "keys that are drop or hash by now out of all rows; pulls nothing.",
}


def _check(logstore: Logstore, name: str) -> dg.AssetSelection:
    return dg.AssetSelection.checks(dg.AssetCheckKey(bronze_key(logstore), name))


def microbatch_job(logstore: Logstore) -> UnresolvedAssetJobDefinition:
    """`<name>_microbatch`: table and checkpoint."""
    assets = dg.AssetSelection.assets(bronze_key(logstore), checkpoint_key(logstore))
    return dg.define_asset_job(
        f"{logstore.name}_microbatch",
        selection=assets,
        executor_def=dg.in_process_executor,
        description="Lands what is new and publishes the checkpoint. Live only when the schedule asks.",
    )


def now_job(logstore: Logstore) -> UnresolvedAssetJobDefinition:
    """`<name>_now`: what the schedule would ask for, in one click. It selects what has no partitions."""
    checks = (dg.AssetCheckKey(bronze_key(logstore), name) for name in NAMES)
    selection = dg.AssetSelection.assets(checkpoint_key(logstore)) | dg.AssetSelection.checks(*checks)
    return dg.define_asset_job(
        f"{logstore.name}_now",
        selection=selection,
        executor_def=dg.in_process_executor,
        tags=claiming_tags(logstore),
        description="Lands what is new now and publishes the checkpoint: one live run, without the schedule.",
    )


def check_jobs(logstore: Logstore) -> tuple[UnresolvedAssetJobDefinition, UnresolvedAssetJobDefinition]:
    """`<name>_proof` and `<name>_runway`: one check each, without a landing."""
    proof = dg.define_asset_job(
        f"{logstore.name}_proof",
        selection=_check(logstore, PROVEN),
        executor_def=dg.in_process_executor,
        description="Proves every row of the table against the ledger, as `sls-lake verify`.",
    )
    runway = dg.define_asset_job(
        f"{logstore.name}_runway",
        selection=_check(logstore, RUNWAY),
        executor_def=dg.in_process_executor,
        description="Looks how long until retention deletes logs that have not landed.",
    )
    return proof, runway


def hours_jobs(logstore: Logstore) -> list[UnresolvedAssetJobDefinition]:
    """`<name>_replace`, `_errors` and `_rest`, over the same hours as the table; dry runs as they are."""
    return [
        dg.define_asset_job(
            f"{logstore.name}_{mode}",
            selection=dg.AssetSelection.assets(bronze_key(logstore)),
            executor_def=dg.in_process_executor,
            tags={MODE_TAG: mode},
            description=f"{what} A dry run until its config says `execute: true`; moves no checkpoint.",
        )
        for mode, what in _REWORK.items()
    ]


def among_own_assets(jobs: Sequence[Job], parts: Mapping[str, Any]) -> Sequence[Job]:
    """The jobs of one logstore, in order, looked up among its own assets: `parts` of its definitions.

    Dagster looks each job up among the assets of all logstores: with a hundred of them that takes four times
    as long as with fifty. A run's process needs one job, and looks up none but that.
    """
    if DefinitionsLoadContext.get().load_type is DefinitionsLoadType.RECONSTRUCTION:
        return jobs
    alone = dg.Definitions(**parts, jobs=jobs, executor=dg.in_process_executor)
    return [alone.resolve_job_def(job.name) for job in jobs]
