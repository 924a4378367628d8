"""A project that moved, or a logstore that was renamed: the table goes on with both origins."""

from collections.abc import Iterator

import pytest

from pipelines.cli.main import EXIT_USAGE
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.state import read_state
from sls_io.window import HOUR_S
from tests.faults.judge import pass_by
from tests.integration.command_line import Command, command
from tests.integration.test_races import second_logstore
from tests.integration.world import PROJECT, World

__all__ = ["command"]


@pytest.fixture
def old(started: World) -> World:
    """The logstore as it was called: 20 logs landed, 60 wait."""
    return started


@pytest.fixture
def world(old: World) -> Iterator[World]:
    """The same settings with the new name, in the same table: 13 logs an hour ago and as many now."""
    new = World(old.emulator, old.lake, second_logstore(old, rows=13), old.engine)
    pass_by(new, HOUR_S)
    new.put(13)
    pass_by(new, 60)
    yield new
    with new.client as client:
        client.transport.delete_logstore(PROJECT, new.logstore.service.logstore)


def origin_of(world: World) -> str:
    """The id of its logstore."""
    with world.client as client:
        return client.origin().id


def test_a_renamed_logstore_keeps_its_table_and_both_are_proven(
    old: World, world: World, command: Command
) -> None:
    was, name = origin_of(old), origin_of(world)
    adopt = ("table", "adopt", "--moved", was, "--at", "begin")
    dry = command(*adopt)
    assert (dry["old"], dry["new"], dry["left"], dry["rows"]) == (was, name, [0, 1], 20)
    refused = command(*adopt, "--execute")
    assert (
        refused["code"] == EXIT_USAGE and "has logs that have not landed, in shard 0, 1" in refused["error"]
    )
    old.land()
    before, head = old.ledger, old.table.metadata.current_snapshot_id

    done = command(*adopt, "--execute")

    assert done["code"] == 0, done["error"]
    snapshot = old.table.current_snapshot()
    assert snapshot is not None and snapshot.parent_snapshot_id == head
    assert done["committed"] == snapshot.snapshot_id and done["left"] == []
    assert old.ledger == before and not read_state(old.table).ledger(name).shards[0].landed
    assert (
        command("windows")["code"] == 0
        and f"adopt moved from {was}" in command("windows", json=False)["text"]
    )
    known = command(*adopt, "--execute")
    assert known["code"] == EXIT_USAGE and f"as {name}: just land" in known["error"]

    assert world.land().rows == 26
    for each in (old, world):
        each.assert_proved()
    rows = [row["__origin__"] for row in world.table_rows()]
    assert (rows.count(was), rows.count(name), len(rows)) == (80, 26, 106)
    old.put(5)
    pass_by(old, 60)
    assert old.land().rows == 5, "settings of both may go on"
    old.assert_proved()


def test_it_begins_where_it_is_said_and_nothing_before_lands(
    old: World, world: World, command: Command
) -> None:
    now = hour_text(int(world.emulator.admin.now()) // HOUR_S)
    adopt = ("table", "adopt", "--moved", origin_of(old), "--without-missing", "--execute")
    assert command(*adopt, "--at", now)["code"] == 0
    assert world.land().rows == 13
    world.assert_proved()


def test_one_that_is_gone_has_nothing_more_to_land_and_that_is_said(
    old: World, world: World, command: Command
) -> None:
    was = origin_of(old)
    with old.client as client:
        client.transport.delete_logstore(PROJECT, old.logstore.service.logstore)
    dry = command("table", "adopt", "--moved", was, "--at", "begin", json=False)
    assert dry["code"] == 0 and "the old logstore is gone" in dry["text"]
    assert command("table", "adopt", "--moved", was, "--at", "begin", "--execute")["left"] is None
    assert world.land().rows == 26
    world.assert_proved()


def test_one_that_does_not_answer_is_not_taken_for_gone(old: World, world: World, command: Command) -> None:
    adopt = ("table", "adopt", "--moved", origin_of(old), "--at", "begin")
    fault = old.emulator.admin.fault(
        "error",
        call="get_logstore",
        logstore=old.logstore.service.logstore,
        status=403,
        code="Unauthorized",
        times=None,
    )
    head = old.table.metadata.current_snapshot_id
    dry, refused = command(*adopt), command(*adopt, "--execute")
    assert dry["left"] is None and "Unauthorized" in dry["unasked"]
    assert refused["code"] == EXIT_USAGE and "may still have logs that have not landed" in refused["error"]
    assert old.table.metadata.current_snapshot_id == head
    old.emulator.admin.remove(fault)
    assert command(*adopt, "--execute", "--without-missing")["left"] == [0, 1]


def test_a_dry_run_prints_no_call_that_would_be_refused(old: World, world: World, command: Command) -> None:
    old.put(5)
    adopt = ("table", "adopt", "--moved", origin_of(old), "--at", "begin")
    dry = command(*adopt, json=False)
    assert "still has logs" in dry["text"] and "--execute is refused" in dry["text"]
    assert "this does it" not in dry["text"] and command(*adopt, "--execute")["code"] == EXIT_USAGE
    assert "this does it" in command(*adopt, "--without-missing", json=False)["text"]


def test_what_is_no_move_is_said(old: World, world: World, command: Command) -> None:
    was = origin_of(old)
    head = old.table.metadata.current_snapshot_id
    for words, says in (
        (("--moved", "nobody-00000000", "--at", "begin"), f"there is {was} ("),
        (("--moved", was), "say where shard 0 starts"),
        (("--moved", was, "--at", "rows"), "begin, latest or an hour"),
        (("--moved", was, "--at", "latest", "--start", "9=1"), "no shard 9"),
    ):
        refused = command("table", "adopt", *words, "--execute")
        assert refused["code"] == EXIT_USAGE and says in refused["error"], refused["error"]
    assert old.table.metadata.current_snapshot_id == head
