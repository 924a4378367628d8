"""Peak memory of a writing task for pages of the worst shapes: `python bench/bench_shapes.py`.

Each shape in a process of its own, through the production decoder and writer into a file of a real
table's schema. Prints peak memory, rows, rows with a cause, seconds; fails over `--limit-mb`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.shapes import PAGE_BYTES, SHAPES
from pipelines.landing.barring import Barring
from pipelines.landing.run.spark_task import WriteJob, Writer
from pipelines.landing.table.contract import Contract
from sls_io.planning.values import PlannedWindow
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Budget, Service
from sls_io.values.window import Cursor, Window
from sls_io.wire.loggroup import compress, frame, groups
from sls_io.wire.page import Page

COLUMNS = {"n": "long", "s": "string", "status": "int", "mail": "hash", "at": "timestamp(iso)"}
HOUR = 489_000


def land(path: Path, count: int, task_mb: int = 0, times: int = 1) -> dict[str, float]:
    """The page in `path`, of so many groups, decoded and written here `times` over; what it took. With
    `task_mb` as the pages that a task with this bound would ask for."""
    raw = path.read_bytes()
    # As fetch hands it on: plain, and the compressed body is still held by whoever pulled it.
    held = compress(raw, "lz4")
    budget = Budget(task_mb=task_mb)
    most = count if budget.page_bytes_max is None else max(1, count * budget.page_bytes_max // len(raw))
    ends = [end for _, end in groups(raw)]
    contract = Contract.from_columns(COLUMNS)
    schema = contract.iceberg_schema()
    with tempfile.TemporaryDirectory() as folder:
        window = PlannedWindow(Window(0, Cursor(0), Cursor(count), HOUR), bytes_max=2**40)
        job = WriteJob(
            service=Service(endpoint="http://127.0.0.1:1", project="bench", logstore="shapes"),
            budget=budget,
            origin="o-1",
            attempt="0" * 32,
            windows=(window,),
            columns=COLUMNS,
            transform="",
            schema=schema,
            location=f"file://{folder}",
            io_properties={},
            table_properties={},
            deadline_s=0.0,
            barring=Barring(),
        )
        begun_s = SYSTEM_CLOCK.monotonic()
        writer = Writer(job, 0)
        for at in [*range(0, count, most)] * times:
            end = min(at + most, count)
            body = raw[ends[at - 1] if at else 0 : ends[end - 1]]
            page = Page(0, Cursor(at), Cursor(end), end - at, len(body), "", body, None, confirmed=True)
            reading = contract.decoder("o-1", schema).open(page)
            for part in reading.parts(HOUR):
                writer.add(part)
            writer.page(
                next_cursor=page.next, raw_bytes=page.raw_bytes, groups=page.count, forward=reading.forward
            )
        (row,) = writer.finish(stopped="", cause="")
        return {
            "peak_mb": peak_mb(),
            "lz4_mb": len(held) / 1e6,
            "raw_mb": len(raw) / 1e6,
            "file_mb": row.size / 1e6,
            "rows": row.rows,
            "errors": row.errors,
            "seconds": SYSTEM_CLOCK.monotonic() - begun_s,
        }


def peak_mb() -> float:
    """Most memory that this process had at a time. Not `ru_maxrss`: a child begins with its parent's."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1000


def in_a_process(shape: str, task_mb: int = 0, times: int = 1) -> dict[str, float]:
    """`land` in a process of its own: peaks of one shape say nothing of another, nor of making it."""
    made = SHAPES[shape]()
    body = b"".join(map(frame, made))
    if len(body) > PAGE_BYTES:
        raise SystemExit(f"{shape}: {len(body)} bytes are no page")
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "bench.bench_shapes", "--here", file.name),
                *("--groups", str(len(made)), "--task-mb", str(task_mb), "--times", str(times)),
            ],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{shape}: exit status {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> int:
    """Print one line a shape; 1 when one took more than the limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--here", type=Path, help="the page in this file, in this process, as JSON")
    parser.add_argument("--groups", type=int, default=1, help="how many groups it has")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="may be said again; default: all")
    parser.add_argument("--limit-mb", type=float, default=420.0)
    parser.add_argument("--task-mb", type=int, default=0, help="as budget.task_mb; default: no bound")
    parser.add_argument("--times", type=int, default=1, help="so often one after the other, in one file")
    asked = parser.parse_args()
    if asked.here:
        print(json.dumps(land(asked.here, asked.groups, asked.task_mb, asked.times)))
        return 0
    over = []
    for shape in asked.shape or SHAPES:
        took = in_a_process(shape, asked.task_mb, asked.times)
        print(
            f"{shape:>30}: {took['peak_mb']:4.0f} MB peak, {took['raw_mb']:4.1f} MB raw, "
            f"{took['file_mb']:6.1f} MB file, {int(took['rows']):>11,} rows, "
            f"{int(took['errors']):>11,} with a cause, {took['seconds']:5.1f} s",
            flush=True,
        )
        over += [shape] if took["peak_mb"] > asked.limit_mb else []
    if over:
        print(f"over {asked.limit_mb:g} MB: {', '.join(over)}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
