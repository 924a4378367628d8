"""What kind of trouble a database has, by the codes that its driver gives; sentences change."""

import sqlite3
from typing import Literal

Trouble = Literal["damaged", "locked", "full", "rights", "disk", "tables", "unknown"]
"""`tables`: a statement of ours does not fit what is there: gone, renamed, of another type."""
_SQLITE: dict[int, Trouble] = {
    sqlite3.SQLITE_ERROR: "tables",
    sqlite3.SQLITE_CORRUPT: "damaged",
    sqlite3.SQLITE_NOTADB: "damaged",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_PERM: "rights",
    sqlite3.SQLITE_AUTH: "rights",
    sqlite3.SQLITE_READONLY: "rights",
    sqlite3.SQLITE_CANTOPEN: "rights",
    sqlite3.SQLITE_IOERR: "disk",
}
_POSTGRES: dict[str, Trouble] = {
    "XX001": "damaged",
    "XX002": "damaged",
    "55P03": "locked",
    "40P01": "locked",
    "53100": "full",
    "42501": "rights",
    "25006": "rights",
    "58030": "disk",
    "42P01": "tables",
    "42703": "tables",
    "42804": "tables",
    "42883": "tables",
    "22001": "tables",
    "22003": "tables",
    "22P02": "tables",
}
_MYSQL: dict[int, Trouble] = {
    1712: "damaged",
    1877: "damaged",
    1205: "locked",
    1213: "locked",
    1021: "full",
    1114: "full",
    1142: "rights",
    1290: "rights",
    1792: "rights",
    1054: "tables",
    1146: "tables",
    1264: "tables",
    1292: "tables",
    1366: "tables",
    1406: "tables",
}


def trouble_of(error: BaseException) -> Trouble:
    """Of SQLAlchemy's error, or of the driver's own.

    Worked example: SQLite says 1034, an fsync that failed: 1034 is 10 and four times 256. 10 is SQLITE_IOERR.
    """
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error):
        return _SQLITE.get(kind_of(cause), "unknown")
    if isinstance(state := getattr(cause, "pgcode", None), str):
        return _POSTGRES.get(state, "unknown")
    number = cause.args[0] if cause.args else None
    return _MYSQL.get(number, "unknown") if isinstance(number, int) else "unknown"


def kind_of(error: sqlite3.Error) -> int:
    """The kind of SQLite's code: the low byte, the others say more of it."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
