"""Counts what the files of a table hold of one logstore: rows, identity sums, twins, strangers.

Only the identity columns are read, an hour at a time: a row's receive hour follows from its cursor,
so twins are in one hour, and memory is the identities of the largest hour, 16 bytes a row.

Unless somebody put rows into another hour. Story: five rows are appended once more, labelled an hour later;
each hour holds each of its rows once. So where the cursors of two hours of a shard run into one another,
these hours are read once more, together. In a table that only landings wrote they hardly ever do.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import EqualTo
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.ledger.reading import Unreadable, batches_of, tasks_of
from pipelines.landing.table.bounded_scan import BoundedScan
from pipelines.landing.table.contract import hour_place, origin_place
from sls_io.decoding.decode import identity_sum
from sls_io.values.claim import SUM_MODULUS, Ledger, ShardLedger
from sls_io.values.window import Window

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
    table: Table,
    origin: str,
    ledger: Ledger,
    windows: Iterable[Window] = (),
    *,
    snapshot_id: int | None = None,
    tasks: Iterable[FileScanTask] | None = None,
) -> tuple[dict[int, Tally], list[Unreadable]]:
    """Each shard's tally over the readable files of a snapshot (default: main's) or of `tasks`; and the files
    that cannot be read. Raises TransportError when the storage does not answer."""
    columns = ("__shard__", "__cursor__", "__index__")
    mine = EqualTo(term="__origin__", value=origin)
    scan = table.scan(row_filter=mine, selected_fields=columns, snapshot_id=snapshot_id)
    reader = BoundedScan(table.metadata, table.io, scan.projection(), mine)
    tallies: dict[int, Tally] = defaultdict(Tally)
    for window in windows:
        tallies[window.shard].windows[window] = (0, 0)
    wrong: list[Unreadable] = []
    try:
        hours = _by_hour(table, tasks_of(table, scan) if tasks is None else _owned(table, origin, tasks))
    except Unreadable as error:
        return {}, [error]
    reached: dict[int, list[tuple[int, int, int | None]]] = defaultdict(list)
    alone: dict[tuple[int, int | None], int] = {}
    for hour, tasks in hours.items():
        for shard, keys in _keys_of(table, reader, tasks, wrong).items():
            before = tallies[shard].doubled
            _count(tallies[shard], shard, hour, keys, ledger.shards.get(shard))
            alone[shard, hour] = tallies[shard].doubled - before
            reached[shard].append((int(keys[0].min()), int(keys[0].max()), hour))
    for shard, spans in reached.items():
        for mixed in _mixed(spans):
            together = [task for hour in mixed for task in hours[hour]]
            tallies[shard].doubled += _twins(table, reader, shard, together)
            tallies[shard].doubled -= sum(alone[shard, hour] for hour in mixed)
    return dict(tallies), wrong


def _owned(table: Table, origin: str, tasks: Iterable[FileScanTask]) -> list[FileScanTask]:
    """Those of these files that may hold rows of the origin, as their partitions say."""
    places = {number: origin_place(spec, table.schema()) for number, spec in table.specs().items()}
    found = []
    for task in tasks:
        place = places[task.file.spec_id]
        if place is None or task.file.partition[place] == origin:
            found.append(task)
    return found


def _keys_of(
    table: Table, reader: BoundedScan, tasks: Iterable[FileScanTask], wrong: list[Unreadable]
) -> dict[int, _Longs]:
    """Cursors and indexes of each shard's rows in these files; what cannot be read is added to `wrong`."""
    keys: dict[int, list[_Longs]] = defaultdict(list)
    for task in tasks:
        try:
            found = list(_identities(batches_of(table, reader, task, whole=True)))
        except Unreadable as error:
            wrong.append(error)
            continue
        for shard, part in found:
            keys[shard].append(part)
    return {shard: np.concatenate(parts, axis=1) for shard, parts in keys.items()}


def _mixed(spans: list[tuple[int, int, int | None]]) -> list[list[int | None]]:
    """Hours whose cursors (first, last, hour) run into one another, in groups of two and more."""
    groups: list[list[int | None]] = []
    end = -1
    for first, last, hour in sorted(spans, key=lambda span: span[:2]):
        if groups and first <= end:
            groups[-1].append(hour)
        else:
            groups.append([hour])
        end = max(end, last)
    return [group for group in groups if len(group) > 1]


def _twins(table: Table, reader: BoundedScan, shard: int, tasks: Iterable[FileScanTask]) -> int:
    """Rows of the shard in these files whose identity an earlier one has."""
    keys = _keys_of(table, reader, tasks, []).get(shard)
    return 0 if keys is None else _doubled(keys[0], keys[1])


def _doubled(cursors: _Longs, indexes: _Longs) -> int:
    order = np.lexsort((indexes, cursors))
    ordered, places = cursors[order], indexes[order]
    return int(((ordered[1:] == ordered[:-1]) & (places[1:] == places[:-1])).sum())


def _by_hour(table: Table, tasks: Iterable[FileScanTask]) -> Mapping[int | None, list[FileScanTask]]:
    """The files of each receive hour; all files together, under None, when a partition spec has no hour."""
    hours: dict[int | None, list[FileScanTask]] = defaultdict(list)
    places = {number: hour_place(spec, table.schema()) for number, spec in table.specs().items()}
    for task in tasks:
        place = places[task.file.spec_id]
        hours[None if place is None else task.file.partition[place]].append(task)
    return {None: [task for each in hours.values() for task in each]} if None in hours else hours


def _identities(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, _Longs]]:
    """Shard, and cursors and indexes of rows of it."""
    for batch in batches:
        shards, cursors, indexes = (
            batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64)
            for name in ("__shard__", "__cursor__", "__index__")
        )
        for shard in np.unique(shards).tolist():
            at = shards == shard
            yield shard, np.stack([cursors[at], indexes[at]])


def _count(tally: Tally, shard: int, hour: int | None, keys: _Longs, entry: ShardLedger | None) -> None:
    """Add the rows of one hour; None: of all. A window's rows are those in its own hour: one that somebody
    put into another is missing there, and would stay behind when its hour is taken back."""
    order = np.lexsort((keys[1], keys[0]))
    cursors, indexes = keys[0][order], keys[1][order]
    tally.rows += len(cursors)
    tally.last = max(tally.last, int(cursors[-1]))
    tally.sum = (tally.sum + identity_sum(shard, cursors, indexes)) % SUM_MODULUS
    tally.doubled += _doubled(cursors, indexes)
    inside = np.zeros(len(cursors), dtype=bool)
    for begin, end in entry.landed if entry else ():
        inside |= (cursors >= begin) & (cursors < end)
    tally.outside += int((~inside).sum())
    asked = [window for window in tally.windows if hour in (None, window.hour)]
    begins = np.searchsorted(cursors, np.array([w.begin for w in asked], dtype=np.int64))
    ends = np.searchsorted(cursors, np.array([w.end for w in asked], dtype=np.int64))
    for i in np.flatnonzero(begins < ends).tolist():
        rows, total = tally.windows[asked[i]]
        part = slice(begins[i], ends[i])
        total += identity_sum(shard, cursors[part], indexes[part])
        tally.windows[asked[i]] = (rows + int(ends[i] - begins[i]), total % SUM_MODULUS)
