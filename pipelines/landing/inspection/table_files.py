"""The files of a table: those that `main` has, by receive hour, and those that no snapshot refers to, of
which the names of a run's tell which landing they were to be.

Reads the table alone, the service is not asked, and also a table that landings refuse. Nothing is changed.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from pipelines.landing.contents.cells import origin_and_hour
from pipelines.landing.ledger.reading import asked_of_files, entries_in, manifests_of
from pipelines.landing.ledger.state import facts, origins_named
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.former import listed
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError

_STAGED = re.compile(
    r"(?P<origin>[^/]+)/(?P<hour>[0-9]+)/[0-9a-f]{16}-(?P<run>[0-9a-f]{8})-[0-9a-f]{8}\.parquet"
)


@dataclass(frozen=True)
class Orphan:
    """A file in the data folder that no snapshot refers to: its path below that folder, size, time."""

    path: str
    size: int
    modified_s: float


@dataclass(frozen=True)
class HourFiles:
    """The data files of one logstore and receive hour (since 1970) that `main` has, and their rows."""

    origin: str
    hour: int
    files: int
    rows: int
    size: int


@dataclass(frozen=True)
class HeldCursors:
    """What a whole file holds: the cursors of its rows, the last one included."""

    shard: int
    first_cursor: int
    last_cursor: int
    rows: int


@dataclass(frozen=True)
class StagedFile:
    """A file that no snapshot has, its receive hour (since 1970); `part` where it was asked for and is
    whole."""

    path: str
    hour: int
    size: int
    modified_s: float
    part: HeldCursors | None = None


def hours_of(logstore: Logstore, lake: Lake) -> tuple[HourFiles, ...]:
    """The files per hour of the logstore, oldest hour first; none where there is no table."""
    table = lake.load(logstore.table)
    if table is None:
        return ()
    state = facts(table, damaged_too=True)
    mine = origins_named(state, logstore.service.project, logstore.service.logstore)
    return tuple(f for f in files_per_hour(table) if f.origin in mine)


def files_per_hour(table: Table) -> list[HourFiles]:
    """From the manifests of `main` alone; files whose partition does not say their hour are left out.

    Raises as `reading.py` does.
    """
    found: dict[tuple[int, str], HourFiles] = {}
    for entry in entries_in(table, manifests_of(table, table.current_snapshot())):
        file = entry.data_file
        at = origin_and_hour(table, file)
        if at is not None and file.content == DataFileContent.DATA:
            origin, hour = at
            old = found.get((hour, origin), HourFiles(origin, hour, 0, 0, 0))
            found[hour, origin] = HourFiles(
                origin,
                hour,
                old.files + 1,
                old.rows + file.record_count,
                old.size + file.file_size_in_bytes,
            )
    return [found[key] for key in sorted(found)]


def find_orphans(
    table: Table, *, older_than_s: float, needed: Collection[str] | None = None
) -> Iterator[Orphan]:
    """Files below the table's data folder that are not `needed` (`needed_by`), last written before then.

    Raises ConfigError for storage that is not read through pyarrow, else as `reading.py` does.

    `older_than_s` is a moment, unix seconds: a file of a landing on its way is no orphan, and only its age
    tells. Worked example: it is 100,000 and the floor is 86,400 s: files last written before 13,600 are
    named.

    Compared by the path as the storage has it: `s3://b/x` and `s3a://b/x` are one file. A file whose age the
    storage does not tell is left out.
    """
    found = listed(table.io, f"{table.location()}/data", recursive=True)
    if found is None:
        raise ConfigError(
            f"files of table {'.'.join(table.name())} cannot be listed through {type(table.io).__name__}",
            cures=(commands.LANDINGS.plus("--no-orphans"),),
        )
    parse = PyArrowFileIO.parse_location
    folder = parse(f"{table.location()}/data", table.io.properties)[2]
    paths = needed_by(table) if needed is None else needed
    known = {parse(path, table.io.properties)[2] for path in paths}
    for info in found:
        if info.path in known or info.mtime is None:
            continue
        modified_s = info.mtime.timestamp()
        if modified_s < older_than_s:
            yield Orphan(info.path.removeprefix(folder).lstrip("/"), int(info.size or 0), modified_s)


def needed_by(table: Table) -> frozenset[str]:
    """Every file that the table's metadata leads to, by path: metadata, statistics, manifests, data.

    Story: metadata was written into the data folder for a while (`write.metadata.path`). Whoever looks
    there for files of data that nobody needs finds the manifests of kept snapshots.

    Raises as `reading.py` does.
    """
    metadata = table.metadata
    lists = asked_of_files(table, partial(manifests_of, table), metadata.snapshots)
    manifests = {manifest.manifest_path: manifest for _, listed in lists for manifest in listed}
    return frozenset(
        (
            table.metadata_location,
            *(entry.metadata_file for entry in metadata.metadata_log),
            *(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)),
            *(snapshot.manifest_list for snapshot in metadata.snapshots),
            *manifests,
            *(entry.data_file.file_path for entry in entries_in(table, manifests.values())),
        )
    )


def staged_files(
    loose: Iterable[Orphan], mine: tuple[str, ...]
) -> dict[str, tuple[str, tuple[StagedFile, ...]]]:
    """Run -> origin and files, of these origins.

    Worked example: `o/7/0123456789abcdef-9f31c0de-00000001.parquet` is of the origin `o`, hour 7, landing
    `9f31c0de`. A compaction names its files otherwise: they belong to no landing.
    """
    found: dict[str, tuple[str, tuple[StagedFile, ...]]] = {}
    for orphan in loose:
        name = _STAGED.fullmatch(orphan.path)
        if name is not None and name["origin"] in mine:
            file = StagedFile(orphan.path, int(name["hour"]), orphan.size, orphan.modified_s)
            found[name["run"]] = name["origin"], (*found.get(name["run"], ("", ()))[1], file)
    return found


def held_cursors(table: Table, path: str) -> HeldCursors | None:
    """What a Parquet file's own statistics say; None for one that is still being written, or was cut off."""
    try:
        with table.io.new_input(path).open() as stream:
            metadata = pq.read_metadata(stream)
    except (OSError, pa.ArrowInvalid):
        return None
    places = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    shards, cursors = ([g.column(places[n]).statistics for g in groups] for n in ("__shard__", "__cursor__"))
    if not groups or not all(s is not None and s.has_min_max for s in (*shards, *cursors)):
        return None
    return HeldCursors(
        shards[0].min, min(c.min for c in cursors), max(c.max for c in cursors), metadata.num_rows
    )
