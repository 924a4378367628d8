"""Shards and their cursors in a CSV file, as `checkpoints reset` writes and reads it."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from pipelines.cli.stores import cursor_of
from sls_io.errors import ConfigError, printable
from sls_io.window import Cursor

_COLUMNS = ["shard", "cursor"]
_FILE_BYTES_MAX = 16 * 1024**2


def export_to(path: Path, cursors: Mapping[int, Cursor | None]) -> None:
    """`shard,cursor` of every shard that has a place. Never over a file that is there."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_COLUMNS)
    rows.writerows((shard, cursor) for shard, cursor in sorted(cursors.items()) if cursor is not None)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text.getvalue())
    except FileExistsError:
        raise ConfigError(
            f"{path} is there already: name a new file for --export. Nothing was moved"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Nothing was moved") from error


def imported(path: Path) -> dict[int, Cursor]:
    """The cursors of a file that `export_to` wrote, or a person. Raises ConfigError with the line."""
    try:
        with path.open(encoding="utf-8-sig") as file:  # spreadsheet programs write a mark first
            rows = list(csv.reader(io.StringIO(file.read(_FILE_BYTES_MAX))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no CSV in UTF-8"
        raise ConfigError(f"{printable(str(path))} cannot be read: {why}") from None
    if not rows or [cell.strip() for cell in rows[0]] != _COLUMNS:
        raise ConfigError(f"{path}: expected the first line shard,cursor, as --export writes it")
    found: dict[int, Cursor] = {}
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        try:
            shard, cursor = (cell.strip() for cell in row)
            if not (shard.isascii() and shard.isdecimal() and len(shard) < 10) or int(shard) in found:
                raise ValueError
            found[int(shard)] = cursor_of(cursor)
        except (ValueError, ConfigError):
            raise ConfigError(
                f"{path}, line {number}: expected a shard's number and its cursor, each shard once"
            ) from None
    return found
