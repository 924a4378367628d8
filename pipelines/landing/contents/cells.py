"""Counts the rows of a table once, so that every question about them is a sum.

A *cell* is the rows of one file, origin, shard and receive hour between two edges that follow one another:
cursors at which anybody will ask on which side a row is. What a shard holds, what a ledger does not call
landed, what is in a window, in an hour, or in the hours that leave: each is a sum over cells, and no file
is read for it again. Worked example: the ledger has landed [5, 9), a window of it is [5, 7), and a file has
rows at 4, 5, 6 and 8 of an hour. Cut at 5, 7 and 9 they are the cells 4, 5 to 6, and 8: one row is outside,
two are in the window.

Why not a question to the table for each sum (rows of a shard, rows of a window, rows outside): every question
would read the files again, and each would need its own rule of what a row's hour is: four modules had one
each before. The price of one rule is that all edges are named before the reading. An interval that cuts
through a cell is refused (InvariantBroken): 2 rows at 5 and 6 say nothing of [5, 6), and a guess might delete
rows that nobody named.

Only the identity columns are read, each file once. Rows that are there twice are looked for where files may
hold such (`stretches.py`): these are read once more, and their identities held together, about 35 bytes a
row. In a table that only landings and compactions wrote there are none.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo
from pyiceberg.manifest import DataFile
from pyiceberg.schema import prune_columns
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contents.spread import Portion, bytes_of, each_file, over, unless_wrong
from pipelines.landing.contents.stretches import Stretch, joined, overlaps, stretches_of
from pipelines.landing.ledger.reading import Unreadable, batches_of, tasks_of
from pipelines.landing.ledger.values import Count, Key
from pipelines.landing.table.bounded_scan import BoundedScan
from pipelines.landing.table.contract import hour_place, origin_place
from pipelines.landing.table.object_store import one_after_another
from sls_io.decoding.decode import identity_sum
from sls_io.values.claim import SUM_MODULUS, Ledger
from sls_io.values.errors import InvariantBroken
from sls_io.values.window import HOUR_S, IntervalSet, Window

IDENTITY = ("__shard__", "__cursor__", "__index__", "__receive_hour__")
Shown = tuple[str, frozenset[str]]
"""A data file and the row-level deletes that apply to it, by path: which rows it shows."""
_HOUR_US = HOUR_S * 1_000_000
_Longs = npt.NDArray[np.int64]
_NO_EDGES = np.array([], dtype=np.int64)


class Filter(Protocol):
    """What takes some of a batch's rows: the columns it needs by field id, and which rows it takes."""

    @property
    def fields(self) -> frozenset[int]: ...

    def taken(self, batch: pa.RecordBatch) -> pa.BooleanArray: ...


@dataclass(frozen=True, slots=True)
class Cell:
    """So many rows of one shard and receive hour, their identity sum, and their lowest and highest cursor."""

    origin: str
    shard: int
    hour: int
    rows: int
    sum: int
    first: int
    last: int

    def within(self, begin: int, end: int) -> bool:
        """Whether the rows are in [begin, end). Raises InvariantBroken when some are and some are not: the
        rows were counted without an edge there.

        Worked example: a cell with rows at 5 and 6 is within [5, 9) and within [4, 7), not within [9, 12),
        and asked for [5, 6) it raises. The edges 4 and 7 need not be edges of the counting: what matters is
        that no row of the cell is on the other side.
        """
        if self.last < begin or self.first >= end:
            return False
        if self.first < begin or self.last >= end:
            raise InvariantBroken(
                f"rows {self.first} to {self.last} of shard {self.shard} were counted together, and "
                f"[{begin}, {end}) takes a part of them"
            )
        return True

    def landed(self, ledger: Ledger) -> bool:
        """Whether the ledger of their origin calls the rows landed."""
        entry = ledger.shards.get(self.shard)
        return entry is not None and any(self.within(begin, end) for begin, end in entry.landed)


Cells = tuple[Cell, ...]
_OfFile = tuple[Cells, dict[Key, list[Stretch]]]
"""The cells of a file, and how the rows of each shard lie in it."""


@dataclass(frozen=True)
class Tally:
    """What is there of one shard; the counts are of rows.

    doubled  rows whose identity an earlier one has
    outside  rows that lie in no interval that the ledger calls landed
    last     the highest cursor, -1 without rows
    """

    rows: int = 0
    sum: int = 0
    doubled: int = 0
    outside: int = 0
    last: int = -1


class Identities(NamedTuple):
    """Cursors and indexes of rows of one shard and receive hour."""

    origin: str
    shard: int
    hour: int
    cursors: _Longs
    indexes: _Longs

    @property
    def key(self) -> Key:
        """Whose rows they are."""
        return self.origin, self.shard

    @property
    def keys(self) -> _Longs:
        """Shards, cursors and indexes, a column a row."""
        return np.stack([np.full_like(self.cursors, self.shard), self.cursors, self.indexes])


Edges = Mapping[Key, _Longs]
"""Sorted cursors of each shard at which its rows are cut."""


@dataclass(frozen=True)
class Counted:
    """The cells of files, the rows that are there twice, and the files that cannot be read.

    files  by what they show: a path alone is not enough. Story: a snapshot shows file f, a later one shows f
           with a delete file that hides 3 of its rows. Both counts are right, each for its own snapshot, and
           who looks for a way back needs both at once.
    twins  rows whose identity an earlier row has, by shard; a shard without such has no entry
    lost   each file once, with why; of one that was lost at its second reading the cells are in `files`, too
    """

    files: Mapping[Shown, Cells] = field(default_factory=dict)
    twins: Mapping[Key, int] = field(default_factory=dict)
    lost: tuple[Unreadable, ...] = ()

    def cells(self, origin: str) -> Iterator[Cell]:
        """The cells of one origin."""
        return (cell for cells in self.files.values() for cell in cells if cell.origin == origin)

    def shards(self, ledger: Ledger) -> dict[int, Tally]:
        """What is there of each shard of an origin, held against its ledger."""
        last, outside = dict[int, int](), Counter[int]()
        for cell in self.cells(ledger.origin):
            last[cell.shard] = max(last.get(cell.shard, -1), cell.last)
            outside[cell.shard] += 0 if cell.landed(ledger) else cell.rows
        return {
            shard: Tally(*both, self.twins.get((origin, shard), 0), outside[shard], last[shard])
            for (origin, shard), both in totals(self.cells(ledger.origin)).items()
        }

    def windows(self, origin: str, windows: Iterable[Window]) -> dict[Window, Count]:
        """What is in each window. Only rows of its own hour: one that somebody put into another is missing
        there, and would stay behind when its hour is taken back."""
        cells = defaultdict[tuple[int, int], list[Cell]](list)
        for cell in self.cells(origin):
            cells[cell.shard, cell.hour].append(cell)
        found = dict[Window, Count]()
        for window in windows:
            inside = [c for c in cells[window.shard, window.hour] if c.within(window.begin, window.end)]
            found[window] = sum(c.rows for c in inside), sum(c.sum for c in inside) % SUM_MODULUS
        return found


def edges(ledgers: Iterable[Ledger], windows: Mapping[str, Iterable[Window]] | None = None) -> Edges:
    """The edges of what these ledgers call landed, and of windows of each origin."""
    found = defaultdict[Key, set[int]](set)
    for ledger in ledgers:
        for shard, entry in ledger.shards.items():
            found[ledger.origin, shard].update(edge for pair in entry.landed for edge in pair)
    for origin, those in (windows or {}).items():
        for window in those:
            found[origin, window.shard].update((window.begin, window.end))
    return {key: _sorted(cursors) for key, cursors in found.items()}


def edges_of(origin: str, cursors: Mapping[int, IntervalSet]) -> Edges:
    """The edges of these cursors of each shard of an origin."""
    return {(origin, shard): _sorted(e for pair in each for e in pair) for shard, each in cursors.items()}


def _sorted(cursors: Iterable[int]) -> _Longs:
    # An interval may end behind every cursor there is: a gap with an unknown end does. An array of int64
    # cannot hold such an edge, and no row can lie behind it.
    return np.array(sorted(cursor for cursor in cursors if cursor < 2**63), dtype=np.int64)


def totals(cells: Iterable[Cell]) -> dict[Key, Count]:
    """Rows and identity sum of each shard."""
    found = dict[Key, Count]()
    for cell in cells:
        rows, total = found.get((cell.origin, cell.shard), (0, 0))
        found[cell.origin, cell.shard] = rows + cell.rows, (total + cell.sum) % SUM_MODULUS
    return found


def count(table: Table, tasks: Iterable[FileScanTask], edges: Edges) -> Counted:
    """The rows of these files. A file that cannot be read is named, and the others are counted. Raises
    TransportError when the storage does not answer, Misread as `reading.py` does.

    Two passes. The first one reads each file, cuts its rows at `edges`, and notes in which stretches they
    lie. The second one reads again only files whose stretches of a shard overlap, those of one overlap
    together, for twins. Of files that only landings wrote there is no second pass.

    A file that is listed twice is counted once, and all of its rows are twins: the sums stay those of the
    ledger, and the proof is still red. A file that is lost between the passes is named, and its cells of the
    first pass stay.
    """
    files, lost, twins = dict[Shown, Cells](), dict[str, Unreadable](), Counter[Key]()
    of, stretches = dict[Shown, FileScanTask](), defaultdict[Key, list[tuple[Stretch, Shown]]](list)
    tasks = list(tasks)
    read = each_file(table, tasks, partial(_read_once, edges))
    for task, found in zip(tasks, read, strict=True):
        if isinstance(found, Unreadable):
            lost.setdefault(found.path, found)
            continue
        at = shown(task)
        if at in files:  # somebody listed it twice, and every reader reads it twice
            for cell in found[0]:
                twins[cell.origin, cell.shard] += cell.rows
            continue
        of[at], (files[at], those) = task, found
        for key, each in those.items():
            stretches[key].extend((stretch, at) for stretch in each)
    groups = [(group.keys, tuple(of[at] for at in group.files)) for group in overlaps(stretches)]
    for found_twice, errors in unless_wrong(
        over(table, groups, _twins, bytes_of=lambda group: bytes_of(group[1]))
    ):
        twins.update(found_twice)
        lost |= {error.path: error for error in errors}
    return Counted(files, twins, tuple(lost.values()))


def _read_once(edges: Edges, table: Table) -> Callable[[FileScanTask], _OfFile]:
    reader = IdentityReader(table)

    def read(task: FileScanTask) -> _OfFile:
        stretches = dict[Key, list[Stretch]]()

        def rows() -> Iterator[Identities]:
            for part in reader.of(task):
                more = stretches_of(part.cursors, part.indexes)
                stretches[part.key] = joined(stretches.get(part.key, []), more)
                yield part

        return cells_in(rows(), edges), stretches

    return read


def _twins(table: Table, group: tuple[frozenset[Key], Portion]) -> tuple[dict[Key, int], list[Unreadable]]:
    """Rows of these shards in these files whose identity an earlier one has, and files that cannot be read
    any more."""
    (keys, tasks), lost, reader = group, list[Unreadable](), IdentityReader(table)
    held = defaultdict[Key, list[tuple[_Longs, _Longs]]](list)
    for task in one_after_another(table.io, tasks):
        try:
            for part in reader.of(task):
                if part.key in keys:
                    held[part.key].append((part.cursors, part.indexes))
        except Unreadable as error:
            lost.append(error)
    doubled = {key: _doubled(held.pop(key)) for key in [*held]}
    return {key: rows for key, rows in doubled.items() if rows}, lost


def _doubled(parts: list[tuple[_Longs, _Longs]]) -> int:
    """How many of these cursors and indexes an earlier row has; the parts are let go on the way.

    Worked example: (5, 0), (5, 1), (6, 0), (5, 1), (6, 1) have one row too many; (5, 0) three times has two.
    What is no longer needed is deleted at once: at its highest this holds 35 bytes a row, and the rows are
    those of all files that overlap.
    """
    cursors, indexes = (np.concatenate(column) for column in zip(*parts, strict=True))
    parts.clear()
    order = np.lexsort((indexes, cursors))
    cursors = cursors[order]
    same = cursors[1:] == cursors[:-1]
    del cursors
    indexes = indexes[order]
    return int((same & (indexes[1:] == indexes[:-1])).sum())


def cells_of(
    table: Table, tasks: Sequence[FileScanTask], edges: Edges, where: Filter | None = None
) -> "Iterator[Cells | Unreadable]":
    """The cells of each file, or of those of its rows that `where` takes; why where it cannot be read. One
    batch is in memory at a time. Raises any other error, as `reading.py` does."""
    return each_file(table, tasks, partial(_cells_of_each, edges, where))


def _cells_of_each(edges: Edges, where: Filter | None, table: Table) -> Callable[[FileScanTask], Cells]:
    reader = IdentityReader(table, where)
    return lambda task: cells_in(reader.of(task), edges)


def cells_in(rows: Iterable[Identities], edges: Edges) -> Cells:
    """The cells of these rows, in whatever order they come: rows that came apart are joined again.

    A cursor that is an edge belongs to the cell that begins there (side "right"), since intervals are
    half-open. Worked example: the edges 5, 7 and 9 put rows at 4, 5, 6 and 8 into the places 0, 1, 1 and 2,
    so there are three cells, of 1, 2 and 1 rows. A shard without edges is one cell an hour.
    """
    found = dict[tuple[str, int, int, int], Cell]()
    for each in rows:
        cut = edges.get((each.origin, each.shard), _NO_EDGES)
        between = np.searchsorted(cut, each.cursors, side="right")
        order = np.argsort(between, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(between[order])) + 1):
            cursors = each.cursors[part]
            place = each.origin, each.shard, each.hour
            key = (*place, int(between[part[0]]))
            total = identity_sum(each.shard, cursors, each.indexes[part])
            cell = Cell(*place, len(part), total, int(cursors.min()), int(cursors.max()))
            found[key] = _joined(found[key], cell) if key in found else cell
    return tuple(found.values())


def _joined(one: Cell, other: Cell) -> Cell:
    return replace(
        one,
        rows=one.rows + other.rows,
        sum=(one.sum + other.sum) % SUM_MODULUS,
        first=min(one.first, other.first),
        last=max(one.last, other.last),
    )


def identities(table: Table, task: FileScanTask, where: Filter | None = None) -> Iterator[Identities]:
    """As `IdentityReader`, of one file."""
    return IdentityReader(table, where).of(task)


class IdentityReader:
    """The identities of rows of files, or of those that `where` takes, in parts of one shard and hour.

    Origin and hour are those that a file's partition says; where it says none, the rows'. Columns are
    selected by id: a name may hold dots, blanks and quotes. What reads them is made once for files of one
    kind: of a file of few rows the making is half of the work.
    """

    def __init__(self, table: Table, where: Filter | None = None) -> None:
        self._table, self._where = table, where
        self._scans = dict[tuple[str | None, bool], BoundedScan]()

    def of(self, task: FileScanTask) -> Iterator[Identities]:
        """Those of a file. Raises as `reading.py` does."""
        table, where = self._table, self._where
        origin, hour = partition_origin(table, task.file), partition_hour(table, task.file)
        kind = origin, hour is None
        if kind not in self._scans:
            self._scans[kind] = self._scan(*kind)
        for batch in batches_of(table, self._scans[kind], task, whole=True):
            rows = batch if where is None else batch.filter(where.taken(batch))
            if rows.num_rows:
                yield from apart(rows, origin, hour)

    def _scan(self, origin: str | None, of_any_hour: bool) -> BoundedScan:
        schema, where = self._table.schema(), self._where
        names = [*IDENTITY[:3], *(["__origin__"] * (origin is None)), *(IDENTITY[3:] * of_any_hour)]
        ids = {schema.find_field(name).field_id for name in names} | set(where.fields if where else ())
        columns = prune_columns(schema, ids, select_full_types=True)
        mine = AlwaysTrue() if origin is None else EqualTo(term="__origin__", value=origin)
        return BoundedScan(self._table.metadata, self._table.io, columns, mine)


def apart(batch: pa.RecordBatch, origin: str | None = None, hour: int | None = None) -> Iterator[Identities]:
    """Rows with their identity columns, by shard, hour and origin; the last two as said, else as they say."""
    shards, cursors, indexes = (
        batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in IDENTITY[:3]
    )
    hours = receive_hours(batch) if hour is None else np.full(len(shards), hour)
    names, of = [origin], np.zeros(len(shards), dtype=np.int64)
    if origin is None:
        coded = batch.column("__origin__").cast(pa.string()).dictionary_encode("encode")
        names, of = coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
    places = np.stack([of, shards, hours])
    if (places == places[:, :1]).all():
        yield Identities(str(names[of[0]]), int(shards[0]), int(hours[0]), cursors, indexes)
        return
    for name, shard, at in np.unique(places, axis=1).T.tolist():
        here = (places == [[name], [shard], [at]]).all(axis=0)
        yield Identities(str(names[name]), shard, at, cursors[here], indexes[here])


def receive_hours(batch: pa.RecordBatch) -> _Longs:
    """The receive hours of rows, hours since 1970."""
    at = batch.column("__receive_hour__").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    hours: _Longs = at.to_numpy(zero_copy_only=False).astype(np.int64) // _HOUR_US
    return hours


def shown(task: FileScanTask) -> Shown:
    """Which rows a file shows."""
    return task.file.file_path, frozenset(deletes.file_path for deletes in task.delete_files)


def partition_hour(table: Table, file: DataFile) -> int | None:
    """The receive hour of a file as its partition says; None where that says nothing."""
    at = hour_place(table.specs()[file.spec_id], table.schema())
    return None if at is None or file.partition[at] is None else int(file.partition[at])


def partition_origin(table: Table, file: DataFile) -> str | None:
    """The logstore whose rows a file holds as its partition says; None where that says nothing."""
    at = origin_place(table.specs()[file.spec_id], table.schema())
    return None if at is None else str(file.partition[at])


def rows_by_hour(table: Table, among: BooleanExpression) -> Counter[int | None]:
    """Receive hour -> rows of the files that may hold rows `among`, from manifests alone; under None those of
    files whose partition does not say it. Raises as `reading.py` does."""
    found = Counter[int | None]()
    for task in tasks_of(table, table.scan(row_filter=among)):
        found[partition_hour(table, task.file)] += task.file.record_count
    return found


def origin_and_hour(table: Table, file: DataFile) -> tuple[str, int] | None:
    """Both of a file; None where its partition says less."""
    origin, hour = partition_origin(table, file), partition_hour(table, file)
    return None if origin is None or hour is None else (origin, hour)
