"""Readers that each read all shards, with positions in a file or a database, over a real emulator."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sls_io import Broadcast, CheckpointOutside, ConfigError, Cursor, LocalFile, StoreBroken, StoreError
from sls_io.checkpoints.policy import OutsidePolicy
from sls_io.emulator import Emulator
from tests.contract.opened import HOUR0_S, LOGSTORE, PROJECT, Place, opened
from tests.worlds.held_rows import group, numbers

pytestmark = pytest.mark.sls_emulator(now=HOUR0_S + 60)

Kept = Callable[[str], Path | str]


@pytest.fixture(params=["file", "database"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    """Where a reader's positions are: a file each, or one database."""
    if request.param == "file":
        return lambda reader: tmp_path / f"{reader}.json"
    return lambda reader: f"sqlite:///{tmp_path}/positions.sqlite"


def block(place: Place, reader: str, kept: Kept, outside: OutsidePolicy = "stop") -> Broadcast:
    return place.logs.broadcast(reader, kept(reader), outside=outside)


def drain(place: Place, reader: str, kept: Kept, outside: OutsidePolicy = "stop") -> dict[int, list[int]]:
    """What one block reads of each shard, checkpoints after the work."""
    read: dict[int, list[int]] = {}
    with block(place, reader, kept, outside) as mine:
        for shard in mine.shards:
            read[shard] = []
            for rows in mine.rows(shard):
                read[shard] += numbers(rows)
                if rows.next is not None:
                    assert mine.checkpoint(shard, rows.next) == "sent"
    return read


def test_each_reader_reads_all_shards_from_where_it_was_and_no_group_knows_of_it(
    emulator: Emulator, kept: Kept
) -> None:
    with opened(emulator) as place:
        place.put(1, 2)
        place.put(3, shard=1)
        with place.logs.hold(group("worker-1", name="others")) as held:
            held.checkpoint(0, place.logs.client.cursor_at(0, "end"))
            before = place.logs.client.checkpoints("others")
            assert drain(place, "audit", kept) == {0: [1, 2], 1: [3]}
            place.put(4)
            assert drain(place, "audit", kept) == {0: [4], 1: []}
            assert drain(place, "search", kept) == {0: [1, 2, 4], 1: [3]}
            assert held.shards == {0, 1} and place.logs.client.checkpoints("others") == before
        assert [g.name for g in place.logs.client.groups()] == ["others"]


def test_work_without_a_checkpoint_is_given_again_and_children_come_after_their_parent(
    emulator: Emulator, kept: Kept
) -> None:
    with opened(emulator) as place:
        place.put(1)
        with pytest.raises(RuntimeError, match="the work failed"), block(place, "audit", kept) as mine:
            assert [n for rows in mine.rows(0) for n in numbers(rows)] == [1]
            raise RuntimeError("the work failed")
        emulator.admin.split(PROJECT, LOGSTORE, 0)
        place.put(2)
        read = drain(place, "audit", kept)
        assert list(read) == [0, 1, 2, 3] and [n for part in read.values() for n in part] == [1, 2]


def test_a_first_read_begins_where_it_is_told_and_a_wrong_position_is_refused(
    emulator: Emulator, kept: Kept
) -> None:
    with opened(emulator) as place:
        place.put(1)
        emulator.admin.advance(3600)
        place.put(2)
        end = place.logs.client.cursor_at(0, "end")
        with block(place, "audit", kept) as mine:
            assert [n for rows in mine.rows(0, first=HOUR0_S + 3600) for n in numbers(rows)] == [2]
            assert list(mine.rows(0, first="end")) == [] and mine.checkpoints() == {0: None, 1: None}
            with pytest.raises(CheckpointOutside, match="lies outside of what the service has"):
                mine.checkpoint(0, Cursor(end + 1))
            mine.checkpoint(0, end)
            with pytest.raises(ConfigError, match="only goes forward"):
                mine.checkpoint(0, Cursor(end - 1))
            with pytest.raises(ConfigError, match="no shard 9"):
                mine.rows(9).__next__()
            assert mine.checkpoints() == {0: end, 1: None}
        with pytest.raises(ConfigError, match="open the `with` block"):
            _ = mine.shards


def test_a_position_that_retention_took_stops_unless_it_is_said_where_to_go_on(
    emulator: Emulator, kept: Kept
) -> None:
    with opened(emulator) as place:
        place.put(1)
        drain(place, "audit", kept)
        for number in (2, 3):
            place.put(number)
            emulator.admin.advance(3600)
        emulator.admin.retain(PROJECT, LOGSTORE, before_s=HOUR0_S + 3600)
        with pytest.raises(CheckpointOutside, match="retention took"), block(place, "audit", kept):
            pytest.fail("what is gone was passed over in silence")
        assert drain(place, "audit", kept, "begin")[0] == [3]


def test_a_reset_while_a_block_reads_is_told_and_the_next_one_goes_on_from_there(
    emulator: Emulator, tmp_path: Path
) -> None:
    path = tmp_path / "audit.json"
    with opened(emulator) as place:
        place.put(1)
        origin = place.logs.client.origin().id
        with place.logs.broadcast("audit", path) as mine:
            (rows,) = mine.rows(0)
            assert rows.next is not None
            begin = place.logs.client.cursor_at(0, "begin")
            LocalFile(path, of=origin, reader="audit").place({0: begin})
            with pytest.raises(StoreError, match="begin a new block"):
                mine.checkpoint(0, rows.next)
        assert drain(place, "audit", lambda reader: path)[0] == [1]


def test_where_no_position_can_be_kept_is_said(emulator: Emulator, tmp_path: Path) -> None:
    with opened(emulator) as place:
        with pytest.raises(ConfigError, match="not in a NoneType"):
            place.logs.broadcast("audit", None)  # type: ignore[arg-type]
        torn = tmp_path / "audit.json"
        torn.write_text("{")
        with pytest.raises(StoreBroken, match="is torn"), place.logs.broadcast("audit", torn):
            pytest.fail("a torn file was taken for none")
