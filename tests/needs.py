"""What a test needs of the machine. Without it the test is skipped and listed; where CI is set, it fails.

A skip that nobody sees proves nothing: `CI=true` is what the machines say that must have all of it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.landing.spark.session import installed_jars, require_jars
from tests.backends.jars import FOLDER as BACKENDS
from tests.backends.mariadb import server_program


def spark_jars() -> None:
    """The jars with which Spark reads Iceberg tables."""
    if not installed_jars():
        _missing("Spark's Iceberg jars are not installed: run `make setup` first")


def s3_jars(folder: Path) -> Path:
    """A folder of the jars that a user has after `make setup S3=1`, and of no other test."""
    jars = folder / "jars"
    if not jars.exists():
        jars.mkdir()
        for path in (*require_jars(), *Path(BACKENDS).absolute().glob("iceberg-aws-bundle-*.jar")):
            (jars / path.name).symlink_to(path)
    return jars


def java() -> None:
    """A Java runtime."""
    if shutil.which("java") is None:
        _missing("no Java on this machine: install 17 or later")


def other_python() -> str:
    """The program of a Python of another minor version that Spark takes for its workers: on the PATH, or
    beside ours, where version managers put it."""
    for minor in (13, 12, 11, 10):
        name = f"python3.{minor}"
        beside = sorted(Path(sys.base_prefix).parent.glob(f"*/bin/{name}"))
        for program in (shutil.which(name), *beside) if minor != sys.version_info.minor else ():
            # A shim of a version manager is there whether or not the version is.
            asked = [program or "false", "-c", ""]
            if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
                return str(program)
    pytest.skip("no Python of another minor version on this machine")


def mariadb() -> None:
    """A MariaDB server's binary. It is no package of Python, so nobody has to have it."""
    if server_program() is None:
        pytest.skip("no whole MariaDB here (Debian: mariadb-server-core and mariadb-client-core)")


def browser() -> str:
    """The program of a browser. It is no package of Python, so nobody has to have it."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: install it (Debian: chromium)")
    return found


def _missing(what: str) -> None:
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(f"{what} (CI is set: here it is no reason to skip)", pytrace=False)
    pytest.skip(what)
