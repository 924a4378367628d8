"""Two weeks of hours asked for at once, and a live run that is launched after all of them.

Rows are written by the process of each run, without a JVM.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.engine import InProcess
from pipelines.components.logstore.assets import HOURS_PER_RUN_MAX
from pipelines.components.logstore.schedule import BACKFILL_TAG, RANGE_END_TAG, RANGE_START_TAG
from pipelines.landing.hours import hour_text
from sls_io.emulator import start
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.window import HOUR_S
from tests.integration.live_site import environment
from tests.worlds.command_line import running, settings
from tests.worlds.dagster_server import PATIENCE_S, DagsterServer
from tests.worlds.one_logstore import PROJECT, World, logstore_settings, make_lake, patient

pytestmark = [pytest.mark.dagster, pytest.mark.slow]

NAME, HOURS = "access_logs", 14 * 24
RUNS = HOURS // HOURS_PER_RUN_MAX
FIRST = int(SYSTEM_CLOCK.now()) // HOUR_S - HOURS - 2
_MODULE = """
from chaos.in_dagster import definitions_of
from pipelines.landing.logstore import Logstore

defs = definitions_of(Logstore.model_validate_json({settings!r}))
"""


@dataclass
class Site:
    """A Dagster with one logstore, whose history began two weeks ago."""

    server: DagsterServer
    world: World
    environment: dict[str, str]

    def live(self) -> str:
        """What a tick asks for, launched; the run's id."""
        (request,) = self.server.tick(f"{NAME}_schedule")["runRequests"]
        return self.server.launch(f"{NAME}_microbatch", {tag["key"]: tag["value"] for tag in request["tags"]})

    def queue(self, backfill: str) -> Counter[str]:
        """How many runs of the backfill are how far."""
        return Counter(run["status"] for run in self.server.runs({BACKFILL_TAG: backfill}))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    lake = make_lake(tmp_path / "lake")
    with start(tmp_path / "emulator", now=FIRST * HOUR_S + 60.0) as emulator:
        logstore = logstore_settings(
            emulator,
            NAME,
            service=patient(emulator, NAME),
            start=hour_text(FIRST),
            schedule="0 0 1 1 *",
        )
        world = World(emulator, lake, logstore, InProcess())
        with world.client as client:
            client.transport.create_project(PROJECT, "")
            client.transport.create_logstore(PROJECT, NAME, ttl=60, shard_count=2)
        world.put(10, until_s=SYSTEM_CLOCK.now())
        path = tmp_path / "definitions_of_this_test.py"
        path.write_text(_MODULE.format(settings=logstore.model_dump_json()))
        variables = environment(tmp_path, lake)
        with DagsterServer(tmp_path / "dagster", path, variables) as server:
            yield Site(server, world, variables)


def test_a_live_run_comes_before_all_that_waits_of_two_weeks(site: Site, tmp_path: Path) -> None:
    server, world = site.server, site.world
    first = site.live()
    assert server.ended(first) == "SUCCESS", server.failures(first)
    # Each run of a backfill asks first for the begin of its first hour, and nobody else does.
    faults = [
        world.emulator.admin.fault(
            "hold", call="get_cursor", query={"from": str(hour * HOUR_S)}, times=None, logstore=NAME
        )
        for hour in (FIRST, FIRST + HOURS_PER_RUN_MAX)
    ]
    (tmp_path / "defs.yaml").write_text(settings(world))
    verb = ["backfill", "--logstore", str(tmp_path / "defs.yaml"), "--json"]
    hours = ["--from", hour_text(FIRST), "--to", hour_text(FIRST + HOURS - 1)]
    with running([*verb, *hours], {**site.environment, "DAGSTER_WEBSERVER_URL": server.url}) as asked:
        (backfill,) = server.wait("one backfill", lambda: asked_for(server))
        waiting = {"STARTED": 2, "QUEUED": RUNS - 2}
        server.wait("its runs", lambda: site.queue(backfill["id"]) == waiting)
        runs = server.runs({BACKFILL_TAG: backfill["id"]})
        spans = sorted((tag(run, RANGE_START_TAG), tag(run, RANGE_END_TAG)) for run in runs)
        assert spans == [
            (hour_text(hour), hour_text(hour + HOURS_PER_RUN_MAX - 1))
            for hour in range(FIRST, FIRST + HOURS, HOURS_PER_RUN_MAX)
        ]
        world.put(10, pass_s=120)
        live = site.live()
        assert server.ended(live) == "SUCCESS", server.failures(live)
        assert site.queue(backfill["id"]) == waiting, "it was launched last of all"
        assert asked_for(server) == [backfill], "two weeks are one backfill"
        server.ask(
            "mutation($id: String!) { cancelPartitionBackfill(backfillId: $id) { __typename } }",
            id=backfill["id"],
        )
        for fault in faults:
            world.emulator.admin.remove(int(fault))
        said = json.loads(asked.communicate(timeout=PATIENCE_S)[0])
    assert (asked.returncode, said["status"], said["total"]) == (1, "CANCELED", HOURS), said
    world.assert_each_log_once()


def asked_for(server: DagsterServer) -> list[dict[str, Any]]:
    """Every backfill: its id, and how many hours it is of."""
    query = "{ partitionBackfillsOrError { ... on PartitionBackfills { results { id numPartitions } } } }"
    return list(server.ask(query)["partitionBackfillsOrError"]["results"])


def tag(run: dict[str, Any], key: str) -> str:
    return next(str(each["value"]) for each in run["tags"] if each["key"] == key)
