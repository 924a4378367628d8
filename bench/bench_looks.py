"""What looking at a table costs as its files and receive hours grow: CPU seconds at each doubling.

    python -m bench.bench_looks [--files 25600] [--shards 128] [--record]

Each landing brings a file of one row a shard, and four landings are an hour. Nothing is compacted or expired.
CPU seconds are this process's own, all threads, without a Spark; the service is a process of its own. A
growth is linear where a figure doubles with the files. `metadata` and `manifests` are MB that a reader loads.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from bench.bench_scale import doubled, landed, prepared
from bench.bench_ticks import NOW_S
from bench.history import add_flag, record
from bench.logstores import bench_folder, emulator_without_quotas
from bench.phases import own_cpu_s
from pipelines.landing.inspection.describe import describe
from pipelines.landing.inspection.table_files import hours_of
from pipelines.landing.inspection.verify import verify
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.wear import wear
from sls_io.wire.client import SlsClient

EFFECTS = ("survey", "publish", "reconcile")
_A_QUARTER_S = 900


def main(files_max: int, shards: int) -> dict[str, float]:
    """Measure and print; the figures at each number of files."""
    figures = dict[str, float]()
    with bench_folder() as folder, emulator_without_quotas(folder, now_s=NOW_S) as emulator:
        logstore = prepared(folder, emulator, "looked_at", shards)
        names = (*EFFECTS, *looks(logstore), "metadata", "manifests")
        print(f"{'files':>8}{'hours':>7}" + "".join(f"{name:>13}" for name in names), flush=True)
        wanted = {-(-files // shards): files for files in doubled(8 * shards, files_max)}
        for number in range(1, max(wanted) + 1):
            spent = landed(logstore, emulator, shards, step_s=_A_QUARTER_S)
            if number in wanted:
                found = {name: spent.get(name, 0.0) for name in EFFECTS} | measured(logstore)
                print(
                    f"{number * shards:8,}{number // 4:7,}"
                    + "".join(f"{found[name]:13.3f}" for name in names),
                    flush=True,
                )
                figures |= {f"{wanted[number]}_files_{name}": value for name, value in found.items()}
    return figures


def looks(logstore: Logstore) -> dict[str, Callable[[SlsClient], object]]:
    """What looks at a table, by its name."""
    lake = Lake.default()
    return {
        "verify": lambda client: verify(logstore, lake, client),
        "describe": lambda client: describe(logstore, lake, client),
        "hour files": lambda client: hours_of(logstore, lake),
        "maintain": lambda client: Maintainer(logstore, lake).plan(["compact", "manifests", "expire"]),
        "wear": lambda client: wear(lake.load(logstore.table)),
    }


def measured(logstore: Logstore) -> dict[str, float]:
    """CPU seconds of each look, and what a reader loads before anything else."""
    found = dict[str, float]()
    with SlsClient(logstore.service) as client:
        for name, look in looks(logstore).items():
            before = own_cpu_s()
            look(client)
            found[name] = own_cpu_s() - before
    table = Lake.default().load(logstore.table)
    head = table.current_snapshot() if table else None
    if table is None or head is None:
        raise SystemExit("nothing was landed")
    metadata = Path(table.metadata_location.removeprefix("file://")).stat().st_size
    manifests = sum(manifest.manifest_length for manifest in head.manifests(table.io))
    return found | {"metadata": metadata / 1e6, "manifests": manifests / 1e6}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.bench_looks", description=__doc__)
    parser.add_argument("--files", type=int, default=25_600)
    parser.add_argument("--shards", type=int, default=128)
    add_flag(parser)
    options = parser.parse_args()
    figures = main(options.files, options.shards)
    if options.record:
        record("bench_looks", figures)
