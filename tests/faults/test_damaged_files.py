"""Files of a table that are gone, cut off or overwritten: every verb names the file and what settles it."""

import errno
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Snapshot

from pipelines.cli.deciding import show_effect
from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.cli.output import Output
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.reading import Misread, Unreadable, reading
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.table.commands import VERIFY
from sls_io.values.cures import Do
from sls_io.values.errors import LedgerBroken, TransportError
from sls_io.values.window import HOUR_S
from tests.worlds.command_line import Command
from tests.worlds.foreign_deletes import local
from tests.worlds.landed_hours import data_of, hours
from tests.worlds.one_logstore import World
from tests.worlds.printed_cures import ways

Damage = Callable[[Path], object]


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    path.write_bytes(b"\x00\xff\xfe not what it was \x80" * 40)


def scratch(path: Path) -> None:
    """The head stays, what follows is noise."""
    text = path.read_bytes()
    path.write_bytes(text[:40] + bytes(255 - b for b in text[40:]))


DAMAGES = [remove, cut, overwrite, scratch]


def landings(world: World) -> list[Snapshot]:
    """The snapshots of the table, oldest first."""
    return sorted(world.table.metadata.snapshots, key=lambda s: s.sequence_number or 0)


def list_of(world: World) -> Path:
    """The manifest list of main."""
    return local(landings(world)[-1].manifest_list)


def manifest_of(world: World, at: int) -> Path:
    """The manifest that one landing added."""
    snapshot = landings(world)[at]
    (mine,) = (m for m in snapshot.manifests(world.table.io) if m.added_snapshot_id == snapshot.snapshot_id)
    return local(mine.manifest_path)


def metadata_of(world: World) -> Path:
    return local(world.table.metadata_location)


def verbs(world: World) -> dict[str, tuple[str, ...]]:
    """A call of each verb that reads the files of a table."""
    middle = hour_text(hours(world)[1])
    return {
        "verify": ("verify",),
        "dry run": ("land", "--dry-run"),
        "landings": ("landings", "show"),
        "describe": ("describe",),
        "undo": ("table", "undo", "--hour", middle),
        "forget": ("table", "forget", "--where", "n >= 0"),
        "replace": ("backfill", "--from", middle, "--mode", "replace", "--local"),
        "maintain": ("table", "maintain", "--execute"),
        "rollback": ("table", "rollback", str(landings(world)[-1].snapshot_id)),
    }


def assert_told(said: dict[str, Any], path: Path, verb: str) -> None:
    """One sentence, with the name of the file and a cure; nothing that nobody foresaw."""
    told = said["error"] + json.dumps({k: v for k, v in said.items() if k != "error"})
    assert path.name in told, (verb, said)
    assert "restore" in told, (verb, said)
    assert "did not foresee" not in told and "cannot be reached" not in told, (verb, said)
    assert said["code"] in (EXIT_FAILED, EXIT_USAGE) or said.get("put_off"), (verb, said)
    assert all(line.startswith("  ") for line in said["error"].splitlines()[1:]), (verb, said)


@pytest.mark.parametrize("which", ["list", "manifest", "data", "metadata"])
def test_every_verb_names_the_file_and_the_cure(world: World, command: Command, which: str) -> None:
    calls = verbs(world)
    place = {
        "list": lambda: list_of(world),
        "manifest": lambda: manifest_of(world, 2),
        "data": lambda: data_of(world, hours(world)[1]),
        "metadata": lambda: metadata_of(world),
    }
    path = place[which]()
    kept = path.read_bytes()
    # A replace is what cures a lost data file; what only looks at manifests does not need one.
    looking = {"dry run", "landings", "describe", "rollback"}
    unhurt = {"data": {*looking, "replace"}, "manifest": {"dry run"}}.get(which, set())
    for damage in DAMAGES:
        damage(path)
        for verb in sorted(set(calls) - unhurt):
            said = command(*calls[verb])
            assert_told(said, path, f"{damage.__name__}, {verb}")
            if verb == "verify":
                assert said["document"] and said["ok"] is False and said["code"] == EXIT_FAILED
        if which == "list":
            with pytest.raises(LedgerBroken, match=path.name):
                world.land()
        path.write_bytes(kept)
    world.assert_whole()


@pytest.mark.parametrize("damage", [remove, cut])
@pytest.mark.parametrize("which", ["list", "manifest"])
def test_the_rollback_that_is_named_cures_a_table_whose_manifests_cannot_be_read(
    world: World, command: Command, which: str, damage: Damage
) -> None:
    damage(list_of(world) if which == "list" else manifest_of(world, 2))
    proof = command("verify")
    assert len(proof["problems"]) == 1
    (target,) = re.findall(r"sls-lake table rollback (\d+)", " ".join(ways(proof)))

    said = command("table", "rollback", target, "--execute")

    assert said["executed"] and said["rows"] == 60 and said["rows_then"] == (40 if which == "list" else 20)
    assert (said["rows_leaving"], said["files_leaving"], said["rows_returning"]) == (None, None, None)
    assert any("unknown" in note for note in said["notes"])
    world.land()
    world.land()
    world.assert_whole()
    assert command("landings", "show", "--no-orphans")["code"] == 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_landing_on_somebody_elses_commit_that_cannot_be_read_names_its_file(
    world: World, command: Command, damage: Damage
) -> None:
    """The newest landing is whole, what lies on top of it is not: a rollback to that landing cures it."""
    newest = landings(world)[-1].snapshot_id
    world.table.append(world.table.scan().to_arrow().slice(0, 0))
    path = list_of(world)
    damage(path)
    world.put(20, pass_s=HOUR_S)

    with pytest.raises(LedgerBroken, match=path.name) as refused:
        world.land()
    assert refused.value.cures == (Do("restore the file"), VERIFY)
    assert f"table rollback {newest}" in " ".join(ways(command("verify")))

    assert command("table", "rollback", str(newest), "--execute")["executed"]
    world.assert_next_lands(20)


def test_an_older_snapshot_that_cannot_be_read_stops_what_needs_it_and_nothing_else(
    world: World, command: Command
) -> None:
    lost = local(landings(world)[1].manifest_list)
    lost.unlink()

    seen = command("landings", "show")
    tidied = command("table", "maintain", "--execute", "--only", "expire,sweep")

    assert seen["code"] == EXIT_FAILED and lost.name in seen["unreadable"] and seen["orphans"] is None
    assert len(seen["landings"]) == 4 and seen["files"]
    assert command("landings", "show", "--no-orphans")["code"] == 0
    (why,) = tidied["put_off"]
    assert (
        tidied["code"] == EXIT_FAILED
        and why.startswith("sweep: ")
        and lost.name in why
        and "table maintain --only expire --snapshots 3 --execute" in why
    )
    assert tidied["swept"] == []
    assert command("table", "maintain", "--execute", "--only", "expire", "--snapshots", "3")["expired"]
    assert command("table", "maintain", "--execute", "--only", "sweep")["put_off"] == []
    world.assert_whole()


@pytest.mark.parametrize("damage", [remove, cut])
def test_a_file_that_cannot_be_read_puts_its_hour_off_and_nothing_else(
    world: World, command: Command, damage: Damage
) -> None:
    first, *others = hours(world)
    path = data_of(world, first)
    kept = path.read_bytes()
    damage(path)

    said = command("table", "maintain", "--execute", "--snapshots", "4")

    assert [hour["hour"] for hour in said["compacted"]] == others
    (why,) = said["put_off"]
    assert (
        said["code"] == EXIT_FAILED and why.startswith(f"compact {hour_text(first)}: ") and path.name in why
    )
    assert "nothing was changed" not in json.dumps(said)
    assert said["expired"] and said["refreshed"], "the steps after it"
    path.write_bytes(kept)
    world.assert_whole()


def test_a_table_that_lost_rows_keeps_what_brings_them_back(world: World, command: Command) -> None:
    """Somebody deletes a whole file's rows by hand; the nightly maintenance comes before anybody looks."""
    newest, rows = landings(world)[-1].snapshot_id, world.identities()
    world.table.delete("n < 20")
    assert sum(world.identities().values()) == 40

    dry = command("table", "maintain", "--snapshots", "2")
    said = command("table", "maintain", "--execute", "--snapshots", "2")

    assert dry["put_off"] == said["put_off"] != [] and dry["code"] == said["code"] == EXIT_FAILED
    assert "holds 40 rows, its ledger says 60" in said["put_off"][0]
    assert f"sls-lake table rollback {newest}" in said["put_off"][0]
    assert (said["expired"], said["swept"], said["metadata"], said["compacted"]) == ([], [], [], [])
    assert command("table", "rollback", str(newest), "--execute")["executed"]
    assert world.identities() == rows
    assert command("table", "maintain", "--execute", "--snapshots", "2")["put_off"] == []
    world.assert_whole()


def test_a_dry_run_of_the_maintenance_tells_what_it_would_do(world: World, command: Command) -> None:
    dry = command("table", "maintain", "--snapshots", "4")
    said = io.StringIO()
    show_effect(Output(file=said), Maintainer(world.logstore, world.lake, snapshots_max=4).plan())
    done = command("table", "maintain", "--snapshots", "4", "--execute")

    assert len(dry["expired"]) == len(done["expired"]) > 0
    assert dry["kept"] == done["kept"] == 4
    assert len(dry["compacted"]) == len(done["compacted"])
    assert "on top come files" in said.getvalue()


@pytest.mark.parametrize("damage", [remove, cut], ids=lambda damage: damage.__name__)
def test_a_file_that_the_storage_did_not_keep_whole_holds_back_the_checkpoint(
    quick: World, damage: Damage
) -> None:
    quick.begun(20, 20)
    before, known = quick.checkpoints(), set(quick.published())
    with quick.run() as run:
        assert run.land().rows == 20
        news = [path for path in quick.published() if path not in known]
        damage(local(news[0]))
        found = run.reconcile()
    assert quick.checkpoints() == before
    phrase = "is gone" if damage is remove else r"was cut off or overwritten \(it has \d+ bytes, the table"
    assert re.search(phrase, "; ".join(found.problems))
    with pytest.raises(LedgerBroken, match="does not add up") as refused:
        quick.land()
    assert refused.value.cures


def test_a_storage_that_fails_is_not_taken_for_a_damaged_file(world: World) -> None:
    """What the system numbers is about the storage: nobody shall drop an hour because of that."""
    path = str(data_of(world, hours(world)[1]))
    with pytest.raises(TransportError, match="Permission denied"), reading(world.table, path):
        raise PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(Misread, match=f"{Path(path).name}.*whole"), reading(world.table, path):
        raise OSError("Unexpected end of stream")
    cut(Path(path))
    with pytest.raises(Unreadable, match=Path(path).name), reading(world.table, path):
        raise OSError("Unexpected end of stream")


@pytest.mark.parametrize("hour", ["9999-12-31-23:00", "1969-12-31-23:00"])
def test_hours_beyond_the_calendar_are_refused_with_a_sentence(
    world: World, command: Command, hour: str
) -> None:
    said = command("backfill", "--mode", "errors", "--local", "--from", hour)
    assert said["code"] == EXIT_USAGE and f"{hour} is no receive hour" in said["error"]
    last = command("backfill", "--mode", "errors", "--local", "--from", "9999-12-31-22:00")
    assert "did not foresee" not in last["error"]


def test_windows_of_a_table_that_is_not_ours_says_so(world: World, command: Command) -> None:
    catalog = world.lake.catalog()
    catalog.drop_table(world.logstore.table)
    catalog.create_table(world.logstore.table, pa.schema([("n", pa.int64())])).append(pa.table({"n": [1]}))

    said = command("landings", "show")

    assert said["code"] == EXIT_USAGE and "sls-lake did not make it" in said["error"]
