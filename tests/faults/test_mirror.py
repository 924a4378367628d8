"""The setting `mirror`: the table's positions kept a second time, and readers that go on from there."""

import fcntl
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pipelines.landing.coordinators import kept_in
from pipelines.landing.ledger.mirror import Mirrored, mirrored, standing
from pipelines.landing.ledger.state import read_state
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import CheckpointOutcome
from pipelines.landing.table import commands
from pipelines.landing.watch.health import Finding, Kind, Level, findings
from pipelines.landing.watch.vitals import vitals
from sls_io.values.cures import Call
from sls_io.values.settings import Group
from sls_io.values.window import Cursor
from tests.contract import vendor_consumer
from tests.contract.teller import Teller
from tests.worlds.command_line import Command, settings
from tests.worlds.one_logstore import PROJECT, World, group
from tests.worlds.other_region import relabel

COPY = "positions"
"""A group that feeds no table."""
PLACES = ("file:{folder}/positions.json", "sql:sqlite:///{folder}/positions.db", f"group:{COPY}")


@pytest.fixture
def world(calm: World) -> World:
    """20 logs, some minutes old; nothing has landed."""
    with calm.client as client:
        client.create_group(Group(name=COPY, timeout_s=30, heartbeat_s=5))
    calm.put(20, pass_s=300)
    return calm


def with_mirror(world: World, where: str) -> None:
    """The world's logstore has this mirror from now on."""
    world.logstore = world.changed(mirror=where)


def landed(world: World, rows: int) -> Mirrored:
    """A live run that lands so many rows and publishes each checkpoint; where its mirror stands then."""
    with world.run() as run:
        assert run.land().rows == rows and run.reconcile().ok
        assert {p.outcome for p in run.checkpoint()} <= {CheckpointOutcome.MOVED, CheckpointOutcome.UNCHANGED}
        assert run.mirrored is not None
        return run.mirrored


def positions(logstore: Logstore, world: World) -> Mapping[int, Cursor | None]:
    """What the mirror keeps."""
    with world.client as client:
        kept = kept_in(logstore.mirror, logstore, client).read()
        return {shard: entry.cursor for shard, entry in kept.items()}


def frontiers(world: World) -> dict[int, Cursor]:
    """Where the table is."""
    return {shard: entry.frontier for shard, entry in world.ledger.shards.items()}


def finding(world: World) -> Finding:
    """What a look says of the mirror."""
    with world.client as client:
        found = findings(vitals(world.logstore, lambda: world.lake, lambda: client), world.logstore)
    return next(each for each in found if each.kind is Kind.MIRROR)


@pytest.mark.parametrize("place", PLACES, ids=["file", "database", "group"])
def test_each_live_run_leaves_its_mirror_where_the_table_is(world: World, tmp_path: Path, place: str) -> None:
    with_mirror(world, place.format(folder=tmp_path))
    assert finding(world).level is Level.OK, "before the first landing"
    for rows in (20, 10, 0):
        world.put(rows if rows == 10 else 0, pass_s=60)
        done = landed(world, rows)
        assert (done.shards, done.behind, done.lag_s, done.raw_bytes, done.trouble) == (2, 0, 0.0, 0, "")
        assert done.moved == (0 if not rows else 2)
        assert positions(world.logstore, world) == frontiers(world)
        world.pass_by()
    assert finding(world).level is Level.OK and "2 of 2 shards are where the table is" in finding(world).text
    world.assert_whole()


@pytest.mark.parametrize("place", PLACES[:2], ids=["file", "database"])
def test_a_label_that_was_put_right_changes_nothing_for_the_mirror(
    world: World, command: Command, tmp_path: Path, place: str
) -> None:
    """What a mirror has is the table's, whatever the logstore's region was called when it was made."""
    with_mirror(world, where := place.format(folder=tmp_path))
    landed(world, 20)
    kept = relabel(world)
    (tmp_path / "defs.yaml").write_text(settings(world))
    shown = command("checkpoints", "show", where)
    assert {one["shard"] for one in shown["places"][0]["shards"]} == {0, 1}, shown["error"]

    world.put(20, pass_s=60)
    done = landed(world, 20)

    assert (done.shards, done.moved, done.behind, done.trouble) == (2, 2, 0, "")
    frontiers = {s: entry.frontier for s, entry in read_state(world.table).ledger(kept).shards.items()}
    shown = command("checkpoints", "show", where)
    assert {one["shard"]: one["checkpoint"] for one in shown["places"][0]["shards"]} == frontiers


@pytest.mark.parametrize("place", PLACES[:2], ids=["file", "database"])
def test_what_is_further_or_was_put_there_by_a_person_stays_and_is_told_until_the_cure_is_run(
    world: World, command: Command, tmp_path: Path, place: str
) -> None:
    with_mirror(world, where := place.format(folder=tmp_path))
    (tmp_path / "defs.yaml").write_text(f"{settings(world)}  mirror: {where}\n")
    landed(world, 20)
    before = frontiers(world)
    with world.client as client:
        store = kept_in(world.logstore.mirror, world.logstore, client)
        store.place({0: before[0]})
        store.write({1: Cursor(before[1] + 1000)})
    world.put(20, pass_s=600)
    world.pass_by()
    done = landed(world, 20)
    assert (done.behind, done.ahead, done.frozen, done.moved) == (1, 1, 1, 0) and done.lag_s >= 540
    assert done.trouble == "shard 0: a person put it elsewhere, and no run moves it on"
    assert positions(world.logstore, world) == {0: before[0], 1: before[1] + 1000}
    found = finding(world)
    assert found.level is Level.WARN and found.numbers["mirror lag s"] == done.lag_s
    assert (found.numbers["shards behind"], found.numbers["shards ahead"]) == (1, 1)
    assert world.checkpoints() == frontiers(world)

    (cure,) = found.cures
    assert isinstance(cure, Call) and not cure.harmless
    assert command(*cure.words)["code"] == 0 and positions(world.logstore, world)[0] == before[0]
    said = command(*cure.words, "--execute", json=False)
    assert said["code"] == 0 and "each live run moves it on from there" in said["text"]

    assert positions(world.logstore, world) == frontiers(world)
    world.put(20, pass_s=60)
    assert landed(world, 20).moved == 2 and positions(world.logstore, world) == frontiers(world)
    assert finding(world).level is Level.OK


def test_a_mirror_that_is_further_than_the_table_alone_is_told(world: World, tmp_path: Path) -> None:
    with_mirror(world, f"file:{tmp_path}/positions.json")
    landed(world, 20)
    with world.client as client:
        store = kept_in(world.logstore.mirror, world.logstore, client)
        store.write({1: Cursor(frontiers(world)[1] + 1000)})

    found = finding(world)

    assert found.level is Level.WARN and found.cures == (commands.put_into(world.logstore.mirror),)
    assert "1 of 2 shards are where the table is; 1 further: who begins there skips logs" in found.text


def test_a_group_that_was_deleted_is_made_again_by_what_is_printed(
    world: World, command: Command, tmp_path: Path
) -> None:
    with_mirror(world, PLACES[2])
    (tmp_path / "defs.yaml").write_text(f"{settings(world)}  mirror: {PLACES[2]}\n")
    landed(world, 20)
    name = PLACES[2].partition(":")[2]
    assert command("groups", "delete", name, "--execute")["code"] == 0

    found = finding(world)

    assert found.level is Level.WARN and found.cures == (commands.made_group(name),)
    assert command(*commands.made_group(name).words, "--execute")["code"] == 0
    world.put(20, pass_s=60)
    assert landed(world, 20).moved == 2 and positions(world.logstore, world) == frontiers(world)


def test_a_mirror_that_cannot_be_written_costs_no_landing_and_is_a_finding(
    world: World, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "folder").mkdir()
    rows = 20
    for where, why in (
        (f"file:{tmp_path}/folder", "is no file"),
        ("sql:env:NOT_SET", "NOT_SET is not set"),
        ("group:nobody", "ConsumerGroupNotExist"),
    ):
        with_mirror(world, where)
        assert why in landed(world, rows).trouble
        found = finding(world)
        assert found.level is Level.WARN and why in found.text and len(found.cures) == 1
        rows = 5
        world.put(5, pass_s=60)
        world.pass_by()
    world.logstore = world.changed(mirror="")
    world.land()
    world.assert_whole()

    defs = tmp_path / "defs.yaml"
    defs.write_text(defs.read_text() + "  mirror: group:nobody\n")
    health = {each["kind"]: each for each in command("describe")["health"]}
    assert health["mirror"]["level"] == "warn" and "ConsumerGroupNotExist" in health["mirror"]["text"]
    assert "mirror" in command("describe", json=False)["text"]


def test_a_group_that_is_read_keeps_its_place_and_the_rest_is_copied(world: World) -> None:
    with_mirror(world, f"group:{COPY}")
    with world.client as client:
        client.heartbeat(COPY, "somebody", ())
        assert client.heartbeat(COPY, "somebody", ())
        done = landed(world, 20)
    assert done.moved == 0 and "'somebody' reads it" in done.trouble
    world.pass_by(60)
    assert landed(world, 0).moved == 2
    assert positions(world.logstore, world) == frontiers(world)

    world.put(20)
    with world.client as client:
        client.heartbeat(COPY, "somebody", ())
        held = client.heartbeat(COPY, "somebody", ())
        for shard in client.shards():
            if shard.id in held:
                client.save_checkpoint(COPY, "somebody", shard.id, client.head(shard).end)
        assert any((at or 0) > frontiers(world)[shard] for shard, at in world.checkpoints(COPY).items())
        assert standing(world.logstore, world.lake, client).ahead == 0, "it has read what it is further by"


def test_a_mirror_that_does_not_answer_is_waited_for_only_so_long(world: World, tmp_path: Path) -> None:
    with_mirror(world, f"file:{tmp_path}/positions.json")
    world.land()
    lock = os.open(tmp_path / "positions.json.lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        world.put(5, pass_s=60)
        (tmp_path / "positions.json").unlink()
        os.truncate(tmp_path / "positions.json.lock", 0)
        done = mirrored(world.logstore, world.lake, wait_s=0.2)
    finally:
        os.close(lock)
    assert done is not None and done.trouble == "no answer within 0.2 s"
    with world.client as client:
        # What was waited for may have been done since.
        assert standing(world.logstore, world.lake, client, write=True).behind == 0
    assert positions(world.logstore, world) == frontiers(world)


@pytest.fixture
def consumers() -> Iterator[list[Teller]]:
    """Programs that end with the test."""
    started: list[Teller] = []
    yield started
    for each in started:
        each.kill()


def test_after_a_lost_group_the_vendors_consumer_goes_on_from_the_mirror_and_runs_from_the_table(
    world: World, tmp_path: Path, command: Command, consumers: list[Teller]
) -> None:
    where = f"file:{tmp_path}/positions.json"
    with_mirror(world, where)
    landed(world, 20)
    with world.client as client:
        client.delete_group(world.logstore.group.name)
        for n in range(100, 110):
            key = f"{(n % 2) * 8:x}".ljust(32, "0")
            client.put_raw(group([{"key": key, "n": str(n), "status": "200"}]), key=key)
        done = command("checkpoints", "set", "--to", "group:theirs", "--from", where, "--execute")
        assert done["code"] == 0, done["error"]
        assert {s["shard"]: s["cursor"] for s in done["shards"]} == frontiers(world)
        kept = {shard: entry.cursor for shard, entry in client.checkpoints("theirs").items()}
        assert kept == frontiers(world)
    service = world.logstore.service.logstore
    program = [sys.executable, "-m", vendor_consumer.__name__, PROJECT, service, "theirs", "c", "0", "begin"]
    variables = {**os.environ, "http_proxy": world.emulator.endpoint, "no_proxy": ""}
    consumers.append(Teller(program, variables, threading.Condition()))
    consumers[0].wait(lambda: len(consumers[0].seen) >= 10)
    consumers[0].leave()
    assert sorted(n for _, _, n in consumers[0].seen) == [*range(100, 110)], "each once, and none of before"

    # The group that feeds the table is made anew by the next run, which goes by the table.
    world.emulator.admin.advance(60)
    assert landed(world, 10).behind == 0
    assert positions(world.logstore, world) == frontiers(world) == world.checkpoints()
    world.assert_each_log_once()


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("positions.json", "one of file:/PATH, sql:ADDRESS"),
        ("file:positions.json", "from the root on"),
        ("sql:postgresql://me:secret@host/db", "has a password in it"),
        ("sql:sqlite:///positions.db", "from the root on"),
        ("group:lake", "the group of the table itself"),
        ("csv:/tmp/x.csv", "one of file:/PATH"),
        ("group:a b", "letters"),
    ],
)
def test_a_mirror_that_can_be_none_is_refused_with_the_settings(calm: World, where: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        calm.changed(mirror=where)
    assert "secret" not in str(refused.value).partition("[type=")[0]
