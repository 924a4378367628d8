"""One logstore in a real emulator, one lake on disk, and the truth to compare them with.

The truth is the emulator's own stored log, read over its admin path and parsed with the vendor's
protobuf classes: no code of fetch, decode or landing takes part in it.
"""

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest
from aliyun.log import log_logs_raw_pb2 as pb
from pyiceberg.table import Table

from fuzz.group_oracle import read_group
from pipelines.landing.commit.decision import Decision, Finished, Tools
from pipelines.landing.contents.spread import Spread
from pipelines.landing.inspection.proof import Proof
from pipelines.landing.inspection.verify import verify
from pipelines.landing.ledger.codec import ATTEMPT_KEY, WINDOWS_KEY, decode_windows
from pipelines.landing.ledger.state import ancestry, read_state
from pipelines.landing.ledger.values import Landed
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.run.report import LandingReport
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator
from sls_io.values.claim import Ledger
from sls_io.values.settings import Service
from sls_io.values.window import HOUR_S, Cursor, cursor_from_wire
from sls_io.wire.client import SlsClient
from tests.backends.storage import Folder, Storage

PROJECT = "demo"
HOUR0_S = 1_790_000_000 // 3600 * 3600
"""The start of the receive hour all tests begin in."""
HOUR0 = HOUR0_S // 3600

Identity = tuple[int, int, int]
P = ParamSpec("P")
T = TypeVar("T")


def make_lake(folder: Path, **properties: str) -> Lake:
    """A SQLite catalog and a warehouse under `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return Lake(
        {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.sqlite?timeout=30",
            "warehouse": f"file://{folder}/warehouse",
            **properties,
        }
    )


def catalog_variables(lake: Lake) -> dict[str, str]:
    """The environment of a process that uses the lake's catalog."""
    return configuration(lake.properties)


def configuration(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a catalog as PyIceberg's variables."""
    return {
        f"PYICEBERG_CATALOG__LAKE__{name.upper().replace('.', '__').replace('-', '_')}": value
        for name, value in properties.items()
    }


def use_catalog(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake's catalog is the one that this process finds from now on."""
    for name, value in catalog_variables(lake).items():
        monkeypatch.setenv(name, value)


def group(logs: Iterable[Mapping[str, str | bytes]], *, time_s: int = HOUR0_S, topic: str = "t") -> bytes:
    """A serialised LogGroup; values may be bytes that are not UTF-8."""
    message = pb.LogGroupRaw()
    message.Topic, message.Source = topic, "10.0.0.1"
    for log in logs:
        entry = message.Logs.add()
        entry.Time = time_s
        for key, value in log.items():
            content = entry.Contents.add()
            content.Key = key
            content.Value = value.encode() if isinstance(value, str) else value
    return bytes(message.SerializeToString())


@dataclass
class World:
    """What a test needs to make the service and the table tell their story.

    `storage` is where the warehouse lies, when that is no folder.
    """

    emulator: Emulator
    lake: Lake
    logstore: Logstore
    engine: Engine
    counter: int = 0
    reports: list[LandingReport] = field(default_factory=list)
    storage: Storage | None = None

    @property
    def client(self) -> SlsClient:
        """A fresh client of the logstore."""
        return SlsClient(self.logstore.service)

    def at(self, time_s: float) -> None:
        """Set the service's clock."""
        self.emulator.admin.set_clock(time_s)

    @property
    def hours(self) -> range:
        """The receive hour that runs and the two before: where worlds share an emulator, its clock may have
        gone on for years."""
        now = int(self.emulator.admin.now()) // 3600
        return range(now - 2, now + 1)

    def pass_by(self, seconds: float = 31.0) -> None:
        """Time passes for the service: at the least, every claim that is not renewed is over."""
        self.emulator.admin.advance(seconds)

    def put(
        self,
        rows: int,
        *,
        key: str | None = None,
        logs_a_group: int = 5,
        value: str = "200",
        pass_s: float = 0.0,
        until_s: float | None = None,
    ) -> None:
        """Put `rows` numbered logs, spread over the key space unless `key` names a place in it.

        After that the service's clock goes on by `pass_s`, or is set to `until_s`.
        """
        with self.client as client:
            for begin in range(0, rows, logs_a_group):
                numbers = range(self.counter + begin, self.counter + min(begin + logs_a_group, rows))
                logs = [{"n": str(n), "status": value, "path": f"/p/{n % 7}"} for n in numbers]
                at = (
                    key
                    if key is not None
                    else f"{(begin // logs_a_group * 2654435761) % 2**32:08x}".ljust(32, "0")
                )
                client.put_raw(group(logs), key=at)
        self.counter += rows
        if until_s is not None:
            self.at(until_s)
        elif pass_s:
            self.pass_by(pass_s)

    def run(self, **options: Any) -> Run:
        """A run on this world; options go to `Run`."""
        return Run(
            options.pop("logstore", self.logstore),
            self.engine,
            lake=options.pop("lake", self.lake),
            **options,
        )

    def land_hours(self, count: int, *, more: int = 0) -> "World":
        """So many receive hours of 20 rows, a landing each, all of them passed by every shard; with `more`
        logs to come, an hour that is not landed, too."""
        for _ in range(count):
            self.land_more(20, pass_s=HOUR_S)
        if more:
            self.put(more, pass_s=HOUR_S)
        return self

    def landed_at(self, *minutes: int, more: int) -> "World":
        """Ten rows landed at each of these minutes after HOUR0_S, and `more` logs to come."""
        for minute in minutes:
            self.at(HOUR0_S + 60 * (minute - 1))
            self.land_more(10, until_s=HOUR0_S + 60 * minute)
        self.put(more, until_s=HOUR0_S + 60 * (minutes[-1] + 6))
        return self

    def begun(self, landed: int, waiting: int) -> "World":
        """This world after a first landing of so many logs, with so many more to come in the same hour."""
        self.land_more(landed)
        self.put(waiting, pass_s=60)
        return self

    def land(self, **options: Any) -> LandingReport:
        """A whole run: land, check, checkpoint."""
        with self.run(**options) as run:
            report = run.land()
            verdict = run.reconcile()
            assert verdict.ok, verdict.problems
            run.checkpoint()
        self.reports.append(report)
        return report

    def land_more(self, rows: int, *, pass_s: float = 60.0, **put: Any) -> LandingReport:
        """Put so many logs, let them become old enough, and land."""
        self.put(rows, pass_s=pass_s, **put)
        return self.land()

    def asked(
        self, plan: Callable[Concatenate[Lake, Logstore, SlsClient, P], T], *what: P.args, **how: P.kwargs
    ) -> T:
        """What `plan` makes of this table and logstore; it has a client of its own."""
        with self.client as client:
            return plan(self.lake, self.logstore, client, *what, **how)

    def carried_out(
        self,
        plan: Callable[Concatenate[Lake, Logstore, SlsClient, P], Decision[Any]],
        *what: P.args,
        **how: P.kwargs,
    ) -> Finished:
        """Plan what a person decides, and do it."""
        with self.client as client:
            planned = plan(self.lake, self.logstore, client, *what, **how)
            return planned.carry_out(self.lake, Tools(engine=self.engine))

    def with_holder(self, holder: str) -> Logstore:
        """The logstore's settings under another name in the group."""
        group = self.logstore.group.model_copy(update={"holder": holder})
        return self.logstore.model_copy(update={"group": group})

    def changed(self, **changes: Any) -> Logstore:
        """The logstore's settings with some replaced, checked like any others."""
        return Logstore.model_validate({**self.logstore.model_dump(), **changes})

    def fault(self, do: str, **wanted: Any) -> int:
        """Ask the emulator for a fault that meets this logstore only; its id."""
        return self.emulator.admin.fault(do, logstore=self.logstore.service.logstore, **wanted)

    def watch_pulls(self) -> "Pulls":
        """From here on, every page that anybody asks for is written down."""
        return Pulls(self.emulator, self.emulator.admin.fault("observe", call="pull_logs", times=None))

    @property
    def table(self) -> Table:
        """The table as it is now."""
        table = self.lake.load(self.logstore.table)
        assert table is not None, "nothing has made the table yet"
        return table

    @property
    def origin(self) -> str:
        """The id that the table has of the logstore."""
        with self.client as client:
            return client.origin().id

    @property
    def ledger(self) -> Ledger:
        """The proven ledger of the logstore."""
        return read_state(self.table).ledger(self.origin)

    def landings(self) -> list[tuple[str, tuple[Landed, ...]]]:
        """(attempt, windows) of each landing in `main`, oldest first."""
        found = []
        for snapshot in ancestry(self.table):
            summary = snapshot.summary.additional_properties if snapshot.summary else {}
            if ATTEMPT_KEY in summary:
                found.append((summary[ATTEMPT_KEY], decode_windows(summary[WINDOWS_KEY])[1]))
        return found[::-1]

    def checkpoints(self, group: str = "lake") -> dict[int, Cursor | None]:
        """What the service's group has for each shard."""
        with self.client as client:
            return {shard: entry.cursor for shard, entry in client.checkpoints(group).items()}

    def files(self) -> set[str]:
        """Every file under the warehouse, data and metadata, but not the metadata versions that a
        catalog drops on its own when they are many."""
        storage = self.storage or Folder(self.lake.properties["warehouse"])
        return {name for name in storage.files() if not name.endswith(".metadata.json")}

    def data_files(self) -> set[str]:
        """The Parquet files that are stored, published or not."""
        return {f for f in self.files() if f.endswith(".parquet")}

    def published(self) -> list[str]:
        """The Parquet files the table lists."""
        return [t.file.file_path.removeprefix("file://") for t in self.table.scan().plan_files()]

    def table_rows(self) -> list[dict[str, Any]]:
        """All rows of the table, read by PyIceberg and pyarrow."""
        table = self.lake.load(self.logstore.table)
        return table.scan().to_arrow().to_pylist() if table is not None else []

    def identities(self) -> Counter[Identity]:
        """How often each identity is in the table."""
        return Counter((r["__shard__"], r["__cursor__"], r["__index__"]) for r in self.table_rows())

    def truth(self, logstore: str | None = None) -> dict[Identity, dict[str, bytes]]:
        """Every stored log: identity -> its key-value pairs (the last of a repeated key)."""
        name = logstore or self.logstore.service.logstore
        found: dict[Identity, dict[str, bytes]] = {}
        for entry in self.emulator.admin.dump(PROJECT, name):
            message = pb.LogGroupRaw()
            message.ParseFromString(base64.b64decode(entry["raw"]))
            for index, log in enumerate(message.Logs):
                identity = (int(entry["shard"]), int(entry["cursor"]), index)
                found[identity] = {c.Key: c.Value for c in log.Contents}
        return found

    def raws(self) -> dict[Identity, bytes]:
        """Every stored log's bytes, cut from its group as it was stored."""
        found: dict[Identity, bytes] = {}
        for entry in self.emulator.admin.dump(PROJECT, self.logstore.service.logstore):
            group = read_group(base64.b64decode(entry["raw"]))
            for index, log in enumerate(group.logs or ()):
                found[int(entry["shard"]), int(entry["cursor"]), index] = log.raw
        return found

    def proof(self, **asked: Any) -> Proof:
        """What `verify` says now; options go to it."""
        with self.client as client, Spread(self.engine).kept():
            return verify(self.logstore, self.lake, client, **asked)

    def assert_proved(self) -> None:
        """The table's own proof holds: sums, intervals, each row once."""
        proof = self.proof()
        assert proof.ok, proof

    def assert_each_log_once(self) -> None:
        """The table holds exactly the service's logs, each once, with its content."""
        truth = self.truth()
        landed = self.identities()
        assert set(landed) == set(truth)
        assert max(landed.values(), default=1) == 1
        by_identity = {(r["__shard__"], r["__cursor__"], r["__index__"]): r for r in self.table_rows()}
        raws = self.raws()
        guarded = {"drop", "hash"} & set(self.logstore.columns.values())
        for identity, pairs in truth.items():
            row = by_identity[identity]
            if row["__error__"] is None:
                assert content(row) == {k: v.decode() for k, v in pairs.items()}
            elif not guarded:
                assert row["__raw__"] == raws[identity], f"the kept bytes of {identity} are not the log's"

    def assert_sound(self) -> None:
        """The table holds each log once, and its own proof says the same."""
        self.assert_each_log_once()
        self.assert_proved()

    def assert_whole(self) -> None:
        """Nothing lost, nothing twice, and every checkpoint at its shard's frontier."""
        self.assert_sound()
        assert self.checkpoints() == {shard: entry.frontier for shard, entry in self.ledger.shards.items()}

    def assert_next_lands(self, rows: int) -> None:
        """The next run, of the same name in the group, lands exactly what is missing, and all is whole."""
        assert self.land().rows == rows
        self.assert_whole()

    def land_a_gap(self) -> LandingReport:
        """What is gone is younger than retention: a run suspects it, one a group timeout later names it."""
        assert self.land().suspects
        self.pass_by()
        return self.land()


@dataclass
class Pulls:
    """The PullLogs requests since `World.watch_pulls`."""

    emulator: Emulator
    fault: int

    @property
    def asked(self) -> list[tuple[str, int, int]]:
        """(logstore, shard, cursor) of each request, in order."""
        entry = next(f for f in self.emulator.admin.faults() if f["id"] == self.fault)
        assert entry["hits"] == len(entry["seen"]), "more requests than the emulator remembers"
        return [
            (x["logstore"], int(x["shard"]), int(cursor_from_wire(x["query"]["cursor"])))
            for x in entry["seen"]
        ]

    def assert_none_twice(self) -> None:
        """No page was pulled twice."""
        twice = [page for page, times in Counter(self.asked).items() if times > 1]
        assert not twice, f"pulled more than once: {twice}"


def new_world(
    emulator: Emulator,
    lake: Lake,
    engine: Engine,
    *,
    shards: int = 2,
    storage: Storage | None = None,
    **changes: Any,
) -> World:
    """A new project with the logstore `access_logs`; what changes are its settings."""
    logstore = logstore_settings(emulator, "access_logs", **changes)
    world = World(emulator, lake, logstore, engine, storage=storage)
    with world.client as client:
        client.transport.create_project(PROJECT, "")
        client.transport.create_logstore(PROJECT, "access_logs", ttl=30, shard_count=shards)
    return world


def content(row: Mapping[str, Any]) -> dict[str, str]:
    """The key-value pairs of a row, from declared columns and `__rest__`."""
    pairs = {k: str(v) for k, v in row.items() if not k.startswith("__") and v is not None}
    return {**pairs, **dict(row["__rest__"] or [])}


def patient(emulator: Emulator, name: str) -> Service:
    """The service for runs that a fault holds: they wait for its answer as long as a slow machine needs.

    Story: two runs were held while thirty were put into the queue. That took longer than four tries, the two
    failed, and what the test waited for could not come any more.
    """
    return Service(
        endpoint=emulator.endpoint, project=PROJECT, logstore=name, read_timeout_s=300.0, tries_max=20
    )


def logstore_settings(emulator: Emulator, name: str, **changes: Any) -> Logstore:
    """Settings of a logstore in the emulator, with short timings."""
    service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=name, tries_max=4)
    values: dict[str, Any] = {
        "service": service,
        "group": {
            "name": "lake",
            "timeout_s": 30,
            "heartbeat_s": 1,
            "patience_s": 5,
        },
        "table": f"bronze.{name}",
        "start": "2026-01-01-00:00",
        "columns": {"n": "long", "status": "int"},
        **changes,
    }
    return Logstore.model_validate(values)
