"""Manifests and manifest lists that are gone or damaged: the files that they listed are listed again, these
and no others, proven by the ledger; where rows are lost with them, what is named gets out of it."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table.snapshots import Snapshot

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.summary import summary_of
from sls_io.values.window import HOUR_S
from tests.worlds.changed_table import expire_all, list_cut, manifest_gone, marked
from tests.worlds.command_line import Command
from tests.worlds.foreign_deletes import local
from tests.worlds.landed_hours import files_of, hours, lose, numbers, take_all_hours
from tests.worlds.one_logstore import PROJECT, World
from tests.worlds.printed_cures import printed, settle, ways
from tests.worlds.two_logstores import second_logstore

REPAIR = ["table", "repair-manifests"]


def head(world: World) -> Snapshot:
    """The newest snapshot of main."""
    found = world.table.current_snapshot()
    assert found is not None
    return found


def manifests(world: World) -> list[Path]:
    """The manifests of main, oldest first."""
    found = head(world).manifests(world.table.io)
    return [local(m.manifest_path) for m in sorted(found, key=lambda m: m.sequence_number)]


def lists(world: World) -> list[Path]:
    """The manifest lists of all snapshots that metadata has."""
    return [local(s.manifest_list) for s in world.table.metadata.snapshots]


def totals(world: World) -> dict[str, str]:
    """What the newest snapshot says that there is of everything."""
    return {k: v for k, v in summary_of(head(world)).items() if k.startswith("total-")}


def entries(world: World) -> dict[str, tuple[object, ...]]:
    """What the table says of each of its data files."""
    files = [task.file for task in world.table.scan().plan_files()]
    return {
        f.file_path: (
            *(f.record_count, f.file_size_in_bytes, f.spec_id, f.split_offsets),
            tuple(f.partition[i] for i in range(len(f.partition))),
            *map(
                sorted,
                (
                    *((f.column_sizes or {}).items(), (f.value_counts or {}).items()),
                    *((f.null_value_counts or {}).items(), (f.nan_value_counts or {}).items()),
                    *((f.lower_bounds or {}).items(), (f.upper_bounds or {}).items()),
                ),
            ),
        )
        for f in files
    }


def repaired(world: World, command: Command) -> list[list[str]]:
    """Run what verify prints first until the table is proven; that one verb does it."""
    done = settle(world, command)
    assert [words[:2] for words in done] == [REPAIR], done
    return done


def goes_on(world: World, command: Command, wanted: list[int]) -> None:
    """The table lands, is written together and swept, and holds these rows and the new ones, each once."""
    new = range(world.counter, world.counter + 20)
    world.land_more(20, pass_s=HOUR_S)
    assert command("table", "maintain", "--execute", "--only", "expire", "--snapshots", "2")["code"] == 0
    said = command("table", "maintain", "--execute")
    assert (said["code"], said["put_off"]) == (0, [])
    assert numbers(world) == sorted([*wanted, *new])
    assert max(world.identities().values()) == 1
    assert command("verify")["ok"]
    assert command("landings", "show")["code"] == 0


# --- what is lost -----------------------------------------------------------------------------------


def old_manifest(world: World) -> None:
    manifests(world)[0].unlink()


def cut_manifest(world: World) -> None:
    path = manifests(world)[1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def two_manifests(world: World) -> None:
    for path in manifests(world)[:2]:
        path.unlink()


def all_manifests(world: World) -> None:
    for path in manifests(world):
        path.unlink()


def list_of_main(world: World) -> None:
    local(head(world).manifest_list).unlink()


def all_lists(world: World) -> None:
    for path in lists(world):
        path.unlink()


def all_lists_and_manifests(world: World) -> None:
    for path in {*manifests(world), *lists(world)}:
        path.unlink()


LOSSES = [
    old_manifest,
    manifest_gone,
    cut_manifest,
    two_manifests,
    all_manifests,
    list_of_main,
    list_cut,
    all_lists,
    all_lists_and_manifests,
]


@pytest.mark.parametrize("loss", LOSSES)
def test_the_verb_that_is_printed_first_keeps_every_row_that_retention_took(
    world: World, command: Command, loss: Callable[[World], None]
) -> None:
    before, rows, files = totals(world), world.identities(), entries(world)
    take_all_hours(world)
    loss(world)

    proof = command("verify")
    repaired(world, command)

    least = [p for s in proof["shards"] for p in s["problems"] if "the table holds at least" in p]
    assert least and (loss is not old_manifest or sum(s["rows_table"] for s in proof["shards"]) == 40)
    assert printed(next(text for text in ways(proof) if printed(text)))[0] == [*REPAIR, "--execute"]
    assert (totals(world), world.identities(), entries(world)) == (before, rows, files)
    world.assert_proved()
    goes_on(world, command, list(range(60)))


def test_a_dry_run_changes_nothing_and_says_what_it_would_list(world: World, command: Command) -> None:
    old_manifest(world)
    before, files = head(world).snapshot_id, world.files()

    said = command(*REPAIR)

    assert (said["code"], said["executed"], said["committed"]) == (0, False, None)
    assert (said["rows"], said["missing"], said["left"], len(said["lost"])) == (20, 0, 0, 1)
    assert sum(s["rows_listed"] for s in said["shards"]) == 40
    assert (head(world).snapshot_id, world.files()) == (before, files)


def test_where_every_manifest_can_be_read_there_is_nothing_to_list_again(
    world: World, command: Command
) -> None:
    said = command(*REPAIR, "--execute")
    assert said["code"] == EXIT_USAGE and "nothing to list again" in said["error"]


@pytest.mark.parametrize("loss", [old_manifest, all_lists])
@pytest.mark.parametrize(
    "verb", [["table", "give-up"], ["table", "adopt", "--at", "rows"]], ids=["give-up", "adopt"]
)
def test_verbs_that_would_give_rows_up_name_the_one_that_keeps_them(
    world: World, command: Command, loss: Callable[[World], None], verb: list[str]
) -> None:
    loss(world)
    said = command(*verb, "--execute")
    assert said["code"] == EXIT_FAILED and printed(said["error"])[0] == [*REPAIR, "--execute"], said


def test_readers_that_follow_what_is_appended_see_no_row_again(world: World, command: Command) -> None:
    all_lists(world)
    repaired(world, command)
    newest = head(world)
    assert newest.summary is not None and newest.summary.operation.value == "replace"
    assert summary_of(newest)["sls-lake.verb"] == "repair-manifests"


# --- what else lies in the folder -------------------------------------------------------------------


def undone(world: World, command: Command) -> list[int]:
    """An hour was taken back."""
    assert command("table", "undo", "--hour", hour_text(hours(world)[1]), "--execute")["executed"]
    return [*range(20), *range(40, 60)]


def forgotten(world: World, command: Command) -> list[int]:
    """A row of a file, and all rows of others, were removed for good."""
    assert command("table", "forget", "--where", "n = 3 or n >= 20 and n < 25", "--execute")["executed"]
    return [n for n in range(60) if n != 3 and not 20 <= n < 25]


def compacted(world: World, command: Command) -> list[int]:
    assert command("table", "maintain", "--execute", "--only", "compact")["compacted"]
    return list(range(60))


def dead_run(world: World, command: Command) -> list[int]:
    """A run was killed after it had written: its files are whole, newer, and have rows of those that landed;
    one was cut off."""
    path = files_of(world, hours(world)[1])[0]
    shutil.copy(path, path.with_name(f"dead-{path.name}"))
    path.with_name(f"cut-{path.name}").write_bytes(path.read_bytes()[:-9])
    return list(range(60))


def deleted_and_given_up(world: World, command: Command) -> list[int]:
    """Another engine deleted rows, nothing brought them back, and what is left was adopted."""
    take_all_hours(world)
    world.table.delete("n < 5")
    expire_all(world)
    said = command("table", "adopt", "--at", "rows", "--without-missing", "--execute")
    assert said["executed"]
    return list(range(5, 60))


@pytest.mark.parametrize("before", [undone, forgotten, compacted, dead_run, deleted_and_given_up])
@pytest.mark.parametrize(
    ("loss", "known"),
    [
        pytest.param(all_lists_and_manifests, True, id="kept"),
        pytest.param(all_lists_and_manifests, False, id="expired"),
        pytest.param(all_manifests, False, id="manifests"),
        pytest.param(all_lists, True, id="lists"),
    ],
)
def test_what_is_left_over_in_the_folder_is_not_listed(
    world: World,
    command: Command,
    loss: Callable[[World], None],
    before: Callable[[World, Command], list[int]],
    known: bool,
) -> None:
    """With all snapshots, or the newest only: nothing tells then which files have left."""
    wanted = before(world, command)
    if not known:
        expire_all(world)
    was = totals(world)
    loss(world)

    repaired(world, command)

    assert (numbers(world), totals(world)) == (wanted, was)
    goes_on(world, command, wanted)


def test_a_file_of_rows_that_come_later_is_left_over(world: World, command: Command) -> None:
    """It lies in no interval that has landed."""
    path = files_of(world, hours(world)[2])[0]
    newest = manifests(world)[-1]
    target = next(
        s for s in world.table.metadata.snapshots if s.snapshot_id == head(world).parent_snapshot_id
    )
    assert command("table", "rollback", str(target.snapshot_id), "--execute")["executed"]
    assert path.exists() and newest.exists()
    all_lists(world)

    repaired(world, command)

    assert numbers(world) == list(range(40))
    world.land()
    world.assert_each_log_once()


# --- tables that are not simple ---------------------------------------------------------------------


@pytest.fixture
def other(world: World) -> Iterator[World]:
    """A second logstore in the same table, which landed after the first."""
    settings = second_logstore(world)
    other = World(world.emulator, world.lake, settings, world.engine)
    other.land()
    yield other
    with other.client as client:
        client.transport.delete_logstore(PROJECT, settings.service.logstore)


@pytest.mark.parametrize("loss", [old_manifest, all_manifests, all_lists])
def test_the_files_of_every_logstore_of_the_table_are_listed_again(
    world: World, other: World, command: Command, loss: Callable[[World], None]
) -> None:
    rows = len(world.table_rows())
    loss(world)

    repaired(world, command)

    assert len(world.table_rows()) == rows
    for each in (world, other):
        each.assert_proved()
    world.land()
    other.land()


def test_it_is_refused_while_rows_of_another_logstore_would_be_missing(
    world: World, other: World, command: Command
) -> None:
    with other.client as client:
        origin = client.origin().id
    mine = [
        t.file.file_path
        for t in world.table.scan(row_filter=EqualTo(term="__origin__", value=origin)).plan_files()
    ]
    all_manifests(world)
    local(mine[0]).unlink()
    before = head(world).snapshot_id

    said = command(*REPAIR, "--execute")

    assert said["code"] == EXIT_FAILED and origin in said["error"] and printed(said["error"]) == [["verify"]]
    assert head(world).snapshot_id == before


@pytest.mark.parametrize("loss", [old_manifest, all_manifests, all_lists])
@pytest.mark.parametrize("together", [False, True], ids=["as landed", "compacted"])
def test_rows_of_a_shard_and_of_those_it_was_split_into_are_listed_again(
    world: World, command: Command, loss: Callable[[World], None], together: bool
) -> None:
    world.emulator.admin.split(PROJECT, world.logstore.service.logstore, 0)
    world.land()
    world.land_hours(2)
    if together:
        assert command("table", "maintain", "--execute", "--only", "compact")["compacted"]
    assert len({row["__shard__"] for row in world.table_rows()}) >= 3
    loss(world)

    repaired(world, command)

    world.land()
    world.assert_each_log_once()
    goes_on(world, command, list(range(100)))


def test_files_written_under_an_older_partitioning_are_listed_again(world: World, command: Command) -> None:
    assert command("table", "maintain", "--execute", "--only", "compact")["compacted"]
    with world.table.update_spec() as update:
        update.add_identity("__shard__")
    world.land_more(20, pass_s=HOUR_S)
    expire_all(world)
    all_lists_and_manifests(world)

    repaired(world, command)

    world.assert_sound()


# --- rows that are lost, too ------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [old_manifest, all_lists])
@pytest.mark.parametrize("expired", [False, True], ids=["kept", "expired"])
def test_a_data_file_lost_as_well_is_refused_and_what_is_named_gets_out(
    world: World, command: Command, loss: Callable[[World], None], expired: bool
) -> None:
    take_all_hours(world)
    lost = files_of(world, hours(world)[0])[0]
    gone = set(pq.read_table(lost, columns=["n"])["n"].to_pylist())
    if expired:
        expire_all(world)
    lost.unlink()
    loss(world)
    before = head(world).snapshot_id

    said = command(*REPAIR, "--execute")
    assert said["code"] == EXIT_FAILED and "its ledger says" in said["error"], said
    assert head(world).snapshot_id == before
    done = settle(world, command)

    assert [words[:2] for words in done if words[0] != "verify"] == [REPAIR, ["table", "adopt"]]
    assert numbers(world) == sorted(set(range(60)) - gone)
    goes_on(world, command, sorted(set(range(60)) - gone))


def test_what_the_service_still_has_of_a_lost_file_is_landed_again_after_it(
    world: World, command: Command
) -> None:
    lose(world, hours(world)[1])
    expire_all(world)
    all_lists_and_manifests(world)

    done = settle(world, command)

    assert done[0] == [*REPAIR, "--without-missing", "--execute"]
    assert any(words[0] == "backfill" for words in done)
    world.land()
    world.assert_each_log_once()


def test_a_file_that_is_listed_and_lost_is_given_up_after_the_others_are_listed_again(
    world: World, command: Command
) -> None:
    take_all_hours(world)
    lose(world, hours(world)[1])
    expire_all(world)
    manifests(world)[0].unlink()

    done = settle(world, command)

    assert [words[:2] for words in done] == [REPAIR, ["table", "give-up"]]
    assert numbers(world) == [*range(20), *range(40, 60)]
    goes_on(world, command, [*range(20), *range(40, 60)])


def test_rows_that_were_marked_as_deleted_are_no_reason_to_list_too_much(
    world: World, command: Command
) -> None:
    """The ledger knows them, so with the marks lost, too, they are there again."""
    marked(world)
    all_lists_and_manifests(world)

    repaired(world, command)

    assert numbers(world) == list(range(60))
    world.assert_each_log_once()


def test_removed_rows_do_not_come_back_while_others_are_missing(world: World, command: Command) -> None:
    take_all_hours(world)
    assert command("table", "forget", "--where", "n >= 20 and n < 40", "--execute")["executed"]
    lose(world, hours(world)[0])
    expire_all(world)
    all_lists_and_manifests(world)

    said = command(*REPAIR, "--without-missing", "--execute")

    assert said["executed"], said
    assert not set(numbers(world)) & set(range(20, 40))


# --- files that hold the same rows ------------------------------------------------------------------


def altered(file: Path, name: str) -> Path:
    """A copy beside a data file, with the same rows and other values."""
    rows = pq.read_table(file)
    place = rows.schema.get_field_index("n")
    values = pa.array([n + 1000 for n in rows["n"].to_pylist()], rows.schema.field(place).type)
    copy = file.with_name(name)
    pq.write_table(rows.set_column(place, rows.schema.field(place), values), copy)
    return copy


@pytest.mark.parametrize("loss", [all_manifests, all_lists])
@pytest.mark.parametrize("newer", [True, False])
def test_of_two_files_with_the_same_rows_and_other_values_none_is_chosen(
    world: World, command: Command, loss: Callable[[World], None], newer: bool
) -> None:
    file = files_of(world, hours(world)[0])[0]
    copy = altered(file, "brought.parquet")
    expire_all(world)
    loss(world)
    then_s = file.stat().st_mtime + (60 if newer else -60)
    os.utime(copy, (then_s, then_s))
    before = head(world).snapshot_id

    for options in ([], ["--without-missing"]):
        said = command(*REPAIR, *options, "--execute")
        assert said["code"] == EXIT_FAILED and "nobody can tell which" in said["error"], said
        assert {copy.name, file.name} <= set(re.findall(r"[\w.-]+\.parquet", said["error"]))
    assert head(world).snapshot_id == before

    copy.unlink()
    assert command(*REPAIR, "--execute")["executed"]
    assert numbers(world) == list(range(60))
    world.assert_each_log_once()


def test_a_copy_with_the_same_values_is_as_good_as_the_file(world: World, command: Command) -> None:
    file = files_of(world, hours(world)[0])[0]
    shutil.copy(file, file.with_name("brought.parquet"))
    all_lists(world)

    repaired(world, command)

    assert numbers(world) == list(range(60))
    world.assert_each_log_once()


def test_a_lost_file_that_is_restored_later_is_listed_with_those_that_were_left_out(
    world: World, command: Command, tmp_path: Path
) -> None:
    """What was left out for its sake is listed with it, although every manifest can be read by then."""
    file = files_of(world, hours(world)[1])[0]
    expire_all(world)
    aside = shutil.move(file, tmp_path / file.name)
    all_lists_and_manifests(world)
    assert command(*REPAIR, "--without-missing", "--execute")["executed"]
    missing = 60 - len(numbers(world))
    assert missing and command(*REPAIR, "--execute")["code"] != 0

    shutil.move(aside, file)

    said = command(*REPAIR, "--execute")
    assert said["executed"] and said["missing"] == 0
    assert numbers(world) == list(range(60))
    world.assert_each_log_once()
