"""Runs of a real Dagster, each with a Spark of its own: asked for by a tick, cancelled, killed, cut off."""

import os
import signal
from collections.abc import Iterator

import pytest

from pipelines.components.logstore.schedule import CLAIMS_TAG
from tests.integration.live_site import BRONZE, Site, live_site, put_hours

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.slow]

LOGSTORES = ("ticked_logs", "cut_logs")
"""One a story. A schedule that is turned off may still tick once, so its logstore is nobody else's."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with live_site(tmp_path_factory.mktemp("site"), LOGSTORES, warm=False) as site:
        yield site


def test_the_schedule_lands_what_is_new_by_hour_and_publishes_the_frontier(site: Site) -> None:
    first, second = put_hours(site.worlds["ticked_logs"], 2, rows=40)
    state = site.server.turn_on("ticked_logs_schedule")
    (run, *_) = site.server.wait("a tick", lambda: site.server.runs({CLAIMS_TAG: "ticked_logs"}))
    # The run is unfinished, so the tick names it instead of asking for a second one.
    assert run["runId"] in (site.server.tick("ticked_logs_schedule")["skipReason"] or "")
    site.server.turn_off(state)
    assert site.server.ended(run["runId"]) == "SUCCESS", site.server.failures(run["runId"])
    told = site.server.materializations(BRONZE / "ticked_logs")
    landed = [e for e in told if e["runId"] == run["runId"] and e["metadata"]["rows"]]
    assert {e["partition"]: e["metadata"]["rows"] for e in landed} == {first: 40, second: 40}
    shown = {"landed", "rows with errors", "rows with errors (%)", "lag (s)", "snapshot"}
    assert shown <= set(landed[0]["metadata"])
    version = {tag["key"]: tag["value"] for tag in landed[0]["tags"]}["dagster/data_version"]
    assert version == landed[0]["metadata"]["snapshot"]
    assert site.server.check_passed(BRONZE / "ticked_logs", "reconciled") is True
    assert site.checkpoints("ticked_logs") == site.frontiers("ticked_logs")
    site.worlds["ticked_logs"].assert_each_log_once()


def test_after_a_cancel_the_shards_are_free_and_the_next_tick_lands_all_of_it(site: Site) -> None:
    site.is_cancelled_and_carries_on("cut_logs")


def test_after_a_kill_of_a_run_that_has_landed_the_next_tick_publishes_what_it_could_not(site: Site) -> None:
    world = site.worlds["cut_logs"]
    put_hours(world, 1, rows=40)
    # What is held is carried out once it is let go: of both shards, which are sent at the same time.
    admin = world.emulator.admin
    refused = admin.fault("error", call="save_checkpoint", logstore="cut_logs", shard=1, times=None)
    run, fault = site.held("cut_logs", "save_checkpoint")
    os.kill(site.server.process_of(run), signal.SIGKILL)
    assert site.server.ended(run) == "FAILURE"
    site.let_go("cut_logs", fault)
    world.assert_each_log_once()
    assert site.checkpoints("cut_logs") != site.frontiers("cut_logs")
    admin.remove(refused)
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
