"""One logstore in a real emulator, one lake on disk, and the truth to compare them with.

The truth is the emulator's own stored log, read over its admin path and parsed with the vendor's
protobuf classes: no code of fetch, decode or landing takes part in it.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aliyun.log import log_logs_raw_pb2 as pb

from pipelines.landing.engine import Engine
from pipelines.landing.logstore import Logstore
from pipelines.landing.report import LandingReport
from pipelines.landing.run import Run
from pipelines.landing.table import Lake
from sls_io.client import SlsClient
from sls_io.emulator import Emulator
from sls_io.settings import Service

PROJECT = "demo"
HOUR0_S = 1_790_000_000 // 3600 * 3600
"""A receive hour all tests begin in."""

Identity = tuple[int, int, int]


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
    """What a test needs to make the service and the table tell their story."""

    emulator: Emulator
    lake: Lake
    logstore: Logstore
    engine: Engine
    counter: int = 0
    reports: list[LandingReport] = field(default_factory=list)

    @property
    def client(self) -> SlsClient:
        """A fresh client of the logstore."""
        return SlsClient(self.logstore.service)

    def at(self, time_s: float) -> None:
        """Set the service's clock."""
        self.emulator.admin.set_clock(time_s)

    def put(self, rows: int, *, key: str | None = None, logs_a_group: int = 5, value: str = "200") -> None:
        """Put `rows` numbered logs, spread over the key space unless `key` names a place in it."""
        with self.client as client:
            for begin in range(0, rows, logs_a_group):
                numbers = range(self.counter + begin, self.counter + min(begin + logs_a_group, rows))
                logs = [{"n": str(n), "status": value, "path": f"/p/{n % 7}"} for n in numbers]
                at = key if key is not None else f"{(begin * 2654435761) % 2**32:08x}".ljust(32, "0")
                client.put_raw(group(logs), key=at)
        self.counter += rows

    def run(self, **options: Any) -> Run:
        """A run on this world; options go to `Run`."""
        return Run(
            options.pop("logstore", self.logstore),
            self.engine,
            lake=options.pop("lake", self.lake),
            **options,
        )

    def land(self, **options: Any) -> LandingReport:
        """A whole run: land, check, checkpoint."""
        with self.run(**options) as run:
            report = run.land()
            verdict = run.reconcile()
            assert verdict.ok, verdict.problems
            run.checkpoint()
        self.reports.append(report)
        return report

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

    def assert_each_log_once(self) -> None:
        """The table holds exactly the service's logs, each once, with its content."""
        truth = self.truth()
        landed = self.identities()
        assert set(landed) == set(truth)
        assert max(landed.values(), default=1) == 1
        by_identity = {(r["__shard__"], r["__cursor__"], r["__index__"]): r for r in self.table_rows()}
        for identity, pairs in truth.items():
            row = by_identity[identity]
            if row["__error__"] is None:
                assert content(row) == {k: v.decode() for k, v in pairs.items()}


def content(row: Mapping[str, Any]) -> dict[str, str]:
    """The key-value pairs of a row, from declared columns and `__rest__`."""
    pairs = {k: str(v) for k, v in row.items() if not k.startswith("__") and v is not None}
    return {**pairs, **dict(row["__rest__"] or [])}


def logstore_settings(emulator: Emulator, name: str, **changes: Any) -> Logstore:
    """Settings of a logstore in the emulator, with short timings."""
    service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=name, tries_max=4)
    values: dict[str, Any] = {
        "service": service,
        "group": {
            "name": "lake",
            "timeout_s": 30,
            "heartbeat_s": 1,
            "heartbeat_deadline_s": 1,
            "patience_s": 5,
        },
        "table": f"bronze.{name}",
        "start": "2026-01-01-00:00",
        "columns": {"n": "long", "status": "int"},
        **changes,
    }
    return Logstore.model_validate(values)
