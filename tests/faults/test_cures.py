"""Each cure that is named is tried: a table is broken, what the verdict prints is run as it is printed, and
then the table is proven and holds the service's rows, or exactly those that were not given up."""

import ast
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click import Context, Group
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan

from pipelines.cli.main import EXIT_FAILED, cli
from pipelines.landing.commit import authored
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.state import read_state
from pipelines.landing.ledger.values import Deed, Operation
from sls_io.values.errors import LedgerBroken
from sls_io.values.window import HOUR_S
from tests.worlds.changed_table import (
    deleted_by_hand,
    deleted_by_hand_and_landed_on,
    expire_all,
    list_cut,
    manifest_gone,
    marked,
    marked_and_landed_on,
    roll_back,
    tag_deleted,
)
from tests.worlds.command_line import Command
from tests.worlds.foreign_deletes import delete_by_value, mark_deleted, update, update_by_value
from tests.worlds.landed_hours import first_hour, take_all_hours
from tests.worlds.one_logstore import World
from tests.worlds.printed_cures import named, printed, run_as_printed, settle, ways

_NAMED = re.compile(
    r"sls-lake ((?:land|plan|backfill|load|describe|verify|windows|table|checkpoints|emulator|demo|dev)"
    r"(?: (?:rollback|undo|forget|adopt|give-up|repair-manifests|maintain|repair|reset)(?![a-z-]))?"
    r"(?: --[a-z-]+(?: [a-z]+(?= --))?)*)"
)


def test_a_way_back_to_a_landing_without_rows_is_said_to_leave_the_table_empty(
    world: World, command: Command
) -> None:
    """What fixes where the shards begin is a landing, too, and the only one from before the loss."""
    world.land()
    world.land_hours(1)
    (first, *_) = sorted(s.sequence_number or 0 for s in world.table.metadata.snapshots)
    back = next(s.snapshot_id for s in world.table.metadata.snapshots if s.sequence_number == first)
    for path in world.published():
        Path(path).unlink()

    named = [cure for cure in ways(command("verify")) if "table rollback" in cure]
    assert len(named) == 1 and f"rollback {back}   # leaves the table empty" in named[0]
    assert "what landed since is pulled again" in named[0] and "brings back" not in named[0]
    shown = command("table", "rollback", str(back), "--execute")
    assert (shown["code"], shown["rows_then"]) == (0, 0)
    world.land()
    world.assert_each_log_once()


# --- ways to break a table -----------------------------------------------------------------------


def deleted_twice_and_landed_on(world: World) -> None:
    deleted_by_hand_and_landed_on(world)
    world.table.delete(LessThan(term="n", value=5))
    world.land_more(20, pass_s=HOUR_S)


def file_deleted_by_hand(world: World) -> None:
    world.table.delete(And(GreaterThanOrEqual(term="n", value=20), LessThan(term="n", value=40)))


def rolled_back_and_appended(world: World) -> None:
    roll_back(world)
    world.table.append(world.table.scan(row_filter="n < 3").to_arrow())


def twice(world: World) -> None:
    world.table.append(world.table.scan(row_filter="n < 3").to_arrow())


def data_file_gone(world: World) -> None:
    Path(world.published()[0]).unlink()


def data_file_cut(world: World) -> None:
    path = Path(world.published()[-1])
    path.write_bytes(path.read_bytes()[:200])


def data_file_of_another(world: World) -> None:
    """A whole Parquet file of as many rows, with other columns, lies where one of the table was."""
    path = Path(world.published()[-1])
    rows = pq.read_metadata(path).num_rows
    field = pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array(range(rows), pa.int64())], pa.schema([field])), path)


BREAKS: list[tuple[Callable[[World], None], str]] = [
    (deleted_by_hand, "backfill"),
    (deleted_by_hand_and_landed_on, "backfill"),
    (deleted_twice_and_landed_on, "backfill"),
    (file_deleted_by_hand, "backfill"),
    (marked, "backfill"),
    (marked_and_landed_on, "backfill"),
    (data_file_gone, "backfill"),
    (data_file_cut, "backfill"),
    (data_file_of_another, "backfill"),
    (manifest_gone, "table repair-manifests"),
    (list_cut, "table repair-manifests"),
    (roll_back, "table rollback"),
    (rolled_back_and_appended, "table rollback"),
    (twice, "table rollback"),
    (tag_deleted, "table adopt"),
]
"""How a table is broken, and the verb that the first verdict must lead to."""


@pytest.mark.parametrize(("trouble", "verb"), BREAKS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_the_first_cure_that_is_printed_brings_back_every_row(
    world: World, command: Command, trouble: Callable[[World], None], verb: str
) -> None:
    trouble(world)

    done = settle(world, command)

    acted = [" ".join(words) for words in done if words[0] != "verify"]
    assert acted and all(words.startswith(verb) for words in acted), done
    world.land()
    world.assert_sound()


@pytest.mark.parametrize("trouble", [deleted_by_hand, file_deleted_by_hand, marked])
def test_without_the_service_a_rollback_brings_back_every_row(
    world: World, command: Command, trouble: Callable[[World], None]
) -> None:
    take_all_hours(world)
    trouble(world)
    world.land_more(20, pass_s=HOUR_S)

    proof = command("verify", "--pull")
    done = settle(world, command)

    firsts = [calls[0][:2] for cure in ways(proof) if (calls := printed(cure))]
    assert firsts == [["table", "rollback"], ["table", "adopt"]]
    assert [words[:2] for words in done if words[0] != "verify"] == [["table", "rollback"]]
    world.land()
    world.assert_proved()
    assert sorted(row["n"] for row in world.table_rows()) == list(range(80))


@pytest.mark.parametrize("trouble", [deleted_by_hand, marked])
def test_what_nothing_brings_back_is_given_up_and_nothing_else(
    world: World, command: Command, trouble: Callable[[World], None]
) -> None:
    take_all_hours(world)
    trouble(world)
    world.land_more(20, pass_s=HOUR_S)
    expire_all(world)

    done = settle(world, command)

    assert [words[:2] for words in done if words[0] != "verify"] == [["table", "adopt"]]
    world.land_more(20, pass_s=HOUR_S)
    world.assert_proved()
    assert sorted(row["n"] for row in world.table_rows()) == [n for n in range(100) if not 25 <= n < 35]


def test_a_removal_that_was_rolled_back_by_hand_is_done_again_by_the_verb_that_is_named(
    world: World, command: Command
) -> None:
    assert command("table", "forget", "--where", "n = 3", "--execute")["executed"]
    roll_back(world)

    done = settle(world, command)

    assert [words[:2] for words in done] == [["table", "rollback"]]
    assert sorted(row["n"] for row in world.table_rows()) == [n for n in range(60) if n != 3]


def test_a_lost_file_does_not_keep_adopt_from_a_ledger_that_explains_all_other_rows(
    world: World, command: Command
) -> None:
    tag_deleted(world)
    path = Path(world.published()[0])
    data_file_gone(world)

    said = command("table", "adopt", "--execute")

    assert said["executed"] and [path.name] in said["lost"].values()
    again = command("table", "adopt")
    assert again["code"] == EXIT_FAILED and path.name in again["error"]
    assert [words[0] for words in printed(again["error"])] == ["verify"]
    settle(world, command)
    world.land()
    world.assert_each_log_once()


def test_every_call_that_a_sentence_names_exists() -> None:
    """As far as the words go: the noun, its verb and the options right behind them."""
    named: set[tuple[str, ...]] = set()
    for path in sorted(Path(__file__).parents[2].glob("pipelines/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named |= {tuple(call.split()) for call in _NAMED.findall(node.value)}
    assert len(named) > 10
    for noun, *words in sorted(named):
        found = cli.get_command(Context(cli), noun)
        assert found is not None, noun
        if isinstance(found, Group):
            if not words or words[0] not in found.commands:
                assert not words or words[0].startswith("-"), (noun, *words)
                continue
            found = found.commands[words.pop(0)]
        options = {name for p in found.params for name in (*p.opts, *p.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= options, (noun, *words)


@pytest.mark.parametrize("trouble", [deleted_by_hand_and_landed_on, marked_and_landed_on])
@pytest.mark.parametrize("option", ["--where", "--before"])
def test_a_removal_for_good_is_refused_while_rows_are_missing_and_takes_no_way_back(
    world: World, command: Command, trouble: Callable[[World], None], option: str
) -> None:
    first, *_ = hours = sorted({w.window.hour for _, windows in world.landings() for w in windows})
    assert len(hours) == 3
    verb = (option, "n = 3" if option == "--where" else hour_text(first + 1))
    trouble(world)
    head = world.table.metadata.current_snapshot_id

    said = command("table", "forget", *verb, "--execute")

    assert said["code"] == EXIT_FAILED and "misses rows" in said["error"], said
    assert "--without-missing" in said["error"] and printed(said["error"]) == [["verify", "--pull"]]
    assert world.table.metadata.current_snapshot_id == head
    settle(world, command)
    world.assert_each_log_once()
    assert command("table", "forget", *verb, "--execute")["executed"]
    world.assert_proved()


def test_a_removal_goes_on_without_missing_rows_when_it_is_told_to(world: World, command: Command) -> None:
    deleted_by_hand(world)
    said = command("table", "forget", "--where", "n = 3", "--without-missing", "--execute")
    assert said["executed"] and said["rows"] == 1
    assert not command("verify")["ok"], "what is missing stays said"
    settle(world, command)
    assert sorted(row["n"] for row in world.table_rows()) == [n for n in range(60) if n != 3]


def test_a_deletion_that_an_append_hides_is_seen_by_shard(world: World, command: Command) -> None:
    """As many rows as the ledger says, and not the same: one shard lacks what the other has too many."""
    rows = world.table.scan().to_arrow()
    for n in range(60):
        only = rows.filter(pc.equal(rows["n"], n))
        if only["__shard__"][0].as_py() == 0:
            world.table.delete(EqualTo(term="n", value=n))
            break
    of_one = rows.filter(pc.equal(rows["__shard__"], 1)).slice(0, 1)
    world.table.append(of_one)

    for verb in (("forget", "--where", "n = 59"), ("undo", "--hour", first_hour(world))):
        said = command("table", *verb, "--execute")
        assert said["code"] == EXIT_FAILED and "in shard 0" in said["error"], said


@pytest.mark.parametrize("trouble", [deleted_by_hand_and_landed_on, marked_and_landed_on])
def test_a_landing_that_misses_rows_is_no_way_back_unless_it_is_told_to_be(
    world: World, command: Command, trouble: Callable[[World], None]
) -> None:
    whole = world.table.metadata.current_snapshot_id
    trouble(world)
    holed = world.table.metadata.current_snapshot_id
    world.land_more(20, pass_s=HOUR_S)

    said = command("table", "rollback", str(holed), "--execute")

    assert said["code"] == EXIT_FAILED and "rows were missing by then" in said["error"]
    assert printed(said["error"])[0] == ["table", "rollback", str(whole)]
    assert command("table", "rollback", str(holed), "--without-missing")["code"] == 0
    run_as_printed(world, command, printed(said["error"])[0])
    world.land()
    world.assert_each_log_once()


def test_maintenance_of_a_table_with_marked_rows_names_a_landing_that_has_them(
    world: World, command: Command
) -> None:
    marked_and_landed_on(world)
    said = command("table", "maintain", "--execute")
    assert said["code"] == EXIT_FAILED and not said["expired"] and not said["swept"]
    (words,) = [w for w in printed(said["put_off"][0]) if w[0] == "table"]
    run_as_printed(world, command, words)
    world.land()
    world.assert_each_log_once()
    assert command("table", "maintain", "--execute")["put_off"] == []


def test_deletes_by_value_are_named_with_what_undoes_them(world: World, command: Command) -> None:
    delete_by_value(world, 7)
    hour = first_hour(world)
    calls = (("verify",), ("table", "forget", "--where", "n = 1"), ("table", "undo", "--hour", hour))
    for verb in calls:
        said = command(*verb)
        assert said["code"] == EXIT_FAILED and "equality deletes" in json.dumps(said), (verb, said)
    settle(world, command)
    world.land()
    world.assert_each_log_once()


def test_rows_that_another_engine_changed_by_marking_are_counted_once(world: World, command: Command) -> None:
    """The files hold six rows more than a reader sees, and the total of the snapshot counts these, too."""
    assert update(world, lambda n: n % 10 == 0) == 6
    proof, settled = command("verify"), command("table", "adopt", "--at", "rows", "--execute")
    assert proof["code"] == 0, proof
    assert "nothing to settle" in settled["error"]
    world.land_more(20, pass_s=HOUR_S)
    assert command("table", "maintain", "--execute")["put_off"] == []
    assert command("verify")["code"] == 0
    world.assert_each_log_once()


def test_foreign_rows_beside_changed_ones_are_refused_with_their_number(
    world: World, command: Command
) -> None:
    update(world, lambda n: n % 10 == 0)
    world.table.append(world.table.scan(row_filter="n < 3").to_arrow())
    with pytest.raises(LedgerBroken, match="has 63 rows, its ledger knows 60: rows of unknown origin"):
        world.land()
    settle(world, command)
    world.land()
    world.assert_each_log_once()


def test_rows_that_another_engine_changed_by_value_stop_landings_until_it_writes_its_files_anew(
    world: World, command: Command
) -> None:
    update_by_value(world, 7)
    with pytest.raises(LedgerBroken, match=r"61, its ledger knows 60, and .*equality deletes") as refused:
        world.land()
    assert "rewrite_data_files" in named(refused.value.cures)
    assert command("table", "adopt", "--at", "rows")["code"] == EXIT_FAILED


def test_rows_of_nobody_that_are_not_there_are_given_up_by_adopting_again(
    world: World, command: Command
) -> None:
    """The release before counted rows in files, and adopted those that a change had hidden."""
    adopt_others(world, 6)
    assert "its ledger says 66" in command("table", "maintain")["put_off"][0]
    assert command("table", "adopt", "--execute")["others"] == 0
    assert command("table", "maintain", "--execute")["put_off"] == []
    assert "nothing to settle" in command("table", "adopt", "--execute")["error"]


def adopt_others(world: World, rows: int) -> None:
    """The ledger calls so many rows adopted of which it knows no origin."""
    state = read_state(world.table)
    head = world.table.current_snapshot()
    assert head is not None
    adopted = replace(state.adopted, others=rows)
    change = authored.Change(head, state.ledgers, adopted, Deed(Operation.ADOPT))
    authored.commit(world.lake, world.table, state, change, now_ms=state.last_updated_ms + 1)


def test_maintenance_goes_on_once_the_rows_that_another_engine_left_were_adopted(
    world: World, command: Command
) -> None:
    """A snapshot's total counts hidden rows, too. The release before adopted them as rows of nobody."""
    assert mark_deleted(world, lambda n: n % 10 == 0) == 6
    adopted = command("table", "adopt", "--at", "rows", "--without-missing", "--execute")
    assert (adopted["code"], adopted["missing"], adopted["others"]) == (0, 6, 0)
    adopt_others(world, 6)
    done = command("table", "maintain", "--execute")
    assert (done["code"], done["put_off"]) == (0, []), "nothing is missing"

    mark_deleted(world, lambda n: n % 10 == 5)
    lost = command("table", "maintain")
    assert lost["code"] == EXIT_FAILED and "holds 48 rows, its ledger says 54" in lost["put_off"][0], (
        "rows are missing now"
    )
