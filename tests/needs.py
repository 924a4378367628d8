"""What a test needs of the machine. Without it the test is skipped and listed; where CI is set, it fails.

A skip that nobody sees proves nothing: `CI=true` is what the machines say that must have all of it.
"""

import os
import shutil

import pytest

from pipelines.landing.spark.session import installed_jars


def spark_jars() -> None:
    """The jars with which Spark reads Iceberg tables."""
    if not installed_jars():
        _missing("Spark's Iceberg jars are not installed: run `make setup` first")


def java() -> None:
    """A Java runtime."""
    if shutil.which("java") is None:
        _missing("no Java on this machine: install 17 or later")


def _missing(what: str) -> None:
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(f"{what} (CI is set: here it is no reason to skip)", pytrace=False)
    pytest.skip(what)


def optional(what: str) -> None:
    """Skip with a word, everywhere: what no machine of ours has to have."""
    pytest.skip(what)
