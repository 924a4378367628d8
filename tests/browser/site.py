"""The project that a browser looks at: two logstores as files, an emulator, a lake, a live Dagster.

Its files are those a newcomer would have, and a text editor may change them. Rows are written in the process
of the run, without a JVM: what stands on the page is the same, and Spark under Dagster is
`integration/live/test_dagster_live.py`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from chaos.engine import InProcess
from pipelines.landing.hours import hour_text
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator, start
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.window import HOUR_S
from tests.worlds.dagster_server import DagsterServer
from tests.worlds.one_logstore import PROJECT, World, catalog_variables, group, logstore_settings, make_lake

PACKAGE = "newcomer"
HOURS = 18
"""Receive hours of access logs before the one that runs."""

_PYPROJECT = f"""
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "{PACKAGE}"
code_location_target_module = "{PACKAGE}.definitions"
defs_module = "{PACKAGE}.defs"
registry_modules = ["pipelines.components"]
"""

_DEFINITIONS = """
from pathlib import Path

import dagster as dg

from chaos.in_dagster import Here
from pipelines.components.logstore.spark import RESOURCE_KEY
from pipelines.models import models


@dg.definitions
def defs() -> dg.Definitions:
    loaded = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions(
        assets=[*(loaded.assets or []), models],
        asset_checks=loaded.asset_checks,
        jobs=loaded.jobs,
        schedules=loaded.schedules,
        sensors=loaded.sensors,
        resources={RESOURCE_KEY: Here()},
        executor=dg.in_process_executor,
    )
"""


@dataclass
class Site:
    """`worlds` by logstore; `defs` is the folder of their files, `first_hour` the oldest with access logs."""

    server: DagsterServer
    worlds: dict[str, World]
    defs: Path
    first_hour: int

    def edit(self, name: str, old: str, new: str) -> None:
        """What a text editor does to a logstore's file."""
        path = self.defs / name / "defs.yaml"
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    def order(self, *orders: Mapping[str, Any]) -> None:
        """Orders of the shop, received now and settled."""
        world = self.worlds["shop"]
        with world.client as client:
            for number, order in enumerate(orders):
                texts = {key: str(value) for key, value in order.items()}
                client.put_raw(group([texts]), key=f"{number % 2 * 8}".ljust(32, "0"))
        world.emulator.admin.advance(15)


SHOP = {"order_id": "long", "amount": "decimal(9,2)", "placed": "timestamp(iso)"}
ACCESS = {"n": "long", "status": "int", "latency_ms": "double"}


@contextmanager
def opened(folder: Path) -> Iterator[Site]:
    """The site, until the block ends."""
    lake = make_lake(folder / "lake")
    first = int(SYSTEM_CLOCK.now()) // HOUR_S - HOURS
    with start(folder / "emulator", now=first * HOUR_S + 60.0) as emulator:
        worlds = {
            "access_logs": _world(emulator, lake, "access_logs", ACCESS, first),
            "shop": _world(emulator, lake, "shop", SHOP, first),
        }
        with worlds["shop"].client as client:
            client.transport.create_project(PROJECT, "")
            for name in worlds:
                client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=2)
        for hour in range(first, first + HOURS):
            worlds["access_logs"].at(hour * HOUR_S + 600.0)
            worlds["access_logs"].put(rows_of(hour), logs_a_group=100)
        worlds["access_logs"].at(max(SYSTEM_CLOCK.now(), (first + HOURS) * HOUR_S + 60.0))
        package = folder / PACKAGE
        for name, world in worlds.items():
            (package / "defs" / name).mkdir(parents=True)
            (package / "defs" / name / "defs.yaml").write_text(_file(world.logstore))
        (package / "__init__.py").touch()
        (package / "defs" / "__init__.py").touch()
        (package / "definitions.py").write_text(_DEFINITIONS)
        (folder / "pyproject.toml").write_text(_PYPROJECT)
        served = DagsterServer(folder / "dagster", package / "definitions.py", environment(folder, lake))
        with served as server:
            yield Site(server, worlds, package / "defs", first)


def environment(folder: Path, lake: Lake) -> dict[str, str]:
    """Of the server and its runs: the project beside ours, the same catalog as the test's."""
    catalog = catalog_variables(lake)
    paths = (str(folder), str(Path(__file__).parents[2]))
    return {**catalog, "SLS_LAKE_HOME": str(folder), "PYTHONPATH": ":".join(paths)}


def _world(emulator: Emulator, lake: Lake, name: str, columns: Mapping[str, str], first: int) -> World:
    settings = logstore_settings(
        emulator,
        name,
        columns=dict(columns),
        start=hour_text(first),
        schedule=f"0 {(first + HOURS + 12) % 24} * * *",
    )
    return World(emulator, lake, settings, InProcess())


def rows_of(hour: int) -> int:
    """So many access logs come in a receive hour: more by day than at night."""
    return 200 + 40 * (12 - abs(hour % 24 - 13))


def _file(logstore: Logstore) -> str:
    attributes = json.loads(logstore.model_dump_json(exclude_unset=True))
    return yaml.safe_dump(
        {"type": "pipelines.components.SlsLogstore", "attributes": attributes}, sort_keys=False
    )
