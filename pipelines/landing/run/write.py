"""Writing, as the driver does it: a plan's windows become a job of Spark, its rows the windows as they ended.

`Engine.run`: exactly one chain a task, no shuffle, no key in what travels. What it does is `spark_task.py`.

Rows of a job come back in any order, and of a window that was never begun there is none. So each row names
its window by index, and its cursors by number: what was proven follows from the rows alone, not from which
task ended. A task that Spark tries again gives the rows of its last try, and the files of the first are
nobody's; the sweep takes them.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from pipelines.landing.barring import Barring
from pipelines.landing.ledger.values import Landed, summed
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.spark_task import (
    OVERTAKEN,
    ROW_VERSION,
    TRANSFORM,
    UNPROVED,
    FileRow,
    WriteJob,
    task_of,
)
from pipelines.landing.spark.probe import task_failed
from pipelines.landing.spark.session import Engine
from pipelines.landing.task_storage import public_properties
from sls_io.planning.values import PlannedWindow
from sls_io.values.claim import SUM_MODULUS
from sls_io.values.errors import (
    CodeFailed,
    ConfigError,
    InvariantBroken,
    SlsError,
    TransportError,
    printable,
)
from sls_io.values.window import Cursor, Window
from sls_io.wire.fetch import FAILED

NOT_REACHED = "not reached"
_MESSAGE_CHARS_MAX = 600
_RAISED = re.compile(rf"^{re.escape(SlsError.__module__)}\.(\w+): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class WrittenWindow:
    """A planned window as it ended: what was proven, its files, and why it stopped early."""

    landed: Landed | None
    files: tuple[FileRow, ...]
    stopped: str
    cause: str = ""


def job_for(
    logstore: Logstore,
    table: Table,
    *,
    origin: str,
    attempt: str,
    windows: tuple[PlannedWindow, ...],
    schema: Schema,
    deadline_s: float,
    barring: Barring,
) -> WriteJob:
    """The job that writes `windows` of `logstore` as files of `table` with `schema`, without what `barring`
    takes."""
    return WriteJob(
        service=logstore.service,
        budget=logstore.budget,
        origin=origin,
        attempt=attempt,
        windows=windows,
        columns=logstore.columns,
        transform=logstore.transform,
        schema=schema,
        location=table.location(),
        io_properties=public_properties(table.io.properties),
        table_properties=dict(table.properties),
        deadline_s=deadline_s,
        barring=barring,
    )


def write_windows(engine: Engine, job: WriteJob, *, tag: str) -> list[WrittenWindow]:
    """Run the job on Spark: each of its windows as it ended. `tag` cancels it (`Engine.cancel`).

    In the order of `job.windows`, one for each. Raises what a task raised where that is one of ours,
    TransportError or ConfigError as `raised_in` says; else what `task_failed` makes of it. An error of one
    task ends the job: what the others wrote stays behind unseen, and the next run pulls it again.
    """
    engine.ready()
    try:
        task = task_of(job, engine.task_clock, engine.tally, elsewhere=engine.elsewhere)
        lines = engine.run(len(job.chains), task, tag=tag)
    except SlsError:
        raise
    except Exception as error:
        # What a task raised, as one of ours again; where none of ours did, nobody knows yet.
        if (ours := raised_in(error)) is not None:
            raise ours from error
        calls = ", ".join(map(printable, job.functions))
        own = f". Where its process ended, look first at what the settings let it call: {calls}"
        raise task_failed(engine, error, task_of.__module__, own if calls else "") from error
    return assemble(job.windows, (FileRow(**json.loads(line)) for line in lines))


def raised_in(error: Exception) -> SlsError | None:
    """The last of our errors in a worker's traceback, which Spark hands on as text; None without one.

    The last, since Python's traceback ends with the error that left the task, behind those that it came of.

    Worked example: of a text with `...TransportError: first` and further down `...ConfigError: no key` it is
    ConfigError("no key"). `...Throttled: slow` becomes TransportError("Throttled: slow"): what a person can
    mend stays a ConfigError, all else is trouble on the way, and the next run tries again.
    """
    text = str(error)
    raised = _RAISED.findall(text)
    if not raised:
        return None
    kind, message = raised[-1]
    if kind in (ConfigError.__name__, CodeFailed.__name__):
        return ConfigError(message)
    return TransportError(f"{kind}: {printable(message, _MESSAGE_CHARS_MAX)}")


def assemble(windows: Sequence[PlannedWindow], rows: Iterable[FileRow]) -> list[WrittenWindow]:
    """The rows of each window put together; a window without any row was not written.

    Raises InvariantBroken when a window's files do not follow one another without a hole.

    A row of another version is refused, and not read as well as it goes. Story: a cluster's workers have an
    older release, which knows of no values that may not land. Their rows lack the field, its default says
    that no row was barred, and the barred rows are in the files.
    """
    by_index: dict[int, list[FileRow]] = {}
    for row in rows:
        if row.v != ROW_VERSION:
            raise InvariantBroken(
                f"a writing task speaks version {row.v}, this driver {ROW_VERSION}: update workers"
            )
        by_index.setdefault(row.index, []).append(row)
    return [_assemble_one(p.window, by_index.get(i, [])) for i, p in enumerate(windows)]


def check_not_all_failed(written: Sequence[WrittenWindow]) -> None:
    """Raise what the service, the connection or the transform said when no window landed.

    When one window landed, the next run lands the others, and this run says what stopped them.

    A run in which one shard failed and others landed is one that landed. One in which nothing did must be
    red, with the words of what stopped it.

    Worked example: shard 0 landed up to its budget, of shard 1 the service failed: nothing is raised, and the
    report says it of shard 1. Both failed: TransportError with what shard 0 was told. A transform that
    refused all rows is a ConfigError, since the next run would end the same. Throttling raises nothing: the
    service answered, and the run's time was over.
    """
    failed = [w for w in written if w.stopped in (FAILED, UNPROVED)]
    if any(w.landed for w in written):
        return
    if failed:
        raise TransportError(failed[0].cause)
    if refused := [w.cause for w in written if w.stopped == TRANSFORM]:
        raise ConfigError(refused[0])


def crowded(written: Sequence[WrittenWindow], task_mb: int) -> str:
    """What to tell an operator whose bound on a task's memory was not kept; "" where it was, or is none.

    The peak is that of the process since the task began, so it says what the machine needs, whatever a task
    had before.
    """
    files = [row for w in written for row in w.files]
    most = max((row.peak_bytes for row in files), default=0) // 1_000_000
    if not task_mb or most <= task_mb:
        return ""
    return (
        f"a task took {most:,} MB, more than budget.task_mb ({task_mb:,}): a LogGroup is too large alone, or "
        "a transform keeps rows. What it read lands all the same; leave room for it, or let producers send "
        "smaller LogGroups"
    )


def _assemble_one(window: Window, rows: list[FileRow]) -> WrittenWindow:
    """What the files of a window prove together. Each file says which cursors it holds; in order they must
    follow one another from the window's begin, or something between was lost on the way from a worker.

    Worked example: [0, 100) was planned, the files are [0, 50) and [50, 80), the last one stopped: [0, 80)
    lands. With [0, 50) and [60, 80) nothing does, and it is a bug of ours.
    """
    if not rows:
        return WrittenWindow(None, (), NOT_REACHED)
    rows.sort(key=lambda r: r.first)
    stopped, cause = next(((r.stopped, r.cause) for r in rows if r.stopped), ("", ""))
    if stopped in (OVERTAKEN, UNPROVED, TRANSFORM):
        return WrittenWindow(None, (), stopped, cause)
    at = int(window.begin)
    for row in rows:
        if row.first != at:
            raise InvariantBroken(f"shard {window.shard}: files do not follow at cursor {at}")
        at = row.next
    if at <= window.begin:
        return WrittenWindow(None, (), stopped or "no progress", cause)
    landed = Landed(
        window=replace(window, end=Cursor(at)),
        rows=sum(r.rows for r in rows),
        sum=sum(r.sum for r in rows) % SUM_MODULUS,
        raw_bytes=sum(r.raw_bytes for r in rows),
        flags="f" if any(r.forward for r in rows) else "",
        barred=summed((r.barred, r.barred_sum) for r in rows),
    )
    return WrittenWindow(landed, tuple(r for r in rows if r.path), stopped, cause)
