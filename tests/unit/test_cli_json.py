"""With `--json` stdout always has one document: the verb's own, or the error."""

import io
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from pipelines.cli.errors import kind_of
from pipelines.cli.main import EXIT_USAGE, cli, run
from pipelines.cli.output import Output
from pipelines.cli.session import SAID
from pipelines.landing.table.commands import VERIFY
from pipelines.landing.table.lake import NoMetadata
from sls_io.emulator import Emulator
from sls_io.values.errors import LedgerBroken, Throttled
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient
from tests.worlds.projects import make_project

DEFS = """type: pipelines.components.SlsLogstore
attributes:
  service: {{endpoint: "{endpoint}", project: demo, logstore: orders, tries_max: 1}}
  group: lake
  table: bronze.orders
  start: 2026-11-20-00:00
"""
OWN_WORLD = {
    *(("emulator",), ("demo",), ("dev",), ("dbt",), ("stage",), ("check",), ("doctor",), ("init",), ("new",)),
    ("metrics",),
}
"""Verbs that start a world or a program of their own (doctor: Spark), or need no logstore that is set up."""
READ_ONLY = [("verify",), ("land", "--dry-run"), ("describe",), ("landings", "show")]


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
        value = "2026-11-20-07:00" if parameter.type.name.startswith("hour") else str(value)
        given += [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]
    return given


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with one logstore behind an endpoint where nobody answers."""
    monkeypatch.chdir(make_project(tmp_path, orders=DEFS.format(endpoint="http://127.0.0.1:9")))
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


def test_what_a_double_cannot_hold_is_text_and_of_one_type_whatever_its_size() -> None:
    shown = io.StringIO()
    report = {
        "snapshot_id": 7,
        "committed": None,
        "closings": {3: 5, 4: 2**63 - 1},
        "withdrawn": [(1, 2**60)],
        "entries": [
            {"window": {"shard": 1, "begin": 2**60, "end": 0}, "rows": 9, "sum": 2**64 - 1, "ok": True}
        ],
        "of_no_name": [2**53 - 1, 2**53, -(2**53)],
    }
    Output(as_json=True, file=shown).result(report)
    assert json.loads(shown.getvalue()) == {
        "snapshot_id": "7",
        "committed": None,
        "closings": {"3": "5", "4": str(2**63 - 1)},
        "withdrawn": [["1", str(2**60)]],
        "entries": [
            {
                "window": {"shard": 1, "begin": str(2**60), "end": "0"},
                "rows": 9,
                "sum": str(2**64 - 1),
                "ok": True,
            }
        ],
        "of_no_name": [2**53 - 1, str(2**53), str(-(2**53))],
    }


NONSENSE = [
    *(
        "",
        " ",
        "x",
        "-1",
        "0",
        "1e400",
        "9" * 30,
        "9" * 5000,
        "１２",
        "٣",
        "nan",
        "-inf",
        "--",
        "a\nb",
        "\udcff",
    ),
    *(
        "[red]x[/nope]",
        "{x}",
        "%s",
        "\x1b[2J",
        "..",
        "a..b",
        "=",
        "x=",
        "0=-1",
        "0=٣",
        "'",
        "a = ",
        "a in (",
    ),
    *("/", "/dev/null", "/dev/null/x", "/proc/self/mem", "a/b.yaml", "2026-11-20-07:30", "9999-12-31-23:00"),
    *("0001-01-01-00:00", "２０２６-11-20-07:00", "2026-11-20-07:00..2026-11-19-00:00", "https://a..b"),
    *("http://[::1", "http://a b", "http://127.0.0.1:99999", "http://" + "a" * 300, "http://127.0.0.1:9/é"),
]
"""What no option of any verb means, or what nobody would mean by it. No NUL: no argument can hold one."""
VALUES = sorted(
    (words, parameter.name or "")
    for words, command in ALL.items()
    for parameter in command.params
    if isinstance(parameter, click.Argument) or not getattr(parameter, "is_flag", False)
)
FORESEEN = ("usage", "ConfigError", "ConnectFailed")


@pytest.mark.parametrize(("words", "name"), VALUES, ids=lambda x: x if isinstance(x, str) else " ".join(x))
def test_a_nonsense_value_is_one_sentence_and_never_a_trace(
    words: tuple[str, ...],
    name: str,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each option of each verb by its parser, so that a new one is tried, too. Nobody answers at the
    endpoint: a value that can be meant ends there. Verbs with a world of their own are parsed only."""
    monkeypatch.setenv("DAGSTER_WEBSERVER_URL", "http://127.0.0.1:9")
    parameter = next(p for p in ALL[words].params if p.name == name)
    for value in NONSENSE:
        given = [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]
        rest = [x for x in needed(ALL[words]) if not isinstance(parameter, click.Argument)]
        if words in OWN_WORLD:
            with suppress(click.ClickException):
                ALL[words].make_context(words[-1], [*rest, *given])
            continue
        code = run([*words, *companions(words, name), *rest, "--json", *given])
        said = capsys.readouterr()
        error = json.loads(said.out)["error"]
        assert error["kind"] in FORESEEN, (value, error)
        assert code == error["exit_code"] == (1 if error["kind"] == "ConnectFailed" else EXIT_USAGE), value
        assert "Traceback" not in said.err and error["message"].strip(), value
        assert "\n" not in error["message"].strip() and len(error["message"]) < 900, (value, error)
        assert error["message"].isprintable(), (value, error)


def companions(words: tuple[str, ...], name: str) -> list[str]:
    """What must stand beside an option so that its value is looked at."""
    return {
        (("load",), "path"): [],
        (("verify",), "hours"): ["--pull"],
        (("table", "forget"), "origin"): ["--where", "a = 1"],
        (("table", "forget"), "reason"): ["--where", "a = 1"],
        (("backfill",), "last"): ["--local"],
    }.get((words, name), ["--rows", "1"] if words == ("load",) and name != "rows" else [])


@pytest.mark.parametrize("kind", ["a folder", "a file without rights", "a file of zeros", "none"])
def test_a_file_to_load_that_is_none_is_refused(
    kind: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "a.log"
    if kind == "a folder":
        path.mkdir()
    elif kind == "a file without rights":
        path.write_text("x\n")
        path.chmod(0)
    elif kind == "a file of zeros":
        path.write_bytes(bytes(3_000_000))
    code = run(["load", "--file", str(path), "--json"])
    assert code == EXIT_USAGE or (kind == "a file without rights" and os.geteuid() == 0)
    assert "error" in document(capsys)


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
        raise LedgerBroken("no", cures=(VERIFY,))

    context = click.Context(failing, obj={})
    with pytest.raises(LedgerBroken), context:
        context.invoke(failing)
    assert context.obj == {SAID: True}
    assert json.loads(capsys.readouterr().out) == {"a": 1}


def test_the_kind_is_the_class_of_the_tree() -> None:
    assert kind_of(NoMetadata("x", cures=())) == "LedgerBroken"
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
