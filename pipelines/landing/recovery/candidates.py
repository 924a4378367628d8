"""Metadata that a table could go on from, where its catalog has lost it or names an older state.

The newest is the one that was written last, as its own content says. Several files may have one number,
because a refused commit leaves its file.

Why the name's number alone does not say which is the newest: in a database's catalog A and B commit on
version 40, and each writes a file with the number 41 before it asks the catalog. One is accepted, the other
is told to look again, and its file stays. So two files say 41, and one of them was never the table's. Nothing
in either tells which; the group's checkpoints may (`register.py`).

Why nothing of an older number is taken into account: each version holds all that the versions before it held,
but for what a person or an expiry took out, and that should not be back.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from pipelines.landing.table import commands
from pipelines.landing.table.former import (
    Version,
    beside,
    number_of,
    place_of,
    read,
    uuid_in,
    uuid_of,
    versions,
)
from pipelines.landing.table.lake import Lake, NoMetadata
from pipelines.landing.table.sql_catalog import named
from pipelines.landing.table.trouble import storage_trouble
from sls_io.values.errors import (
    ConfigError,
    LandingConflict,
    LedgerBroken,
    TransportError,
    printable,
)


@dataclass(frozen=True)
class CatalogEntry:
    """What the catalog says now: whether it has the table, which file it names, and the table if readable;
    else why not."""

    there: bool
    old: str | None
    table: Table | None
    why: NoMetadata | None = None


@dataclass(frozen=True)
class Candidate:
    """A metadata file that can be read, what it says, and how its storage is reached."""

    version: Version
    metadata: TableMetadata
    io: FileIO


def entry_of(lake: Lake, name: str) -> CatalogEntry:
    """What the catalog says of the table. Raises as `Lake.catalog` does.

    Three cases: no row of the table (`there` is False), a row whose file cannot be read (`there`, `why`, and
    `old` where the catalog can be asked for the name alone, which only one in a database can), and a table
    that loads.
    """
    try:
        table = lake.load(name)
    except NoMetadata as error:
        catalog = lake.catalog()
        old = named(catalog, name) if isinstance(catalog, SqlCatalog) else None
        return CatalogEntry(True, old, None, error)
    except LedgerBroken:
        return CatalogEntry(False, None, None)
    return CatalogEntry(table is not None, table.metadata_location if table else None, table)


def candidates_of(
    lake: Lake, name: str, known: CatalogEntry, metadata: str
) -> tuple[list[Candidate], list[Version]]:
    """The metadata that could be registered, `metadata` alone where it is named; and what cannot be read.
    Raises ConfigError when there is none."""
    found, unreadable = all_there(lake, name, known)
    if metadata:
        found = [c for c in found if metadata in (c.version.path, c.version.name)]
        found = found or _elsewhere(lake, known, metadata)
    if not found:
        raise ConfigError(_none(name, known, metadata), cures=(commands.START_OVER,))
    return found, unreadable


def all_there(lake: Lake, name: str, known: CatalogEntry) -> tuple[list[Candidate], list[Version]]:
    """The same where none may be there. Raises TransportError when the storage does not answer."""
    try:
        return lake.answered(lambda: _candidates(lake, name, known))
    except OSError as error:
        raise TransportError(storage_trouble(lake.properties.get("warehouse", ""), error)) from error


def newest_of(found: list[Candidate]) -> list[Candidate]:
    """Those of the highest number of the table that was written last, in the order of their writing."""
    last = max(found, key=lambda c: c.metadata.last_updated_ms)
    same = [c for c in found if c.metadata.table_uuid == last.metadata.table_uuid]
    top = max(c.version.number for c in same)
    return sorted((c for c in same if c.version.number == top), key=lambda c: c.metadata.last_updated_ms)


def _candidates(lake: Lake, name: str, known: CatalogEntry) -> tuple[list[Candidate], list[Version]]:
    """Per table and folder the metadata with the highest number that can be read and has snapshots, and
    files that nobody can read. Of a table that the catalog has only what is newer than it says.

    The listing comes with the highest number first, so the first readable file of a table sets its number,
    and a lower one is passed over by its first bytes: metadata holds megabytes, and it is not read for
    nothing.

    Worked example: 00042-c is cut off, 00041-a and 00041-b are of one table, 00040-d is, too, and 00007-e is
    of another one that was there before. Candidates are a, b and e, unreadable is c, and d is not read.
    """
    found, unreadable = list[Candidate](), list[Version]()
    for io, folder in _places(lake, name, known):
        tops: dict[str, int] = {}
        for version in versions(io, folder) or ():
            if known.table is not None and version.number <= number_of(known.table.metadata_location):
                break
            try:
                whose = uuid_in(io, version.path)
            except FileNotFoundError:
                continue
            if known.table is not None and whose != uuid_of(known.table):
                continue
            if whose is not None and version.number < tops.get(whose, -1):
                continue
            metadata = read(io, version.path)
            if metadata is None:
                unreadable.append(version)
            # One without a snapshot is of a table that was made and never landed in. Registered, it would
            # bring nothing back.
            elif metadata.snapshots:
                tops[str(metadata.table_uuid)] = version.number
                found.append(Candidate(version, metadata, io))
    return found, unreadable


def _elsewhere(lake: Lake, known: CatalogEntry, path: str) -> list[Candidate]:
    """The metadata in a file that lies in no folder where one looks: a property of the table put it there.

    Raises ConfigError when the storage does not answer.
    """
    if "://" not in path and not path.startswith("/"):
        return []
    try:
        with warnings.catch_warnings():
            # PyIceberg only warns of an address that it has no file system for, and fails later.
            warnings.simplefilter("error", UserWarning)
            io = load_file_io(dict(lake.properties), path)
        metadata = read(io, path)
    except (OSError, ValueError, UserWarning) as error:
        raise ConfigError(storage_trouble(path, error)) from error
    if metadata is None or not metadata.snapshots:
        return []
    if known.table is not None and metadata.table_uuid != known.table.metadata.table_uuid:
        return []
    return [Candidate(Version(path, number_of(path), 0, 0.0), metadata, io)]


def _places(lake: Lake, name: str, known: CatalogEntry) -> Iterator[tuple[FileIO, str]]:
    if known.table is not None:
        yield known.table.io, known.table.metadata_location.rpartition("/")[0]
        return
    if (place := place_of(lake.catalog(), name)) is not None:
        folders = [f"{location}/metadata" for location in beside(place)]
        if known.old and (own := known.old.rpartition("/")[0]) not in folders:
            folders.append(own)
        yield from ((place.io, folder) for folder in folders)


def _none(name: str, known: CatalogEntry, metadata: str) -> str:
    if metadata:
        return (
            f"there is no metadata file {printable(metadata, 400)} of table {name} that could be registered"
        )
    if known.table is not None:
        return f"the catalog names the newest metadata of table {name} already: there is nothing to register"
    return (
        f"no metadata with a snapshot lies where table {name} would: there is nothing to register. Restore "
        "its folder, or give the table up"
    )


def table_of(lake: Lake, name: str, candidate: Candidate) -> Table:
    """The table as the candidate has it, whatever the catalog says."""
    namespace, _, last = name.rpartition(".")
    return Table(
        identifier=(namespace, last),
        metadata=candidate.metadata,
        metadata_location=candidate.version.path,
        io=candidate.io,
        catalog=lake.catalog(),
    )


def catalog_changed(name: str) -> LandingConflict:
    """The error of who decided on what the catalog does not say any more."""
    return LandingConflict(
        f"the catalog says something else of {name} by now, so nothing was changed; look again "
        "without --execute"
    )


def loaded(lake: Lake, name: str) -> Table:
    """The table that the catalog has now. Raises LandingConflict where it has none."""
    table = lake.load(name)
    if table is None:
        raise LandingConflict(f"the catalog ({lake.place}) has no table {name} any more")
    return table
