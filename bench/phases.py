"""Where the CPU of a landing goes, by raw MB for what is paid for rows, and what is paid once a landing.

The production classes, in one process that does nothing else, without Spark. So the sum is less than what a
landing spends on its rows: two workers share caches, and each of them begins anew.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ParamSpec, TypeVar

from chaos.engine import InProcess
from pipelines.landing.barring import Barring
from pipelines.landing.logstore import Logstore
from pipelines.landing.run import spark_task
from pipelines.landing.run.driver import Run
from pipelines.landing.run.spark_task import Writer
from pipelines.landing.run.write import job_for
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import Lake
from sls_io.decoding import nested
from sls_io.planning.values import PlannedWindow
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.window import HOUR_S, Window
from sls_io.wire import loggroup
from sls_io.wire.client import SlsClient
from sls_io.wire.fetch import Fetch

OF_ROWS = {
    "pull": "HTTP: asking for a page and taking its bytes",
    "decompress": "lz4 or zstd",
    "protobuf": "LogGroups into nested Arrow",
    "decode": "that into columns, each byte accounted for, identity sums",
    "cast": "texts into the declared types",
    "parquet": "columns into a file",
    "statistics": "bounds and counts of the file's columns",
}
"""What is paid for rows, in the order of the way."""
_INSIDE = (
    (loggroup, "decompress", "decompress"),
    (nested, "_read", "protobuf"),
    (spark_task, "metrics_of", "statistics"),
)
"""Functions that others call: module, name, what they count as."""
_LONGEST_S = 600.0
P = ParamSpec("P")
T = TypeVar("T")


class Stopwatch:
    """CPU seconds of this process by name; what is measured inside something else counts once."""

    def __init__(self) -> None:
        self.spent_s: dict[str, float] = {}
        self._inner_s = 0.0

    @contextmanager
    def measuring(self, name: str) -> Iterator[None]:
        """What the block spends goes to `name`."""
        begun_s, before_s = own_cpu_s(), self._inner_s
        self._inner_s = 0.0
        try:
            yield
        finally:
            took_s = own_cpu_s() - begun_s
            self.spent_s[name] = self.spent_s.get(name, 0.0) + took_s - self._inner_s
            self._inner_s = before_s + took_s

    def timed(self, name: str, call: Callable[P, T]) -> Callable[P, T]:
        """`call`, with what it spends."""

        def called(*args: P.args, **named: P.kwargs) -> T:
            with self.measuring(name):
                return call(*args, **named)

        return called

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What the functions of `_INSIDE` spend counts as theirs, while this lasts."""
        calls = [getattr(module, name) for module, name, _ in _INSIDE]
        for (module, name, phase), call in zip(_INSIDE, calls, strict=True):
            setattr(module, name, self.timed(phase, call))
        try:
            yield
        finally:
            for (module, name, _), call in zip(_INSIDE, calls, strict=True):
                setattr(module, name, call)


def own_cpu_s() -> float:
    """CPU seconds of this process and its threads."""
    return time.process_time()


def where_it_goes(logstore: Logstore) -> tuple[dict[str, float], dict[str, float]]:
    """(CPU ms a raw MB of each of `OF_ROWS`, CPU ms of each effect once a landing)."""
    # First: what code costs that runs for the first time is nothing of a row's.
    once_s = of_a_landing(logstore)
    rows_s, raw_bytes = of_rows(logstore)
    of_mb = {name: spent_s * 1e9 / raw_bytes for name, spent_s in rows_s.items()}
    return of_mb, {name: spent_s * 1000 for name, spent_s in once_s.items()}


def of_rows(logstore: Logstore) -> tuple[dict[str, float], int]:
    """(CPU seconds of each of `OF_ROWS` for all that the logstore holds, its raw bytes). Its files are left
    to nobody."""
    watch, contract, lake = Stopwatch(), Contract.from_columns(logstore.columns), Lake.default()
    table = lake.ensure(f"{logstore.table}_phases", contract)
    hour = int(SYSTEM_CLOCK.now()) // HOUR_S
    raw_bytes = 0
    with SlsClient(logstore.service) as client, watch.inside():
        heads = [client.head(shard) for shard in client.shards()]
        windows = tuple(
            PlannedWindow(Window(head.shard.id, head.begin, head.end, hour), bytes_max=2**40)
            for head in heads
            if head.begin < head.end
        )
        job = job_for(
            logstore, table, origin="bench", attempt="0" * 32, windows=windows, schema=table.schema(),
            deadline_s=client.now_s() + _LONGEST_S, barring=Barring(),
        )  # fmt: skip
        decoder = contract.decoder("bench", table.schema())
        decoder.declared = tuple(
            replace(d, convert=watch.timed("cast", d.convert)) if d.convert else d for d in decoder.declared
        )
        for index, planned in enumerate(windows):
            fetch = Fetch(
                client, planned.window, bytes_max=planned.bytes_max,
                deadline_s=SYSTEM_CLOCK.monotonic() + _LONGEST_S,
                pace=job.pace_of(index, SYSTEM_CLOCK),
            )  # fmt: skip
            pages, writer = iter(fetch), Writer(job, index)
            while True:
                with watch.measuring("pull"):
                    page = next(pages, None)
                if page is None:
                    break
                with watch.measuring("decode"):
                    reading = decoder.open(page)
                    for part in reading.parts(hour):
                        with watch.measuring("parquet"):
                            writer.add(part)
                writer.page(next_cursor=page.next, raw_bytes=page.raw_bytes, groups=page.count, forward=False)
            with watch.measuring("parquet"):
                writer.finish(stopped="", cause="")
            raw_bytes += fetch.raw_bytes
    return {name: watch.spent_s.get(name, 0.0) for name in OF_ROWS}, raw_bytes


def of_a_landing(logstore: Logstore) -> dict[str, float]:
    """CPU seconds of each effect of a landing but the writing of its rows, into a table of its own."""
    group = logstore.group.model_copy(update={"name": f"{logstore.group.name}-phases"})
    return of_effects(logstore.model_copy(update={"group": group, "table": f"{logstore.table}_again"}))


def of_effects(logstore: Logstore) -> dict[str, float]:
    """CPU seconds of each effect of a live run but the writing of its rows."""
    at_s: list[tuple[str, float]] = []
    with Run(logstore, InProcess(), on_event=lambda name: at_s.append((name, own_cpu_s()))) as run:
        run.land()
        if not run.reconcile().ok:
            raise SystemExit("the landing does not add up; the figures would mean nothing")
        run.checkpoint()
    moments = dict(at_s)
    names = [name for name, _ in at_s if f"{name}.done" in moments and name != "write"]
    return {name: moments[f"{name}.done"] - moments[name] for name in names}
