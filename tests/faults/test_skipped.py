"""Live runs that go on from a later time, and the logs they owe."""

import dagster as dg
import pytest

from pipelines.cli.main import EXIT_OWED, EXIT_USAGE
from pipelines.components.logstore.checks import proven_result
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.runway import CURE, runway
from pipelines.landing.operations.seek import plan_seek
from pipelines.landing.table import commands
from pipelines.landing.watch.health import Level, TimeLeft, Vitals, Waits, findings
from pipelines.landing.watch.vitals import vitals
from sls_io.values.claim import GAP_SKIPPED
from sls_io.values.window import HOUR_S, cursor_to_wire
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import PROJECT, World


def skip(time: str, *more: str) -> tuple[str, ...]:
    """The call by which live runs go on from `time`."""
    return ("checkpoints", "set", "--from", time, "--to", "table", "--forward-only", *more)


@pytest.fixture
def world(started: World) -> World:
    """Two shards: 20 logs landed, 60 wait."""
    return started


def notes_of(world: World) -> list[str]:
    """What the proof says beside its verdict."""
    return [note for shard in world.proof().shards for note in (*shard.notes, *shard.owed)]


def test_what_was_skipped_is_owed_until_a_backfill_lands_it(world: World, command: Command) -> None:
    before = world.table.metadata.current_snapshot_id
    dry = command(*skip("latest"))
    assert dry["code"] == 0 and len(dry["owed"]) == 2 and dry["committed"] is None
    assert world.table.metadata.current_snapshot_id == before

    done = command(*skip("latest"), "--execute")
    assert done["committed"] == world.table.metadata.current_snapshot_id
    report = world.land_more(10)

    assert report.rows == 10 and len(report.readable) == 2
    assert all("skipped and is owed" in line for line in report.readable)
    proof = world.proof()
    assert all("is owed" in text for shard in proof.shards for text in shard.owed)
    assert [len(shard.owed) for shard in proof.shards] == [1, 1]
    assert all(GAP_SKIPPED in gap for shard in proof.shards for gap in shard.gaps)
    assert "owed" in command("land", "--dry-run", json=False)["text"]

    hours = world.hours
    filled = world.land(mode="fill", hours=(hours.start, hours.stop))
    assert filled.rows == 60 and world.land().readable == ()
    assert all(not entry.gaps for entry in world.ledger.shards.values())
    world.assert_each_log_once()
    world.assert_whole()


def test_logs_that_are_owed_have_a_word_and_an_exit_code_of_their_own_until_they_have_landed(
    world: World, command: Command
) -> None:
    command(*skip("latest"), "--execute")

    said, text = command("verify"), command("verify", json=False)
    assert (said["code"], said["verdict"], said["ok"]) == (EXIT_OWED, "owed", False)
    assert text["code"] == EXIT_OWED and "\nowed: 20 rows" in text["text"]
    assert "verified" not in text["text"]
    result = dg.AssetCheckResult(**proven_result(world.logstore, world.proof(), seconds=0.0))
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert (result.description or "").startswith("owed: shard 0: ")
    assert str(result.metadata["verdict"].value).startswith("- owed\n")

    hours = world.hours
    world.land(mode="fill", hours=(hours.start, hours.stop))
    landed = command("verify")
    assert (landed["code"], landed["verdict"], landed["ok"]) == (0, "verified", True)


def test_what_is_skipped_of_an_hour_with_removed_rows_is_owed(world: World, command: Command) -> None:
    """A backfill lands it: the rows that were removed have landed, and these never did."""
    assert command("table", "forget", "--where", "n = 3", "--execute")["code"] == 0
    command(*skip("latest"), "--execute")

    assert command("verify")["verdict"] == "owed"
    assert all(len(shard.owed) == 1 for shard in world.proof().shards)
    hours = world.hours
    assert world.land(mode="fill", hours=(hours.start, hours.stop)).rows == 60
    assert command("verify")["verdict"] == "verified"


def test_a_begin_that_is_told_wrong_takes_nothing_for_lost(world: World, command: Command) -> None:
    """What was skipped stays owed, and what waits is not said to be lost, as the next run says."""
    command(*skip("latest"), "--execute")
    world.put(20, pass_s=60)
    with world.client as client:
        ends = {shard.id: client.cursor_at(shard.id, "end") for shard in client.shards()}
    for shard, end in ends.items():
        world.fault(
            "answer",
            call="get_cursor",
            shard=shard,
            query={"from": "begin"},
            field="cursor",
            value=cursor_to_wire(end),
            times=None,
        )

    said = command("verify")

    assert said["verdict"] == "owed" and "it is lost" not in str(said)
    assert all("contradict each other" in shard["owed"][0] for shard in said["shards"])
    assert all("the frontier can be read" in str(shard["notes"]) for shard in said["shards"])
    world.emulator.admin.remove()
    assert world.land().rows == 20


def test_what_can_land_no_more_has_a_name_and_is_verified(world: World, command: Command) -> None:
    """Skipped and then lost to retention, or taken back by a person: nobody can, or is to, land it."""
    command(*skip("latest"), "--execute")
    world.emulator.admin.advance(40 * 24 * HOUR_S)
    lost = command("verify")
    assert (lost["code"], lost["verdict"]) == (0, "verified")
    assert "named above: 2 gaps" in command("verify", json=False)["text"]


def test_one_shard_goes_on_from_a_time_and_the_other_lands_all(world: World, command: Command) -> None:
    world.pass_by(HOUR_S)
    world.put(20, pass_s=120)
    at = int(world.emulator.admin.now()) // HOUR_S
    done = command(*skip(hour_text(at), "--shards", "1"), "--execute")
    assert [shard["shard"] for shard in done["owed"]] == [1]
    skipped = {i for i in world.truth() if i[0] == 1 and i[1] < int(done["owed"][0]["target"])}
    owed = skipped - set(world.identities())
    assert owed
    world.land()
    assert set(world.truth()) - set(world.identities()) == owed
    assert world.ledger.shards[1].reached_s >= at * HOUR_S


def test_a_shard_that_is_beyond_the_time_stays(world: World, command: Command) -> None:
    world.land()
    said = command(*skip("2026-01-01-00:00"), "--execute")
    assert (said["code"], said["committed"], said["owed"], said["again"]) == (0, None, [], None)
    with world.client as client:
        begins = {shard.id: client.cursor_at(shard.id, "begin") for shard in client.shards()}
        planned = plan_seek(world.lake, world.logstore, client, begins, forward_only=True)
    assert not planned.decided.needed, "also where a run has landed since the cursors were chosen"
    world.assert_next_lands(0)


def test_retention_takes_what_is_owed_and_it_stays_a_gap(world: World, command: Command) -> None:
    command(*skip("latest"), "--execute")
    day_s = 24 * HOUR_S
    world.emulator.admin.advance(29.5 * day_s)
    with world.client as client:
        warned = runway(world.logstore, world.lake, client)
    (found,) = findings(Vitals(runway=TimeLeft(warned)), world.logstore)
    assert found.level is Level.FAIL and warned.shortest_s is not None and warned.shortest_s < day_s
    assert CURE not in found.text and found.cures == (commands.OWED,)
    with world.client as client:
        waits = vitals(world.logstore, lambda: world.lake, lambda: client, whole=True).lag
    assert isinstance(waits, Waits) and waits.age_s == 0.0, "no run is late: none would land them"
    assert any("is owed" in note for note in notes_of(world))
    world.emulator.admin.advance(10.5 * day_s)
    assert sum("it is lost" in note for note in notes_of(world)) == 2, "one of each shard"
    report = world.land_more(10, pass_s=120)
    assert (report.rows, report.readable, report.gaps) == (10, (), ())
    assert {gap.cause for entry in world.ledger.shards.values() for gap in entry.gaps} == {GAP_SKIPPED}
    world.assert_proved()


def test_a_shard_that_was_skipped_to_its_end_is_closed_and_its_children_land(
    world: World, command: Command
) -> None:
    world.emulator.admin.split(PROJECT, world.logstore.service.logstore, 0)
    world.put(20, pass_s=120)
    command(*skip("latest", "--shards", "0"), "--execute")
    owed = len([i for i in world.truth() if i[0] == 0]) - sum(i[0] == 0 for i in world.identities())
    for _ in range(3):
        world.land()
        world.pass_by()
    assert world.ledger.shards[0].closed
    hours = world.hours
    assert world.land(mode="fill", hours=(hours.start, hours.stop)).rows == owed
    world.assert_each_log_once()


def test_a_run_beside_a_skip_plans_again(world: World, command: Command) -> None:
    def skipping(name: str) -> None:
        if name == "publish.built" and not world.reports[1:]:
            command(*skip("latest"), "--execute")

    report = world.land(on_event=skipping)
    assert report.rows == 0, "what it had written is owed now"
    hours = world.hours
    assert world.land(mode="fill", hours=(hours.start, hours.stop)).rows == 60
    world.assert_each_log_once()


@pytest.mark.parametrize("written", ["T{}:00:00", "T{}:00:00+00:00", "T{}:00", "-{}:00"])
def test_a_time_means_the_same_to_table_and_store(world: World, command: Command, written: str) -> None:
    world.pass_by(HOUR_S)
    world.put(20, pass_s=120)
    hour = int(world.emulator.admin.now()) // HOUR_S
    time = hour_text(hour)[:10] + written.format(hour_text(hour)[11:13])
    for target in ("table", "file:positions.json"):
        said = command("checkpoints", "set", "--from", time, "--to", target)
        assert said["code"] == 0
        assert [s["cursor"] for s in said["shards"]] == [
            world.client.cursor_at(s["shard"], hour * HOUR_S) for s in said["shards"]
        ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (skip("2099-01-01-00:00"), "that time is to come"),
        (skip("noon"), "is no time"),
        (skip("noon"), "or latest"),
        (skip("latest", "--shards", "9"), "lists no shard 9"),
    ],
)
def test_what_cannot_be_skipped_is_said(
    world: World, command: Command, arguments: tuple[str, ...], says: str
) -> None:
    said = command(*arguments, "--execute")
    assert said["code"] == EXIT_USAGE and says in said["error"]
