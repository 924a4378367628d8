"""A reader's positions in a SQLite file."""

from pathlib import Path

import pytest

from sls_io.checkpoints.sql_table import SqlTable
from sls_io.values.errors import StoreBroken
from sls_io.values.window import Cursor

OF, READER = "access_logs-3f9c01aa", "dev"


def opened(path: Path, reader: str = READER) -> SqlTable:
    """The store of `path` as a process opens it."""
    return SqlTable(f"sqlite:///{path}", of=OF, reader=reader)


def cursors(path: Path) -> dict[int, int | None]:
    """What is kept in `path`."""
    return {shard: kept.cursor for shard, kept in opened(path).read().items()}


def stops(path: Path, says: str) -> None:
    """Reading and writing stop, and say what and the cure."""
    for act in (lambda: opened(path).read(), lambda: opened(path).write({0: Cursor(99)})):
        with pytest.raises(StoreBroken, match=says) as caught:
            act()
        assert str(path) in str(caught.value)
