"""Columns are shown beside the declared ones, renamed, and given the declared type; no row is lost."""

from pathlib import Path

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.table.commands import retype
from sls_io.values.errors import ConfigError
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World

COLUMNS = ("table", "columns")


@pytest.fixture
def landed(world: World) -> World:
    """Twenty rows with `n` long and `status` int, all proven; ten more are there."""
    return world.begun(20, 10)


def declare(world: World, folder: Path, **columns: str) -> None:
    """The logstore's columns from now on, for runs and for the command line."""
    world.logstore = world.changed(columns=columns)
    path, said = folder / "defs.yaml", ", ".join(f"{name}: {kind}" for name, kind in columns.items())
    path.write_text(path.read_text().replace("columns: {n: long, status: int}", f"columns: {{{said}}}"))


def note(document: dict[str, object], column: str) -> str:
    """What is said of a column."""
    rows = document["columns"]
    assert isinstance(rows, list)
    return next(str(row["note"]) for row in rows if row["name"] == column)


def test_columns_that_are_as_declared_change_nothing(landed: World, command: Command) -> None:
    head = landed.table.metadata.current_snapshot_id

    shown, done = command(*COLUMNS), command(*COLUMNS, "--execute")

    assert (shown["code"], done["code"], done["committed"]) == (0, 0, None)
    assert {note(shown, name) for name in ("n", "status", "__rest__")} == {""}
    assert landed.table.metadata.current_snapshot_id == head


def test_a_type_that_iceberg_cannot_change_begins_beside_the_old_column(
    landed: World, command: Command, tmp_path: Path
) -> None:
    declare(landed, tmp_path, n="long", status="double")
    with pytest.raises(ConfigError, match="begin anew") as refused:
        landed.land()
    assert refused.value.cures == (retype("status"),)
    assert "nothing lands" in note(command(*COLUMNS), "status")
    head = landed.table.metadata.current_snapshot_id
    assert command(*COLUMNS, "--retype", "status")["committed"] is None
    assert landed.table.metadata.current_snapshot_id == head

    done = command(*COLUMNS, "--retype", "status", "--execute")

    assert done["code"] == 0, done
    assert done["changes"] == ["status becomes status_int, with all its values", "status begins as double"]
    assert landed.land().rows == 10
    rows = landed.table.scan().to_arrow().to_pylist()
    assert sorted(str((row["status_int"], row["status"])) for row in rows) == sorted(
        ["(200, None)"] * 20 + ["(None, 200.0)"] * 10
    )
    assert command("verify")["code"] == 0


def test_two_types_that_changed_are_settled_by_the_command_that_is_printed_and_one_by_one(
    landed: World, command: Command, tmp_path: Path
) -> None:
    declare(landed, tmp_path, n="string", status="double")
    with pytest.raises(ConfigError) as refused:
        landed.land()
    assert refused.value.cures == (retype("n", "status"),)
    first = command(*COLUMNS, "--retype", "n", "--execute")
    assert first["changes"] == ["n becomes n_long, with all its values", "n begins as string"]
    assert "nothing lands" in note(first, "status")
    with pytest.raises(ConfigError) as refused:
        landed.land()
    assert refused.value.cures == (retype("status"),)
    assert command(*COLUMNS, "--retype", "status", "--execute")["code"] == 0
    assert landed.land().rows == 10
    assert command("verify")["code"] == 0


def test_a_type_that_iceberg_can_change_keeps_the_column(
    landed: World, command: Command, tmp_path: Path
) -> None:
    declare(landed, tmp_path, n="long", status="long")
    assert "with the next landing" in note(command(*COLUMNS), "status")

    done = command(*COLUMNS, "--retype", "status", "--execute")

    assert done["changes"] == ["status becomes long, with all its values"]
    assert landed.land().rows == 10
    assert {row["status"] for row in landed.table.scan().to_arrow().to_pylist()} == {200}
    landed.assert_each_log_once()


def test_a_renamed_column_keeps_its_values_and_the_declared_one_begins_anew(
    landed: World, command: Command
) -> None:
    done = command(*COLUMNS, "--rename", "status=code", "--execute")

    assert done["code"] == 0 and "is made by the next landing" in note(done, "status")
    assert landed.land().rows == 10
    rows = landed.table.scan().to_arrow().to_pylist()
    assert sorted(str((row["code"], row["status"])) for row in rows) == sorted(
        ["(200, None)"] * 20 + ["(None, 200)"] * 10
    )
    told = [entry["verb"] for entry in command("landings", "show")["landings"]]
    assert "columns status becomes code, with all its values" in told


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--rename", "__shard__=shard"), "sls-lake's own column"),
        (("--rename", "status=n"), "two columns 'n'"),
        (("--rename", "status=N"), "two columns 'N'"),
        (("--rename", "status=_file"), "metadata column of Iceberg"),
        (("--rename", "sttus=code"), "no column 'sttus'"),
        (("--retype", "status"), "has the declared type already"),
        (("--retype", "nosuch"), "no column 'nosuch'"),
        (("--rename", "status"), "no OLD=NEW"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    landed: World, command: Command, arguments: tuple[str, ...], why: str
) -> None:
    head = landed.table.metadata.current_snapshot_id
    said = command(*COLUMNS, *arguments, "--execute")
    assert said["code"] in (EXIT_USAGE, EXIT_FAILED) and why in said["error"]
    assert landed.table.metadata.current_snapshot_id == head
