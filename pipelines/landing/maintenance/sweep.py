"""Files of a table's folder that nothing names any more, and how old they are by the storage's own clock.

Listed only: `maintain.py` says when they may be deleted.
"""

from collections.abc import Collection, Iterator

from pyarrow.fs import FileInfo
from pyiceberg.table import Table

from pipelines.landing.inspection.table_files import Orphan, find_orphans, needed_by
from pipelines.landing.table import commands
from pipelines.landing.table.former import listed
from sls_io.values.errors import ConfigError, LedgerBroken

_METADATA = ".metadata.json"


def orphans(table: Table, *, older_than_s: float) -> tuple[Orphan, ...]:
    """Files of data and metadata that no kept snapshot refers to, all older than a time in unix seconds.

    Raises ConfigError where nothing is known about any file; as `reading.py` does.
    """
    needed = needed_by(table)
    data = [
        Orphan(f"data/{orphan.path}", orphan.size, orphan.modified_s)
        for orphan in find_orphans(table, older_than_s=older_than_s, needed=needed)
    ]
    known = {_last(path) for path in needed}
    # Names of files are unique. One that a snapshot refers to under another path is no orphan: the
    # warehouse was moved, or is reached by two names, and then nothing is known about any file.
    if known & {_last(orphan.path) for orphan in data}:
        raise ConfigError(
            f"files of table {_name(table)} are listed under other paths than its snapshots name; "
            "nothing was deleted, look at the catalog's warehouse setting"
        )
    return (*data, *_unknown(table, ".avro", known, older_than_s))


def old_metadata(table: Table, *, older_than_s: float) -> tuple[Orphan, ...]:
    """Metadata versions that the metadata log does not name, older than a time in unix seconds: a commit
    deletes none, and a refused one leaves its file, so they pile up. What the log names stays: `left_too` and
    `table adopt` look for older states there.

    Raises ConfigError where the table's own is not among the files.
    """
    known = {_last(table.metadata_location)}
    known |= {_last(entry.metadata_file) for entry in table.metadata.metadata_log}
    if not any(_last(info.path) == _last(table.metadata_location) for info in _listed(table)):
        raise ConfigError(
            f"the metadata of table {_name(table)} is not in its folder; none of it was deleted, "
            "look at the catalog's warehouse setting"
        )
    return tuple(_unknown(table, _METADATA, known, older_than_s))


def stored_s(table: Table) -> float:
    """When the storage says that the newest manifest list was written: its own now.

    Raises LedgerBroken when it does not say.

    Story: this machine's clock is three days ahead. By it each file is older than the floor, also one that a
    run wrote a minute ago and is about to publish. The storage stamped that file and the refresh by one
    clock, so the refresh tells its now.
    """
    head = table.current_snapshot()
    name = _last(head.manifest_list) if head else ""
    for info in _listed(table):
        if _last(info.path) == name:
            return float(info.mtime.timestamp())
    raise LedgerBroken(
        f"the manifest list of the newest snapshot of {_name(table)} is not in its folder; "
        "nothing was deleted",
        cures=(commands.VERIFY,),
    )


def _name(table: Table) -> str:
    return ".".join(table.name())


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _listed(table: Table) -> Iterator[FileInfo]:
    """The files of the table's metadata folder."""
    found = listed(table.io, f"{table.location()}/metadata")
    if found is None:
        raise ConfigError(
            f"files of table {_name(table)} cannot be listed through {type(table.io).__name__}; "
            "leave out the steps sweep and metadata"
        )
    yield from (info for info in found if info.mtime is not None)


def _unknown(table: Table, ending: str, known: Collection[str], before_s: float) -> Iterator[Orphan]:
    for info in _listed(table):
        name, modified_s = _last(info.path), info.mtime.timestamp()
        if name.endswith(ending) and name not in known and modified_s < before_s:
            yield Orphan(f"metadata/{name}", int(info.size or 0), modified_s)
