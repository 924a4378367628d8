"""The catalog loses the table, or is put back to an older state: nothing is begun anew in silence, nothing
of the old table is deleted, and the verb that is named puts it back.

The witness is DuckDB, which reads Parquet files alone, and PyIceberg's own reader of a metadata file.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.table import StaticTable

from chaos.engine import InProcess
from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.inspection.describe import preview
from pipelines.landing.inspection.verify import verify
from pipelines.landing.ledger.start import find_table
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.recovery.register import plan_register, register
from pipelines.landing.recovery.start_over import plan_start_over, start_over
from pipelines.landing.table.commands import REGISTER, START_OVER
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.former import number_of
from pipelines.landing.table.lake import Lake
from sls_io.emulator import start
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.cures import Call
from sls_io.values.errors import LandingConflict, LedgerBroken
from tests.worlds.command_line import Command
from tests.worlds.lost_metadata import CONTRACT, newest_metadata
from tests.worlds.one_logstore import HOUR0_S, PROJECT, World, logstore_settings, make_lake
from tests.worlds.printed_cures import first_call, ways

DAY_S = 24 * 3600.0
RETENTION_DAYS = 30


@pytest.fixture
def world(calm: World) -> World:
    """What the verbs are run on."""
    return calm


@pytest.fixture
def landed(calm: World) -> World:
    """Fifty logs in the table, in two landings."""
    calm.land_more(30)
    calm.land_more(20)
    return calm


def catalog_file(world: World) -> Path:
    path = world.lake.sqlite_path
    assert path is not None
    return path


def change(world: World, sql: str) -> None:
    """By hand in the catalog's database, as a person with a client would."""
    connection = sqlite3.connect(catalog_file(world), timeout=30)
    with connection:
        connection.execute(sql)
    connection.close()


def delete_row(world: World) -> None:
    change(world, "delete from iceberg_tables")


def empty_catalog(world: World) -> None:
    change(world, "delete from iceberg_tables")
    change(world, "delete from iceberg_namespace_properties")


def remove_file(world: World) -> None:
    """As on another machine, where no process has the old file open any more."""
    copy = catalog_file(world).with_name("elsewhere.sqlite")
    world.lake = Lake({**world.lake.properties, "uri": f"sqlite:///{copy}?timeout=30"})


LOSSES: list[Callable[[World], None]] = [delete_row, empty_catalog, remove_file]


def remove_warehouse(world: World) -> Path:
    return Path(world.lake.properties["warehouse"].removeprefix("file://"))


def table_folder(world: World) -> Path:
    return folder_of(world)


def metadata_folder(world: World) -> Path:
    return folder_of(world) / "metadata"


GONE: dict[Callable[[World], Path], str] = {
    remove_warehouse: "the whole warehouse",
    table_folder: "the table's folder",
    metadata_folder: "its metadata folder",
    newest_metadata: "is gone",
}
"""What is removed under a catalog whose row stays -> what is said of it."""


def retention_takes_all(world: World) -> None:
    world.emulator.admin.advance((RETENTION_DAYS + 1) * DAY_S)


def on_disk(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def folder_of(world: World) -> Path:
    return Path(world.table.location().removeprefix("file://"))


def age(folder: Path) -> None:
    at = SYSTEM_CLOCK.now() - 3 * DAY_S
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (at, at))


def verb_of(said: dict[str, Any]) -> list[str]:
    return first_call(said["error"])


@pytest.mark.parametrize("lose", LOSSES, ids=lambda f: f.__name__)
def test_a_table_that_the_catalog_lost_is_refused_until_the_verb_as_printed_puts_it_back(
    landed: World, command: Command, monkeypatch: pytest.MonkeyPatch, lose: Callable[[World], None]
) -> None:
    folder = folder_of(landed)
    lose(landed)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", landed.lake.properties["uri"])
    retention_takes_all(landed)
    landed.put(5, pass_s=60)
    before = on_disk(folder)

    with pytest.raises(LedgerBroken, match=r"but there was one.*with 3 snapshots") as refused:
        landed.run().land()
    assert REGISTER.words in [cure.words for cure in refused.value.cures if isinstance(cure, Call)]
    for asked in (("land", "--dry-run"), ("describe",), ("landings", "show")):
        said = command(*asked)
        assert said["code"] == EXIT_FAILED and verb_of(said) == ["table", "register", "--execute"], asked
    proof = command("verify")
    assert proof["code"] == EXIT_FAILED and "sls-lake table register" in str(ways(proof))
    assert on_disk(folder) == before and sorted(folder.parent.iterdir()) == [folder]

    dry = command(*verb_of(said)[:-1])
    assert dry["code"] == 0 and dry["rows"] == 50 and dry["trouble"] == [] and not dry["executed"]
    with pytest.raises(LedgerBroken):
        landed.run().land()
    done = command(*verb_of(said))
    assert done["code"] == 0 and done["executed"]
    landed.land()

    assert len(landed.table_rows()) == 55 and max(landed.identities().values()) == 1
    assert command("verify")["code"] == 0
    assert counted(landed.published()) == 55
    age(folder)
    maintained = Maintainer(landed.logstore, landed.lake).execute()
    assert not maintained.unsettled
    landed.assert_proved()
    assert len(landed.table_rows()) == 55 and counted(landed.published()) == 55


def counted(files: list[str]) -> int:
    """Rows in these files, as DuckDB counts them."""
    with duckdb.connect() as db:
        found = db.execute("select count(*) from read_parquet(?)", [files]).fetchone()
    assert found is not None
    return int(found[0])


def test_a_catalog_from_an_older_backup_is_refused_until_the_newest_metadata_is_registered(
    landed: World, command: Command
) -> None:
    old = landed.table.metadata_location
    landed.land_more(10)
    landed.land_more(10)
    newest = landed.table.metadata_location
    change(landed, f"update iceberg_tables set metadata_location = '{old}'")
    folder, before = folder_of(landed), on_disk(folder_of(landed))
    age(folder)

    with pytest.raises(LedgerBroken, match="names an older state") as refused:
        landed.run().land()
    assert REGISTER.words in [cure.words for cure in refused.value.cures if isinstance(cure, Call)]
    with pytest.raises(LedgerBroken, match="names an older state"):
        Maintainer(landed.logstore, landed.lake).execute()
    assert "older state" in command("landings", "show")["trouble"]
    assert "older state" in str(command("verify")["problems"])
    assert on_disk(folder) == before

    dry = command("table", "register")
    assert dry["metadata"].endswith(newest.rsplit("/", 1)[-1]) and dry["rows"] == 70
    assert command("table", "register", "--execute")["code"] == 0
    assert landed.table.metadata_location == newest
    landed.land()
    landed.assert_sound()
    again = command("table", "register")
    assert again["code"] == EXIT_USAGE and "newest metadata" in again["error"]


def test_no_loss_is_named_while_the_folder_has_one_commit_more_than_a_restored_catalog(
    landed: World, command: Command
) -> None:
    old = landed.table.metadata_location
    landed.land_more(10)
    newest = landed.table.metadata_location
    change(landed, f"update iceberg_tables set metadata_location = '{old}'")
    landed.put(5)
    retention_takes_all(landed)
    age(folder_of(landed))

    told = command("verify")
    assert told["code"] == EXIT_FAILED and "older state" in str(told["problems"])
    with pytest.raises(LedgerBroken, match="names an older state") as refused:
        landed.run().land()
    assert REGISTER.words in [cure.words for cure in refused.value.cures if isinstance(cure, Call)]
    assert command("table", "register", "--execute")["metadata"] == newest
    landed.land()
    assert len(landed.table_rows()) == 60
    landed.assert_proved()


def test_what_a_refused_or_killed_commit_left_is_no_newer_state(landed: World) -> None:
    name = Path(landed.table.metadata_location).name
    left = name.replace(f"{number_of(name):05d}-", f"{number_of(name) + 1:05d}-")
    path = folder_of(landed) / "metadata" / left
    shutil.copyfile(folder_of(landed) / "metadata" / name, path)

    landed.land_more(5)
    landed.assert_each_log_once()


def test_a_row_that_names_no_metadata_is_told_so_and_registered_again(
    landed: World, command: Command
) -> None:
    newest = landed.table.metadata_location
    change(landed, "update iceberg_tables set metadata_location = null")

    for asked in (("land", "--dry-run"), ("landings", "show"), ("describe",)):
        said = command(*asked)
        assert said["code"] == EXIT_FAILED
        assert "names no metadata file" in said["error"]
        assert verb_of(said) == ["table", "register", "--execute"]
    assert command("verify")["code"] == EXIT_FAILED
    assert command("table", "register", "--execute")["code"] == 0
    assert landed.table.metadata_location == newest
    landed.land_more(5)
    landed.assert_each_log_once()


def test_a_table_that_is_given_up_gets_a_new_folder_and_the_old_files_stay(
    landed: World, command: Command
) -> None:
    folder = folder_of(landed)
    delete_row(landed)
    before = on_disk(folder)
    dry = command("table", "start-over")
    assert dry["code"] == 0 and "metadata of table" in str(dry["found"])
    with pytest.raises(LedgerBroken):
        landed.run().land()

    done = command("table", "start-over", "--execute")
    assert done["code"] == 0
    landed.land_more(5)

    assert folder_of(landed) != folder and folder_of(landed).parent == folder.parent
    landed.assert_sound()
    age(folder)
    age(folder_of(landed))
    assert not Maintainer(landed.logstore, landed.lake).execute().unsettled
    assert on_disk(folder) == before
    again = command("table", "start-over", "--execute")
    assert again["code"] == EXIT_USAGE and "nothing to give up" in again["error"]


@pytest.mark.parametrize("lose", GONE, ids=lambda f: f.__name__)
def test_what_is_gone_under_a_row_that_stays_is_told_by_every_verb_and_given_up_or_restored(
    landed: World, command: Command, tmp_path: Path, lose: Callable[[World], Path]
) -> None:
    says = GONE[lose]
    lost, kept, name = lose(landed), tmp_path / "aside", Path(landed.table.metadata_location).name
    registrable = lose is newest_metadata
    shutil.move(lost, kept)
    hour = "2026-09-21-13:00"
    for asked in (
        ("land", "--dry-run"),
        ("describe",),
        ("landings", "show"),
        ("verify",),
        ("table", "maintain", "--execute"),
        ("table", "adopt"),
        ("table", "relabel"),
        ("table", "rollback", "1"),
        ("table", "undo", "--hour", hour),
        ("table", "forget", "--before", hour),
        ("backfill", "--mode", "replace", "--local", "--from", hour),
        ("backfill", "--mode", "errors", "--local", "--from", hour),
        ("checkpoints", "set", "--from", "ledger", "--to", "group", "--forward-only"),
    ):
        said = command(*asked)
        told = said["error"] + str(said.get("problems")) + str(said.get("cures"))
        assert said["code"] == EXIT_FAILED, (asked, said)
        assert name in told and says in told and "sls-lake table start-over" in told, (asked, told)
        assert ("sls-lake table register" in told) == registrable, (asked, told)
    with pytest.raises(LedgerBroken, match="is gone"):
        landed.run().land()
    dry = command("table", "start-over")
    assert dry["code"] == 0 and says.partition(".")[0] in str(dry["found"]) and not dry["executed"]
    refused = command("table", "register", "--execute")
    assert refused["code"] == (EXIT_FAILED if registrable else EXIT_USAGE)
    assert not registrable or "which is gone" in refused["error"]

    kept = Path(shutil.move(kept, lost))
    landed.land_more(5)
    landed.assert_sound()
    assert command("table", "start-over")["code"] == EXIT_USAGE

    old = folder_of(landed)
    shutil.move(lose(landed), tmp_path / "aside")
    done = command("table", "start-over", "--execute")
    assert done["code"] == 0 and done["location"] != f"file://{old}", done
    landed.land_more(5)
    assert folder_of(landed) != old
    landed.assert_sound()


def test_a_row_that_names_no_metadata_where_no_file_is_left_is_given_up(
    landed: World, command: Command
) -> None:
    shutil.rmtree(folder_of(landed))
    change(landed, "update iceberg_tables set metadata_location = null")
    said = command("land", "--dry-run")
    assert "names no metadata file" in said["error"] and "sls-lake table start-over" in said["error"]
    assert command("table", "start-over", "--execute")["code"] == 0
    landed.land_more(5)
    landed.assert_each_log_once()


def test_giving_up_is_refused_when_the_files_are_there_again_by_then(landed: World, tmp_path: Path) -> None:
    folder = folder_of(landed)
    shutil.move(folder, tmp_path / "aside")
    planned = landed.asked(plan_start_over)
    shutil.move(tmp_path / "aside", folder)
    with pytest.raises(LandingConflict, match="something else"):
        start_over(landed.lake, planned)
    landed.assert_proved()


def test_metadata_that_only_a_later_release_reads_is_not_given_up(landed: World, command: Command) -> None:
    path = newest_metadata(landed)
    path.write_text(path.read_text().replace('"format-version":2', '"format-version":9'))
    said = command("table", "start-over", "--execute")
    assert said["code"] == EXIT_FAILED and "is whole" in said["error"]


def test_a_second_loss_finds_the_newer_of_two_folders(landed: World, command: Command) -> None:
    delete_row(landed)
    assert command("table", "start-over", "--execute")["code"] == 0
    landed.land_more(5)
    uuid = str(landed.table.metadata.table_uuid)
    delete_row(landed)

    assert command("table", "register", "--execute")["uuid"] == uuid
    landed.land_more(5)
    landed.assert_each_log_once()


@pytest.mark.parametrize("empty", [True, False], ids=["empty shards", "with logs"])
def test_checkpoints_of_the_group_say_that_there_was_a_table(
    calm: World, command: Command, empty: bool
) -> None:
    """The warehouse went with the catalog; only the service remembers."""
    if not empty:
        calm.put(20)
    calm.emulator.admin.advance(60)
    calm.land()
    folder = folder_of(calm)
    delete_row(calm)
    shutil.rmtree(folder)

    if empty:
        calm.land_more(5)  # nothing was read by anybody, so nothing can be lost
        calm.assert_each_log_once()
        return
    with pytest.raises(LedgerBroken, match="group lake has checkpoints of shards 0, 1") as refused:
        calm.run().land()
    assert refused.value.cures[-1] == START_OVER
    for asked in (("land", "--dry-run"), ("describe",)):
        assert verb_of(command(*asked)) == ["table", "start-over"]
    assert "checkpoints" in str(command("verify")["problems"])
    calm.land(logstore=calm.changed(reset="group"))
    assert calm.table_rows() == []


def test_every_verb_that_asks_the_service_sees_the_table_that_only_checkpoints_remember(
    landed: World, command: Command
) -> None:
    folder = folder_of(landed)
    delete_row(landed)
    shutil.rmtree(folder)
    hour = "2026-09-21-13:00"
    for asked in (
        ("table", "relabel"),
        ("table", "adopt"),
        ("table", "undo", "--hour", hour),
        ("table", "forget", "--before", hour),
        ("backfill", "--mode", "replace", "--local", "--from", hour),
        ("checkpoints", "set", "--from", "ledger", "--to", "group", "--forward-only"),
    ):
        assert verb_of(command(*asked)) == ["table", "start-over"], asked

    assert command(*verb_of(command("land", "--dry-run")), "--execute")["code"] == 0
    landed.land()
    landed.assert_each_log_once()


def test_what_a_run_left_that_was_killed_while_it_made_the_table_is_no_table(calm: World) -> None:
    calm.lake.ensure(calm.logstore.table, Contract.from_columns(calm.logstore.columns))
    metadata = Path(calm.table.metadata_location.removeprefix("file://"))
    delete_row(calm)
    torn = metadata.with_name("00000-00000000-0000-0000-0000-000000000000.metadata.json")
    torn.write_bytes(metadata.read_bytes()[:100])

    calm.land_more(20)
    calm.assert_sound()


def test_data_without_metadata_says_that_there_was_a_table(landed: World, command: Command) -> None:
    folder = folder_of(landed)
    delete_row(landed)
    for path in (folder / "metadata").glob("*.metadata.json"):
        path.unlink()

    with pytest.raises(LedgerBroken, match="no metadata with a snapshot") as refused:
        landed.run().land()
    assert refused.value.cures[-1] == START_OVER
    said = command("table", "register")
    assert said["code"] == EXIT_USAGE and "nothing to register" in said["error"]


def test_a_new_logstore_in_a_warehouse_whose_catalog_is_gone_is_refused(landed: World) -> None:
    empty_catalog(landed)
    other = landed.changed(table="bronze.others", group={**landed.logstore.group.model_dump(), "name": "x"})
    with pytest.raises(
        LedgerBroken, match=f"may have been.*knows no table there.*{landed.logstore.name}"
    ) as told:
        landed.run(logstore=other).land()
    assert "a folder of its own" in str(told.value.cures)


def test_the_sweep_deletes_nothing_in_a_folder_that_holds_another_tables_metadata(
    landed: World, command: Command
) -> None:
    """As an earlier release left it: the new table began in the folder of the lost one."""
    folder, old = folder_of(landed), landed.table
    delete_row(landed)
    landed.lake.create(landed.logstore.table, CONTRACT)
    landed.land(logstore=landed.changed(columns={"n": "long"}))
    age(folder)
    before = set(on_disk(folder))

    planned = Maintainer(landed.logstore, landed.lake).plan()
    done = Maintainer(landed.logstore, landed.lake).execute()

    for each in (planned, done):
        assert each.swept == () and each.metadata == () and each.unsettled
        assert any(str(old.metadata.table_uuid) in why for why in each.put_off)
    assert before <= set(on_disk(folder))
    assert len(StaticTable.from_metadata(old.metadata_location).scan().to_arrow()) == 50
    shown = command("landings", "show", "--older-than", "0")
    assert shown["orphans"] is None and str(old.metadata.table_uuid) in str(shown["others"])
    assert str(old.metadata.table_uuid) in str(command("verify")["notes"])


def test_the_sweep_deletes_nothing_beside_metadata_that_nobody_can_read(landed: World) -> None:
    strange = folder_of(landed) / "metadata" / "00007-someone.metadata.json"
    strange.write_bytes(b"\x00 not json")
    orphan = Path(landed.published()[0]).with_name("left.parquet")
    orphan.write_bytes(b"1234")
    age(folder_of(landed))

    done = Maintainer(landed.logstore, landed.lake).execute()
    assert done.unsettled and any("00007-someone" in why for why in done.put_off)
    assert strange.exists() and orphan.exists()

    strange.unlink()
    assert not Maintainer(landed.logstore, landed.lake).execute().unsettled
    assert not orphan.exists()
    landed.assert_proved()


def test_registering_is_refused_when_the_catalog_says_something_else_by_then(landed: World) -> None:
    row = landed.table.metadata_location
    delete_row(landed)
    planned = landed.asked(plan_register)
    landed.lake.catalog().register_table(landed.logstore.table, row)
    with pytest.raises(LandingConflict, match="something else"):
        register(landed.lake, planned)


def test_a_logstore_made_again_within_the_second_of_its_creation_is_not_taken_for_the_old_one(
    tmp_path: Path,
) -> None:
    with start(tmp_path / "emulator", now=HOUR0_S + 60.0) as emulator:
        settings = logstore_settings(emulator, "access_logs", budget={"settle_s": 0})
        world = World(emulator, make_lake(tmp_path / "lake"), settings, InProcess())
        with world.client as client:
            client.transport.create_project(PROJECT, "")
            client.transport.create_logstore(PROJECT, "access_logs", ttl=30, shard_count=2)
            old = client.origin()
        world.land_more(40, until_s=HOUR0_S + 90.0)
        assert world.land().rows + world.reports[0].rows == 40
        frontiers = {s: e.frontier for s, e in world.ledger.shards.items()}
        with world.client as client:
            client.transport.delete_logstore(PROJECT, "access_logs")
            world.at(HOUR0_S + 60.0)
            client.transport.create_logstore(PROJECT, "access_logs", ttl=30, shard_count=2)
            assert client.origin() == old
        world.put(5, until_s=HOUR0_S + 120.0)

        with pytest.raises(LedgerBroken, match="made again within the second of its creation"):
            world.run().land()
        with world.client as client, pytest.raises(LedgerBroken, match="the service has less than"):
            preview(world.logstore, world.lake, client)
        with world.client as client:
            assert not verify(world.logstore, world.lake, client).ok
        assert {s: e.frontier for s, e in world.ledger.shards.items()} == frontiers


def test_a_catalog_that_is_no_file_is_said_before_any_cure(landed: World, tmp_path: Path) -> None:
    """A folder that is mistyped, or not mounted, looks like a lost catalog."""
    nowhere = {
        "uri": f"sqlite:///{tmp_path}/no/catalog.sqlite",
        "warehouse": f"file://{tmp_path}/no/warehouse",
    }
    elsewhere = Lake({**landed.lake.properties, **nowhere})

    with landed.client as client, pytest.raises(LedgerBroken, match="a file that is not there") as refused:
        find_table(elsewhere, landed.logstore, client)

    assert "SLS_LAKE_HOME" in str(refused.value.cures[0])
