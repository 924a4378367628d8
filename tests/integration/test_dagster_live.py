"""Live runs, ticks, backfills and a red check under a real Dagster daemon, with real Spark runs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import pytest

from pipelines.components.logstore.assets import HOURS_PER_RUN_MAX
from pipelines.components.logstore.schedule import (
    CLAIMS_TAG,
    MODE_TAG,
    RANGE_END_TAG,
    RANGE_START_TAG,
    hour_key,
    hour_of_key,
)
from pipelines.landing.ledger.state import read_state
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.lake import Lake
from sls_io.clock import SYSTEM_CLOCK
from sls_io.emulator import Emulator, start
from sls_io.window import HOUR_S
from tests.integration.command_line import settings
from tests.integration.dagster_server import DagsterServer
from tests.integration.world import PROJECT, World, logstore_settings, make_lake

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

LOGSTORES = ("ticked_logs", "access_logs", "broken_logs", "cut_logs")
"""One a story. A schedule that is turned off may still tick once, so its logstore is nobody else's."""

BRONZE, VIEW = PurePath("bronze"), PurePath("silver/stg_access_logs")
COLUMNS = {"n": "long", "status": "int", "latency_ms": "double"}
SENSORS = {"topology": {"every_s": 10}}
HOUR0 = int(SYSTEM_CLOCK.now()) // HOUR_S - 36
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
    environment: dict[str, str]

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

    def held(self, name: str, call: str) -> tuple[str, int]:
        """A live run that stands in the middle of its landing, before its first `call`: (run, fault)."""
        admin = self.worlds[name].emulator.admin
        fault = int(admin.fault("hold", call=call, logstore=name, times=None))
        run = self.live(name)
        self.stands(name, fault)
        return run, fault

    def stands(self, name: str, fault: int) -> None:
        """Wait until somebody is held by this fault."""
        admin = self.worlds[name].emulator.admin

        def met() -> bool:
            return any(each["id"] == fault and each["hits"] for each in admin.faults())

        self.server.wait(f"fault {fault} of {name}", met, timeout_s=180)

    def let_go(self, name: str, fault: int) -> None:
        """What stood may go on, and nothing is held from here on."""
        self.worlds[name].emulator.admin.remove(fault)

    def carries_on(self, name: str) -> None:
        """No claim is left busy: the next tick asks for a run, and after it every log is there once."""
        run = self.live(name)
        assert self.server.ended(run) == "SUCCESS", self.server.failures(run)
        world = self.worlds[name]
        world.assert_each_log_once()
        world.assert_proved()
        assert self.checkpoints(name) == self.frontiers(name)


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
        variables = environment(folder, lake)
        with DagsterServer(folder / "dagster", module(folder, found), variables) as server:
            yield Site(server, found, variables)


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


@pytest.mark.timeout(1200)
def test_hours_are_replaced_by_the_command_line_in_runs_that_a_live_one_overtakes(
    site: Site, tmp_path: Path
) -> None:
    name, bronze, world = "access_logs", BRONZE / "access_logs", site.worlds["access_logs"]
    keys = put_hours(world, 2 * HOURS_PER_RUN_MAX + 1, rows=10)
    run = site.live(name)
    assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    # Each run of the backfill asks first for the begin of its first hour, and nobody else does.
    firsts = (hour_of_key(keys[0]), hour_of_key(keys[HOURS_PER_RUN_MAX]))
    fault = world.emulator.admin.fault
    faults = [
        fault("hold", call="get_cursor", logstore=name, query={"from": str(hour * HOUR_S)}, times=None)
        for hour in firsts
    ]
    (tmp_path / "defs.yaml").write_text(settings(world))
    verb = ["backfill", "--logstore", str(tmp_path / "defs.yaml"), "--mode", "replace", "--execute", "--json"]
    with subprocess.Popen(
        [Path(sys.executable).parent / "sls-lake", *verb, "--from", keys[0], "--to", keys[-1]],
        env={**os.environ, **site.environment, "DAGSTER_WEBSERVER_URL": site.server.url},
        stdout=subprocess.PIPE,
    ) as backfill:
        for each in faults:
            site.stands(name, each)
        world.put(10)
        world.emulator.admin.advance(120)
        run = site.live(name)
        site.server.begun(run)
        status = [each["status"] for each in site.server.runs({MODE_TAG: "replace"})]
        assert sorted(status) == ["QUEUED", "STARTED", "STARTED"]
        for each in faults:
            site.let_go(name, each)
        assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
        before = site.checkpoints(name)
        said = json.loads(backfill.communicate(timeout=600)[0])
    assert (backfill.returncode, said["done"], said["failed"]) == (0, len(keys), 0), said
    modes = {
        e["partition"]: e["metadata"].get("mode") for e in reversed(site.server.materializations(bronze))
    }
    assert {modes[key] for key in keys} == {"replace"}
    assert site.checkpoints(name) == before
    world.assert_each_log_once()


def test_the_table_is_maintained_and_proven_from_the_page(site: Site) -> None:
    world, bronze = site.worlds["access_logs"], BRONZE / "access_logs"
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


def test_a_backfill_that_fails_says_on_the_command_line_what_its_run_says_on_the_page(
    site: Site, tmp_path: Path
) -> None:
    world = site.worlds["broken_logs"]
    (tmp_path / "defs.yaml").write_text(settings(world))
    asked = [
        "backfill",
        "--logstore",
        str(tmp_path / "defs.yaml"),
        "--mode",
        "replace",
        "--execute",
        "--json",
    ]
    running = hour_key(int(world.emulator.admin.now()) // HOUR_S)
    done = subprocess.run(
        [Path(sys.executable).parent / "sls-lake", *asked, "--from", running],
        env={**os.environ, **site.environment, "DAGSTER_WEBSERVER_URL": site.server.url},
        stdout=subprocess.PIPE,
        timeout=300,
        check=False,
    )
    said = json.loads(done.stdout)
    assert (done.returncode, said["failed"], said["done"]) == (1, 1, 0), said
    (reason,) = said["failures"]
    assert reason.startswith("shard 0 has reached ") and "not all of the hours asked for" in reason


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


# --- cut in the middle ---------------------------------------------------------------------------


def test_after_a_cancel_the_shards_are_free_and_the_next_tick_lands_all_of_it(site: Site) -> None:
    world = site.worlds["cut_logs"]
    put_hours(world, 1, rows=40)
    run, fault = site.held("cut_logs", "pull_logs")
    site.server.terminate(run)
    assert site.server.ended(run) == "CANCELED"
    site.let_go("cut_logs", fault)
    assert world.table_rows() == []
    site.carries_on("cut_logs")


def test_after_a_kill_of_a_run_that_has_landed_the_next_tick_publishes_what_it_could_not(site: Site) -> None:
    world = site.worlds["cut_logs"]
    put_hours(world, 1, rows=40)
    run, fault = site.held("cut_logs", "save_checkpoint")
    os.kill(site.server.process_of(run), signal.SIGKILL)
    assert site.server.ended(run) == "FAILURE"
    site.let_go("cut_logs", fault)
    world.assert_each_log_once()
    assert site.checkpoints("cut_logs") != site.frontiers("cut_logs")
    site.carries_on("cut_logs")


def test_a_run_goes_on_while_code_and_daemon_are_new_and_no_tick_starts_a_second_one(site: Site) -> None:
    world = site.worlds["cut_logs"]
    put_hours(world, 1, rows=40)
    run, fault = site.held("cut_logs", "pull_logs")
    site.server.reload()
    site.server.restart_daemon()
    assert run in (site.server.tick("cut_logs_schedule")["skipReason"] or "")
    site.let_go("cut_logs", fault)
    assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    world.assert_each_log_once()
    put_hours(world, 1, rows=20)
    site.carries_on("cut_logs")


def test_after_a_crash_of_the_machine_the_monitor_ends_the_run_and_the_next_tick_lands_it(site: Site) -> None:
    world = site.worlds["cut_logs"]
    put_hours(world, 1, rows=40)
    run, fault = site.held("cut_logs", "pull_logs")
    site.server.crash()
    site.let_go("cut_logs", fault)
    site.server.start()
    assert site.server.ended(run) == "FAILURE"
    site.carries_on("cut_logs")
