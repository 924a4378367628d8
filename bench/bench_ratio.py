"""A landing beside the vendor's Python consumer with PyIceberg: `python -m bench.bench_ratio`.

For each size, one after the other and on the same pages of the same emulator, whose CPU is left out: a cold
`sls-lake land`, and `python_consumer.py`, each in a process of its own with all that this starts. Both type
the same columns, write the same rows in the same partitioning, and save checkpoints. DuckDB then reads the
files of both tables: the bench ends when rows or content differ.

*Whole* is what a size costs from nothing. *Marginal* is the slope between the smallest and the largest size,
so what is paid once a run cancels out. Ratios are the consumer's CPU over ours. A machine that is busy makes
both worse, and unevenly: wall time says nothing then, and CPU seconds are those of shared cores.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from bench import history, phases
from bench.logstores import (
    DECLARED,
    KEYS,
    PROJECT,
    bench_folder,
    defs_file,
    emulator_without_quotas,
    made,
    put_mb,
)
from bench.processes import Spent, measured, program
from bench.python_consumer import CATALOG, WAYS
from pipelines.landing.logstore import load_logstore
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Service
from sls_io.values.window import HOUR_S

OURS = "sls-lake land"
SHARDS = 4
TARGETS = {"whole": 1.5, "marginal": 6.0}
_CONTENT = ", ".join(("epoch_us(__time__)", "__topic__", "__source__", *KEYS))


@dataclass(frozen=True)
class Size:
    """One size: raw MB, rows, and who -> what it cost."""

    raw_mb: float
    rows: int
    spent: dict[str, Spent] = field(default_factory=dict)


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_ratio", description=__doc__)
    parser.add_argument("--mb", type=int, nargs="+", default=[50, 200, 400], help="sizes, raw")
    parser.add_argument("--way", choices=WAYS, action="append", help="of the consumer; default: each")
    history.add_flag(parser)
    options = parser.parse_args()
    ways = options.way or list(WAYS)
    with bench_folder() as folder, emulator_without_quotas(folder) as emulator:
        sizes = [_size(emulator, folder, raw_mb, ways) for raw_mb in sorted(options.mb)]
        largest = folder / f"logs_{max(options.mb)}.yaml"
        figures = {**compared(sizes), **_where_it_goes(largest)}
    if options.record:
        history.record("bench_ratio", figures)


def _size(emulator: Emulator, folder: Path, raw_mb: int, ways: Sequence[str]) -> Size:
    """Fill a logstore, let each land it, print what it cost; SystemExit when the tables differ."""
    service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=f"logs_{raw_mb}")
    made(service, shards=SHARDS)
    rows, raw_bytes = put_mb(service, raw_mb, shards=SHARDS)
    print(f"{raw_bytes / 1e6:,.0f} MB raw, {rows:,} rows", flush=True)
    size = Size(raw_bytes / 1e6, rows)
    defs = defs_file(folder, service, DECLARED)
    size.spent[OURS] = _shown(OURS, measured([program("sls-lake"), "land", "--json", "-l", str(defs)]))
    table = Lake.default().load(f"bench.{service.logstore}")
    expected = _content(table) if table is not None else (0, 0)
    if expected[0] != rows:
        raise SystemExit(f"{OURS} landed {expected[0]:,} rows of {rows:,}: {size.spent[OURS].said}")
    for way in ways:
        place = f"sqlite:///{folder}/{way}.sqlite", f"file://{folder}/{way}"
        name = f"bench.{service.logstore}"
        command = [sys.executable, "-m", "bench.python_consumer", way, PROJECT, service.logstore, *place]
        command += [name, str(int(SYSTEM_CLOCK.now()) // HOUR_S * HOUR_S), str(rows)]
        size.spent[way] = _shown(f"consumer, {way}", measured(command, http_proxy=emulator.endpoint))
        catalog = load_catalog(CATALOG, type="sql", uri=place[0], warehouse=place[1])
        found = _content(catalog.load_table(name))
        if found != expected:
            raise SystemExit(f"rows and content differ: {OURS} {expected}, consumer ({way}) {found}")
    print(f"    each has {expected[0]:,} rows, content sum {expected[1] % 2**64:016x}", flush=True)
    return size


def _shown(who: str, spent: Spent) -> Spent:
    parts = "  ".join(f"{kind} {cpu_s:.2f}" for kind, cpu_s in sorted(spent.cpu_s.items()) if cpu_s >= 0.01)
    print(
        f"    {who:18} {spent.all_cpu_s:7.2f} CPU s  {spent.wall_s:6.1f} s wall  "
        f"{spent.peak_bytes / 1e6:6,.0f} MB memory  ({parts})",
        flush=True,
    )
    return spent


def _content(table: Table) -> tuple[int, int]:
    """(rows, a sum of hashes of what the logs said), read from the table's files by another engine."""
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    if not files:
        return 0, 0
    query = f"SELECT count(*), sum(hash({_CONTENT})::HUGEINT) FROM read_parquet(?)"
    with duckdb.connect() as connection:
        (found,) = connection.execute(query, [files]).fetchall()
    return int(found[0]), int(found[1])


def compared(sizes: Sequence[Size]) -> dict[str, float]:
    """Print whole and marginal, as ratios; the figures by name. Sizes in order, the smallest first."""
    small, large = sizes[0], sizes[-1]
    mb = large.raw_mb - small.raw_mb
    marginal_s = {who: (large.spent[who].all_cpu_s - small.spent[who].all_cpu_s) for who in large.spent}
    figures = {"large_mb": large.raw_mb, "ours_whole_cpu_s": large.spent[OURS].all_cpu_s}
    figures["ours_wall_s"] = large.spent[OURS].wall_s
    figures["ours_memory_mb"] = large.spent[OURS].peak_bytes / 1e6
    if mb > 0:
        figures["ours_marginal_cpu_ms_per_mb"] = marginal_s[OURS] / mb * 1000
    for way in (who for who in large.spent if who != OURS):
        whole = large.spent[way].all_cpu_s / large.spent[OURS].all_cpu_s
        figures |= {f"{way}_whole_cpu_s": large.spent[way].all_cpu_s, f"{way}_whole_ratio": whole}
        who = f"consumer, {way}"
        print(f"whole, {large.raw_mb:,.0f} MB: {who} / ours {whole:.2f} (target {TARGETS['whole']:g})")
        if mb > 0:
            ratio, its_ms = marginal_s[way] / max(marginal_s[OURS], 0.01), marginal_s[way] / mb * 1000
            figures |= {f"{way}_marginal_cpu_ms_per_mb": its_ms, f"{way}_marginal_ratio": ratio}
            print(
                f"marginal, {small.raw_mb:,.0f} to {large.raw_mb:,.0f} MB: {who} / ours {ratio:.2f} "
                f"(target {TARGETS['marginal']:g}), CPU ms a raw MB: "
                f"{its_ms:.1f} / {marginal_s[OURS] / mb * 1000:.1f}"
            )
    return figures


def _where_it_goes(defs: Path) -> dict[str, float]:
    """Print the phases of a landing; the figures by name."""
    of_rows, once = phases.where_it_goes(load_logstore(defs))
    print("rows, without Spark, CPU ms a raw MB:  " + "  ".join(f"{k} {v:.2f}" for k, v in of_rows.items()))
    print("once a landing, CPU ms:  " + "  ".join(f"{k} {v:.0f}" for k, v in once.items()), flush=True)
    return {f"{name}_cpu_ms_per_mb": value for name, value in of_rows.items()} | {
        "commit_cpu_ms": once.get("publish", 0.0)
    }


if __name__ == "__main__":
    main()
