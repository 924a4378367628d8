"""The project's own files, as the house rules read them."""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PICTURES = "docs/images/*.png"


@cache
def tracked() -> tuple[Path, ...]:
    """Files that git tracks or would track, as they are on disk. Pictures are no text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    paths = sorted({ROOT / name for name in listed.split("\0") if name})
    pictures = set(ROOT.glob(PICTURES))
    return tuple(p for p in paths if p.is_file() and not p.is_symlink() and p not in pictures)


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Tracked Python under these folders; all of it when none is named."""
    wanted = folders or ("sls_io", "pipelines", "examples", "tests", "bench", "chaos", "fuzz")
    return tuple(p for p in tracked() if p.suffix == ".py" and p.relative_to(ROOT).parts[0] in wanted)


def product() -> tuple[Path, ...]:
    """The modules we ship."""
    return python_files("sls_io", "pipelines")


@cache
def tree(path: Path) -> ast.Module:
    """The file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def at(path: Path, line: int = 0) -> str:
    """`file:line`, as editors take it."""
    name = path.relative_to(ROOT).as_posix()
    return f"{name}:{line}" if line else name


def module_name(path: Path) -> str:
    """The dotted name of a module or package file."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of the file, nested ones included."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of what a file imports at run time; `from a import b` gives `a.b`."""
    typing_only = {
        inner
        for node in ast.walk(tree(path))
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree(path)):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def called(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of what a file refers to through its imports, aliases resolved."""
    names: dict[str, str] = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0]
                for a in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute | ast.Name):
            head, _, tail = ast.unparse(node).partition(".")
            if head in names and re.fullmatch(r"[\w.]*", tail):
                yield node.lineno, f"{names[head]}.{tail}" if tail else names[head]


def text_of(path: Path) -> str:
    """The file as text; a binary one is the business of its own rule."""
    return path.read_bytes().decode("utf-8", errors="replace")


def complain(problems: Iterable[str]) -> None:
    """Fail with every complaint, one a line."""
    found = sorted(set(problems))
    if found:
        pytest.fail("\n".join(found), pytrace=False)
