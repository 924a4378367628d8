"""What data files hold that lie in a table's folder and that no readable manifest of main lists.

Only the identity columns are read: each file once, and the files of one receive hour once more, together, to
find those that share a row. A file is of use when all of its rows are of one logstore and one receive hour,
and the ledger calls them landed or they may have been adopted. All others are leftovers.

Why not take what lies in the folder: leftovers of dead runs, files of hours that were taken back, rows that
were removed for good and the sources of a compaction lie there, too, and their names tell nothing. Here it is
said what each file holds and which of them share a row. Which are the table's follows from the ledger's
numbers (`choice.py`), never from a name or a time.

Worked example: the ledger has landed [5, 9) of shard 3. A file with rows at 5 to 8 is of use. One with rows
at 5 to 9 is not: the row at 9 is of a landing that died before its commit, and the next run lands it again.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO, pyarrow_to_schema
from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from pipelines.landing.contents.cells import (
    IDENTITY,
    Cell,
    Identities,
    apart,
    cells_in,
    edges,
    identities,
    origin_and_hour,
    totals,
)
from pipelines.landing.contents.choice import Leaf
from pipelines.landing.ledger.reading import (
    Misread,
    Unreadable,
    asked_of_files,
    entries_of,
    manifests_of,
    reading,
)
from pipelines.landing.ledger.state import TableState, ancestry
from pipelines.landing.ledger.values import Count, Key
from pipelines.landing.table.bounded_scan import rows_of_file
from pipelines.landing.table.contract import hour_place, origin_place, partition_of
from pipelines.landing.table.data_files import data_file, metrics_in
from pipelines.landing.table.former import listed
from sls_io.values.claim import Ledger
from sls_io.values.errors import ConfigError

_COLUMNS = ("__origin__", *IDENTITY)
_ENDING = ".parquet"
_Longs = npt.NDArray[np.int64]
Place = tuple[str, int]
"""An origin's id and a receive hour (since 1970)."""


@dataclass(frozen=True)
class Known:
    """What manifests of any snapshot that can still be read tell of data files, by path.

    entries  the entry of each
    left     those that were in main and are known to have left it
    """

    entries: Mapping[str, DataFile] = field(default_factory=dict)
    left: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Stray:
    """A file of use: its rows by shard, where they are, and how large it is."""

    leaf: Leaf
    place: Place
    size: int


def known(table: Table, unreadable: Collection[str]) -> Known:
    """From all snapshots that metadata has. `unreadable` are manifests that are known to be unreadable: they
    are not asked for again, and count as unreadable of every snapshot that names them. A manifest that many
    snapshots name is read once.

    Raises TransportError when the storage does not answer.
    """
    seen: dict[str, dict[str, DataFile] | None] = dict.fromkeys(unreadable)
    lists: dict[int, set[str] | None] = {}
    snapshots, unseen = table.metadata.snapshots, dict[str, ManifestFile]()
    for snapshot, manifests in asked_of_files(table, partial(_manifests, table), snapshots):
        listed_here = {m.manifest_path: m for m in manifests or ()}
        lists[snapshot.snapshot_id] = None if manifests is None else {*listed_here}
        unseen |= {path: each for path, each in listed_here.items() if path not in seen}
    seen |= asked_of_files(table, lambda path: _entries(table, unseen[path]), unseen)
    entries = {path: file for files in seen.values() for path, file in (files or {}).items()}
    main = [lists[snapshot.snapshot_id] for snapshot in reversed(list(ancestry(table)))]
    return Known(entries, frozenset(_left(main, seen)))


def _left(main: Iterable[set[str] | None], seen: Mapping[str, Mapping[str, DataFile] | None]) -> set[str]:
    """Files that main once had and later had not. `main`: the manifests of its snapshots, oldest first; None
    for a snapshot whose manifests are unknown.

    A file has left between two snapshots when no readable manifest of the later one lists it, and every
    unreadable manifest of the later one was in the earlier one already.

    Worked example: m1 lists x, m2 lists y. From {m1} to {m2} x has left. From {m1} to {b}, where b cannot be
    read, nothing is known to have left: b may be m1 written anew. From {m1, b} to {m2, b} x has left, since b
    is what it was and did not begin to list x. With {m1} once more behind these x is there again. Behind a
    snapshot of which nobody knows the manifests all begins anew.
    """
    left, there, blind = set[str](), set[str](), set[str]()
    for manifests in main:
        if manifests is None:
            there, blind = set(), set()
            continue
        now_blind = {path for path in manifests if seen[path] is None}
        now = {file for path in manifests for file in seen[path] or ()}
        left -= now
        if now_blind <= blind:
            left |= there - now
        there, blind = now, now_blind
    return left


def _manifests(table: Table, snapshot: Snapshot) -> list[ManifestFile] | None:
    with suppress(Unreadable, Misread):
        return manifests_of(table, snapshot)
    return None


def _entries(table: Table, manifest: ManifestFile) -> dict[str, DataFile] | None:
    with suppress(Unreadable, Misread):
        found = (entry.data_file for entry in entries_of(table, manifest))
        return {file.file_path: file for file in found if file.content == DataFileContent.DATA}
    return None


def look(table: Table, state: TableState, listed_now: Collection[str], known: Known) -> list[Stray]:
    """The files of use, in the folder or named by a manifest, that are not in `listed_now` (paths of the data
    files that main is known to list).

    Raises ConfigError for storage that cannot be listed, else as `reading.py` does.

    A path is compared as the storage has it, without scheme and host: a manifest says s3://bucket/f or
    file:///f, a list says bucket/f or /f. Compared as they are written, each file would be there twice, once
    by either name, and its rows would never add up. What a manifest calls it is the name that is kept, since
    a new manifest has to say the same. A file that only a manifest names has no time (0): it is the oldest.
    """
    folder = f"{table.location().rstrip('/')}/data"
    found = listed(table.io, folder, recursive=True)
    if found is None:
        raise ConfigError(
            f"files of table {'.'.join(table.name())} cannot be listed through {type(table.io).__name__}; "
            "restore the manifests"
        )
    parse = PyArrowFileIO.parse_location
    root = parse(folder, table.io.properties)[2]
    names = {parse(path, table.io.properties)[2]: path for path in known.entries}
    files = {path: (known.entries[path].file_size_in_bytes, 0.0) for path in names.values()}
    for info in found:
        if info.path.endswith(_ENDING):
            path = names.get(info.path) or f"{folder}/{info.path.removeprefix(root).lstrip('/')}"
            files[path] = int(info.size or 0), info.mtime.timestamp() if info.mtime is not None else 0.0
    skipped = {parse(path, table.io.properties)[2] for path in listed_now}
    strays = []
    for path, (size, modified_s) in sorted(files.items()):
        if parse(path, table.io.properties)[2] in skipped:
            continue
        if (held := _held(table, state, path)) is not None:
            leaf = Leaf(path, held[1], modified_s, path in known.left)
            strays.append(Stray(leaf, held[0], size))
    return strays


def _held(table: Table, state: TableState, path: str) -> tuple[Place, dict[Key, Count]] | None:
    """Where a file's rows are and how many of each shard; None for a file of no use: of no rows, of several
    hours or logstores, of a logstore without a ledger, or with a row that the ledger cannot have known."""
    rows = _read(table, path)
    places = {(each.origin, each.hour) for each in rows}
    if len(places) != 1:
        return None
    (place,) = places
    ledger = state.ledgers.get(place[0])
    if ledger is None:
        return None
    cells = cells_in(rows, edges([ledger]))
    return (place, totals(cells)) if all(_may_belong(state, ledger, cell) for cell in cells) else None


def _may_belong(state: TableState, ledger: Ledger, cell: Cell) -> bool:
    """Whether the ledger calls these rows landed; adopted rows are from before a shard's start."""
    entry = ledger.shards.get(cell.shard)
    adopted = state.adopted.of(cell.origin, cell.shard)[0] > 0
    return cell.landed(ledger) or (adopted and (entry is None or cell.last < entry.start))


def _read(table: Table, path: str) -> list[Identities]:
    """The identities of a file's rows; nothing of one that is cut off, or has no such columns: a writer that
    was killed leaves it."""
    with suppress(Unreadable):
        return _identities(table, path)
    return []


def _identities(table: Table, path: str) -> list[Identities]:
    """The same, and raises as `reading.py` does where the file is gone or damaged."""
    with reading(table, path), table.io.new_input(path).open() as stream:
        if set(_COLUMNS) <= set(pq.read_schema(stream).names):
            return [each for batch in rows_of_file(stream, _COLUMNS) for each in apart(batch)]
    return []


def _all_keys(table: Table, path: str) -> _Longs:
    """Shards, cursors and indexes of all rows of a file of use. Raises as `reading.py` does.

    Story: a sweep deletes a file after `look` has called it of use. What rows it shared with others nobody
    can say any more, and left out it would be listed all the same: so the file is named, and whoever asked
    looks again.
    """
    none = np.empty((3, 0), np.int64)  # somebody may have put another file in its place, without rows
    return np.concatenate([none, *(each.keys for each in _identities(table, path))], axis=1)


def _keys(batch: pa.RecordBatch) -> _Longs:
    """Shards, cursors and indexes of the rows."""
    return np.stack(
        [batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in IDENTITY[:3]]
    )


def conflicts(
    table: Table, strays: Iterable[Stray], there: Collection[FileScanTask]
) -> tuple[set[tuple[str, str]], set[str]]:
    """Pairs of files that share a row; and the files with a row that a file of `there` shows, too, or with
    one row twice.

    Raises as `reading.py` does, also for one of `strays` that is gone or damaged by now; rows of a lost file
    among `there` are not there.

    Only files of one place can share a row of it, so one place is looked at after the other, and memory holds
    the identities of one hour. Files of `there` whose partition says no place are held against each place.
    """
    by_place = defaultdict[Place, list[Stray]](list)
    for stray in strays:
        by_place[stray.place].append(stray)
    pairs, taken = set[tuple[str, str]](), set[str]()
    shown = defaultdict[Place | None, list[FileScanTask]](list)
    for task in there:
        shown[origin_and_hour(table, task.file)].append(task)
    for place, ours in by_place.items():
        mine = [_all_keys(table, stray.leaf.path) for stray in ours]
        theirs = [keys for task in (*shown[place], *shown[None]) for keys in _shown(table, task, place[0])]
        for one, other in _shared([*mine, *theirs]):
            if other < len(ours) and one != other:
                pairs.add((ours[one].leaf.path, ours[other].leaf.path))
            elif one < len(ours):
                taken.add(ours[one].leaf.path)
    return pairs, taken


def same_values(table: Table, one: str, other: str) -> bool:
    """Whether two files have the same values in the rows that both hold; a column that one of them lacks is
    null there. Raises as `reading.py` does.

    Identities prove which rows a file holds and say nothing of what is in them. Story: rows with errors are
    written anew, with the bytes of a key withheld by then; the table is rolled back, or the times of its
    files are those of a copy. Both files hold the same rows, and the newer one is not the table's.
    """
    rows = np.concatenate([part for path in (one, other) for part in _digested(table, path)], axis=1)
    order = np.lexsort((rows[2], rows[1], rows[0]))
    same = np.ones(max(0, len(order) - 1), dtype=bool)
    for column in rows[:3]:
        ordered = column[order]
        same &= ordered[1:] == ordered[:-1]
    digests = rows[3][order]
    return not (digests[1:] != digests[:-1])[same].any()


def _digested(table: Table, path: str) -> Iterator[_Longs]:
    """Shards, cursors and indexes of a file's rows, and a digest of each one's values that are not null: 32
    bytes a row, whatever is in it."""
    with reading(table, path), table.io.new_input(path).open() as stream:
        for batch in rows_of_file(stream):
            digests = b"".join(map(_digest, batch.to_pylist()))
            yield np.vstack([_keys(batch), np.frombuffer(digests, np.int64)])


def _digest(row: Mapping[str, Any]) -> bytes:
    """Eight bytes, enough for two rows of one identity that nobody chose to look alike."""
    values = sorted((name, value) for name, value in row.items() if value is not None)
    # By text, in which also NaN is what it is.
    return hashlib.sha256(repr(values).encode(errors="surrogatepass")).digest()[:8]


def _shown(table: Table, task: FileScanTask, origin: str) -> list[_Longs]:
    with suppress(Unreadable):
        return [each.keys for each in identities(table, task) if each.origin == origin]
    return []


def _shared(files: list[_Longs]) -> set[tuple[int, int]]:
    """Which of these files (shards, cursors, indexes of their rows) share a row: pairs, the lower place
    first; (a, a) for one that has a row twice.

    All rows are sorted by identity, then by file, so equal ones stand side by side: in a run of three each
    pair is one or two places apart. So places at a distance of 1, 2, ... are compared, until at a distance
    nothing is equal: as many steps as the most frequent row has copies. Worked example: file 0 has (1, 5, 0)
    and (1, 6, 0), file 1 has (1, 6, 0), file 2 has (2, 6, 0) twice. The answer is {(0, 1), (2, 2)}.
    """
    numbers = np.repeat(np.arange(len(files)), [each.shape[1] for each in files])
    rows = np.concatenate(files, axis=1)
    order = np.lexsort((numbers, rows[2], rows[1], rows[0]))
    rows, numbers = rows[:, order], numbers[order]
    found, distance = set[tuple[int, int]](), 1
    while distance < len(numbers):
        same = (rows[:, distance:] == rows[:, :-distance]).all(axis=0)
        if not same.any():
            break
        pairs = np.unique(np.stack([numbers[:-distance][same], numbers[distance:][same]]), axis=1)
        found |= {(int(one), int(other)) for one, other in pairs.T.tolist()}
        distance += 1
    return found


def entry_of(table: Table, stray: Stray, known: Known) -> DataFile | None:
    """The table's entry of a file: the one that a manifest had, or one made of the file's footer. None when
    it is in no single partition of any of the table's specs. Raises as `reading.py` does.

    An entry that counts other rows than the file holds is of another file under the same path: then the
    footer decides, as for a file that no manifest names.
    """
    path = stray.leaf.path
    there = known.entries.get(path)
    if there is not None and there.record_count == stray.leaf.rows:
        return there
    found = _partition(table, stray)
    if found is None:
        return None
    with reading(table, path), table.io.new_input(path).open() as stream:
        parquet = pq.ParquetFile(stream)
        schema = pyarrow_to_schema(parquet.schema_arrow, table.name_mapping())
        metrics = metrics_in(parquet.metadata, schema, table.properties)
    return data_file(path=path, size=stray.size, metrics=metrics, partition=found[1], spec_id=found[0])


def _partition(table: Table, stray: Stray) -> tuple[int, Record] | None:
    """The newest spec, the table's own before all, in which the file is of one partition."""
    (origin, hour), schema, name = stray.place, table.schema(), ".".join(table.name())
    current = table.spec().spec_id
    for number, spec in sorted(table.specs().items(), key=lambda item: (item[0] != current, -item[0])):
        if origin_place(spec, schema) is None or hour_place(spec, schema) is None:
            continue
        with suppress(ConfigError):
            found = {
                partition_of(spec, schema, table=name, origin=origin, shard=shard, hour=hour)
                for _, shard in stray.leaf.counts
            }
            if len(found) == 1:
                return number, found.pop()
    return None
