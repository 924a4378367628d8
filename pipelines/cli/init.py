"""`sls-lake init`: a folder that is a Dagster project of sls-lake's, with all that its verbs need.

pyproject.toml, NAME/, workspace.yaml   the code location, and what loads it; `dg` knows the folder, too
NAME/defs/                              a folder for each logstore; `sls-lake new` writes one
dbt/                                    macros and tests of the models that `sls-lake stage` writes
deploy/                                 settings of a Dagster instance
var/                                    Spark's jars, the class archive, and what lands by default

A project that Dagster made before keeps what it has and gets what it lacks. Asked again after an upgrade,
`init` brings new jars, and says which of its files are not as this version has them.
"""

import importlib.util
import keyword
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import yaml
from rich.markup import escape

import pipelines
from pipelines.cli.output import Output, verb
from pipelines.landing.defs_file import write_whole
from pipelines.landing.table.home import MARKER, Project, home, of, use
from sls_io.values.cures import Call, Do
from sls_io.values.errors import ConfigError

TEMPLATE: Final = Path(pipelines.__file__).parent / "template"
"""What a project gets as it is: dbt's macros and tests, the settings of an instance."""
_DBT: Final = ("dbt_project.yml", "profiles.yml", "macros/*.sql", "tests/generic/*.sql")
_PROFILE: Final = "sls_lake"
_OURS: Final = ("dbt/macros/", "dbt/tests/", "deploy/")
"""What nobody needs to change: another text there is an older version's."""
_PYPROJECT: Final = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["sls-lake[dbt]"]

# By this Dagster and `sls-lake` find the project.
[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "{name}"
registry_modules = ["pipelines.components"]
"""
DEFINITIONS: Final = '''\
"""What Dagster loads: every folder of `defs`. Where you add something to it, take `loaded` instead."""

from pathlib import Path

import dagster as dg

from pipelines.definitions import code_location


@dg.definitions
def defs() -> dg.Definitions:
    return code_location(Path(__file__).parent)
'''
_SEES_TO_IT: Final = "from pipelines.definitions import "
_MODELS: Final = '''\
"""dbt's models as a code location of their own: no landing waits for dbt, and none fails by a model."""

from pathlib import Path

from pipelines.landing.defs_file import write_whole
from pipelines.landing.table.home import use

use(Path(__file__).parent)

from pipelines.models import defs  # noqa: E402

__all__ = ["defs"]
'''
_WORKSPACE: Final = """\
load_from:
  - python_file: {{relative_path: {package}/definitions.py, location_name: {name}}}
  - python_file: {{relative_path: {package}/models.py, location_name: {name}_models}}
"""
_IGNORED: Final = "var/\n.venv/\n__pycache__/\n"


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--s3", is_flag=True, help="Spark's jar for a warehouse on S3 or OSS, too (64 MB).")
@verb
def init(output: Output, *, folder: Path, s3: bool) -> None:
    """Make a Dagster project in DIR, or give one that is there what it lacks."""
    from pipelines.landing.spark.jars import JARS, S3_JARS, fetch
    from pipelines.landing.spark.java import require_java

    require_java()
    home()  # what is wrong with it is said before anything is written
    folder = folder.resolve()
    made, differ = write_project(folder)
    for path in made:
        output.say(f"wrote {path}")
    for path in differ:
        output.say(f"[yellow]kept[/] {path}: it is not as this version has it, compare it with {TEMPLATE}")
    use(folder)
    project = _project(folder)
    if not _is_ours(project.dbt):
        output.say(
            f"[yellow]kept[/] {project.dbt}: it is another dbt project, so `stage` and `dbt` are not for here"
        )
    try:
        fetched = fetch(project.state / "jars", [*JARS, *(S3_JARS if s3 else ())])
    except OSError as error:
        raise _unwritten(project.state / "jars", error) from error
    for path in fetched:
        output.say(f"fetched {path.name}")
    # A process of its own: what Java and Spark say is kept in a file there.
    shown = subprocess.DEVNULL if output.as_json else None
    subprocess.run(
        [sys.executable, "-m", "pipelines.landing.spark.record"], cwd=folder, stdout=shown, check=False
    )
    output.say("For the workspace.yaml of another Dagster, where it runs in this environment:")
    output.say(escape(_entry(project)))
    if not loads(project):
        output.say(
            f"[yellow]Dagster loads this code location only once its package {project.module} is installed "
            "here[/]:"
        )
        output.say_cures(
            Do(shlex.join([sys.executable, "-m", "pip", "install", "--no-deps", "-e", str(folder)]))
        )
    there = folder == Path.cwd()
    output.say("And then:" if there else f"Go there, cd {shlex.quote(str(folder))}, and then:")
    output.say_cures(
        Call(("new", "NAME"), does="sets up a logstore"), Call(("check",), does="reads all of them")
    )
    output.result(
        {
            "project": str(folder),
            "module": project.module,
            "written": [str(path) for path in made],
            "differ": [str(path) for path in differ],
            "jars": [path.name for path in fetched],
        }
    )


def write_project(folder: Path) -> tuple[list[Path], list[Path]]:
    """(files that were made, files of ours that have another text). What is there is never changed.
    Raises ConfigError where the folder is another program's."""
    made: list[Path] = []
    differ: list[Path] = []
    for path, text in _texts(folder):
        if not path.exists():
            _write(path, text)
            made.append(path)
        elif (
            path.relative_to(folder).as_posix().startswith(_OURS) and path.read_text(encoding="utf-8") != text
        ):
            differ.append(path)
    return made, differ


def _write(path: Path, text: str) -> None:
    """Half of a file would be kept for a whole one by the next time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise _unwritten(path, error) from error


def _unwritten(path: Path, error: OSError) -> ConfigError:
    said = f"{path} cannot be written: {error.strerror}. Mend that and ask again: what is there is kept"
    return ConfigError(said)


def _texts(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each file of a project and its text, the marker first: what follows depends on what it says."""
    name = _name(folder)
    yield folder / MARKER, _PYPROJECT.format(name=name)
    project = _project(folder)
    package = project.defs.parent
    below = package.relative_to(folder).as_posix()
    yield folder / ".gitignore", _IGNORED
    yield package / "__init__.py", ""
    yield package / "definitions.py", DEFINITIONS
    yield package / "models.py", _MODELS
    yield project.defs / "__init__.py", ""
    yield folder / "workspace.yaml", _WORKSPACE.format(package=below, name=project.module)
    for pattern in _DBT if _is_ours(project.dbt) else ():
        for path in sorted((TEMPLATE / "dbt").glob(pattern)):
            yield folder / path.relative_to(TEMPLATE), path.read_text(encoding="utf-8")
    yield (
        folder / "deploy" / "dagster.yaml",
        (TEMPLATE / "deploy" / "dagster.yaml").read_text(encoding="utf-8"),
    )


def _is_ours(dbt: Path) -> bool:
    """Whether dbt's project there is none yet, or one that `sls-lake dbt` can run: ours by its profile."""
    try:
        said = yaml.safe_load((dbt / _DBT[0]).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(said, dict) and said.get("profile") == _PROFILE


def loads(project: Project) -> bool:
    """Whether Dagster can import the package of the project wherever it is started. Our definitions see to
    that themselves; those of others want it installed, also where the code location names its folder. Asked
    of a process of its own: this one has been shown where the package lies."""
    definitions = project.defs.parent / "definitions.py"
    if _SEES_TO_IT in definitions.read_text(encoding="utf-8", errors="replace"):
        return True
    looks = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    command = [sys.executable, "-c", looks, project.module.partition(".")[0]]
    return subprocess.run(command, cwd="/", check=False).returncode == 0


def _entry(project: Project) -> str:
    """Both code locations as a workspace of another Dagster has them, each with all its paths."""
    package = project.defs.parent
    beside = {"working_directory": str(project.source), "executable_path": sys.executable}
    locations = [
        {"python_file": {"relative_path": str(package / file), "location_name": name, **beside}}
        for file, name in (("definitions.py", project.module), ("models.py", f"{project.module}_models"))
    ]
    return textwrap.indent(yaml.safe_dump(locations, sort_keys=False, width=10_000), "  ").rstrip()


def _project(folder: Path) -> Project:
    found = of(folder)
    if found is None:
        raise ConfigError(
            f"{folder / MARKER} is no Dagster project's: it lacks [tool.dg.project] with root_module. Name a "
            "new folder"
        )
    return found


def _name(folder: Path) -> str:
    """A package name like the folder's that nothing installed has."""
    name = re.sub(r"\W", "_", folder.name.lower(), flags=re.ASCII).strip("_") or "logs"
    name = f"logs_{name}" if name[0].isdigit() else name
    taken = keyword.iskeyword(name) or importlib.util.find_spec(name) is not None
    return f"{name}_lake" if taken else name
