"""What somebody gave for a run on an account, what the run will make there, and what that costs."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from pipelines.landing.table.home import CATALOG
from pipelines.landing.table.lake import NAMES_A_CATALOG, configured
from sls_io.values.errors import ConfigError
from sls_io.values.settings import Credentials, Service

PREFIX = "sls-lake-real-"
"""Nothing of another name is ever made or removed."""
CATALOG_VARIABLES = f"PYICEBERG_CATALOG__{CATALOG.upper()}__"
LANDED, QUOTA = "landed", "quota"
GROUP_MB, WRITE_MB, READ_MB = 1, 64, 128
ROWS = 2_000
_SETTINGS = """type: pipelines.components.SlsLogstore
attributes:
  service: {service}
  group: lake
  table: {table}
  start: 2026-01-01-00:00
  columns: {{status: int, latency_ms: double}}
"""


def new_name() -> str:
    """Of a project: names of projects are unique among all accounts."""
    return f"{PREFIX}{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True)
class Asked:
    """One run. `ending` names keys that end within minutes, for the look at what happens then."""

    endpoint: str
    region: str
    proxy: str
    credentials: Credentials
    home: Path
    ending: Credentials | None = None
    warehouse: str = ""
    name: str = field(default_factory=new_name)
    own_catalog: bool = field(default_factory=lambda: not NAMES_A_CATALOG & configured().keys())
    """Whether no catalog is named by the environment, so the run has one in its folder."""

    def __post_init__(self) -> None:
        if not self.name.startswith(PREFIX):
            raise ConfigError(f"{self.name} is no project of `make real`: its name begins with {PREFIX}")

    def service(self, logstore: str = LANDED, credentials: Credentials | None = None) -> Service:
        """A logstore of the run's project. Raises ConfigError for what was given wrongly."""
        try:
            return Service(
                endpoint=self.endpoint,
                region=self.region,
                proxy=self.proxy,
                project=self.name,
                logstore=logstore,
                credentials=credentials or self.credentials,
            )
        except ValidationError as error:
            raise ConfigError("; ".join(each["msg"] for each in error.errors())) from None

    @property
    def folder(self) -> Path:
        """All that the run has on this machine."""
        return self.home / self.name

    @property
    def namespace(self) -> str:
        """Of its table."""
        return self.name.replace("-", "_")

    @property
    def settings(self) -> Path:
        """The logstore's settings, for the program's verbs."""
        path = self.folder / "defs.yaml"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            service = json.dumps(self.service().model_dump())
            path.write_text(_SETTINGS.format(service=service, table=f"{self.namespace}.access_logs"))
        return path

    def variables(self) -> dict[str, str]:
        """Of the verbs: the catalog is the one that the environment names, else one in the run's folder."""
        warehouse = {f"{CATALOG_VARIABLES}WAREHOUSE": self.warehouse} if self.warehouse else {}
        return {"SLS_LAKE_HOME": str(self.folder), **warehouse}

    def preview(self) -> Iterator[str]:
        """What is made, and roughly what it costs."""
        place = self.warehouse or configured().get("warehouse") or ("its folder" if self.own_catalog else "")
        yield f"It makes, at {self.endpoint}{f' (region {self.region})' if self.region else ''}:"
        yield f"  a project {self.name}, with logstores of 2 shards that keep logs for a day"
        yield f"  a namespace {self.namespace} with a table, in {place or 'the catalog of your environment'}"
        yield f"  files in {self.folder} on this machine"
        yield (
            f"It writes about {WRITE_MB + 10} MB of made-up logs, reads up to {READ_MB + 50} MB, and keeps "
            "about 15 shards for less than an hour."
        )
        yield "At list prices that is well under 1 USD; the vendor's page of prices decides, not this line."
        if self.ending:
            yield "It waits until the keys of ENDING have ended: up to 20 minutes."
        yield "It removes all of that at its end, after Ctrl-C and after a failure, too."
