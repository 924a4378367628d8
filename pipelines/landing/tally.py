"""Counts what the files of a table hold of one logstore: rows, identity sums, twins, strangers.

Only the identity columns are read, an hour at a time: a row's receive hour follows from its cursor,
so twins are in one hour, and memory is the identities of the largest hour, 16 bytes a row.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contract import hour_place
from pipelines.landing.reading import Unreadable, batches_of, cure, tasks_of
from sls_io.claim import Ledger, ShardLedger
from sls_io.decode import identity_sum
from sls_io.window import Window

Count = tuple[int, int]
"""Rows and the identity sum over them, modulo 2**64."""

_Longs = npt.NDArray[np.int64]


@dataclass
class Tally:
    """What the files hold of one shard; the counts are of rows.

    doubled  rows whose identity an earlier one has
    outside  rows that lie in no interval that the ledger calls landed
    windows  what lies in each of the windows that were asked for
    last     the highest cursor, -1 without rows
    """

    rows: int = 0
    sum: int = 0
    doubled: int = 0
    outside: int = 0
    windows: dict[Window, Count] = field(default_factory=dict)
    last: int = -1


def tally(
    table: Table, origin: str, ledger: Ledger, windows: Iterable[Window] = ()
) -> tuple[dict[int, Tally], list[str]]:
    """Each shard's tally over all files of the current snapshot that can be read, and a sentence for each
    other one and for what settles it. Raises TransportError when the storage does not answer."""
    columns = ("__shard__", "__cursor__", "__index__")
    mine = EqualTo(term="__origin__", value=origin)
    scan = table.scan(row_filter=mine, selected_fields=columns)
    reader = ArrowScan(table.metadata, table.io, scan.projection(), mine)
    tallies: dict[int, Tally] = defaultdict(Tally)
    for window in windows:
        tallies[window.shard].windows[window] = (0, 0)
    wrong: list[str] = []
    damaged: list[DataFile] = []
    try:
        hours = _by_hour(table, tasks_of(table, scan))
    except Unreadable as error:
        return {}, [f"{error.what}; {error.verb}"]
    for tasks in hours:
        keys: dict[int, list[_Longs]] = defaultdict(list)
        for task in tasks:
            try:
                batches = batches_of(table, reader, task)
            except Unreadable as error:
                wrong.append(error.what)
                damaged.append(task.file)
                continue
            for shards, cursors, indexes in _identities(batches):
                for shard in np.unique(shards).tolist():
                    at = shards == shard
                    keys[shard].append(np.stack([cursors[at], indexes[at]]))
        for shard, parts in keys.items():
            _count(tallies[shard], shard, np.concatenate(parts, axis=1), ledger.shards.get(shard))
    return dict(tallies), [*wrong, cure(table, damaged)] if damaged else []


def _by_hour(table: Table, tasks: Iterable[FileScanTask]) -> Iterable[list[FileScanTask]]:
    """The files of each receive hour; all files together when a partition spec has no hour."""
    hours: dict[int | None, list[FileScanTask]] = defaultdict(list)
    places = {number: hour_place(spec, table.schema()) for number, spec in table.specs().items()}
    for task in tasks:
        place = places[task.file.spec_id]
        hours[None if place is None else task.file.partition[place]].append(task)
    return [[task for each in hours.values() for task in each]] if None in hours else hours.values()


def _identities(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[_Longs, _Longs, _Longs]]:
    for batch in batches:
        shards, cursors, indexes = (
            batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64)
            for name in ("__shard__", "__cursor__", "__index__")
        )
        yield shards, cursors, indexes


def _count(tally: Tally, shard: int, keys: _Longs, entry: ShardLedger | None) -> None:
    order = np.lexsort((keys[1], keys[0]))
    cursors, indexes = keys[0][order], keys[1][order]
    tally.rows += len(cursors)
    tally.last = max(tally.last, int(cursors[-1]))
    tally.sum = (tally.sum + identity_sum(shard, cursors, indexes)) % 2**64
    tally.doubled += int(((cursors[1:] == cursors[:-1]) & (indexes[1:] == indexes[:-1])).sum())
    inside = np.zeros(len(cursors), dtype=bool)
    for begin, end in entry.landed if entry else ():
        inside |= (cursors >= begin) & (cursors < end)
    tally.outside += int((~inside).sum())
    asked = list(tally.windows)
    begins = np.searchsorted(cursors, np.array([w.begin for w in asked], dtype=np.int64))
    ends = np.searchsorted(cursors, np.array([w.end for w in asked], dtype=np.int64))
    for i in np.flatnonzero(begins < ends).tolist():
        rows, total = tally.windows[asked[i]]
        part = slice(begins[i], ends[i])
        total += identity_sum(shard, cursors[part], indexes[part])
        tally.windows[asked[i]] = (rows + int(ends[i] - begins[i]), total % 2**64)
