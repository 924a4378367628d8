"""A shard gives only so much a second, to all who read it: whole runs against quotas that bind.

Time is the emulator's: whoever waits moves its clock on, so that what takes minutes in a service takes
none here. Quotas are small instead of backlogs large; what is kept is their relation.
"""

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.engine import InProcess
from pipelines.cli.files.sending import put_patiently
from pipelines.cli.landing import show
from pipelines.cli.output import Output
from pipelines.landing.inspection.describe import describe, preview
from pipelines.landing.ledger.state import ancestry
from pipelines.landing.ledger.summary import windows_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import Backlog, CheckpointOutcome, Verdict
from sls_io.emulator import Emulator, start
from sls_io.values.clock import SystemClock
from sls_io.values.errors import Throttled, TransportError
from sls_io.values.settings import Budget
from sls_io.wire.client import SlsClient
from tests.worlds.one_logstore import HOUR0_S, PROJECT, World, group, logstore_settings, make_lake

PIECES, GROUPS_A_PIECE, GROUPS_A_PAGE, PAD = 16, 12, 4, "x" * 2000
PAGE_BYTES = GROUPS_A_PAGE * 2100
QUOTA = {"status": 403, "code": "ShardReadQuotaExceed"}


class Seconds(SystemClock):
    """Sleeping does not pass time: it moves the emulator's clock on, and this one with it.

    Readers that wait side by side wait for the same second, so that each of them moves it by its part.
    """

    def __init__(self, emulator: Emulator, sleepers: int) -> None:
        self._admin, self._sleepers = emulator.admin, sleepers
        self._moved_s, self._lock = 0.0, threading.Lock()

    def monotonic(self) -> float:
        return super().monotonic() + self._moved_s

    def sleep(self, duration_s: float) -> None:
        with self._lock:
            self._moved_s += duration_s / self._sleepers
            self._admin.advance(duration_s / self._sleepers)


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    with start(tmp_path / "emulator", now=HOUR0_S + 60.0) as running:
        yield running


def a_world(
    emulator: Emulator, folder: Path, *, readers: int = 1, tasks_min: int = 4, shards: int = 1, **budget: Any
) -> World:
    """A logstore with a backlog of an hour in its first shard, for so many readers side by side."""
    logstore = logstore_settings(
        emulator,
        "bound",
        splits_per_hour=PIECES,
        # The clock moves by minutes while tasks wait; a holder must not count as dead for that.
        group={"name": "lake", "timeout_s": 3600, "heartbeat_s": 1},
        budget=Budget(page_groups_max=GROUPS_A_PAGE, tasks_min=tasks_min, **budget).model_dump(),
    )
    engine = InProcess(at_once=max(2, readers), clock=Seconds(emulator, readers))
    world = World(emulator, make_lake(folder / "lake"), logstore, engine)
    with world.client as client:
        client.transport.create_project(PROJECT, "")
        client.transport.create_logstore(PROJECT, "bound", ttl=30, shard_count=shards)
    world.land()
    for _ in range(PIECES):
        world.put(GROUPS_A_PIECE, key="0" * 32, logs_a_group=1, value=PAD)
        emulator.admin.advance(3300 / PIECES)
    emulator.admin.advance(60)
    return world


def rows_each_run(world: World, runs_max: int) -> list[int]:
    """Land until nothing is left; rows of each run. None of them may fail."""
    rows: list[int] = []
    while len(rows) < runs_max and sum(rows) < world.counter:
        rows.append(world.land().rows)
    return rows


@pytest.mark.parametrize("readers", [4, 8])
def test_many_readers_of_one_shard_land_its_backlog_within_its_quota_and_no_run_fails(
    emulator: Emulator, tmp_path: Path, readers: int
) -> None:
    """The setting says that the quota was raised and the service never did it: all are throttled most of
    the time, page by page, as they are where others read the shard."""
    world = a_world(emulator, tmp_path, readers=readers, tasks_min=readers, shard_mb_per_s=10 * readers)
    emulator.admin.limits(shard_read_bytes_per_s=PAGE_BYTES)
    pulls = world.watch_pulls()

    rows = rows_each_run(world, runs_max=4)

    assert sum(rows) == world.counter and all(rows)
    assert emulator.admin.state()["throttled"]["ShardReadQuotaExceed"] > readers
    assert len(pulls.asked) < 40 * world.counter / GROUPS_A_PAGE
    world.assert_sound()


def test_a_shard_that_was_not_read_to_its_end_is_not_reported_as_closed(
    emulator: Emulator, tmp_path: Path
) -> None:
    """The plan goes to the end of the shard; the run's time is used up before."""
    world = a_world(emulator, tmp_path, shard_mb_per_s=0.1, seconds_max=20)
    emulator.admin.split(PROJECT, "bound", 0)
    early = world.land()
    assert 0 < early.rows < world.counter and early.closed == ()
    rows = rows_each_run(world, runs_max=5)
    assert early.rows + sum(rows) >= world.counter
    assert [report.closed for report in world.reports if report.closed] == [(0,)]
    world.assert_each_log_once()


def test_a_reader_that_knows_its_quota_is_not_throttled(emulator: Emulator, tmp_path: Path) -> None:
    """The same quota as the setting says, in bytes and in calls: the pace is the service's own."""
    world = a_world(emulator, tmp_path, shard_mb_per_s=0.1)
    emulator.admin.limits(shard_read_bytes_per_s=100_000, shard_read_calls_per_s=1)
    assert rows_each_run(world, runs_max=1) == [world.counter]
    assert emulator.admin.state()["throttled"].get("ShardReadQuotaExceed", 0) <= 1
    world.assert_each_log_once()


def test_a_backlog_longer_than_a_run_at_the_quota_lands_run_by_run_and_says_what_binds(
    emulator: Emulator, tmp_path: Path
) -> None:
    world = a_world(emulator, tmp_path, shard_mb_per_s=0.1, seconds_max=20)
    first = world.land()
    assert 0 < first.rows < world.counter
    assert first.stopped == {0: "quota"} and "bound by the shard's read quota" in first.waits[0].text
    assert (first.trouble, first.came_to_nothing) == ("", "")
    rows = rows_each_run(world, runs_max=5)
    assert first.rows + sum(rows) >= world.counter
    world.assert_each_log_once()


def test_plan_and_describe_estimate_how_long_the_quota_makes_a_backlog_take(
    emulator: Emulator, tmp_path: Path
) -> None:
    """From the bytes of the hours that landed and the lag in receive time: about, and only then."""
    world = a_world(emulator, tmp_path, shard_mb_per_s=0.1)
    assert estimates(world) == [None, None]
    landed = world.land()
    emulator.admin.advance(300)
    world.put(5, key="0" * 32)
    emulator.admin.advance(2 * 3600)
    for found in estimates(world):
        assert found is not None
        assert found.hour_bytes == pytest.approx(landed.raw_bytes, rel=0.15)
        assert found.raw_bytes == pytest.approx(2 * found.hour_bytes, rel=0.15)
        assert found.reading_s == pytest.approx(found.raw_bytes / 100_000, rel=0.01)
    world.land()
    assert estimates(world) == [None, None]


def estimates(world: World) -> list[Backlog | None]:
    """Of shard 0: what `plan` says, then what `describe` does."""
    with world.client as client:
        planned = preview(world.logstore, world.lake, client).backlog.get(0)
        seen = describe(world.logstore, world.lake, client)[0]
    assert seen.behind_bytes == (seen.backlog.raw_bytes if seen.backlog else 0 if seen.rows else None)
    brought = [s for s in ancestry(world.table) if windows_of(s)[1]] if seen.rows else []
    newest = next((s for s in brought if any(x.window.shard == 0 for x in windows_of(s)[1])), None)
    assert seen.snapshot_id == (newest.snapshot_id if newest else None)
    return [planned, seen.backlog]


def test_a_window_that_stays_throttled_lands_what_it_read_and_the_rest_follows(
    emulator: Emulator, tmp_path: Path
) -> None:
    """Another consumer takes all of the quota from the fourth page on."""
    world = a_world(emulator, tmp_path, seconds_max=60)
    busy = emulator.admin.fault("error", call="pull_logs", after=3, times=None, **QUOTA)
    first = world.land()
    assert first.rows == 3 * GROUPS_A_PAGE and first.stopped == {0: "throttled"}
    assert "ShardReadQuotaExceed" in first.waits[0].text and first.trouble == ""
    assert world.checkpoints()[0] == world.ledger.shards[0].frontier

    second = world.land()
    assert second.rows == 0 and "logs are there and none landed" in second.came_to_nothing
    emulator.admin.remove(busy)
    assert world.land().rows == world.counter - first.rows
    world.assert_sound()


@pytest.mark.parametrize(
    "outage",
    [{"do": "error", "status": 500}, {"do": "drop_request"}, {"do": "drop_reply"}],
    ids=["500", "connection lost", "answers lost"],
)
def test_a_service_that_fails_late_costs_no_page_that_was_read_and_the_run_says_so(
    emulator: Emulator, tmp_path: Path, outage: dict[str, Any]
) -> None:
    world = a_world(emulator, tmp_path)
    away = emulator.admin.fault(call="pull_logs", after=3, times=None, **outage)
    first = world.land()
    assert first.rows == 3 * GROUPS_A_PAGE and first.stopped == {0: "failed"}
    assert "shard 0" in first.trouble

    with pytest.raises(TransportError):  # nothing at all came of this one
        world.land()
    emulator.admin.remove(away)
    last = world.land()
    assert (last.rows, last.trouble) == (world.counter - first.rows, "")
    world.assert_sound()


def test_a_shard_whose_reads_fail_does_not_cost_the_others_theirs(emulator: Emulator, tmp_path: Path) -> None:
    world = a_world(emulator, tmp_path, shards=2)
    backlog = world.counter
    world.put(20, key="f" * 32)
    emulator.admin.advance(60)
    away = emulator.admin.fault("error", call="pull_logs", shard=1, status=500, times=None)
    first = world.land()
    assert first.rows == backlog and first.stopped == {1: "failed"} and "shard 1" in first.trouble
    emulator.admin.remove(away)
    assert world.land().rows == 20
    world.assert_each_log_once()


@pytest.mark.parametrize("call", ["get_cursor", "get_cursor_time"])
def test_a_shard_that_cannot_be_surveyed_waits_and_the_others_land(
    emulator: Emulator, tmp_path: Path, call: str
) -> None:
    world = a_world(emulator, tmp_path, shards=2)
    backlog = world.counter
    world.put(20, key="f" * 32)
    emulator.admin.advance(60)
    busy = emulator.admin.fault("error", call=call, shard=1, times=None, **QUOTA)
    first = world.land(logstore=quickly_refused(world))
    assert first.rows == backlog and "ShardReadQuotaExceed" in first.waits[1].text
    again, said = world.land(logstore=quickly_refused(world)), io.StringIO()
    show(Output(file=said), again, Verdict(), [])
    assert "nothing landed, and 1 of its shards could not be asked" in said.getvalue()
    emulator.admin.remove(busy)
    assert world.land().rows == 20
    world.assert_each_log_once()


def test_a_whole_window_is_not_thrown_away_for_a_throttled_last_question(
    emulator: Emulator, tmp_path: Path
) -> None:
    """After the last page each window asks for the shard's begin cursor once more."""
    world = a_world(emulator, tmp_path)
    with world.client as client:
        asked = emulator.admin.fault("observe", call="get_cursor", times=None)
        from_survey = _cursors_of_a_survey(world, asked)
        client.shards()
    busy = emulator.admin.fault("error", call="get_cursor", after=from_survey, times=6, **QUOTA)
    assert world.land().rows == world.counter
    assert emulator.admin.faults()[-1]["id"] == busy and emulator.admin.faults()[-1]["hits"] == 6
    world.assert_each_log_once()


def _cursors_of_a_survey(world: World, asked: int) -> int:
    """How many GetCursor calls a run makes before it reads: a run whose first pull is refused for good."""
    refused = world.emulator.admin.fault("error", call="pull_logs", status=401, times=None)
    with pytest.raises(TransportError):
        world.land()
    world.emulator.admin.remove(refused)
    hits = next(f["hits"] for f in world.emulator.admin.faults() if f["id"] == asked)
    world.emulator.admin.remove(asked)
    return int(hits)


def test_heartbeats_and_checkpoints_survive_being_throttled(emulator: Emulator, tmp_path: Path) -> None:
    world = a_world(emulator, tmp_path)
    emulator.admin.fault("error", call="heartbeat", times=2, **QUOTA)
    busy = emulator.admin.fault("error", call="save_checkpoint", times=None, **QUOTA)
    world.logstore = quickly_refused(world)
    with world.run() as run:
        assert run.land().rows == world.counter and run.reconcile().ok
        put_off = run.checkpoint()
    assert {each.outcome for each in put_off} == {CheckpointOutcome.PUT_OFF}
    assert all("ShardReadQuotaExceed" in each.why for each in put_off)
    emulator.admin.remove(busy)
    world.land()
    assert world.checkpoints()[0] == world.ledger.shards[0].frontier
    world.assert_each_log_once()


def test_a_run_that_may_not_even_list_shards_fails_before_anything_is_done(
    emulator: Emulator, tmp_path: Path
) -> None:
    world = a_world(emulator, tmp_path)
    before = world.table.metadata_location
    busy = emulator.admin.fault("error", call="list_shards", times=None, **QUOTA)
    with pytest.raises(Throttled):
        world.land(logstore=quickly_refused(world))
    assert world.table.metadata_location == before
    emulator.admin.remove(busy)
    assert world.land().rows == world.counter


def test_a_loader_faster_than_the_write_quota_gets_every_group_in_and_none_twice(
    emulator: Emulator, tmp_path: Path
) -> None:
    world = a_world(emulator, tmp_path)
    emulator.admin.limits(shard_write_bytes_per_s=10)
    with SlsClient(quickly_refused(world).service) as client:
        for number in range(10):
            put_patiently(client, group([{"n": f"9{number}"}]), clock=Seconds(emulator, 1))
    assert emulator.admin.state()["throttled"]["ShardWriteQuotaExceed"] > 10
    emulator.admin.advance(60)
    assert sum(rows_each_run(world, runs_max=1)) == world.counter + 10
    world.assert_each_log_once()


def quickly_refused(world: World) -> Logstore:
    """The logstore's settings with a client that gives up at the first refusal: the driver's own calls
    wait by the machine's clock."""
    return world.changed(service={**world.logstore.service.model_dump(), "tries_max": 1})
