"""Other hands let files be written to other folders: nothing that is needed is ever swept, and a table whose
metadata lies elsewhere is refused, found again by its file, and goes on once that is taken back."""

import os
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import RemovePropertiesUpdate, SetPropertiesUpdate

from pipelines.landing.hours import hour_text
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import LedgerBroken
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World
from tests.worlds.printed_cures import first_call

METADATA, DATA, HASHED = "write.metadata.path", "write.data.path", "write.object-storage.enabled"


@pytest.fixture
def world(calm: World) -> World:
    """Two receive hours of 20 rows, and 20 logs to come."""
    return calm.land_hours(2, more=20)


def set_property(world: World, name: str, value: str) -> None:
    world.table.catalog.commit_table(world.table, (), (SetPropertiesUpdate(updates={name: value}),))


def unset_property(world: World, name: str) -> None:
    world.table.catalog.commit_table(world.table, (), (RemovePropertiesUpdate(removals=[name]),))


def write_anew(table: Table) -> None:
    """Another engine writes the files of the table anew, where the table's properties say."""
    table.overwrite(table.scan().to_arrow())


def age(world: World) -> None:
    at = SYSTEM_CLOCK.now() - 3 * 24 * 3600.0
    for path in Path(world.lake.properties["warehouse"].removeprefix("file://")).rglob("*"):
        if path.is_file():
            os.utime(path, (at, at))


def left_over(world: World) -> Path:
    """A file that nobody needs, as a killed run leaves it."""
    path = Path(world.published()[0]).with_name("left-over.parquet")
    path.write_bytes(b"1234")
    return path


def assert_swept_and_whole(world: World, command: Command) -> None:
    """What nobody needs is swept, all kept snapshots can be read, the table proves, an hour is taken back."""
    orphan = left_over(world)
    age(world)
    done = command("table", "maintain", "--execute")
    assert done["code"] == 0 and not orphan.exists(), done
    for snapshot in world.table.metadata.snapshots:
        world.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    world.assert_whole()
    hour = min(w.window.hour for _, windows in world.landings() for w in windows if w.rows)
    assert command("table", "undo", "--hour", hour_text(hour), "--execute")["rows"] == 20
    assert command("verify")["ok"]


@pytest.mark.parametrize("place", ["elsewhere", "data/inside", "metadata"])
def test_files_that_another_engine_wrote_to_another_data_folder_are_kept_by_the_sweep(
    world: World, command: Command, place: str
) -> None:
    location = world.table.location()
    set_property(world, DATA, f"{location}-{place}" if place == "elsewhere" else f"{location}/{place}")
    write_anew(world.table)
    assert world.land().rows == 20
    assert_swept_and_whole(world, command)


def test_the_layout_for_object_storage_is_swept_like_any_other(world: World, command: Command) -> None:
    set_property(world, HASHED, "true")
    write_anew(world.table)
    assert world.land().rows == 20
    assert_swept_and_whole(world, command)


@pytest.mark.parametrize("place", ["-elsewhere", "/data", "/data/inside", ""])
def test_metadata_that_was_written_elsewhere_for_a_while_is_kept_by_the_sweep(
    world: World, command: Command, place: str
) -> None:
    set_property(world, METADATA, f"{world.table.location()}{place}")
    write_anew(world.table)
    with pytest.raises(LedgerBroken, match=METADATA):
        world.land()
    unset_property(world, METADATA)
    assert world.land().rows == 20
    assert_swept_and_whole(world, command)


def test_statistics_in_the_data_folder_are_kept_by_the_sweep(world: World, command: Command) -> None:
    path = Path(world.published()[0]).with_name("statistics.puffin")
    path.write_bytes(b"PFA1")
    head = world.table.metadata.current_snapshot_id
    with world.table.update_statistics() as update:
        update.set_statistics(
            StatisticsFile.model_validate(
                {
                    "snapshot-id": head,
                    "statistics-path": f"file://{path}",
                    "file-size-in-bytes": 4,
                    "file-footer-size-in-bytes": 4,
                    "blob-metadata": [],
                }
            )
        )
    assert world.land().rows == 20
    age(world)
    assert command("table", "maintain", "--execute")["code"] == 0
    assert path.exists()


def test_a_lost_table_whose_metadata_lies_elsewhere_is_registered_by_its_file(
    world: World, command: Command
) -> None:
    set_property(world, METADATA, f"{world.table.location()}-elsewhere")
    table, folder = world.table, Path(world.table.location().removeprefix("file://"))
    for path in (folder / "metadata").glob("*.metadata.json"):
        path.unlink()
    table.catalog.drop_table(world.logstore.table)
    said = command("land", "--dry-run")
    assert "sls-lake table register --metadata FILE --execute" in said["error"], said

    named = ("table", "register", "--metadata", table.metadata_location)
    dry = command(*named)
    assert dry["rows"] == 40 and METADATA in str(dry["trouble"]), dry
    assert command(*named, "--execute")["code"] == 0
    refused = command("land", "--dry-run")
    assert "UNSET TBLPROPERTIES ('write.metadata.path')" in refused["error"]
    unset_property(world, METADATA)
    world.assert_next_lands(20)


def test_a_folder_with_blanks_is_registered_as_the_refusal_prints_it(
    world: World, command: Command, tmp_path: Path
) -> None:
    set_property(world, METADATA, f"file://{tmp_path}/a place")
    location = world.table.metadata_location
    world.table.catalog.drop_table(world.logstore.table)
    assert command("table", "register", "--metadata", location, "--execute")["code"] == 0
    Path(location.removeprefix("file://")).write_bytes(b"{")
    refused = command("table", "register", "--execute")
    words = first_call(refused["error"])
    assert command(*words)["code"] == 0, refused
    world.assert_next_lands(20)
