"""The folder of a demo: what a former one left is removed, and nothing of anybody else's."""

from pathlib import Path

import pytest

from pipelines.cli.demo.sandbox import Sandbox
from sls_io.values.errors import ConfigError


def test_a_fresh_one_keeps_the_folder_itself_and_nothing_else_of_a_former_run(tmp_path: Path) -> None:
    """The folder may be a mount, which nobody can remove."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "theirs").touch()
    Sandbox(home).prepare(fresh=True)
    before = {path.relative_to(home) for path in home.rglob("*")}
    (home / "lake" / "rows.parquet").touch()
    (home / "spark.log").touch()
    (home / "link").symlink_to(elsewhere)
    number = home.stat().st_ino

    Sandbox(home).prepare(fresh=True)

    assert {path.relative_to(home) for path in home.rglob("*")} == before
    assert home.stat().st_ino == number and (elsewhere / "theirs").exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    with pytest.raises(ConfigError, match="holds something else"):
        Sandbox(tmp_path).prepare(fresh=True)
    assert (tmp_path / "theirs").exists()
