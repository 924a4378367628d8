"""One run that lands all logstores of an `SlsProject`, one after the other, in one Spark session.

A run of its own pays a start of Spark, 9.7 CPU seconds whatever it lands. Many quiet logstores would mostly
start Sparks; here they share one start. Each is a step of its own: one whose landing fails makes the run red
and stops no other.

    <folder>_logstores_microbatch   lands what is new of each and publishes its checkpoint
    <folder>_logstores_schedule     asks for it, without those that another run holds

So does the demand sensor that they share, where several of them have too much waiting (`shared_sensors.py`).
A logstore's own schedule, sensors and jobs stay as they are. Whichever run is first holds the claim, and a
tick of the other one leaves this logstore out. Worked example: `a`, `b` and `c` are of the project, and
`b_now` is at work. The tick asks for a run of the checkpoints of `a` and `c`; meanwhile the schedule of `a`
skips, since a run that is not finished makes its checkpoint.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

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


@dataclass(frozen=True)
class SharedRun:
    """The run of `logstores`; `name` is <folder>_logstores."""

    name: str
    logstores: tuple[Logstore, ...]

    @property
    def job_name(self) -> str:
        """Of the runs, whoever asks for them."""
        return f"{self.name}_microbatch"

    @cached_property
    def job(self) -> UnresolvedAssetJobDefinition:
        """`<name>_microbatch`."""
        checkpoints = dg.AssetSelection.assets(*map(checkpoint_key, self.logstores))
        keys = [check_key(each, kind) for each in self.logstores for kind in OF_TABLE]
        return dg.define_asset_job(
            self.job_name,
            checkpoints | dg.AssetSelection.checks(*keys),
            executor_def=dg.in_process_executor,
            tags=_tags(self.name, self.logstores),
            description="Lands what is new of each logstore and publishes its checkpoint, with one Spark.",
        )

    def definitions(self, cron: str) -> dg.Definitions:
        """The job, and a schedule that asks at `cron` for all logstores."""
        what = "Requests one run for all logstores that no other run holds."
        ask = partial(self.request, logstores=self.logstores)
        return dg.Definitions(jobs=[self.job], schedules=[schedule_of(self.name, self.job, cron, ask, what)])

    def request(
        self, instance: dg.DagsterInstance, logstores: Sequence[Logstore]
    ) -> dg.RunRequest | dg.SkipReason:
        """One run for those of `logstores` that no other holds, or why not."""
        busy, now_s = busy_runs(instance, [self.name, *(each.name for each in logstores)]), SYSTEM_CLOCK.now()
        if self.name in busy:
            return held_by(busy[self.name], self.name)
        asked = [decide(each, now_s=now_s, busy=busy.get(each.name)) for each in logstores]
        free = [each for each, one in zip(logstores, asked, strict=True) if isinstance(one, dg.RunRequest)]
        if not free:
            why = (str(one.skip_message) for one in asked if isinstance(one, dg.SkipReason))
            return dg.SkipReason("; ".join(why))
        keys = [checkpoint_key(each) for each in free]
        return dg.RunRequest(job_name=self.job.name, asset_selection=keys, tags=_tags(self.name, free))


def _tags(name: str, logstores: Sequence[Logstore]) -> dict[str, str]:
    """Those of a live run. What it claims is under a name of its own, so two of them never run at a time; it
    may take as long as all of its landings together."""
    longest_s = sum(work_max_s(each.budget) for each in logstores)
    shared = {CLAIMS_TAG: name, SHARED_TAG: "yes", MAX_RUNTIME_TAG: str(longest_s)}
    return {**claiming_tags(logstores[0]), **shared}
