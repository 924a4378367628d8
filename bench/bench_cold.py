"""What a cold run costs: `python -m bench.bench_cold`. A micro-batch every five minutes pays this each time.

`sls-lake land` as a person starts it, in a process of its own, with nothing warm, from an emulator whose CPU
is left out. The CPU of every process it starts is sampled from /proc until the last of them has ended: a
Python worker is reaped by Spark's daemon, so its time never shows in the account of its parent.
"""

import argparse
from pathlib import Path
from statistics import median

from bench import history
from bench.logstores import PROJECT, TYPED, bench_folder, defs_file, emulator_without_quotas, made, put_rows
from bench.processes import Spent, measured, program
from sls_io.values.settings import Service

SHARDS = 2


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_cold", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 200_000])
    parser.add_argument("--rounds", type=int, default=3)
    history.add_flag(parser)
    options = parser.parse_args()
    figures = {}
    with bench_folder() as folder, emulator_without_quotas(folder) as emulator:
        for rows in options.rows:
            names = [f"logs_{rows}_{number}" for number in range(options.rounds)]
            rounds = [_round(emulator.endpoint, folder, name, rows) for name in names]
            figures[f"{rows}_rows_cpu_s"] = median(spent.all_cpu_s for spent in rounds)
            figures[f"{rows}_rows_wall_s"] = median(spent.wall_s for spent in rounds)
            figures[f"{rows}_rows_memory_mb"] = median(spent.peak_bytes / 1e6 for spent in rounds)
    if options.record:
        history.record("bench_cold", figures)


def _round(endpoint: str, folder: Path, name: str, rows: int) -> Spent:
    """Fill a logstore of its own, land it cold, print what each kind of process cost."""
    service = Service(endpoint=endpoint, project=PROJECT, logstore=name)
    made(service, shards=SHARDS)
    put_rows(service, rows, shards=SHARDS)
    spent = measured([program("sls-lake"), "land", "--json", "-l", str(defs_file(folder, service, TYPED))])
    if f'"rows": {rows}' not in spent.said:
        raise SystemExit(f"the landing brought other than {rows} rows: {spent.said[-500:]}")
    parts = "  ".join(f"{kind} {cpu_s:5.2f}" for kind, cpu_s in sorted(spent.cpu_s.items()))
    print(
        f"{rows:>8,} rows: {spent.all_cpu_s:6.2f} CPU s  {spent.wall_s:6.2f} s wall  "
        f"{spent.peak_bytes / 1e6:5,.0f} MB memory  ({parts})",
        flush=True,
    )
    return spent


if __name__ == "__main__":
    main()
