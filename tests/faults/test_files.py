"""Storage fails while a task writes its files: a task is tried again, and what it left is an orphan."""

import pytest

from sls_io.values.claim import GAP_EXPIRED
from sls_io.values.errors import TransportError
from tests.faults.leaky_io import LeakyIO, leaky
from tests.worlds.one_logstore import World


@pytest.fixture
def stored(started: World) -> World:
    """The started world on storage that can be told to fail."""
    started.lake = leaky(started.lake)
    return started


@pytest.mark.parametrize(
    ("word", "orphans"),
    [
        pytest.param("lost", 0, id="lost", marks=pytest.mark.fault("4a.4.request_lost")),
        pytest.param("unanswered", 1, id="unanswered", marks=pytest.mark.fault("4a.4.reply_lost")),
        pytest.param("late", 0, id="late", marks=pytest.mark.fault("4a.4.late")),
        pytest.param("refused", 0, id="refused", marks=pytest.mark.fault("4a.4.refused")),
    ],
)
def test_a_file_that_fails_once_is_written_again_under_another_name(
    stored: World, word: str, orphans: int
) -> None:
    LeakyIO.script.append(word)

    report = stored.land()

    assert not LeakyIO.script, "nobody wrote a file"
    assert (report.rows, report.conflicts) == (60, 0)
    assert len(stored.data_files() - set(stored.published())) == orphans
    LeakyIO().deliver()
    assert len(stored.data_files() - set(stored.published())) == orphans + (word == "late")
    stored.assert_whole()


@pytest.mark.fault("4a.4.refused", "4a.4.request_lost")
@pytest.mark.parametrize("word", ["lost", "refused"])
def test_storage_that_stays_away_is_one_error_and_nothing_moves(stored: World, word: str) -> None:
    before, checkpoints = stored.table.metadata.current_snapshot_id, stored.checkpoints()
    LeakyIO.script.extend([word] * 10)

    with pytest.raises(TransportError, match="a writing task failed") as raised:
        stored.land()

    LeakyIO.script.clear()
    assert "\n" not in str(raised.value)
    assert stored.table.metadata.current_snapshot_id == before
    assert stored.checkpoints() == checkpoints
    stored.assert_next_lands(60)


@pytest.mark.fault("4b.expired.stage")
def test_a_task_that_is_tried_again_after_retention_passed_lands_nothing_of_its_window(
    stored: World,
) -> None:
    """The first try had read all of it, and its file failed; the second one finds less."""
    frontier = int(stored.ledger.shards[0].frontier)
    cursors = sorted({c for shard, c, _ in stored.truth() if shard == 0 and c >= frontier})
    begin = cursors[2]
    name = stored.logstore.service.logstore

    def expire() -> None:
        stored.emulator.admin.retain("demo", name, shard=0, before_cursor=begin)

    LeakyIO.script.append(expire)
    truth = stored.truth()

    overtaken = stored.land()
    after = stored.land_a_gap()

    kept = {i for i in truth if not (i[0] == 0 and frontier <= i[1] < begin)}
    assert "retention" in overtaken.waits[0].text
    assert after.gaps == (f"shard 0: [{frontier}, {begin}) {GAP_EXPIRED}",)
    assert set(stored.identities()) == kept
    assert max(stored.identities().values()) == 1
    stored.assert_proved()
