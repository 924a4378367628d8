"""The logstores of an `SlsProject`, and what its sensors do as a daemon evaluates them, without a JVM.

`WatchedShop.tick` does what the daemon does with an answer: it stores the events, keeps the partitions, and
keeps the cursor only when the tick did not fail.
"""

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from chaos.engine import InProcess
from chaos.in_dagster import definitions_of
from pipelines.components.logstore.sensors.sealed import sealed_key
from pipelines.definitions import loaded
from pipelines.landing.logstore import load_member
from pipelines.landing.projects import keep, refreshed
from sls_io.emulator import Admin
from tests.integration.followed_site import Followed, followed
from tests.integration.sensor_site import store
from tests.worlds.dagster_home import dagster_in
from tests.worlds.one_logstore import PROJECT, World, use_catalog

DEMAND, SEALED, HEALTH = (f"shop_logstores_{what}_sensor" for what in ("demand", "sealed", "health"))
ORDERS, USERS, CARTS = "shop-orders", "shop-users", "shop-carts"
ON = "  sensors: [demand, sealed, health]\n"
_numbers = itertools.count()


class Heard(logging.Handler):
    """What a tick writes into its log, from INFO on."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += f"{record.levelname} {record.getMessage()}\n"


@dataclass
class WatchedShop:
    """Logstores of one project, the Dagster instance that its sensors see, and the definitions as a process
    has them that loads the code. `around` has the emulator and the lake; `said` is all that the newest tick
    wrote: its log, and its text or its error."""

    around: World
    site: Followed
    instance: dg.DagsterInstance
    cursors: dict[str, str | None] = field(default_factory=dict)
    said: str = ""
    defs: dg.Definitions = field(init=False)
    _settings: str = field(init=False)

    def __post_init__(self) -> None:
        self._settings = self._file.read_text()

    @property
    def _file(self) -> Path:
        return self.site.folder / "defs.yaml"

    @property
    def admin(self) -> Admin:
        return self.around.emulator.admin

    def has(self, *logstores: str, settings: str) -> "WatchedShop":
        """With these logstores, made where they are new, and with lines of settings more."""
        with self.around.client as client:
            new = [name for name in logstores if name not in client.logstores()]
        if new:
            self.site.make(*new)
        self._file.write_text(self._settings + settings)
        keep(refreshed(self._file, self.site.package.parent))
        return self.load()

    def load(self) -> "WatchedShop":
        """As a process that loads the code now."""
        self.defs = loaded(self.site.package)
        return self

    def world(self, logstore: str) -> World:
        """One of them; its rows are written by this process."""
        member = load_member(self._file, logstore.replace("-", "_"))
        return World(self.around.emulator, self.around.lake, member, InProcess())

    def landed(self, *logstores: str) -> "WatchedShop":
        """Some logs of each, landed a minute later."""
        worlds = [self.world(name) for name in logstores]
        for world in worlds:
            world.put(5)
        self.admin.advance(60)
        for world in worlds:
            world.land()
        return self

    def hours(self, count: int, *logstores: str) -> None:
        """So many receive hours with five rows of each logstore, all passed by every shard."""
        for _ in range(count):
            for name in logstores:
                self.world(name).put(5)
            self.admin.advance(3600)
            for name in logstores:
                self.world(name).land()

    def split(self, logstore: str, shard: int = 0) -> None:
        self.admin.split(PROJECT, logstore, shard)

    def refuses(self, logstore: str) -> int:
        """From here on the service has only errors for this logstore; returns the fault."""
        return self.admin.fault("error", status=503, logstore=logstore, times=None)

    def sensor(self, name: str) -> dg.SensorDefinition:
        found = self.defs.resolve_sensor_def(name)
        assert isinstance(found, dg.SensorDefinition)
        return found

    @property
    def sensors(self) -> dict[str, bool]:
        """Each sensor that there is -> whether it runs without anybody's doing."""
        found = self.defs.get_repository_def().sensor_defs
        return {each.name: each.default_status is dg.DefaultSensorStatus.RUNNING for each in found}

    def tick(self, name: str, *, stored: bool = True, kept: bool = True) -> Any:
        """One tick of a sensor. `stored=False`: its events are not stored; `kept=False`: the daemon dies
        between storing the events and keeping the cursor."""
        heard, before = Heard(), self.cursors.get(name)
        with (
            dg.partition_loading_context(dynamic_partitions_store=self.instance),
            dg.build_sensor_context(instance=self.instance, cursor=before, definitions=self.defs) as context,
        ):
            context.log.addHandler(heard)
            try:
                answer = self.sensor(name).evaluate_tick(context)
            except Exception as error:
                self.said = f"{heard.text}{error}"
                raise
        self.said = f"{heard.text}{answer.skip_message or ''}"
        if stored:
            store(self.instance, answer)
        if kept:
            self.cursors[name] = answer.cursor
        return answer

    def until_quiet(self, name: str) -> int:
        """Ticks until one tells nothing; how many told something."""
        for ticks in range(10):
            if not self.tick(name).asset_events:
                return ticks
        raise AssertionError(f"the tenth tick of {name} still tells something: {self.said}")

    def launch(self, logstore: str, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        """What the daemon launches for a request, carried out here."""
        assert request.job_name is not None
        job = definitions_of(self.world(logstore).logstore).resolve_job_def(request.job_name)
        part = job.get_subset(
            asset_selection=set(request.asset_selection) if request.asset_selection else None
        )
        return part.execute_in_process(instance=self.instance, tags=dict(request.tags), raise_on_error=False)

    def materialized(self, key: dg.AssetKey) -> list[str | None]:
        """The partition of each materialization, oldest first."""
        found = self.instance.fetch_materializations(dg.AssetRecordsFilter(asset_key=key), limit=500).records
        return [record.partition_key for record in found[::-1]]

    def sealed(self, logstore: str) -> list[str | None]:
        """The hours that were told of a logstore, oldest first."""
        return self.materialized(sealed_key(self.world(logstore).logstore.name))


def observed(answer: Any) -> dict[str, str]:
    """Logstore's asset -> what was observed of it; each at most once."""
    seen = [event for event in answer.asset_events if isinstance(event, dg.AssetObservation)]
    found = {event.asset_key.path[-1]: str(event.description) for event in seen}
    assert len(found) == len(seen)
    return found


def checked(answer: Any) -> dict[str, dict[str, bool]]:
    """Logstore's asset -> check -> whether it passed, of what a tick tells."""
    found: dict[str, dict[str, bool]] = {}
    for event in answer.asset_events:
        assert isinstance(event, dg.AssetCheckEvaluation)
        found.setdefault(event.asset_key.path[-1], {})[event.check_name] = event.passed
    return found


def touched(answer: Any) -> set[str]:
    """The assets that a tick tells anything of."""
    return {event.asset_key.path[-1] for event in answer.asset_events}


def jobs(answer: Any) -> list[str]:
    """The jobs that a tick asks for."""
    return sorted(str(request.job_name) for request in answer.run_requests or ())


@pytest.fixture
def shop(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedShop]:
    """A project whose logstores and settings are still to come."""
    use_catalog(world.lake, monkeypatch)
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path / "home"))
    with dagster_in(tmp_path / "dagster") as instance:
        site = followed(world.emulator, tmp_path / "own", f"watched_{next(_numbers)}")
        yield WatchedShop(world, site, instance)


def both(shop: WatchedShop, settings: str = ON) -> WatchedShop:
    """Two logstores that have landed something."""
    return shop.has(ORDERS, USERS, settings=settings).landed(ORDERS, USERS)
