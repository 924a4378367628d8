"""`dg scaffold defs pipelines.components.SlsLogstore NAME`: a commented `defs.yaml` that loads as it stands.

    dg scaffold defs pipelines.components.SlsLogstore access_logs --project demo

What no flag says is taken from NAME and from the service: `start` is the hour of its oldest log, where it
answers. Where it does not the history begins with today, and the file says so.
"""

from datetime import UTC, datetime

import dagster as dg
from pydantic import BaseModel, Field

from pipelines.components.logstore.schedule import hour_key
from pipelines.landing.defs_file import filled
from pipelines.landing.logstore import checked
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, SlsError
from sls_io.values.settings import Service
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

ENDPOINT = "{{ env.SLS_ENDPOINT }}"
_CALL_S = 5.0

_FILE = """type: {type}

# Loads without it; what runs then says that it is not set.
requirements:
  env:
    - SLS_ENDPOINT

attributes:
  service:
    # The key pair is never written here: ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET.
    endpoint: "{endpoint}"
    project: {project}
    logstore: {logstore}
  # The consumer group; its checkpoints follow the table.
  group: {group}
  # Its last part is the name of the logstore's assets, jobs, schedules and sensors.
  table: {table}
  # First receive hour of the history, UTC: nothing before it is ever landed.
  # {why}
  start: {start}
  # Log key: type. string boolean int long float double decimal(p,s) date timestamp(FORMAT, ZONE), drop, hash.
  # A key that is not declared goes to __rest__; a value that does not fit stays, with its cause.
  columns: {{}}
  # Off until somebody turns it on, as all schedules and sensors are.
  schedule: "*/5 * * * *"
  # sensors: [demand, health]
  # All settings: docs/reference.md. `sls-lake check` reads this file again.
"""


class LogstoreFlags(BaseModel):
    """What `dg scaffold` may be told; each has a default."""

    endpoint: str = Field(default=ENDPOINT, description="Of the service; a variable of the environment.")
    project: str = Field(default="demo", description="Project in the service.")
    logstore: str = Field(default="", description="Logstore in the service.  [default: NAME]")
    group: str = Field(default="lake", description="Consumer group.")
    table: str = Field(default="", description="namespace.name in the catalog.  [default: bronze.NAME]")
    start: str = Field(
        default="", description="First hour, YYYY-MM-DD-HH:MM UTC.  [default: the oldest log's]"
    )


class LogstoreScaffolder(dg.Scaffolder[LogstoreFlags]):
    """Writes the file. Raises ConfigError for what would not load, and then nothing is written."""

    @classmethod
    def get_scaffold_params(cls) -> type[LogstoreFlags]:
        """The flags."""
        return LogstoreFlags

    def scaffold(self, request: dg.ScaffoldRequest[LogstoreFlags]) -> None:
        """Write `defs.yaml` into the folder of the request."""
        if request.scaffold_format != "yaml" or request.append:
            raise ConfigError(
                "a logstore is one YAML file in a folder of its own: scaffold it under a new name"
            )
        path, asked = request.target_path / "defs.yaml", request.params
        name = request.target_path.name
        values = {
            "endpoint": asked.endpoint,
            "project": asked.project,
            "logstore": asked.logstore or name,
            "group": asked.group,
            "table": asked.table or f"bronze.{name.replace('-', '_').lower()}",
        }
        start, why = (asked.start, "As it was asked for.") if asked.start else _oldest(values)
        service = {key: values[key] for key in ("endpoint", "project", "logstore")}
        # A stand-in for what a variable says: whether the rest is right does not depend on it.
        known = {**service, "endpoint": "http://127.0.0.1"} if "{" in values["endpoint"] else service
        checked({"service": known, "group": values["group"], "table": values["table"], "start": start}, path)
        path.write_text(
            _FILE.format(type=request.type_name, start=start, why=why, **values), encoding="utf-8"
        )


def _oldest(values: dict[str, str]) -> tuple[str, str]:
    """(hour, why): the hour of the oldest log that the service keeps, of any shard."""
    today = datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC).strftime("%Y-%m-%d-00:00")
    written = {key: values[key] for key in ("endpoint", "project", "logstore")}
    told, unset = filled({"service": written}, "the new defs.yaml")
    if unset:
        return (
            today,
            f"Nobody could be asked for the oldest log, {', '.join(unset.values())} is not set: look.",
        )
    try:
        service = Service.model_validate({**told["service"], "tries_max": 1})
        with SlsClient(service, deadline_s=_CALL_S) as client:
            begins = [client.head(shard) for shard in client.shards()]
            times = [client.cursor_time_s(h.shard.id, h.begin) for h in begins if h.begin < h.end]
            oldest_s = min(times, default=int(client.now_s()))
    except (SlsError, ValueError):
        return (
            today,
            "The service could not be asked for its oldest log: look whether history begins earlier.",
        )
    return hour_key(oldest_s // HOUR_S), "The hour of the oldest log that the service had."
