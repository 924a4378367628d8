"""What a project is found by, and what `init` writes; a whole one lands in `test_own_project`."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pipelines.cli.demo.own_project import entered
from pipelines.cli.init import loads, write_project
from pipelines.cli.logstores import defs_of, project_root
from pipelines.cli.main import EXIT_USAGE, run
from pipelines.landing.logstore import load_logstore
from pipelines.landing.table.home import ROOT, home, in_checkout, nearest, of, project, set_up, use
from sls_io.values.cures import Call, Do
from sls_io.values.errors import ConfigError


@pytest.mark.parametrize(
    ("folder", "module"),
    [
        ("lakehouse", "lakehouse"),
        ("My Logs", "my_logs"),
        ("2026", "logs_2026"),
        ("json", "json_lake"),
        ("pipelines", "pipelines_lake"),
        ("日志", "logs"),
        ("class", "class_lake"),
    ],
)
def test_a_project_has_a_package_that_nothing_else_is(tmp_path: Path, folder: str, module: str) -> None:
    made, differ = write_project(tmp_path / folder)
    found = of(tmp_path / folder)
    assert found is not None and found.module == module and differ == []
    assert found.defs == tmp_path / folder / module / "defs" and found.defs / "__init__.py" in made
    compile((found.defs.parent / "definitions.py").read_text(), "definitions.py", "exec")
    locations = yaml.safe_load((tmp_path / folder / "workspace.yaml").read_text())["load_from"]
    for location in locations:
        assert (tmp_path / folder / location["python_file"]["relative_path"]).is_file()
    assert write_project(tmp_path / folder) == ([], [])


def test_a_project_is_found_from_below_and_by_what_definitions_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLS_LAKE_HOME", raising=False)
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        write_project(folder)
    (one / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(one / "a" / "b")
    assert project_root() == one and defs_of(one) == one / "one" / "defs"
    assert home() == one / "var"
    monkeypatch.syspath_prepend(str(tmp_path))  # and taken back as it was, with what `use` adds
    use(two / "two")
    assert project() == of(two) and home() == two / "var"
    assert importlib.util.find_spec("two") is not None, "its package can be imported"
    assert project_root() == one, "a command works where it is typed"
    monkeypatch.chdir(tmp_path)
    use(None)
    assert project() is None and home() == tmp_path / "var"
    assert nearest(ROOT / "docs") == of(ROOT)


def test_a_package_of_others_that_is_not_installed_is_known_before_dagster_misses_it(tmp_path: Path) -> None:
    write_project(tmp_path / "ours")
    theirs = tmp_path / "theirs" / "src" / "theirs"
    (theirs / "defs").mkdir(parents=True)
    (theirs / "definitions.py").write_text("from dagster import definitions, load_from_defs_folder\n")
    (tmp_path / "theirs" / "pyproject.toml").write_text('[tool.dg.project]\nroot_module = "theirs"\n')
    ours, other = of(tmp_path / "ours"), of(tmp_path / "theirs")
    assert ours is not None and loads(ours)
    assert other is not None and not loads(other)
    assert loads(replace(other, module="pipelines")), "what is installed is found"


def test_a_command_of_the_checkout_is_named_in_the_checkout_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / "docs")
    assert in_checkout() and set_up() == Do("run `make setup`")
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    assert not in_checkout() and set_up() == Call(("init", "."))


@pytest.mark.parametrize(
    "text",
    ["", "[tool.dg]\n", "[tool]\ndg = 1\n", "tool = 1\n", "[tool.dg.project]\n", "[project]\n"],
)
def test_a_folder_of_another_program_is_no_project_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    assert of(tmp_path) is None
    with pytest.raises(ConfigError, match=r"lacks \[tool.dg.project\]"):
        write_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]


def test_a_marker_that_nobody_can_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.dg.project\n")
    with pytest.raises(ConfigError, match=r"pyproject.toml cannot be read"):
        of(tmp_path)


def test_what_is_there_is_kept_and_an_older_text_of_ours_is_named(tmp_path: Path) -> None:
    write_project(tmp_path / "lake")
    mine, older = tmp_path / "lake" / "workspace.yaml", tmp_path / "lake" / "dbt" / "macros" / "snapshots.sql"
    mine.write_text("load_from: []\n")
    older.write_text("-- older\n")
    (tmp_path / "lake" / "deploy" / "dagster.yaml").unlink()
    made, differ = write_project(tmp_path / "lake")
    assert made == [tmp_path / "lake" / "deploy" / "dagster.yaml"] and differ == [older]
    assert mine.read_text() == "load_from: []\n" and older.read_text() == "-- older\n"


def test_another_dbt_project_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "dbt").mkdir()
    (tmp_path / "dbt" / "dbt_project.yml").write_text("name: theirs\nprofile: theirs\n")
    write_project(tmp_path)
    assert [path.name for path in (tmp_path / "dbt").iterdir()] == ["dbt_project.yml"]


def test_a_file_that_cannot_be_written_is_named_and_nothing_half_stays(tmp_path: Path) -> None:
    (tmp_path / "deploy").write_text("a file where a folder must be")
    with pytest.raises(ConfigError, match=r"deploy/dagster.yaml cannot be written"):
        write_project(tmp_path)
    assert not [*tmp_path.rglob(".*.*[0-9]")]
    (tmp_path / "deploy").unlink()
    assert [path.name for path in write_project(tmp_path)[0]] == ["dagster.yaml"]


def test_a_state_folder_that_can_be_none_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLS_LAKE_HOME", "")
    assert run(["init", str(tmp_path / "own")]) == EXIT_USAGE
    assert "SLS_LAKE_HOME is set and empty" in capsys.readouterr().err
    assert not (tmp_path / "own").exists()


def test_a_project_without_the_logstore_of_generated_rows_gets_one_below_the_demos_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = write_project(tmp_path / "lakehouse")
    before = sorted(path for path in (tmp_path / "lakehouse").rglob("*") if path.is_file())
    assert before == sorted(made)
    monkeypatch.chdir(tmp_path / "lakehouse")
    monkeypatch.setenv("SLS_ENDPOINT", "http://127.0.0.1:9")
    with entered(tmp_path / "demo", None, seed=7, start="2026-11-20-00:00") as (name, columns):
        assert name == "access_logs" and {"status", "latency_ms"} <= {each.key for each in columns}
        assert load_logstore(defs_of(Path.cwd()) / name / "defs.yaml").columns["latency_ms"] == "double"
        assert Path.cwd().is_relative_to(tmp_path / "demo")
    assert sorted(path for path in (tmp_path / "lakehouse").rglob("*") if path.is_file()) == before
