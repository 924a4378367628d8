"""Every command that a text of ours names parses with the command line's own options."""

import ast
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE, VERBS, cli, run
from pipelines.landing.table import commands
from sls_io.values.cures import Call, Do
from tests.sources import at, product, tree
from tests.worlds.components import logstore
from tests.worlds.projects import CLICKS, make_project

MADE = {
    "rollback": commands.rollback(7, "--without-missing"),
    "expire": commands.expire(3),
    "moved": commands.moved("orders"),
    "copied_to": commands.copied_to("file:/lake/positions.json"),
    "put_into": commands.put_into("file:/lake/positions.json"),
    "made_group": commands.made_group("audit"),
    "resume": commands.resume([0, 3]),
    "retype": commands.retype("n"),
    "plain": commands.plain("user", "pin"),
    "of_hours": commands.of_hours(commands.REPLACE, "--from 2026-09-21-13:00 --to 2026-09-21-14:00"),
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
NAMED = {name: call for name, call in vars(commands).items() if isinstance(call, Call)}


def command_of(words: tuple[str, ...]) -> tuple[click.Command, list[str]]:
    command: click.Command = cli
    left = list(words)
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), left.pop(0))
        assert found is not None, words
        command = found
    return command, left


def parsed(call: Call, *more: str) -> dict[str, object]:
    """What the command line makes of it. Raises UsageError."""
    words = shlex.split(commands.shown(call, "clicks"))
    assert words.pop(0) == commands.PROGRAM
    command, left = command_of(tuple(words))
    with click.Context(command) as parent:
        return command.make_context(command.name, [*left, *more], parent=parent).params


def in_source() -> Iterator[tuple[str, tuple[str, ...]]]:
    """(place, words) of each command that a module makes for itself, or to which it adds words; what is known
    only then is a 1."""
    for path in product():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call):
                continue
            match node.func, node.args:
                case ast.Name(id="Call"), [ast.Tuple(elts=words), *_]:
                    yield at(path, node.lineno), spelled(words)
                case ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id="calls"), attr=name), attr="plus"
                ), words:
                    yield at(path, node.lineno), (*NAMED[name].words, *spelled(words))


def spelled(words: Sequence[ast.expr]) -> tuple[str, ...]:
    known = (each for each in words if not isinstance(each, ast.Starred))
    return tuple(str(each.value) if isinstance(each, ast.Constant) else "1" for each in known)


@pytest.mark.parametrize("call", [*NAMED.values(), *MADE.values()], ids=[*NAMED, *MADE])
def test_a_command_that_an_error_names_parses(call: Call) -> None:
    more = (
        ("--from", "2026-09-21-13:00") if call.words[0] == "backfill" and "--from" not in call.words else ()
    )
    params = parsed(call, *more)
    assert params.get("name", "clicks") == "clicks"
    assert bool(params.get("execute")) is call.harmless


def test_each_function_that_makes_a_command_is_tried() -> None:
    makes = {
        node.name
        for path in product()
        if at(path) == "pipelines/landing/table/commands.py"
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef) and node.returns and ast.unparse(node.returns) == "Call"
    }
    assert makes == MADE.keys()


@pytest.mark.parametrize(("place", "words"), list(in_source()))
def test_options_of_a_command_that_a_module_makes_for_itself_exist(
    place: str, words: tuple[str, ...]
) -> None:
    command, left = command_of(words)
    options = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert {word for word in left if word.startswith("-")} <= options, place


def test_each_verb_that_takes_a_logstore_is_printed_with_it() -> None:
    def leaves(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(command, click.Group):
            yield words[0], command
            return
        with click.Context(command) as context:
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                if found is not None:
                    yield from leaves(found, (*words, name))

    without = {
        first
        for first, command in leaves(cli, ())
        if not any("--logstore" in parameter.opts for parameter in command.params)
    }
    assert without <= commands.OF_NO_LOGSTORE <= {*without, "dev"}


def test_no_sentence_of_the_landing_side_names_a_command() -> None:
    """It would be printed without the logstore and without what makes it run: a cure is a value."""
    verbs = re.compile(rf"{commands.PROGRAM} (?:{'|'.join(VERBS)})\b")
    for path in product():
        if not at(path).startswith(("pipelines/landing/", "sls_io/")) or "emulator" in at(path):
            continue
        docs = {ast.get_docstring(n, clean=False) for n in ast.walk(tree(path)) if isinstance(n, DOCUMENTED)}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docs:
                assert not verbs.search(node.value), at(path, node.lineno)


def test_with_one_logstore_none_is_named() -> None:
    assert commands.shown(commands.rollback(7)) == "sls-lake table rollback 7"


def test_a_path_with_blanks_is_quoted() -> None:
    assert commands.shown(commands.REGISTER.plus("--metadata", "/a b")) == (
        "sls-lake table register --metadata '/a b' --execute"
    )


def test_for_a_program_each_cure_is_what_it_is() -> None:
    assert commands.documents(
        [Do("restore it"), commands.rollback(7, does="goes back"), commands.LAND], "clicks"
    ) == [
        {"do": "restore it"},
        {"call": "sls-lake table rollback 7 -l clicks", "does": "goes back"},
        {"call": "sls-lake land -l clicks"},
    ]


def test_a_cure_of_a_project_with_two_logstores_names_the_one_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(make_project(tmp_path, clicks=CLICKS, orders=CLICKS.replace("clicks", "orders")))
    monkeypatch.setenv("SLS_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path / "var"))
    assert run(["landings", "show"]) == EXIT_USAGE
    capsys.readouterr()
    assert run(["landings", "show", "-l", "orders"]) in (EXIT_USAGE, EXIT_FAILED)
    assert "\n  sls-lake describe -l orders" in capsys.readouterr().err
    run(["landings", "show", "-l", "orders", "--json"])
    (cure,) = json.loads(capsys.readouterr().out)["error"]["cures"]
    assert cure["call"] == "sls-lake describe -l orders"


def test_a_command_names_a_logstore_as_it_was_chosen_and_by_its_name_where_nobody_chose() -> None:
    plain = logstore()
    chosen = (plain, plain.chosen_as("web"), plain.chosen_as(""))
    assert [commands.shown(commands.DRY_RUN, one.option) for one in chosen] == [
        f"sls-lake land --dry-run -l {plain.name}",
        "sls-lake land --dry-run -l web",
        "sls-lake land --dry-run",
    ]
