"""Where the CPU of a landing goes: pull, decode, cast, write by raw MB, and what is paid once a landing.

The production classes, in one process that does nothing else, without Spark. So the sum is less than what a
landing spends on its rows: two workers share caches, and each of them begins anew.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from chaos.engine import InProcess
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.run.task import Writer
from pipelines.landing.run.write import job_for
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import Lake
from sls_io.planning.values import PlannedWindow
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.window import HOUR_S, Window
from sls_io.wire.client import SlsClient
from sls_io.wire.fetch import Fetch

OF_ROWS = ("pull", "decode", "cast", "write")
_LONGEST_S = 600.0


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

    def timed(self, name: str, convert: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
        """`convert`, with what it spends."""

        def converted(text: pa.Array) -> pa.Array:
            with self.measuring(name):
                return convert(text)

        return converted


def own_cpu_s() -> float:
    """CPU seconds of this process and its threads."""
    return time.process_time()


def of_rows(logstore: Logstore) -> tuple[dict[str, float], int]:
    """(CPU seconds of each of `OF_ROWS` for all that the logstore holds, its raw bytes). Its files are left
    to nobody."""
    watch, contract, lake = Stopwatch(), Contract.from_columns(logstore.columns), Lake.default()
    table = lake.ensure(f"{logstore.table}_phases", contract)
    hour = int(SYSTEM_CLOCK.now()) // HOUR_S
    raw_bytes = 0
    with SlsClient(logstore.service) as client:
        heads = [client.head(shard) for shard in client.shards()]
        windows = tuple(
            PlannedWindow(Window(head.shard.id, head.begin, head.end, hour), bytes_max=2**40)
            for head in heads
            if head.begin < head.end
        )
        job = job_for(
            logstore, table, origin="bench", attempt="0" * 32, windows=windows, schema=table.schema(),
            deadline_s=client.now_s() + _LONGEST_S,
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
                        with watch.measuring("write"):
                            writer.add(part)
                writer.page(next_cursor=page.next, raw_bytes=page.raw_bytes, groups=page.count, forward=False)
            with watch.measuring("write"):
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
