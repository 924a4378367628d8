"""`python -m bench`: what a landing costs, in CPU seconds, paired with the limit of one core.

Lands 400 MB and 1,600 MB raw from an emulator in a process of its own, whose CPU is left out, with a
warm Spark. Counted is the CPU of everything else: this driver, the JVM, the Python workers. The
marginal figure is the difference of the two runs, so fixed costs cancel out. The same pages then go
through a plain loop of pull, decode and Parquet in one process without Spark: the limit of one core.

What is measured is our CPU, so the quotas of the service (10 MB/s a shard) are off in this emulator and
`budget.shard_mb_per_s` is beyond reach; in production a shard's quota binds long before a core does.
"""

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from aliyun.log import log_logs_pb2 as pb

from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.run.report import LandingReport
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import HOME_VARIABLE, Lake
from sls_io.client import Page, SlsClient
from sls_io.clock import SYSTEM_CLOCK
from sls_io.decoding.decode import Decoder
from sls_io.emulator import Limits, start
from sls_io.emulator.limits import QUOTAS_OFF
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.settings import Service

PROJECT = "bench"
SHARDS = 4
LOGS_A_GROUP = 1000
COLUMNS = {"status": "int", "latency_ms": "double", "bytes": "long"}
ROW_GROUP_BYTES = 48 * 1024 * 1024
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """One landing: raw bytes, CPU seconds of all but the emulator, wall seconds."""

    raw_bytes: int
    cpu_s: float
    wall_s: float
    report: LandingReport

    @property
    def mb_per_cpu_s(self) -> float:
        """Raw megabytes a CPU second."""
        return self.raw_bytes / 1e6 / self.cpu_s


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--small-mb", type=int, default=400)
    parser.add_argument("--large-mb", type=int, default=1600)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sls-lake-bench-") as folder:
        os.environ[HOME_VARIABLE] = folder
        # The emulator's own pair, before it and Spark's workers start: never the caller's.
        os.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"] = FAKE_ID
        os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = FAKE_SECRET
        os.environ.pop("ALIBABA_CLOUD_SECURITY_TOKEN", None)
        measure(Path(folder), options.small_mb, options.large_mb)


def measure(folder: Path, small_mb: int, large_mb: int) -> None:
    """Fill three logstores, land them one after the other, print."""
    engine = Engine()
    with start(folder / "emulator", limits=Limits.model_validate(QUOTAS_OFF)) as emulator:
        sizes = {"warm-up": 200, "small": small_mb, "large": large_mb}
        stores = {name: _logstore(emulator.endpoint, name) for name in sizes}
        for name, mb in sizes.items():
            _fill(stores[name], mb)
            print(f"stored {mb} MB raw in {name}")
        _land(stores["warm-up"], engine, emulator.pid)
        small = _land(stores["small"], engine, emulator.pid)
        large = _land(stores["large"], engine, emulator.pid)
        idle = _land(stores["large"], engine, emulator.pid)
        limit = _limit(stores["small"], folder / "limit.parquet")
    engine.stop()
    marginal = (large.raw_bytes - small.raw_bytes) / 1e6 / (large.cpu_s - small.cpu_s)
    print("quotas of the service: off, else 10 MB/s of each shard would be all there is to see")
    for name, cost in (("small", small), ("large", large)):
        print(
            f"{name:>8}: {cost.raw_bytes / 1e6:8.0f} MB raw  {cost.report.rows:>9,} rows  "
            f"{cost.cpu_s:6.2f} CPU s  {cost.wall_s:6.2f} s wall  {cost.mb_per_cpu_s:6.1f} MB per CPU s"
        )
    print(f"marginal: {marginal:.1f} raw MB per CPU second (target 80)")
    print(f"limit of one core, the same pages without Spark: {limit:.1f} raw MB per CPU second")
    print(f"marginal / limit: {marginal / limit:.2f} (target 0.5)")
    print(f"peak memory of a task: {large.report.peak_bytes / 1e6:.0f} MB")
    print(f"warm micro-batch with no new data: {idle.cpu_s:.2f} CPU s, {idle.wall_s:.2f} s wall")


def _logstore(endpoint: str, name: str) -> Logstore:
    service = Service(endpoint=endpoint, project=PROJECT, logstore=f"{name}-logs")
    group = {"name": "bench", "heartbeat_s": 1, "heartbeat_deadline_s": 1, "timeout_s": 60}
    return Logstore.model_validate(
        {
            "service": service,
            "group": group,
            "table": f"bench.{name.replace('-', '_')}",
            "start": "2020-01-01-00:00",
            "columns": COLUMNS,
            "budget": {
                "settle_s": 0,
                "bytes_max": 64 * 1024**3,
                "seconds_max": 600,
                "shard_mb_per_s": 10_000,
            },
        }
    )


def _fill(logstore: Logstore, raw_mb: int) -> None:
    """About `raw_mb` of access-log-like groups, evenly over the shards' key ranges."""
    with SlsClient(logstore.service) as client:
        if not client.transport.list_project(project_name_pattern=PROJECT).get_count():
            client.transport.create_project(PROJECT, "")
        name = logstore.service.logstore
        client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=SHARDS)
        groups = [access_logs(seed) for seed in range(8)]
        stored, number = 0, 0
        while stored < raw_mb * 1_000_000:
            body = groups[number % len(groups)]
            client.put_raw(body, key=f"{number % SHARDS * 16 // SHARDS:x}".ljust(32, "8"))
            stored += len(body)
            number += 1


def access_logs(seed: int) -> bytes:
    """A serialised LogGroup of `LOGS_A_GROUP` logs, the same ones for the same seed but for their time."""
    message = pb.LogGroup()
    message.Topic, message.Source = "access", f"10.0.{seed}.1"
    now_s = int(SYSTEM_CLOCK.now())
    for i in range(LOGS_A_GROUP):
        n = seed * LOGS_A_GROUP + i
        log = message.Logs.add()
        log.Time = now_s
        values = {
            "client": f"192.168.{n % 251}.{n * 7 % 253}",
            "method": ("GET", "POST", "PUT")[n % 3],
            "path": f"/api/v1/resource/{n * 7919 % 100_003}/items/{n % 97}",
            "status": str((200, 200, 200, 304, 404, 500)[n % 6]),
            "bytes": str(n * 104_729 % 1_000_000),
            "latency_ms": f"{n * 31 % 10_000 / 7:.3f}",
            "referer": f"https://shop.example/goods/{n % 1009}/page/{n % 53}?session={n * 48271 % 2**31:x}",
            "agent": f"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537 Chrome/{90 + n % 40}.0 Safari/537.36",
            "trace": f"{n * 2654435761 % 2**64:016x}{n * 40503 % 2**64:016x}",
            "zone": f"cn-hangzhou-{'abcdef'[n % 6]}",
        }
        for key, value in values.items():
            content = log.Contents.add()
            content.Key, content.Value = key, value
    return bytes(message.SerializeToString())


def _land(logstore: Logstore, engine: Engine, emulator_pid: int) -> Cost:
    begun_s, cpu_s = SYSTEM_CLOCK.monotonic(), _tree_cpu_s(emulator_pid)
    with Run(logstore, engine) as run:
        report = run.land()
        if not run.reconcile().ok:
            raise SystemExit("the landing does not add up; the figures would mean nothing")
        run.checkpoint()
    return Cost(
        raw_bytes=report.raw_bytes,
        cpu_s=_tree_cpu_s(emulator_pid) - cpu_s,
        wall_s=SYSTEM_CLOCK.monotonic() - begun_s,
        report=report,
    )


def _limit(logstore: Logstore, path: Path) -> float:
    """Raw MB per CPU second of decompress, decode and Parquet over pages held in memory."""
    table = Lake.default().load(logstore.table)
    if table is None:
        raise SystemExit("nothing was landed")
    contract = Contract.from_columns(logstore.columns)
    pages = _pages(logstore)
    hour = int(SYSTEM_CLOCK.now()) // 3600
    # Once to get warm, as the landing is: the first pass pays for code and memory seen first.
    _plain_loop(contract.decoder("bench", table.schema()), pages, hour, path)
    cpu_s = _own_cpu_s()
    _plain_loop(contract.decoder("bench", table.schema()), pages, hour, path)
    return sum(p.raw_bytes for p in pages) / 1e6 / (_own_cpu_s() - cpu_s)


def _plain_loop(decoder: Decoder, pages: list[Page], hour: int, path: Path) -> None:
    with pq.ParquetWriter(path, decoder.schema, compression="zstd", compression_level=1) as writer:
        batches: list[pa.RecordBatch] = []
        for page in pages:
            batches.append(decoder.decode(page, hour=hour).batch)
            if sum(b.nbytes for b in batches) >= ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(batches), row_group_size=1 << 20)
                batches = []
        if batches:
            writer.write_table(pa.Table.from_batches(batches), row_group_size=1 << 20)


def _pages(logstore: Logstore) -> list[Page]:
    pages: list[Page] = []
    with SlsClient(logstore.service) as client:
        for shard in client.shards():
            head = client.head(shard)
            at = head.begin
            while at < head.end:
                pages.append(client.pull(shard.id, at, end=head.end))
                at = pages[-1].next
    return pages


def _own_cpu_s() -> float:
    times = os.times()
    return times.user + times.system


def _tree_cpu_s(but: int) -> float:
    """CPU seconds of this process and its descendants, ended ones included, without `but`."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:  # it ended between the listing and the look
            continue
        fields = text.rpartition(")")[2].split()
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(int(fields[i]) for i in (11, 12, 13, 14))
    mine = {os.getpid()}
    while more := {p for p, parent in parents.items() if parent in mine and p not in mine and p != but}:
        mine |= more
    return sum(ticks[p] for p in mine) / TICKS_PER_S


if __name__ == "__main__":
    main()
