"""A person settles a table: each error that names a verb is cured by that verb, and landings go on.

The verbs run as the command line runs them, on the settings file of the world.
"""

from pathlib import Path

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.commit.planned import execute
from pipelines.landing.inspection.describe import lacking_hours
from pipelines.landing.ledger.codec import TAG, WINDOWS_KEY
from pipelines.landing.ledger.state import ancestry, facts, read_state
from pipelines.landing.ledger.summary import total_records
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.table.contract import Contract
from sls_io.values.cures import Do
from sls_io.values.errors import Breach, LedgerBroken
from tests.worlds.changed_table import append_by_hand, compact, damage, invent, roll_back
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World
from tests.worlds.printed_cures import named
from tests.worlds.two_hours import refused, snapshots, started
from tests.worlds.two_logstores import second_logstore

__all__ = ["started"]


def refused_for_strangers(world: World) -> list[str]:
    """A landing is refused for rows of unknown origin, and names who looks: one verb takes them out, the
    other keeps them. The arguments of the latter, without its options."""
    newest = facts(world.table).tagged
    with pytest.raises(LedgerBroken) as raised:
        world.land()
    assert ([cure[0] for cure in raised.value.cures], raised.value.kind) == ([("verify",)], Breach.FOREIGN)
    back, *_, keeps = named(world.proof().cures).splitlines()
    assert back.startswith(f"sls-lake table rollback {newest}   # takes out what nothing explains")
    assert keeps.startswith("sls-lake table adopt") and "adopted" in keeps
    return ["table", "adopt"]


def test_a_table_rolled_back_by_hand_lands_on_after_the_verb_that_the_error_names(
    started: World, command: Command
) -> None:
    roll_back(started)
    verb = refused(started)
    main = started.table.metadata.current_snapshot_id

    dry = command(*verb)

    assert dry["code"] == 0 and not dry["executed"]
    assert started.table.metadata.current_snapshot_id == main, "a dry run changes nothing"
    assert dry["rows_leaving"] == 0 and dry["hours"] == [HOUR0 + 1]
    assert sum(s["rows"] - s["rows_then"] for s in dry["shards"]) == 10
    assert refused(started) == verb

    done = command(*verb, "--execute")

    assert done["code"] == 0 and done["executed"]
    table = started.table
    head = table.current_snapshot()
    assert head is not None and head.snapshot_id == done["committed"]
    assert (head.parent_snapshot_id, total_records(head)) == (main, 10)
    assert len(started.table_rows()) == 10
    assert started.land().rows == 70, "what left the table is pulled again, with what is new"
    started.assert_sound()
    assert command("verify")["code"] == 0


def test_a_person_rolls_back_a_table_that_nobody_touched(started: World, command: Command) -> None:
    """The rows of the landings since leave, and come again."""
    _, wanted, _ = snapshots(started)
    checkpoints = started.checkpoints()

    dry = command("table", "rollback", str(wanted))

    assert (dry["rows"], dry["rows_then"], dry["rows_leaving"]) == (20, 10, 10)
    assert dry["hours"] == [HOUR0 + 1] and dry["files_leaving"] > 0
    assert len(started.table_rows()) == 20

    assert command("table", "rollback", str(wanted), "--execute")["code"] == 0

    assert len(started.table_rows()) == 10
    assert sum(e.rows for e in started.ledger.shards.values()) == 10
    assert started.checkpoints() == checkpoints, "a checkpoint is derived: the next landing decides"
    assert started.land().rows == 70
    started.assert_sound()


def test_back_to_the_first_start_everything_is_landed_again(started: World, command: Command) -> None:
    first, *_ = snapshots(started)

    assert command("table", "rollback", str(first), "--execute")["code"] == 0

    assert started.table_rows() == []
    assert started.land().rows == 80
    started.assert_sound()


def test_a_rollback_by_hand_can_be_taken_back(started: World, command: Command) -> None:
    """The newest landing's own snapshot brings its rows and ledger on top of main again."""
    newest = snapshots(started)[-1]
    roll_back(started)

    dry = command("table", "rollback", str(newest))
    assert (dry["rows_returning"], dry["rows_leaving"], dry["hours"]) == (10, 0, [])
    assert command("table", "rollback", str(newest), "--execute")["code"] == 0

    assert len(started.table_rows()) == 20
    assert started.land().rows == 60
    started.assert_sound()


def test_rows_written_by_hand_after_a_rollback_by_hand_leave_with_the_verb(
    started: World, command: Command
) -> None:
    """Main's head is no landing then: the error names the landing below it."""
    roll_back(started)
    append_by_hand(started)
    head = started.table.metadata.current_snapshot_id

    verb = refused(started)

    assert verb[-1] != str(head)
    not_one = command("table", "rollback", str(head), "--execute")
    assert not_one["code"] == EXIT_USAGE and "no landing" in not_one["error"] and verb[-1] in not_one["error"]
    assert command(*verb)["rows_leaving"] == 1
    assert command(*verb, "--execute")["code"] == 0
    assert started.land().rows == 70
    started.assert_sound()


def test_a_rollback_past_a_compaction_and_back_again_loses_nothing(started: World, command: Command) -> None:
    """Old files come back as they were; the compacted ones leave and return with a second rollback."""
    _, wanted, newest = snapshots(started)
    compact(started)

    assert command("table", "rollback", str(wanted), "--execute")["code"] == 0
    assert len(started.table_rows()) == 10
    assert command("table", "rollback", str(newest), "--execute")["code"] == 0
    assert len(started.table_rows()) == 20

    assert started.land().rows == 60
    started.assert_sound()


def test_expired_history_that_left_with_a_rollback_becomes_a_named_gap(
    started: World, command: Command
) -> None:
    first, *_ = snapshots(started)
    assert command("table", "rollback", str(first), "--execute")["code"] == 0
    started.emulator.admin.advance(40 * 86400)
    started.put(10, pass_s=120)

    report = started.land()

    assert report.rows == 10
    assert any("expired" in gap for gap in report.gaps)
    started.assert_proved()


def test_a_shard_that_appeared_since_keeps_its_start(started: World, command: Command) -> None:
    """Its parent opens again, its own history does not begin anew wherever retention happens to be."""
    wanted = snapshots(started)[-1]
    with started.client as client:
        client.transport.split_shard(PROJECT, "access_logs", 0, "40000000000000000000000000000000")
    started.land_more(20, pass_s=120)
    started.emulator.admin.advance(120)
    started.land()
    before = started.ledger
    children = set(before.shards) - {0, 1}
    assert children and before.shards[0].closed

    assert command("table", "rollback", str(wanted), "--execute")["code"] == 0

    after = started.ledger
    assert not after.shards[0].closed
    for child in children:
        assert (after.shards[child].start, after.shards[child].rows) == (before.shards[child].start, 0)
    started.land()
    started.emulator.admin.advance(120)
    started.land()
    started.assert_sound()


def test_the_other_logstore_of_the_table_goes_back_too_and_keeps_its_start(
    started: World, command: Command
) -> None:
    """One table has one history: a logstore that began since is as it began."""
    wanted = snapshots(started)[-1]
    other = second_logstore(started)
    assert started.land(logstore=other).rows == 25
    started.land()

    dry = command("table", "rollback", str(wanted), "--execute")

    assert len({s["origin"] for s in dry["shards"]}) == 2
    assert len(started.table_rows()) == 20
    assert started.land().rows == 60
    assert started.land(logstore=other).rows == 25
    started.assert_proved()
    World(started.emulator, started.lake, other, started.engine).assert_proved()


def test_what_cannot_be_proven_is_not_rolled_back(started: World, command: Command) -> None:
    """An unknown snapshot, the present one, one whose files are gone: each says so and changes nothing."""
    _, wanted, newest = snapshots(started)
    unknown = command("table", "rollback", "12345", "--execute")
    assert unknown["code"] == EXIT_USAGE and "sls-lake landings show" in unknown["error"]
    same = command("table", "rollback", str(newest), "--execute")
    assert same["code"] == EXIT_USAGE and "nothing to roll back" in same["error"]
    for path in started.published():
        Path(path).unlink()
    gone = command("table", "rollback", str(wanted), "--execute")
    assert gone["code"] == EXIT_FAILED and "files are gone" in gone["error"]
    assert started.table.metadata.current_snapshot_id == newest
    assert read_state(started.table).tagged == newest


# --- adopt ---------------------------------------------------------------------------------------


def test_rows_by_hand_beside_landed_ones_are_adopted_and_the_ledger_stays(
    started: World, command: Command
) -> None:
    before = started.ledger
    append_by_hand(started)

    verb = refused_for_strangers(started)
    dry = command(*verb)
    assert (dry["others"], dry["starts"], dry["asks"]) == (1, [], False) and len(dry["kept"]) == 1
    assert refused_for_strangers(started) == verb, "a dry run changes nothing"
    assert command(*verb, "--at", "rows")["code"] == EXIT_USAGE, "what the rows prove is not begun anew"

    assert command(*verb, "--execute")["code"] == 0

    assert started.ledger == before
    assert started.land().rows == 60
    assert read_state(started.table).adopted.others == 1, "a landing carries it on"
    assert len(started.table_rows()) == 81
    started.assert_proved()
    append_by_hand(started)
    assert refused_for_strangers(started) == verb, "the next rows that nobody brought are seen"
    assert command(*verb)["others"] == 2
    newest = facts(started.table).tagged
    leave = command("table", "rollback", str(newest))
    assert leave["rows_leaving"] == 1, "or they leave with a rollback to the newest landing"


def test_rows_without_a_ledger_are_adopted_where_a_person_says_that_shards_start(
    world: World, command: Command
) -> None:
    world.put(10, until_s=HOUR0_S + 120)
    world.lake.ensure(world.logstore.table, Contract.from_columns(world.logstore.columns))
    append_by_hand(world)
    verb = refused(world)
    assert verb == ["table", "adopt"]

    dry = command(*verb)
    assert (dry["code"], dry["asks"], dry["others"]) == (0, True, 1)
    asked = command(*verb, "--execute")
    assert asked["code"] == EXIT_USAGE and "--at" in asked["error"]
    assert world.table.metadata.refs.keys() == {"main"}

    assert command(*verb, "--at", "begin", "--execute")["code"] == 0

    assert world.land().rows == 10
    assert len(world.table_rows()) == 11
    world.assert_proved()


def test_a_logstore_that_began_since_keeps_its_start_also_where_the_tag_is_gone(started: World) -> None:
    target = snapshots(started)[-1]
    other = World(started.emulator, started.lake, second_logstore(started), started.engine)
    assert other.land().rows == 25
    began = {shard: entry.start for shard, entry in other.ledger.shards.items()}
    started.table.manage_snapshots().remove_tag(TAG).commit()

    execute(started.lake, plan_rollback(started.lake, started.logstore.table, target))

    assert {shard: entry.start for shard, entry in other.ledger.shards.items()} == began
    assert other.land().rows == 25


def test_a_tag_that_somebody_moved_back_is_moved_forward_and_no_row_is_called_foreign(
    started: World, command: Command
) -> None:
    *_, older, newest = snapshots(started)
    started.table.manage_snapshots().remove_tag(TAG).create_tag(older, TAG).commit()

    with pytest.raises(LedgerBroken, match=rf"tag {TAG} .*moved back.*{newest}") as behind:
        started.land()
    by_hand = f"ALTER TABLE lake.{started.logstore.table} REPLACE TAG `{TAG}` AS OF VERSION {newest} in Spark"
    assert behind.value.cures == (Do(by_hand),)
    assert command("verify")["cures"] == [{"do": by_hand}]
    assert command("table", "adopt", "--execute")["code"] == EXIT_FAILED

    started.table.manage_snapshots().remove_tag(TAG).create_tag(newest, TAG).commit()
    assert started.land().rows == 60
    started.assert_sound()


@pytest.mark.parametrize(("key", "text"), [("", "1;9;damaged"), ("", ""), (WINDOWS_KEY, "1;a;0:1:2")])
def test_a_damaged_ledger_gives_way_to_the_one_before_when_the_rows_prove_that(
    key: str, text: str, started: World, command: Command
) -> None:
    before = started.ledger
    damage(started, text, key)

    verb = refused(started)
    assert verb == ["table", "adopt"]
    assert command(*verb, "--execute")["code"] == 0

    assert started.ledger == before
    assert started.land().rows == 60
    started.assert_sound()


def test_a_ledger_of_a_later_release_is_not_touched(started: World, command: Command) -> None:
    damage(started, "9;from the future")
    head = started.table.metadata.current_snapshot_id

    for verb in (["adopt", "--at", "rows"], ["rollback", str(snapshots(started)[0])]):
        said = command("table", *verb, "--execute")
        assert said["code"] == EXIT_FAILED and "upgrade sls-lake" in said["error"]
    assert started.table.metadata.current_snapshot_id == head


def test_where_nothing_is_proven_the_ledger_begins_behind_the_rows(started: World, command: Command) -> None:
    """The landed history is adopted; no row is lost or doubled, and verify says what it cannot prove."""
    invent(started)
    kept = sorted(r["n"] for r in started.table_rows())
    verb = refused_for_strangers(started)
    assert command(*verb, "--at", "begin", "--execute")["code"] == EXIT_USAGE, "rows would land again"

    done = command(*verb, "--at", "rows", "--execute")

    assert done["code"] == 0 and sum(s["adopted"] for s in done["starts"]) == len(kept)
    assert started.land().rows == 60
    assert sorted(r["n"] for r in started.table_rows()) == sorted([*kept, *range(20, 80)])
    proof = started.proof()
    assert proof.ok and sum(s.rows_adopted for s in proof.shards) == len(kept) == 21


def test_a_backfill_brings_nothing_from_before_the_start_of_a_shard_with_adopted_rows(
    started: World, command: Command
) -> None:
    """Nobody knows which logs the adopted rows are: some would come twice."""
    invent(started)
    assert command("table", "adopt", "--at", "rows", "--execute")["code"] == 0
    adopted = len(started.table_rows())

    assert started.land(mode="fill", hours=(HOUR0, HOUR0 + 2)).rows == 60

    assert len(started.table_rows()) == adopted + 60
    with started.client as client:
        hours = range(HOUR0, HOUR0 + 2)
        assert not lacking_hours(started.logstore, started.lake, client, hours, HOUR0_S + 60 * 70)


def test_history_expired_between_main_and_the_newest_landing_is_settled_by_its_rows(
    started: World, command: Command
) -> None:
    """Nobody can prove by ancestry that the table was not rolled back; the rows can."""
    compact(started)
    compact(started)
    tagged = read_state(started.table).tagged
    assert tagged is not None
    between = [s.snapshot_id for s in ancestry(started.table)]
    between = between[1 : between.index(tagged)]
    assert between
    started.table.maintenance.expire_snapshots().by_ids(between).commit()

    verb = refused(started)
    assert verb == ["table", "adopt"]
    assert command(*verb, "--execute")["code"] == 0

    assert started.land().rows == 60
    started.assert_sound()


def test_a_logstore_made_again_gets_a_ledger_beside_the_old_one(started: World, command: Command) -> None:
    with started.client as client:
        client.transport.delete_logstore(PROJECT, "access_logs")
        started.emulator.admin.advance(60)
        client.transport.create_logstore(PROJECT, "access_logs", ttl=30, shard_count=2)
    verb = refused(started)
    assert command(*verb)["asks"] is True
    assert command(*verb, "--at", "begin", "--execute")["code"] == 0
    started.put(15, pass_s=120)

    assert started.land().rows == 15
    assert len(started.table_rows()) == 35, "the rows of the old logstore are history, and stay"
    assert len(read_state(started.table).ledgers) == 2
    started.assert_proved()


def test_single_shards_may_start_at_cursors(started: World, command: Command) -> None:
    with started.client as client:
        client.transport.delete_logstore(PROJECT, "access_logs")
        started.emulator.admin.advance(60)
        client.transport.create_logstore(PROJECT, "access_logs", ttl=30, shard_count=2)
        started.put(10, key="00".ljust(32, "0"))
        end = int(client.cursor_at(0, "end"))
    verb = ("table", "adopt", "--execute")
    for wrong, said in (
        ((*verb, "--start", "0=1"), "--at"),
        ((*verb, "--start", "7=1", "--at", "begin"), "no shard 7"),
        ((*verb, "--start", f"0={end + 1}", "--at", "begin"), "ends at"),
        ((*verb, "--start", "0"), "SHARD=CURSOR"),
        ((*verb, "--at", "noon"), "no hour"),
    ):
        refusal = command(*wrong)
        assert refusal["code"] == EXIT_USAGE and said in refusal["error"], (wrong, refusal)

    done = command(*verb, "--start", f"0={end}", "--at", "latest")

    assert {s["shard"]: s["start"] for s in done["starts"]}[0] == end
    assert started.land_more(5, key="00".ljust(32, "0"), pass_s=120).rows == 5


def test_nothing_is_adopted_where_there_is_nothing_to_settle(started: World, command: Command) -> None:
    fine = command("table", "adopt", "--at", "rows", "--execute")
    assert fine["code"] == EXIT_USAGE and "nothing to settle" in fine["error"]
    roll_back(started)
    rolled = command("table", "adopt", "--at", "rows", "--execute")
    assert rolled["code"] == EXIT_FAILED and "table rollback" in rolled["error"]
