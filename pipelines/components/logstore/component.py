"""`SlsLogstore`: a logstore as Dagster definitions, from the attributes of one `defs.yaml`."""

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
from pipelines.components.logstore.checks import NAMES
from pipelines.components.logstore.jobs import (
    among_own_assets,
    check_jobs,
    hours_jobs,
    microbatch_job,
    now_job,
)
from pipelines.components.logstore.maintenance import maintenance_job, maintenance_schedule
from pipelines.components.logstore.pruning import prune_job, prune_schedule
from pipelines.components.logstore.scaffold import LogstoreScaffolder
from pipelines.components.logstore.schedule import Job, check_schedules, microbatch_schedule
from pipelines.components.logstore.sensors.backlog import backlog_sensor
from pipelines.components.logstore.sensors.sealed import sealed_sensor, sealed_spec
from pipelines.components.logstore.sensors.topology import shards_spec, topology_sensor
from pipelines.components.logstore.sensors.trouble import trouble_checks, trouble_job, trouble_sensor
from pipelines.components.logstore.sensors.upkeep import maintenance_sensor
from pipelines.components.logstore.spark import RESOURCE_KEY, SPARK
from pipelines.landing import environment
from pipelines.landing.defs_file import FILES, TEMPLATE, read_documents
from pipelines.landing.logstore import Logstore, checked
from pipelines.landing.watch.troubles import Kind

_TEMPLATE = {"type": "string", "pattern": f"^{TEMPLATE}$"}


class LogstoreAttributes(RootModel[dict[str, Any]]):
    """The attributes as written: templates are still in them, so their types come later."""

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The schema of `Logstore`, where a template may stand for any number or switch."""
        schema: dict[str, Any] = Logstore.model_json_schema(*args, **kwargs)
        for name in ("group", "coordinator"):
            whole = schema["properties"][name]
            schema["properties"][name] = {"anyOf": [whole, {"type": "string"}]}
        return {name: _or_template(part) for name, part in schema.items()}


@dg.scaffold_with(LogstoreScaffolder)
class SlsLogstore(dg.Component):
    """A logstore of the log service, landed in an Apache Iceberg table by micro-batches.

    Makes the assets sls/<name>_logstore (external), bronze/<name> (hourly by receive time) and
    sls/<name>_checkpoint, the blocking check `reconciled` and the checks `proven`, `runway` and `clean`, and
    jobs, those with a clock beside a schedule that is off until somebody turns it on. Sensors are off, too:
    <name>_topology_sensor, _backlog_, _sealed_, _trouble_ and _maintenance_sensor (`docs/sensors.md`), with
    what they tell at sls/<name>_shards, bronze/<name>_sealed and the checks of sls/<name>_logstore.

        <name>_microbatch   lands what is new                    <name>_schedule
        <name>_now          the same, in one click
        <name>_proof        the check `proven`                   <name>_proof_schedule
        <name>_runway       the check `runway`                   <name>_runway_schedule
        <name>_maintenance  compacts, expires, sweeps            <name>_maintenance_schedule
        <name>_replace      hours pulled again in one commit
        <name>_errors       rows with errors read again
        <name>_trouble      fails with what is wrong
        <name>_prune        deletes old runs from Dagster    <name>_prune_schedule

    <name> is the last part of `table`.
    """

    def __init__(self, logstore: Logstore, *, unset: str = "") -> None:
        self.logstore = logstore
        self.unset = unset

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
        """The definitions of this logstore. Reads no table and starts no engine."""
        logstore, unset, bronze = self.logstore, self.unset, bronze_key(self.logstore)
        origin, hours = origin_key(logstore), hours_of(logstore)
        maintenance = maintenance_job(logstore, bronze)
        parts: dict[str, Any] = {
            "assets": [
                origin_spec(logstore),
                shards_spec(logstore, origin),
                landing_assets(logstore, unset=unset),
                sealed_spec(logstore, bronze, hours),
            ],
            "asset_checks": [trouble_checks(logstore, origin, unset=unset)],
            "resources": {RESOURCE_KEY: SPARK},
        }
        found: list[Job] = [microbatch_job(logstore), trouble_job(logstore, origin), *check_jobs(logstore)]
        found += [now_job(logstore), *hours_jobs(logstore)]
        live, trouble, proof, runway, *more = among_own_assets(found, parts)
        shown = [dg.AssetCheckKey(bronze, name) for name in NAMES]
        shown += [dg.AssetCheckKey(origin, kind.value) for kind in Kind]
        prune = prune_job(logstore, [bronze, checkpoint_key(logstore)], shown)
        return dg.Definitions(
            **parts,
            jobs=[live, proof, runway, *more, maintenance, trouble, prune],
            schedules=[
                microbatch_schedule(logstore, live, unset=unset),
                *check_schedules(logstore, proof, runway, unset=unset),
                maintenance_schedule(logstore, maintenance),
                prune_schedule(logstore, prune),
            ],
            sensors=[
                topology_sensor(logstore, live, origin, unset=unset),
                backlog_sensor(logstore, live, unset=unset),
                sealed_sensor(logstore, unset=unset),
                trouble_sensor(logstore, trouble, origin, unset=unset),
                maintenance_sensor(logstore, maintenance),
            ],
        )


def _or_template(schema: Any) -> Any:
    """`schema`, with every number and switch allowed to be a template as well."""
    if isinstance(schema, list):
        return [_or_template(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in ("integer", "number", "boolean"):
        return {"anyOf": [schema, _TEMPLATE]}
    return {name: _or_template(part) for name, part in schema.items()}
