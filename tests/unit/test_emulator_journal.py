"""The segment log: what was acknowledged comes back, a torn tail goes, empty segments are deleted."""

from pathlib import Path

import pytest

from sls_io.emulator.storage.groups import ConsumerGroup
from sls_io.values.errors import ConfigError
from tests.unit.journal_book import NOW, Book


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def test_everything_comes_back(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.create()
    cursors = [book.put(i % 2, b"group %d" % i) for i in range(10)]
    group = ConsumerGroup("g", 10, True)
    book.logstore.groups["g"] = group
    group.heartbeat("c", [], NOW, book.logstore.shape())
    group.save(0, cursors[4], "c", forced=False, now=NOW, shape=book.logstore.shape())
    book.store.group_changed(book.logstore, group)
    book.store.trim(book.logstore, book.logstore.shards[1], cursors[3])
    book.commit()
    book.journal.close()
    again = Book(tmp_path)
    assert again.content(0) == [b"group 0", b"group 2", b"group 4", b"group 6", b"group 8"]
    assert again.content(1) == [b"group 3", b"group 5", b"group 7", b"group 9"]
    assert again.logstore.groups["g"].slots[0].checkpoint == cursors[4]
    assert list(again.logstore.groups["g"].members) == ["c"]
    assert again.store.snapshot() == book.store.snapshot()
    assert again.put(0, b"more") == cursors[8] + 1


def test_a_torn_tail_is_cut_wherever_it_tore_and_kept_aside(tmp_path: Path) -> None:
    book = Book(tmp_path / "whole")
    book.create()
    for i in range(3):
        book.put(0, b"group %d" % i)
    before = files_of(tmp_path / "whole")
    book.put(0, b"the last one")
    more = files_of(tmp_path / "whole")["00000001.seg"]
    whole = before["00000001.seg"]
    assert more[: len(whole)] == whole
    for length in range(len(whole) + 1, len(more)):
        folder = tmp_path / str(length)
        write(folder, {**before, "00000001.seg": more[:length]})
        torn = Book(folder)
        assert torn.content(0) == [b"group 0", b"group 1", b"group 2"]
        assert len(torn.journal.notes) == 1 and "were never acknowledged" in torn.journal.notes[0]
        assert (folder / f"00000001.seg.cut-{len(whole)}").read_bytes() == more[len(whole) : length]
        torn.put(0, b"new")
        torn.journal.close()
        again = Book(folder)
        assert again.content(0)[-1] == b"new" and not again.journal.notes
        again.journal.close()


def test_a_whole_record_that_was_written_and_not_answered_is_served(tmp_path: Path) -> None:
    book = Book(tmp_path / "a")
    book.create()
    book.put(0, b"first")
    before = files_of(tmp_path / "a")
    book.put(0, b"second")
    write(tmp_path / "b", {**files_of(tmp_path / "a"), "ends": before["ends"]})
    again = Book(tmp_path / "b")
    assert again.content(0) == [b"first", b"second"] and not again.journal.notes
    again.put(0, b"third")
    again.journal.close()
    assert Book(tmp_path / "b").content(0) == [b"first", b"second", b"third"]


def test_segments_without_live_groups_are_deleted_and_nothing_else_is_lost(tmp_path: Path) -> None:
    book = Book(tmp_path, segment_bytes_max=4096)
    book.create()
    kept = book.put(1, b"kept for ever")
    cursors = [book.put(0, b"%04d" % i * 250) for i in range(40)]
    before = len(list(tmp_path.glob("*.seg")))
    book.store.trim(book.logstore, book.logstore.shards[0], cursors[35])
    book.commit()
    after = len(list(tmp_path.glob("*.seg")))
    assert 2 <= after < before
    book.journal.close()
    again = Book(tmp_path, segment_bytes_max=4096)
    assert again.content(0) == [b"%04d" % i * 250 for i in range(35, 40)]
    assert again.content(1) == [b"kept for ever"]
    assert again.logstore.shards[1].begin == kept
    assert again.logstore.shards[0].begin == cursors[35]


def test_what_was_deleted_stays_deleted_when_the_segment_that_says_so_is_gone(tmp_path: Path) -> None:
    book = Book(tmp_path, segment_bytes_max=4096)
    book.create()
    book.put(0, b"kept")
    doomed = book.put(1, b"doomed")
    book.store.trim(book.logstore, book.logstore.shards[1], doomed + 1)
    book.commit()
    cursors = [book.put(0, b"x" * 1000) for _ in range(30)]
    book.commit()
    book.journal.close()
    again = Book(tmp_path, segment_bytes_max=4096)
    assert again.content(1) == []
    assert len(again.content(0)) == len(cursors) + 1


def test_a_folder_has_one_emulator(tmp_path: Path) -> None:
    first = Book(tmp_path)
    with pytest.raises(ConfigError, match="in use by another emulator"):
        Book(tmp_path)
    first.journal.close()
    Book(tmp_path)
