"""What set-up trusts of a jar. The resolver itself is tried by set-up, before any test runs."""

import re
from pathlib import Path

import pytest

from pipelines.landing.jars import JARS, fetch, main


def test_every_jar_is_pinned_by_version_and_content() -> None:
    assert len({jar.name for jar in JARS}) == len(JARS)
    for jar in JARS:
        assert re.fullmatch(r"[0-9.]+", jar.version)
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)
        assert jar.coordinates == f"{jar.group}:{jar.artifact}:{jar.version}"


def test_jars_that_are_there_and_whole_are_not_fetched_again(tmp_path: Path) -> None:
    """The set-up's own jars, linked: nothing is resolved, so nothing is returned and nothing made."""
    made = Path(__file__).parents[2] / "var" / "jars"
    for jar in JARS:
        (tmp_path / jar.name).symlink_to(made / jar.name)
    assert fetch(tmp_path) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(jar.name for jar in JARS)


def test_without_a_resolver_the_cure_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(str(tmp_path / "jars")) == 1
    said = capsys.readouterr().err
    assert "check Java 17" in said
    assert said.count("\n") == 1
