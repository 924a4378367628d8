"""What a landing costs beside its rows: `python -m bench.bench_landing`.

Publishing when the table has 10 and when it has 200 snapshots, in turns (four shards, a few rows each,
the production run with its tasks in this process, no maintenance), and, without any I/O, planning a
live run and reading a ledger of 256 shards. Milliseconds, the median of the rounds.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median

from aliyun.log import log_logs_pb2 as pb

from bench import history
from bench.logstores import bench_folder
from chaos.engine import InProcess
from pipelines.landing.ledger import codec
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator, start
from sls_io.planning.plan import plan_live
from sls_io.planning.values import Edge, Span, Survey
from sls_io.values.claim import GAP_EXPIRED, Gap, Ledger, ShardLedger
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Budget
from sls_io.values.shard import Head, Shard
from sls_io.values.window import HOUR_S, Cursor, IntervalSet
from sls_io.wire.client import SlsClient

SHARDS = 256
KEYS = 4
FEW, MANY, ROUNDS = 10, 200, 13
NOW_S = 1_790_000_000


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_landing", description=__doc__)
    history.add_flag(parser)
    options = parser.parse_args()
    text = codec.encode(ledger())
    reading_ms = ms(lambda: codec.decode("bench", text))
    print(f"reading a ledger of {SHARDS} shards, {len(text) / 1000:.0f} kB: {reading_ms:.1f} ms")
    planning_ms = ms(plan)
    print(f"planning a live run over {SHARDS} shards: {planning_ms:.1f} ms (target: 50 for both)")
    with bench_folder() as folder:
        few, many = publishing(folder)
    print(f"publish: {few:.0f} ms at {FEW} snapshots, {many:.0f} ms at {MANY}")
    print(f"ratio: {many / few:.2f} (target 2)")
    if options.record:
        figures = {"reading_ms": reading_ms, "planning_ms": planning_ms}
        history.record("bench_landing", figures | {f"publish_{FEW}_ms": few, f"publish_{MANY}_ms": many})


def ms(act: Callable[[], object]) -> float:
    """The median of several rounds, in milliseconds."""
    found = []
    for _ in range(ROUNDS):
        begun_s = SYSTEM_CLOCK.monotonic()
        act()
        found.append((SYSTEM_CLOCK.monotonic() - begun_s) * 1000)
    return median(found)


def ledger() -> Ledger:
    """Every shard with two landed intervals, a gap and sums of full size."""
    shards = {}
    for shard in range(SHARDS):
        at = 10**18 + shard * 10**12
        gap = Gap(Cursor(at + 1000), Cursor(at + 2000), GAP_EXPIRED)
        landed = IntervalSet.of([(at, at + 1000), (at + 2000, at + 90_000)])
        shards[shard] = ShardLedger(
            start=Cursor(at),
            landed=landed,
            gaps=(gap,),
            reached_s=NOW_S,
            rows=10**9 + shard,
            sum=2**63 + shard,
        )
    return Ledger("bench", shards)


def plan() -> None:
    """A live run that has three hours to read of every shard."""
    known = ledger()
    width = 2**128 // SHARDS
    shards = [
        Shard(s, False, f"{s * width:032x}", f"{min((s + 1) * width, 2**128 - 1):032x}", 0)
        for s in range(SHARDS)
    ]
    surveys = {}
    for shard in shards:
        frontier = known.shards[shard.id].frontier
        at = [Cursor(frontier + 100 * n) for n in range(4)]
        hours = range(NOW_S // HOUR_S, NOW_S // HOUR_S + 3)
        surveys[shard.id] = Survey(
            shard.id,
            Head(shard, known.shards[shard.id].start, at[3]),
            tuple(Span(hour, at[n], at[n + 1]) for n, hour in enumerate(hours)),
            tuple(Edge(hour * HOUR_S, at[n]) for n, hour in enumerate(hours)),
        )
    found = plan_live(
        shards=shards,
        surveys=surveys,
        ledger=known,
        budget=Budget(),
        until_s=NOW_S + 3 * HOUR_S,
    )
    if len(found.windows) != 3 * SHARDS:
        raise SystemExit(f"{len(found.windows)} windows were planned, not {3 * SHARDS}")


def publishing(folder: Path) -> tuple[float, float]:
    """Median milliseconds of a publish near `FEW` and near `MANY` snapshots, taken in turns."""
    took_ms: dict[int, list[float]] = {FEW: [], MANY: []}
    catalog = {"uri": f"sqlite:///{folder}/catalog.sqlite", "warehouse": f"file://{folder}/warehouse"}
    lake = Lake({"type": "sql", **catalog})
    with start(now=NOW_S // HOUR_S * HOUR_S) as emulator:
        logstores = {number: _made(emulator, f"logs{number}") for number in took_ms}
        for number, logstore in logstores.items():
            for _ in range(number - ROUNDS // 2):
                _publish_ms(logstore, lake, emulator)
        for _ in range(ROUNDS):
            for number, logstore in logstores.items():
                took_ms[number].append(_publish_ms(logstore, lake, emulator))
    for number, logstore in logstores.items():
        table = lake.load(logstore.table)
        if table is None or len(table.metadata.snapshots) <= number:
            raise SystemExit("not every landing made a snapshot")
    return median(took_ms[FEW]), median(took_ms[MANY])


def _made(emulator: Emulator, name: str) -> Logstore:
    """An empty logstore in a project of its own, with its settings."""
    logstore = Logstore.model_validate(
        {
            "service": {"endpoint": emulator.endpoint, "project": name, "logstore": name},
            "group": {"name": "bench", "heartbeat_s": 1, "timeout_s": 30},
            "table": f"bench.{name}",
            "start": "2020-01-01-00:00",
            "columns": {"n": "long"},
            "budget": {"settle_s": 0},
        }
    )
    with SlsClient(logstore.service) as client:
        client.transport.create_project(name, "")
        client.transport.create_logstore(name, name, ttl=30, shard_count=KEYS)
    return logstore


def _publish_ms(logstore: Logstore, lake: Lake, emulator: Emulator) -> float:
    """Land a few new rows of every shard; milliseconds of the publish in it."""
    with SlsClient(logstore.service) as client:
        for key in range(KEYS):
            message = pb.LogGroup(Topic="bench", Source="10.0.0.1")
            message.Logs.add(Time=NOW_S).Contents.add(Key="n", Value=str(key))
            client.put_raw(message.SerializeToString(), key=f"{key * 16 // KEYS:x}".ljust(32, "8"))
    emulator.admin.advance(1)
    at_s: dict[str, float] = {}

    def hear(name: str) -> None:
        at_s[name] = SYSTEM_CLOCK.monotonic()

    with Run(logstore, InProcess(), lake=lake, on_event=hear) as run:
        run.land()
        run.reconcile()
        run.checkpoint()
    return (at_s["publish.done"] - at_s["publish"]) * 1000


if __name__ == "__main__":
    main()
