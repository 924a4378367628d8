"""Live runs, backfills and red checks under a real Dagster daemon, over a deployment's warm Spark server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import pytest

from pipelines.components.logstore.assets import HOURS_PER_RUN_MAX
from pipelines.components.logstore.schedule import MODE_TAG, RANGE_END_TAG, RANGE_START_TAG
from pipelines.landing.hours import hour_of, hour_text
from sls_io.values.window import HOUR_S
from tests.integration.live_site import BRONZE, Site, live_site, put_hours
from tests.worlds.command_line import running, settings
from tests.worlds.dagster_server import PATIENCE_S
from tests.worlds.one_logstore import PROJECT

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.slow]

LOGSTORES = ("access_logs", "broken_logs", "cut_logs")
VIEW = PurePath("silver/stg_access_logs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with live_site(tmp_path_factory.mktemp("site"), LOGSTORES, warm=True) as site:
        yield site


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


def test_what_the_command_line_landed_is_on_the_page_at_once_and_is_told_once(
    site: Site, tmp_path: Path
) -> None:
    world = site.worlds["access_logs"]
    (hour,) = put_hours(world, 1, rows=15)
    (tmp_path / "defs.yaml").write_text(settings(world))
    verb = ["land", "--logstore", str(tmp_path / "defs.yaml"), "--json"]
    with running(verb, {**site.environment, "DAGSTER_WEBSERVER_URL": site.server.url}) as land:
        said = json.loads(land.communicate(timeout=PATIENCE_S)[0])
    assert (land.returncode, said["rows"]) == (0, 15), said
    told = [e for e in site.server.materializations(BRONZE / "access_logs") if e["partition"] == hour]
    assert [(e["metadata"]["rows"], e["metadata"]["snapshot"]) for e in told] == [
        (15, str(said["snapshot_id"]))
    ]
    world.emulator.admin.advance(120)
    run = site.live("access_logs")
    assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    newest = site.server.materializations(BRONZE / "access_logs")
    assert [e["runId"] for e in newest if e["partition"] == hour] == [told[0]["runId"]]


def test_hours_are_replaced_by_the_command_line_in_runs_that_a_live_one_overtakes(
    site: Site, tmp_path: Path
) -> None:
    name, bronze, world = "access_logs", BRONZE / "access_logs", site.worlds["access_logs"]
    keys = put_hours(world, 2 * HOURS_PER_RUN_MAX + 1, rows=10)
    run = site.live(name)
    assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    # Each run of the backfill asks first for the begin of its first hour, and nobody else does.
    firsts = (hour_of(keys[0]), hour_of(keys[HOURS_PER_RUN_MAX]))
    fault = world.emulator.admin.fault
    faults = [
        fault("hold", call="get_cursor", logstore=name, query={"from": str(hour * HOUR_S)}, times=None)
        for hour in firsts
    ]
    (tmp_path / "defs.yaml").write_text(settings(world))
    verb = ["backfill", "--logstore", str(tmp_path / "defs.yaml"), "--mode", "replace", "--execute", "--json"]
    variables = {**site.environment, "DAGSTER_WEBSERVER_URL": site.server.url}
    with running([*verb, "--from", keys[0], "--to", keys[-1]], variables) as backfill:
        for each in faults:
            site.stands(name, each)
        world.put(10, pass_s=120)
        run = site.live(name)
        site.server.begun(run)
        status = [each["status"] for each in site.server.runs({MODE_TAG: "replace"})]
        assert sorted(status) == ["QUEUED", "STARTED", "STARTED"]
        for each in faults:
            site.let_go(name, each)
        assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
        before = site.checkpoints(name)
        said = json.loads(backfill.communicate(timeout=PATIENCE_S)[0])
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
    assert site.server.check_passed(PurePath("sls/access_logs_logstore"), "runway") is True
    world.assert_each_log_once()


def test_the_dbt_view_and_its_identity_test_follow_bronze(site: Site) -> None:
    run = site.server.launch("__ASSET_JOB", {}, assets=[VIEW])
    assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    assert site.server.check_passed(VIEW, "identity_is_unique") is True
    assert site.server.check_passed(VIEW, "rows_are_as_the_ledger_says") is True


def test_a_failing_check_moves_the_checkpoint_neither_in_this_run_nor_in_the_next(site: Site) -> None:
    world = site.worlds["broken_logs"]
    world.put(20, pass_s=120)
    first = site.live("broken_logs")
    assert site.server.ended(first) == "SUCCESS", site.server.failures(first)
    before = site.checkpoints("broken_logs")
    table = world.lake.load("bronze.broken_logs")
    assert table is not None
    landed = str(table.inspect.files()["file_path"][0].as_py())
    os.unlink(landed.removeprefix("file://"))
    world.put(20, pass_s=120)
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
    if world.lake.load("bronze.broken_logs") is None:  # this test alone
        world.put(20, pass_s=120)
        assert site.server.ended(site.live("broken_logs")) == "SUCCESS"
    now_s = int(world.emulator.admin.now())
    world.emulator.admin.retain(PROJECT, "broken_logs", before_s=now_s)
    running = hour_text(now_s // HOUR_S)
    done = subprocess.run(
        [Path(sys.executable).parent / "sls-lake", *asked, "--from", running],
        env={**os.environ, **site.environment, "DAGSTER_WEBSERVER_URL": site.server.url},
        stdout=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
    )
    said = json.loads(done.stdout)
    assert (done.returncode, said["failed"], said["done"]) == (1, 1, 0), said
    (reason,) = said["failures"]
    assert "retention has already taken a part of these hours from shard" in reason


def test_a_split_is_seen_by_the_sensor_drained_by_its_run_and_told_by_the_daemon(site: Site) -> None:
    begun = site.live("access_logs")
    assert site.server.ended(begun) == "SUCCESS", site.server.failures(begun)
    world = site.worlds["access_logs"]
    world.put(20)
    world.emulator.admin.split(PROJECT, "access_logs", 0)
    world.emulator.admin.advance(120)
    with world.client as client:
        end = client.cursor_at(0, "end")
    site.server.turn_on_sensor("access_logs_demand_sensor")
    tag = {"sls/drains-0": f"{world.ledger.origin}@{int(end)}"}
    (drain,) = site.server.wait("the drain", lambda: site.server.runs(tag))
    assert site.server.ended(drain["runId"]) == "SUCCESS", site.server.failures(drain["runId"])
    assert world.ledger.shards[0].closed
    shards = PurePath("sls/access_logs_shards")
    told = site.server.wait("shard 0", lambda: landed_shards(site, shards))
    assert [each["partition"] for each in told] == ["0"]
    assert len(site.server.runs(tag)) == 1, "later ticks ask for nothing"


def landed_shards(site: Site, shards: PurePath) -> list[dict[str, Any]]:
    return [e for e in site.server.materializations(shards) if e["metadata"]["state"].startswith("landed")]


# --- cut in the middle ---------------------------------------------------------------------------


def test_after_a_cancel_the_server_is_free_too_and_the_next_tick_lands_all_of_it(site: Site) -> None:
    site.is_cancelled_and_carries_on("cut_logs")


def test_a_run_goes_on_while_code_and_daemon_are_new_and_no_tick_starts_a_second_one(site: Site) -> None:
    world = site.worlds["cut_logs"]
    put_hours(world, 1, rows=40)
    run, fault = site.held("cut_logs", "pull_logs")
    site.server.reload()
    site.server.restart_daemon()
    site.server.monitored(run)
    assert run in (site.server.tick("cut_logs_schedule")["skipReason"] or "")
    site.let_go("cut_logs", fault)
    assert site.server.ended(run) == "SUCCESS", site.server.failures(run)
    world.assert_each_log_once()
    put_hours(world, 1, rows=20)
    site.carries_on("cut_logs")
