"""A test that cannot run here is listed as skipped, and in CI it fails."""

from pathlib import Path

import pytest

from tests import needs


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without jars and without Java."""
    monkeypatch.setenv("SLS_LAKE_JARS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    return monkeypatch


@pytest.mark.parametrize("need", [needs.spark_jars, needs.java], ids=lambda need: need.__name__)
def test_what_is_missing_skips_here_and_fails_in_ci(need: object, bare: pytest.MonkeyPatch) -> None:
    assert callable(need)
    bare.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        need()
    bare.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI is set"):
        need()
