"""Runs of long ago in Dagster's storage: a real run, told again with another id, other hours, other times.

Rows of the run and of what is asked over all runs are copied as they are, with these texts exchanged; so is
the file of each run, which only the page reads. By Dagster's own calls each run would take a third of a
second, most of it for that file.
"""

import re
import sqlite3
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage

from pipelines.landing.hours import hour_text

_HOURS_BACK = 12
SECONDS = 20.0
"""So long each run took."""
_Rows = list[dict[str, object]]


class OldRuns:
    """Copies of the runs `templates`, in the same instance, whose storages are SQLite files. Their
    newest hour is `hour` (since 1970); a copy tells its hours in the same way."""

    def __init__(self, instance: dg.DagsterInstance, templates: Sequence[str], hour: int) -> None:
        storage = instance.event_log_storage
        assert isinstance(storage, SqliteEventLogStorage)
        self._hour, self._folder = hour, Path(storage.path_for_shard("index")).parent
        runs = next(Path(instance.root_directory).rglob("runs.db"))
        self._databases = [self._folder / "index.db", runs]
        self._templates = templates

    def add(self, runs: Iterable[tuple[str, float]]) -> list[str]:
        """A run for each: of which template, and when it began (unix seconds); their ids. The hour it began
        in is the newest that it tells."""
        made = list[str]()
        open_ = [sqlite3.connect(path) for path in self._databases]
        kept = {
            run: [(db, table, _rows_of(db, table, run)) for db in open_ for table in _tables(db)]
            for run in self._templates
        }
        files = {run: (self._folder / f"{run}.db").read_bytes() for run in self._templates}
        for template, begun_s in runs:
            made.append(new := str(uuid.uuid4()))
            names = {**self._hours(int(begun_s) // 3600), template: new}
            for db, table, rows in kept[template]:
                _insert(db, table, [_copied(row, names, begun_s) for row in rows])
            (self._folder / f"{new}.db").write_bytes(files[template].replace(template.encode(), new.encode()))
        for db in open_:
            db.commit()
            db.close()
        return made

    def _hours(self, hour: int) -> dict[str, str]:
        return {hour_text(self._hour - n): hour_text(hour - n) for n in range(_HOURS_BACK)}


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]


def _tables(db: sqlite3.Connection) -> list[str]:
    """Those with rows of single runs."""
    names = [str(name) for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [name for name in names if "run_id" in _columns(db, name)]


def _rows_of(db: sqlite3.Connection, table: str, run: str) -> _Rows:
    columns = _columns(db, table)
    found = db.execute(f"SELECT * FROM {table} WHERE run_id = ? ORDER BY id", (run,)).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in found]


def _copied(row: Mapping[str, object], names: Mapping[str, str], begun_s: float) -> dict[str, object]:
    """The row with other ids, hours and times; its own number is the database's."""
    pattern = re.compile("|".join(map(re.escape, names)))
    moment = f"{datetime.fromtimestamp(begun_s, UTC):%Y-%m-%d %H:%M:%S.%f}"
    times = {"start_time": begun_s, "end_time": begun_s + SECONDS}
    times_told = dict.fromkeys(("create_timestamp", "update_timestamp", "timestamp"), moment)
    new: dict[str, object] = {}
    for name, value in row.items():
        text = pattern.sub(lambda found: names[found[0]], value) if isinstance(value, str) else value
        new[name] = {**times, **times_told}.get(name, text) if value is not None else None
    new.pop("id")
    return new


def _insert(db: sqlite3.Connection, table: str, rows: _Rows) -> None:
    for row in rows:
        marks = ", ".join("?" * len(row))
        db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
