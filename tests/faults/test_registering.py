"""`table register`: one table gets no second name, and what verify says of lost metadata can be run."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.recovery.register import plan_register, register
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError
from tests.worlds.command_line import Command
from tests.worlds.lost_metadata import CONTRACT, newest_metadata
from tests.worlds.one_logstore import World


@pytest.fixture
def world(calm: World) -> World:
    """What the verbs are run on."""
    return calm


@pytest.fixture
def renamed(calm: World) -> tuple[World, str]:
    """Twenty logs in a table that somebody gave this name."""
    calm.land_more(20)
    name = f"{calm.logstore.table}_2"
    calm.lake.catalog().rename_table(calm.logstore.table, name)
    return calm, name


def names(lake: Lake, table: str) -> set[str]:
    return {".".join(found) for found in lake.catalog().list_tables(table.split(".", maxsplit=1)[0])}


def test_a_table_that_the_catalog_has_under_another_name_is_not_registered_under_a_second_one(
    renamed: tuple[World, str], command: Command
) -> None:
    world, other = renamed
    metadata = world.lake.catalog().load_table(other).metadata_location

    for more in ((), ("--execute",), ("--metadata", metadata, "--execute")):
        said = command("table", "register", *more)
        assert said["code"] == EXIT_USAGE, more
        assert "has this very table" in said["error"] and f" as {other}: " in said["error"]
    assert names(world.lake, other) == {other}

    assert f"ALTER TABLE lake.{other} RENAME TO {world.logstore.table}" in said["error"]
    world.lake.catalog().rename_table(other, world.logstore.table)
    world.land_more(5)
    world.assert_each_log_once()
    assert command("verify")["code"] == 0


def test_a_renamed_table_is_landed_in_again_once_the_settings_have_its_new_name(
    renamed: tuple[World, str],
) -> None:
    world, other = renamed
    with world.client as client, pytest.raises(ConfigError, match=f"`table: {other}`"):
        plan_register(world.lake, world.logstore, client)
    world.logstore = world.changed(table=other)
    world.land_more(5)
    world.assert_sound()


def test_other_tables_of_the_namespace_are_no_second_name_and_one_that_cannot_be_loaded_is_passed_over(
    calm: World,
) -> None:
    calm.land_more(20)
    newest, beside = calm.table.metadata_location, f"{calm.logstore.table}_a"
    calm.lake.create(beside, CONTRACT)
    torn = calm.lake.create(f"{calm.logstore.table}_b", CONTRACT)
    calm.lake.catalog().drop_table(calm.logstore.table)
    shutil.rmtree(Path(torn.location().removeprefix("file://")) / "metadata")
    planned = calm.asked(plan_register)
    assert planned.view.notes == ()
    assert register(calm.lake, planned).metadata_location == newest


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:300])


@pytest.mark.parametrize(("lose", "told"), [(cut, "cut off"), (Path.unlink, "is gone")])
def test_the_cure_that_verify_prints_for_metadata_shows_the_call_that_works(
    calm: World, command: Command, lose: Callable[[Path], None], told: str
) -> None:
    """What is there without the newest metadata is registered only when it is named."""
    calm.land_more(30)
    calm.land_more(20)
    newest = newest_metadata(calm)
    lose(newest)
    looked = command("landings", "show")
    assert looked["code"] == EXIT_FAILED and told in looked["error"]
    said = command("verify", json=False)
    cure = re.search(
        r"(sls-lake table register(?: -\S+)*)(?: -l \S+)? +# shows what can be put back", said["text"]
    )
    assert cure, said
    dry = command(*shlex.split(cure[1])[1:])
    assert dry["code"] == 0 and not dry["executed"], dry
    assert any(newest.name in trouble for trouble in dry["trouble"])
    refused = command("table", "register", "--execute")
    assert refused["code"] == EXIT_FAILED and dry["does_it"]["call"] in refused["error"]
    assert command(*shlex.split(dry["does_it"]["call"])[1:])["rows"] == 30
    calm.land_more(5)
    calm.assert_each_log_once()
    assert command("verify")["code"] == 0


def test_an_older_state_is_registered_by_its_name_alone_and_says_what_that_undoes(
    world: World, command: Command
) -> None:
    world.land_more(20)
    old = world.table.metadata_location
    assert command("table", "forget", "--where", "n = 3", "--execute")["rows"] == 1

    dry = command("table", "register", "--metadata", old)

    assert any("a later state" in text and "removed for good are back" in text for text in dry["trouble"])
    assert command("table", "register")["code"] == EXIT_USAGE
    assert len(world.table_rows()) == 19
