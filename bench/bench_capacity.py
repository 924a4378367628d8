"""Where a deployment meets its first limit: reckoned from what was measured, nothing is run.

    python -m bench.bench_capacity [--shards 10000] [--mb-s 5] [--every-s 300] [--cores 16] [--snapshots 20]

`--mb-s` is what each shard brings. Each limit says how much of it the load takes, and over how many parts it
must be dealt: projects of the service, tables (each a logstore, a group and a run of its own), processes that
run landings at the same time, code locations. Measured costs stand in `COSTS`, with the bench that says them.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.landing.maintenance.expiry import SNAPSHOTS_MIN
from sls_io.emulator.limits import Limits

MB = 1_000_000


@dataclass(frozen=True)
class Costs:
    """What was measured, of CPU on one core.

    row_ms         a raw MB to rows in a file (bench_ratio)
    run_s          a run in Dagster with a Spark of its own (bench_dagster)
    survey_ms      a shard, each run (bench_scale)
    publish_ms     a shard, each commit (bench_scale)
    checkpoint_ms  a shard, each run (bench_scale)
    ledger_bytes   a shard and snapshot in the table's metadata (bench_scale)
    stored         bytes in files for each raw byte (bench_files)
    compact_s      a GB of files (bench_files)
    history_bytes  a run, in Dagster's storage (bench_prune)
    load_ms        a logstore, when a code location loads (bench_dagster)
    """

    row_ms: float = 10.4
    run_s: float = 9.7
    survey_ms: float = 3.0
    publish_ms: float = 0.15
    checkpoint_ms: float = 0.7
    ledger_bytes: int = 120
    stored: float = 0.11
    compact_s: float = 52.0
    history_bytes: int = 250_000
    load_ms: float = 31.0


COSTS = Costs()
METADATA_BYTES_MAX = 20 * MB
"""Each commit writes the metadata, and each reader loads it."""
DRIVER_PART_MAX = 0.25
"""What is done one shard after another may take so much of the time between two runs."""
LOAD_S_MAX = 10.0


@dataclass(frozen=True)
class Load:
    """Shards that bring so many raw MB a second each, landed each `every_s` seconds by machines of so many
    cores, in tables that keep so many snapshots: the fewest that a maintenance leaves."""

    shards: int
    mb_s: float
    every_s: float
    cores: int
    snapshots: int

    @property
    def raw_mb_s(self) -> float:
        """Of all shards."""
        return self.shards * self.mb_s


@dataclass(frozen=True)
class Limit:
    """What is met: `used` of `most`, both in `unit`, and over how many `parts` of a kind it is dealt."""

    name: str
    used: float
    most: float
    unit: str
    of: str

    @property
    def parts(self) -> int:
        """The fewest that hold the load."""
        return max(1, math.ceil(self.used / self.most))


def limits_of(load: Load, costs: Costs = COSTS) -> Iterator[Limit]:
    """Each limit that grows with the load."""
    quota = Limits()
    yield Limit("read of a shard", load.mb_s, quota.shard_read_bytes_per_s / MB, "MB/s", "shards")
    written = load.raw_mb_s * 60
    yield Limit("written to a project", written, quota.project_write_bytes_per_min / MB, "MB/min", "projects")
    pages = load.raw_mb_s * MB / quota.page_bytes_max * 60
    asked = pages + load.shards * _CALLS_A_SHARD * 60 / load.every_s
    yield Limit("read calls of a project", asked, quota.project_read_calls_per_min, "calls/min", "projects")
    metadata = costs.ledger_bytes * load.shards * load.snapshots / MB
    yield Limit("metadata of a table", metadata, METADATA_BYTES_MAX / MB, "MB", "tables")
    one_by_one = (costs.survey_ms + costs.publish_ms + costs.checkpoint_ms) * load.shards / 1000
    yield Limit("driver of a run", one_by_one, DRIVER_PART_MAX * load.every_s, "CPU s", "tables")
    rows = costs.row_ms / 1000 * load.raw_mb_s
    yield Limit("rows", rows, load.cores, "cores", "machines")


_CALLS_A_SHARD = 6
"""Two ends, edges of two receive hours, a heartbeat and a checkpoint."""


@dataclass(frozen=True)
class Deployment:
    """What holds a load."""

    projects: int
    tables: int
    machines: int
    cores: float
    code_locations: int
    runs_an_hour: float
    history_mb_a_day: float
    stored_gb_a_day: float
    compaction_core_h_a_day: float


def deployment(load: Load, costs: Costs = COSTS) -> Deployment:
    """The fewest parts that keep every limit."""
    fewest = dict[str, int]()
    for limit in limits_of(load, costs):
        fewest[limit.of] = max(fewest.get(limit.of, 1), limit.parts)
    tables = max(fewest["tables"], fewest["projects"])
    runs = tables * 3600 / load.every_s
    cores = costs.row_ms / 1000 * load.raw_mb_s + runs / 3600 * costs.run_s
    stored = load.raw_mb_s * costs.stored * 86_400 / 1000
    return Deployment(
        projects=fewest["projects"],
        tables=tables,
        machines=math.ceil(cores / load.cores),
        cores=cores,
        code_locations=max(1, math.ceil(tables * costs.load_ms / 1000 / LOAD_S_MAX)),
        runs_an_hour=runs,
        history_mb_a_day=runs * 24 * costs.history_bytes / MB,
        stored_gb_a_day=stored,
        compaction_core_h_a_day=stored * costs.compact_s / 3600,
    )


def main(load: Load) -> None:
    """Print both tables."""
    print(f"{load.shards:,} shards of {load.mb_s:g} MB/s each, landed each {load.every_s:g} s\n")
    print(f"{'limit':28}{'takes':>14}{'one holds':>14}  {'unit':12}{'so many':>9}")
    for limit in limits_of(load):
        takes = f"{limit.used:14,.1f}{limit.most:14,.1f}"
        print(f"{limit.name:28}{takes}  {limit.unit:12}{limit.parts:9,} {limit.of}")
    found = deployment(load)
    print(f"\n{found.projects:,} projects, {found.tables:,} tables of {load.shards // found.tables:,} shards")
    print(f"{found.cores:,.0f} cores ({found.machines:,} machines), {found.code_locations} code locations")
    print(f"{found.runs_an_hour:,.0f} runs an hour, {found.history_mb_a_day:,.0f} MB of their history a day")
    print(f"{found.stored_gb_a_day:,.0f} GB of files a day")
    print(f"{found.compaction_core_h_a_day:,.0f} core hours a day to compact them")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.bench_capacity", description=__doc__)
    parser.add_argument("--shards", type=int, default=10_000)
    parser.add_argument("--mb-s", type=float, default=5.0)
    parser.add_argument("--every-s", type=float, default=300.0)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--snapshots", type=int, default=SNAPSHOTS_MIN)
    asked = parser.parse_args()
    main(Load(asked.shards, asked.mb_s, asked.every_s, asked.cores, asked.snapshots))
