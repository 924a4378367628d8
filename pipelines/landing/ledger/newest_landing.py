"""The newest landing: whether its files are there, and hold the rows that its windows say; and where it was
last seen, once its snapshot is expired."""

from collections.abc import Iterable, Iterator
from itertools import islice

from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing.ledger import codec
from pipelines.landing.ledger.reading import (
    Unreadable,
    check_kept,
    entries_in,
    gone,
    manifests_of,
    other_size,
    sizes_unless,
)
from pipelines.landing.ledger.summary import is_landing, summary_of, windows_of
from pipelines.landing.table import commands
from pipelines.landing.table.former import read, versions
from sls_io.values.errors import LedgerBroken, amount

_VERSIONS_MAX = 100
"""So many older versions of a table's metadata are read at most: one that is expired every day has far
fewer between two looks of a person."""


def expired_landing(table: Table) -> Snapshot | None:
    """The newest landing of a table whose metadata has its snapshot and the tag no more, as older versions of
    the metadata have it; None where these are gone, too. What it says is to be proven by the rows.

    Story: OSS Tables keeps one snapshot, that of its own compaction. The ledger was in another one, which no
    metadata file has any more but those of before.

    Raises OSError when the storage does not answer.
    """
    named = [entry.metadata_file for entry in reversed(table.metadata.metadata_log)]
    there = versions(table.io, f"{table.location()}/metadata") or ()
    paths = dict.fromkeys([*named, *(version.path for version in there)])
    for path in islice((p for p in paths if p != table.metadata_location), _VERSIONS_MAX):
        older = read(table.io, path)
        if older is None or older.table_uuid != table.metadata.table_uuid:
            continue
        tag = older.refs.get(codec.TAG)
        snapshot = older.snapshot_by_id(tag.snapshot_id) if tag else None
        if snapshot is not None and is_landing(snapshot):
            return snapshot
    return None


def check_adds_up(table: Table, so: str = "nothing was changed") -> None:
    """Raises LedgerBroken when something disagrees in the landing under the tag; `so` says what that means
    for whoever asked. Raises as `check_kept`."""
    problems, lost = _kept_disagreements(table)
    if problems:
        raise LedgerBroken(
            f"the newest landing in {'.'.join(table.name())} does not add up ({'; '.join(problems)}); {so}",
            cures=lost[0].cures if lost else (commands.VERIFY,),
        )


def reconcile(table: Table) -> list[str]:
    """What disagrees in the landing under the tag: missing or unreadable files, rows that do not add up.

    Empty when all is well. Reads the manifests of that one snapshot and asks for its files. Raises as
    `check_kept`.
    """
    return _kept_disagreements(table)[0]


def _kept_disagreements(table: Table) -> tuple[list[str], list[Unreadable]]:
    problems, lost = disagreements(table)
    if lost:
        check_kept(table)
    return problems, lost


def disagreements(table: Table) -> tuple[list[str], list[Unreadable]]:
    """What `reconcile` says, without the cures; and the files that are to blame. The catalog need not know
    the table, or not in this state.

    The rows of the files that this snapshot added must be those that its windows say, and those that it wrote
    anew without landing any (`sls-lake.rewritten`). A file that is gone, or cut off, makes no difference to
    that number, so it is looked for by itself.
    """
    tag = table.metadata.refs.get(codec.TAG)
    if tag is None:
        return [], []
    snapshot = table.snapshot_by_id(tag.snapshot_id)
    summary = summary_of(snapshot)
    _, windows = windows_of(snapshot)
    try:
        added = [entry.data_file for entry in added_entries(table, snapshot)]
    except Unreadable as error:
        return [str(error)], [error]
    lost = _harmed(table, added)
    problems = [phrase for _, phrase in lost]
    rows = sum(file.record_count for file in added)
    expected = sum(w.rows for w in windows) + int(summary.get(codec.REWRITTEN_KEY, "0"))
    if rows != expected:
        problems.append(f"snapshot {tag.snapshot_id} holds {amount(rows, 'row')}, its windows say {expected}")
    return problems, [Unreadable(table, file, phrase) for file, phrase in lost]


def _harmed(table: Table, files: Iterable[DataFile]) -> list[tuple[DataFile, str]]:
    """Those of the files that the storage does not have, or not in the size that the table says, with a
    phrase. Raises as `reading.absent`, and costs no more.

    Story: something between a run and its store kept half of what was sent, and answered as if it were all.
    """
    there = {file.file_path: file for file in files}
    sizes = sizes_unless(table, there, lambda path, size: size == there[path].file_size_in_bytes)
    return [(there[path], _harm(there[path], size)) for path, size in sizes.items()]


def _harm(file: DataFile, size: int | None) -> str:
    name = file.file_path.rsplit("/", 1)[-1]
    return (
        gone(file) if size is None else f"file was cut off or overwritten ({other_size(file, size)}): {name}"
    )


def added_entries(table: Table, snapshot: Snapshot | None) -> Iterator[ManifestEntry]:
    """Manifest entries of the data files that `snapshot` itself added. Raises as `reading.py` does.

    A manifest that the snapshot wrote may list files of others, taken over as they are: only those it says it
    added count.
    """
    if snapshot is None:
        return
    its = (m for m in manifests_of(table, snapshot) if m.added_snapshot_id == snapshot.snapshot_id)
    for entry in entries_in(table, its):
        if entry.status == ManifestEntryStatus.ADDED:
            yield entry
