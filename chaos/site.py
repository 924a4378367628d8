"""A real Dagster instance for the lane that lands in its run workers: web server, daemon, queue.

The settings are those of `docs/deploy/dagster.yaml`, with a shorter pause of the queue and a handler for
the events of a landing; the definitions are the project's own component over one logstore.
"""

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos.line import LOSSY, SPOOL, VARIABLE, RunCatalog
from pipelines import dagster_client
from pipelines.cli.demo import sandbox
from pipelines.cli.demo.sandbox import Sandbox
from pipelines.cli.logstores import project_root
from pipelines.dagster_client import LOCATION
from pipelines.landing.logstore import Logstore
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError

ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})
_LOAD_S = 180.0
_CATALOG = "PYICEBERG_CATALOG__LAKE__"
_SETTINGS = """
python_logs:
  dagster_handler_config:
    handlers:
      chaos:
        class: chaos.line.Points
"""
_DEFINITIONS = """
import json
import dagster as dg
from pipelines.components import SlsLogstore

CONTEXT = dg.ComponentTree.for_test().load_context
defs = dg.Definitions.merge(
    SlsLogstore.from_attributes_dict(attributes=json.loads({attributes!r})).build_defs(CONTEXT),
    dg.Definitions(executor=dg.in_process_executor),
)
"""
_LAUNCH = """
mutation($p: ExecutionParams!) { launchRun(executionParams: $p) { __typename
  ... on LaunchRunSuccess { run { runId } } ... on Error { message } } }
"""
_STATUS = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"


def enter(home: Path, port: int) -> Sandbox:
    """Make this process, and all that it starts, live in a sandbox of its own."""
    box = Sandbox(home, port)
    box.prepare(fresh=True)
    box.enter()
    return box


class Site:
    """The running instance, asked over its page's own address."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def launch(self, job: str, tags: Mapping[str, str]) -> str:
        """Put a run into the queue; its id."""
        selector = {
            "repositoryName": "__repository__",
            "repositoryLocationName": LOCATION,
            "jobName": job,
        }
        answer = self._ask(
            _LAUNCH,
            p={
                "selector": selector,
                "runConfigData": {},
                "executionMetadata": {"tags": [{"key": k, "value": v} for k, v in tags.items()]},
            },
        )["launchRun"]
        if answer["__typename"] != "LaunchRunSuccess":
            raise ConfigError(f"Dagster does not launch {job}: {answer}")
        return str(answer["run"]["runId"])

    def status(self, run: str) -> str:
        """The run's status now; "" when Dagster cannot say."""
        return str(self._ask(_STATUS, id=run)["runOrError"].get("status", ""))

    def _ask(self, query: str, **variables: Any) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.url}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            document = json.load(answer)
        if document.get("errors"):
            raise ConfigError(f"Dagster refuses: {document['errors'][0].get('message')}")
        return dict(document["data"])


@contextmanager
def serve(box: Sandbox, logstore: Logstore, *, line: Path, spool: Path, lossy: float) -> Iterator[Site]:
    """Web server and daemon as processes of their own, ended with the block."""
    home, log = box.dagster_home, box.home / "dagster.log"
    with (home / "dagster.yaml").open("a") as settings:
        settings.write(_SETTINGS)
    module = home / "definitions_of_this_chaos.py"
    module.write_text(_DEFINITIONS.format(attributes=logstore.model_dump_json()))
    workspace = home / "workspace.yaml"
    workspace.write_text(
        f"load_from:\n  - python_file:\n      relative_path: {module}\n      location_name: {LOCATION}\n"
    )
    os.environ[VARIABLE] = str(line)
    os.environ["PYTHONPATH"] = str(project_root())
    os.environ["SLS_SPARK_MASTER"] = "local[1,3]"
    # PyIceberg takes either a type or a class.
    del os.environ[f"{_CATALOG}TYPE"]
    os.environ[f"{_CATALOG}PY_CATALOG_IMPL"] = f"{RunCatalog.__module__}.{RunCatalog.__name__}"
    os.environ[_CATALOG + LOSSY.upper().replace("-", "_")] = str(lossy)
    os.environ[_CATALOG + SPOOL.upper().replace("-", "_")] = str(spool)
    # Storage is made by one process: several at once trip over each other's migrations.
    made = [sys.executable, "-m", "dagster", "instance", "concurrency", "set", "dbt", "1"]
    subprocess.run(made, check=True, capture_output=True, cwd=project_root())
    port = free_port()
    page = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port)]
    daemon = [sys.executable, "-m", "dagster._daemon", "run"]
    with (
        sandbox.started([*page, "-w", str(workspace)], log) as first,
        sandbox.started([*daemon, "-w", str(workspace)], log) as second,
    ):
        site = Site(port)
        deadline_s = SYSTEM_CLOCK.monotonic() + _LOAD_S
        while not dagster_client.loaded(site.url):
            if SYSTEM_CLOCK.monotonic() > deadline_s or first.poll() or second.poll():
                raise ConfigError(f"Dagster did not start; see {log}")
            SYSTEM_CLOCK.sleep(0.5)
        yield site


def free_port() -> int:
    """A port of loopback where nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
