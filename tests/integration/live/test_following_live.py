"""A new logstore of the service has its assets on a real Dagster's page, and nobody pressed anything."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sls_io.emulator import start
from sls_io.wire.client import SlsClient
from tests.integration.followed_site import Followed, followed
from tests.worlds.dagster_server import LOCATION, REPOSITORY, DagsterServer
from tests.worlds.one_logstore import PROJECT, catalog_variables, make_lake, patient

pytestmark = [pytest.mark.dagster, pytest.mark.slow]

_MODULE = """
from pathlib import Path
from pipelines.definitions import loaded
defs = loaded(Path({package!r}))
"""
SENSOR = "shop_logstores_sensor"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Followed, DagsterServer]]:
    """Code server, web server and daemon over a project that has one logstore in the service."""
    with start(tmp_path / "emulator") as emulator:
        shop = followed(emulator, tmp_path / "own", "followed_live", sensors="  sensors: [logstores]\n")
        with SlsClient(patient(emulator, "shop-orders")) as client:
            client.transport.create_project(PROJECT, "")
        shop.make("shop-orders")
        module = tmp_path / "served.py"
        module.write_text(_MODULE.format(package=str(shop.package)))
        environment = {
            **catalog_variables(make_lake(tmp_path / "lake")),
            "SLS_LAKE_HOME": str(tmp_path / "home"),
        }
        with DagsterServer(tmp_path / "dagster", module, environment) as server:
            yield shop, server


def jobs(server: DagsterServer) -> set[str]:
    """The jobs of logstores that the page shows."""
    answer = server.ask(
        """query($s: RepositorySelector!) { repositoryOrError(repositorySelector: $s) {
           ... on Repository { jobs { name } } } }""",
        s={"repositoryName": REPOSITORY, "repositoryLocationName": LOCATION},
    )["repositoryOrError"]
    return {job["name"] for job in answer.get("jobs", ()) if job["name"].endswith("_microbatch")}


def ticks(server: DagsterServer) -> list[tuple[str, str]]:
    """(status, what it says) of each tick of the sensor that has ended, newest first."""
    selector = {"repositoryName": REPOSITORY, "repositoryLocationName": LOCATION, "sensorName": SENSOR}
    answer = server.ask(
        """query($s: SensorSelector!) { sensorOrError(sensorSelector: $s) { ... on Sensor { sensorState {
           ticks(limit: 20) { status skipReason error { message causes { message } } } } } } }""",
        s=selector,
    )["sensorOrError"]
    found = answer["sensorState"]["ticks"]
    # The daemon writes what a tick says before it writes that the tick has ended.
    ended = [each for each in found if each["status"] != "STARTED"]
    return [(each["status"], each["skipReason"] or str(each["error"] or "")) for each in ended]


def test_a_new_logstore_is_on_the_page_and_nobody_pressed_anything(
    site: tuple[Followed, DagsterServer],
) -> None:
    shop, server = site
    server.wait("the first logstore", lambda: "shop_orders_microbatch" in jobs(server))
    told = server.wait(
        "the tick after the reload", lambda: [t for t in ticks(server) if "told to load" in t[1]]
    )
    assert told[0][0] == "SKIPPED"
    # Where the daemon ticks before the page is up, the tick says so, and the next one asks again.
    failed = [said for status, said in ticks(server) if status == "FAILURE"]
    assert all("no page answers at" in said for said in failed), failed

    shop.make("shop-carts")
    selector = {"repositoryName": REPOSITORY, "repositoryLocationName": LOCATION, "sensorName": SENSOR}
    answer = server.ask(
        """mutation($s: SensorSelector!) { sensorDryRun(selectorData: $s, cursor: "") { __typename
           ... on DryRunInstigationTick { evaluationResult { skipReason error { message } } }
           ... on Error { message } } }""",
        s=selector,
    )
    told_now = answer["sensorDryRun"]["evaluationResult"]
    assert told_now["error"] is None and "1 new: shop-carts" in told_now["skipReason"]
    server.wait("the second logstore", lambda: "shop_carts_microbatch" in jobs(server))
    assert "shop_orders_microbatch" in jobs(server)
