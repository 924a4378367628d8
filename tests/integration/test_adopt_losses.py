"""No verb settles a table by forgetting: lost rows, rows that are there twice, rows that were removed for
good, and ledgers that cannot be read are said, with the verb that really helps.
"""

import io
import shlex

import pytest
from pyiceberg.expressions import And, EqualTo, LessThan

from pipelines.cli.deciding import decide, show_effect
from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.cli.output import Output
from pipelines.landing.commit.planned import Planned, execute
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.ledger.state import facts
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.recovery.adopt import plan_adopt
from pipelines.landing.recovery.adoption import Adoption
from tests.worlds.changed_table import damage, tag_deleted
from tests.worlds.command_line import Command
from tests.worlds.landed_hours import numbers
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World
from tests.worlds.printed_cures import ways
from tests.worlds.removed_rows import carry_out, left_over, removal
from tests.worlds.two_hours import refused, snapshots, started
from tests.worlds.two_logstores import second_logstore

__all__ = ["started"]

ADOPT = ("table", "adopt")


def lose(world: World, *, rows: int = 5) -> None:
    """The first of the 20 landed rows leave by hand."""
    world.table.delete(LessThan(term="n", value=rows))


def shown(planned: Planned[Adoption]) -> str:
    file = io.StringIO()
    decide(Output(file=file), planned, lambda: pytest.fail("it is a dry run"), now=False)
    return " ".join(file.getvalue().split())


def test_lost_rows_are_given_up_only_by_saying_so_and_verify_remembers(
    started: World, command: Command
) -> None:
    newest = snapshots(started)[-1]
    lose(started)
    tag_deleted(started)
    verb = (*refused(started), "--at", "rows")
    assert verb[:2] == ADOPT

    dry = command(*verb)

    assert (dry["code"], dry["missing"], dry["back"]) == (0, 5, newest)
    differs = dry["differs"]
    assert {d["snapshot"] for d in differs} == {newest}
    assert sum(d["known"] - d["there"] for d in differs) == sum(d["missing"] for d in differs) == 5
    assert not any(d["foreign"] for d in differs)
    said = shown(started.asked(plan_adopt, at="rows"))
    assert (
        f"sls-lake table rollback {newest}" in said
        and "brings back the rows that had landed by then" in said
        and "--without-missing" in said
    )
    head = started.table.metadata.current_snapshot_id
    silent = command(*verb, "--execute")
    assert silent["code"] == EXIT_USAGE and "at least 5 rows" in silent["error"]
    assert f"table rollback {newest}" in silent["error"] and "--without-missing" in silent["error"]
    assert started.table.metadata.current_snapshot_id == head

    assert command(*verb, "--execute", "--without-missing")["code"] == 0

    assert started.land().rows == 60
    proof = command("verify")
    notes = [note for s in proof["shards"] for note in s["notes"] if "given up" in note]
    assert proof["code"] == 0 and notes
    assert sum(int(note.split()[2]) for note in notes) == 5, "a landing carries it on"
    assert all("by decision" in note for note in notes)


def test_rows_that_nothing_brings_back_are_given_up_although_landings_went_on(
    started: World, command: Command
) -> None:
    """Until then maintenance leaves the table alone: an expiry could take the last way back."""
    assert command(*ADOPT)["code"] == EXIT_USAGE, "the rows prove the ledger"
    lose(started)
    started.land()
    put_off = command("table", "maintain", "--execute")
    assert put_off["code"] == EXIT_FAILED and put_off["put_off"]
    (last,) = (c for c in ways(command("verify")) if "adopt" in c)
    verb = shlex.split(last, comments=True)[1:]

    dry = command(*verb)

    assert (dry["missing"], dry["kept"]) == (5, {}) and "tried first" in dry["trouble"]
    assert command(*ADOPT, "--at", "rows", "--execute")["code"] == EXIT_USAGE
    assert command(*verb, "--execute")["executed"]
    assert command("table", "maintain", "--execute")["put_off"] == []
    assert started.land_more(10).rows == 10
    assert len(started.table_rows()) == 85
    proved = command("verify")
    assert proved["code"] == 0
    notes = [note for shard in proved["shards"] for note in shard["notes"]]
    assert any("were given up, by decision" in note for note in notes)


@pytest.mark.parametrize("tag", ["stays", "is gone", "is moved along"])
def test_a_table_put_back_to_before_a_removal_goes_to_the_removal(
    started: World, command: Command, tag: str
) -> None:
    """No refusal names a landing that the next verb refuses, and no verb brings removed rows back."""
    before = snapshots(started)[-1]
    removed = carry_out(started, removal(started))
    started.table.manage_snapshots().rollback_to_snapshot(before).commit()
    if tag == "is gone":
        tag_deleted(started)
    if tag == "is moved along":
        started.table.manage_snapshots().remove_tag(TAG).create_tag(before, TAG).commit()
    assert len(numbers(started)) == 20, "they are back"

    verb = refused(started)

    assert verb == ["table", "rollback", str(removed)]
    for other in (ADOPT, ("table", "rollback", str(before))):
        refusal = command(*other, "--execute")
        assert refusal["code"] != 0 and f"sls-lake table rollback {removed}" in refusal["error"]
    assert command(*verb, "--execute")["code"] == 0
    assert started.land().rows == 60
    assert numbers(started) == left_over(80)
    proof = command("verify")
    assert proof["code"] == 0 and sum(s["rows_forgotten"] for s in proof["shards"]) == 4


def test_behind_a_damaged_ledger_the_older_one_that_can_be_read_is_named(
    started: World, command: Command
) -> None:
    older, newest = snapshots(started)[-2:]
    damage(started)
    damaged = started.table.metadata.current_snapshot_id
    started.table.maintenance.expire_snapshots().by_ids([newest]).commit()

    dry = command(*ADOPT)

    assert (dry["damaged"], dry["back"], dry["missing"]) == (damaged, older, 0)
    assert {d["snapshot"] for d in dry["differs"]} == {older}
    assert sum(d["foreign"] for d in dry["differs"]) == 10
    said = shown(started.asked(plan_adopt))
    assert "cannot be read" in said and f"sls-lake table rollback {older}" in said
    back = command("table", "rollback", str(older), "--execute")
    assert (back["code"], back["rows_leaving"]) == (0, 10)
    assert started.land().rows == 70
    started.assert_sound()


def test_the_same_rollback_again_is_none_and_only_what_is_given_back_now_counts(
    started: World, command: Command
) -> None:
    wanted, newest = snapshots(started)[-2:]
    started.land()
    started.at(HOUR0_S + 60 * 129)
    started.land_more(5, until_s=HOUR0_S + 60 * 130)

    first = command("table", "rollback", str(newest), "--execute")
    assert first["code"] == 0 and first["hours"] == [HOUR0 + 1, HOUR0 + 2]
    count = len(started.table.metadata.snapshots)
    for same in (newest, first["committed"]):
        again = command("table", "rollback", str(same), "--execute")
        assert again["code"] == EXIT_USAGE and "nothing to roll back" in again["error"]
    assert len(started.table.metadata.snapshots) == count

    older = command("table", "rollback", str(wanted), "--execute")

    assert (older["code"], older["hours"]) == (0, [HOUR0 + 1]), "that of the third hour was given back before"
    assert started.land().rows == 75
    started.assert_sound()


def test_what_is_withdrawn_by_then_is_not_said_to_be_pulled_again(started: World) -> None:
    planned = started.asked(plan_undo, range(HOUR0, HOUR0 + 1))
    undone = execute(started.lake, planned).snapshot
    assert started.land(mode="fill", hours=(HOUR0, HOUR0 + 1)).rows == 10

    view = plan_rollback(started.lake, started.logstore.table, undone).view

    file = io.StringIO()
    show_effect(Output(file=file), view)
    said = " ".join(file.getvalue().split())
    assert view.hours == view.hours_out == (HOUR0,) and not view.pulled_again
    assert "pulled again" not in said and "a backfill that names 2026-09-21-14:00" in said
    started.land()
    both = plan_rollback(started.lake, started.logstore.table, undone).view
    assert both.pulled_again and both.hours_out == (HOUR0,) and both.hours == (HOUR0, HOUR0 + 1)


def test_with_another_logstore_unproven_landings_stay_refused_and_it_is_named(
    started: World, command: Command
) -> None:
    other = second_logstore(started)
    started.land(logstore=other)
    started.land()
    tag_deleted(started)
    with World(started.emulator, started.lake, other, started.engine).client as client:
        theirs = client.origin().id
        started.table.delete(And(EqualTo(term="__origin__", value=theirs), EqualTo(term="n", value=3)))

        done = command(*ADOPT, "--execute")
        assert done["code"] == 0 and done["still_refused"] == [theirs]
        assert refused(started) == list(ADOPT)
        again = command(*ADOPT, "--execute")
        assert again["code"] == EXIT_USAGE and "settled already" in again["error"]
        assert theirs in again["error"] and "by its own settings" in again["error"]

        planned = plan_adopt(started.lake, other, client, at="latest", without_missing=True)
        assert planned.view.missing == 1 and planned.view.still_refused == ()
        execute(started.lake, planned)

    assert facts(started.table).adopted.missing == {(theirs, 0): 1}
    assert started.land().rows == 0
    started.assert_proved()


def test_the_rows_of_a_deleted_logstore_are_settled_with_the_one_of_the_same_name(
    started: World, command: Command
) -> None:
    """Nobody else could: the service does not know it any more."""
    with started.client as client:
        theirs = client.origin().id
        client.transport.delete_logstore(PROJECT, "access_logs")
        started.emulator.admin.advance(60)
        client.transport.create_logstore(PROJECT, "access_logs", ttl=30, shard_count=2)
    lose(started, rows=4)
    tag_deleted(started)
    verb = (*refused(started), "--at", "begin", "--execute")

    silent = command(*verb)
    assert silent["code"] == EXIT_USAGE and "at least 4 rows" in silent["error"]
    done = command(*verb, "--without-missing")

    assert (done["code"], done["former"], done["still_refused"]) == (0, [theirs], [])
    assert started.land_more(15, pass_s=120).rows == 15
    assert len(started.table_rows()) == 16 + 15
    started.assert_proved()
