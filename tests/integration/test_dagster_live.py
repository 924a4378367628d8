"""Live runs, ticks, backfills and a red check under a real Dagster daemon, with real Spark runs."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import pytest

from pipelines.components.logstore.schedule import (
    CLAIMS_TAG,
    MODE_TAG,
    RANGE_END_TAG,
    RANGE_START_TAG,
    hour_key,
)
from pipelines.landing.ledger.state import read_state
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.lake import Lake
from sls_io.clock import SYSTEM_CLOCK
from sls_io.emulator import Emulator, start
from sls_io.window import HOUR_S
from tests.integration.dagster_server import DagsterServer
from tests.integration.world import PROJECT, World, logstore_settings, make_lake

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

LOGSTORES = ("ticked_logs", "access_logs", "broken_logs")
"""One a story. A schedule that is turned off may still tick once, so its logstore is nobody else's."""

BRONZE, VIEW = PurePath("bronze"), PurePath("silver/stg_access_logs")
COLUMNS = {"n": "long", "status": "int", "latency_ms": "double"}
SENSORS = {"topology": {"every_s": 10}}
HOUR0 = int(SYSTEM_CLOCK.now()) // HOUR_S - 12
"""Receive hour the service's clock begins in; ticks take the machine's own time."""

_MODULE = """
import json
import dagster as dg
from pipelines.components import SlsLogstore
from pipelines.models import models

LOGSTORES = json.loads({attributes!r})
CONTEXT = dg.ComponentTree.for_test().load_context
defs = dg.Definitions.merge(
    *(SlsLogstore.from_attributes_dict(attributes=a).build_defs(CONTEXT) for a in LOGSTORES),
    dg.Definitions(assets=[models], executor=dg.in_process_executor),
)
"""


@dataclass
class Site:
    """One Dagster over one emulator and one lake; a world for each logstore."""

    server: DagsterServer
    worlds: dict[str, World]

    def live(self, name: str) -> str:
        """What a tick asks for, launched; the run's id."""
        (request,) = self.server.tick(f"{name}_schedule")["runRequests"]
        tags = {tag["key"]: tag["value"] for tag in request["tags"]}
        return self.server.launch(f"{name}_microbatch", tags)

    def now(self, name: str) -> str:
        """One batch now, as the page's button launches it: nothing is said but the job; the run's id."""
        return self.server.launch(f"{name}_now", {})

    def hours(self, name: str) -> dict[str, int]:
        """Partition -> rows of its newest materialization."""
        events = reversed(self.server.materializations(BRONZE / name))
        return {e["partition"]: e["metadata"]["rows"] for e in events}

    def checkpoints(self, name: str) -> dict[int, int | None]:
        """What the service has, by shard."""
        with self.worlds[name].client as client:
            return {shard: c.cursor for shard, c in client.checkpoints("lake").items()}

    def frontiers(self, name: str) -> dict[int, int]:
        """What the table's ledger has, by shard."""
        world = self.worlds[name]
        table = world.lake.load(world.logstore.table)
        assert table is not None
        (ledger,) = read_state(table).ledgers.values()
        return {shard: int(entry.frontier) for shard, entry in ledger.shards.items()}


def worlds(emulator: Emulator, lake: Lake) -> dict[str, World]:
    found = {}
    for name in LOGSTORES:
        settings = logstore_settings(
            emulator, name, columns=COLUMNS, start=hour_key(HOUR0), schedule="* * * * *", sensors=SENSORS
        )
        found[name] = World(emulator, lake, settings, Engine(lake=lake))
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    lake = make_lake(folder / "lake")
    with start(folder / "emulator", now=HOUR0 * HOUR_S + 60.0) as emulator:
        found = worlds(emulator, lake)
        with found["access_logs"].client as client:
            client.transport.create_project(PROJECT, "")
            for name in LOGSTORES:
                client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=2)
        with DagsterServer(folder / "dagster", module(folder, found), environment(folder, lake)) as server:
            yield Site(server, found)


def module(folder: Path, found: dict[str, World]) -> Path:
    """The definitions that the server loads."""
    attributes = "[" + ",".join(w.logstore.model_dump_json() for w in found.values()) + "]"
    path = folder / "definitions_of_this_test.py"
    path.write_text(_MODULE.format(attributes=attributes))
    return path


def environment(folder: Path, lake: Lake) -> dict[str, str]:
    """Of the server and of every run: the same catalog as the test's, state in `folder`."""
    catalog = {f"PYICEBERG_CATALOG__LAKE__{k.upper()}": v for k, v in lake.properties.items()}
    return {**catalog, "SLS_LAKE_HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}


def put_hours(world: World, count: int, rows: int) -> list[str]:
    """`rows` logs in each of the next `count` receive hours, which then are over; their keys."""
    first = int(world.emulator.admin.now()) // HOUR_S + 1
    for hour in range(first, first + count):
        world.at(hour * HOUR_S + 60.0)
        world.put(rows)
    world.at((first + count) * HOUR_S + 60.0)
    return [hour_key(hour) for hour in range(first, first + count)]


def test_the_schedule_lands_what_is_new_by_hour_and_publishes_the_frontier(site: Site) -> None:
    first, second = put_hours(site.worlds["ticked_logs"], 2, rows=40)
    state = site.server.turn_on("ticked_logs_schedule")
    (run, *_) = site.server.wait(
        "a tick", lambda: site.server.runs({CLAIMS_TAG: "ticked_logs"}), timeout_s=150
    )
    # The run is unfinished, so the tick names it instead of asking for a second one.
    assert run["runId"] in (site.server.tick("ticked_logs_schedule")["skipReason"] or "")
    site.server.turn_off(state)
    assert site.server.ended(run["runId"]) == "SUCCESS", site.server.failures(run["runId"])
    landed = [e for e in site.server.materializations(BRONZE / "ticked_logs") if e["runId"] == run["runId"]]
    assert {e["partition"]: e["metadata"]["rows"] for e in landed if e["metadata"]["rows"]} == {
        first: 40,
        second: 40,
    }
    shown = {"MB", "files", "landing MB/s", "error rows", "error %", "lag s", "snapshot"}
    assert shown <= set(landed[0]["metadata"])
    version = {tag["key"]: tag["value"] for tag in landed[0]["tags"]}["dagster/data_version"]
    assert version == landed[0]["metadata"]["snapshot"]
    assert site.server.check_passed(BRONZE / "ticked_logs", "reconciled") is True
    assert site.checkpoints("ticked_logs") == site.frontiers("ticked_logs")
    site.worlds["ticked_logs"].assert_each_log_once()


def test_a_backfill_lands_hours_and_leaves_the_checkpoint_which_is_published_alone(site: Site) -> None:
    world = site.worlds["access_logs"]
    put_hours(world, 1, rows=40)
    run = site.live("access_logs")
    assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    before = site.checkpoints("access_logs")
    first, last = put_hours(world, 2, rows=30)
    assert site.server.backfill(BRONZE / "access_logs", first, last) == "COMPLETED_SUCCESS"
    assert site.hours("access_logs")[first] == site.hours("access_logs")[last] == 30
    assert site.checkpoints("access_logs") == before
    world.assert_each_log_once()
    # Asked again there is nothing to land, and the hour is still reported as done.
    tags = {RANGE_START_TAG: last, RANGE_END_TAG: last}
    again = site.server.launch("__ASSET_JOB", tags, assets=[BRONZE / "access_logs"])
    assert site.server.ended(again) == "SUCCESS", site.server.failures(again)
    newest = site.server.materializations(BRONZE / "access_logs")[0]
    assert newest["runId"] == again
    assert newest["metadata"]["rows"] == 0
    assert newest["metadata"]["dagster/partition_row_count"] == 30, "the table holds what landed before"
    world.assert_each_log_once()
    assert site.checkpoints("access_logs") == before
    alone = site.server.launch("access_logs_microbatch", {}, assets=[PurePath("sls/access_logs_checkpoint")])
    assert site.server.ended(alone) == "SUCCESS", site.server.failures(alone)
    assert site.checkpoints("access_logs") == site.frontiers("access_logs") != before


def test_a_live_run_after_a_backfill_lands_only_what_it_lacks(site: Site) -> None:
    world = site.worlds["access_logs"]
    (hour,) = put_hours(world, 1, rows=20)
    run = site.now("access_logs")
    assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    world.assert_each_log_once()
    assert site.hours("access_logs")[hour] == 20
    assert site.checkpoints("access_logs") == site.frontiers("access_logs")


def test_hours_are_replaced_the_table_is_maintained_and_proven_from_the_page(site: Site) -> None:
    world, bronze = site.worlds["access_logs"], BRONZE / "access_logs"
    before, rows = site.checkpoints("access_logs"), site.hours("access_logs")
    first, last = [hour for hour in sorted(rows) if rows[hour]][-2:]
    tags, config = {MODE_TAG: "replace"}, {"ops": {"bronze__access_logs": {"config": {"execute": True}}}}
    assert site.server.backfill(bronze, first, last, tags=tags, config=config) == "COMPLETED_SUCCESS"
    modes = {
        e["partition"]: e["metadata"].get("mode") for e in reversed(site.server.materializations(bronze))
    }
    assert modes[first] == modes[last] == "replace"
    assert site.checkpoints("access_logs") == before
    # Of two at once the second waits in the queue for the first.
    maintained = [site.server.launch("access_logs_maintenance", {}) for _ in range(2)]
    proof = site.server.launch("access_logs_proof", {})
    for run in (*maintained, proof):
        assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    assert site.server.check_passed(bronze, "proven") is True
    assert site.server.check_passed(bronze, "runway") is True
    world.assert_each_log_once()


def test_the_dbt_view_and_its_identity_test_follow_bronze(site: Site) -> None:
    run = site.server.launch("__ASSET_JOB", {}, assets=[VIEW])
    assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    assert site.server.check_passed(VIEW, "identity_is_unique") is True
    assert site.server.check_passed(VIEW, "rows_are_as_the_ledger_says") is True


def test_a_failing_check_moves_the_checkpoint_neither_in_this_run_nor_in_the_next(site: Site) -> None:
    world = site.worlds["broken_logs"]
    world.put(20)
    world.emulator.admin.advance(120)
    first = site.live("broken_logs")
    assert site.server.ended(first) == "SUCCESS", site.server.failures(first)
    before = site.checkpoints("broken_logs")
    table = world.lake.load("bronze.broken_logs")
    assert table is not None
    landed = str(table.inspect.files()["file_path"][0].as_py())
    os.unlink(landed.removeprefix("file://"))
    world.put(20)
    world.emulator.admin.advance(120)
    for _ in range(2):
        run = site.live("broken_logs")
        assert site.server.ended(run) == "FAILURE"
        assert site.server.check_passed(BRONZE / "broken_logs", "reconciled") is False
        assert site.checkpoints("broken_logs") == before


def test_a_split_is_seen_by_the_sensor_drained_by_its_run_and_told_by_the_daemon(site: Site) -> None:
    begun = site.live("access_logs")
    assert site.server.ended(begun) == "SUCCESS", site.server.failures(begun)
    world = site.worlds["access_logs"]
    world.put(20)
    world.emulator.admin.split(PROJECT, "access_logs", 0)
    world.emulator.admin.advance(120)
    with world.client as client:
        end = client.cursor_at(0, "end")
    site.server.turn_on_sensor("access_logs_topology_sensor")
    tag = {"sls/drains-0": f"{world.ledger.origin}@{int(end)}"}
    (drain,) = site.server.wait("the drain", lambda: site.server.runs(tag), timeout_s=150)
    assert site.server.ended(drain["runId"]) == "SUCCESS", site.server.failures(drain["runId"])
    assert world.ledger.shards[0].closed
    shards = PurePath("sls/access_logs_shards")
    (told,) = site.server.wait("shard 0", lambda: site.server.materializations(shards), timeout_s=60)
    assert told["partition"] == "0"
    assert len(site.server.runs(tag)) == 1, "later ticks ask for nothing"
