"""A wheel of this checkout in an empty environment: the page about one's own project, typed as it stands,
then a project as `create-dagster` makes it."""

import os
import shutil
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.cli.demo.sandbox import Sandbox
from pipelines.landing.spark.session import installed_jars
from sls_io.emulator import start
from tests import needs
from tests.snippets import ROOT, blocks
from tests.worlds.wheel import wheel

PAGE = (ROOT / "docs" / "own-project.md").read_text(encoding="utf-8")
SAYS = [
    ("wrote", "class archive of Java", "executable_path:"),
    ("read orders.csv as csv: its first 3 logs", "amount double 3", "1 logstore read, 0 wrong"),
    ("3 rows in", "3 rows into bronze.orders", "verified: 3 rows"),
    ("stg_orders.sql", "Completed successfully"),
    ("RUN_SUCCESS",),
]
"""What stands in the output of each block, in this order."""
_MARK = "next block"
_PYPROJECT = """[project]
name = "theirs"
version = "0.1.0"
dependencies = ["dagster"]

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "theirs"
registry_modules = ["theirs.components.*"]
"""
_DEFINITIONS = """from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
"""As `create-dagster` 1.13 writes them."""

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment in which the wheel was installed, and nothing of this
    checkout."""
    needs.spark_jars()
    folder = tmp_path_factory.mktemp("wheel")
    made = wheel(folder)
    venv.create(folder / "env", with_pip=True)
    subprocess.run([ROOT / ".ci" / "install", folder / "env" / "bin", f"{made}[dbt]"], cwd=ROOT, check=True)
    return folder / "env" / "bin"


@pytest.fixture
def shell(programs: Path, tmp_path: Path) -> Iterator["Shell"]:
    """A shell in which that environment is active, beside an emulator."""
    with start(tmp_path / "emulator") as emulator:
        variables = Sandbox(tmp_path, emulator.port).variables()
        wanted = [name for name in variables if name.startswith(("SLS_ENDPOINT", "ALIBABA_", "DAGSTER_DIS"))]
        yield Shell(
            tmp_path,
            {
                **{name: variables[name] for name in wanted},
                **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
                "PATH": f"{programs}:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "DO_NOT_TRACK": "1",
            },
        )


class Shell:
    """Types lines of a script; all that is said comes back."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.folder, self.variables = folder, variables

    def typed(self, script: str) -> str:
        """The output of the script, which must end well."""
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout


def jars_into(project: Path) -> None:
    """What was fetched once need not come over the network again: `init` proves it by its checksum."""
    (project / "var" / "jars").mkdir(parents=True)
    for path in installed_jars():
        shutil.copy(path, project / "var" / "jars")


def test_the_page_about_ones_own_project_does_what_it_says(shell: Shell) -> None:
    jars_into(shell.folder / "lakehouse")
    typed = blocks(PAGE, "sh")
    assert len(typed) == len(SAYS)
    said = shell.typed("\n".join(f"echo '{_MARK}'\n{block}" for block in typed)).split(f"{_MARK}\n")[1:]
    for number, (text, wanted) in enumerate(zip(said, SAYS, strict=True)):
        flat = " ".join(text.split())
        for words in wanted:
            assert words in flat, f"block {number} does not say {words!r}: {text}"
    # The code location of dbt, too, and asked again nothing is changed.
    project = shell.folder / "lakehouse"
    found = shell.typed(f"cd / && dagster job list -w {project}/workspace.yaml -l lakehouse_models")
    assert "dbt_models" in found
    assert "wrote" not in shell.typed(f"sls-lake init {project}")
    (project / "dbt" / "macros" / "snapshots.sql").write_text("-- older\n")
    assert "kept" in (again := shell.typed(f"sls-lake init {project}")) and "snapshots.sql" in again


def test_a_project_of_create_dagster_gets_what_it_lacks_and_lands(shell: Shell) -> None:
    project = shell.folder / "theirs"
    package = project / "src" / "theirs"
    (package / "defs").mkdir(parents=True)
    jars_into(project)
    for path, text in {
        project / "pyproject.toml": _PYPROJECT,
        package / "__init__.py": "",
        package / "definitions.py": _DEFINITIONS,
        package / "defs" / "__init__.py": "",
    }.items():
        path.write_text(text)
    (project / "clicks.json").write_text('{"user": "u1", "ms": 12}\n{"user": "u2", "ms": 7}\n')
    said = shell.typed(
        f"cd {project}; sls-lake init .; sls-lake new clicks --from clicks.json; "
        "sls-lake load -l clicks --file clicks.json --create; sleep 11; "
        "mkdir home; cp deploy/dagster.yaml home; export DAGSTER_HOME=$PWD/home PYTHONPATH=$PWD/src; "
        "cd /; dagster job execute -m theirs.definitions -j clicks_now; "
        "cd $OLDPWD; sls-lake verify"
    )
    assert "RUN_SUCCESS" in said and "verified: 2 rows in bronze.clicks" in said
    assert (package / "definitions.py").read_text() == _DEFINITIONS
    assert (project / "var" / "lake").is_dir() and not Path("/var/lake").exists()
