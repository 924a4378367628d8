"""Rows are removed for good by a decision: they are counted, nothing brings them back, verify says why."""

import hashlib
import io
import re
from pathlib import Path

import pytest
from pyiceberg.expressions import AlwaysTrue

from pipelines.cli.deciding import show_effect
from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.cli.output import Output
from pipelines.cli.verify import show
from pipelines.landing.commit.planned import execute
from pipelines.landing.inspection.describe import lacking_hours
from pipelines.landing.inspection.verify import verify
from pipelines.landing.ledger.codec import TAG, VERB_KEY
from pipelines.landing.ledger.newest_landing import reconcile
from pipelines.landing.ledger.state import read_state
from pipelines.landing.ledger.summary import summary_of, total_records
from pipelines.landing.operations.forget import (
    plan_forget_before,
    plan_forget_where,
)
from pipelines.landing.operations.replace import plan_replace
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.undo import plan_undo
from sls_io.values.errors import ConfigError, LandingConflict
from tests.worlds.changed_table import append_by_hand, invent, roll_back
from tests.worlds.command_line import Command
from tests.worlds.landed_hours import numbers
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World, group
from tests.worlds.removed_rows import WHERE, carry_out, left_over, removal
from tests.worlds.three_hours import HOUR, NEXT, fill, hours_in_table, started
from tests.worlds.two_hours import snapshots
from tests.worlds.two_runs import At

__all__ = ["started"]


def test_what_a_filter_takes_leaves_and_verify_says_that_it_was_decided(
    started: World, command: Command
) -> None:
    before = started.ledger
    verb = ("table", "forget", "--where", WHERE, "--reason", "request 17 of the registry")

    dry = command(*verb)

    assert (dry["code"], dry["executed"], dry["rows"]) == (0, False, 4)
    assert dry["hours"] == {str(HOUR0): 2, str(HOUR0 + 1): 2}
    assert dry["files"] >= dry["rewritten"] > 0
    assert numbers(started) == list(range(30)), "a dry run changes nothing"

    done = command(*verb, "--execute")

    assert done["code"] == 0 and numbers(started) == left_over(30)
    table = started.table
    summary = summary_of(table.current_snapshot())
    assert summary[VERB_KEY] == "forget --where on n: request 17 of the registry"
    assert not any("12" in value for name, value in summary.items() if name == VERB_KEY)
    assert total_records(table.current_snapshot()) == 26 and reconcile(table) == []
    after = started.ledger
    for shard, entry in before.shards.items():
        assert after.shards[shard].landed == entry.landed
    assert sum(e.rows for e in before.shards.values()) - sum(e.rows for e in after.shards.values()) == 4
    assert started.land().rows == 60
    assert fill(started, HOUR0) == fill(started) == 0, "no backfill brings them back"
    assert numbers(started) == left_over(90)
    proof = command("verify")
    assert proof["code"] == 0
    assert sum(s["rows_forgotten"] for s in proof["shards"]) == 4
    notes = [note for s in proof["shards"] for note in s["notes"]]
    assert any("removed by decision" in note for note in notes)
    again = command(*verb, "--execute")
    assert again["code"] == EXIT_USAGE and "nothing to do" in again["error"]


def test_hours_before_one_leave_with_their_files(started: World, command: Command) -> None:
    done = command("table", "forget", "--before", NEXT, "--reason", "kept 30 days", "--execute")

    assert (done["code"], done["rows"], done["rewritten"]) == (0, 10, 0)
    assert done["what"] == f"forget --before {NEXT}: kept 30 days"
    assert hours_in_table(started) == [1, 2]
    assert fill(started, HOUR0) == 0
    started.land()
    started.assert_proved()
    assert numbers(started) == list(range(10, 90))
    assert command("table", "forget", "--before", NEXT)["code"] == EXIT_USAGE
    more = command("table", "forget", "--before", "2026-09-21-16:00", "--execute")
    assert more["rows"] == 10
    forgotten = read_state(started.table).forgotten
    (origin,) = read_state(started.table).ledgers
    assert forgotten.before(origin) == HOUR0 + 2
    assert forgotten.hours(origin).pairs == ((0, HOUR0 + 2),)
    early = command("table", "forget", "--before", "2026-09-21-20:00", "--execute")
    assert early["code"] == EXIT_USAGE and "land once they are over" in early["error"]


def test_hours_before_one_are_forgotten_also_where_they_are_withdrawn(
    started: World, command: Command
) -> None:
    assert command("table", "undo", "--hour", f"{HOUR}..{NEXT}", "--execute")["rows"] == 20

    done = command("table", "forget", "--before", NEXT, "--execute")

    assert (done["code"], done["rows"], done["files"], done["before"]) == (0, 0, 0, HOUR0 + 1)
    assert reconcile(started.table) == []
    started.assert_proved()
    assert fill(started, HOUR0) == 0, "a backfill that names it does not bring it back"
    with started.client as client:
        assert lacking_hours(
            started.logstore, started.lake, client, range(HOUR0, HOUR0 + 2), HOUR0_S + 7200
        ) == {HOUR0 + 1}
    assert fill(started) == 10, "nor are the hours after it bound"
    assert hours_in_table(started) == [1, 2]
    with started.client as client, pytest.raises(ConfigError, match="table forget"):
        plan_replace(started.lake, started.logstore, client, range(HOUR0, HOUR0 + 1))
    again = command("table", "forget", "--before", NEXT, "--execute")
    assert again["code"] == EXIT_USAGE and "nothing to do" in again["error"]
    notes = [n for s in command("verify")["shards"] for n in s["notes"]]
    assert set(notes) == {f"0 rows of all hours before {NEXT} were removed by decision"}


def test_a_backfill_that_is_on_its_way_lands_nothing_of_hours_that_are_forgotten(
    started: World, command: Command
) -> None:
    command("table", "undo", "--hour", f"{HOUR}..{NEXT}", "--execute")

    def decide() -> None:
        assert command("table", "forget", "--before", NEXT, "--execute")["code"] == 0

    report = started.land(mode="fill", hours=(HOUR0, HOUR0 + 2), on_event=At("publish", decide))

    assert (report.rows, report.replans) == (10, 1)
    assert hours_in_table(started) == [1, 2]
    started.assert_proved()


def test_a_ledger_that_begins_anew_begins_after_what_was_removed(started: World, command: Command) -> None:
    assert command("table", "forget", "--before", NEXT, "--execute")["code"] == 0
    started.table.delete(AlwaysTrue())
    started.table.manage_snapshots().remove_tag(TAG).commit()
    with started.client as client:
        begin = client.cursor_at(0, "begin")
    verb = ("table", "adopt", "--at", "begin", "--without-missing", "--execute")

    low = command(*verb, "--start", f"0={begin}")

    assert low["code"] == EXIT_USAGE and "rows were removed by `table forget`" in low["error"]
    assert command(*verb)["executed"]
    started.land()
    assert hours_in_table(started) == [1, 2]
    started.assert_proved()


def test_rows_that_land_in_the_hours_before_the_commit_stop_it(started: World, command: Command) -> None:
    command("table", "undo", "--hour", HOUR, "--execute")
    planned = started.asked(plan_forget_before, HOUR0 + 2)
    assert planned.view.rows == 10
    assert fill(started, HOUR0) == 10
    with pytest.raises(LandingConflict):
        carry_out(started, planned)
    assert hours_in_table(started) == [0, 1, 2]


def test_nothing_brings_back_what_was_removed(started: World, command: Command) -> None:
    older = snapshots(started)[-1]
    carry_out(started, removal(started))
    newest = snapshots(started)[-1]

    back = command("table", "rollback", str(older), "--execute")
    assert back["code"] == EXIT_USAGE and "table forget" in back["error"]
    assert command("table", "undo", "--hour", NEXT, "--execute")["code"] == EXIT_USAGE
    with started.client as client, pytest.raises(ConfigError, match="table forget"):
        plan_replace(started.lake, started.logstore, client, range(HOUR0 + 1, HOUR0 + 2))

    roll_back(started)
    assert command("table", "rollback", str(older), "--execute")["code"] == EXIT_USAGE
    execute(started.lake, plan_rollback(started.lake, started.logstore.table, newest))
    assert numbers(started) == left_over(30)
    started.table.manage_snapshots().remove_tag(TAG).commit()
    assert command("table", "rollback", str(older), "--execute")["code"] == EXIT_USAGE
    assert command("table", "adopt", "--execute")["code"] == 0
    started.land()
    assert numbers(started) == left_over(90)
    proof = started.proof()
    assert proof.ok and sum(s.rows_forgotten for s in proof.shards) == 4


def test_rows_of_a_logstore_before_it_was_made_again_are_named_and_can_be_removed(
    started: World, command: Command
) -> None:
    (old,) = read_state(started.table).ledgers
    with started.client as client:
        client.transport.delete_logstore(PROJECT, "access_logs")
        started.emulator.admin.advance(60)
        client.transport.create_logstore(PROJECT, "access_logs", ttl=30, shard_count=2)
    text = read_state(started.table).origins[old]
    dry = " ".join(command("table", "adopt", "--at", "begin", json=False)["text"].split())
    assert f"{text} was deleted: what it had behind its frontier cannot land any more, and nobody" in dry
    assert command("table", "adopt", "--at", "begin", "--execute")["remade"] == {old: text}
    assert started.land_more(15, pass_s=120).rows == 15
    said = f"and 30 rows of origin {old} ({text}), as its ledger says (its service was not asked)"
    assert command("verify")["notes"] == [said]
    unknown = command("table", "forget", "--origin", "access_logs-0", "--before", NEXT, "--execute")
    assert unknown["code"] == EXIT_USAGE and old in unknown["error"]

    some = command("table", "forget", "--origin", old, "--where", WHERE, "--execute")
    assert (some["code"], some["rows"], some["origin"]) == (0, 4, old)
    rest = command("table", "forget", "--origin", old, "--before", "2026-09-21-17:00", "--execute")
    assert (rest["code"], rest["rows"]) == (0, 26)
    assert command("verify")["notes"] == []
    state = read_state(started.table)
    (new,) = set(state.ledgers) - {old}
    assert (state.forgotten.before(old), state.forgotten.before(new)) == (HOUR0 + 3, 0)
    assert {e.rows for e in state.ledger(old).shards.values()} == {0}
    started.assert_sound()


def test_rows_that_the_filter_says_nothing_of_stay(world: World) -> None:
    """A null is not taken, neither by a comparison nor by its opposite."""
    with world.client as client:
        client.put_raw(group([{"n": "1"}, {"n": "2", "status": "200"}, {"n": "3", "status": "500"}]))
    world.at(HOUR0_S + 120)
    world.land()
    carry_out(world, removal(world, "status != 500"))
    assert numbers(world) == [1, 3]
    world.assert_proved()


def test_a_hashed_person_is_removed_by_the_digest(world: World) -> None:
    world.logstore = world.changed(columns={"n": "long", "user": "hash"})
    with world.client as client:
        for n, user in enumerate(["alice", "bob", "alice"]):
            client.put_raw(group([{"n": str(n), "user": user}]))
    world.at(HOUR0_S + 120)
    world.land()

    carry_out(world, removal(world, f"user = '{hashlib.sha256(b'alice').hexdigest()}'"))

    assert numbers(world) == [1]
    world.assert_proved()


def test_a_filter_that_cannot_be_read_says_so_without_repeating_it(started: World, command: Command) -> None:
    for where in ("user = 'alice'", "n ==== 'alice'", "n = 'alice'", "", "true"):
        said = command("table", "forget", "--where", where, "--execute")
        assert said["code"] == EXIT_USAGE and "--where" in said["error"], where
        assert "alice" not in said["error"]
    assert command("table", "forget", "--execute")["code"] == EXIT_USAGE
    both = command("table", "forget", "--where", WHERE, "--before", NEXT)
    assert both["code"] == EXIT_USAGE
    append_by_hand(started)
    strangers = command("table", "forget", "--where", WHERE, "--execute")
    assert strangers["code"] == EXIT_FAILED and "sls-lake verify" in strangers["error"]
    assert len(started.table_rows()) == 31


def test_files_that_are_gone_or_cannot_be_written_change_nothing(started: World, command: Command) -> None:
    head, ledger = started.table.metadata.current_snapshot_id, started.ledger
    (origin,) = read_state(started.table).ledgers
    blocked = Path(started.published()[0]).parents[2] / origin / "rewritten"
    blocked.write_text("a file where a folder should be")
    full = command("table", "forget", "--where", WHERE, "--execute")
    assert full["code"] == EXIT_FAILED and "nothing was changed" in full["error"]
    assert full["error"].startswith("sls-lake: files below")
    for path in started.published():
        if f"/{HOUR0}/" in path:
            Path(path).unlink()
    gone = command("table", "forget", "--where", WHERE, "--execute")
    assert gone["code"] == EXIT_FAILED and "is gone" in gone["error"]
    assert (started.table.metadata.current_snapshot_id, started.ledger) == (head, ledger)


def test_adopted_rows_may_be_removed_too(started: World, command: Command) -> None:
    """They are counted apart from landed ones, also when they leave."""
    invent(started)
    assert command("table", "adopt", "--at", "rows", "--execute")["code"] == 0
    adopted = read_state(started.table).adopted.rows
    assert adopted == 31

    done = command("table", "forget", "--where", "n < 5", "--execute")

    assert done["adopted"] == done["rows"] >= 5
    assert read_state(started.table).adopted.rows == adopted - done["rows"]
    started.land()
    assert min(numbers(started)) == 5


def test_people_read_what_leaves_before_they_say_yes(started: World) -> None:
    file = io.StringIO()
    output = Output(file=file)
    planned = started.asked(plan_forget_where, WHERE, reason="[red] tape")
    show_effect(output, started.asked(plan_undo, range(HOUR0, HOUR0 + 2)).view)
    show_effect(output, planned.view)
    carry_out(started, planned)
    with started.client as client:
        show(output, verify(started.logstore, started.lake, client))

    said = file.getvalue()

    assert NEXT in said and "rows 20, files" in said
    assert re.search(r"\[\d+, \d+\)", said), "whole intervals, not taken for markup"
    assert re.search("rows of access_logs-[0-9a-f]{8} are to leave for good\nrows 4, ", said)
    assert "forget --where on n: [red] tape" in said
    assert "removed by decision" in said and "verified" in said
