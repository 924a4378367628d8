"""A checkpoint store in one table of a database: SQLite, PostgreSQL, MySQL or MariaDB.

One row a reader, logstore and shard, and a row a reader that says what its shards must be (sql_guard.py).
Who changes anything holds that row first, so that writers of one reader take turns, and of two the further
one wins, whoever comes last. Shards are written together, in order of shard; where that fails each one is a
transaction of its own, so that one that is locked by somebody stops no other.

Tables that are not there keep nothing: they are made by the first write. One with other columns is refused,
and so are rows that are not what the last write left. That a server's whole database was put back empty
cannot be known from inside of it.

Why a row of the reader, and no lock on the shards' rows alone. Story: A and B write the first cursor of
shard 0. There is no row to lock yet; both find none, both insert, and one of them fails. Or A reads 80 and
B reads 80, A writes 95, B writes 90, and the work between the two is done again. Whoever has the reader's
row reads what is there, decides and writes before anybody else does.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from sqlalchemy import (
    Connection,
    Table,
    and_,
    delete,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from sls_io.checkpoints.sql_guard import (
    CHECKPOINTS,
    NAME_CHARS_MAX,
    READERS,
    Guard,
    SqliteFile,
    refused,
    told,
)
from sls_io.checkpoints.store import (
    Change,
    Kept,
    Written,
    filling,
    forgotten,
    impossible,
    keep_further,
    possible,
    put_back,
    thawed,
)
from sls_io.coordination.cells import unlike
from sls_io.coordination.database import Database
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.database_codes import trouble_of
from sls_io.values.errors import ConfigError, ConnectFailed, SlsError, StoreBroken, StoreError
from sls_io.values.window import Cursor

LOCK_S = 5
"""Seconds until a database that does not answer, or a locked row, is given up."""
_TRIES = 5

_C = CHECKPOINTS.c
_TABLES = (CHECKPOINTS, READERS)


class _NoTurn(Exception):
    """Another process holds the reader's own row, or the database is gone: no shard can be written."""

    def __init__(self, error: SQLAlchemyError) -> None:
        super().__init__()
        self.error = error


class SqlTable:
    """Positions of `reader` in the logstore with the origin id `of`, kept in the database at `address`.

    `address` is SQLAlchemy's URL. `filled_by` is the command that fills a new one, for errors; "" where
    nobody knows it. Raises ConfigError for an address that cannot be used here.
    """

    def __init__(
        self, address: str, *, of: str, reader: str, clock: Clock = SYSTEM_CLOCK, filled_by: str = ""
    ) -> None:
        for word, text in (("reader", reader), ("logstore", of)):
            if not 0 < len(text) <= NAME_CHARS_MAX:
                raise ConfigError(f"a {word}'s name in a checkpoint table: 1 to {NAME_CHARS_MAX} characters")
        self._of, self._reader, self._clock = of, reader, clock
        self._database = Database(address, deadline_s=LOCK_S, transactions=True)
        self._there, self._sound, fill = False, False, filling(filled_by)
        sqlite = self._database.kind == "sqlite"
        self._file = SqliteFile(self._database.url, self.name, fill) if sqlite else None
        self._guard = Guard(self.name, reader=reader, of=of, file=self._file, fill=fill)

    @property
    def name(self) -> str:
        """The database, without its password."""
        return f"database {self._database.name}"

    def read(self) -> Mapping[int, Kept]:
        """This reader's rows. Raises StoreBroken where they are not what was written, ConnectFailed for a
        database that cannot be asked or is locked, StoreError for one whose disk or rights are the cause.

        Shards and reader's row are read in one snapshot: read one after the other, a write in between would
        look like an edit.
        """
        if self._file and not self._file.there():
            return {}
        with self._connection() as connection:
            self._look(connection)
            there = self._tables(connection)
            self._snapshot(connection)
            rows = self._guard.shards(connection) if CHECKPOINTS in there else {}
            said = self._guard.said(connection) if READERS in there else None
            if there:
                self._guard.compare(connection, rows, said, there)
            connection.rollback()
        self._guard.keeps(rows)
        return rows

    def write(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        return self._each(cursors, keep_further)

    def place(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        return self._each(cursors, put_back)

    def thaw(self, at: Mapping[int, Cursor | None]) -> None:
        if at and self._begun():
            with self._changing() as connection, self._turn(connection) as rows:
                thawed(rows, at)

    def forget(self, shards: Collection[int]) -> frozenset[int]:
        if not self._begun():
            return frozenset()
        with self._changing() as connection, self._turn(connection) as rows:
            return forgotten(rows, shards)

    # --- below

    def _begun(self) -> bool:
        """Whether there is anything to change: no table is made for nothing."""
        if self._file and not self._file.there():
            return False
        with self._connection() as connection:
            return bool(self._tables(connection))

    def _snapshot(self, connection: Connection) -> None:
        """What is read from here on is of one moment: the shards and what is said of them."""
        if self._file:
            connection.exec_driver_sql("BEGIN")
        else:
            connection.execution_options(isolation_level="REPEATABLE READ")

    @contextmanager
    def _turn(self, connection: Connection) -> Iterator[dict[int, Kept]]:
        """One transaction, in which no other process changes this reader's rows: what they are, and on
        leaving what they become. Then the reader's own row says the same.

        Worked example: shard 0 is at 12 and shard 1 at 7; 13 and 6 are to be written. One update of shard
        0, `ahead` for shard 1, one update of the reader's row to `{"0": ["13", false], "1": ["7", false]}`,
        one commit. A kill before the commit leaves 12 and 7 and a row that says so. What is remembered
        beside a SQLite file comes after it: the other way round a kill would call a first start a loss.
        """
        try:
            said = self._taken(connection)
        except SQLAlchemyError as error:
            raise _NoTurn(error) from error
        try:
            before = self._guard.shards(connection)
            self._guard.compare(connection, before, said, _TABLES)
            rows = dict(before)
            yield rows
            self._put(connection, before, rows)
            now = told(rows)
            if now != said:
                connection.execute(update(READERS).where(self._guard.own).values(shards=now))
            connection.commit()
        except BaseException:
            with suppress(SQLAlchemyError):
                connection.rollback()
            raise
        self._guard.keeps(rows)

    def _taken(self, connection: Connection) -> str | None:
        """The reader's own row, held until the end of the transaction: what it says, None when it is new.

        Two that make the row at once: one gets it, the other's insert is refused, and it looks again.

        On SQLite BEGIN IMMEDIATE takes the file's one lock for writing before anything is read. A
        transaction that began with a read would have to get that lock later, and is refused at once,
        without a wait, where another wrote meanwhile. After the rollback the driver begins a transaction of
        its own with the insert.
        """
        for _ in range(_TRIES):
            if self._file:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            said = self._guard.said(connection, hold=True)
            if said is not None:
                return said
            # MySQL holds the gap where the row would be, and two that hold it could not make the row.
            connection.rollback()
            new = {"reader": self._reader, "origin": self._of, "shards": ""}
            try:
                connection.execute(insert(READERS), [new])
            except IntegrityError:
                connection.rollback()
                continue
            return None
        raise ConnectFailed(
            f"{self.name}: others dropped this reader's row {_TRIES} times meanwhile: ask again"
        )

    def _put(self, connection: Connection, before: Mapping[int, Kept], after: Mapping[int, Kept]) -> None:
        """Change the rows that are others now, in order of shard. Raises StoreError for one that somebody
        changed without a turn."""
        for shard in sorted(s for s in {*before, *after} if before.get(s) != after.get(s)):
            had, has = before.get(shard), after.get(shard)
            row = {"kept_cursor": has.cursor, "saved_s": has.saved_s, "frozen": has.frozen} if has else {}
            if had is None:
                key = {"reader": self._reader, "origin": self._of, "shard": shard}
                connection.execute(insert(CHECKPOINTS), [key | row])
                continue
            # The WHERE stands for whoever writes without taking a turn: what was read is what is changed.
            same = _C.kept_cursor.is_(None) if had.cursor is None else _C.kept_cursor == had.cursor
            where = and_(self._guard.mine, _C.shard == shard, same, _C.frozen.is_(had.frozen))
            changed = (
                update(CHECKPOINTS).where(where).values(row) if has else delete(CHECKPOINTS).where(where)
            )
            if connection.execute(changed).rowcount != 1:
                raise StoreError(
                    f"{self.name}: somebody changed the row of shard {shard} without a turn, as older "
                    "releases do: run one everywhere. Nothing was changed"
                )

    def _each(self, cursors: Mapping[int, Cursor], change: Change) -> tuple[Written, ...]:
        """All shards in one transaction; where that fails each in its own. Raises while the database cannot
        be written at all.

        Where all fail in one transaction, one row may be to blame, which somebody else has locked. One by one
        the others are written.

        Worked example, on a server: 0, 1 and 2 are to be written, and somebody holds the row of 1. The one
        transaction waits `LOCK_S`, 5 s, and is rolled back whole. Then 0 is written, 1 waits 5 s more and
        is `failed`, 2 is written: 10 s, and two of three.
        """
        wanted = {shard: cursor for shard, cursor in cursors.items() if possible(cursor)}
        written = {shard: impossible(shard) for shard in cursors if shard not in wanted}
        if wanted:
            with self._changing() as connection:
                try:
                    with self._turn(connection) as rows:
                        done = change(rows, wanted, self._clock.now())
                except SQLAlchemyError:
                    if self._file:
                        # One lock and one disk for all rows: the next shard would fail as this one did.
                        raise
                    done = self._one_by_one(connection, wanted, change)
                written |= {one.shard: one for one in done}
        return tuple(written[shard] for shard in sorted(written))

    def _one_by_one(
        self, connection: Connection, wanted: Mapping[int, Cursor], change: Change
    ) -> list[Written]:
        """A shard whose row is locked fails alone. Without a turn, or without a connection, no other one can
        do better, and each would wait as long: the rest is not tried. Damage is raised.

        What each failure says of the next shard: no turn, that the reader's row is held, so nobody's turn
        comes; a lost connection, that the next one waits for it as long; damage, that a person must look
        before anything more is written. Only a row that is locked says nothing of the others.
        """
        written, lost = [], ""
        for shard, cursor in sorted(wanted.items()):
            if lost:
                written.append(Written(shard, "failed", why=lost))
                continue
            try:
                with self._turn(connection) as rows:
                    done = change(rows, {shard: cursor}, self._clock.now())
                written += done
            except _NoTurn as error:
                written.append(Written(shard, "failed", why=str(self._refusal(error.error))))
                lost = "not tried: no shard could be written at a shard before this one"
            except SQLAlchemyError as error:
                if trouble_of(error) == "damaged":
                    raise
                written.append(Written(shard, "failed", why=str(self._refusal(error))))
                lost = _lost(connection)
        return written

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            with self._database.connect() as connection:
                yield connection
        except _NoTurn as error:
            raise self._refusal(error.error) from error.error
        except SQLAlchemyError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: SQLAlchemyError) -> SlsError:
        # What is known of the tables may be what is wrong.
        self._there = False
        # The command fills the store that it names, and this one cannot be filled.
        elsewhere = "Repair or restore it; or fill a new one elsewhere from another store"
        cure = self._file.cure if self._file else elsewhere
        return refused(error, self.name, self._database.url, LOCK_S, cure=cure)

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """A connection to sound tables, which are made where they are not."""
        if self._file:
            self._file.there()
        with self._connection() as connection:
            if not self._sound:
                self._look(connection)
            self._made(connection)
            yield connection

    def _look(self, connection: Connection) -> None:
        if self._file:
            self._file.check(connection)
        self._sound = True

    def _tables(self, connection: Connection) -> tuple[Table, ...]:
        """Those of our tables that are there. Raises StoreBroken for others' tables, and for lost ones.

        The one that is made last is looked for first. Story: A finds no table of the shards. B makes both and
        writes; A finds B's row of the reader, which says that there is a shard, and none: A calls it lost.
        """
        if self._there:
            return _TABLES
        looked = inspect(connection)
        there = tuple(table for table in _TABLES[::-1] if looked.has_table(table.name))[::-1]
        for table in there:
            if differs := unlike(looked, table):
                raise StoreBroken(
                    f"{self.name}: the table {table.name} {differs}, so it is another program's or another "
                    "release's, or somebody altered it. Use another database, rename that table, or alter it "
                    "back"
                )
        if not there:
            self._guard.begins(alone=True)
        connection.rollback()
        self._there = there == _TABLES
        return there

    def _made(self, connection: Connection) -> None:
        """Make the tables unless they are there; of two that make one at once one finds it made.

        Two that start at once: both find no table, A makes it, B's CREATE is refused. B looks, finds it,
        and goes on. A refusal with no table behind it is of another kind, and is raised.
        """
        if self._tables(connection) == _TABLES:
            return
        for table in _TABLES:
            try:
                table.create(connection, checkfirst=True)
                connection.commit()
            except SQLAlchemyError:
                connection.rollback()
                if not inspect(connection).has_table(table.name):
                    raise
                connection.rollback()
        self._there = True


def _lost(connection: Connection) -> str:
    """Whether the connection is gone for good: each shard that is still tried would wait for it again."""
    try:
        connection.rollback()
        connection.execute(select(1))
        connection.rollback()
    except SQLAlchemyError:
        return "not tried: the connection to the database was lost at a shard before this one"
    return ""
