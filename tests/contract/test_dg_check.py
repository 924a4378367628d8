"""Why `sls-lake check` reads every file itself: `dg check yaml` looks at one of each type.

`docs/internals/upstream/dg-check-yaml.md` is the report. When this fails with both files named, it is mended
there.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WRONG = "type: dagster.DefinitionsComponent\nattributes:\n  path: 1\n"
RIGHT = WRONG.replace("1", "x.py")
PROJECT = """
[project]
name = "shop"
version = "0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shop"
"""


@pytest.mark.dagster
@pytest.mark.slow
def test_of_two_wrong_files_of_a_type_one_is_named_and_with_that_one_mended_all_is_well(
    tmp_path: Path,
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    files = {name: tmp_path / "shop" / "defs" / name / "defs.yaml" for name in ("one", "two")}
    for path in files.values():
        path.parent.mkdir(parents=True)
        path.write_text(WRONG)
    for folder in (tmp_path / "shop", tmp_path / "shop" / "defs"):
        (folder / "__init__.py").touch()
    first = check(tmp_path)
    assert first.returncode == 1 and "attributes.path" in first.stdout
    named = [name for name, path in files.items() if str(path) in first.stdout]
    assert len(named) == 1, "mended upstream: retire what docs/internals/upstream/dg-check-yaml.md names"
    files[named[0]].write_text(RIGHT)
    second = check(tmp_path)
    assert second.returncode == 0 and "validated successfully" in second.stdout


def check(folder: Path) -> "subprocess.CompletedProcess[str]":
    """`dg check yaml` in a project."""
    return subprocess.run(
        [Path(sys.executable).parent / "dg", "check", "yaml"],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "DAGSTER_DISABLE_TELEMETRY": "yes"},
        capture_output=True,
        text=True,
        check=False,
    )
