"""Catalog and warehouse come back together from an older backup: the table agrees with itself, and the group
knows that it has been further."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sls_io.values.claim import GAP_EXPIRED
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World

DAY_S = 24 * 3600.0


@pytest.fixture
def world(calm: World) -> World:
    """What the verbs are run on."""
    return calm


def restored(world: World, tmp_path: Path) -> World:
    """A world whose lake is a copy of before its last landing of ten logs, with five more to come."""
    path = world.lake.sqlite_path
    assert path is not None
    warehouse, copy = path.parent / "warehouse", tmp_path / "copy"
    world.land_more(30)
    shutil.copytree(warehouse, copy)
    backup(path, tmp_path / "catalog.copy")
    world.land_more(10)
    world.put(5, pass_s=60)
    shutil.rmtree(warehouse)
    shutil.copytree(copy, warehouse)
    backup(tmp_path / "catalog.copy", path)
    return world


def backup(of: Path, to: Path) -> None:
    """As `.backup` and `.restore` of SQLite's own shell: connections that are open see it."""
    with closing(sqlite3.connect(of)) as there, closing(sqlite3.connect(to)) as here:
        there.backup(here)


def test_a_restored_copy_is_told_and_lands_what_is_missing_once(
    world: World, command: Command, tmp_path: Path
) -> None:
    restored(world, tmp_path)
    further = {s for s, at in world.checkpoints().items() if at and at > world.ledger.shards[s].frontier}

    assert len(world.table_rows()) == 30 and further
    assert set(command("describe")["ahead"]) == further
    assert "the table has been further" in command("describe", json=False)["text"]
    assert command("verify")["ok"], "the copy agrees with its own ledger"

    assert world.land().rows == 15
    world.assert_sound()
    assert command("describe")["ahead"] == []
    assert world.checkpoints() == {s: e.frontier for s, e in world.ledger.shards.items()}


def test_what_retention_took_before_a_copy_caught_up_is_a_named_gap(
    world: World, command: Command, tmp_path: Path
) -> None:
    restored(world, tmp_path)
    world.emulator.admin.advance(45 * DAY_S)

    said = command("describe")
    assert {each["kind"]: each["level"] for each in said["health"]}["runway"] == "fail"
    while not world.land().gaps:
        world.emulator.admin.advance(60)
    causes = {gap.cause for entry in world.ledger.shards.values() for gap in entry.gaps}
    assert causes == {GAP_EXPIRED} and len(world.table_rows()) == 30
    assert any(shard["gaps"] for shard in command("verify")["shards"])
