"""Files and folders that our programs make while the shell would let everybody write into them."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.engine import InProcess
from pipelines.landing.run.tally import PullTally, tell
from sls_io.checkpoints.local_file import LocalFile
from sls_io.emulator import Emulator, start
from sls_io.values.window import Cursor
from tests.worlds.one_logstore import HOUR0_S, make_lake, new_world
from tests.worlds.projects import ORDERS, make_project

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def no_mask() -> Iterator[None]:
    """The shell masks nothing."""
    mask = os.umask(0)
    try:
        yield
    finally:
        os.umask(mask)


def modes(folder: Path) -> dict[str, int]:
    """What is in the folder, with its mode."""
    return {str(x.relative_to(folder)): stat.S_IMODE(x.stat().st_mode) for x in folder.rglob("*")}


def test_without_a_mask_nobody_else_writes_into_what_the_emulator_keeps(tmp_path: Path) -> None:
    with no_mask(), start(tmp_path / "made" / "data") as emulator:
        emulator.admin.now()
    made = modes(tmp_path)
    assert len(made) > 3
    assert not {name: oct(mode) for name, mode in made.items() if mode & 0o022}


def test_without_a_mask_nobody_else_writes_into_what_a_verb_makes(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", orders=ORDERS)
    shutil.copytree(ROOT / "dbt", project / "dbt", ignore=shutil.ignore_patterns("target", "logs"))
    before = modes(project)
    verb = "import sys; from pipelines.cli.main import main; main(['stage', '--by-minute'])"
    with no_mask():
        done = subprocess.run(
            [sys.executable, "-c", verb],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    made = {name: mode for name, mode in modes(project).items() if name not in before}
    assert any(name.endswith(".sql") for name in made)
    assert not {name: oct(mode) for name, mode in made.items() if mode & 0o022}


def test_without_a_mask_nobody_else_writes_into_a_tally_or_a_checkpoint(tmp_path: Path) -> None:
    with no_mask():
        tell(str(tmp_path), 0, PullTally(1, 1, 1))
        LocalFile(tmp_path / "made" / "p.json", of="logs-1", reader="dev").write({0: Cursor(1)})
    assert modes(tmp_path) == {
        "0": 0o600,
        "made": 0o700,
        "made/p.json": 0o600,
        "made/p.json.lock": 0o600,
    }


@pytest.mark.parametrize("loaded", ["definitions", "models"])
def test_without_a_mask_nobody_else_writes_into_what_a_process_of_dagsters_makes(
    tmp_path: Path, loaded: str
) -> None:
    """`dagster` starts it, and leaves the umask of a unit file or an image as it is."""
    program = (
        f"import pipelines.{loaded}\nfrom pipelines.landing.table.lake import Lake\n"
        "Lake.default().ensure_namespace('bronze.orders')"
    )
    with no_mask():
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "SLS_LAKE_HOME": str(tmp_path / "made" / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    made = modes(tmp_path)
    assert any(name.startswith("made/home/") for name in made)
    assert not {name: oct(mode) for name, mode in made.items() if mode & 0o022}


@pytest.mark.sls_emulator(now=HOUR0_S + 60)
def test_nobody_else_writes_into_the_files_of_a_task_whose_worker_has_no_mask(
    tmp_path: Path, emulator: Emulator
) -> None:
    """A worker of somebody's cluster, whose warehouse is a folder that all machines mount."""
    world = new_world(emulator, make_lake(tmp_path), InProcess(), shards=1)
    world.put(3)
    world.at(HOUR0_S + 120)
    with no_mask():
        world.land()
    files = {name: mode for name, mode in modes(tmp_path).items() if name.endswith(".parquet")}
    assert files and not {name: oct(mode) for name, mode in files.items() if mode & 0o022}
