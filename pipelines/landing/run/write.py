"""Windows -> data files, on Spark executors: one task a chain of windows, nothing published.

`Engine.run`: exactly one chain a task, no shuffle. A task writes its windows one after the other until its
bytes or time are used up: it pulls pages, decodes them to Arrow, writes Parquet through the table's own
FileIO with the Iceberg field ids, and yields one JSON row a file. The closure carries a description of
where credentials come from, never a key; tasks resolve it themselves.

Memory of a task is one raw page, some of its rows decoded, and at most `ROW_GROUP_BYTES` of decoded batches,
whatever the backlog and whatever a page holds, and less of both with `budget.task_mb`; rows of a megabyte
each are written apart from others. A file holds rows of one window; a retried task leaves an orphan file.
"""

import contextlib
import json
import os
import re
import resource
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.utils.config import Config

from pipelines.landing.commit.publish import pack_bounds, unpack_bounds
from pipelines.landing.ledger.values import Landed
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.tally import PullTally, tell
from pipelines.landing.spark.probe import workers_problem
from pipelines.landing.spark.session import Engine, Task
from pipelines.landing.table.contract import (
    LONG_GROUP_BYTES,
    ROW_GROUP_BYTES,
    ROW_GROUP_ROWS,
    Contract,
    decoders_of,
    long_rows,
    parquet_writer,
)
from pipelines.landing.table.data_files import data_file, metrics_of
from pipelines.landing.table.lake import CATALOG, storage_trouble
from pipelines.landing.transform import Transform, TransformFailed
from pipelines.landing.umask import keep_others_out
from sls_io.decoding.decode import Decoder, PagePart
from sls_io.planning.plan import PlannedWindow
from sls_io.reader.readings import readings
from sls_io.values.claim import SUM_MODULUS
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import (
    CodeFailed,
    ConfigError,
    CursorExpired,
    InvariantBroken,
    ServiceError,
    ShardGone,
    SlsError,
    Throttled,
    TransportError,
    printable,
)
from sls_io.values.settings import Service
from sls_io.values.window import Cursor, Window
from sls_io.wire.client import SlsClient
from sls_io.wire.fetch import FAILED, THROTTLED, Fetch, told
from sls_io.wire.pace import Pace

ROW_VERSION = 2
_FILE_BYTES = 512 * 1024 * 1024
# Where files lie and how to reach them. A list of what may travel, not of what must not: the next
# property somebody invents for a secret stays at home without being named here.
_PUBLIC_PROPERTIES = frozenset(
    {
        "py-io-impl",
        "client.region",
        *(f"s3.{name}" for name in ("anonymous", "endpoint", "region", "resolve-region", "connect-timeout")),
        *(f"s3.{name}" for name in ("request-timeout", "force-virtual-addressing", "server-side-encryption")),
        *(f"s3.{name}" for name in ("sse-kms-key-id", "role-arn", "role-session-name", "profile-name")),
        *(f"hdfs.{name}" for name in ("host", "port", "user")),
        *(f"adls.{name}" for name in ("account-name", "account-host", "anon")),
        *(f"gcs.{name}" for name in ("project-id", "access", "service.host", "default-bucket-location")),
        "hf.endpoint",
    }
)
_STORAGE = ("s3.", "client.", "gcs.", "adls.", "hdfs.", "hf.")
_POOL_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
OVERTAKEN = "overtaken"
NOT_REACHED = "not reached"
UNPROVED = "unproved"
TRANSFORM = "transform"
_MESSAGE_CHARS_MAX = 600
_RAISED = re.compile(r"^(?:sls_io\.errors\.)(\w+): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class WriteJob:
    """All a task needs, picklable, without a secret.

    `deadline_s` is the service's time (unix seconds), the one clock that driver and executors share.
    """

    service: Service
    origin: str
    attempt: str
    windows: tuple[PlannedWindow, ...]
    columns: Mapping[str, str]
    transform: str
    schema: Schema
    location: str
    io_properties: Mapping[str, str]
    table_properties: Mapping[str, str]
    deadline_s: float
    page_groups_max: int
    shard_mb_per_s: float
    page_bytes_max: int | None = None
    buffer_bytes_max: int | None = None

    @property
    def functions(self) -> list[str]:
        """Import paths of other people's functions that its tasks call."""
        return [*filter(None, [self.transform]), *decoders_of(self.columns)]

    def pace_of(self, index: int, clock: Clock) -> Pace:
        """What the reader of window `index` may ask of its shard, which its other chains read, too."""
        shard = self.windows[index].window.shard
        readers = {p.chain for p in self.windows if p.window.shard == shard}
        return Pace(self.shard_mb_per_s / len(readers), clock=clock)

    @property
    def chains(self) -> list[list[int]]:
        """Indexes of the windows of each chain, in the order they are written."""
        chains: dict[int, list[int]] = {}
        for index, planned in enumerate(self.windows):
            chains.setdefault(planned.chain, []).append(index)
        return [chains[c] for c in sorted(chains)]


@dataclass(frozen=True)
class FileRow:
    """What one file of a window is; `path` is empty for a window part without rows.

    `first` and `next` are the cursors the file proves, half-open; `stopped` says why a window ended
    before its planned end: a key of `report.STOPPED`, or ""; `cause` is what the page or the service
    said then.
    """

    v: int
    index: int
    first: int
    next: int
    path: str = ""
    size: int = 0
    rows: int = 0
    sum: int = 0
    pages: int = 0
    groups: int = 0
    raw_bytes: int = 0
    errors: int = 0
    forward: bool = False
    stopped: str = ""
    cause: str = ""
    peak_bytes: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)


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
) -> WriteJob:
    """The job that writes `windows` of `logstore` as files of `table` with `schema`."""
    return WriteJob(
        service=logstore.service,
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
        page_groups_max=logstore.budget.page_groups_max,
        shard_mb_per_s=logstore.budget.shard_mb_per_s,
        page_bytes_max=logstore.budget.page_bytes_max,
        buffer_bytes_max=logstore.budget.buffer_bytes_max,
    )


def public_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """FileIO properties without secrets: executors find those in their own environment."""
    return {name: value for name, value in properties.items() if name in _PUBLIC_PROPERTIES}


def _own_properties() -> dict[str, str]:
    """What the configuration of a task's own process says of storage: the secrets."""
    configured = Config().get_catalog_config(CATALOG) or {}
    return {name: str(value) for name, value in configured.items() if name.startswith(_STORAGE)}


def write_windows(engine: Engine, job: WriteJob, *, tag: str) -> list[FileRow]:
    """Run the job on Spark and collect its rows. `tag` cancels it (`Engine.cancel`)."""
    engine.ready()
    try:
        lines = engine.run(len(job.chains), _task(job, engine.task_clock, engine.tally), tag=tag)
    except SlsError:
        raise
    except Exception as error:
        raise _task_failure(engine, error, job) from error
    return [FileRow(**json.loads(line)) for line in lines]


def _task_failure(engine: Engine, error: Exception, job: WriteJob) -> SlsError:
    """What a task raised, as one of ours again: Spark hands it on as a worker's traceback in text. Where none
    of ours did, the workers may not be able to run any."""
    text = str(error)
    raised = _RAISED.findall(text)
    if not raised and (problem := workers_problem(engine, text, __name__)):
        return ConfigError(problem)
    if not raised:
        calls = ", ".join(map(printable, job.functions))
        own = (
            f". Where its process ended, look first at what the settings let it call: {calls}"
            if calls
            else ""
        )
        return TransportError(
            f"a writing task failed ({type(error).__name__}); Spark's own log says why{own}"
        )
    kind, message = raised[-1]
    return (
        ConfigError(message)
        if kind in (ConfigError.__name__, CodeFailed.__name__)
        else TransportError(f"{kind}: {printable(message, _MESSAGE_CHARS_MAX)}")
    )


def assemble(windows: Sequence[PlannedWindow], rows: Iterable[FileRow]) -> list[WrittenWindow]:
    """The rows of each window put together; a window without any row was not written.

    Raises InvariantBroken when a window's files do not follow one another without a hole.
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
    """
    failed = [w for w in written if w.stopped in (FAILED, UNPROVED)]
    if any(w.landed for w in written):
        return
    if failed:
        raise TransportError(failed[0].cause)
    if refused := [w.cause for w in written if w.stopped == TRANSFORM]:
        raise ConfigError(refused[0])


def crowded(written: Sequence[WrittenWindow], task_mb: int) -> str:
    """What to tell an operator whose bound on a task's memory was not kept; "" where it was, or is none."""
    files = [row for w in written for row in w.files]
    most = max((row.peak_bytes for row in files), default=0) // 1_000_000
    if not task_mb or most <= task_mb:
        return ""
    return (
        f"a task took {most:,} MB, more than budget.task_mb ({task_mb:,}): a LogGroup is too large alone, or "
        "a transform keeps rows. What it read lands all the same; leave room for it, or let producers send "
        "smaller LogGroups"
    )


def to_data_file(row: FileRow, *, partition: Record, spec_id: int) -> DataFile:
    """The Iceberg entry of a written file in `partition` of the spec `spec_id`."""
    metrics = dict(row.metrics)
    for name in ("lower_bounds", "upper_bounds"):
        metrics[name] = unpack_bounds(metrics[name])
    for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"):
        metrics[name] = {int(k): v for k, v in metrics[name].items()}
    return data_file(path=row.path, size=row.size, metrics=metrics, partition=partition, spec_id=spec_id)


def _assemble_one(window: Window, rows: list[FileRow]) -> WrittenWindow:
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
    )
    return WrittenWindow(landed, tuple(r for r in rows if r.path), stopped, cause)


def _task(job: WriteJob, clock: Clock = SYSTEM_CLOCK, tally: str = "") -> Task:
    def run(chains: Iterable[int]) -> Iterator[str]:
        # A worker of somebody's cluster has its own umask, and a warehouse may be a folder that all mount.
        keep_others_out()
        for chain in chains:
            for row in write_chain(job, job.chains[chain], clock=clock, tally=tally):
                yield json.dumps(asdict(row))

    return run


def write_chain(
    job: WriteJob, indexes: Sequence[int], *, clock: Clock = SYSTEM_CLOCK, tally: str = ""
) -> list[FileRow]:
    """The windows of one chain, until its bytes are used up or one of them ends early.

    The body of one Spark task, callable without Spark. `tally` is the folder to tell how far it is, if any.
    """
    _forget_peak()
    written: list[FileRow] = []
    bytes_left, pace = job.windows[indexes[0]].bytes_max, job.pace_of(indexes[0], clock)
    for index in indexes:
        rows = write_window(job, index, bytes_max=bytes_left, pace=pace, clock=clock, tally=tally)
        written += rows
        bytes_left -= sum(row.raw_bytes for row in rows)
        if bytes_left <= 0 or any(row.stopped for row in rows):
            break
    return written


def write_window(
    job: WriteJob,
    index: int,
    *,
    bytes_max: int,
    pace: Pace,
    clock: Clock = SYSTEM_CLOCK,
    tally: str = "",
) -> list[FileRow]:
    """Write window `index` of the job, at most about `bytes_max` raw bytes of it.

    A service that throttles or fails never raises out of here: the row says so, and what was read lands.
    """
    window = job.windows[index].window
    client = SlsClient(job.service, clock=clock)
    try:
        try:
            left_s = max(0.0, job.deadline_s - client.now_s())
        except (TransportError, ServiceError) as error:
            kind = THROTTLED if isinstance(error, Throttled) else FAILED
            at = int(window.begin)
            return [FileRow(ROW_VERSION, index, at, at, stopped=kind, cause=told(error))]
        fetch = Fetch(
            client,
            window,
            bytes_max=bytes_max,
            deadline_s=clock.monotonic() + left_s,
            groups_max=job.page_groups_max,
            page_bytes_max=job.page_bytes_max,
            pace=pace,
            clock=clock,
        )
        decoder = Contract.from_columns(job.columns).decoder(job.origin, job.schema)
        transform = Transform(job.transform)
        writer = Writer(job, index, tally)
        try:
            lost = _read(fetch, decoder, transform, writer)
            rows = writer.finish(stopped=fetch.stopped, cause=fetch.cause)
        except TransformFailed as error:
            writer.abandon()
            at = int(window.begin)
            return [FileRow(ROW_VERSION, index, at, at, stopped=TRANSFORM, cause=str(error))]
        except OSError as error:
            writer.abandon()
            trouble = storage_trouble(job.location, error)
            raise TransportError(f"a writing task failed: {trouble}, as the tasks see them") from error
        except BaseException:
            writer.abandon()
            raise
        return [replace(r, stopped=lost, cause=fetch.cause) for r in rows] if lost else rows
    finally:
        client.close()


def _read(fetch: Fetch, decoder: Decoder, transform: Transform, writer: "Writer") -> str:
    """Give every page to the writer; returns why nothing of the window may land, or ""."""
    try:
        _drain(fetch, decoder, transform, writer)
        if fetch.reached == fetch.window.begin and fetch.error is not None:
            return ""
        return "" if fetch.proved() else OVERTAKEN
    except (CursorExpired, ShardGone):
        # Retention took what was to be read next, and perhaps some of what was read before.
        return OVERTAKEN
    except (TransportError, ServiceError):
        return UNPROVED


def _drain(fetch: Fetch, decoder: Decoder, transform: Transform, writer: "Writer") -> None:
    """Decode every page, and write what the transform makes of its rows."""
    for page, reading in readings(fetch, decoder):
        for part in reading.parts(fetch.window.hour):
            writer.add(replace(part, batch=transform.of(part.batch, fetch.window.shard)))
        writer.page(
            next_cursor=page.next, raw_bytes=page.raw_bytes, groups=page.count, forward=reading.forward
        )


class Writer:
    """Parquet files of one window: buffers decoded batches, rolls a file at a page edge."""

    def __init__(self, job: WriteJob, index: int, tally: str = "") -> None:
        self._job, self._index, self._tally = job, index, tally
        self._window = job.windows[index].window
        self._io: FileIO = load_file_io({**_own_properties(), **job.io_properties}, job.location)
        self._done: list[FileRow] = []
        self._next = int(self._window.begin)
        self._group_bytes = min(ROW_GROUP_BYTES, job.buffer_bytes_max or ROW_GROUP_BYTES)
        if job.buffer_bytes_max:
            _be_frugal()
        self._open_file()

    def _open_file(self) -> None:
        self._row = FileRow(v=ROW_VERSION, index=self._index, first=self._next, next=self._next)
        self._buffer: list[pa.RecordBatch] = []
        self._buffer_bytes = 0
        self._stream: Any = None
        self._parquet: pq.ParquetWriter | None = None
        self._long = False
        self._rows_of_pages = 0

    def add(self, part: PagePart) -> None:
        """Some rows of a page; written when enough have come together for a row group."""
        long = long_rows(part.batch)
        if long:
            self._for_long_rows()
        row = self._row
        self._row = replace(
            row,
            rows=row.rows + part.rows,
            sum=(row.sum + part.sum) % SUM_MODULUS,
            errors=row.errors + part.errors,
        )
        self._buffer.append(part.batch)
        self._buffer_bytes += part.batch.nbytes
        if long:
            self._flush(rows_max=max(1, LONG_GROUP_BYTES * part.rows // self._buffer_bytes))
        elif self._buffer_bytes >= self._group_bytes:
            self._flush()

    def _for_long_rows(self) -> None:
        """Rows of megabytes are to come. The buffered rows are written apart from them, and the file of the
        long rows has no statistics of texts. So an open file with such statistics is closed, if a page ended
        here."""
        if self._parquet is not None and not self._long and self._row.rows == self._rows_of_pages:
            self._close_file(stopped="")
            self._open_file()
        self._long |= self._parquet is None
        self._flush()

    def page(self, *, next_cursor: Cursor, raw_bytes: int, groups: int, forward: bool) -> None:
        """The page whose rows were added is over: here, and only here, a file may end."""
        self._next = int(next_cursor)
        row = self._row
        self._rows_of_pages = row.rows
        self._row = replace(
            row,
            next=self._next,
            pages=row.pages + 1,
            groups=row.groups + groups,
            raw_bytes=row.raw_bytes + raw_bytes,
            forward=row.forward or forward,
        )
        if self._tally:
            files = [*self._done, self._row]
            counts = zip(*((f.pages, f.rows, f.raw_bytes) for f in files), strict=True)
            tell(self._tally, self._index, PullTally(*map(sum, counts)))
        if self._stream is not None and self._stream.tell() >= _FILE_BYTES:
            self._close_file(stopped="")
            self._open_file()

    def _flush(self, *, rows_max: int = ROW_GROUP_ROWS) -> None:
        if not self._buffer:
            return
        table = pa.Table.from_batches(self._buffer)
        if self._parquet is None:
            name = (
                f"{self._window.id(self._job.origin)}-{self._job.attempt[:8]}-{uuid.uuid4().hex[:8]}.parquet"
            )
            path = f"{self._job.location}/data/{self._job.origin}/{self._window.hour}/{name}"
            self._row = replace(self._row, path=path)
            self._stream = self._io.new_output(path).create()
            self._parquet = parquet_writer(self._stream, table.schema, long=self._long)
        self._parquet.write_table(table, row_group_size=rows_max)
        self._buffer, self._buffer_bytes = [], 0

    def _close_file(self, *, stopped: str, cause: str = "") -> None:
        self._flush()
        row = replace(self._row, stopped=stopped, cause=cause, peak_bytes=_peak_bytes())
        if self._parquet is not None:
            self._parquet.close()
            size = self._stream.tell()
            self._stream.close()
            row = replace(row, size=size, metrics=self._metrics(self._parquet))
        self._done.append(row)

    def _metrics(self, parquet: pq.ParquetWriter) -> dict[str, Any]:
        metrics = metrics_of(parquet, self._job.schema, self._job.table_properties)
        for name in ("lower_bounds", "upper_bounds"):
            metrics[name] = pack_bounds(metrics[name])
        return metrics

    def finish(self, *, stopped: str, cause: str) -> list[FileRow]:
        """Close the last file and return one row a file."""
        self._close_file(stopped=stopped, cause=cause)
        return self._done

    def abandon(self) -> None:
        """After a failure: let go of the streams; what was written stays behind as an orphan."""
        for each in (self._parquet, self._stream):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.close()


def _peak_bytes() -> int:
    """Most memory that this process had since the task began, where the system tells; else since it began."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _be_frugal() -> None:
    """Arrow's usual allocator takes large pages and keeps them: a bounded task peaks about 10 MB higher with
    it (`python -m bench.bench_shapes --task-mb 300 --times 50`). Whoever chose one by Arrow's own variable
    keeps it."""
    if _POOL_VARIABLE not in os.environ:
        with contextlib.suppress(NotImplementedError):  # a build without it
            pa.set_memory_pool(pa.jemalloc_memory_pool())


def _forget_peak() -> None:
    """A worker of Spark's is used again, and a forked one begins with its parent's peak."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
        refs.write("5")
