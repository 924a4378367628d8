"""What a proof and a compaction cost a GB of files, in this process and as tasks of Spark on two cores.

    python -m bench.bench_files [--mb 1600] [--landings 24] [--record]

A sealed receive hour of so many MB raw lies in small files, in two tables that are alike. Over each:
`verify`, `verify --rows`, a compaction, and `verify --rows` of the large file that comes of it; one table in
this process, the other one in Spark's workers, whose start is a line of its own. Prints CPU and wall seconds,
and what follows for a table of 1 TB of such files that grows by 1/400 a day.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from bench import history
from bench.logstores import PROJECT, TYPED, bench_folder, defs_file, emulator_without_quotas, made, put_mb
from bench.processes import Watch
from pipelines.landing.contents.spread import Spread
from pipelines.landing.inspection.verify import verify
from pipelines.landing.inspection.whole import every_file, no_file
from pipelines.landing.logstore import Logstore, load_logstore
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.run.driver import Run
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient

SHARDS = 4
TB, DAYS = 1e12, 400
_HOUR_S = 3600
_VERBS = ("compact", "verify", "verify_rows")
_NOW_S = 1_790_003_600.0


def main(mb: int, landings: int) -> dict[str, float]:
    """Print the table; the figures by name."""
    figures = dict[str, float]()
    with bench_folder() as folder, emulator_without_quotas(folder, now_s=_NOW_S) as emulator:
        engine = Engine(master="local[2]")
        engine.here_bytes_max = -1
        tables = {name: filled(folder, emulator, name, mb, landings, engine) for name in ("here", "spark")}
        emulator.admin.advance(2 * _HOUR_S)
        for logstore in tables.values():  # what seals the hour
            put_mb(logstore.service, 1, shards=SHARDS)
            landed(logstore, engine)
        engine.stop()
        watch = Watch(os.getpid(), but=(emulator.pid,), every_s=0.1)
        print(f"{'':28}{'files':>8}{'MB':>9}{'CPU s':>9}{'wall s':>9}{'CPU s a GB':>12}")
        with watch.sampling():
            figures |= cost("start of Spark", watch, None, engine.ready)
            for name, spread in {"here": Spread(), "spark": Spread(engine)}.items():
                with spread.kept():
                    figures |= measured(name, tables[name], watch)
        engine.stop()
    of_a_terabyte(figures)
    return figures


def filled(folder: Path, emulator: Emulator, name: str, mb: int, landings: int, engine: Engine) -> Logstore:
    """A logstore with so many MB raw of one receive hour, in so many landings."""
    service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=name)
    made(service, shards=SHARDS)
    logstore = load_logstore(defs_file(folder, service, TYPED))
    for _ in range(landings):
        put_mb(service, mb // landings, shards=SHARDS)
        landed(logstore, engine)
    return logstore


def landed(logstore: Logstore, engine: Engine) -> None:
    """All that is there."""
    with Run(logstore, engine) as run:
        run.land()
        run.checkpoint()


def measured(name: str, logstore: Logstore, watch: Watch) -> dict[str, float]:
    """What each verb costs over one of the tables."""

    def proved(whole: bool) -> None:
        with SlsClient(logstore.service) as client:
            rows = every_file if whole else no_file
            proof = verify(logstore, Lake.default(), client, rows=rows)
        if not proof.ok:
            raise SystemExit(f"{name} is not proven, the figures would mean nothing: {proof}")

    def compacted() -> None:
        if not Maintainer(logstore, Lake.default()).execute(["compact"]).compacted:
            raise SystemExit("nothing was compacted")

    figures = cost(f"{name}: verify", watch, logstore, lambda: proved(False))
    figures |= cost(f"{name}: verify --rows", watch, logstore, lambda: proved(True))
    figures |= cost(f"{name}: compact", watch, logstore, compacted)
    return figures | cost(f"{name}: verify --rows, large", watch, logstore, lambda: proved(True))


def cost(what: str, watch: Watch, logstore: Logstore | None, work: Callable[[], None]) -> dict[str, float]:
    """Print a line; its figures."""
    files, size = files_of(logstore) if logstore else (0, 0)
    cpu_s, begun_s = watch.cpu_s(), SYSTEM_CLOCK.monotonic()
    work()
    wall_s, cpu_s = SYSTEM_CLOCK.monotonic() - begun_s, watch.cpu_s() - cpu_s
    of_gb = f"{cpu_s / size * 1e9:12.1f}" if size else ""
    print(f"{what:28}{files:8}{size / 1e6:9.1f}{cpu_s:9.2f}{wall_s:9.2f}{of_gb}", flush=True)
    key = what.replace(": ", "_").replace(" --", "_").replace(", ", "_").replace(" ", "_")
    found = {f"{key}_cpu_s": cpu_s, f"{key}_wall_s": wall_s}
    return found | ({f"{key}_cpu_s_a_gb": cpu_s / size * 1e9} if size else {})


def files_of(logstore: Logstore) -> tuple[int, int]:
    """Files of the table, and their bytes."""
    table = Lake.default().load(logstore.table)
    if table is None:
        raise SystemExit("nothing was landed")
    sizes = [task.file.file_size_in_bytes for task in table.scan().plan_files()]
    return len(sizes), sum(sizes)


def of_a_terabyte(figures: dict[str, float]) -> None:
    """Print what follows for a large table, in core hours."""
    day = figures["spark_compact_cpu_s_a_gb"] * TB / DAYS / 1e9 / 3600
    proof, whole = (
        figures[f"spark_{verb}_cpu_s_a_gb"] * TB / 1e9 / 3600 for verb in ("verify", "verify_rows")
    )
    print(
        f"1 TB of such files, {TB / DAYS / 1e9:.1f} GB more a day: {day:.2f} core hours a day to compact, "
        f"{proof:.1f} for a proof, {whole:.1f} to read all of it"
    )
    figures |= {"tb_day_compact_core_h": day, "tb_verify_core_h": proof, "tb_verify_rows_core_h": whole}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.bench_files", description=__doc__)
    parser.add_argument("--mb", type=int, default=1600)
    parser.add_argument("--landings", type=int, default=24)
    history.add_flag(parser)
    options = parser.parse_args()
    found = main(options.mb, options.landings)
    if options.record:
        history.record("bench_files", found)
