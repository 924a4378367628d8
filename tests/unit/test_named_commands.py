"""Every `sls-lake ...` that a message or a page names is a command that there is, with these options."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pipelines.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of each string of a Python file; what an f-string fills in is an X."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "X" for p in node.values]
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def named_in(text: str) -> Iterator[str]:
    """The commands that a text names: in backticks, as a line of their own, or as the whole text.

    Elsewhere `sls-lake` may be the subject of a sentence; then only what follows a verb counts.
    """
    flat = re.sub(r"[ \n]+", " ", text)
    yield from (found[0] for found in re.finditer(r"(?<=`)sls-lake [a-z][^`]*(?=`)", flat))
    for line in text.splitlines():
        if re.match(r" *sls-lake [a-z]+( |$)", line) and "`" not in line:
            yield line.strip()


def wrong(command: str) -> str:
    """What is not there of a command, "" when all of it is."""
    words = re.split(r" #| [(]|, ", command.removeprefix("sls-lake"))[0].split()
    here: click.Command = cli
    said = ["sls-lake"]
    options = {"--help", "--debug", "--version"}
    for word in words:
        if isinstance(here, click.Group):
            if word.startswith("-"):
                continue
            found = here.get_command(click.Context(here), word.rstrip(".,;:)"))
            if found is None:
                return f"{' '.join(said)} has no verb {word!r}"
            here = found
            said.append(word)
            options |= {
                name for parameter in here.params for name in (*parameter.opts, *parameter.secondary_opts)
            }
        if here.context_settings.get("allow_interspersed_args") is False:
            break  # what follows is another program's, as with `sls-lake dbt`
        for option in OPTION.findall(word):
            if option not in options:
                return f"{' '.join(said)} has no option {option}"
    return ""


def pages() -> list[Path]:
    """Every page and every module of the product."""
    found = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("pipelines/**/*.py"),
        *ROOT.glob("sls_io/**/*.py"),
    ]
    return sorted(path for path in found if path.name != "CHANGELOG.md")


def test_every_command_that_a_message_or_a_page_names_is_there() -> None:
    complaints, commands = [], 0
    for path in pages():
        python = path.suffix == ".py"
        texts = list(strings(path)) if python else [(1, path.read_text(encoding="utf-8"))]
        for line, text in texts:
            for command in named_in(text):
                # "sls-lake drains shards": a sentence, unless it stands in backticks.
                if f"`{command}" not in re.sub(r"[ \n]+", " ", text) and wrong(command).startswith(
                    "sls-lake has no verb"
                ):
                    continue
                commands += 1
                if problem := wrong(command):
                    complaints.append(f"{path.relative_to(ROOT)}:{line}: {problem}: {command}")
    if complaints:
        pytest.fail("\n".join(sorted(set(complaints))), pytrace=False)
    assert commands > 100


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("sls-lake checkpoints rewind", "has no verb 'rewind'"),
        ("sls-lake verify --pull --hour A..B", ""),
        ("sls-lake verify --pul", "has no option --pul"),
        ("sls-lake table rollback 17 --execute", ""),
        ("sls-lake fly", "has no verb 'fly'"),
    ],
)
def test_a_command_that_is_not_there_is_found(command: str, problem: str) -> None:
    assert (problem in wrong(command)) if problem else wrong(command) == ""
