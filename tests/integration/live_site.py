"""A live Dagster over one emulator and one lake, with a logstore for each story that is told on it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.state import read_state
from pipelines.landing.spark.remote import REMOTE_VARIABLE
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.lake import Lake
from sls_io.emulator import start
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.window import HOUR_S
from tests.integration.spark_server import deployed
from tests.worlds.dagster_server import DagsterServer
from tests.worlds.one_logstore import PROJECT, World, catalog_variables, logstore_settings, make_lake, patient

BRONZE = PurePath("bronze")
COLUMNS = {"n": "long", "status": "int", "latency_ms": "double"}
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

        self.server.wait(f"fault {fault} of {name}", met)

    def let_go(self, name: str, fault: int) -> None:
        """What stood may go on, and nothing is held from here on."""
        self.worlds[name].emulator.admin.remove(fault)

    def carries_on(self, name: str) -> None:
        """No claim is left busy: the next tick asks for a run, and after it every log is there once."""
        run = self.live(name)
        assert self.server.ended(run) == "SUCCESS", self.server.failures(run)
        world = self.worlds[name]
        world.assert_sound()
        assert self.checkpoints(name) == self.frontiers(name)

    def is_cancelled_and_carries_on(self, name: str) -> None:
        """A run is cancelled, as on the page, while its tasks read; the one after it lands all of it."""
        put_hours(self.worlds[name], 1, rows=40)
        before = len(self.worlds[name].table_rows())
        run, fault = self.held(name, "pull_logs")
        self.server.terminate(run)
        assert self.server.ended(run) == "CANCELED"
        self.let_go(name, fault)
        assert len(self.worlds[name].table_rows()) == before
        self.carries_on(name)


@contextmanager
def live_site(folder: Path, logstores: Sequence[str], *, warm: bool) -> Iterator[Site]:
    """A site with these logstores. If it is `warm`, its runs write over a Connect server, as a deployment
    starts one; else each starts a Spark of its own."""
    lake = make_lake(folder / "lake")
    variables = environment(folder, lake)
    with ExitStack() as stack:
        if warm:
            variables[REMOTE_VARIABLE] = stack.enter_context(deployed(folder, variables))
        emulator = stack.enter_context(start(folder / "emulator", now=HOUR0 * HOUR_S + 60.0))
        found = {}
        for name in logstores:
            settings = logstore_settings(
                emulator,
                name,
                service=patient(emulator, name),
                columns=COLUMNS,
                start=hour_text(HOUR0),
                schedule="* * * * *",
            )
            found[name] = World(emulator, lake, settings, Engine(lake=lake))
        with found[logstores[0]].client as client:
            client.transport.create_project(PROJECT, "")
            for name in logstores:
                client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=2)
        server = DagsterServer(folder / "dagster", _module(folder, found), variables)
        yield Site(stack.enter_context(server), found, variables)


def _module(folder: Path, found: dict[str, World]) -> Path:
    """The definitions that the server loads."""
    attributes = "[" + ",".join(w.logstore.model_dump_json(exclude_none=True) for w in found.values()) + "]"
    path = folder / "definitions_of_this_test.py"
    path.write_text(_MODULE.format(attributes=attributes))
    return path


def environment(folder: Path, lake: Lake) -> dict[str, str]:
    """Of the server and of every run: the same catalog as the test's, state in `folder`."""
    catalog = catalog_variables(lake)
    return {**catalog, "SLS_LAKE_HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}


def put_hours(world: World, count: int, rows: int) -> list[str]:
    """`rows` logs in each of the next `count` receive hours, which then are over; their keys."""
    first = int(world.emulator.admin.now()) // HOUR_S + 1
    for hour in range(first, first + count):
        world.at(hour * HOUR_S + 60.0)
        world.put(rows)
    world.at((first + count) * HOUR_S + 60.0)
    return [hour_text(hour) for hour in range(first, first + count)]
