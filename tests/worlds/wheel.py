"""The wheel of this checkout, made outside of it: setuptools leaves its folders where it builds."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.snippets import ROOT

PACKED = ("sls_io", "pipelines", "dbt", "docs")


def wheel(folder: Path) -> Path:
    """The file, in `folder`."""
    for name in PACKED:
        shutil.copytree(
            ROOT / name, folder / "src" / name, symlinks=True, ignore=shutil.ignore_patterns("*.pyc")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, folder / "src" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(folder), str(folder / "src")], check=True)
    (made,) = folder.glob("sls_lake-*.whl")
    return made
