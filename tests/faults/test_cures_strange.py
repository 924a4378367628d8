"""Rows that nothing explains, some of them beside missing ones: what is named was looked at before, so the
first cure that is printed is accepted as it stands, and in the end the table is proven."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.expressions import And, EqualTo

from pipelines.cli.main import EXIT_FAILED
from pipelines.landing.commit.planned import execute
from pipelines.landing.contents.sameness import way_back
from pipelines.landing.ledger.values import Forgotten
from pipelines.landing.ledger.ways_back import pasts
from pipelines.landing.ledger.ways_back import ways as ways_back
from pipelines.landing.recovery.adopt import plan_adopt
from sls_io.values.window import HOUR_S
from tests.worlds.changed_table import (
    deleted_by_hand,
    expire_all,
    roll_back,
)
from tests.worlds.command_line import Command
from tests.worlds.landed_hours import first_hour, take_all_hours
from tests.worlds.one_logstore import PROJECT, World
from tests.worlds.printed_cures import printed, run_as_printed, settle, ways
from tests.worlds.two_logstores import second_logstore


def strange(world: World, n: int = 45, *, times: int = 1) -> None:
    """Copies of the row `n`, under places in its LogGroup that no log has."""
    row = world.table.scan(row_filter=EqualTo(term="n", value=n)).to_arrow().slice(0, 1)
    place = row.schema.get_field_index("__index__")
    kind = row.schema.field(place)
    for i in range(times):
        world.table.append(row.set_column(place, kind, pa.array([70 + i], kind.type)))


def swapped_and_landed_on(world: World) -> None:
    """As many rows as before, one of them another: so is the landing on top."""
    world.table.delete(EqualTo(term="n", value=25))
    strange(world)
    world.land_more(20, pass_s=HOUR_S)


@pytest.fixture
def other(world: World) -> Iterator[World]:
    """A second logstore in the same table, which lacks a row: there are as many as all ledgers know, once
    the first one has a row too many."""
    settings = second_logstore(world)
    other = World(world.emulator, world.lake, settings, world.engine)
    other.land()
    with other.client as client:
        mine = EqualTo(term="__origin__", value=client.origin().id)
    world.table.delete(And(mine, EqualTo(term="n", value=3)))
    yield other
    with other.client as client:
        client.transport.delete_logstore(PROJECT, settings.service.logstore)


def test_a_removal_that_was_made_without_missing_rows_is_done_again_without_them(
    world: World, command: Command
) -> None:
    deleted_by_hand(world)
    gone = command("table", "forget", "--where", "n = 3", "--without-missing", "--execute")
    roll_back(world)

    (words,) = printed(" ".join(ways(command("verify"))))
    run_as_printed(world, command, words)

    assert words == ["table", "rollback", str(gone["committed"]), "--without-missing"]
    assert 3 not in {row["n"] for row in world.table_rows()}
    settle(world, command)
    assert sorted(row["n"] for row in world.table_rows()) == [n for n in range(60) if n != 3]


def test_a_row_too_many_beside_a_lost_one_of_another_logstore_is_no_red_without_a_verb(
    world: World, other: World, command: Command
) -> None:
    strange(world)
    assert len(world.table_rows()) == 60 + 25

    proof = command("verify", "--pull")
    acted = [calls[0][:2] for cure in ways(proof) if (calls := printed(cure))]
    done = settle(world, command)

    assert proof["code"] == EXIT_FAILED and ["table", "rollback"] in acted and ["table", "adopt"] in acted
    assert done[0][0] == "backfill" and done[-1][:2] == ["table", "rollback"]
    world.land()
    world.assert_proved()
    assert len(world.table_rows()) == 60 + 25, "a table is proven with all its logstores"


@pytest.mark.parametrize("kept", ["the snapshots", "none of them"])
def test_a_row_too_many_that_the_service_cannot_settle_is_taken_out_or_kept_by_the_verb_that_is_named(
    world: World, other: World, command: Command, kept: str
) -> None:
    take_all_hours(world)
    strange(world)
    world.land_more(20, pass_s=HOUR_S)
    if kept == "none of them":
        expire_all(world)

    words = next(calls[0] for cure in ways(command("verify")) if (calls := printed(cure)))
    run_as_printed(world, command, words)

    assert words[:2] == ["table", "rollback" if kept == "the snapshots" else "adopt"]
    assert "--without-missing" not in words, "of this logstore none is missing"
    if kept == "none of them":
        with other.client as client:
            theirs = plan_adopt(world.lake, other.logstore, client, at="rows", without_missing=True)
            execute(world.lake, theirs)
    world.land()
    world.assert_proved()
    assert len(world.table_rows()) == (80 + 25 if kept == "the snapshots" else 81 + 24)


def test_a_row_that_is_there_twice_and_that_no_verb_takes_out_is_said_with_what_to_do(
    world: World, other: World, command: Command
) -> None:
    take_all_hours(world)
    twin = world.table.scan(row_filter=EqualTo(term="n", value=30)).to_arrow().slice(0, 1)
    world.table.append(twin)
    world.land_more(20, pass_s=HOUR_S)
    expire_all(world)

    proof = command("verify")

    assert proof["code"] == EXIT_FAILED
    assert ways(proof)[0] == "delete all but one of each with any engine, and look again"
    world.table.delete(EqualTo(term="n", value=30))
    world.table.append(twin)
    (theirs,) = command("verify")["problems"]
    assert theirs.startswith("origin other_logs-"), "of this logstore nothing is wrong any more"


def test_a_landing_with_as_many_rows_and_not_the_same_is_no_way_back(world: World, command: Command) -> None:
    """Gone back to, nothing would be better: the newest landing is such a one."""
    whole = world.table.metadata.current_snapshot_id
    take_all_hours(world)
    swapped_and_landed_on(world)
    newest = world.table.metadata.current_snapshot_id
    back = way_back(world.table)
    as_many = next(ways_back(pasts(world.table), Forgotten()))
    assert back is not None and (as_many.id, back.id) == (newest, whole)

    refused = command("table", "undo", "--hour", first_hour(world), "--execute")
    done = settle(world, command)

    assert refused["code"] == EXIT_FAILED and str(newest) not in refused["error"]
    assert [words for words in done if words[0] != "verify"] == [["table", "rollback", str(whole)]]
    world.land()
    world.assert_proved()
    assert sorted(row["n"] for row in world.table_rows()) == list(range(80))
