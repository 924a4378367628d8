"""PyIceberg's SQL catalog, whose commits copy what they change and not the table's whole past.

A commit there begins with reading the table's metadata once more, and ends with a deep copy of all of it. A
metadata file never changes, and what this catalog loaded last mostly is what the table still has: only its
location is asked for again. The entries of the long lists in it are frozen, nobody changes one in place, so
a copy may share them. At 200 snapshots both together were a third of a publish.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from threading import local
from typing import Any, Self, TypeVar

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog, SqlCatalogBaseTable
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from sqlalchemy import ColumnElement, event, make_url, or_, select, update
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from pipelines.landing.table import commands
from pipelines.landing.table.trouble import HELD, not_taken
from sls_io.coordination.database import check_one_at, with_driver
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.cures import Do
from sls_io.values.database_codes import kind_of
from sls_io.values.deadline import current
from sls_io.values.errors import ConfigError, amount, printable

Entry = TypeVar("Entry")
BUSY_TIMEOUT_S = 30
"""How long a connection to SQLite waits for a lock, where its address says nothing."""
_LOCKED_PAUSE_S = 0.02
_PATH_CHARS_MAX = 1000
_SPOILT = {
    sqlite3.SQLITE_NOTADB: "is no SQLite database",
    sqlite3.SQLITE_CORRUPT: "is a SQLite database that is damaged",
}
_BUSY_MS = "busy_ms"
_BUSY_PART = 0.8


class NoCatalog(ConfigError):
    """The file where the SQLite catalog should be is something else, or damaged: it names no table."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"the catalog's file {printable(str(path), _PATH_CHARS_MAX)} {what}. Nothing was changed, and "
            "the tables' own files are not touched by it",
            cures=(
                Do("restore it from a backup"),
                Do("move it aside, with its -wal and -shm"),
                commands.REGISTER.plus(does="after that, for each logstore: finds the newest metadata"),
            ),
        )


class FrozenEntries(list[Entry]):
    """A list of frozen entries: its deep copy holds the same ones, and so does that of a longer one.

    Only a list of frozen entries may be shared so: a copy that changed one would change it in all.

    Worked example: a deep copy of a list of 200 snapshots is a new list with the same 200 objects. Appending
    to the copy leaves the first one as it is.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(self)

    def __add__(self, more: Iterable[Entry]) -> Self:  # type: ignore[override]
        return type(self)([*self, *more])


class UnreadableMetadata(Exception):
    """The database answered, and the metadata file that it names cannot be read; `cause` says why.

    `file` is its name ("" where the table's row names none), `location` where it is.
    """

    def __init__(self, table: str, location: str, cause: Exception) -> None:
        name = location.rsplit("/", 1)[-1]
        super().__init__(f"{name}: {type(cause).__name__}")
        self.table, self.location, self.file, self.cause = table, location, name, cause


class SharingSqlCatalog(SqlCatalog):
    """Loads tables whose snapshots and logs are shared by the copies of their metadata."""

    _loaded: tuple[str, TableMetadata] | None = None
    _thread = local()

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """As PyIceberg's, without reading the metadata file again that was read last.

        Only inside of a commit, and on its own thread: whoever loads a table to look at it has the file read,
        so a file that is gone or damaged is seen.
        """
        self._thread.commits = True
        try:
            return super().commit_table(table, requirements, updates)
        finally:
            self._thread.commits = False

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        """A metadata file never changes: inside of a commit, where the row still names the one that was
        loaded last, its content is known."""
        location, metadata = self._loaded or ("", None)
        if metadata and location == orm_table.metadata_location and getattr(self._thread, "commits", False):
            return Table(
                identifier=(
                    *Catalog.identifier_to_tuple(orm_table.table_namespace),
                    orm_table.table_name,
                ),
                metadata=metadata,
                metadata_location=location,
                io=self._load_file_io(metadata.properties, location),
                catalog=self,
            )
        try:
            return super()._convert_orm_to_iceberg(orm_table)
        except Exception as error:  # the database has answered: whatever the decoder met is about the file
            name = f"{orm_table.table_namespace}.{orm_table.table_name}"
            raise UnreadableMetadata(name, orm_table.metadata_location or "", error) from error

    def load_table(self, identifier: str | Identifier) -> Table:
        """As PyIceberg's, which a commit there asks for the table it is about to change."""
        table = super().load_table(identifier)
        known = table.metadata
        table.metadata = known.model_copy(
            update={
                "snapshots": FrozenEntries(known.snapshots),
                "snapshot_log": FrozenEntries(known.snapshot_log),
                "metadata_log": FrozenEntries(known.metadata_log),
            }
        )
        self._loaded = table.metadata_location, table.metadata
        return table


def busy_s(longest_s: float) -> float:
    """How long SQLite waits for a lock: a part of what is left of the deadline that is kept, so that its own
    answer, which says that nothing was done, comes before nobody knows any more.

    Worked example: 10 s are left: SQLite waits 8 for the lock, and says with 2 s to spare that nothing was
    done. Had it been waited for 10, the call would be left behind, and nobody would know.
    """
    return min(longest_s, _BUSY_PART * current().left_s)


def server_address(uri: str) -> str:
    """The address of a catalog on a server as SQLAlchemy takes it: with the driver that an address of leases
    has. Raises ConfigError for one whose password is not as an address has it."""
    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        return uri  # no address at all: who opens it says so
    check_one_at(uri, "PYICEBERG_CATALOG__LAKE__URI")
    driven = with_driver(url)
    return uri if driven == url else driven.render_as_string(hide_password=False)


def wait_no_longer(catalog: SqlCatalog) -> None:
    """Let each connection to a SQLite catalog wait as `busy_s` says, where its address may allow more."""

    def as_used(connection: Any, record: Any, _: Any) -> None:
        if _BUSY_MS not in record.info:
            (record.info[_BUSY_MS],) = connection.execute("PRAGMA busy_timeout").fetchone()
        most_s = busy_s(record.info[_BUSY_MS] / 1000)
        connection.execute(f"PRAGMA busy_timeout = {int(most_s * 1000)}")

    event.listen(catalog.engine, "checkout", as_used)


def named(catalog: SqlCatalog, table: str) -> str | None:
    """The metadata file that the table's row names, None for none. Raises NoSuchTableError without a row."""
    with Session(catalog.engine) as session:
        found = session.execute(select(IcebergTables.metadata_location).where(*_row(catalog, table))).first()
    if found is None:
        raise NoSuchTableError(f"Table does not exist: {table}")
    return str(found[0]) if found[0] else None


def repoint(catalog: SqlCatalog, table: str, old: str | None, new: str) -> bool:
    """Let the table's row name the metadata file `new`; False when it does not name `old` any more.

    One statement with what was seen in its WHERE: of two that point the row anew one changes it, and the
    other is told.
    """
    location = IcebergTables.metadata_location
    still = location == old if old else or_(location.is_(None), location == "")
    row = update(IcebergTables).where(*_row(catalog, table), still)
    with Session(catalog.engine) as session:
        changed = session.execute(row.values(metadata_location=new, previous_metadata_location=old))
        session.commit()
    return bool(getattr(changed, "rowcount", 0))


def _row(catalog: SqlCatalog, table: str) -> tuple[ColumnElement[bool], ...]:
    namespace, _, name = table.rpartition(".")
    return (
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == namespace,
        IcebergTables.table_name == name,
    )


def _check_ours(path: Path, connection: sqlite3.Connection) -> None:
    """Raises NoCatalog for a file that is no SQLite database, or is one with none of a catalog's tables.

    Story: the setting names the file of another program. PyIceberg would make its tables in there.
    """
    try:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.DatabaseError as error:
        if (spoilt := spoilt_by(path, error)) is not None:
            raise spoilt from error
        raise
    names = {str(name) for (name,) in found if not str(name).startswith("sqlite_")}
    if names and not names & set(SqlCatalogBaseTable.metadata.tables):
        raise NoCatalog(
            path, f"is the database of another program ({amount(len(names), 'table')}, none of a catalog)"
        )


def spoilt_by(path: Path | None, error: BaseException) -> NoCatalog | None:
    """What SQLite's own code says of the catalog's file; None where it says nothing of that."""
    cause = getattr(error, "orig", None) or error
    if path is None or not isinstance(cause, sqlite3.DatabaseError):
        return None
    what = _SPOILT.get(kind_of(cause))
    return None if what is None else NoCatalog(path, what)


def prepare_sqlite(path: Path) -> None:
    """WAL lets readers pass a writer, and it is a property of the file, so Spark profits too.

    Story: A and B both read the mode of a new file and want it for themselves to change it. SQLite makes
    neither wait for the other, it tells B at once that the file is locked; once A is done, B finds the mode
    as it wants it. The last one to close the file locks others out likewise. How often B is told so depends
    on how long A is kept from the processor, so it is time that bounds the looks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    wait_s = busy_s(BUSY_TIMEOUT_S)
    connection = sqlite3.connect(path, timeout=wait_s)
    try:
        _check_ours(path, connection)
        until_s = SYSTEM_CLOCK.monotonic() + wait_s
        while True:
            try:
                if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                    connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if not_taken(error) is not HELD or SYSTEM_CLOCK.monotonic() >= until_s:
                    raise
            SYSTEM_CLOCK.sleep(_LOCKED_PAUSE_S)
    finally:
        connection.close()
