"""A checkpoint store in one table of a database: SQLite, PostgreSQL, MySQL or MariaDB.

One row a reader, logstore and shard. Whether a write may move a row stands in its WHERE, so that of two
processes the further one wins, whoever comes last. Shards are written together, in order of shard; where
that fails each one is a transaction of its own, so that one that is locked by somebody stops no other.

A table that is not there keeps nothing: it is made by the first write. One with other columns is refused.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Update,
    and_,
    bindparam,
    create_engine,
    delete,
    insert,
    inspect,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.mysql import DOUBLE, VARCHAR
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from sls_io.checkpoints.store import Fate, Kept, Written, fate_of, impossible, possible
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.coordination.database import parsed, shown, there
from sls_io.errors import ConfigError, ConnectFailed, StoreBroken
from sls_io.window import Cursor

NAME_CHARS_MAX = 128
CONNECT_S, LOCK_S = 5, 5
"""Seconds until a database that does not answer, or a locked row, is given up."""
_TRIES = 5

# Names are compared byte by byte, also where a database's own default takes "Dev" for "dev".
_NAME = String(NAME_CHARS_MAX).with_variant(
    VARCHAR(NAME_CHARS_MAX, collation="utf8mb4_bin"), "mysql", "mariadb"
)
_SECONDS = Float(53).with_variant(DOUBLE(), "mysql", "mariadb")
CHECKPOINTS = Table(
    "sls_lake_checkpoint",
    MetaData(),
    Column("reader", _NAME, primary_key=True),
    Column("origin", _NAME, primary_key=True),
    Column("shard", Integer, primary_key=True, autoincrement=False),
    Column("kept_cursor", BigInteger, nullable=True),
    Column("saved_s", _SECONDS, nullable=False),
    Column("frozen", Boolean, nullable=False),
)
_C = CHECKPOINTS.c


class SqlTable:
    """Positions of `reader` in the logstore with the origin id `of`, kept in the database at `address`.

    `address` is SQLAlchemy's URL. Raises ConfigError for one that cannot be used here.
    """

    def __init__(self, address: str, *, of: str, reader: str, clock: Clock = SYSTEM_CLOCK) -> None:
        for word, text in (("reader", reader), ("logstore", of)):
            if not 0 < len(text) <= NAME_CHARS_MAX:
                raise ConfigError(f"a {word}'s name in a checkpoint table: 1 to {NAME_CHARS_MAX} characters")
        self._of, self._reader, self._clock = of, reader, clock
        self._engine, self._there = _engine(address), False

    @property
    def name(self) -> str:
        """The database, without its password."""
        return f"database {shown(self._engine.url)}"

    def read(self) -> Mapping[int, Kept]:
        """This reader's rows. Raises ConnectFailed for a database that cannot be asked."""
        if not there(self._engine.url):
            return {}
        with self._connection() as connection:
            return self._rows(connection) if self._check(connection) else {}

    def write(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        return self._each(cursors, self._write, self._write_together)

    def place(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        return self._each(cursors, self._place)

    def freeze(self, shards: Iterable[int]) -> None:
        chosen = frozenset(shards)
        if not chosen:
            return
        with self._connection() as connection:
            self._made(connection)
            for _ in range(_TRIES):
                for shard in sorted(chosen - self._rows(connection).keys()):
                    self._inserted(connection, shard, None, frozen=True)
                frozen = update(CHECKPOINTS).where(self._mine, _C.shard.in_(sorted(chosen)))
                rows = connection.execute(frozen.values(frozen=True)).rowcount
                connection.commit()
                if rows == len(chosen):
                    return
        raise ConnectFailed(f"{self.name}: others dropped rows {_TRIES} times meanwhile: ask again")

    def thaw(self, shards: Iterable[int]) -> None:
        chosen = sorted(frozenset(shards))
        with self._connection() as connection:
            if chosen and self._check(connection):
                connection.execute(
                    update(CHECKPOINTS).where(self._mine, _C.shard.in_(chosen)).values(frozen=False)
                )
                connection.commit()

    def drop(self, keep: Collection[int]) -> frozenset[int]:
        with self._connection() as connection:
            if not self._check(connection):
                return frozenset()
            known = connection.execute(select(_C.shard).where(self._mine)).scalars().all()
            gone = frozenset(known).difference(keep)
            connection.execute(delete(CHECKPOINTS).where(self._mine, _C.shard.in_(gone)))
            connection.commit()
            return gone

    # --- below

    @functools.cached_property
    def _mine(self) -> ColumnElement[bool]:
        return and_(_C.reader == self._reader, _C.origin == self._of)

    def _rows(self, connection: Connection) -> dict[int, Kept]:
        columns = _C.shard, _C.kept_cursor, _C.saved_s, _C.frozen
        rows = connection.execute(select(*columns).where(self._mine)).all()
        connection.rollback()
        return {shard: _kept(*row) for shard, *row in rows}

    def _each(
        self,
        cursors: Mapping[int, Cursor],
        act: Callable[[Connection, int, Cursor], Written],
        together: Callable[[Connection, Mapping[int, Cursor]], Mapping[int, Written]] | None = None,
    ) -> tuple[Written, ...]:
        """What `together` settles; the other shards in a transaction of their own each. Raises only while
        the database cannot be reached at all."""
        if not cursors:
            return ()
        written, lost = [], ""
        with self._connection() as connection:
            self._made(connection)
            settled = together(connection, cursors) if together else {}
            for shard, cursor in sorted(cursors.items()):
                if shard in settled:
                    written.append(settled[shard])
                    continue
                if not possible(cursor):
                    written.append(impossible(shard))
                    continue
                if lost:
                    written.append(Written(shard, "failed", why=lost))
                    continue
                try:
                    written.append(act(connection, shard, cursor))
                except SQLAlchemyError as error:
                    written.append(Written(shard, "failed", why=self._refusal(error)))
                    lost = _lost(connection)
        return tuple(written)

    def _write_together(self, connection: Connection, cursors: Mapping[int, Cursor]) -> Mapping[int, Written]:
        """All in one transaction; what became of those of which the table tells it afterwards."""
        known, now_s = self._rows(connection), self._clock.now()
        wanted = {shard: cursor for shard, cursor in sorted(cursors.items()) if possible(cursor)}
        moves = [{"at": s, "to": c, "now": now_s} for s, c in wanted.items() if s in known]
        new = [self._row(s, c, now_s) for s, c in wanted.items() if s not in known]
        try:
            if moves:
                connection.execute(self._move, moves)
            if new:
                connection.execute(insert(CHECKPOINTS), new)
            connection.commit()
        except SQLAlchemyError:
            connection.rollback()
            return {}
        found: dict[int, Written] = {}
        for shard, kept in self._rows(connection).items():
            if shard not in wanted:
                continue
            fate: Fate = fate_of(kept, wanted[shard])
            if fate != "sent" or kept.cursor == wanted[shard]:
                found[shard] = Written(shard, fate, kept.cursor)
        return found

    @functools.cached_property
    def _move(self) -> Update:
        movable = and_(_C.frozen.is_(False), or_(_C.kept_cursor.is_(None), _C.kept_cursor <= bindparam("to")))
        return (
            update(CHECKPOINTS)
            .where(self._mine, _C.shard == bindparam("at"), movable)
            .values(kept_cursor=bindparam("to"), saved_s=bindparam("now"))
        )

    def _write(self, connection: Connection, shard: int, cursor: Cursor) -> Written:
        movable = and_(_C.frozen.is_(False), or_(_C.kept_cursor.is_(None), _C.kept_cursor <= cursor))
        for _ in range(_TRIES):
            if self._moved(connection, shard, cursor, movable):
                return Written(shard, "sent", cursor)
            kept = self._one(connection, shard)
            if kept is None:
                if self._inserted(connection, shard, cursor, frozen=False):
                    return Written(shard, "sent", cursor)
                continue
            fate: Fate = fate_of(kept, cursor)
            if fate != "sent":
                return Written(shard, fate, kept.cursor)
        return Written(shard, "failed", why=f"others changed its row {_TRIES} times meanwhile: ask again")

    def _place(self, connection: Connection, shard: int, cursor: Cursor) -> Written:
        if self._moved(connection, shard, cursor, _C.frozen.is_(True)):
            return Written(shard, "sent", cursor)
        kept = self._one(connection, shard)
        return Written(shard, "thawed", kept.cursor if kept else None)

    def _moved(self, connection: Connection, shard: int, cursor: Cursor, where: ColumnElement[bool]) -> bool:
        """One statement decides and writes."""
        moved = (
            update(CHECKPOINTS)
            .where(self._mine, _C.shard == shard, where)
            .values(kept_cursor=cursor, saved_s=self._clock.now())
        )
        rows = connection.execute(moved).rowcount
        connection.commit()
        return rows == 1

    def _one(self, connection: Connection, shard: int) -> Kept | None:
        columns = _C.kept_cursor, _C.saved_s, _C.frozen
        row = connection.execute(select(*columns).where(self._mine, _C.shard == shard)).one_or_none()
        connection.rollback()
        return None if row is None else _kept(*row)

    def _inserted(self, connection: Connection, shard: int, cursor: Cursor | None, *, frozen: bool) -> bool:
        """False when another process was first."""
        row = self._row(shard, cursor, 0.0 if cursor is None else self._clock.now())
        try:
            connection.execute(insert(CHECKPOINTS), [row | {"frozen": frozen}])
            connection.commit()
        except IntegrityError:
            connection.rollback()
            return False
        return True

    def _row(self, shard: int, cursor: Cursor | None, saved_s: float) -> dict[str, Any]:
        return {
            "reader": self._reader,
            "origin": self._of,
            "shard": shard,
            "kept_cursor": cursor,
            "saved_s": saved_s,
            "frozen": False,
        }

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise ConnectFailed(self._refusal(error)) from error

    def _refusal(self, error: SQLAlchemyError) -> str:
        """Without the error's own text: it holds statements, and may hold an address with a password."""
        return (
            f"{self.name} cannot be asked, or refused: {type(error).__name__}. Look whether it runs, and "
            "whether this user may read and write its tables"
        )

    def _check(self, connection: Connection) -> bool:
        """Whether the table is there. Raises StoreBroken for another table of that name."""
        if self._there:
            return True
        looked = inspect(connection)
        if not looked.has_table(CHECKPOINTS.name):
            connection.rollback()
            return False
        names = {column["name"] for column in looked.get_columns(CHECKPOINTS.name)}
        connection.rollback()
        if lacking := sorted({column.name for column in CHECKPOINTS.columns} - names):
            raise StoreBroken(
                f"{self.name}: the table {CHECKPOINTS.name} lacks {', '.join(lacking)}, so it is another "
                "program's or another release's. Use another database, or rename that table"
            )
        self._there = True
        return True

    def _made(self, connection: Connection) -> None:
        """Make the table unless it is there; of two that make it at once one finds it made."""
        if self._check(connection):
            return
        try:
            CHECKPOINTS.create(connection, checkfirst=True)
            connection.commit()
        except SQLAlchemyError:
            connection.rollback()
            if not self._check(connection):
                raise
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


def _kept(cursor: int | None, saved_s: float, frozen: bool) -> Kept:
    return Kept(None if cursor is None else Cursor(cursor), float(saved_s), bool(frozen))


def _engine(address: str) -> Engine:
    url = parsed(address)
    try:
        return create_engine(url, poolclass=NullPool, connect_args=_deadlines(url), hide_parameters=True)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        name = error.name if isinstance(error, ModuleNotFoundError) else "that dialect"
        raise ConfigError(f"no driver for this database is installed here: {name} is missing") from None
    except (ArgumentError, TypeError, ValueError):
        raise ConfigError(
            f"database {shown(url)}: the address has an option that its driver does not know; remove it"
        ) from None


def _deadlines(url: URL) -> dict[str, Any]:
    """Every wait of a driver ends: their own defaults are for ever."""
    kind = url.get_backend_name()
    if kind == "sqlite":
        return {"timeout": LOCK_S}
    if kind == "postgresql":
        waits = f"-c lock_timeout={LOCK_S}s -c statement_timeout={2 * LOCK_S}s"
        return {"connect_timeout": CONNECT_S, "options": waits}
    if kind in ("mysql", "mariadb"):
        return {
            "connect_timeout": CONNECT_S,
            "init_command": f"SET SESSION innodb_lock_wait_timeout={LOCK_S}, lock_wait_timeout={LOCK_S}",
        }
    raise ConfigError(f"no checkpoint table in {kind}: SQLite, PostgreSQL, MySQL or MariaDB")
