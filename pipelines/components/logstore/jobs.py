"""What can be launched by name: parts of the same assets and checks, so that results stand with them.

One job carries the tag that makes a run live, `<name>_now`. It has no partitions, so no backfill can be
launched from it. What takes something away is one job, `<name>_rework`. Its config names the mode, and has no
default: the page fills a form with defaults, and by such a form nothing may be replaced, nor filled instead.
It is a dry run until its config says `execute: true`.

Jobs that touch the table select its checks as well. The page calls a check not evaluated whose newest
result is older than the newest hour.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from pipelines.components.logstore.assets import bronze_key, checkpoint_key
from pipelines.components.logstore.dagster_private import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
    UnresolvedAssetJobDefinition,
)
from pipelines.components.logstore.health import OF_TABLE, check_key
from pipelines.components.logstore.schedule import MODE_TAG, REWORK, Job, claiming_tags
from pipelines.landing.logstore import Logstore
from pipelines.landing.watch.health import Kind


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
    checks = (check_key(logstore, kind) for kind in OF_TABLE)
    selection = dg.AssetSelection.assets(checkpoint_key(logstore)) | dg.AssetSelection.checks(*checks)
    return dg.define_asset_job(
        f"{logstore.name}_now",
        selection=selection,
        executor_def=dg.in_process_executor,
        tags=claiming_tags(logstore),
        description="Lands what is new now and publishes the checkpoint: one live run, without the schedule.",
    )


def proof_job(logstore: Logstore) -> UnresolvedAssetJobDefinition:
    """`<name>_proof`: the check `proven` alone, without a landing."""
    return dg.define_asset_job(
        f"{logstore.name}_proof",
        selection=dg.AssetSelection.checks(check_key(logstore, Kind.PROVEN)),
        executor_def=dg.in_process_executor,
        description="Proves every row of the table against the ledger, as `sls-lake verify`.",
    )


def rework_job(logstore: Logstore) -> UnresolvedAssetJobDefinition:
    """`<name>_rework`, over the same hours as the table; refused until its config names a mode."""
    return dg.define_asset_job(
        f"{logstore.name}_rework",
        selection=dg.AssetSelection.assets(bronze_key(logstore)),
        executor_def=dg.in_process_executor,
        tags={MODE_TAG: REWORK},
        description=(
            "Does hours again that are there, all of a run in one commit. Its config names the `mode`: "
            "`replace` drops them and lands them whole again; `errors` reads rows with an error again after "
            "a change of the columns; `rest` fills columns that were declared later from `__rest__` of older "
            "rows, and takes plain values of keys that are drop or hash by now out of all rows. A dry run "
            "until its config says `execute: true`; moves no checkpoint."
        ),
    )


def among_own_assets(jobs: Sequence[Job], parts: Mapping[str, Any]) -> Sequence[Job]:
    """The jobs of one logstore, in order, looked up among its own assets: `parts` of its definitions.

    Dagster looks each job up among the assets of all logstores: with a hundred of them that takes four times
    as long as with fifty. A run's process needs one job, and looks up none but that.
    """
    if DefinitionsLoadContext.get().load_type is DefinitionsLoadType.RECONSTRUCTION:
        return jobs
    alone = dg.Definitions(**parts, jobs=jobs, executor=dg.in_process_executor)
    return [alone.resolve_job_def(job.name) for job in jobs]
