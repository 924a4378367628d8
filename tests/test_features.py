"""The page of features names a test for each row, and each of these tests asserts something."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "features.md"
HEAD = ["Theirs", "Here", "How", "Test"]


def rows() -> list[list[str]]:
    """The cells of each row of each table."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row != HEAD and not row[0].startswith("---")]


def checks(node: ast.FunctionDef) -> bool:
    """Whether the test can fail: it asserts, expects an error, or calls what says so by its name."""
    names = {
        call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
    }
    asserts = any(isinstance(inner, ast.Assert) for inner in ast.walk(node))
    return asserts or "raises" in names or any(name.startswith("assert_") for name in names)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_each_row_says_all_and_names_a_test_that_asserts(row: list[str]) -> None:
    assert len(row) == len(HEAD) and all(row), "a row has four cells, none of them empty"
    file, _, name = row[-1].strip("`").partition("::")
    tree = ast.parse((TESTS / file).read_text())
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    assert found, f"{file} has no {name}"
    assert checks(found[0]), f"{name} asserts nothing"


def test_each_of_the_five_systems_has_a_table() -> None:
    titles = [line for line in PAGE.read_text().splitlines() if line.startswith("## ")]
    assert len(titles) == 5 and len(rows()) > 80


def test_what_is_not_built_says_so_in_the_same_words() -> None:
    """So that whoever looks for it finds it, and the page at the top explains the words."""
    words = [row[1] for row in rows() if row[1].lower().startswith(("not ", "no "))]
    assert all(word.startswith(("not yet: ", "no use here: ")) for word in words)
