"""How large a piece may be, and that one class name means one thing.

A bound holds everywhere: who needs more room has found a second idea.
"""

import ast
import io
import textwrap
import tokenize
from collections.abc import Mapping
from functools import partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import click

from pipelines.cli.main import cli
from tests.sources import (
    ROOT,
    at,
    complain,
    functions,
    module_name,
    product,
    python_files,
    tree,
)

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
TEST_FUNCTION_LINES_MAX = 70
COMPLEXITY_MAX = 15
FOLDER_MODULES_MAX = 16
VERBS_MAX = 44
DOC_RATIO_MIN = 0.30

CHOICES = (ast.If, ast.IfExp, ast.For, ast.While, ast.comprehension, ast.ExceptHandler, ast.Assert, ast.With)
"""What each make a function one harder to follow; so does every further `and` or `or`."""

FLAT_FOLDERS = {"pipelines/cli"}
"""A family of verbs: one file each, found by its name."""


def test_no_file_is_longer_than_600_lines() -> None:
    complain(
        f"{at(p)}: {lines} lines; split it by what it is about"
        for p in python_files()
        if (lines := len(p.read_text(encoding="utf-8").splitlines())) > FILE_LINES_MAX
    )


def test_no_more_than_44_verbs_are_learnt() -> None:
    def leaves(command: click.Command) -> int:
        if not isinstance(command, click.Group):
            return 1
        context = click.Context(command)
        names = command.list_commands(context)
        return sum(leaves(one) for one in map(partial(command.get_command, context), names) if one)

    assert leaves(cli) <= VERBS_MAX, "what a person may do with another option is no verb"


def test_no_function_is_longer_than_60_lines_and_none_of_a_test_than_70() -> None:
    ours = set(product())
    complain(
        f"{at(p, f.lineno)}: {f.name} has {lines} lines; branch in the caller, move pure leaves out"
        for p in python_files()
        for f in functions(p)
        if (lines := (f.end_lineno or f.lineno) - f.lineno + 1)
        > (FUNCTION_LINES_MAX if p in ours else TEST_FUNCTION_LINES_MAX)
    )


def test_code_has_its_theory_beside_it() -> None:
    """Why a piece is right, and an example: three lines for ten lines of code."""
    counts = [written(p.read_text(encoding="utf-8")) for p in product()]
    code, told = (sum(column) for column in zip(*counts, strict=True))
    assert told / code >= DOC_RATIO_MIN, f"{told:,} lines tell of {code:,} lines of code"


def test_no_function_is_tangled() -> None:
    complain(
        f"{at(p, f.lineno)}: {f.name} is of complexity {found}; find the value, the table or the step in it "
        "that has a name"
        for p in product()
        for f in functions(p)
        if (found := complexity(f)) > COMPLEXITY_MAX
    )


def test_no_class_name_means_two_things() -> None:
    complain(
        f"{name}: {', '.join(homes)}; rename the less central one to what it is"
        for name, homes in classes_named_alike().items()
    )


def test_what_makes_a_function_tangled_is_counted() -> None:
    source = """
    def f(a):
        with a as b:
            for c in b:
                if c and a or b:
                    return [d for d in c if d] if a else None
    """
    assert complexity(ast.parse(textwrap.dedent(source)).body[0]) == 8


def test_what_is_code_and_what_tells_of_it_is_counted() -> None:
    source = """
    # a word ahead

    def f():
        '''Two
        lines.'''
        return 1  # beside
    """
    assert written(textwrap.dedent(source)) == (2, 4)


def written(source: str) -> tuple[int, int]:
    """(lines of code, lines of docstrings and comments); a comment beside code is both."""
    defs = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    told = [n.body[0] for n in ast.walk(ast.parse(source)) if isinstance(n, defs) and ast.get_docstring(n)]
    docs = {line for one in told for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    rows = {number: row.strip() for number, row in enumerate(source.splitlines(), 1)}
    code = {n for n, row in rows.items() if row and not row.startswith("#")} - docs
    return len(code), len(docs | comments)


def complexity(function: ast.AST) -> int:
    """One, and one for each choice in it, nested functions included."""
    nodes = list(ast.walk(function))
    joined = sum(len(n.values) - 1 for n in nodes if isinstance(n, ast.BoolOp))
    return 1 + joined + sum(isinstance(n, CHOICES) for n in nodes)


def classes_named_alike() -> dict[str, list[str]]:
    """Class name -> the modules that have one of it, where they are several."""
    homes: dict[str, list[str]] = {}
    for path in product():
        for name in {n.name for n in tree(path).body if isinstance(n, ast.ClassDef)}:
            homes.setdefault(name, []).append(at(path))
    return {name: found for name, found in homes.items() if len(found) > 1}


def test_no_folder_is_a_crowd() -> None:
    folders = {p.parent for p in product()}
    complain(
        f"{at(folder)}: {count} modules; find the rooms in it"
        for folder in folders
        if folder.relative_to(ROOT).as_posix() not in FLAT_FOLDERS
        and (count := sum(p.parent == folder and not p.stem.startswith("__") for p in product()))
        > FOLDER_MODULES_MAX
    )


def test_no_imports_go_in_a_circle() -> None:
    files = imports()
    folders: dict[Path, set[Path]] = {}
    for path, targets in files.items():
        below = folders.setdefault(path.parent, set())
        below |= {target.parent for target in targets} - {path.parent}
    complain(
        f"{' -> '.join(at(p) for p in circle)}: move what both need below them"
        for graph in (files, folders)
        if (circle := circle_of(graph))
    )


def test_a_circle_is_found() -> None:
    a, b, c = (ROOT / name for name in "abc")
    assert set(circle_of({a: {b}, b: {c}, c: {b}})) == {b, c}
    assert not circle_of({a: {b, c}, b: {c}})


def imports() -> dict[Path, set[Path]]:
    """Each file of the product -> the files of the product that it imports, wherever in it."""
    homes = {module_name(p): p for p in product()}
    return {
        path: {
            homes[name]
            for node in ast.walk(tree(path))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for name in imported(node, homes)
        }
        - {path}
        for path in homes.values()
    }


def imported(node: ast.Import | ast.ImportFrom, homes: Mapping[str, Path]) -> set[str]:
    """The modules of the product that the statement names; of a package only what is taken from it."""
    if isinstance(node, ast.Import):
        return {a.name for a in node.names} & homes.keys()
    inside = {f"{node.module}.{a.name}" for a in node.names}
    return (inside & homes.keys()) or ({node.module or ""} & homes.keys())


def circle_of(graph: Mapping[Path, set[Path]]) -> tuple[Path, ...]:
    """One circle of the graph, () where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as found:
        return tuple(found.args[1])
    return ()
