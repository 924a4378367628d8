"""Work on files, done in this process where it is little, and as tasks of Spark where it is much.

A proof reads files, a compaction reads and writes them. What is done with one part of the files does not
depend on the others, so it is one function of the table and the part, and who calls it does not know where
it ran. The order of the results is that of the parts. An error of ours in a part is its result: whoever
counts files goes on, and whoever cannot raises it (`unless_wrong`).

    with Spread(engine).kept():     # a verb, a step in Dagster
        plan_undo(...)              # proves the table, in tasks where it is large

Who begins a verb says it once, as with a deadline: between it and the reading of a file lie six functions
that have nothing to do with Spark. Handed on from one to the next it was forgotten where nobody measured: a
removal read its files in tasks, and before that proved the whole table in this process.

A worker gets the table without its snapshots and without a catalog: where its files lie and what its columns
are. Storage is reached with the worker's own keys (`task_storage.py`). What comes back may refer to the
table, as the error of a file that cannot be read does; here it refers to ours again, which has snapshots to
look for a cure in. Worked example: 40 GB of small files are 80 parts, so 80 tasks. The 17th cannot read a
file: its result is that Unreadable, and its receive hour is put off; the other hours are compacted.

Why an error of ours is a result, while Spark's own ends all: a task that raises fails its job, and a job that
failed has no results at all. So an Unreadable that was raised in a worker would cost the other 79 parts. A
worker that died says nothing of its part, and for that no empty answer may stand: a compaction once took
nothing for the files of an hour, and dropped the old ones.
"""

import base64
import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar
from uuid import uuid4

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata

from pipelines.landing.ledger.reading import Unreadable
from pipelines.landing.spark.probe import task_failed
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.object_store import one_after_another
from pipelines.landing.task_storage import as_worker, be_frugal, public_properties, task_io
from sls_io.values.errors import SlsError

_JOB_BYTES, _PART_BYTES_MIN = 16 * 1024 * 1024, 4096
"""What is sent with a job at once, and what a part counts at least: so a job has 4,096 tasks at most."""
_PORTION_BYTES, _OPENED_BYTES = 64 * 1024 * 1024, 64 * 1024
_TABLE = "table"
Portion = tuple[FileScanTask, ...]
Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Spread:
    """Where work on files is done: in this process up to `here_bytes_max` of the engine, and all of it
    without one. `on_done` hears how many parts of how many are done.
    """

    engine: Engine | None = None
    on_done: Callable[[int, int], None] = lambda done, total: None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """For the time of the block all work on files that this thread begins is done so."""
        before = _kept.set(self)
        try:
            yield
        finally:
            _kept.reset(before)


_HERE = Spread()
_kept: ContextVar[Spread] = ContextVar("spread", default=_HERE)


def over(
    table: Table,
    parts: Sequence[Part],
    work: Callable[[Table, Part], Result],
    *,
    bytes_of: Callable[[Part], int],
) -> "Iterator[Result | SlsError]":
    """What `work` makes of each part, in order; the error in place of what it could not make. `work`,
    parts and results are picklable.

    In this process a part is begun when its result is asked for. Raises ConfigError when Spark cannot be
    started or its workers lack something, TransportError when a task ends without an answer.
    """
    spread = _kept.get()
    if spread.engine is None or sum(map(bytes_of, parts)) <= spread.engine.here_bytes_max:
        results: Iterator[Result | SlsError] = (_tried(work, table, part) for part in parts)
    else:
        results = _on_spark(spread.engine, table, parts, work)
    return _counted(results, len(parts), spread.on_done)


def each_file(
    table: Table,
    tasks: Sequence[FileScanTask],
    make: Callable[[Table], Callable[[FileScanTask], Result]],
) -> "Iterator[Result | Unreadable]":
    """What is made of each file, in order; why where it cannot be read. `make` gives what does it, once
    for files that are read one after the other. Raises any other error."""
    found = over(table, portions_of(tasks), partial(_each_of, make), bytes_of=bytes_of)
    return chain.from_iterable(unless_wrong(found))


def _on_spark(
    engine: Engine, table: Table, parts: Sequence[Part], work: Callable[[Table, Part], Result]
) -> "Iterator[Result | SlsError]":
    place = _place(table)
    packed = (_packed(part, table) for part in parts)
    for sent in in_groups(packed, lambda part: max(_PART_BYTES_MIN, len(part)), _JOB_BYTES):
        job = _Job(*place, sent, work, engine.elsewhere)
        try:
            lines = engine.run(len(sent), job, tag=f"sls-lake-files-{uuid4().hex}")
        except SlsError:
            raise
        except Exception as error:  # Spark's, of many kinds
            raise task_failed(engine, error, __name__) from error
        yield from (_unpacked(base64.b64decode(line), table) for line in lines)


def _counted(results: Iterator[Result], total: int, on_done: Callable[[int, int], None]) -> Iterator[Result]:
    for done, result in enumerate(results, start=1):
        on_done(done, total)
        yield result


@dataclass(frozen=True)
class _Job:
    """What Spark carries to its workers: called with the numbers of parts, it gives a line for each."""

    name: tuple[str, ...]
    metadata: TableMetadata
    io_properties: dict[str, str]
    sent: Sequence[bytes]
    work: Callable[[Table, Any], Any]
    elsewhere: bool

    def __call__(self, numbers: Iterable[int]) -> Iterator[str]:
        be_frugal()
        for number in numbers:
            storage = task_io(self.io_properties, self.metadata.location)
            table = Table(self.name, self.metadata, "", storage, NoopCatalog(_TABLE))
            result = _tried(self._done, table, _unpacked(self.sent[number], table))
            yield base64.b64encode(_packed(result, table)).decode("ascii")

    def _done(self, table: Table, part: Any) -> Any:
        with as_worker(elsewhere=self.elsewhere):
            return self.work(table, part)


def in_groups(items: Iterable[Part], weigh: Callable[[Part], int], most: int) -> Iterator[list[Part]]:
    """Items that follow one another, together at most so much; one that is more alone is a group.

    Worked example: items that weigh 3, 4, 9, 1 and 1 are, with at most 8, the groups (3, 4), (9) and (1, 1).
    Order is kept and nothing is held beyond the group, so whoever asks for the first one waits for no other.
    """
    group, weight = list[Part](), 0
    for item in items:
        more = weigh(item)
        if group and weight + more > most:
            yield group
            group, weight = [], 0
        group.append(item)
        weight += more
    if group:
        yield group


def portions_of(tasks: Iterable[FileScanTask]) -> list[Portion]:
    """Files as parts of which each is work for some seconds."""
    groups = in_groups(tasks, lambda task: bytes_of((task,)), _PORTION_BYTES)
    return [tuple(group) for group in groups]


def bytes_of(portion: Portion) -> int:
    """How much work the files are, as what they take in storage; a small one is its opening."""
    return sum(max(_OPENED_BYTES, task.file.file_size_in_bytes) for task in portion)


def unless_wrong(results: "Iterable[Result | SlsError]") -> Iterator[Result]:
    """The results; raises the first error among them."""
    for result in results:
        if isinstance(result, SlsError):
            raise result
        yield result


def _each_of(
    make: Callable[[Table], Callable[[FileScanTask], Result]], table: Table, portion: Portion
) -> "list[Result | Unreadable]":
    work, found = make(table), list[Result | Unreadable]()
    for task in one_after_another(table.io, portion):
        try:
            found.append(work(task))
        except Unreadable as error:
            found.append(error)
    return found


def _tried(work: Callable[[Table, Part], Result], table: Table, part: Part) -> "Result | SlsError":
    try:
        return work(table, part)
    except SlsError as error:
        return error


def _place(table: Table) -> tuple[tuple[str, ...], TableMetadata, dict[str, str]]:
    """The table as it travels: no snapshot, whose ledgers may be megabytes, and no secret.

    A task needs location, schemas, specs and properties; which files it reads stands in its part. What needs
    the history, the cure of an error above all, is looked for on our side.
    """
    none: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}}
    metadata = table.metadata.model_copy(update={**none, "current_snapshot_id": None})
    return table.name(), metadata, public_properties(table.io.properties)


class _Pickler(pickle.Pickler):
    """Leaves the table out, wherever it stands in a value, and writes its name. An error of a file refers to
    the table; pickled with it, each error would carry all metadata, and come back with a table that has no
    snapshots to look for a cure in."""

    def __init__(self, stream: io.BytesIO, table: Table) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self._table = table

    def persistent_id(self, value: Any) -> str | None:
        return _TABLE if value is self._table else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, table: Table) -> None:
        super().__init__(stream)
        self._table = table

    def persistent_load(self, name: str) -> Table:
        return self._table


def _packed(value: Any, table: Table) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, table).dump(value)
    return stream.getvalue()


def _unpacked(sent: bytes, table: Table) -> Any:
    return _Unpickler(io.BytesIO(sent), table).load()
