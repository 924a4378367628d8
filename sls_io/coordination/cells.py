"""Rows that others can write are input: each cell is one that we may have written, or it is named.

SQLite keeps any value in any column, a server's column can be altered, and a person can write into all of
them. So rows are read here and nowhere else: as the driver gives them, each cell held against its column.

    Integer, BigInteger   a whole number, from 0 to the column's `most` (in its info), else to its size
    Float                 a finite number, from 0 to `most`
    Boolean               true or false
    String, Text          printable, within its length
    nothing (NULL)        where the column may be empty

What a cell holds is never said: it may be anything.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Float,
    Inspector,
    Integer,
    String,
    Table,
    event,
    select,
    type_coerce,
)
from sqlalchemy.types import NullType, TypeEngine

from sls_io.values.errors import printable

MOST = "most"
"""The key of a column's info under which its largest value stands."""
MOMENT_MS_MAX = 253_402_300_799_999
"""The end of the year 9999 in unix milliseconds: no clock of ours goes further."""
_INTEGER_MAX, _BIG_INTEGER_MAX = 2**31 - 1, 2**63 - 1
_FAMILIES: tuple[tuple[type[TypeEngine[Any]], tuple[type[TypeEngine[Any]], ...]], ...] = (
    (Boolean, (Boolean, Integer)),
    (BigInteger, (Integer,)),
    (Integer, (Integer,)),
    (Float, (Float,)),
    (String, (String,)),
)
"""What a column of ours may be in a database: MySQL has no Boolean, SQLite one size of numbers."""


class StrangeCell(Exception):
    """A cell that no write of ours makes. Says which, and never what is in it."""


def rows(
    connection: Connection,
    table: Table,
    columns: Sequence[Column[Any]],
    where: ColumnElement[bool],
    *,
    hold: bool = False,
) -> list[tuple[Any, ...]]:
    """These columns of the rows, each a value that we may have written. Raises StrangeCell for another.

    `columns` begins with the one that tells the rows apart. `hold`: nobody changes them until the
    transaction ends.
    """
    asked = select(*(type_coerce(column, NullType()) for column in columns)).where(where)
    try:
        raw = [tuple(row) for row in connection.execute(asked.with_for_update() if hold else asked)]
    except (ValueError, TypeError, OverflowError):
        raise StrangeCell(f"a row of the table {table.name} has a cell that the driver cannot read") from None
    for row in raw:
        for column, value in zip(columns, row, strict=True):
            if wrong := _wrong(column, value):
                which = "of a row" if column is columns[0] else f"of the row {columns[0].name} = {row[0]!r}"
                raise StrangeCell(f"{column.name} {which} in the table {table.name} is {wrong}")
    return raw


def unlike(looked: Inspector, table: Table, coming: Collection[str] = ()) -> str:
    """How the table of that name in a database is not ours, "" where it is ours: said of the table.

    Columns that are `coming` may be lacking. A column that we do not know does no harm while it may be empty
    or has a value of its own: our statements name their columns.
    """
    there = {column["name"].lower(): column for column in looked.get_columns(table.name)}
    lacking = sorted({column.name for column in table.columns} - there.keys() - {*coming})
    other = [
        f"{column.name} as {there[column.name]['type']}"
        for column in table.columns
        if column.name in there and not _of_family(there[column.name]["type"], column.type)
    ]
    # What our statements leave out, and the database has no value for.
    needs = sorted(
        column
        for column, what in there.items()
        if column not in table.columns
        and not (what["nullable"] or what.get("default") or what.get("autoincrement") is True)
    )
    said = [f"lacks {printable(', '.join(lacking))}"] if lacking else []
    said += [f"has {printable(', '.join(other))}"] if other else []
    said += [f"wants {printable(', '.join(needs))}, which we do not know"] if needs else []
    return " and ".join(said)


def tolerant(engine: Engine) -> Engine:
    """The engine, whose SQLite hands over also texts that are none: its own driver fails at them, and says
    no row."""
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _any_text)
    return engine


def _any_text(connection: Any, record: object) -> None:
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")


def _of_family(there: TypeEngine[Any], ours: TypeEngine[Any]) -> bool:
    """The first family that our column is of counts: a BigInteger is an Integer, too, and a Boolean may be
    kept as one."""
    return next(isinstance(there, family) for kind, family in _FAMILIES if isinstance(ours, kind))


def _wrong(column: Column[Any], value: object) -> str:
    """What is wrong with the value, "" for nothing.

    Asked by Python's own types, and exactly: a driver may hand over what only compares like a number.
    """
    if value is None:
        return "" if column.nullable else "empty (NULL)"
    kind = column.type
    if isinstance(kind, Boolean):
        return "" if type(value) in (bool, int) and value in (0, 1) else "not true or false"
    if isinstance(kind, Integer | Float):
        return _wrong_number(column, kind, value)
    length = getattr(kind, "length", None)
    if not isinstance(value, str) or not value.isprintable():
        return "not a printable text"
    return f"longer than {length} characters" if length is not None and len(value) > length else ""


def _wrong_number(column: Column[Any], kind: Integer | Float[Any], value: object) -> str:
    most = column.info.get(MOST, _BIG_INTEGER_MAX if isinstance(kind, BigInteger) else _INTEGER_MAX)
    known = (int, float) if isinstance(kind, Float) else (int,)
    # NaN is neither below nor above, and a bool is an int to Python.
    if isinstance(value, int | float) and type(value) in known and 0 <= value <= most:
        return ""
    return f"not a {'whole ' if isinstance(kind, Integer) else ''}number from 0 to {most}"
