"""Dagster runs carried out in this process, recorded where Dagster's page finds them.

The definitions are loaded the way Dagster loads them: all of the project's package. What a micro-batch may
do is not decided here either: the schedule is asked for its tick, and its run request is carried out as it
is.
"""

import importlib
import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from pipelines.landing.logstore import Logstore
from pipelines.landing.table.home import project
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, SlsError

DEFINITIONS, MODELS = "pipelines.definitions", "pipelines.models"
"""What loads the two code locations of a workspace."""
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")


class RunFailed(SlsError):
    """A run ended red. The run and its reason are named; Dagster's page has the whole story."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One finished run: its id, seconds, and the metadata of what it materialized.

    hours        partition key -> rows of the hour that this run landed
    in_table     partition key -> rows of the hour that the table has after it, whoever landed them
    checks       check name -> passed
    """

    run_id: str
    seconds: float
    hours: Mapping[str, int]
    in_table: Mapping[str, int]
    checks: Mapping[str, bool]
    materialized: int

    @property
    def rows(self) -> int:
        """Rows that the run landed, over all hours."""
        return sum(self.hours.values())


class Runs:
    """The project's definitions and the Dagster instance of this process's environment."""

    def __init__(self) -> None:
        warnings.filterwarnings("ignore", category=dg.BetaWarning)
        warnings.filterwarnings("ignore", category=dg.PreviewWarning)
        logging.getLogger("dagster").setLevel(logging.CRITICAL)
        own = project()
        if own is None:
            raise ConfigError("runs need a project: go to the folder of one")
        self._definitions: dg.Definitions = importlib.import_module(DEFINITIONS).loaded(own.defs.parent)
        self._instance = dg.DagsterInstance.get()

    def close(self) -> None:
        """Let go of the instance's files."""
        self._instance.dispose()

    def microbatch(self, logstore: Logstore) -> FinishedRun:
        """One live micro-batch, exactly as the schedule would request it now."""
        schedule = self._definitions.resolve_schedule_def(f"{logstore.name}_schedule")
        now = datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC)
        with dg.build_schedule_context(instance=self._instance, scheduled_execution_time=now) as context:
            tick = schedule.evaluate_tick(context)
        if not tick.run_requests:
            raise ConfigError(
                f"the schedule of {logstore.name} skips: {tick.skip_message or 'no reason given'}"
            )
        job = self._definitions.resolve_job_def(f"{logstore.name}_microbatch")
        return self._execute(job, dict(tick.run_requests[0].tags or {}))

    def backfill(self, logstore: Logstore, first: str, last: str) -> FinishedRun:
        """The hours first..last (partition keys) of the bronze asset alone, as its page would run them."""
        key = dg.AssetKey(["bronze", logstore.name])
        job = self._definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={key})
        return self._execute(job, dict(zip(_RANGE, (first, last), strict=True)))

    def models(self) -> FinishedRun:
        """`dbt build` of the views that follow each landing, as the assets and checks they are in Dagster."""
        definitions: dg.Definitions = importlib.import_module(MODELS).defs
        graph = definitions.get_repository_def().asset_graph
        models = [key for key in graph.materializable_asset_keys if "dbt" in graph.get(key).kinds]
        keys = {key for key in models if graph.get(key).automation_condition is not None}
        job = definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection=keys)
        return self._execute(job, {})

    def _execute(self, job: dg.JobDefinition, tags: dict[str, str]) -> FinishedRun:
        started = SYSTEM_CLOCK.monotonic()
        result = job.execute_in_process(
            run_config=_QUIET, instance=self._instance, tags=tags, raise_on_error=False
        )
        if not result.success:
            raise RunFailed(f"run {result.run_id} of {job.name} failed: {_reason(result)}")
        hours: dict[str, int] = {}
        in_table: dict[str, int] = {}
        materialized = 0
        for event in result.get_asset_materialization_events():
            materialized += 1
            data = event.step_materialization_data.materialization
            for name, found in (("rows", hours), ("dagster/partition_row_count", in_table)):
                rows = data.metadata.get(name)
                if data.partition is not None and rows is not None and isinstance(rows.value, int):
                    found[data.partition] = rows.value
        checks = {e.check_name: e.passed for e in result.get_asset_check_evaluations()}
        seconds = SYSTEM_CLOCK.monotonic() - started
        return FinishedRun(result.run_id, seconds, hours, in_table, checks, materialized)


def _reason(result: dg.ExecuteInProcessResult) -> str:
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            failure = data.user_failure_data
            if failure is not None and failure.description:
                return str(failure.description)
            if data.error is not None:
                return data.error.message.strip().splitlines()[-1]
    return "see its page in Dagster"
