"""A logstore's definitions whose rows are written by the run's own process: Dagster's real runs, no JVM."""

import dagster as dg

from chaos.engine import InProcess
from pipelines.components import SlsLogstore
from pipelines.components.logstore.dagster_private import DefinitionsLoadContext, DefinitionsLoadType
from pipelines.components.logstore.spark import RESOURCE_KEY, SparkEngine
from pipelines.landing.logstore import Logstore
from pipelines.landing.spark.session import Engine


class Here(SparkEngine):
    """Writing tasks run in this process."""

    def engine(self) -> Engine:
        return InProcess()


def definitions_of(logstore: Logstore, spark: SparkEngine | None = None) -> dg.Definitions:
    """What the component builds of `logstore`, with `spark` in the place of its own Spark."""
    component = SlsLogstore.from_attributes_dict(
        attributes=logstore.model_dump(mode="json", exclude_none=True)
    )
    # As a run's process loads them: there a job is not bound to the component's own Spark yet.
    with DefinitionsLoadContext.scoped(DefinitionsLoadContext(DefinitionsLoadType.RECONSTRUCTION)):
        defs = component.build_defs(dg.ComponentTree.for_test().load_context)
    return dg.Definitions(
        assets=defs.assets,
        asset_checks=defs.asset_checks,
        jobs=defs.jobs,
        schedules=defs.schedules,
        sensors=defs.sensors,
        resources={RESOURCE_KEY: spark or Here()},
        executor=dg.in_process_executor,
    )
