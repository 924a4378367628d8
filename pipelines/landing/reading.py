"""Reading a table's own files: what cannot be read is named in one sentence, with what settles it.

Decoders raise whatever they meet in a file that was cut off or overwritten: UnicodeDecodeError, EOFError,
pyarrow's ValueError, an OSError without a number. So any error out of the read itself is about the file;
only an OSError with a number of the system, or of S3, is about the storage.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property

import pyarrow as pa
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing import ledger as codec
from pipelines.landing.contract import hour_place
from pipelines.landing.hours import hour_text
from pipelines.landing.table import is_storage, storage_trouble
from sls_io.errors import LedgerBroken, SlsError, TransportError

_HOURS_NAMED_MAX = 5


class Unreadable(LedgerBroken):
    """A file that a snapshot of the table needs is gone or damaged. `what` says which, without the cure.

    The cure is looked for when somebody asks: that reads manifests, and of many files nobody may ask.
    """

    def __init__(self, table: Table, file: DataFile | str, what: str) -> None:
        SlsError.__init__(self, what)
        self.what, self._table, self._file = what, table, file

    @cached_property
    def verb(self) -> str:  # type: ignore[override]
        """What settles it."""
        return cure(self._table, [self._file])

    def __str__(self) -> str:
        return f"{self.what}. To settle it: {self.verb}"


@contextmanager
def reading(table: Table, file: DataFile | str) -> Iterator[None]:
    """Around reading `file`, a data file or the path of a manifest or manifest list, and nothing else.

    Raises Unreadable when the file is gone or damaged, TransportError when the storage does not answer.
    """
    try:
        yield
    except (SlsError, MemoryError):
        raise
    except Exception as error:  # whatever the decoder met: the module's docstring says why
        if is_storage(error):
            raise TransportError(f"{storage_trouble(table.location(), error)}; run it again") from error
        raise Unreadable(table, file, _what(file, error)) from error


def manifests_of(table: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    """The manifests of a snapshot; none without one. Raises as `reading` does."""
    if snapshot is None:
        return []
    with reading(table, snapshot.manifest_list):
        return snapshot.manifests(table.io)


def entries_of(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    """The live entries of a manifest. Raises as `reading` does."""
    with reading(table, manifest.manifest_path):
        return manifest.fetch_manifest_entry(table.io, discard_deleted=True)


def tasks_of(table: Table, scan: DataScan) -> list[FileScanTask]:
    """The files that a scan of `table` would read. Raises as `reading` does."""
    try:
        return list(scan.plan_files())
    except Exception:
        # PyIceberg reads manifests on several threads, and its error names none: look for the one.
        for manifest in manifests_of(table, scan.snapshot()):
            entries_of(table, manifest)
        raise


def batches_of(table: Table, reader: ArrowScan, task: FileScanTask) -> list[pa.RecordBatch]:
    """What `reader` takes of one file, with the row-level deletes on it. Raises as `reading` does."""
    try:
        with reading(table, task.file):
            return list(reader.to_record_batches([task]))
    except Unreadable as error:
        for deletes in task.delete_files:
            if not table.io.new_input(deletes.file_path).exists():
                raise Unreadable(table, deletes.file_path, gone(deletes)) from error
        raise


def gone(file: DataFile) -> str:
    """That a file is not there."""
    return f"file is gone: {_last(file.file_path)}"


def cure(table: Table, files: Collection[DataFile | str]) -> str:
    """What a person can do about files that are gone or damaged, all of them together."""
    paths = {file if isinstance(file, str) else file.file_path for file in files}
    seen: dict[str, frozenset[str]] = {}
    head = table.current_snapshot()
    listed = _listed(table, head, seen) if head else frozenset()
    if listed is not None and not listed & paths:
        return (
            "restore the file; or, since main does not need it, let the snapshots that do expire: "
            "sls-lake table maintain --only expire, with fewer --snapshots"
        )
    ways = ["restore the file" if len(paths) == 1 else "restore the files"]
    hours = sorted({hour for file in files if (hour := _hour(table, file)) is not None})
    if hours and all(not isinstance(file, str) for file in files):
        named = ", ".join(map(hour_text, hours[:_HOURS_NAMED_MAX]))
        more = f" and {len(hours) - _HOURS_NAMED_MAX} more" if len(hours) > _HOURS_NAMED_MAX else ""
        where = named if len(hours) == 1 else f"HOUR for each of {named}{more}"
        ways.append(f"sls-lake backfill --mode replace --local --from {where}, while retention has it")
    target = _landing_without(table, paths, seen)
    if target is not None:
        ways.append(f"sls-lake table rollback {target}, the newest landing without it")
    return "; or ".join(ways)


def _what(file: DataFile | str, error: Exception) -> str:
    path = file if isinstance(file, str) else file.file_path
    kind = "file" if isinstance(file, DataFile) or not path.endswith(".avro") else "manifest"
    if kind == "manifest" and _last(path).startswith("snap-"):
        kind = "manifest list"
    if isinstance(error, FileNotFoundError):
        return f"{kind} is gone: {_last(path)}"
    return f"{kind} was cut off or overwritten, it cannot be read ({type(error).__name__}): {_last(path)}"


def _landing_without(table: Table, paths: Collection[str], seen: dict[str, frozenset[str]]) -> int | None:
    """The newest landing in main's past that can be rolled back to and lists none of these files."""
    snapshot = table.current_snapshot()
    forgotten: str | None = None
    while snapshot is not None:
        said = snapshot.summary.additional_properties if snapshot.summary else {}
        if any(name.startswith(codec.LEDGER_PREFIX) for name in said):
            removed = said.get(codec.FORGOTTEN_KEY, "")
            if forgotten not in (None, removed):
                return None  # rows that were removed for good would come back
            forgotten, listed = removed, _listed(table, snapshot, seen)
            if listed is not None and not listed & set(paths):
                return snapshot.snapshot_id
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return None


def _listed(table: Table, snapshot: Snapshot, seen: dict[str, frozenset[str]]) -> frozenset[str] | None:
    """Every file that a snapshot needs, by path; None when not all of its manifests can be read."""
    with suppress(Exception):  # which one it is does not matter here
        paths = {snapshot.manifest_list}
        for manifest in snapshot.manifests(table.io):
            path = manifest.manifest_path
            if path not in seen:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                seen[path] = frozenset(entry.data_file.file_path for entry in entries)
            paths |= {path, *seen[path]}
        return frozenset(paths)
    return None


def _hour(table: Table, file: DataFile | str) -> int | None:
    """The receive hour (since 1970) of a data file, as its partition says."""
    if isinstance(file, str):
        return None
    place = hour_place(table.specs()[file.spec_id], table.schema())
    return None if place is None else int(file.partition[place])


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]
