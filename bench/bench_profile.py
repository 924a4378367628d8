"""Where the CPU of a landing goes: `make bench LANE=profile`, or `python -m bench.bench_profile --mb 200`.

One landing's classes in one process, without a Spark, from an emulator whose CPU is left out. Each phase is
its own CPU, what it calls counts as the called one's; so the phases add up. Two workers that share caches pay
some tenths more for each, and a run pays its start beside them (`bench_cold`).
"""

import argparse

from bench import history, phases
from bench.logstores import (
    DECLARED,
    PROJECT,
    bench_folder,
    defs_file,
    emulator_without_quotas,
    made,
    put_mb,
)
from pipelines.landing.logstore import load_logstore
from sls_io.values.settings import Service

SHARDS = 4


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_profile", description=__doc__)
    parser.add_argument("--mb", type=int, default=200, help="raw")
    history.add_flag(parser)
    options = parser.parse_args()
    with bench_folder() as folder, emulator_without_quotas(folder) as emulator:
        service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=f"logs_{options.mb}")
        made(service, shards=SHARDS)
        rows, raw_bytes = put_mb(service, options.mb, shards=SHARDS)
        of_rows, once = phases.where_it_goes(load_logstore(defs_file(folder, service, DECLARED)))
    whole = sum(of_rows.values())
    print(f"{raw_bytes / 1e6:,.0f} MB raw, {rows:,} rows: {1000 / whole:,.0f} MB a CPU second")
    print(f"{'CPU of rows':14}{'ms a raw MB':>12}{'part':>8}")
    for name, ms in of_rows.items():
        print(f"{name:14}{ms:>12.2f}{ms / whole:>8.0%}  {phases.OF_ROWS[name]}")
    print(f"{'once a landing':14}{'CPU ms':>12}")
    for name, ms in sorted(once.items(), key=lambda item: -item[1]):
        print(f"{name:14}{ms:>12.0f}")
    if options.record:
        history.record("bench_profile", {f"{name}_cpu_ms_per_mb": ms for name, ms in of_rows.items()})


if __name__ == "__main__":
    main()
