"""A checkpoint table in a SQLite file that lost something, or all, of what was beside and in it."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from sls_io.checkpoints.sql_table import SqlTable
from sls_io.values.errors import StoreBroken, StoreError
from sls_io.values.window import Cursor
from tests.worlds.database_events import on_event
from tests.worlds.positions_file import OF, READER, cursors, opened, stops

ROWS, SAID = "sls_lake_checkpoint", "sls_lake_checkpoint_reader"
OLDER_MARK = "positions were kept in the database beside this file\n"
KEPT, BEFORE = 500, 100


def at(path: Path, cursor: int, reader: str = READER) -> Path:
    """`path` with shard 0 of the reader at this cursor."""
    opened(path, reader).write({0: Cursor(cursor)})
    return path


def by_hand(path: Path, *statements: str) -> None:
    """What a person does in the file."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def mark_of(path: Path) -> Path:
    """What stands beside the file."""
    return path.with_name(f"{path.name}.kept")


def test_a_database_that_lost_both_tables_is_no_first_start(tmp_path: Path) -> None:
    path = at(tmp_path / "a.db", KEPT)
    by_hand(path, f"DROP TABLE {ROWS}", f"DROP TABLE {SAID}")
    before = path.read_bytes()
    stops(path, r"positions were kept.*Restore the database.*remove .*a\.db\.kept")
    assert path.read_bytes() == before, "what a person has to look at stays"


IN_THE_FILE: dict[str, Callable[[Path, Path], object]] = {
    "as it was": lambda path, older: None,
    "gone": lambda path, older: path.unlink(),
    "empty": lambda path, older: path.write_bytes(b""),
    "an older copy": lambda path, older: shutil.copyfile(older / "older.db", path),
    "a copy from before the reader": lambda path, older: shutil.copyfile(older / "first.db", path),
    "another logstore's": lambda path, older: shutil.copyfile(older / "foreign.db", path),
    "without the rows": lambda path, older: by_hand(path, f"DELETE FROM {ROWS}"),
    "without the reader's row": lambda path, older: by_hand(path, f"DELETE FROM {SAID}"),
    "without rows": lambda path, older: by_hand(path, f"DELETE FROM {ROWS}", f"DELETE FROM {SAID}"),
    "without the table": lambda path, older: by_hand(path, f"DROP TABLE {ROWS}"),
    "without the readers' table": lambda path, older: by_hand(path, f"DROP TABLE {SAID}"),
    "with the reader's rows lost": lambda path, older: by_hand(
        path, *(f"DELETE FROM {table} WHERE reader = '{READER}'" for table in (ROWS, SAID))
    ),
    "without tables": lambda path, older: by_hand(path, f"DROP TABLE {ROWS}", f"DROP TABLE {SAID}"),
}
BESIDE: dict[str, Callable[[Path], object]] = {
    "as it was": lambda mark: None,
    "an older release's": lambda mark: mark.write_text(OLDER_MARK),
    "torn": lambda mark: mark.write_bytes(mark.read_bytes()[:-4]),
    "gone": lambda mark: mark.unlink(),
}


@pytest.mark.parametrize(("lost", "beside"), list(product(IN_THE_FILE, BESIDE)))
def test_nothing_that_is_lost_while_the_mark_is_there_reads_as_a_first_start(
    tmp_path: Path, lost: str, beside: str
) -> None:
    at(tmp_path / "first.db", 7, "other")
    at(shutil.copyfile(tmp_path / "first.db", tmp_path / "older.db"), BEFORE)
    SqlTable(f"sqlite:///{tmp_path}/foreign.db", of="orders-1", reader=READER).write({0: Cursor(9)})
    path = at(at(tmp_path / "a.db", 7, "other"), KEPT)
    IN_THE_FILE[lost](path, tmp_path)
    BESIDE[beside](mark_of(path))
    whole = {"as it was": KEPT, "without the readers' table": KEPT, "an older copy": BEFORE}
    whole |= {"without the reader's row": KEPT}

    if lost in whole:
        assert cursors(path) == {0: whole[lost]}, "a person may say that the rows are right, or restore"
        assert opened(path).write({0: Cursor(20)})[0].fate == "ahead"
        return
    # Other readers' rows are there: only the reader's name beside the file says that it had some.
    named = lost in ("a copy from before the reader", "another logstore's", "with the reader's rows lost")
    known = lost in ("without the rows", "without the table") or (
        beside == "as it was" if named else beside != "gone"
    )
    if known:
        stops(path, "is gone|is empty|positions were kept")
    else:
        assert cursors(path) == {}


def test_a_journal_that_is_lost_is_no_first_start(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("SELECT 1 FROM sqlite_master").fetchall()
        at(path, KEPT)
        assert path.with_name("a.db-wal").stat().st_size > 0
        (tmp_path / "moved").mkdir()
        for name in ("a.db", "a.db.kept"):
            shutil.copyfile(tmp_path / name, tmp_path / "moved" / name)
    assert cursors(path) == {0: KEPT}
    stops(tmp_path / "moved" / "a.db", "positions were kept")


def test_another_reader_begins_beside_one_that_lost_its_rows(tmp_path: Path) -> None:
    path = at(at(tmp_path / "a.db", KEPT), 7, "other")
    by_hand(path, *(f"DELETE FROM {table} WHERE reader = '{READER}'" for table in (ROWS, SAID)))
    stops(path, "positions were kept")
    assert opened(path, "third").write({0: Cursor(3)})[0].fate == "sent"
    assert {shard: kept.cursor for shard, kept in opened(path, "other").read().items()} == {0: 7}


def test_the_cure_of_a_lost_row_lets_its_reader_begin_and_keeps_the_others(tmp_path: Path) -> None:
    path = at(at(tmp_path / "a.db", KEPT), 7, "other")
    by_hand(path, *(f"DELETE FROM {table} WHERE reader = '{READER}'" for table in (ROWS, SAID)))
    mark_of(path).unlink()
    assert opened(path).write({0: Cursor(20)})[0].fate == "sent"
    opened(path, "other").read()
    by_hand(path, f"DROP TABLE {ROWS}", f"DROP TABLE {SAID}")
    for reader in (READER, "other"):
        with pytest.raises(StoreBroken, match="positions were kept"):
            opened(path, reader).read()


def test_a_reader_that_forgot_all_its_shards_goes_on(tmp_path: Path) -> None:
    path = at(tmp_path / "a.db", KEPT)
    assert opened(path).forget([0]) == {0}
    assert cursors(path) == {}
    assert opened(path).write({0: Cursor(20)})[0].fate == "sent"


def test_tables_that_are_dropped_under_a_process_are_named_by_its_next_word(tmp_path: Path) -> None:
    path = at(tmp_path / "a.db", KEPT)
    store = opened(path)
    store.read()
    by_hand(path, f"DROP TABLE {ROWS}", f"DROP TABLE {SAID}")
    with pytest.raises(StoreError, match=r"dropped or altered.*Ask again"):
        store.write({0: Cursor(20)})
    with pytest.raises(StoreBroken, match="positions were kept"):
        store.write({0: Cursor(20)})


def test_who_looks_while_the_first_rows_are_written_does_not_take_them_for_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    by_hand(path, "CREATE TABLE anybody (anything)")
    writes = [lambda: at(path, KEPT)]

    def looked(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if SAID in statement and statement.startswith("PRAGMA") and writes:
            writes.pop()()

    with on_event("after_cursor_execute", looked):
        assert cursors(path) in ({}, {0: KEPT})
    assert not writes and cursors(path) == {0: KEPT}


def test_without_a_mask_no_file_of_a_store_may_be_written_by_others(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        at(tmp_path / "a.db", KEPT)
    finally:
        os.umask(mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes.keys() == {"a.db", "a.db.kept"}
    assert not any(mode & 0o133 for mode in modes.values()), modes


def test_a_name_that_was_torn_beside_the_file_is_written_again(tmp_path: Path) -> None:
    path = at(tmp_path / "a.db", KEPT)
    mark = mark_of(path)
    mark.write_bytes(mark.read_bytes()[:-4])
    opened(path).read()
    size = mark.stat().st_size
    opened(path).read()
    assert mark.stat().st_size == size and f'\n["{READER}", "{OF}"]\n' in mark.read_text()
