"""Shards and their cursors in a CSV file, as `checkpoints set` writes and reads it."""

import csv
import io
from collections.abc import Collection, Mapping
from pathlib import Path

from sls_io.checkpoints.store import Kept, Written
from sls_io.values.errors import ConfigError, printable
from sls_io.values.window import Cursor, cursor_from_wire

_COLUMNS = ["shard", "cursor"]
_FILE_BYTES_MAX = 16 * 1024**2


class CursorFile:
    """The file as a checkpoint store that is written once, as a `new` one: never over one that is there.
    Nothing in it is frozen, and nothing is forgotten."""

    def __init__(self, path: Path, *, new: bool = False) -> None:
        self._path, self._new = path, new

    @property
    def name(self) -> str:
        """The path."""
        return f"file {self._path}"

    def read(self) -> Mapping[int, Kept]:
        """Its cursors; of a new one nothing. Raises ConfigError."""
        if not self._new:
            return {shard: Kept(cursor) for shard, cursor in imported(self._path).items()}
        if self._path.exists():
            raise self._there()
        return {}

    def write(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        """`shard,cursor` of each, in order of shard. Raises ConfigError."""
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(_COLUMNS)
        rows.writerows(sorted(cursors.items()))
        try:
            with self._path.open("x", encoding="utf-8") as file:
                try:
                    file.write(text.getvalue())
                    file.flush()
                except OSError:
                    # Half a file is none, and would keep the next one from being written.
                    self._path.unlink(missing_ok=True)
                    raise
        except FileExistsError:
            raise self._there() from None
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written: {error.strerror}. Nothing was written"
            ) from error
        return tuple(Written(shard, "sent", cursor) for shard, cursor in sorted(cursors.items()))

    def place(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        return self.write(cursors)

    def thaw(self, at: Mapping[int, Cursor | None]) -> None:
        """Nothing."""

    def forget(self, shards: Collection[int]) -> frozenset[int]:
        """Nothing."""
        return frozenset()

    def _there(self) -> ConfigError:
        return ConfigError(f"{self._path} is there already: name a new file. Nothing was written")


def imported(path: Path) -> dict[int, Cursor]:
    """The cursors of a file that was written here, or by a person. Raises ConfigError with the line."""
    try:
        with path.open(encoding="utf-8-sig") as file:  # spreadsheet programs write a mark first
            rows = list(csv.reader(io.StringIO(file.read(_FILE_BYTES_MAX))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no CSV in UTF-8"
        raise ConfigError(f"{printable(str(path))} cannot be read: {why}") from None
    if not rows or [cell.strip() for cell in rows[0]] != _COLUMNS:
        raise ConfigError(
            f"{path}: expected the first line shard,cursor, as `checkpoints set --to csv:PATH` writes it"
        )
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


def cursor_of(text: str) -> Cursor:
    """The cursor in digits, or in base64 as on the wire. Raises ConfigError."""
    if text.isdecimal() and text.isascii():
        if len(text) > 19 or int(text) >= 2**63 - 1:
            raise ConfigError("a cursor is a number below 9223372036854775807")
        return Cursor(int(text))
    return cursor_from_wire(text)
