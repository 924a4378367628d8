"""Verbs about groups, checkpoints, shards and cursors, on a real service; what they must say is worked out
from what the emulator has stored."""

import csv
import json
import shlex
import signal
import subprocess
import sys
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE
from pipelines.cli.output import moment
from pipelines.cli.stores import PLACES
from sls_io.values.settings import Group
from sls_io.values.window import cursor_to_wire
from sls_io.wire.client import SlsClient
from tests.worlds.command_line import Command, environment, separately, settings
from tests.worlds.one_logstore import HOUR0_S, PROJECT, World, group
from tests.worlds.other_group import OTHER, REPORT, by_shard, copy_to, cursors_of, filled, force
from tests.worlds.two_hours import started

__all__ = ["started", "filled"]


# --- groups


def test_a_group_is_made_changed_cloned_and_deleted_each_after_its_dry_run(
    filled: World, command: Command
) -> None:
    def names() -> set[str]:
        return {row["name"] for row in command("groups", "list")["groups"]}

    assert names() == {OTHER}
    make = ("groups", "set", "audit", "--timeout", "45", "--no-order")
    assert command(*make)["code"] == 0 and names() == {OTHER}
    assert command(*make, "--execute")["code"] == 0 and names() == {OTHER, "audit"}
    again = command(*make, "--execute")
    assert again["before"] == again["after"] == {"name": "audit", "timeout_s": 45, "order": False}
    assert "say what to change" in command("groups", "set", "audit")["error"]

    change = ("groups", "set", "audit", "--timeout", "90")
    assert command(*change)["after"] == {"name": "audit", "timeout_s": 90, "order": False}
    rows = {row["name"]: row for row in command("groups", "list")["groups"]}
    assert rows["audit"]["timeout_s"] == 45
    command(*change, "--execute")
    rows = {row["name"]: row for row in command("groups", "list")["groups"]}
    assert (rows["audit"]["timeout_s"], rows["audit"]["order"]) == (90, False)

    cursors = {0: cursors_of(filled, 0)[3], 1: cursors_of(filled, 1)[7]}
    force(filled, cursors)
    copy = copy_to("group:copy", REPORT, "--out-of-range", "begin")
    assert by_shard(command(*copy)).keys() == {0, 1} and "copy" not in names()
    done = command(*copy, "--execute")
    assert {e["outcome"] for e in by_shard(done).values()} == {"sent"}
    assert filled.checkpoints("copy") == cursors
    # Over a group that is there, also back.
    force(filled, {0: cursors_of(filled, 0)[9]}, "copy")
    assert by_shard(command(*copy, "--execute"))[0]["outcome"] == "sent"
    assert filled.checkpoints("copy") == cursors

    assert command("groups", "delete", "audit")["code"] == 0 and "audit" in names()
    assert command("groups", "delete", "audit", "--execute")["code"] == 0 and names() == {OTHER, "copy"}
    assert "has no consumer group 'audit'" in command("groups", "delete", "audit", "--execute")["error"]


def test_a_copy_to_a_group_that_is_not_there_makes_it_as_the_logstores_own_and_a_schedule_makes_none(
    filled: World, command: Command
) -> None:
    copy = copy_to("group:fresh", "earliest")
    assert command(*copy)["made"] is True
    done = command(*copy, "--execute")
    assert done["made"] is True and {e["outcome"] for e in by_shard(done).values()} == {"sent"}
    with filled.client as client:
        begins = {shard.id: client.head(shard).begin for shard in client.shards()}
        (info,) = [info for info in client.groups() if info.name == "fresh"]
    ours = filled.logstore.group
    assert (info.timeout_s, info.order) == (ours.timeout_s, ours.order)
    assert filled.checkpoints("fresh") == begins

    refused = command(*copy_to("group:fersh", REPORT, "--forward-only"), "--execute")
    assert refused["code"] == EXIT_USAGE and "no consumer group 'fersh'" in refused["error"]
    assert "sls-lake groups set fersh" in refused["error"]
    refused = command(*copy_to(REPORT, "group:fersh"))
    assert refused["code"] == EXIT_USAGE and "no consumer group 'fersh'" in refused["error"]
    assert "'fresh'" not in refused["error"] and "fresh" in refused["error"], "the ones that are there"

    for words in (copy_to(REPORT, "earliest"), ("checkpoints", "show", REPORT)):
        refused = command(*words, "--reader", "x")
        assert refused["code"] == EXIT_USAGE and "--reader is for a file" in refused["error"]


def test_a_group_that_is_read_is_neither_deleted_nor_reset(filled: World, command: Command) -> None:
    force(filled, {0: cursors_of(filled, 0)[3]})
    before = filled.checkpoints(OTHER)
    with filled.client as client:
        client.heartbeat(OTHER, "reader-7", ())
        for words in (
            ("groups", "delete", OTHER),
            copy_to(REPORT, "earliest"),
        ):
            refused = command(*words, "--execute")
            assert refused["code"] == EXIT_FAILED and "reader-7" in refused["error"], words
        dry = command(*copy_to(REPORT, "latest"))
        assert dry["code"] == 0 and dry["readers"] == ["reader-7"]
        assert client.heartbeat(OTHER, "reader-7", (0, 1)) == {0, 1}, "it was not disturbed"
    assert filled.checkpoints(OTHER) == before


def test_a_member_without_a_shard_is_found_by_joining(filled: World, command: Command) -> None:
    force(filled, {0: cursors_of(filled, 0)[3]})
    before = filled.checkpoints(OTHER)
    with filled.client as client:
        for member in ("a", "b", "idle"):
            client.heartbeat(OTHER, member, ())
        for member, held in (("a", (0, 1)), ("b", ()), ("a", (0,)), ("b", ()), ("idle", ())):
            client.heartbeat(OTHER, member, held)
        filled.emulator.admin.advance(20)
        assert client.heartbeat(OTHER, "idle", ()) == frozenset()
        filled.emulator.admin.advance(11)
        assert {entry.holder for entry in client.checkpoints(OTHER).values()} == {""}

        refused = command(*copy_to(REPORT, "latest"), "--execute")

    assert refused["code"] == EXIT_FAILED and "'idle' holds" in refused["error"], refused["error"]
    assert filled.checkpoints(OTHER) == before


def test_describe_shows_members_states_and_lag_as_the_service_has_them(
    filled: World, command: Command
) -> None:
    all_of_0 = cursors_of(filled, 0)
    force(filled, {0: all_of_0[10]})
    free = command("groups", "describe", OTHER)
    assert (free["timeout_s"], free["order"], free["members"], free["state"]) == (30, True, [], "Empty")
    shards = {entry["shard"]: entry for entry in free["shards"]}
    assert {e["state"] for e in shards.values()} == {"not_alloc"}
    # The eleventh group is the first of the last hour, ten minutes ago.
    assert (shards[0]["received_s"], shards[0]["groups_max"]) == (HOUR0_S + 7200 + 60, 5)
    assert 599 <= shards[0]["lag_s"] <= 603
    assert shards[1]["checkpoint"] is None and shards[1]["groups_max"] == 15
    assert 7799 <= shards[1]["lag_s"] <= 7803

    with filled.client as client:
        client.heartbeat(OTHER, "reader-7", ())
    held = command("groups", "describe", OTHER)
    assert held["members"] == [{"holder": "reader-7", "shards": [0, 1], "last_s": held["last_s"]}]
    assert {e["state"] for e in held["shards"]} == {"already_alloc"}
    listed = {row["name"]: row["state"] for row in command("groups", "list")["groups"]}
    assert held["state"] == listed[OTHER] == "Stable"
    text = command("groups", "describe", OTHER, "--members", json=False)["text"]
    assert "reader-7" in text and "0, 1" in text and "received" not in text
    text = command("groups", "describe", OTHER, "--state", json=False)["text"]
    assert (
        "dropped after 30 s" in text
        and "is Stable, as Kafka calls it" in text
        and "held, or on its way" in text
    )


def test_a_finished_shard_is_over_and_its_children_are_free(filled: World, command: Command) -> None:
    filled.emulator.admin.split(PROJECT, filled.logstore.service.logstore, 0)
    shards = {e["shard"]: e for e in command("groups", "describe", OTHER)["shards"]}
    assert {s: e["state"] for s, e in shards.items()} == {
        0: "not_alloc",
        1: "not_alloc",
        2: "wait",
        3: "wait",
    }
    force(filled, {0: shards[0]["end"]})
    shards = {e["shard"]: e for e in command("groups", "describe", OTHER)["shards"]}
    assert {s: e["state"] for s, e in shards.items()} == {
        0: "over",
        1: "not_alloc",
        2: "not_alloc",
        3: "not_alloc",
    }
    said = command(*copy_to(REPORT, "earliest"), "--shards", "0", "--execute")
    assert (by_shard(said)[0]["reopens"], by_shard(said)[0]["children"]) == (True, [2, 3])
    assert filled.checkpoints(OTHER)[0] == shards[0]["begin"]


def test_a_group_that_differs_from_the_settings_is_said_and_changed_on_request(
    filled: World, command: Command
) -> None:
    with filled.client as client:
        client.create_group(Group(name="lake", timeout_s=99, order=False))
    assert command("groups", "describe")["drift"] == ["timeout_s is 99, not 30", "order is False, not True"]
    command("groups", "set", "--execute")
    assert command("groups", "describe")["drift"] == []


# --- set


def test_each_way_puts_the_checkpoints_where_the_stored_logs_say(filled: World, command: Command) -> None:
    stored = {shard: cursors_of(filled, shard) for shard in (0, 1)}
    ends: dict[int, int | None] = {shard: all_[-1] + 1 for shard, all_ in stored.items()}
    # Five groups an hour; the first of the second hour, and the one received an hour before shard 0's.
    ways: dict[str, dict[int, int | None]] = {
        "earliest": {s: stored[s][0] for s in stored},
        "latest": ends,
        datetime.fromtimestamp(HOUR0_S + 3600, UTC).isoformat(): {s: stored[s][5] for s in stored},
        "-75m": {s: stored[s][5] for s in stored},
        "shift:-1h": {0: stored[0][5], 1: None},
        "shift:+2h": {0: ends[0], 1: None},
    }
    force(filled, {0: stored[0][10]})
    for way, expected in ways.items():
        dry = by_shard(command(*copy_to(REPORT, way)))
        assert {s: e["cursor"] for s, e in dry.items()} == expected, way
        assert filled.checkpoints(OTHER) == {0: stored[0][10], 1: None}

    for way in ("earliest", "latest", "-75m"):
        done = command(*copy_to(REPORT, way), "--execute")
        assert done["code"] == 0, done["error"]
        assert filled.checkpoints(OTHER) == ways[way]
        assert {e["holder"] for e in command("groups", "describe", OTHER)["shards"]} != {""}
        filled.emulator.admin.advance(31)

    done = command(*copy_to(REPORT, "earliest"), "--shards", "1", "--execute")
    assert by_shard(done).keys() == {1}
    assert filled.checkpoints(OTHER) == {0: stored[0][5], 1: stored[1][0]}


def test_an_export_is_a_file_that_brings_them_back(filled: World, command: Command, tmp_path: Path) -> None:
    stored = {shard: cursors_of(filled, shard) for shard in (0, 1)}
    force(filled, {0: stored[0][4], 1: stored[1][9]})
    kept = tmp_path / "kept.csv"
    keep = copy_to(f"csv:{kept}", REPORT)
    assert {s: e["cursor"] for s, e in by_shard(command(*keep)).items()} == {0: stored[0][4], 1: stored[1][9]}
    assert not kept.exists()
    assert command(*keep, "--execute")["code"] == 0
    with kept.open() as file:
        assert list(csv.reader(file)) == [
            ["shard", "cursor"],
            ["0", str(stored[0][4])],
            ["1", str(stored[1][9])],
        ]
    again = command(*copy_to(f"csv:{kept}", "latest"))
    assert again["code"] == EXIT_USAGE and "is there already" in again["error"]

    command(*copy_to(REPORT, "latest"), "--execute")
    filled.emulator.admin.advance(31)
    done = command(*copy_to(REPORT, f"csv:{kept}"), "--execute")
    assert {e["outcome"] for e in by_shard(done).values()} == {"sent"}
    assert filled.checkpoints(OTHER) == {0: stored[0][4], 1: stored[1][9]}

    for text, says in (
        ("0,5\n", "first line shard,cursor"),
        ("shard,cursor\n0,x\n", "line 2"),
        ("shard,cursor\n0,5\n0,6\n", "line 3"),
        ("shard,cursor\n9,5\n", "no shard 9"),
    ):
        kept.write_text(text)
        refused = command(*copy_to(REPORT, f"csv:{kept}"), "--execute")
        assert refused["code"] == EXIT_USAGE and says in refused["error"], text


def test_a_cursor_outside_of_its_shard_stops_unless_it_is_said_where(
    filled: World, command: Command, tmp_path: Path
) -> None:
    stored, file = cursors_of(filled, 0), tmp_path / "x.csv"
    end = stored[-1] + 1
    reset = copy_to(REPORT, f"csv:{file}")
    for cursor, place in ((stored[0] - 1, "expired"), (end + 1, "beyond")):
        file.write_text(f"shard,cursor\n0,{cursor}\n")
        refused = command(*reset, "--execute")
        assert refused["code"] == EXIT_USAGE and "--out-of-range" in refused["error"]
        for policy, to in (("begin", stored[0]), ("end", end)):
            said = by_shard(command(*reset, "--out-of-range", policy))[0]
            assert (said["cursor"], said["place"]) == (to, place)
    assert filled.checkpoints(OTHER) == {0: None, 1: None}


@pytest.mark.spark
def test_a_reset_of_a_group_that_feeds_a_table_moves_the_table(
    started: World, command: Command, tmp_path: Path
) -> None:
    frontiers = {s: e.frontier for s, e in started.ledger.shards.items()}
    rows, files = started.identities(), set(started.published())
    started.emulator.admin.advance(60)
    for source in ("group:lake", "earliest"):
        copied = command(*copy_to("group:lake", source), "--execute")
        assert copied["code"] == EXIT_USAGE and "feeds the table" in copied["error"]
    reset = copy_to("table", "earliest")
    dry = command(*reset)
    assert ({s["way"] for s in dry["shards"]}, dry["again"]["rows"]) == ({"again"}, 20)
    assert set(started.published()) == files and started.checkpoints() == frontiers
    done = separately(*reset, "--execute", "--logstore", str(tmp_path / "defs.yaml"))
    assert {s["outcome"] for s in done["shards"]} == {"unchanged"}
    assert done["committed"] == str(started.table.metadata.current_snapshot_id)
    assert started.identities() == rows and set(started.published()) != files
    assert started.checkpoints() == frontiers
    started.emulator.admin.advance(60)

    force(started, {0: 0}, "lake")
    done = command(*copy_to("group", "ledger"), "--execute")
    assert by_shard(done)[0]["outcome"] == "sent"
    assert started.checkpoints() == frontiers

    # Another group may begin where the table is; and the table's lag is that of its frontiers.
    with started.client as client:
        client.create_group(Group(name=OTHER))
    assert command(*copy_to(REPORT, "ledger"), "--execute")["code"] == 0
    assert started.checkpoints(OTHER) == frontiers
    lag, its_group = command("checkpoints", "show", "ledger", "group")["places"]
    assert {e["shard"]: e["checkpoint"] for e in lag["shards"]} == frontiers
    assert {e["shard"]: e["checkpoint"] for e in its_group["shards"]} == frontiers
    assert lag["groups_max"] == its_group["groups_max"] == 12 and lag["where"] == "table bronze.access_logs"
    beside = command("checkpoints", "show", "ledger", "group", json=False)["text"]
    assert "table bronze.access_logs, group lake of" in beside and "ledger: the slowest is shard" in beside
    force(started, {0: 0}, OTHER)
    beside = command("checkpoints", "show", "ledger", f"group:{OTHER}", json=False)["text"]
    assert f"group:{OTHER}: {PLACES['expired']}" in " ".join(beside.split())
    assert command(*copy_to(REPORT, "ledger"), "--execute")["code"] == 0
    started.at(started.emulator.admin.now() + 60)
    started.land()
    (done_lag,) = command("checkpoints", "show", "ledger")["places"]
    assert (done_lag["groups_max"], done_lag["lag_s"]) == (0, 0)


# --- stores


def test_a_mirror_keeps_a_group_in_a_file_and_a_database_and_a_reset_of_them_freezes(
    filled: World, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = {shard: cursors_of(filled, shard) for shard in (0, 1)}
    force(filled, {0: stored[0][4], 1: stored[1][9]})
    monkeypatch.setenv("POSITIONS", f"sqlite:///{tmp_path}/positions.sqlite")
    places = (f"file:{tmp_path}/positions.json", "sql:env:POSITIONS", f"sql:sqlite:///{tmp_path}/more.sqlite")
    for place in places:
        copy = copy_to(place, REPORT, "--forward-only")
        assert {e["difference"] for e in by_shard(command(*copy)).values()} == {"behind"}
        assert by_shard(command("checkpoints", "show", place))[0]["checkpoint"] is None
        assert {e["outcome"] for e in by_shard(command(*copy, "--execute")).values()} == {"sent"}
        shown = by_shard(command("checkpoints", "show", place))
        assert {s: e["checkpoint"] for s, e in shown.items()} == {0: stored[0][4], 1: stored[1][9]}
        assert {e["difference"] for e in by_shard(command(*copy, "--execute")).values()} == {"equal"}

        back = command(*copy_to(place, "earliest"), "--execute")
        assert {e["outcome"] for e in by_shard(back).values()} == {"sent"}
        assert {e["difference"] for e in by_shard(command(*copy, "--execute")).values()} == {"frozen"}
        shown = by_shard(command("checkpoints", "show", place))
        assert {s: (e["checkpoint"], e["frozen"]) for s, e in shown.items()} == {
            s: (stored[s][0], True) for s in stored
        }
        assert command("checkpoints", "show", place)["places"][0]["groups_max"] == 30

    # And a group from a file: forwards, by force, and only what is behind.
    other = f"file:{tmp_path}/other.json"
    command(*copy_to(other, REPORT, "--reader", "x", "--forward-only"), "--execute")
    force(filled, {0: stored[0][0], 1: stored[1][12]})
    done = by_shard(command(*copy_to(REPORT, other, "--reader", "x", "--forward-only"), "--execute"))
    assert (done[0]["outcome"], done[1]["difference"]) == ("sent", "ahead")
    assert filled.checkpoints(OTHER) == {0: stored[0][4], 1: stored[1][12]}


def test_a_broken_file_stops_every_verb_and_a_password_is_not_taken(
    filled: World, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "p.json"
    place = f"file:{file}"
    none = command("checkpoints", "show", place, "--reader", "audit", json=False)
    assert none["code"] == 0 and "no position is kept there for reader audit" in none["text"]
    file.write_text("{}")
    for words in (("checkpoints", "show", place), (*copy_to(place, "latest"), "--execute")):
        refused = command(*words)
        assert refused["code"] == EXIT_FAILED and "Restore it" in refused["error"]
    refused = command("checkpoints", "show", "sql:postgresql://u:geheim@h/d")
    assert refused["code"] == EXIT_USAGE and "sql:env:" in refused["error"] and "geheim" not in str(refused)
    refused = command("checkpoints", "show", "sql:env:NO_SUCH_VARIABLE")
    assert refused["code"] == EXIT_USAGE and "is not set" in refused["error"]
    refused = command("checkpoints", "show", "paper:x")
    assert refused["code"] == EXIT_USAGE and "file:PATH" in refused["error"]


# --- shards and cursors


def test_shards_are_listed_with_lineage_and_the_age_of_what_is_kept(filled: World, command: Command) -> None:
    filled.emulator.admin.split(PROJECT, filled.logstore.service.logstore, 0)
    rows = by_shard(command("shards", "list"))
    assert {s: (r["status"], r["parents"], r["children"]) for s, r in rows.items()} == {
        0: ("readonly", [], [2, 3]),
        1: ("readwrite", [], []),
        2: ("readwrite", [0], []),
        3: ("readwrite", [0], []),
    }
    assert {s: rows[s]["oldest_s"] for s in rows} == {0: HOUR0_S + 60, 1: HOUR0_S + 60, 2: None, 3: None}
    assert (rows[1]["keys"], rows[3]["keys"]) == (f"8{'0' * 31}..{'f' * 32}", f"4{'0' * 31}..8{'0' * 31}")
    stored = cursors_of(filled, 1)
    assert (rows[1]["begin"], rows[1]["end"]) == (stored[0], stored[-1] + 1)


def test_a_cursor_has_a_time_and_a_time_a_cursor(filled: World, command: Command) -> None:
    stored = cursors_of(filled, 1)
    for cursor in (str(stored[7]), cursor_to_wire(stored[7])):
        said = command("peek", "1", "--limit", "0", "--cursor", cursor)
        assert (said["wire"], said["logs"]) == (cursor_to_wire(stored[7]), [])
        assert (said["received_s"], said["cursor"]) == (HOUR0_S + 3660, stored[7])
    text = command("peek", "1", "--limit", "0", "--cursor", str(stored[7]), json=False)["text"]
    assert text == f"from cursor {stored[7]}, received {moment(HOUR0_S + 3660)} (UTC)\n"
    for end in (("--cursor", str(stored[-1] + 1)), ("--at", "end")):
        assert command("peek", "1", *end, "--limit", "0")["received_s"] is None
        text = command("peek", "1", *end, json=False)["text"]
        assert f"from cursor {stored[-1] + 1}, the end: no log was received then or later" in text
    for outside in (stored[0] - 1, stored[-1] + 2):
        refused = command("peek", "1", "--cursor", str(outside))
        assert refused["code"] == EXIT_USAGE and "is not in the shard" in refused["error"]
    for when, place in ((str(HOUR0_S + 61), 5), ("begin", 0), (str(HOUR0_S + 7200), 10)):
        assert command("peek", "1", "--limit", "0", "--at", when)["cursor"] == stored[place]
    assert command("peek", "1", "--at", "end")["cursor"] == stored[-1] + 1
    assert "no shard 9" in command("peek", "9", "--at", "begin")["error"]
    assert command("peek", "1", "--at", "soon")["code"] == EXIT_USAGE
    assert "--at, or a cursor" in command("peek", "1", "--at", "end", "--cursor", "1")["error"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--to", REPORT), "--from"),
        (("--from", "latest"), "--to"),
        (("--from", "noon", "--to", REPORT), "is no time"),
        (("--from", "latest", "--to", "earliest"), "no place of positions is called 'earliest'"),
        (("--from", "latest", "--to", "table", "--drop"), "--drop is for a file and a database"),
        (("--from", "shift:-1h", "--to", "csv:x"), "nowhere yet"),
        (("--from", "latest", "--to", "ledger"), "--to table moves the table"),
        (("--from", "file:none.json", "--to", "file:b.json", "--drop"), "keeps no position"),
        (("--from", "latest", "--to", REPORT, "--shards", "9"), "no shard 9"),
    ],
)
def test_a_copy_that_cannot_be_is_refused_before_it(
    filled: World, command: Command, words: tuple[str, ...], says: str
) -> None:
    refused = command("checkpoints", "set", *words, "--execute")
    assert refused["code"] == EXIT_USAGE and says in refused["error"]
    with SlsClient(filled.logstore.service) as client:
        assert client.groups()[0].name == OTHER
    assert filled.checkpoints(OTHER) == {0: None, 1: None}


# --- logs


def test_a_few_logs_are_shown_as_the_table_would_show_them(
    filled: World, command: Command, tmp_path: Path
) -> None:
    stored = cursors_of(filled, 1)
    truth = {place: pairs for place, pairs in filled.truth().items() if place[0] == 1}
    first = command("peek", "1", "--at", "begin", "--limit", "7")["logs"]
    assert [(row["cursor"], row["index"]) for row in first] == sorted(p[1:] for p in truth)[:7]
    for row in first:
        pairs = {k: v.decode() for k, v in truth[1, row["cursor"], row["index"]].items()}
        assert row["columns"] == {"n": int(pairs["n"]), "status": int(pairs["status"])}
        assert row["rest"] == {"path": pairs["path"]} and row["error"] is None and row["topic"] == "t"

    # The newest ones are eleven minutes old, so the last hour is looked at, and not the last minute.
    newest = command("peek", "1")["logs"]
    assert len(newest) == 10 and newest[0]["cursor"] == stored[10]
    assert command("peek", "1", "--at", str(HOUR0_S + 3600))["logs"][0]["cursor"] == stored[5]
    assert command("peek", "1", "--cursor", str(stored[14]))["logs"][-1]["cursor"] == stored[14]
    assert len(command("peek", "1", "--at", "begin", "--limit", "1000")["logs"]) == 75
    assert command("peek", "1", "--cursor", str(stored[-1] + 1))["logs"] == []
    text = command("peek", "1", "--at", "begin", json=False)["text"]
    assert "status=200" in text and "path=/p/" in text

    defs = tmp_path / "defs.yaml"
    defs.write_text(defs.read_text().replace("status: int", "status: hash, path: drop"))
    guarded = command("peek", "1", "--at", "begin")
    assert "/p/" not in json.dumps(guarded)
    assert {row["columns"]["status"] for row in guarded["logs"]} == {sha256(b"200").hexdigest()}


def test_a_value_cannot_paint_the_terminal(filled: World, command: Command) -> None:
    hostile = {"n": "1", "x": "[red]\x1b[2J\nfake line[/nope]"}
    with filled.client as client:
        client.put_raw(group([hostile]), key="8".ljust(32, "0"))
    text = command("peek", "1", json=False)["text"]
    assert "\x1b" not in text and "[red] [2J fake line[/nope]" in text
    assert command("peek", "1", "--limit", "1")["logs"][0]["rest"] == {"x": hostile["x"]}


def test_a_watch_asks_again_also_after_the_service_was_away(filled: World, tmp_path: Path) -> None:
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(filled).replace("tries_max: 4", "tries_max: 1"))
    words = ("checkpoints", "show", REPORT, "--watch", "0.1", "--logstore", str(defs))
    code = "import sys; from pipelines.cli.main import main; main(sys.argv[1:])"
    watch = subprocess.Popen(
        [sys.executable, "-u", "-c", code, *words],
        env=environment(filled, tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watch.stdout is not None

    def until(words: str) -> None:
        assert watch.stdout is not None
        assert any(words in line for line in watch.stdout), f"it ended before it said {words!r}"

    try:
        until("the slowest is shard 0")
        fault = filled.emulator.admin.fault("error", call="get_checkpoints", times=None, status=503)
        until("could not be asked")
        filled.emulator.admin.remove(fault)
        with filled.client as client:
            ends = {s.id: client.cursor_at(s.id, "end") for s in client.shards()}
        force(filled, ends)
        until("nothing waits")
        watch.send_signal(signal.SIGINT)
        watch.stdout.read()
        assert watch.wait(30) == EXIT_INTERRUPTED
    finally:
        watch.kill()
        watch.stdout.close()
        watch.wait()


def test_a_shard_is_split_where_it_is_said_and_merged_again(filled: World, command: Command) -> None:
    before = by_shard(command("shards", "list"))
    dry = command("shards", "split", "0", "--at", "2")
    begin, end = before[0]["keys"].split("..")
    into = [f"{begin}..2{'0' * 31}", f"2{'0' * 31}..{end}"]
    assert (dry["executed"], dry["new"], dry["into"]) == (False, None, into)
    assert by_shard(command("shards", "list")) == before
    new = command("shards", "split", "0", "--at", "2", "--execute")["new"]
    rows = by_shard(command("shards", "list"))
    assert rows[0]["status"] == "readonly" and rows[0]["children"] == new
    assert [rows[n]["keys"] for n in new] == into
    middle = command("shards", "split", "1", "--execute")
    halves = [
        [int(key, 16) for key in rows_of["keys"].split("..")] for rows_of in _of(command, middle["new"])
    ]
    assert abs((halves[0][1] - halves[0][0]) - (halves[1][1] - halves[1][0])) <= 1
    assert command("shards", "merge", str(new[0]))["with"] == new[1]
    (merged,) = command("shards", "merge", str(new[0]), "--execute")["new"]
    (row,) = _of(command, [merged])
    assert (row["keys"], row["parents"]) == (before[0]["keys"], new)


def _of(command: Command, shards: list[int]) -> list[dict[str, Any]]:
    rows = by_shard(command("shards", "list"))
    return [rows[shard] for shard in shards]


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("split", "7"), "no open shard 7; open are 0, 1"),
        (("split", "0", "--at", "xyz"), "a key is up to 32 hex digits"),
        (("split", "0", "--at", "f"), "split it inside"),
        (("split", "0", "--at", "0"), "split it inside"),
        (("merge", "1"), "the last one by its keys: name its left neighbour"),
    ],
)
def test_a_change_of_shards_that_cannot_be_is_refused_before_it(
    filled: World, command: Command, words: tuple[str, ...], cure: str
) -> None:
    before = command("shards", "list")
    refused = command("shards", *words, "--execute")
    assert refused["code"] == EXIT_USAGE and cure in refused["error"]
    assert command("shards", "list") == before


def test_the_call_that_a_dry_run_prints_runs_as_it_stands(
    filled: World, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "marked.csv"
    words = copy_to(f"csv:{out}", "earliest")
    command("groups", "set", OTHER, "--execute")
    said = command(*words, json=False)["text"]
    call = said.partition("this does it:\n")[2].splitlines()[0]
    assert call.count("--logstore") == 1
    assert command(*shlex.split(call)[1:])["code"] == 0
    out.write_bytes(b"\xef\xbb\xbf" + out.read_bytes())
    again = command(*copy_to(REPORT, f"csv:{out}"))
    assert again["code"] == 0, "a spreadsheet program's mark"
    refused = command(*copy_to(REPORT, REPORT))
    assert refused["code"] == EXIT_USAGE and "name another group" in refused["error"]
    refused = command("peek", "0", "--cursor", str(2**63))
    assert refused["code"] == EXIT_USAGE and "a number below" in refused["error"]
