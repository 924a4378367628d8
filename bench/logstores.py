"""What the benches measure on: an emulator whose CPU is left out, with logstores full of access logs.

The quotas of the service (10 MB/s a shard) are off, since they would be all there is to see. The key pair is
the emulator's own, never the caller's.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from aliyun.log import log_logs_pb2 as pb

from pipelines.landing.table.home import HOME_VARIABLE
from sls_io.emulator import Emulator, Limits, start
from sls_io.emulator.limits import QUOTAS_OFF
from sls_io.emulator.parameters import MAX_SPLIT_SHARDS
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient

PROJECT = "bench"
LOGS_A_GROUP = 1000
TYPED = {"status": "int", "latency_ms": "double", "bytes": "long"}
"""Keys of an access log that are declared with a type; the others land in `__rest__`."""
KEYS = ("client", "method", "path", "status", "bytes", "latency_ms", "referer", "agent", "trace", "zone")
DECLARED = {key: TYPED.get(key, "string") for key in KEYS}
"""Each key of an access log with a column of its own."""
SEEDS = 128
"""Different groups of a logstore that is filled by size: 46 MB, more than a row group of a file."""
_DEFS = """type: pipelines.components.SlsLogstore
attributes:
  service: {{endpoint: "{endpoint}", project: {project}, logstore: {name}}}
  group: {{name: bench, heartbeat_s: 1, timeout_s: 30}}
  table: bench.{name}
  start: 2020-01-01-00:00
  columns: {columns}
  budget: {{settle_s: 0, bytes_max: 68719476736, seconds_max: 600, shard_mb_per_s: 10000}}
"""


@contextmanager
def bench_folder() -> Iterator[Path]:
    """A folder for all that a bench writes, and an environment that knows no other, for the time of the
    block. Before anything is started: what runs in processes of its own inherits it."""
    names = (HOME_VARIABLE, "ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET")
    before = {name: os.environ.get(name) for name in (*names, "ALIBABA_CLOUD_SECURITY_TOKEN")}
    with tempfile.TemporaryDirectory(prefix="sls-lake-bench-") as name:
        os.environ.update(zip(names, (name, FAKE_ID, FAKE_SECRET), strict=True))
        os.environ.pop("ALIBABA_CLOUD_SECURITY_TOKEN", None)
        try:
            yield Path(name)
        finally:
            for variable, value in before.items():
                os.environ.pop(variable, None)
                if value is not None:
                    os.environ[variable] = value


@contextmanager
def emulator_without_quotas(folder: Path, *, now_s: float | None = None) -> Iterator[Emulator]:
    """An emulator in a process of its own that keeps its data in `folder`."""
    with start(folder / "emulator", now=now_s, limits=Limits.model_validate(QUOTAS_OFF)) as emulator:
        yield emulator


def made(service: Service, *, shards: int) -> None:
    """An empty logstore of so many writable shards, and its project where that is not there. Those that were
    split are listed beside them, as more can only come so."""
    with SlsClient(service) as client:
        if not client.transport.list_project(project_name_pattern=service.project).get_count():
            client.transport.create_project(service.project, "")
        first = min(shards, MAX_SPLIT_SHARDS)
        client.transport.create_logstore(service.project, service.logstore, ttl=30, shard_count=first)
        while len(writable := [s for s in client.shards() if not s.readonly]) < shards:
            for shard in writable[: shards - len(writable)]:
                middle = (int(shard.begin_key, 16) + int(shard.end_key, 16)) // 2
                client.transport.split_shard(service.project, service.logstore, shard.id, f"{middle:032x}")


def put_rows(service: Service, rows: int, *, shards: int) -> None:
    """So many access logs, in whole groups, evenly over the shards' key ranges."""
    _put(service, (access_logs(number) for number in range(rows // LOGS_A_GROUP)), shards)


def put_mb(service: Service, raw_mb: int, *, shards: int) -> tuple[int, int]:
    """About `raw_mb` of access logs, as `put_rows`; (how many rows they are, raw bytes)."""

    def groups() -> Iterator[bytes]:
        stored, number = 0, 0
        while stored < raw_mb * 1_000_000:
            yield (body := _group(number % SEEDS))
            stored, number = stored + len(body), number + 1

    return _put(service, groups(), shards)


def _put(service: Service, groups: Iterable[bytes], shards: int) -> tuple[int, int]:
    rows = raw_bytes = 0
    with SlsClient(service) as client:
        for number, body in enumerate(groups):
            client.put_raw(body, key=f"{number % shards * 16 // shards:x}".ljust(32, "8"))
            rows, raw_bytes = rows + LOGS_A_GROUP, raw_bytes + len(body)
    # What came in a second that is not over waits for the next run, and a start can be quicker than that.
    SYSTEM_CLOCK.sleep(1.0)
    return rows, raw_bytes


@cache
def _group(seed: int) -> bytes:
    return access_logs(seed)


def access_logs(seed: int) -> bytes:
    """A serialised LogGroup of `LOGS_A_GROUP` logs, the same ones for the same seed but for their time."""
    message = pb.LogGroup()
    message.Topic, message.Source = "access", f"10.0.{seed}.1"
    now_s = int(SYSTEM_CLOCK.now())
    for i in range(LOGS_A_GROUP):
        n = seed * LOGS_A_GROUP + i
        log = message.Logs.add()
        log.Time = now_s
        values = (
            f"192.168.{n % 251}.{n * 7 % 253}",
            ("GET", "POST", "PUT")[n % 3],
            f"/api/v1/resource/{n * 7919 % 100_003}/items/{n % 97}",
            str((200, 200, 200, 304, 404, 500)[n % 6]),
            str(n * 104_729 % 1_000_000),
            f"{n * 31 % 10_000 / 7:.3f}",
            f"https://shop.example/goods/{n % 1009}/page/{n % 53}?session={n * 48271 % 2**31:x}",
            f"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537 Chrome/{90 + n % 40}.0 Safari/537.36",
            f"{n * 2654435761 % 2**64:016x}{n * 40503 % 2**64:016x}",
            f"cn-hangzhou-{'abcdef'[n % 6]}",
        )
        for key, value in zip(KEYS, values, strict=True):
            content = log.Contents.add()
            content.Key, content.Value = key, value
    return bytes(message.SerializeToString())


def defs_file(folder: Path, service: Service, columns: dict[str, str]) -> Path:
    """The settings of a logstore, as the command line reads them; its table is `bench.<logstore>`."""
    shown = "{" + ", ".join(f"{key}: {kind}" for key, kind in columns.items()) + "}"
    path = folder / f"{service.logstore}.yaml"
    path.write_text(
        _DEFS.format(endpoint=service.endpoint, project=service.project, name=service.logstore, columns=shown)
    )
    return path
