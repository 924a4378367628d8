"""Sensors as a daemon evaluates them, over a real emulator and a real lake, without a JVM.

`Site.tick` does what the daemon does with an answer: it stores the events, keeps the partitions, and keeps
the cursor only when the tick did not fail.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from chaos.engine import InProcess
from chaos.in_dagster import definitions_of
from pipelines.landing.hours import hour_text
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator, start
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.wire.client import SlsClient
from tests.worlds.dagster_home import new_dagster
from tests.worlds.one_logstore import PROJECT, World, logstore_settings, make_lake, use_catalog

__all__ = ["MakeSite", "Site", "landed", "make_site", "sensor_instance", "sensor_place", "store"]


BEHIND_DAYS = 3
"""The service's clock begins so far behind the machine's, and tests only put it on: few, as a tick names each
hour since. A module whose tests let a retention pass has a BEHIND_DAYS of its own."""


def store(instance: dg.DagsterInstance, answer: Any) -> None:
    """What the daemon does with the events and the partitions that a tick answers."""
    for event in answer.asset_events:
        instance.report_runless_asset_event(event)
    for request in answer.dynamic_partitions_requests or []:
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        else:
            for key in request.partition_keys:
                instance.delete_dynamic_partition(request.partitions_def_name, key)


@dataclass
class Site:
    """One logstore's world and the Dagster instance that its sensors see. `settings` are the
    logstore's own."""

    world: World
    instance: dg.DagsterInstance
    settings: dict[str, Any] = field(default_factory=dict)
    cursors: dict[str, str | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.world.logstore.name

    @property
    def logstore(self) -> Logstore:
        return self.world.changed(**self.settings)

    @property
    def definitions(self) -> dg.Definitions:
        return definitions_of(self.logstore)

    def tick(
        self,
        what: str,
        *,
        stored: bool = True,
        kept: bool = True,
        sensor: dg.SensorDefinition | None = None,
    ) -> Any:
        """One tick of `<name>_<what>_sensor`, or of another `sensor` in its place. `stored=False`: nothing of
        its answer is stored or kept; `kept=False`: the daemon dies between storing the events and keeping the
        cursor."""
        defs = self.definitions
        sensor = sensor or defs.resolve_sensor_def(f"{self.name}_{what}_sensor")
        assert isinstance(sensor, dg.SensorDefinition)
        with (
            dg.partition_loading_context(dynamic_partitions_store=self.instance),
            dg.build_sensor_context(
                instance=self.instance, cursor=self.cursors.get(what), definitions=defs
            ) as context,
        ):
            answer = sensor.evaluate_tick(context)
        if stored:
            store(self.instance, answer)
            if kept:
                self.cursors[what] = answer.cursor
        return answer

    def launch(self, request: dg.RunRequest, job: str, **asked: Any) -> dg.ExecuteInProcessResult:
        """What the daemon launches for a request, carried out here."""
        return (
            self.definitions.resolve_job_def(f"{self.name}_{job}")
            .get_subset(asset_selection=set(request.asset_selection) if request.asset_selection else None)
            .execute_in_process(instance=self.instance, tags=request.tags, raise_on_error=False, **asked)
        )

    def materialized(self, key: dg.AssetKey) -> list[tuple[str | None, Any]]:
        """(partition, metadata) of each materialization, oldest first."""
        found = self.instance.fetch_materializations(dg.AssetRecordsFilter(asset_key=key), limit=500).records
        events = [record.asset_materialization for record in found[::-1]]
        return [(event.partition, event.metadata) for event in events if event is not None]


def landed(site: Site, rows: int = 20) -> Site:
    """`rows` logs, landed a minute later."""
    site.world.land_more(rows)
    return site


@dataclass
class MakeSite:
    """Makes a logstore, and the site of its sensors: `make_site(name, sensors=["demand"])`."""

    emulator: Emulator
    lake: Lake
    instance: dg.DagsterInstance

    def __call__(self, name: str, *, shards: int = 2, **settings: Any) -> Site:
        # The clock of a shared emulator only goes on, to the first minute of an hour.
        self.emulator.admin.set_clock((int(self.emulator.admin.now()) // 3600 + 1) * 3600 + 60.0)
        begin = hour_text(int(self.emulator.admin.now()) // 3600 - 2)
        world = World(
            self.emulator, self.lake, logstore_settings(self.emulator, name, start=begin), InProcess()
        )
        with world.client as client:
            client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=shards)
        return Site(world, self.instance, settings)

    def changed(self, settings: Mapping[str, Any]) -> Logstore:
        """A logstore with these settings; raises what checking them does."""
        return logstore_settings(self.emulator, "unmade", **settings)


@pytest.fixture(scope="module")
def sensor_instance() -> Iterator[dg.DagsterInstance]:
    """One Dagster for a module: runs, events and partitions are told apart by the logstore's name."""
    with new_dagster() as instance:
        yield instance


@pytest.fixture(scope="module")
def sensor_place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Emulator, Lake, Path]]:
    """One emulator and one lake for a module; each test has a logstore of its own."""
    folder = tmp_path_factory.mktemp("sensors")
    begin_s = SYSTEM_CLOCK.now() - getattr(request.module, "BEHIND_DAYS", BEHIND_DAYS) * 86_400
    with start(folder / "emulator", now=begin_s) as emulator:
        with SlsClient(logstore_settings(emulator, "none").service) as client:
            client.transport.create_project(PROJECT, "")
        yield emulator, make_lake(folder / "lake"), folder


@pytest.fixture
def make_site(
    sensor_place: tuple[Emulator, Lake, Path],
    sensor_instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeSite]:
    """Makes logstores in the module's emulator; what runs in this process finds the module's lake."""
    emulator, lake, folder = sensor_place
    monkeypatch.setenv("SLS_LAKE_HOME", str(folder))
    use_catalog(lake, monkeypatch)
    yield MakeSite(emulator, lake, sensor_instance)
    emulator.admin.remove()
