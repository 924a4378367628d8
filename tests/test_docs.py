"""What the pages say is tried: examples load, named files and verbs exist, none is forgotten."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipelines.cli.main import EXIT_USAGE, VERBS
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.refusals import Refusals
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.deadline import Deadline
from tests.snippets import (
    MAKE,
    READ,
    README,
    REFERENCE,
    ROOT,
    SNIPPETS,
    STORES,
    TERMINAL,
    TRANSFORM,
    blocks,
    snippet,
)

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
TROUBLES = (ROOT / "docs" / "troubles.md").read_text(encoding="utf-8")


def test_the_example_of_the_readme_is_a_logstore() -> None:
    (example,) = blocks(README, "yaml")
    document = yaml.safe_load(example.replace("{{ env.SLS_ENDPOINT }}", "http://127.0.0.1:1"))
    assert document["type"] == "pipelines.components.SlsLogstore"
    assert Logstore.model_validate(document["attributes"]).name == "access_logs"


def test_every_snippet_of_the_readme_is_run_by_a_test() -> None:
    """MAKE and STORES below, TERMINAL beside a running dev (test_dev), READ after a demo (test_demo),
    TRANSFORM in a landing (faults/test_transform)."""
    there = [*blocks(SNIPPETS, "sh"), *blocks(SNIPPETS, "python")]
    assert there == [snippet(begin) for begin in (MAKE, TERMINAL, STORES, READ, TRANSFORM)]


def test_the_verbs_that_the_readme_begins_with_are_there() -> None:
    for line in snippet(MAKE).splitlines():
        done = subprocess.run(
            ["sh", "-c", f"exec {line.replace('make', 'make -n', 1)}"], cwd=ROOT, check=False
        )
        assert done.returncode == 0, line


def test_the_settings_of_catalogs_and_storage_are_a_shells() -> None:
    script = snippet(STORES) + "env"
    done = subprocess.run(["sh", "-euc", script], env={}, capture_output=True, text=True, check=True)
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert {f"PYICEBERG_CATALOG__LAKE__{x}" for x in ("TYPE", "URI", "WAREHOUSE")} < names


def test_the_reference_lists_every_setting_of_a_logstore() -> None:
    listed = re.findall(r"^\| `([a-z]\w*)` \|", REFERENCE, flags=re.MULTILINE)
    assert listed == list(Logstore.model_fields)


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"demo", "dev"}))
def test_the_reference_says_what_each_verb_does(verb: str) -> None:
    assert f"`sls-lake {verb}" in REFERENCE


EXAMPLES = sorted(ROOT.glob("examples/[a-z]*.py"))


def test_the_page_of_what_a_run_says_has_its_waits_word_for_word() -> None:
    said = list[str]()
    Deadline(tell=said.append).said("the Iceberg catalog (PLACE)")
    (refused,) = re.findall(
        r"did not take .*? in the run's time", str(Refusals("PLACE", "TABLE", SYSTEM_CLOCK).too_late(120.0))
    )
    table = TROUBLES.partition("| It says |")[2].partition("\n\n")[0]
    assert [row for row in (*said, refused) if f"| {row} |" not in table] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_says_how_to_run_it_and_uses_public_names(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert 15 <= len(text.splitlines()) <= 40
    assert f"    python examples/{example.name} " in (ast.get_docstring(ast.parse(text)) or "")
    assert f"](../examples/{example.name})" in REFERENCE
    assert not re.search(r"^\s*(?:from|import) sls_io\.", text, flags=re.MULTILINE)


_RUN_EACH = """
import contextlib, io, json, runpy, sys
said = {}
for path in sys.argv[1:]:
    for arguments in ([], ["--help"]):
        sys.argv, shown = [path, *arguments], io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            try:
                runpy.run_path(path, run_name="__main__")
            except SystemExit as ended:
                said[" ".join([path, *arguments])] = [ended.code, shown.getvalue()]
print(json.dumps(said))
"""


def test_an_example_without_arguments_and_asked_for_help_says_how_it_is_run() -> None:
    paths = [str(path.relative_to(ROOT)) for path in EXAMPLES]
    done = subprocess.run(
        [sys.executable, "-c", _RUN_EACH, *paths], cwd=ROOT, capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    for path in paths:
        (wrong, usage), (right, whole) = said[path], said[f"{path} --help"]
        assert (wrong, right) == (EXIT_USAGE, 0)
        assert f"usage: {Path(path).name}" in usage and f"python {path} " in whole


def test_every_file_the_map_names_is_there() -> None:
    folders = "sls_io|pipelines|examples|docs|dbt|bench|conformance|real|chaos|tests"
    named = re.findall(rf"`((?:{folders})/[\w./]*)`", ARCHITECTURE)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_map_forgets_no_room_and_names_each_module_in_the_row_of_its_room() -> None:
    rows = dict(re.findall(r"^\| `([\w/.]+)`[^|]*\|(.+)\|$", ARCHITECTURE, flags=re.MULTILINE))
    found = [
        *ROOT.glob("sls_io/*.py"),
        *ROOT.glob("sls_io/[!e_]*/*.py"),
        *ROOT.glob("pipelines/landing/**/*.py"),
    ]
    modules = [path.relative_to(ROOT) for path in found if path.name != "__init__.py"]
    rooms = {f"{path.parent}/" for path in modules} - {"pipelines/landing/"}
    assert len(rooms) > 10
    assert sorted(rooms - rows.keys()) == []
    # What stands in no room has a row of its own, or is named in one.
    assert [str(p) for p in modules if p.name not in rows.get(f"{p.parent}/", ARCHITECTURE)] == []
    wrong = {
        room: sorted(name for name in re.findall(r"`(\w+\.py)`", said) if not (ROOT / room / name).exists())
        for room, said in rows.items()
        if room.endswith("/")
    }
    assert {room: names for room, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    "head",
    [*ROOT.glob("pipelines/landing/*/__init__.py"), *ROOT.glob("sls_io/*/__init__.py")],
    ids=lambda path: path.parent.name,
)
def test_every_room_says_what_comes_in_what_goes_out_and_what_it_may_touch(head: Path) -> None:
    said = ast.get_docstring(ast.parse(head.read_text(encoding="utf-8"))) or ""
    assert re.search(r"^In: .+^Out: .+^May touch: ", said, flags=re.DOTALL | re.MULTILINE)


def test_a_java_home_that_is_none_is_named_with_its_cure() -> None:
    found = subprocess.run(
        ["sh", ".ci/find-java"],
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    assert "JAVA_HOME is /nonexistent" in found.stderr and "unset JAVA_HOME" in found.stderr


def test_an_index_that_nobody_answers_for_is_one_sentence_and_nothing_is_installed() -> None:
    """By the real uv and pip of this environment."""
    nobody = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0"}
    found = subprocess.run(
        ["sh", ".ci/install", str(Path(sys.executable).parent), "no-such-package-of-ours"],
        cwd=ROOT,
        env={**os.environ, **nobody, "PIP_FIND_LINKS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    last = found.stderr.splitlines()[-1]
    assert found.returncode == 1
    assert last.startswith("The packages are not installed: the package index cannot be reached"), last


def test_make_alone_lists_the_verbs() -> None:
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    verbs = [line.split()[1] for line in said.splitlines()]
    assert (
        verbs
        == "setup demo dev test test-live check docs bench conformance real simulate chaos fuzz clean".split()
    )
