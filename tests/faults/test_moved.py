"""A project that moved, or a logstore that was renamed: the table goes on with both origins."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.expressions import And, EqualTo

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.state import read_state
from sls_io.values.window import HOUR_S
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import PROJECT, World
from tests.worlds.printed_cures import ways
from tests.worlds.two_logstores import second_logstore
from tests.worlds.wrong_answers import tell


@pytest.fixture
def old(started: World) -> World:
    """The logstore as it was called: 20 logs landed, 60 wait."""
    return started


@pytest.fixture
def world(old: World) -> Iterator[World]:
    """The same settings with the new name, in the same table: 13 logs an hour ago and as many now."""
    new = World(old.emulator, old.lake, second_logstore(old, rows=13, shared=False), old.engine)
    new.pass_by(HOUR_S)
    new.put(13, pass_s=60)
    yield new
    with new.client as client:
        client.transport.delete_logstore(PROJECT, new.logstore.service.logstore)


def test_a_renamed_logstore_keeps_its_table_and_both_are_proven(
    old: World, world: World, command: Command
) -> None:
    was, name = old.origin, world.origin
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
        command("landings", "show")["code"] == 0
        and f"adopt moved from {was}" in command("landings", "show", json=False)["text"]
    )
    known = command(*adopt, "--execute")
    assert known["code"] == EXIT_USAGE and f"as {name}: just land" in known["error"]

    assert world.land().rows == 26
    for each in (old, world):
        each.assert_proved()
    rows = [row["__origin__"] for row in world.table_rows()]
    assert (rows.count(was), rows.count(name), len(rows)) == (80, 26, 106)
    assert old.land_more(5).rows == 5, "settings of both may go on"
    old.assert_proved()


def test_it_begins_where_it_is_said_and_nothing_before_lands(
    old: World, world: World, command: Command
) -> None:
    now = hour_text(int(world.emulator.admin.now()) // HOUR_S)
    adopt = ("table", "adopt", "--moved", old.origin, "--without-missing", "--execute")
    assert command(*adopt, "--at", now)["code"] == 0
    assert world.land().rows == 13
    world.assert_proved()


def test_one_that_is_gone_has_nothing_more_to_land_and_that_is_said(
    old: World, world: World, command: Command
) -> None:
    was = old.origin
    with old.client as client:
        client.transport.delete_logstore(PROJECT, old.logstore.service.logstore)
    dry = command("table", "adopt", "--moved", was, "--at", "begin", json=False)
    assert dry["code"] == 0 and "the service says that the old logstore is gone" in dry["text"]
    assert command("table", "adopt", "--moved", was, "--at", "begin", "--execute")["left"] is None
    assert world.land().rows == 26
    world.assert_proved()


def test_one_that_does_not_answer_is_not_taken_for_gone(old: World, world: World, command: Command) -> None:
    adopt = ("table", "adopt", "--moved", old.origin, "--at", "begin")
    fault = old.fault("error", call="get_logstore", status=403, code="Unauthorized", times=None)
    head = old.table.metadata.current_snapshot_id
    dry, refused = command(*adopt), command(*adopt, "--execute")
    assert dry["left"] is None and "Unauthorized" in dry["unasked"]
    assert refused["code"] == EXIT_USAGE and "may still have logs that have not landed" in refused["error"]
    assert old.table.metadata.current_snapshot_id == head
    old.emulator.admin.remove(fault)
    assert command(*adopt, "--execute", "--without-missing")["left"] == [0, 1]


def test_a_dry_run_prints_no_call_that_would_be_refused(old: World, world: World, command: Command) -> None:
    old.put(5)
    adopt = ("table", "adopt", "--moved", old.origin, "--at", "begin")
    dry = command(*adopt, json=False)
    assert "still has logs" in dry["text"] and "--execute is refused" in dry["text"]
    assert "this does it" not in dry["text"] and command(*adopt, "--execute")["code"] == EXIT_USAGE
    assert "this does it" in command(*adopt, "--without-missing", json=False)["text"]


def test_what_is_no_move_is_said(old: World, world: World, command: Command) -> None:
    was = old.origin
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


@pytest.mark.parametrize("call", ["get_logstore", "list_shards"])
@pytest.mark.parametrize("code", ["LogStoreNotExist", "ProjectNotExist"])
def test_one_answer_does_not_make_it_gone(
    old: World, world: World, command: Command, call: str, code: str
) -> None:
    """The answers stay wrong for as long as they like: the project's list of logstores names it."""
    was = old.origin
    name, head = old.logstore.service.logstore, old.table.metadata.current_snapshot_id
    fault = old.emulator.admin.fault("error", call=call, logstore=name, status=404, code=code, times=None)
    adopt = ("table", "adopt", "--moved", was)
    refused = command(*adopt, "--at", "begin", "--execute")
    old.emulator.admin.remove(fault)
    assert refused["code"] == EXIT_USAGE and "may still have logs that have not landed" in refused["error"]
    assert code in refused["error"] and "list of logstores" in refused["error"]
    assert old.table.metadata.current_snapshot_id == head


@pytest.mark.parametrize(
    ("answer", "left"),
    [({"value": []}, None), ({"item": 0, "drop": True}, [0, 1]), ({"item": 1, "drop": True}, [0, 1])],
    ids=["empty", "without 0", "without 1"],
)
def test_a_list_that_leaves_shards_out_says_nothing_of_what_is_left(
    old: World, world: World, command: Command, answer: dict[str, object], left: list[int] | None
) -> None:
    adopt = ("table", "adopt", "--moved", old.origin, "--at", "begin")
    tell(old, "answer", call="list_shards", **answer)

    dry, refused = command(*adopt), command(*adopt, "--execute")

    assert dry["left"] == left and bool(dry["unasked"]) is (left is None), dry
    assert refused["code"] == EXIT_USAGE and "logs that have not landed" in refused["error"]


def test_a_shard_that_nobody_landed_yet_is_not_forgotten_by_one_list(
    old: World, world: World, command: Command
) -> None:
    old.land()
    old.emulator.admin.split(PROJECT, old.logstore.service.logstore, 1)
    old.put(5, key="f" * 32, pass_s=60)
    adopt = ("table", "adopt", "--moved", old.origin, "--at", "begin")
    (newest,) = command(*adopt)["left"]
    assert newest not in old.ledger.shards
    tell(old, "answer", call="list_shards", item=newest, drop=True, times=1)
    assert command(*adopt)["left"] == [newest]


def test_an_open_shard_that_retention_took_keeps_nobody_from_going_on(
    old: World, world: World, command: Command
) -> None:
    old.emulator.admin.split(PROJECT, old.logstore.service.logstore, 1)
    with old.client as client:
        kept_s = client.retention_s()
    assert kept_s is not None
    old.pass_by(kept_s + HOUR_S)
    with old.client as client:
        assert 1 not in {shard.id for shard in client.shards()} and not old.ledger.shards[1].closed
    assert command("table", "adopt", "--moved", old.origin, "--at", "latest")["left"] == [0]


def test_a_list_that_fails_does_not_make_it_gone(old: World, world: World, command: Command) -> None:
    was = old.origin
    with old.client as client:
        client.transport.delete_logstore(PROJECT, old.logstore.service.logstore)
    fault = old.emulator.admin.fault(
        "error", call="list_logstores", status=403, code="Unauthorized", times=None
    )
    dry = command("table", "adopt", "--moved", was, "--at", "begin")
    old.emulator.admin.remove(fault)
    assert dry["left"] is None and "does not confirm it" in dry["unasked"], dry
    assert command("table", "adopt", "--moved", was, "--at", "begin")["unasked"] == ""


def test_one_made_anew_is_told_by_its_shards(old: World, world: World, command: Command) -> None:
    was = old.origin
    with old.client as client:
        client.transport.delete_logstore(PROJECT, old.logstore.service.logstore)
        client.transport.create_logstore(PROJECT, old.logstore.service.logstore, ttl=30, shard_count=2)
    dry = command("table", "adopt", "--moved", was, "--at", "begin")
    assert (dry["left"], dry["unasked"]) == (None, "")


def moved_and_deleted(old: World, world: World, command: Command) -> str:
    """All of the old logstore has landed, the table goes on with the new one, and the old one is gone from
    the service; the old one's id."""
    was = old.origin
    old.land()
    assert command("table", "adopt", "--moved", was, "--at", "begin", "--execute")["code"] == 0
    assert world.land().rows == 26
    with old.client as client:
        client.transport.delete_logstore(PROJECT, old.logstore.service.logstore)
    return was


def test_rows_of_the_old_one_are_proven_when_it_is_gone(old: World, world: World, command: Command) -> None:
    was = moved_and_deleted(old, world, command)
    text = read_state(world.table).origins[was]
    whole = command("verify")
    said = f"and 80 rows of origin {was} ({text}), as its ledger says (its service was not asked)"
    assert (whole["code"], whole["ok"], whole["notes"]) == (0, True, [said])
    row = next(row for row in world.table_rows() if row["__origin__"] == was)
    shard, cursor, index = (row[name] for name in ("__shard__", "__cursor__", "__index__"))
    here = [EqualTo(term=name, value=row[name]) for name in ("__origin__", "__shard__", "__cursor__")]
    world.table.delete(And(*here, EqualTo(term="__index__", value=index)))

    short = command("verify")

    rows = read_state(world.table).ledger(was).shards[shard].rows
    assert short["code"] == EXIT_FAILED and cursor > 0
    assert short["problems"] == [
        f"origin {was} ({text}): shard {shard}: the table holds {rows - 1} rows, the ledger {rows}"
    ]
    counted = world.proof(sums_of_others=False)
    assert counted.problems == (f"origin {was} ({text}): the table holds 79 rows, the ledger 80",)
    back = next(cure for cure in ways(short) if "table rollback" in cure)
    assert command(*shlex.split(back, comments=True)[1:], "--execute")["code"] == 0
    assert command("verify")["code"] == 0


def test_another_row_in_its_place_is_found_by_the_sum_of_the_old_one(
    old: World, world: World, command: Command
) -> None:
    was = moved_and_deleted(old, world, command)
    both = world.table.scan(row_filter=EqualTo(term="__origin__", value=was)).to_arrow()
    one, other = (row for row in both.slice(0, 2).to_pylist())
    assert one["__shard__"] == other["__shard__"]
    names = ("__origin__", "__shard__", "__cursor__", "__index__")
    here = [EqualTo(term=name, value=one[name]) for name in names]
    world.table.overwrite(both.slice(1, 1), overwrite_filter=And(*here))
    wrong = command("verify")
    assert wrong["code"] == EXIT_FAILED
    assert ["identities" in problem for problem in wrong["problems"]] == [True, False]
    assert "1 rows are there more than once" in wrong["problems"][1]


def test_a_lost_file_of_one_that_is_gone_is_given_up_from_here(
    old: World, world: World, command: Command
) -> None:
    was = moved_and_deleted(old, world, command)
    task = next(iter(world.table.scan(row_filter=EqualTo(term="__origin__", value=was)).plan_files()))
    path = Path(task.file.file_path.removeprefix("file://"))
    path.unlink()
    lost = command("verify")
    assert lost["code"] == EXIT_FAILED and f"file is gone: {path.name}" in lost["problems"]
    (cure,) = (text for text in ways(lost) if f"table give-up --origin {was}" in text)
    assert f"gives up the {task.file.record_count} rows" in cure

    done = command("table", "give-up", "--origin", was, "--execute")

    assert (done["code"], done["rows"], done["kept"]) == (0, task.file.record_count, None), done
    assert command("verify")["code"] == 0
    assert world.land_more(3).rows == 3


def test_a_renamed_one_that_is_not_adopted_yet_is_told_so(old: World, world: World, command: Command) -> None:
    was = old.origin
    text = read_state(old.table).origins[was]
    plan, proof = command("land", "--dry-run", json=False), command("verify", json=False)
    for said in (" ".join(each["text"].split()) for each in (plan, proof)):
        assert f"holds rows of origin {was} ({text}), and does not know" in said
        assert re.search(
            rf"sls-lake table adopt --moved {was} --at begin( -l \S+)?`, or --at latest or an hour", said
        ), said
        assert "nothing has landed yet" not in said and "what its ledger says" not in said
    assert proof["code"] == EXIT_FAILED
    assert f"origin {was}" in command("land", "--dry-run")["unknown"]


def test_a_start_to_come_is_refused_and_what_lies_before_a_start_is_said(
    old: World, world: World, command: Command
) -> None:
    adopt = ("table", "adopt", "--moved", old.origin, "--without-missing", "--at")
    refused = command(*adopt, "2199-01-01-00:00", "--execute")
    assert refused["code"] == EXIT_USAGE and "2199-01-01-00:00 is to come" in refused["error"]
    assert command(*adopt, "begin")["before_s"] == {}
    now = hour_text(int(world.emulator.admin.now()) // HOUR_S)
    with world.client as client:
        oldest_s = client.cursor_time_s(0, client.cursor_at(0, "begin"))
    assert command(*adopt, now)["before_s"] == {"0": oldest_s}
    assert (
        "logs of shard 0 lie before its start and are not landed" in command(*adopt, now, json=False)["text"]
    )
