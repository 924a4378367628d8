"""What set-up trusts of a jar. The resolver itself is tried by set-up, before any test runs."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.landing.spark.jars import JARS, S3_JARS, Jar, fetch, main
from tests import needs
from tests.backends.jars import BACKEND_JARS


@pytest.mark.parametrize("jars", [(*JARS, *S3_JARS), BACKEND_JARS], ids=["product", "tests"])
def test_every_jar_is_pinned_by_version_and_content(jars: tuple[Jar, ...]) -> None:
    assert len({jar.name for jar in jars}) == len(jars)
    for jar in jars:
        assert re.fullmatch(r"[0-9.]+", jar.version)
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256)
        assert jar.coordinates.startswith(f"{jar.group}:{jar.artifact}:{jar.version}")


def test_a_jar_with_a_classifier_has_it_in_its_name() -> None:
    jar = Jar("group", "artifact", "1.0", "0" * 64, "tests")
    assert (jar.coordinates, jar.name) == ("group:artifact:1.0:tests", "artifact-1.0-tests.jar")


def test_a_file_that_is_not_the_pinned_one_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a repository in a folder, with and without a classifier."""
    needs.java()
    there = tmp_path / "repository" / "group" / "artifact" / "1.0"
    there.mkdir(parents=True)
    for name in ("artifact-1.0.jar", "artifact-1.0-tests.jar"):
        (there / name).write_bytes(name.encode())
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"{(tmp_path / 'repository').as_uri()}/")
    good = [
        hashlib.sha256(name.encode()).hexdigest() for name in ("artifact-1.0.jar", "artifact-1.0-tests.jar")
    ]
    plain, other = Jar("group", "artifact", "1.0", good[0]), Jar("group", "artifact", "1.0", good[1], "tests")

    assert [p.name for p in fetch(tmp_path / "jars", [plain, other])] == [plain.name, other.name]
    assert (tmp_path / "jars" / other.name).read_bytes() == other.name.encode()
    assert main(str(tmp_path / "again"), [plain, replace(other, sha256="0" * 64)]) == 1
    assert "group:artifact:1.0:tests is not the file that was pinned" in capsys.readouterr().err


def test_jars_that_are_there_and_whole_are_not_fetched_again(tmp_path: Path) -> None:
    """The set-up's own jars, linked: nothing is resolved, so nothing is returned and nothing made."""
    made = Path(__file__).parents[2] / "var" / "jars"
    for jar in JARS:
        (tmp_path / jar.name).symlink_to(made / jar.name)
    assert fetch(tmp_path) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(jar.name for jar in JARS)


@pytest.mark.parametrize(
    ("place", "why"),
    [("http://127.0.0.1:9/", "repository cannot be reached"), ("{folder}/", "repository does not have them")],
)
def test_jars_that_cannot_be_fetched_are_one_sentence_that_says_whether_the_way_or_the_place_is_wrong(
    place: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs.java()
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", place.format(folder=tmp_path.as_uri()))
    assert main(str(tmp_path / "jars")) == 1
    said = capsys.readouterr().err
    assert why in said and "DEFAULT_ARTIFACT_REPOSITORY" in said and said.count("\n") == 1


def test_without_a_resolver_the_cure_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(str(tmp_path / "jars")) == 1
    said = capsys.readouterr().err
    assert "check Java 17" in said
    assert said.count("\n") == 1
