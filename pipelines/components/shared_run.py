"""One run that lands all logstores of an `SlsProject`, one after the other, in one Spark session.

A run of its own pays a start of Spark, 9.7 CPU seconds whatever it lands. Many quiet logstores would mostly
start Sparks; here they share one start. Each is a step of its own: one whose landing fails makes the run red
and stops no other.

    <folder>_logstores_microbatch   lands what is new of each and publishes its checkpoint
    <folder>_logstores_schedule     asks for it, without those that another run holds

A logstore's own schedule, sensors and jobs stay as they are. Whichever run is first holds the claim, and a
tick of the other one leaves this logstore out. Worked example: `a`, `b` and `c` are of the project, and
`b_now` is at work. The tick asks for a run of the checkpoints of `a` and `c`; meanwhile the schedule of `a`
skips, since a run that is not finished makes its checkpoint.
"""

from collections.abc import Sequence

import dagster as dg

from pipelines.components.logstore.assets import checkpoint_key
from pipelines.components.logstore.dagster_private import UnresolvedAssetJobDefinition
from pipelines.components.logstore.health import OF_TABLE, check_key
from pipelines.components.logstore.schedule import (
    CLAIMS_TAG,
    MAX_RUNTIME_TAG,
    SHARED_TAG,
    busy_runs,
    claiming_tags,
    decide,
    held_by,
    schedule_of,
)
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.holding import work_max_s
from sls_io.values.clock import SYSTEM_CLOCK


def shared_run(name: str, logstores: Sequence[Logstore], cron: str) -> dg.Definitions:
    """Job and schedule for `logstores`, which tick at `cron`; `name` is <folder>_logstores."""
    job = _job(name, logstores)

    def ask(instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
        busy, now_s = busy_runs(instance, [name, *(each.name for each in logstores)]), SYSTEM_CLOCK.now()
        if name in busy:
            return held_by(busy[name], name)
        asked = [decide(each, now_s=now_s, busy=busy.get(each.name)) for each in logstores]
        free = [each for each, one in zip(logstores, asked, strict=True) if isinstance(one, dg.RunRequest)]
        if not free:
            why = (str(one.skip_message) for one in asked if isinstance(one, dg.SkipReason))
            return dg.SkipReason("; ".join(why))
        return dg.RunRequest(asset_selection=[checkpoint_key(each) for each in free], tags=_tags(name, free))

    what = "Requests one run for all logstores that no other run holds."
    return dg.Definitions(jobs=[job], schedules=[schedule_of(name, job, cron, ask, what)])


def _job(name: str, logstores: Sequence[Logstore]) -> UnresolvedAssetJobDefinition:
    checkpoints = dg.AssetSelection.assets(*map(checkpoint_key, logstores))
    keys = [check_key(each, kind) for each in logstores for kind in OF_TABLE]
    return dg.define_asset_job(
        f"{name}_microbatch",
        checkpoints | dg.AssetSelection.checks(*keys),
        executor_def=dg.in_process_executor,
        tags=_tags(name, logstores),
        description="Lands what is new of each logstore and publishes its checkpoint, all with one Spark.",
    )


def _tags(name: str, logstores: Sequence[Logstore]) -> dict[str, str]:
    """Those of a live run. What it claims is under a name of its own, so two of them never run at a time; it
    may take as long as all of its landings together."""
    longest_s = sum(work_max_s(each.budget) for each in logstores)
    shared = {CLAIMS_TAG: name, SHARED_TAG: "yes", MAX_RUNTIME_TAG: str(longest_s)}
    return {**claiming_tags(logstores[0]), **shared}
