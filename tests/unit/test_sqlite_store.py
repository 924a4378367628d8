"""A checkpoint table in a SQLite file: what damage, a loss, a lock and a full disk leave of it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sls_io.values.errors import ConnectFailed, StoreBroken, StoreError
from sls_io.values.window import Cursor
from tests.worlds.database_events import on_event
from tests.worlds.positions_file import cursors, opened, stops

KEPT = {0: 10, 1: 20}


def written(path: Path) -> Path:
    """`path` with KEPT in it."""
    opened(path).write({shard: Cursor(cursor) for shard, cursor in KEPT.items()})
    return path


def test_a_file_cut_off_anywhere_stops(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db")
    whole = path.read_bytes()
    pages = range(4096, len(whole), 4096)
    sizes = (
        1,
        50,
        99,
        100,
        511,
        512,
        1000,
        *pages,
        *(p + 1 for p in pages),
        len(whole) - 100,
        len(whole) - 1,
    )
    for size in sizes:
        path.write_bytes(whole[:size])
        stops(path, "is torn|is damaged")
        assert path.read_bytes() == whole[:size], "what a person has to look at stays"
    path.write_bytes(whole)
    assert cursors(path) == KEPT


def test_a_page_of_zeros_or_no_database_at_all_stops(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db")
    whole = path.read_bytes()
    for page in range(0, len(whole), 4096):
        path.write_bytes(whole[:page] + bytes(4096) + whole[page + 4096 :])
        stops(path, "is damaged.*Restore it from a copy; or move it and .*a.db.kept aside")
    path.write_bytes(b"hello" * 1000)
    stops(path, "is no database")


def test_a_file_that_is_gone_or_empty_after_something_was_kept_is_not_none(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db")
    path.write_bytes(b"")
    stops(path, "is empty, and positions were kept.*or remove .*a.db.kept")
    path.unlink()
    stops(path, "is gone, and positions were kept")
    for act in (lambda: opened(path).forget([0]), lambda: opened(path).thaw({0: Cursor(1)})):
        with pytest.raises(StoreBroken):
            act()
    assert not path.exists()
    path.with_name("a.db.kept").unlink()
    assert cursors(path) == {}


def test_who_reads_positions_remembers_that_there_were_some(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db")
    path.with_name("a.db.kept").unlink()
    assert cursors(path) == KEPT
    path.unlink()
    stops(path, "is gone")


def test_a_link_whose_target_is_gone_is_not_none(tmp_path: Path) -> None:
    (tmp_path / "a.db").symlink_to(tmp_path / "disk" / "a.db")
    stops(tmp_path / "a.db", "is a link to")


@pytest.mark.parametrize("column", ["kept_cursor", "saved_s", "frozen", "shard"])
@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "older"])
def test_a_cell_that_no_write_makes_stops_with_its_shard(tmp_path: Path, column: str, guarded: bool) -> None:
    for number, value in enumerate(("''", "'zz'", "x'ff'", "-1", "1e300", "'1.5'", "-1.5")):
        path = written(tmp_path / f"{number}.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"UPDATE sls_lake_checkpoint SET {column} = {value} WHERE shard = 1")
            if not guarded:
                connection.execute("DROP TABLE sls_lake_checkpoint_reader")
            connection.commit()
        if (column, value) == ("saved_s", "'1.5'"):
            assert cursors(path) == KEPT, "the time is for people; any that is one will do"
            continue
        stops(path, f"{column} of (a row|the row shard = 1) in the table sls_lake_checkpoint .*reader 'dev'")


def test_a_locked_file_is_said_to_be_locked_and_passes(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert cursors(path) == KEPT
        with pytest.raises(ConnectFailed, match=r"is locked by another process.*Ask again"):
            opened(path).write({shard: Cursor(99) for shard in range(9)})
        other.execute("ROLLBACK")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ConnectFailed, match="is locked by another process"):
            opened(path).read()
    assert cursors(path) == KEPT


@contextmanager
def on_connect(pragma: str) -> Iterator[None]:
    """Every connection of a database is under this."""

    def set_it(connection: sqlite3.Connection, record: object) -> None:
        connection.execute(pragma)

    with on_event("connect", set_it):
        yield


def test_a_full_disk_is_said_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db")
    with (
        on_connect("PRAGMA max_page_count = 1"),
        pytest.raises(StoreError, match=r"is full.*still there") as full,
    ):
        opened(path).write({shard: Cursor(99) for shard in range(2000)})
    assert not isinstance(full.value, StoreBroken)
    assert cursors(path) == KEPT


def test_a_file_that_may_not_be_written_or_opened_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.db")
    with on_connect("PRAGMA query_only = 1"), pytest.raises(StoreError, match="rights of the file"):
        opened(path).write({0: Cursor(99)})
    with pytest.raises(StoreError, match="is the folder there"):
        opened(tmp_path / "none" / "a.db").write({0: Cursor(99)})
    with pytest.raises(StoreError, match="rights of the file"):
        opened(tmp_path).read()
    assert cursors(path) == KEPT
