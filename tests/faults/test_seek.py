"""`checkpoints set --to table`: hours landed again, or owed; the group that the table feeds follows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.commit.planned import Tools, execute
from pipelines.landing.coordinators import coordinator_of
from pipelines.landing.hours import hour_text
from pipelines.landing.operations.seek import check_unread, plan_seek, readers_of
from sls_io.values.claim import GAP_SKIPPED
from sls_io.values.errors import ClaimLost
from sls_io.values.window import HOUR_S, Cursor
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World

TO = ("checkpoints", "set", "--to", "table", "--from")


@pytest.fixture
def world(calm: World) -> World:
    """Two shards with three hours of 20 landed logs each and 30 of a fourth, twenty minutes old."""
    calm.land_hours(3)
    calm.land_more(30, pass_s=1200)
    calm.pass_by()
    return calm


def now_hour(world: World) -> int:
    """The receive hour that runs."""
    return int(world.emulator.admin.now()) // HOUR_S


def sought(world: World, cursors: Mapping[int, Cursor]) -> int:
    """What `--execute` does where hours are landed again, on the engine of this process."""
    with world.client as client:
        planned = plan_seek(world.lake, world.logstore, client, cursors)
        return execute(world.lake, planned.decided, Tools(engine=world.engine)).snapshot


def aims(dry: dict[str, Any]) -> dict[int, Cursor]:
    """Where a dry run says that shards go."""
    return {entry["shard"]: Cursor(entry["cursor"]) for entry in dry["shards"]}


def parent(world: World) -> int | None:
    """The snapshot that the newest one was committed on."""
    snapshot = world.table.current_snapshot()
    return snapshot.parent_snapshot_id if snapshot else None


def test_back_lands_hours_again_in_one_commit_also_the_one_that_runs_and_the_rows_are_the_same(
    world: World, command: Command
) -> None:
    hour = now_hour(world)
    before, head = world.ledger, world.table.metadata.current_snapshot_id
    rows, files = world.identities(), set(world.published())
    back = (*TO, str((hour - 2) * HOUR_S))
    dry = command(*back)
    assert dry["code"] == 0 and {s["way"] for s in dry["shards"]} == {"again"}, dry
    assert dry["again"]["hours"] == f"{hour_text(hour - 2)}..{hour_text(hour)}"
    assert (dry["again"]["rows"], dry["again"]["running"], dry["gone"]) == (70, [hour], "")
    said = command(*back, json=False)["text"]
    assert "landed again, with all shards" in said
    assert "this does it:\n  sls-lake checkpoints" in said
    assert f"not every shard has passed {hour_text(hour)}: what has landed of it so far" in said
    assert world.table.metadata.current_snapshot_id == head and world.ledger == before

    assert sought(world, aims(dry)) == world.table.metadata.current_snapshot_id
    assert parent(world) == head
    assert world.ledger == before and world.identities() == rows
    assert len(files - set(world.published())) >= 3, "the hours' files are new ones"
    world.assert_proved()
    world.assert_next_lands(0)


def test_forward_is_owed_and_the_checkpoints_follow(world: World, command: Command, tmp_path: Path) -> None:
    world.put(40, pass_s=60)
    file = tmp_path / "to.csv"
    command("checkpoints", "set", "--from", "latest", "--to", f"csv:{file}", "--execute")
    dry = command(*TO, "latest")
    assert {s["way"] for s in dry["shards"]} == {"skip"} and dry["again"] is None and dry["committed"] is None
    assert file.read_text().splitlines()[1:] == [f"{s['shard']},{s['cursor']}" for s in dry["shards"]]
    assert f"{hour_text(now_hour(world))} is owed then" in command(*TO, "latest", json=False)["text"]
    done = command(*TO, f"csv:{file}", "--execute")
    assert done["code"] == 0, done["error"]
    assert {s["outcome"] for s in done["shards"]} == {"moved"}
    assert world.checkpoints() == {s["shard"]: s["cursor"] for s in dry["shards"]}
    assert {gap.cause for entry in world.ledger.shards.values() for gap in entry.gaps} == {GAP_SKIPPED}
    again = command(*TO, "latest", "--execute")
    assert again["committed"] is None and {s["way"] for s in again["shards"]} == {"stays"}
    assert "every shard is there already" in command(*TO, "latest", json=False)["text"]

    world.put(5, key="0" * 32)
    young = command(*TO, "latest")
    assert {s["shard"]: s["way"] for s in young["shards"]} == {0: "unsettled", 1: "stays"}
    said = command(*TO, "latest", json=False)["text"]
    assert "shard 0: logs are there, and none has settled" in said and "already" not in said
    world.pass_by()
    hours = world.hours
    assert world.land(mode="fill", hours=(hours.start, hours.stop)).rows == 45
    world.land()
    world.assert_whole()


def test_one_shard_back_and_another_forward_are_one_commit(
    world: World, command: Command, tmp_path: Path
) -> None:
    world.put(40, pass_s=60)
    head = world.table.metadata.current_snapshot_id
    ends = {s["shard"]: s["cursor"] for s in command(*TO, "latest")["shards"]}
    begin = min(cursor for shard, cursor, _ in world.truth() if shard == 0)
    waiting = sum(1 for i in world.truth() if i[0] == 1) - sum(1 for i in world.identities() if i[0] == 1)
    file = tmp_path / "both.csv"
    file.write_text(f"shard,cursor\n0,{begin}\n1,{ends[1]}\n")
    dry = command(*TO, f"csv:{file}")
    assert [s["way"] for s in dry["shards"]] == ["again", "skip"] and dry["again"]["rows"] == 90
    sought(world, aims(dry))
    assert parent(world) == head and world.ledger.shards[1].frontier == ends[1]
    assert world.land().rows == 40 - waiting
    hours = world.hours
    assert world.land(mode="fill", hours=(hours.start, hours.stop)).rows == waiting
    world.assert_whole()


def test_it_is_refused_while_another_reads_and_changes_nothing(world: World, command: Command) -> None:
    head, before = world.table.metadata.current_snapshot_id, world.checkpoints()
    with world.client as client:
        client.heartbeat("lake", "another", ())
        dry = command(*TO, "earliest")
        assert dry["code"] == 0 and dry["readers"] == ["another"]
        refused = command(*TO, "earliest", "--execute")
    assert refused["code"] == EXIT_FAILED and "'another' holds" in refused["error"]
    assert "Nothing was changed" in refused["error"]
    assert (world.table.metadata.current_snapshot_id, world.checkpoints()) == (head, before)


def test_with_leases_it_is_refused_while_a_worker_has_one_and_not_for_a_name_that_was_left(
    world: World, tmp_path: Path
) -> None:
    world.logstore = world.changed(
        coordinator={"database": f"sqlite:///{tmp_path}/leases.db"},
        group={**world.logstore.group.model_dump(), "holder": "one", "patience_s": 3},
    )
    world.land_more(10)
    me = world.with_holder("me")
    with world.client as client:
        check_unread(me, world.lake, client)
        assert readers_of(me, world.lake, client) == []
        worker = coordinator_of(world.logstore, client)
        assert worker.claim().shards
        assert readers_of(me, world.lake, client) == ["one"]
        with pytest.raises(ClaimLost, match=r"'one' holds .*Nothing was changed"):
            check_unread(me, world.lake, client)
        worker.release()
        check_unread(me, world.lake, client)


def test_what_cannot_be_landed_again_is_said(world: World, command: Command) -> None:
    outside = command(*TO, "earliest", "--shards", "7")
    assert outside["code"] == EXIT_USAGE and "no shard 7" in outside["error"]

    # Half of one hour is taken by retention, the hour after it is whole.
    clock, hour = world.emulator.admin, now_hour(world)
    world.put(20)
    taken_s = clock.now() + 30 * 24 * HOUR_S
    clock.advance(1500)
    world.put(20)
    clock.advance(HOUR_S)
    world.put(20)
    clock.advance(HOUR_S)
    world.land()
    clock.set_clock(taken_s + 600)
    world.land()
    world.pass_by()
    begun = command(*TO, "earliest")
    assert begun["code"] == 0, begun["error"]
    assert (begun["gone"], begun["again"]["hours"][:16]) == (hour_text(hour), hour_text(hour + 1))
    assert begun["again"]["rows"] == 20
    rows = world.identities()
    sought(world, aims(begun))
    assert world.identities() == rows
    world.assert_proved()
