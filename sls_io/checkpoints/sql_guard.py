"""How a checkpoint table in a database knows that something of it was lost or edited.

    a row of the reader     `sls_lake_checkpoint_reader`: each of its shards with cursor and freeze, as the
                            last write left them; written in the transaction that wrote the shards
    SQLite: the file        `PRAGMA quick_check`; a cut file may well open, and have no rows
    SQLite: beside it       FILE.kept, once something was kept: a file that is gone or empty is no first start

A reader whose own row is not there yet (an older release wrote its shards) is taken as it is, and its next
write makes the row. What cannot be known: a server's database that is gone with both tables, or a SQLite file
that is gone with FILE.kept. `saved_s` is for people, and is not compared.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, MetaData, String, Table, Text
from sqlalchemy.dialects.mysql import MEDIUMTEXT, VARCHAR
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from sls_io.checkpoints.store import Kept, possible
from sls_io.coordination.database import trouble_of
from sls_io.errors import ConnectFailed, SlsError, StoreBroken, StoreError
from sls_io.window import Cursor

NAME_CHARS_MAX = 128
SHARD_MAX = 2**31 - 1
_PAGE_BYTES_MIN = 512
"""No SQLite database is smaller, and SQLite takes some bytes for an empty one."""
_FILL = "fill a new one from another store (sls-lake checkpoints mirror)"

# Names are compared byte by byte, also where a database's own default takes "Dev" for "dev".
NAME = String(NAME_CHARS_MAX).with_variant(
    VARCHAR(NAME_CHARS_MAX, collation="utf8mb4_bin"), "mysql", "mariadb"
)
METADATA = MetaData()
READERS = Table(
    "sls_lake_checkpoint_reader",
    METADATA,
    Column("reader", NAME, primary_key=True),
    Column("origin", NAME, primary_key=True),
    Column("shards", Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb"), nullable=False),
)
"""`shards`: JSON, {"0": ["12", false]} for shard 0 at cursor 12, not frozen."""


def told(shards: Mapping[int, Kept]) -> str:
    """What the reader's own row says of these."""
    return json.dumps(
        {
            str(shard): [None if kept.cursor is None else str(kept.cursor), kept.frozen]
            for shard, kept in sorted(shards.items())
        }
    )


def compare(rows: Mapping[int, Kept], said: str | None, *, name: str, reader: str, of: str) -> None:
    """Raise StoreBroken unless `rows` are what the last write left; `said` is None where no row says it."""
    if said is None or said == told(rows):
        return
    try:
        last = {int(shard): tuple(what) for shard, what in json.loads(said).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        last, rows = {}, {}
    now = {int(shard): tuple(what) for shard, what in json.loads(told(rows)).items()}
    lacking, more = sorted(last.keys() - now.keys()), sorted(now.keys() - last.keys())
    other = sorted(shard for shard in last.keys() & now.keys() if last[shard] != now[shard])
    parts = [
        f"the row of shard {', '.join(map(str, shards))} {what}"
        for shards, what in (
            (lacking, "is gone"),
            (other, "is not what was written"),
            (more, "was not written by us"),
        )
        if shards
    ]
    raise StoreBroken(
        f"{name}: {'; '.join(parts) or 'what was written last is not readable'}. These are positions of "
        f"reader {reader!r} in {of}. Restore the database from a copy; or, where its rows are right as they "
        f"stand, delete this reader's row of {READERS.name}; or delete its rows of both tables, and {_FILL}. "
        "Nothing of it was taken"
    )


def cells(row: tuple[Any, ...], *, name: str, reader: str, of: str) -> tuple[int, Kept]:
    """The shard and what is kept of it, from (shard, kept_cursor, saved_s, frozen) as the driver gives them.

    Raises StoreBroken for a cell that no write of ours makes: SQLite keeps any value in any column.
    """
    shard, cursor, saved_s, frozen = row
    wrong = None
    if type(shard) is not int or not 0 <= shard <= SHARD_MAX:
        wrong = "shard"
    elif cursor is not None and (type(cursor) is not int or not possible(cursor)):
        wrong = "kept_cursor"
    elif type(saved_s) not in (int, float) or not math.isfinite(saved_s) or saved_s < 0:
        wrong = "saved_s"
    elif type(frozen) not in (bool, int) or frozen not in (0, 1):
        wrong = "frozen"
    if wrong:
        where = "one row" if wrong == "shard" else f"shard {shard}"
        raise StoreBroken(
            f"{name}: {wrong} of {where} of reader {reader!r} in {of} is no value of ours: it was edited. "
            f"Restore the database from a copy; or delete this reader's rows of both tables "
            f"(sls_lake_checkpoint, {READERS.name}), and {_FILL}. Nothing of it was taken"
        )
    return shard, Kept(None if cursor is None else Cursor(cursor), float(saved_s), bool(frozen))


class SqliteFile:
    """The file of a SQLite database, and what stands beside it; `url` is its address."""

    def __init__(self, url: URL, name: str) -> None:
        self._given, self._name = Path(url.database or ""), name
        self._path = self._given.resolve()
        self._mark = self._path.with_name(f"{self._path.name}.kept")

    def there(self) -> bool:
        """Whether there is a file. Raises StoreBroken for one that was there, or is cut off."""
        try:
            size = self._path.stat().st_size if self._path.is_file() else None
        except OSError:
            return True
        if size is None and self._path.exists():
            return True
        if size is None and self._given.is_symlink():
            raise StoreBroken(
                f"{self._name} is a link to {self._path}, which is not there. Look whether its disk is "
                "mounted; for a first start name the file itself"
            )
        if not size and self._mark.exists():
            what = "is gone" if size is None else "is empty"
            raise StoreBroken(
                f"{self._name} {what}, and positions were kept in it. Restore it from a copy; or remove "
                f"{self._mark}, and {_FILL}: without that file a reader begins as at its first start"
            )
        if size and size < _PAGE_BYTES_MIN:
            raise StoreBroken(f"{self._name} is no SQLite database, or is torn. {self.cure}")
        return size is not None

    def check(self, connection: Connection) -> None:
        """Raise StoreBroken for a damaged file. Reads all of it."""
        # In one transaction: nobody makes the file longer meanwhile.
        connection.exec_driver_sql("BEGIN")
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        page_bytes = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        cut = self._path.is_file() and self._path.stat().st_size % page_bytes
        connection.rollback()
        # SQLite takes the missing end of its last page for zeros.
        if found != "ok" or cut:
            why = "SQLite's quick_check says so" if found != "ok" else "its last page is cut off"
            raise StoreBroken(f"{self._name} is damaged: {why}. {self.cure}")

    def mark(self) -> None:
        """Remember that something was kept; where the folder may not be written the next one tries again."""
        if not self._mark.exists():
            with suppress(OSError):
                self._mark.write_text("positions were kept in the database beside this file\n")

    @property
    def cure(self) -> str:
        """What a person does about a damaged one."""
        return (
            f"Restore it from a copy; or move it and {self._mark} aside, and {_FILL}. Nothing of it was taken"
        )


def refused(error: SQLAlchemyError, name: str, url: URL, waited_s: float) -> SlsError:
    """The error of our tree, by the driver's code and never by a sentence.

    Without the error's own text: it holds statements, and may hold an address with a password.
    """
    trouble = trouble_of(error)
    sqlite = url.get_backend_name() == "sqlite"
    if trouble == "damaged":
        cure = SqliteFile(url, name).cure if sqlite else f"Repair or restore it; or {_FILL} elsewhere"
        return StoreBroken(f"{name} is damaged, or is no database. {cure}")
    if trouble == "locked":
        who = f"fuser {url.database} names it" if sqlite else "the server's list of sessions names it"
        return ConnectFailed(
            f"{name} is locked by another process, for {waited_s:g} s at least. Ask again; where it stays "
            f"locked, end that process ({who}). Nothing was changed"
        )
    if trouble == "full":
        return StoreError(
            f"{name}: the disk that it is on is full; what was kept is still there. Make space, and ask again"
        )
    if trouble == "rights":
        return StoreError(
            f"{name} cannot be opened or written by this user. Look at the rights of the file and its folder "
            "(is the folder there?), or of the database's user"
        )
    if trouble == "disk":
        return StoreError(f"{name}: its disk gave an error while it was read or written. Look at the disk")
    return ConnectFailed(
        f"{name} cannot be asked, or refused: {type(error).__name__}. Look whether it runs, and whether this "
        "user may read and write its tables"
    )
