"""Each cure that is named is tried: a table is broken, what the verdict prints is run as it is printed, and
then the table is proven and holds the service's rows, or exactly those that were not given up."""

import ast
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click import Context, Group
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan

from pipelines.cli.backfill import backfill
from pipelines.cli.main import EXIT_FAILED, cli
from pipelines.landing.commit import authored
from pipelines.landing.commit.operation import Tools
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.ledger.state import read_state
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.operations.replace import execute_replace, plan_replace
from sls_io.errors import LedgerBroken
from sls_io.window import HOUR_S
from tests.integration.command_line import Command, command
from tests.integration.foreign_deletes import delete_by_value, mark_deleted, update, update_by_value
from tests.integration.world import PROJECT, World

__all__ = ["command"]

_VERB = re.compile(
    r"sls-lake (?:backfill|verify|table (?:rollback|adopt|give-up|repair-manifests))"
    r"(?: (?:--?[\w-]+|\d[\w:-]*|rows|replace))*"
)

_NAMED = re.compile(
    r"sls-lake ((?:land|plan|backfill|load|describe|verify|windows|table|checkpoints|emulator|demo|dev)"
    r"(?: (?:rollback|undo|forget|adopt|give-up|repair-manifests|maintain|repair|reset)(?![a-z-]))?"
    r"(?: --[a-z-]+(?: [a-z]+(?= --))?)*)"
)


@pytest.fixture
def world(calm: World) -> World:
    """Three receive hours of 20 rows, a landing each, all of them passed by every shard."""
    calm.land_hours(3)
    return calm


def printed(text: str) -> list[list[str]]:
    """The calls in a sentence, in their order."""
    return [shlex.split(call)[1:] for call in _VERB.findall(text)]


def run_as_printed(world: World, command: Command, words: list[str]) -> None:
    """One printed call, with --execute where it has one. A replace is parsed by the command line and run
    without Spark."""
    if words[0] == "backfill":
        with Context(backfill) as parent:
            asked = backfill.make_context("backfill", [*words[1:]], parent=parent).params
        assert (asked["mode"], asked["local"]) == ("replace", True)
        hours = range(asked["first"], (asked["last"] or asked["first"]) + 1)
        with world.client as client:
            planned = plan_replace(world.lake, world.logstore, client, hours)
            execute_replace(world.lake, planned, Tools(engine=world.engine))
        return
    more = [] if words[0] == "verify" or "--execute" in words else ["--execute"]
    said = command(*words, *more)
    assert said["code"] == 0 and said["executed"], (words, said)


def settle(world: World, command: Command) -> list[list[str]]:
    """Run the first cure that the newest verdict prints, until the table is proven; the calls that were
    run. A cure that only looks closer is followed by what it finds."""
    done: list[list[str]] = []
    asked: list[str] = ["verify"]
    for _ in range(8):
        proof = command(*asked)
        if proof["ok"]:
            return done
        assert proof["code"] == EXIT_FAILED
        named = [c for text in (*proof["cures"], *proof["problems"]) for c in printed(text)]
        assert named, proof
        words = named[0]
        done.append(words)
        if words[0] == "verify":
            asked = words
            continue
        run_as_printed(world, command, words)
        asked = ["verify"]
    raise AssertionError(f"never proven: {done}")


def test_a_way_back_to_a_landing_without_rows_is_said_to_leave_the_table_empty(
    calm: World, command: Command
) -> None:
    """What fixes where the shards begin is a landing, too, and the only one from before the loss."""
    calm.land()
    calm.land_hours(1)
    (first, *_) = sorted(s.sequence_number or 0 for s in calm.table.metadata.snapshots)
    back = next(s.snapshot_id for s in calm.table.metadata.snapshots if s.sequence_number == first)
    for path in calm.published():
        Path(path).unlink()

    named = [cure for cure in command("verify")["cures"] if "table rollback" in cure]
    assert len(named) == 1 and f"rollback {back} leaves the table empty" in named[0]
    assert "what landed since is pulled again" in named[0] and "brings back" not in named[0]
    shown = command("table", "rollback", str(back), "--execute")
    assert (shown["code"], shown["rows_then"]) == (0, 0)
    calm.land()
    calm.assert_each_log_once()


# --- ways to break a table -----------------------------------------------------------------------


def deleted_by_hand(world: World) -> None:
    world.table.delete(And(GreaterThanOrEqual(term="n", value=25), LessThan(term="n", value=35)))


def deleted_by_hand_and_landed_on(world: World) -> None:
    deleted_by_hand(world)
    land_more(world)


def deleted_twice_and_landed_on(world: World) -> None:
    deleted_by_hand_and_landed_on(world)
    world.table.delete(LessThan(term="n", value=5))
    land_more(world)


def file_deleted_by_hand(world: World) -> None:
    world.table.delete(And(GreaterThanOrEqual(term="n", value=20), LessThan(term="n", value=40)))


def marked(world: World) -> None:
    assert mark_deleted(world, lambda n: 25 <= n < 35) == 10


def marked_and_landed_on(world: World) -> None:
    marked(world)
    land_more(world)


def rolled_back(world: World) -> None:
    head = world.table.current_snapshot()
    assert head is not None and head.parent_snapshot_id is not None
    world.table.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()


def rolled_back_and_appended(world: World) -> None:
    rolled_back(world)
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


def manifest_gone(world: World) -> None:
    newest = world.table.current_snapshot()
    assert newest is not None
    mine = [m for m in newest.manifests(world.table.io) if m.added_snapshot_id == newest.snapshot_id]
    Path(mine[0].manifest_path.removeprefix("file://")).unlink()


def list_cut(world: World) -> None:
    newest = world.table.current_snapshot()
    assert newest is not None
    path = Path(newest.manifest_list.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:100])


def tag_deleted(world: World) -> None:
    world.table.manage_snapshots().remove_tag(TAG).commit()


def land_more(world: World) -> None:
    """A landing on top of what was done."""
    world.put(20)
    world.emulator.admin.advance(HOUR_S)
    world.land()


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
    (rolled_back, "table rollback"),
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
    world.assert_each_log_once()
    world.assert_proved()


def expire_all(world: World) -> None:
    """Only the newest snapshot stays, as somebody's `expire_snapshots` leaves it."""
    table = world.table
    kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
    table.maintenance.expire_snapshots().by_ids(
        [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in kept]
    ).commit()


def take_all_hours(world: World) -> None:
    """Retention takes what has landed so far; what comes later stays."""
    name = world.logstore.service.logstore
    with world.client as client:
        world.emulator.admin.retain(PROJECT, name, before_s=int(client.now_s()))


@pytest.mark.parametrize("trouble", [deleted_by_hand, file_deleted_by_hand, marked])
def test_without_the_service_a_rollback_brings_back_every_row(
    world: World, command: Command, trouble: Callable[[World], None]
) -> None:
    take_all_hours(world)
    trouble(world)
    land_more(world)

    proof = command("verify", "--pull")
    done = settle(world, command)

    firsts = [calls[0][:2] for cure in proof["cures"] if (calls := printed(cure))]
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
    land_more(world)
    expire_all(world)

    done = settle(world, command)

    assert [words[:2] for words in done if words[0] != "verify"] == [["table", "adopt"]]
    land_more(world)
    world.assert_proved()
    assert sorted(row["n"] for row in world.table_rows()) == [n for n in range(100) if not 25 <= n < 35]


def test_a_removal_that_was_rolled_back_by_hand_is_done_again_by_the_verb_that_is_named(
    world: World, command: Command
) -> None:
    assert command("table", "forget", "--where", "n = 3", "--execute")["executed"]
    rolled_back(world)

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
    assert len(named) > 20
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


@pytest.mark.parametrize("trouble", [deleted_by_hand, marked])
def test_an_undo_of_another_hour_is_refused_while_rows_are_missing(
    world: World, command: Command, trouble: Callable[[World], None]
) -> None:
    trouble(world)
    said = command("table", "undo", "--hour", first_hour(world), "--execute")
    assert said["code"] == EXIT_FAILED and printed(said["error"]) == [["verify", "--pull"]]
    settle(world, command)
    assert command("table", "undo", "--hour", first_hour(world), "--execute")["executed"]


@pytest.mark.parametrize("trouble", [deleted_by_hand_and_landed_on, marked_and_landed_on])
def test_a_landing_that_misses_rows_is_no_way_back_unless_it_is_told_to_be(
    world: World, command: Command, trouble: Callable[[World], None]
) -> None:
    whole = world.table.metadata.current_snapshot_id
    trouble(world)
    holed = world.table.metadata.current_snapshot_id
    land_more(world)

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


def first_hour(world: World) -> str:
    """The first receive hour that has landed, as people write it."""
    return hour_text(min(w.window.hour for _, windows in world.landings() for w in windows))


def test_rows_that_another_engine_changed_by_marking_are_counted_once(world: World, command: Command) -> None:
    """The files hold six rows more than a reader sees, and the total of the snapshot counts these, too."""
    assert update(world, lambda n: n % 10 == 0) == 6
    proof, settled = command("verify"), command("table", "adopt", "--at", "rows", "--execute")
    assert proof["code"] == 0, proof
    assert "nothing to settle" in settled["error"]
    land_more(world)
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
    assert "rewrite_data_files" in refused.value.verb
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
