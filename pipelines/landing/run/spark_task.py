"""The body of one Spark task: the windows of a chain are pulled, decoded and written to files, in turn.

It yields one JSON row a file (`FileRow`) and publishes nothing. The job (`WriteJob`) carries a description of
where credentials come from, never a key; a task resolves it itself. What a task needs lies below this module:
neither the ledger, nor a commit, nor what claims shards is loaded by a worker.

Memory of a task is one raw page, some of its rows decoded, and at most `ROW_GROUP_BYTES` of decoded batches,
whatever the backlog and whatever a page holds, and less of both with `budget.task_mb`; rows of a megabyte
each are written apart from others. A file holds rows of one window; a retried task leaves an orphan file.
"""

import contextlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from pipelines.landing.barring import Barring
from pipelines.landing.run.tally import PullTally, tell
from pipelines.landing.table.contract import Contract, decoders_of
from pipelines.landing.table.data_files import (
    LONG_GROUP_BYTES,
    ROW_GROUP_BYTES,
    ROW_GROUP_ROWS,
    long_rows,
    metrics_of,
    packed,
    parquet_writer,
)
from pipelines.landing.table.trouble import storage_trouble
from pipelines.landing.task_storage import as_worker, be_frugal, forget_peak, keep_memory, peak_bytes, task_io
from pipelines.landing.transform import Transform, TransformFailed
from sls_io.decoding.decode import Decoder, PagePart
from sls_io.decoding.readings import readings
from sls_io.planning.values import PlannedWindow
from sls_io.values.claim import SUM_MODULUS
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import (
    CursorExpired,
    ServiceError,
    ShardGone,
    Throttled,
    TransportError,
)
from sls_io.values.settings import Budget, Service
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient
from sls_io.wire.fetch import FAILED, THROTTLED, Fetch, told
from sls_io.wire.pace import Pace

ROW_VERSION = 3
_FILE_BYTES = 512 * 1024 * 1024
OVERTAKEN = "overtaken"
UNPROVED = "unproved"
TRANSFORM = "transform"


@dataclass(frozen=True)
class WriteJob:
    """All a task needs, picklable, without a secret.

    `deadline_s` is the service's time (unix seconds), the one clock that driver and executors share.
    """

    service: Service
    budget: Budget
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
    barring: Barring

    @property
    def functions(self) -> list[str]:
        """Import paths of other people's functions that its tasks call."""
        return [*filter(None, [self.transform]), *decoders_of(self.columns)]

    def pace_of(self, index: int, clock: Clock) -> Pace:
        """What the reader of window `index` may ask of its shard, which its other chains read, too.

        Worked example: 10 MB a second may be read of a shard, and its windows are dealt to two chains: each
        asks for 5.
        """
        shard = self.windows[index].window.shard
        readers = {p.chain for p in self.windows if p.window.shard == shard}
        return Pace(self.budget.shard_mb_per_s / len(readers), clock=clock)

    @property
    def chains(self) -> list[list[int]]:
        """Indexes of the windows of each chain, in the order they are written.

        Worked example: windows 0 to 4 have the chains 0, 1, 0, 1, 0: `[[0, 2, 4], [1, 3]]`. Spark gives one
        number of a chain to each task, so the job travels once and what differs is an integer.
        """
        chains: dict[int, list[int]] = {}
        for index, planned in enumerate(self.windows):
            chains.setdefault(planned.chain, []).append(index)
        return [chains[c] for c in sorted(chains)]


@dataclass(frozen=True)
class FileRow:
    """What one file of a window is; `path` is empty for a window part without rows.

    `first` and `next` are the cursors the file proves, half-open; `stopped` says why a window ended
    before its planned end: a key of `report.STOPPED`, or ""; `cause` is what the page or the service
    said then. `barred` rows of the identity sum `barred_sum` are not in it, since they may not land.

    `v` is ROW_VERSION: a driver and workers of two releases must not read one another's rows. Worked example
    of a window [0, 100) in two files: `first` 0 and `next` 50, then 50 and 80, the second with `stopped`
    "bytes": the window proves [0, 80). A file without rows still moves `next`: its cursors were read, and
    held nothing.
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
    barred: int = 0
    barred_sum: int = 0


def task_of(
    job: WriteJob, clock: Clock = SYSTEM_CLOCK, tally: str = "", *, elsewhere: bool = False
) -> Callable[[Iterable[int]], Iterator[str]]:
    """What Spark carries to a worker and calls with the numbers of chains: gives one line a file.

    `elsewhere`: the worker has an environment of its own. What is not set is then not set there, and the
    error names the machine.
    """

    def run(chains: Iterable[int]) -> Iterator[str]:
        with as_worker(elsewhere=elsewhere):
            for chain in chains:
                for row in write_chain(job, job.chains[chain], clock=clock, tally=tally):
                    yield json.dumps(asdict(row))

    return run


def write_chain(
    job: WriteJob, indexes: Sequence[int], *, clock: Clock = SYSTEM_CLOCK, tally: str = ""
) -> list[FileRow]:
    """The windows of one chain, until its bytes are used up or one of them ends early.

    The body of one Spark task, callable without Spark. `tally` is the folder to tell how far it is, if any.

    The bytes of the chain are shared: what the first windows took is not there for the later ones, and one
    that stopped ends it, since nothing behind it could land.

    Worked example: the chain has 100 MB, and its windows hold 60, 30 and 40. The first two are read whole;
    the third has 10 left, stops at the edge of the page that passes them, and ends the chain.
    """
    forget_peak()
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

    The deadline is the service's time; its distance is taken once and counted on by the monotonic clock, so a
    machine whose wall clock is wrong stops when the others do.

    Whatever fails, its streams are closed and its files stay where they are, for the sweep: a landing deletes
    nothing.

    Raises TransportError where the storage fails: no file of the window can be believed to be whole.
    """
    window = job.windows[index].window
    client = SlsClient(job.service, clock=clock)
    try:
        try:
            left_s = max(0.0, job.deadline_s - client.now_s(shard=window.shard))
        except (TransportError, ServiceError) as error:
            kind = THROTTLED if isinstance(error, Throttled) else FAILED
            at = int(window.begin)
            return [FileRow(ROW_VERSION, index, at, at, stopped=kind, cause=told(error))]
        fetch = Fetch(
            client,
            window,
            bytes_max=bytes_max,
            deadline_s=clock.monotonic() + left_s,
            groups_max=job.budget.page_groups_max,
            page_bytes_max=job.budget.page_bytes_max,
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
    """Give every page to the writer; returns why nothing of the window may land, or "".

    Proved means that retention has not passed the window's begin, asked after its last page: only then was
    every group there while it was read. What was not proved is not landed, however many rows it has.

    Where nothing was reached there is nothing to prove: the row that goes out holds no cursors, and says what
    the service said.
    """
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
    """Decode every page, and give what the transform makes of its rows to the writer."""
    for page, reading in readings(fetch, decoder):
        for part in reading.parts(fetch.window.hour):
            writer.add(replace(part, batch=transform.of(part.batch, fetch.window.shard)))
        writer.page(
            next_cursor=page.next, raw_bytes=page.raw_bytes, groups=page.count, forward=reading.forward
        )


class Writer:
    """Parquet files of one window: buffers decoded batches, rolls a file at a page edge.

    A file ends only where a page ended, so its first and next cursor are ones that the service named, and
    files of a window follow one another without a hole.

    A file that grows over 512 MB is closed at the next edge; before its first row group there is no file in
    storage, so an empty window leaves none. Its name tells whose it is: the window's id, eight digits of the
    attempt, and eight that no other try has, so that a task that runs twice never writes over a file that
    somebody may have been told of.
    """

    def __init__(self, job: WriteJob, index: int, tally: str = "") -> None:
        self._job, self._index, self._tally = job, index, tally
        self._window = job.windows[index].window
        self._io: FileIO = task_io(job.io_properties, job.location)
        self._done: list[FileRow] = []
        self._next = int(self._window.begin)
        bounded = job.budget.buffer_bytes_max
        self._group_bytes = min(ROW_GROUP_BYTES, bounded or ROW_GROUP_BYTES)
        if bounded:
            be_frugal()
        else:
            # Where the process was not forked from ours (`worker_daemon.py`): on a cluster, behind a server.
            keep_memory()
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
        """Some rows of a page; written when enough have come together for a row group. Those that may not
        land are counted and let go.

        Barred rows are counted where they are let go, by rows and by identity sum: the ledger goes on to say
        how many rows the service had, and a second pull can be held against both numbers.
        """
        if self._job.barring:
            part, rows, total = self._job.barring.part(part, self._window.shard)
            row, barred_sum = self._row, (self._row.barred_sum + total) % SUM_MODULUS
            self._row = replace(row, barred=row.barred + rows, barred_sum=barred_sum)
            if not part.rows:
                return
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
            self._stream = self._io.new_output(path).create(overwrite=True)
            self._parquet = parquet_writer(self._stream, table, self._job.table_properties, long=self._long)
        self._parquet.write_table(table, row_group_size=rows_max)
        self._buffer, self._buffer_bytes = [], 0

    def _close_file(self, *, stopped: str, cause: str = "") -> None:
        self._flush()
        row = replace(self._row, stopped=stopped, cause=cause, peak_bytes=peak_bytes())
        if self._parquet is not None:
            self._parquet.close()
            size = self._stream.tell()
            metrics = metrics_of(self._parquet, self._job.schema, self._job.table_properties)
            self._stream.close()
            row = replace(row, size=size, metrics=packed(metrics))
        self._done.append(row)

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
