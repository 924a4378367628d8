"""How what a landing pays once grows with the shards of a logstore, and with the snapshots of its table.

    python -m bench.bench_scale [--shards 1024] [--snapshots 200] [--record]

Each shard has one log that waits, so there is little to write. CPU seconds are this process's own, all
threads, without a Spark; the service is a process of its own. A growth is linear where a figure doubles with
what it is of. `metadata` is the file that each commit writes anew and each reader loads.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from bench.bench_ticks import NOW_S, put
from bench.history import add_flag, record
from bench.logstores import PROJECT, bench_folder, defs_file, emulator_without_quotas, made
from bench.phases import of_effects
from pipelines.landing.logstore import Logstore, load_logstore
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator
from sls_io.emulator.parameters import MAX_SPLIT_SHARDS
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient

EFFECTS = ("claim", "read_ledger", "survey", "publish", "reconcile", "checkpoint")
FEWEST_SHARDS, FEWEST_SNAPSHOTS, OF_SNAPSHOTS = 16, 10, 16
_STEP_S = 120


def main(shards_max: int, snapshots_max: int) -> dict[str, float]:
    """Measure and print; the figures at the most shards and snapshots."""
    figures: dict[str, float] = {}
    with bench_folder() as folder, emulator_without_quotas(folder, now_s=NOW_S) as emulator:
        print(
            f"{'CPU seconds of':20}" + "".join(f"{name:>13}" for name in (*EFFECTS, "metadata")), flush=True
        )
        for shards in doubled(FEWEST_SHARDS, shards_max):
            logstore = prepared(folder, emulator, f"of_{shards}_shards", shards)
            for _ in range(2 if shards > MAX_SPLIT_SHARDS else 1):  # children wait until parents are closed
                landed(logstore, emulator, shards)
            figures |= said(f"{shards} shards", logstore, landed(logstore, emulator, shards))
        logstore = prepared(folder, emulator, "snapshots", OF_SNAPSHOTS)
        wanted = [*doubled(FEWEST_SNAPSHOTS, snapshots_max)]
        for number in range(1, snapshots_max + 1):
            spent = landed(logstore, emulator, OF_SNAPSHOTS)
            if number in wanted:
                figures |= said(f"{number} snapshots", logstore, spent)
    return figures


def doubled(fewest: int, most: int) -> Iterator[int]:
    """From the fewest on, each twice the one before, and the most."""
    while fewest < most:
        yield fewest
        fewest *= 2
    yield most


def prepared(folder: Path, emulator: Emulator, name: str, shards: int) -> Logstore:
    """An empty logstore of so many shards, which nothing has landed of."""
    service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=name)
    made(service, shards=shards)
    return load_logstore(defs_file(folder, service, {}))


def landed(logstore: Logstore, emulator: Emulator, shards: int, *, step_s: int = _STEP_S) -> dict[str, float]:
    """A log into each shard, and a landing so many seconds later: what its effects cost."""
    with SlsClient(logstore.service) as client:
        put(client, shards)
    emulator.admin.advance(step_s)
    return of_effects(logstore)


def said(what: str, logstore: Logstore, spent: dict[str, float]) -> dict[str, float]:
    """Print a line; its figures by names of their own."""
    table = Lake.default().load(logstore.table)
    size = Path(table.metadata_location.removeprefix("file://")).stat().st_size if table else 0
    values = [spent.get(name, 0.0) for name in EFFECTS]
    print(f"{what:20}" + "".join(f"{value:13.3f}" for value in values) + f"{size / 1e6:10.2f} MB", flush=True)
    name = what.replace(" ", "_")
    effects = {f"{name}_{effect}_cpu_s": value for effect, value in zip(EFFECTS, values, strict=True)}
    return {**effects, f"{name}_metadata_mb": size / 1e6}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.bench_scale", description=__doc__)
    parser.add_argument("--shards", type=int, default=256)
    parser.add_argument("--snapshots", type=int, default=200)
    add_flag(parser)
    options = parser.parse_args()
    found = main(options.shards, options.snapshots)
    if options.record:
        record("bench_scale", found)
