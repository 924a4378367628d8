"""The catalog falls silent at each of its answers in turn: what a verb says of its commit is true.

It is among the live tests for its clock: a run asks for a minute what became of a commit.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import run
from pipelines.landing.table.sql_catalog import repoint
from tests.worlds.command_line import settings
from tests.worlds.lossy_catalog import LossyCatalog, lossy
from tests.worlds.one_logstore import World, use_catalog

ANSWERS_MAX = 60
HOURS = ("--from", "2026-09-21-14:00", "--to", "2026-09-21-15:00", "--local", "--execute")
OPEN_HOUR = ("--from", "2026-09-21-16:00", "--local")
TABLE = ("checkpoints", "set", "--to", "table", "--from")
TRUE_WORDS = ("CommitStands", "LandingUnknown")

LOOK_AGAIN = {"maintain", "reset", "fill", "land"}
"""They ask the catalog behind their commit, too; the others say what they planned, and their snapshot."""
IN_SPARK = {"reset", "fill", "replace", "land"}
"""They write rows: the command line has them written by Spark."""
VERBS = {
    "undo": ("table", "undo", "--hour", "2026-09-21-14:00", "--execute"),
    "rollback": ("table", "rollback", "{snapshot}", "--execute"),
    "forget": ("table", "forget", "--where", "n = 3", "--execute"),
    "maintain": ("table", "maintain", "--only", "compact,manifests,expire", "--execute"),
    "pause": ("shards", "pause", "0", "--execute"),
    "skip": (*TABLE, "latest", "--shards", "0", "--forward-only", "--execute"),
    "reset": (*TABLE, "2026-09-21-14:00", "--execute"),
    "fill": ("backfill", *OPEN_HOUR),
    "replace": ("backfill", *HOURS, "--mode", "replace"),
    "rest": ("backfill", *HOURS, "--mode", "rest"),
    "land": ("land",),
}


@pytest.fixture
def catalog(world: World, monkeypatch: pytest.MonkeyPatch) -> LossyCatalog:
    """10 rows in each of two hours that all shards have passed, 10 in a third one, not over, and 20 logs
    to come; the catalog that this process finds from now on."""
    world.logstore = world.changed(columns={"n": "long"})
    world.landed_at(2, 64, 124, more=20)
    behind, catalog = lossy(world.lake)
    monkeypatch.delenv("PYICEBERG_CATALOG__LAKE__TYPE", raising=False)
    use_catalog(behind, monkeypatch)
    return catalog


def metadata_files(world: World) -> set[Path]:
    folder = Path(world.table.metadata_location.removeprefix("file://")).parent
    return set(folder.glob("*.metadata.json"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.spark] * (name in IN_SPARK)) for name in VERBS]
)
def test_whichever_answer_of_the_catalog_is_its_last_a_commit_is_never_told_as_refused(
    name: str, world: World, catalog: LossyCatalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(world))
    before, files = world.table.metadata_location, metadata_files(world)
    older = world.table.metadata.snapshots[1].snapshot_id
    arguments, made = [word.format(snapshot=older) for word in VERBS[name]], 0
    for answers in range(ANSWERS_MAX):
        capsys.readouterr()
        catalog.loads_left = answers
        code = run([*arguments, "--logstore", str(defs), "--json"])
        catalog.loads_left = None
        said: dict[str, Any] = json.loads(capsys.readouterr().out)
        after = world.table.metadata_location
        if after != before and code != 0:
            made += 1
            assert said["error"]["kind"] in TRUE_WORDS, f"{answers} answers: {said}"
        if code == 0:
            break
        # The table as it was, and no file that says otherwise.
        assert after == before or repoint(catalog, world.logstore.table, after, before)
        for file in metadata_files(world) - files:
            file.unlink()
    assert code == 0 and after != before, "the verb was played to its end"
    assert bool(made) is (name in LOOK_AGAIN), "the catalog fell silent behind the commit, too"
