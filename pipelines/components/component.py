"""`SlsLogstore`: a logstore as Dagster definitions, from the attributes of one `defs.yaml`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import dagster as dg
from pydantic import BaseModel, RootModel

from pipelines.components.logstore.assets import (
    bronze_key,
    checkpoint_key,
    hours_of,
    landing_assets,
    origin_key,
    origin_spec,
)
from pipelines.components.logstore.health import (
    OF_TABLE,
    check_key,
    health_checks,
    kinds_of,
)
from pipelines.components.logstore.jobs import among_own_assets, jobs_of
from pipelines.components.logstore.maintenance import maintenance_job, maintenance_schedule
from pipelines.components.logstore.pruning import PrunedJobs, prune_op
from pipelines.components.logstore.scaffold import LogstoreScaffolder
from pipelines.components.logstore.schedule import microbatch_schedule, proof_schedule
from pipelines.components.logstore.sensors.demand import demand_lookout
from pipelines.components.logstore.sensors.health import health_lookout
from pipelines.components.logstore.sensors.sealed import sealed_lookout, sealed_spec
from pipelines.components.logstore.sensors.ticks import Lookout, sensor_of
from pipelines.components.logstore.sensors.topology import shards_spec
from pipelines.components.logstore.spark import RESOURCE_KEY, SPARK
from pipelines.components.logstore.wanted import is_wanted
from pipelines.landing import environment
from pipelines.landing.defs_file import FILES, TEMPLATE, read_documents
from pipelines.landing.logstore import Logstore, checked
from pipelines.landing.table.home import use

_TEMPLATE = {"type": "string", "pattern": f"^{TEMPLATE}$"}


class LogstoreAttributes(RootModel[dict[str, Any]]):
    """The attributes as written: templates are still in them, so their types come later."""

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The schema of `Logstore`, where a template may stand for any number or switch."""
        schema: dict[str, Any] = Logstore.model_json_schema(*args, **kwargs)
        group = schema["properties"]["group"]
        schema["properties"]["group"] = {"anyOf": [group, {"type": "string"}]}
        return {name: _or_template(part) for name, part in schema.items()}


@dg.scaffold_with(LogstoreScaffolder)
class SlsLogstore(dg.Component):
    """A logstore of the log service, landed in an Apache Iceberg table by micro-batches.

    Makes the assets sls/<name>_logstore (external), bronze/<name> (hourly by receive time) and
    sls/<name>_checkpoint. With the table stand the blocking check `reconciled` and the check `proven`, with
    the logstore `runway`, `lag`, `commit` and `errors`. Sensors tell at sls/<name>_shards and
    bronze/<name>_sealed, too. Schedules and sensors are off until somebody turns them on.

        <name>_microbatch   lands what is new                    <name>_schedule, <name>_demand_sensor
        <name>_now          the same, in one click
        <name>_rework       hours again that are there
        <name>_proof        the check `proven`                   <name>_proof_schedule
        <name>_health       fails with what is wrong             <name>_health_sensor
        <name>_maintenance  compacts, expires, sweeps, prunes    <name>_maintenance_schedule, the same sensor
                            tells complete hours                 <name>_sealed_sensor

    <name> is the last part of `table`.
    """

    def __init__(
        self, logstore: Logstore, *, unset: str = "", shared: Callable[[], PrunedJobs] | None = None
    ) -> None:
        self.logstore, self.unset, self.shared = logstore, unset, shared

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The attributes before templates are filled in."""
        return LogstoreAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Fill in the templates and check every setting. Raises ConfigError with the cure."""
        written = attributes.root if isinstance(attributes, LogstoreAttributes) else {}
        files = [path for name in FILES if (path := context.path / name).is_file()]
        for path in files:
            read_documents(path)
        place = files[0] if files else context.path
        values, unset = environment.filled(written, place)
        return cls(checked(values, place), unset=unset)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of this logstore, none where only others are wanted. Reads no table and starts no
        engine."""
        own, lookouts = self.parts(context)
        return dg.Definitions.merge(own, dg.Definitions(sensors=[sensor_of(each) for each in lookouts]))

    def parts(self, context: dg.ComponentLoadContext) -> tuple[dg.Definitions, list[Lookout]]:
        """(all but its sensors, what these do)."""
        use(context.project_root)
        if not is_wanted(self.logstore.name):
            return dg.Definitions(), []
        logstore, unset, bronze = self.logstore, self.unset, bronze_key(self.logstore)
        origin, hours = origin_key(logstore), hours_of(logstore)
        told = pruned_jobs((), [logstore])
        prune = prune_op(logstore, told.assets, told.checks, shared=self.shared)
        maintenance = maintenance_job(logstore, bronze, prune)
        parts: dict[str, Any] = {
            "assets": [
                origin_spec(logstore),
                shards_spec(logstore, origin),
                landing_assets(logstore, unset=unset),
                sealed_spec(logstore, bronze, hours),
            ],
            "asset_checks": [health_checks(logstore, unset=unset)],
            "resources": {RESOURCE_KEY: SPARK},
        }
        jobs = among_own_assets(jobs_of(logstore), parts)
        live, _, _, proof, health = jobs
        own = dg.Definitions(
            **parts,
            jobs=[*jobs, maintenance],
            schedules=[
                microbatch_schedule(logstore, live, unset=unset),
                proof_schedule(logstore, proof, unset=unset),
                maintenance_schedule(logstore, maintenance),
            ],
        )
        return own, [
            demand_lookout(logstore, live, origin, unset=unset),
            sealed_lookout(logstore, unset=unset),
            health_lookout(logstore, health, maintenance, unset=unset),
        ]


def pruned_jobs(jobs: Iterable[str], logstores: Sequence[Logstore]) -> PrunedJobs:
    """What runs of these jobs tell of the logstores."""
    assets = [key for each in logstores for key in (bronze_key(each), checkpoint_key(each))]
    checks = [check_key(each, kind) for each in logstores for kind in (*OF_TABLE, *kinds_of(each))]
    return PrunedJobs(tuple(jobs), tuple(assets), tuple(checks))


def _or_template(schema: Any) -> Any:
    """`schema`, with every number and switch allowed to be a template as well."""
    if isinstance(schema, list):
        return [_or_template(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in ("integer", "number", "boolean"):
        return {"anyOf": [schema, _TEMPLATE]}
    if "prefixItems" in schema:
        # Dagster makes an example of every component, and takes an array without `items` for an error:
        # whatever loads a whole folder (`load_from_defs_folder`, in each new project) would end there.
        schema = {**schema, "items": schema["prefixItems"][0]}
    return {name: _or_template(part) for name, part in schema.items()}
