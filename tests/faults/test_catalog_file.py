"""The catalog's own file is something else: every verb says so, touches nothing and names the cure."""

import os
import random
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.commit.lost_answer import loaded_again
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.trouble import unreachable
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, LandingUnknown, TransportError
from tests.faults.forked_run import disk
from tests.worlds.catalog_outage import Outage
from tests.worlds.command_line import Command
from tests.worlds.lost_metadata import newest_metadata
from tests.worlds.one_logstore import World, make_lake
from tests.worlds.printed_cures import ways

VERBS = [
    ("verify",),
    ("describe",),
    ("landings", "show"),
    ("land", "--dry-run"),
    ("table", "register"),
    ("table", "maintain"),
    ("checkpoints", "set", "--from", "ledger", "--to", "group", "--forward-only"),
]


def random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(7).randbytes(8192))


def a_text(path: Path) -> None:
    path.write_text("no catalog here\n" * 200)


def another_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()


def damaged(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        for n in range(50):
            connection.execute(f"CREATE TABLE iceberg_{n} (a TEXT)")
    connection.close()
    content = bytearray(path.read_bytes())
    content[100:4096] = bytes(3996)
    path.write_bytes(content)


def empty(path: Path) -> None:
    sqlite3.connect(path).close()
    path.touch()


@pytest.fixture
def world(calm: World) -> World:
    """A table with rows, of which the catalog's file is to know nothing."""
    calm.land_hours(1)
    return calm


def put_in_place(world: World, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verbs find `path` where the catalog should be; the warehouse is the same."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{path}?timeout=5")
    world.lake = type(world.lake)({**world.lake.properties, "uri": f"sqlite:///{path}?timeout=5"})


@pytest.mark.parametrize("junk", [random_bytes, a_text, another_program, damaged], ids=lambda f: f.__name__)
def test_a_file_that_is_no_catalog_is_named_with_its_cure_by_every_verb_and_left_as_it_is(
    world: World,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    junk: Callable[[Path], None],
) -> None:
    path, files = tmp_path / "junk.sqlite", world.files()
    junk(path)
    before = path.read_bytes()
    put_in_place(world, path, monkeypatch)
    said = [command(*verb) for verb in VERBS]
    with pytest.raises(ConfigError) as refused:
        world.land()
    told = {each["error"].removeprefix("sls-lake: ").strip() for each in said}
    (text,) = told
    assert {each["code"] for each in said} == {EXIT_USAGE} and text.startswith(str(refused.value))
    assert str(path) in text and "not touched" in text and "sls-lake table register" in text
    assert (path.read_bytes(), world.files()) == (before, files)

    path.rename(path.with_suffix(".aside"))
    done = command("table", "register", "--execute")
    assert done["code"] == 0, done
    world.assert_each_log_once()
    assert os.listdir(tmp_path).count("junk.aside") == 1


def test_a_catalog_that_is_away_is_no_wrong_call_of_any_verb(world: World, command: Command) -> None:
    outage = Outage(world)
    outage.begin()
    try:
        said = [command(*verb) for verb in VERBS]
    finally:
        outage.end()
    assert {each["code"] for each in said} == {EXIT_FAILED}, said
    assert all("Iceberg catalog" in str(each) for each in said)


def test_metadata_that_is_gone_says_nothing_of_a_commit_whose_answer_was_lost(world: World) -> None:
    name, uuid = world.logstore.table, str(world.table.metadata.table_uuid)
    newest = newest_metadata(world)
    newest.rename(newest.with_suffix(".aside"))
    with pytest.raises(LandingUnknown, match="the next run reads the table and knows"):
        loaded_again(world.lake, name, uuid, clock=SYSTEM_CLOCK, seconds_max=0.3)


def test_settings_that_no_catalog_opens_with_are_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="with these settings"):
        Lake({"type": "unheard-of", "warehouse": f"file://{tmp_path}"}).catalog()


def test_a_catalog_that_may_not_be_written_is_said_to_be_that(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    lake.catalog()
    assert lake.sqlite_path is not None
    closed = sqlite3.connect(f"file:{lake.sqlite_path}?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError) as refused:
        closed.execute("CREATE TABLE more (a TEXT)")
    closed.close()
    assert re.search(
        r"cannot be used: .*cannot be written; .*give the right", unreachable(lake.place, refused.value)
    )


def test_a_catalog_on_a_full_disk_is_said_to_be_that(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    disk(full=True)
    try:
        with pytest.raises(TransportError, match=r"cannot be used: its disk (is full|failed)"):
            lake.catalog()
    finally:
        disk(full=False)


def test_an_empty_file_is_a_catalog_that_lost_the_table(
    world: World, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "empty.sqlite"
    empty(path)
    put_in_place(world, path, monkeypatch)
    for verb in VERBS[:-3]:
        said = command(*verb)
        told = [said["error"], *said.get("problems", ()), *ways({"cures": (), **said})]
        assert said["code"] == EXIT_FAILED and any("sls-lake table register" in text for text in told), verb
    assert command("table", "register", "--execute")["code"] == 0
    world.assert_each_log_once()
