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
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench import history
from bench.logstores import PROJECT, TYPED, bench_folder, defs_file, emulator_without_quotas, made, put_mb
from bench.phases import own_cpu_s
from bench.processes import Watch
from pipelines.landing.logstore import Logstore, load_logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.run.report import LandingReport
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import Lake
from sls_io.decoding.decode import Decoder
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient
from sls_io.wire.page import Page

SHARDS = 4
SAMPLE_S = 0.5
ROW_GROUP_BYTES = 48 * 1024 * 1024


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
    history.add_flag(parser)
    options = parser.parse_args()
    with bench_folder() as folder:
        figures = measure(folder, options.small_mb, options.large_mb)
    if options.record:
        history.record("bench", figures)


def measure(folder: Path, small_mb: int, large_mb: int) -> dict[str, float]:
    """Fill three logstores, land them one after the other, print; the figures by name."""
    engine = Engine()
    with emulator_without_quotas(folder) as emulator:
        watch = Watch(os.getpid(), but=(emulator.pid,), every_s=SAMPLE_S)
        stores = {}
        for name, mb in {"warmup": 200, "small": small_mb, "large": large_mb}.items():
            service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=name)
            made(service, shards=SHARDS)
            put_mb(service, mb, shards=SHARDS)
            stores[name] = load_logstore(defs_file(folder, service, TYPED))
            print(f"stored {mb} MB raw in {name}")
        with watch.sampling():
            _land(stores["warmup"], engine, watch)
            small = _land(stores["small"], engine, watch)
            large = _land(stores["large"], engine, watch)
            idle = _land(stores["large"], engine, watch)
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
    return {
        "large_mb": large.raw_bytes / 1e6,
        "marginal_mb_per_cpu_s": marginal,
        "limit_mb_per_cpu_s": limit,
        "task_memory_mb": large.report.peak_bytes / 1e6,
        "idle_cpu_s": idle.cpu_s,
    }


def _land(logstore: Logstore, engine: Engine, watch: Watch) -> Cost:
    begun_s, cpu_s = SYSTEM_CLOCK.monotonic(), watch.cpu_s()
    with Run(logstore, engine) as run:
        report = run.land()
        if not run.reconcile().ok:
            raise SystemExit("the landing does not add up; the figures would mean nothing")
        run.checkpoint()
    return Cost(
        raw_bytes=report.raw_bytes,
        cpu_s=watch.cpu_s() - cpu_s,
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
    cpu_s = own_cpu_s()
    _plain_loop(contract.decoder("bench", table.schema()), pages, hour, path)
    return sum(p.raw_bytes for p in pages) / 1e6 / (own_cpu_s() - cpu_s)


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


if __name__ == "__main__":
    main()
