"""How a checkpoint table in a database knows that something of it was lost or edited.

    a row of the reader     `sls_lake_checkpoint_reader`: each of its shards with cursor and freeze, as the
                            last write left them; written in the transaction that wrote the shards
    SQLite: the file        `PRAGMA quick_check`; a cut file may well open, and have no rows
    SQLite: beside it       FILE.kept, once something was kept: which readers of which logstores. A file that
                            is gone or empty, and one that has nothing of such a reader, is no first start

A reader whose own row is not there yet (an older release wrote its shards) is taken as it is, and its next
write makes the row. FILE.kept of an older release names nobody: it stands for whoever comes, until somebody
has rows. What cannot be known: a server's database that lost both tables, or a SQLite file that is gone with
FILE.kept. An older copy is taken: that is what restoring is. `saved_s` is for people, and is not compared.

What each way of losing something looks like:

    rows deleted or edited by hand      the reader's row says otherwise: the shard is named
    all rows, and the reader's own      FILE.kept names the reader; on a server it is a first start
    both tables dropped                 the same
    file gone, emptied, another's       FILE.kept stands beside it
    an older copy put back              rows and reader's row agree: taken, with the older positions
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    and_,
    literal,
    or_,
    select,
)
from sqlalchemy.dialects.mysql import DOUBLE, MEDIUMTEXT, VARCHAR
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from sls_io.checkpoints.store import CURSOR_MAX, Kept
from sls_io.coordination.cells import MOMENT_MS_MAX, MOST, StrangeCell
from sls_io.coordination.cells import rows as read_rows
from sls_io.values.database_codes import trouble_of
from sls_io.values.errors import ConnectFailed, SlsError, StoreBroken, StoreError
from sls_io.values.window import Cursor

NAME_CHARS_MAX = 128
_PAGE_BYTES_MIN = 512
"""No SQLite database is smaller, and SQLite takes some bytes for an empty one."""
_NOTHING = "Nothing of it was taken"

# Names are compared byte by byte, also where a database's own default takes "Dev" for "dev".
NAME = String(NAME_CHARS_MAX).with_variant(
    VARCHAR(NAME_CHARS_MAX, collation="utf8mb4_bin"), "mysql", "mariadb"
)
_SECONDS = Float(53).with_variant(DOUBLE(), "mysql", "mariadb")
METADATA = MetaData()
CHECKPOINTS = Table(
    "sls_lake_checkpoint",
    METADATA,
    Column("reader", NAME, primary_key=True),
    Column("origin", NAME, primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("kept_cursor", BigInteger, nullable=True, info={MOST: CURSOR_MAX}),
    Column("saved_s", _SECONDS, nullable=False, info={MOST: MOMENT_MS_MAX / 1000}),
    Column("frozen", Boolean, nullable=False),
)
READERS = Table(
    "sls_lake_checkpoint_reader",
    METADATA,
    Column("reader", NAME, primary_key=True),
    Column("origin", NAME, primary_key=True),
    Column("shards", Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb"), nullable=False),
)
"""`shards`: JSON, {"0": ["12", false]} for shard 0 at cursor 12, not frozen."""
_C = CHECKPOINTS.c
_ROW = (_C.shard, _C.kept_cursor, _C.saved_s, _C.frozen)


def told(shards: Mapping[int, Kept]) -> str:
    """What the reader's own row says of these.

    Worked example: shard 10 at 7, and shard 2 frozen at 12, is `{"2": ["12", true], "10": ["7", false]}`.
    In order of number, not of text: it is compared as text, so it must be the same whoever writes it. A
    cursor is text, since JSON's numbers lose bits above 2^53 in other programs.
    """
    return json.dumps(
        {
            str(shard): [None if kept.cursor is None else str(kept.cursor), kept.frozen]
            for shard, kept in sorted(shards.items())
        }
    )


class Guard:
    """The rows of `reader` in the logstore with the origin id `of`, read and held against what is said of
    them. `name` is the database, `file` its file where it is SQLite's, `fill` how a new one is filled."""

    def __init__(self, name: str, *, reader: str, of: str, file: "SqliteFile | None", fill: str) -> None:
        self._name, self._reader, self._of, self._file, self._fill = name, reader, of, file, fill
        self.mine = and_(_C.reader == reader, _C.origin == of)
        """The reader's shards."""
        self.own = and_(READERS.c.reader == reader, READERS.c.origin == of)
        """Its own row."""

    def shards(self, connection: Connection) -> dict[int, Kept]:
        """What its rows keep. Raises StoreBroken for a cell that no write of ours makes."""
        try:
            found = read_rows(connection, CHECKPOINTS, _ROW, self.mine)
        except StrangeCell as error:
            raise self._edited(str(error)) from None
        return {
            shard: Kept(None if cursor is None else Cursor(cursor), float(saved_s), bool(frozen))
            for shard, cursor, saved_s, frozen in found
        }

    def said(self, connection: Connection, *, hold: bool = False) -> str | None:
        """What its own row says, None where there is none; held until the transaction ends."""
        try:
            found = read_rows(connection, READERS, (READERS.c.shards,), self.own, hold=hold)
        except StrangeCell as error:
            raise self._edited(str(error)) from None
        return str(found[0][0]) if found else None

    def compare(
        self, connection: Connection, rows: Mapping[int, Kept], said: str | None, there: Iterable[Table]
    ) -> None:
        """Raise StoreBroken unless `rows` are what the last write left; `said` is None where no row says it,
        `there` are the tables that there are.

        Worked example: the last write said `{"0": ["12", false]}`. Somebody sets the cursor of that row to
        40: the rows say `["40", false]`, and the reader stops, naming shard 0. Its own row is deleted: the
        rows count as they stand, which is one of the cures.
        """
        if said is None and not rows:
            # A row of its own is in the making, and nothing was in it yet.
            foreign = (or_(t.c.reader != self._reader, t.c.origin != self._of) for t in there)
            others = [select(literal(1)).where(where).limit(1) for where in foreign]
            self.begins(alone=not any(connection.execute(one).all() for one in others))
        if said is None or said == told(rows):
            return
        try:
            last = {int(shard): tuple(what) for shard, what in json.loads(said).items()}
        except (ValueError, TypeError, AttributeError, RecursionError):
            last, rows = {}, {}
        what = _differs(last, {int(shard): tuple(what) for shard, what in json.loads(told(rows)).items()})
        as_it_is = f"where its rows are right as they stand, delete this reader's row of {READERS.name}; or "
        raise self._edited(what, as_it_is)

    def begins(self, *, alone: bool) -> None:
        """Nothing of the reader is there: raise StoreBroken unless it begins. `alone`: nor of anybody."""
        if self._file and self._file.kept(self._reader, self._of, alone=alone):
            raise self._edited("positions were kept in it, and none is there")

    def keeps(self, rows: Mapping[int, Kept]) -> None:
        """Remember beside the file that the reader has something in it."""
        if rows and self._file:
            self._file.mark(self._reader, self._of)

    def _edited(self, what: str, before: str = "") -> StoreBroken:
        beside = f", remove {self._file.beside}" if self._file else ""
        return StoreBroken(
            f"{self._name}: {what}. These are positions of reader {self._reader!r} in {self._of}. Restore "
            f"the database from a copy; or {before}delete this reader's rows of both tables "
            f"({CHECKPOINTS.name}, {READERS.name}){beside}, and {self._fill}. {_NOTHING}"
        )


def _differs(last: Mapping[int, tuple[object, ...]], now: Mapping[int, tuple[object, ...]]) -> str:
    """What of the shards is not as it was written last.

    Worked example: 0 was at 12 and 1 at 7; the rows say 0 at 40 and 2 at 1. `the row of shard 1 is gone;
    the row of shard 0 is not what was written; the row of shard 2 was not written by us`.
    """
    kinds = (
        (last.keys() - now.keys(), "is gone"),
        (
            {shard for shard in last.keys() & now.keys() if last[shard] != now[shard]},
            "is not what was written",
        ),
        (now.keys() - last.keys(), "was not written by us"),
    )
    parts = [f"the row of shard {', '.join(map(str, sorted(s)))} {what}" for s, what in kinds if s]
    return "; ".join(parts) or "what was written last is not readable"


class SqliteFile:
    """The file of a SQLite database, and what stands beside it; `url` is its address, `fill` how a new one is
    filled."""

    def __init__(self, url: URL, name: str, fill: str) -> None:
        self._given, self._name, self._fill = Path(url.database or ""), name, fill
        self._path = self._given.resolve()
        self.beside = self._path.with_name(f"{self._path.name}.kept")
        """FILE.kept: a line that says what it is, then one a reader, JSON, [READER, ORIGIN]."""
        self._said: str | None = None

    def there(self) -> bool:
        """Whether there is a file. Raises StoreBroken for one that was there, or is cut off.

        Story: A finds no file, or no rows. B writes the first ones, and FILE.kept after them. A finds
        FILE.kept: all is lost. So what stands beside the file is read before anything of the file is.

        What is no file, a folder, and what cannot be looked at is left to SQLite, which says what is wrong
        with it.
        """
        try:
            self._said = self.beside.read_text(errors="replace")
        except (PermissionError, IsADirectoryError):
            self._said = ""
        except OSError:
            self._said = None
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
        if not size and self._said is not None:
            what = "is gone" if size is None else "is empty"
            raise StoreBroken(
                f"{self._name} {what}, and positions were kept in it. Restore it from a copy; or remove "
                f"{self.beside}, and {self._fill}: without that file a reader begins as at its first start"
            )
        if size and size < _PAGE_BYTES_MIN:
            raise StoreBroken(f"{self._name} is no SQLite database, or is torn. {self.cure}")
        return size is not None

    def check(self, connection: Connection) -> None:
        """Raise StoreBroken for a damaged file. Reads all of it.

        A file that was cut may well open, and have no rows. So each read asks, and a table's first write: at
        the price of a read of the whole file.
        """
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

    def mark(self, reader: str, of: str) -> None:
        """Remember that something of the reader was kept; where that cannot be written the next one tries.

        Appended, never rewritten: two readers that begin at once both have their line, and a crash can only
        tear the last one. The next `mark` does not find a torn line and writes it again, behind a line
        break of its own.
        """
        line, first = _line(reader, of), ""
        with suppress(OSError):
            try:
                if line in self.beside.read_text(errors="replace"):
                    return
            except FileNotFoundError:
                first = "positions were kept in the database beside this file\n"
            file = os.open(self.beside, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.write(file, f"{first}{line}".encode())
                os.fsync(file)
            finally:
                os.close(file)

    def kept(self, reader: str, of: str, *, alone: bool) -> bool:
        """Whether something of the reader was kept, as far as was known when the file was looked for; where
        nothing of anybody is there (`alone`), something of anybody."""
        return self._said is not None and (alone or _line(reader, of) in self._said)

    @property
    def cure(self) -> str:
        """What a person does about a damaged one."""
        return f"Restore it from a copy; or move it and {self.beside} aside, and {self._fill}. {_NOTHING}"


def _line(reader: str, of: str) -> str:
    """A reader's line in FILE.kept. The blank one before it ends a line that a crash left half."""
    return f"\n{json.dumps([reader, of])}\n"


def refused(error: SQLAlchemyError, name: str, url: URL, waited_s: float, *, cure: str) -> SlsError:
    """The error of our tree, by the driver's code and never by a sentence; `cure` of a damaged database.

    Without the error's own text: it holds statements, and may hold an address with a password.
    """
    trouble = trouble_of(error)
    sqlite = url.get_backend_name() == "sqlite"
    if trouble == "damaged":
        return StoreBroken(f"{name} is damaged, or is no database. {cure}")
    if trouble == "locked":
        who = f"fuser {url.database} names it" if sqlite else "the server's list of sessions names it"
        return ConnectFailed(
            f"{name} is locked by another process, for {waited_s:g} s at least. Ask again; where it stays "
            f"locked, end that process ({who}). Nothing was changed"
        )
    if trouble == "tables":
        return StoreError(
            f"{name}: its tables were dropped or altered while this process used them. Ask again: they are "
            "looked at anew, and what is wrong with them is named. Nothing was changed"
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
