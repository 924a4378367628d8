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
    UnresolvedAssetJobDefinition,
)
from pipelines.components.logstore.health import OF_TABLE, check_key, kinds_of
from pipelines.components.logstore.schedule import MODE_TAG, REWORK, Job, claiming_tags
from pipelines.components.logstore.wanted import are_alone
from pipelines.landing.logstore import Logstore
from pipelines.landing.watch.health import Kind


def jobs_of(logstore: Logstore) -> list[UnresolvedAssetJobDefinition]:
    """`<name>_microbatch`, `_now`, `_rework`, `_proof` and `_health`."""
    bronze = dg.AssetSelection.assets(bronze_key(logstore))
    checkpoint = dg.AssetSelection.assets(checkpoint_key(logstore))

    def checks(*kinds: Kind) -> dg.AssetSelection:
        return dg.AssetSelection.checks(*(check_key(logstore, kind) for kind in kinds))

    def job(what: str, of: dg.AssetSelection, about: str, **tags: str) -> UnresolvedAssetJobDefinition:
        name, executor = f"{logstore.name}_{what}", dg.in_process_executor
        return dg.define_asset_job(name, of, executor_def=executor, tags=tags or None, description=about)

    return [
        job(
            "microbatch",
            bronze | checkpoint,
            "Lands what is new and publishes the checkpoint. Live only when the schedule asks.",
        ),
        job(
            "now",
            checkpoint | checks(*OF_TABLE),
            "Lands what is new now and publishes the checkpoint: one live run, without the schedule.",
            **claiming_tags(logstore),
        ),
        job(
            "rework",
            bronze,
            "Does hours again that are there, all of a run in one commit. Its config names the `mode`: "
            "`replace` drops them and lands them whole again; `errors` reads rows with an error again after "
            "a change of the columns; `rest` fills columns that were declared later from `__rest__` of older "
            "rows, and takes plain values of keys that are drop or hash by now out of all rows. A dry run "
            "until its config says `execute: true`; moves no checkpoint.",
            **{MODE_TAG: REWORK},
        ),
        job(
            "proof",
            checks(Kind.PROVEN),
            "Proves every row of the table against the ledger, as `sls-lake verify`.",
        ),
        job(
            "health",
            checks(*kinds_of(logstore)),
            "Looks at the health, and fails with what is wrong: what an alert on failed runs sends.",
        ),
    ]


def among_own_assets(jobs: Sequence[Job], parts: Mapping[str, Any]) -> Sequence[Job]:
    """The jobs of one logstore, in order, looked up among its own assets: `parts` of its definitions.

    Dagster looks each job up among the assets of all logstores: with a hundred of them that takes four times
    as long as with fifty. Not where there may be more than logstores: a check that a person defines on an
    asset belongs to the jobs of that asset, and a resource of his own may have the place of Dagster's.
    """
    if not are_alone():
        return jobs
    alone = dg.Definitions(**parts, jobs=jobs, executor=dg.in_process_executor)
    return [alone.resolve_job_def(job.name) for job in jobs]
