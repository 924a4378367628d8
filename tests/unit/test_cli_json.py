"""With `--json` stdout always has one document: the verb's own, or the error."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pipelines.cli.main import EXIT_USAGE, cli, kind_of, run
from pipelines.cli.output import SAID, Output
from pipelines.landing.table import NoMetadata
from sls_io.client import SlsClient
from sls_io.emulator import Emulator
from sls_io.errors import LedgerBroken, Throttled
from sls_io.settings import Service

DEFS = """type: pipelines.components.SlsLogstore
attributes:
  service: {{endpoint: "{endpoint}", project: demo, logstore: orders, tries_max: 1}}
  group: lake
  table: bronze.orders
  start: 2026-11-20-00:00
"""
OWN_WORLD = {("emulator",), ("demo",), ("dev",)}
"""Verbs that start a world of their own instead of reading a logstore."""
READ_ONLY = [("verify",), ("plan",), ("describe",), ("windows",)]


def verbs(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every verb with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from verbs(command, (*above, name))
        elif command is not None:
            yield (*above, name), command


ALL = dict(verbs(cli))
OF_A_LOGSTORE = sorted(words for words in ALL if words not in OWN_WORLD)


def needed(command: click.Command) -> list[str]:
    """Something for every argument and option that must be given."""
    given: list[str] = []
    for parameter in command.params:
        if not parameter.required:
            continue
        value = parameter.type.choices[0] if isinstance(parameter.type, click.Choice) else "1"
        value = "2026-11-20-07:00" if type(parameter.type).__name__.startswith("Hour") else str(value)
        given += [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]
    return given


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with one logstore behind an endpoint where nobody answers."""
    (tmp_path / "pyproject.toml").write_text("")
    folder = tmp_path / "pipelines" / "defs" / "orders"
    folder.mkdir(parents=True)
    (folder / "defs.yaml").write_text(DEFS.format(endpoint="http://127.0.0.1:9"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path / "home"))
    return tmp_path


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """The one JSON document of stdout."""
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("words", OF_A_LOGSTORE, ids=" ".join)
def test_an_unknown_logstore_is_a_document(
    words: tuple[str, ...], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*words, *needed(ALL[words]), "--json", "--logstore", "nowhere"])
    said = capsys.readouterr()
    error = json.loads(said.out)["error"]
    assert code == error["exit_code"] == EXIT_USAGE
    assert error["kind"] in ("ConfigError", "usage") and error["message"] in said.err
    assert said.err.strip()


@pytest.mark.parametrize("words", OF_A_LOGSTORE, ids=" ".join)
def test_a_setting_that_is_missing_is_a_document(
    words: tuple[str, ...], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pipelines" / "defs" / "orders" / "defs.yaml").write_text(
        DEFS.format(endpoint="http://127.0.0.1:9").replace("  group: lake\n", "")
    )
    assert run([*words, *needed(ALL[words]), "--json"]) == EXIT_USAGE
    error = document(capsys)["error"]
    assert isinstance(error, dict) and error["kind"] in ("ConfigError", "usage")


@pytest.mark.parametrize("words", OF_A_LOGSTORE, ids=" ".join)
def test_a_service_that_does_not_answer_is_a_document(
    words: tuple[str, ...], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*words, *needed(ALL[words]), "--json"])
    found = document(capsys)
    if code:
        error = found.get("error")
        assert error is None or (isinstance(error, dict) and error["exit_code"] == code and error["message"])


@pytest.mark.parametrize("words", READ_ONLY[:3], ids=" ".join)
def test_what_the_service_refuses_is_a_document_with_its_code(
    words: tuple[str, ...], project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pipelines" / "defs" / "orders" / "defs.yaml").write_text(
        DEFS.format(endpoint=emulator.endpoint)
    )
    code = run([*words, "--json"])
    error = document(capsys)["error"]
    assert isinstance(error, dict) and (error["exit_code"], error["code"]) == (code, "ProjectNotExist")


@pytest.mark.parametrize("words", sorted(ALL), ids=" ".join)
def test_wrong_usage_is_a_document(
    words: tuple[str, ...], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--json", "--no-such-option"]) == EXIT_USAGE
    error = document(capsys)["error"]
    assert isinstance(error, dict) and error["kind"] == "usage" and "--no-such-option" in error["message"]


def test_an_emulator_that_cannot_start_is_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["emulator", "--json", "--port", "0", "--now", "nan"]) == EXIT_USAGE
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "ConfigError"
    assert run(["emulator", "--json", "--port", "0", "--data", str(tmp_path / "file" / "x")]) == EXIT_USAGE
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "ConfigError"


def test_without_json_an_error_leaves_stdout_empty(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["describe", "-l", "nowhere"]) == EXIT_USAGE
    assert capsys.readouterr().out == ""


def test_an_error_after_the_verb_s_own_document_prints_no_second_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    def failing() -> None:
        Output(as_json=True).result({"a": 1})
        raise LedgerBroken("no", verb="sls-lake verify")

    context = click.Context(failing, obj={})
    with pytest.raises(LedgerBroken), context:
        context.invoke(failing)
    assert context.obj == {SAID: True}
    assert json.loads(capsys.readouterr().out) == {"a": 1}


def test_the_kind_is_the_class_of_the_tree() -> None:
    assert kind_of(NoMetadata("x")) == "ConfigError"
    assert kind_of(Throttled("a", "b")) == "Throttled"
    assert kind_of(KeyError("x")) == "unforeseen"


@pytest.mark.parametrize("words", READ_ONLY, ids=" ".join)
def test_a_verb_that_only_looks_makes_no_folder(
    words: tuple[str, ...], project: Path, emulator: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    service = Service(endpoint=emulator.endpoint, project="demo", logstore="orders")
    with SlsClient(service) as client:
        client.transport.create_project("demo", "")
        client.transport.create_logstore("demo", "orders", 30, 2)
    (project / "pipelines" / "defs" / "orders" / "defs.yaml").write_text(
        DEFS.format(endpoint=emulator.endpoint)
    )
    before = sorted(project.rglob("*"))
    code = run([*words, "--json"])
    found = document(capsys)
    assert code == 0 or "nothing has landed" in json.dumps(found), found
    assert sorted(project.rglob("*")) == before


@pytest.mark.parametrize("home", ["", "/dev/null"])
@pytest.mark.parametrize("words", READ_ONLY, ids=" ".join)
def test_a_state_folder_that_can_be_none_stops_every_verb_with_its_name(
    words: tuple[str, ...],
    home: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SLS_LAKE_HOME", home)
    before = sorted(project.rglob("*"))
    assert run([*words]) == EXIT_USAGE
    assert "SLS_LAKE_HOME" in capsys.readouterr().err
    assert sorted(project.rglob("*")) == before
