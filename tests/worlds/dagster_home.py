"""A Dagster with its storage in a folder.

Story: each of two hundred tests had Dagster make its tables by migrations, a second of CPU on a slow machine,
which was half of what many of them took. They are made once, and copied.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
from dagster._core.test_utils import instance_for_test


@contextmanager
def dagster_in(folder: Path) -> Iterator[dg.DagsterInstance]:
    """The instance whose storage is in `folder`; a new one where there is no such folder."""
    if not folder.exists():
        shutil.copytree(_empty().name, folder)
    with instance_for_test(temp_dir=str(folder)) as instance:
        yield instance


@contextmanager
def new_dagster() -> Iterator[dg.DagsterInstance]:
    """An instance that goes, with all that it kept, when the block ends."""
    with TemporaryDirectory() as folder, dagster_in(Path(folder) / "dagster") as instance:
        yield instance


@cache
def _empty() -> "TemporaryDirectory[str]":
    """Storage that has all tables and nothing in them; it goes when this process ends."""
    made = TemporaryDirectory()
    with instance_for_test(temp_dir=made.name) as instance:
        instance.get_runs_count()
        instance.all_asset_keys()
        instance.all_instigator_state()
    return made
