"""The last word but one of the demo: the service's own stored log against the table's own files.

On one side the LogGroups as the emulator stored them, parsed with the vendor's protobuf classes.
On the other the Parquet files that the table lists, opened with pyarrow. Nothing in between is
shared with fetching, decoding or writing, and the ledger is not asked: a fault there cannot hide
itself here. Every row is compared by identity (shard, cursor, place in the group) and by content.

Why not compare counts, or sums: one log lost and another one doubled have the right count. Why not join two
frames: a value would go through one cast on both sides, and a cast that is wrong would agree with itself.
So each log has a byte that counts how often it was seen, at most twice. In memory are the stored groups, and
one of them parsed: rows of a file come in the order of their groups.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from pipelines.cli.demo.file_audit import FileAudit
from pipelines.cli.emulator_admin import Stored
from pipelines.cli.files.packing import unpack, unpack_log
from sls_io.values.window import HOUR_S

EXAMPLES_MAX = 5
BATCH_ROWS = 20_000
SYSTEM_COLUMNS = (
    "__shard__",
    "__cursor__",
    "__index__",
    "__receive_hour__",
    "__time__",
    "__topic__",
    "__source__",
    "__tags__",
    "__rest__",
    "__error__",
    "__raw__",
)
"""The columns every landed table has."""
_MICROSECONDS = 1_000_000
_EPOCH = datetime.fromtimestamp(0, UTC)

Row = Mapping[str, Any]


@dataclass(slots=True)
class Audit:
    """What the comparison found. `files_gone` are files that the table lists and nobody has;
    `untyped` rows carry `__error__` and the log's own bytes. `file` is what was found of the file that the
    logs come from, None for generated ones."""

    stored: int = 0
    landed: int = 0
    same: int = 0
    missing: int = 0
    doubled: int = 0
    unknown: int = 0
    different: int = 0
    untyped: int = 0
    files_gone: list[str] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    file: FileAudit | None = None

    @property
    def ok(self) -> bool:
        """Every stored log is in the table exactly once, with its content, and nothing else is; and every
        record of the file is a stored log."""
        whole = self.file is None or self.file.ok
        return self.stored == self.landed == self.same and not self.files_gone and whole

    def note(self, example: str) -> None:
        """Keep the first few places where something is wrong: positions, never content."""
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(example)


@dataclass(slots=True)
class _Group:
    """A stored LogGroup; parsed when its first row comes by. `seen` counts rows by their place."""

    stored: Stored
    parsed: Any = None
    seen: bytearray = field(default_factory=bytearray)

    def open(self) -> Any:
        if self.parsed is None:
            self.parsed = unpack(self.stored.body)
            if not self.seen:
                self.seen = bytearray(len(self.parsed.Logs))
        return self.parsed


def compare(stored: Iterable[Stored], rows: Iterable[Row], declared: Mapping[str, str]) -> Audit:
    """Every stored log against every row; `declared` is column name -> declared type.

    Each row is one of same, doubled, different and unknown, and each log that no row stands for is missing:
    `landed` is the sum of the four. A doubled row is not compared once more.
    """
    audit = Audit()
    groups: dict[tuple[int, int], _Group] = {}
    for entry in stored:
        group = _Group(entry)
        audit.stored += len(group.open().Logs)
        group.parsed = None
        groups[entry.shard, entry.cursor] = group
    held: _Group | None = None
    for row in rows:
        audit.landed += 1
        shard, cursor, index = row["__shard__"], row["__cursor__"], row["__index__"]
        place = f"shard {shard}, cursor {cursor}, log {index}"
        group_or_none = groups.get((shard, cursor))
        if group_or_none is None or index >= len(group_or_none.open().Logs):
            audit.unknown += 1
            audit.note(f"{place}: in the table, not in the service")
            continue
        group = group_or_none
        if held is not None and held is not group:
            held.parsed = None
        held = group
        audit.untyped += row["__error__"] is not None
        group.seen[index] = min(group.seen[index] + 1, 2)
        if group.seen[index] > 1:
            audit.doubled += 1
            audit.note(f"{place}: more than once in the table")
        elif (column := difference(group.stored, group.open(), index, row, declared)) is not None:
            audit.different += 1
            audit.note(f"{place}: {column} differs")
        else:
            audit.same += 1
    for (shard, cursor), group in groups.items():
        lost = group.seen.count(0)
        audit.missing += lost
        if lost:
            audit.note(f"shard {shard}, cursor {cursor}: {lost} of {len(group.seen)} logs not in the table")
    return audit


def difference(stored: Stored, group: Any, index: int, row: Row, declared: Mapping[str, str]) -> str | None:
    """The first column in which `row` is not the log it stands for, or None."""
    log = group.Logs[index]
    time_us = log.Time * _MICROSECONDS + (log.Time_ns // 1000 if log.HasField("Time_ns") else 0)
    if row["__time__"] != time_us:
        return "__time__"
    if row["__receive_hour__"] != stored.receive_s // HOUR_S * HOUR_S * _MICROSECONDS:
        return "__receive_hour__"
    if (row["__topic__"] or "") != group.Topic or (row["__source__"] or "") != group.Source:
        return "__topic__ or __source__"
    if dict(row["__tags__"] or ()) != {tag.Key: tag.Value for tag in group.LogTags}:
        return "__tags__"
    if row["__error__"] is not None:
        # Cannot be typed exactly, so its own bytes are there: they must hold the very same log.
        raw = unpack_log(row["__raw__"])
        return None if bool(raw == log) else "__raw__"
    if row["__raw__"] is not None:
        return "__raw__"
    return _difference_of_pairs(log, row, declared)


def _difference_of_pairs(log: Any, row: Row, declared: Mapping[str, str]) -> str | None:
    """The first key whose value is not in `row` as it is declared, or is there without being in the log."""
    contents: list[tuple[str, bytes]] = [(content.Key, content.Value) for content in log.Contents]
    rest = dict(row["__rest__"] or ())
    for key, value in contents:
        if key not in declared:
            if rest.pop(key, None) != value.decode():
                return f"__rest__[{key!r}]"
        elif not _typed_as(row[key], value.decode(), declared[key]):
            return key
    keys = {key for key, _ in contents}
    absent = [key for key in declared if key not in keys and row.get(key) is not None]
    return f"__rest__[{next(iter(rest))!r}]" if rest else (absent[0] if absent else None)


def table_rows(table: Table, columns: Iterable[str], gone: Callable[[str], None]) -> Iterator[Row]:
    """Rows of every Parquet file that the table lists. `gone` hears of a file that is not there."""
    for task in table.scan().plan_files():
        path = Path(unquote(urlsplit(task.file.file_path).path))
        if not path.is_file():
            gone(path.name)
            continue
        with pq.ParquetFile(path) as parquet:
            wanted = [name for name in columns if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(BATCH_ROWS, columns=wanted):
                yield from _rows(batch)


def _rows(batch: Any) -> Iterator[Row]:
    names = batch.schema.names
    columns = [
        column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        for column in batch.columns
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _typed_as(cell: object, text: str, type_name: str) -> bool:
    if type_name in ("int", "long"):
        return cell == int(text)
    if type_name == "double":
        return cell == float(text)
    if type_name == "float":
        return isinstance(cell, float) and abs(cell - float(text)) <= 1e-6 * max(1.0, abs(cell))
    if type_name == "string":
        return cell == text
    if type_name == "boolean":
        return cell == (text.lower() in ("true", "1"))
    if type_name == "date":
        return cell == date.fromisoformat(text)
    if type_name in ("timestamp(iso)", "timestamp(iso, UTC)"):
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return cell == (moment - _EPOCH) // timedelta(microseconds=1)
    # Other types are checked to be there; what they mean is the contract's, and tested with it.
    return cell is not None
