"""The house rules that a machine can check. A failure names the place and what to write instead.

Every rule is a function that returns complaints, "file:line: what; what instead". Product code is
`sls_io` and `pipelines`; the rules that protect readers hold for examples, tests, bench and conformance too.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from importlinter import cli as import_linter

from pipelines.components.logstore.dagster_private import CHECKED_WITH
from tests.sources import (
    PICTURES,
    ROOT,
    at,
    called,
    complain,
    functions,
    imported,
    module_name,
    product,
    python_files,
    text_of,
    tracked,
    tree,
)

LINE_CHARS_MAX = 110
TRACKED_FILE_BYTES_MAX = 300_000
PICTURE_BYTES_MAX = 120_000


BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}

BANNED_CALLS = {
    "time.time": "take a Clock and call clock.now()",
    "time.sleep": "take a Clock and call clock.sleep(); a test waits on a socket, pipe or condition",
    "time.monotonic": "take a Clock and call clock.monotonic()",
    "select.select": "use selectors; select() refuses descriptors from 1024 on",
    "asyncio.sleep": "wait for the event itself: a condition, a future, a socket",
    "datetime.datetime.now": "take a Clock and use datetime.fromtimestamp(clock.now(), UTC)",
    "datetime.datetime.utcnow": "take a Clock and use datetime.fromtimestamp(clock.now(), UTC)",
    "datetime.datetime.today": "take a Clock and use datetime.fromtimestamp(clock.now(), UTC)",
    "datetime.date.today": "take a Clock and use datetime.fromtimestamp(clock.now(), UTC).date()",
}
CLOCK_FILE = "sls_io/values/clock.py"
DAGSTER_PRIVATE = {"pipelines/components/logstore/dagster_private.py", "pipelines/run_launcher.py"}
"""The launcher is loaded with the instance, where no component is."""

BANNED_IN_TESTS = {
    "unittest.mock": "start the emulator, or hand in a value or a small real object",
    "mock": "start the emulator, or hand in a value or a small real object",
    "pytest_mock": "start the emulator, or hand in a value or a small real object",
}

OWNERS = {
    "aliyun": {
        *("sls_io/wire/transport.py", "sls_io/wire/signature.py", "sls_io/wire/refusal.py"),
        "pipelines/cli/files/packing.py",
    },
    "ptars": {"sls_io/decoding/nested.py"},
    "lz4": {"sls_io/wire/loggroup.py"},
    "zstandard": {"sls_io/wire/loggroup.py"},
    "urllib3": {"sls_io/wire/transport.py", "sls_io/wire/http.py"},
    "pyspark": {f"pipelines/landing/spark/{name}.py" for name in ("session", "java", "source")},
}
"""A library that could be exchanged is imported by the files named here and by no other."""

FOREIGN = {
    "a path of one machine": re.compile(r"/(?:work|root|home/\w+|Users/\w+)/"),
    "a package registry": re.compile(
        r"\b(?:pypi|files\.pythonhosted|registry\.npmjs|repo1?\.maven(?:\.apache)?"
        r"|crates|proxy\.golang)\.(?:org|io)\b"
    ),
    "a tracker number": re.compile(r"\b(?:issue|ticket) #?\d+", re.IGNORECASE),
}

OVERRIDES = {
    "format_commands",
    "get_command",
    "list_commands",
    "resolve_command",
    "build_defs",
    "startup",
    "on_message_begin",
    "on_url",
    "on_header",
}
OVERRIDES |= {"on_headers_complete", "on_body", "on_message_complete"}
"""Methods whose contract stands in the library that calls them: click, Dagster, uvicorn, httptools."""

MESSAGES = {"args", "cure", "message", "text", "verb", "what"}
"""Attributes that hold words for people."""
CUTS = {"endswith", "find", "index", "partition", "removeprefix", "removesuffix", "rpartition", "rsplit"}
CUTS |= {"split", "startswith"}
SEARCHES = {"findall", "finditer", "fullmatch", "get", "match", "search", "sub"}
FOREIGN_WORDS = {
    "pipelines/landing/commit/publish.py:origin_registered": "an origin's text is its identity, no message",
    "pipelines/landing/table/lake.py:catalog": "each database has its own error for a table that is there",
    "pipelines/landing/table/trouble.py:is_storage": "Arrow says nothing but words of what S3 answered",
    "pipelines/landing/table/trouble.py:storage_trouble": "the same",
    "sls_io/wire/vendor_keys.py:_said": "the vendor's library says nothing but words of what STS answered",
    "pipelines/landing/run/write.py:raised_in": "Spark hands a task's error on as a traceback in text",
}
"""Where the messages of others are read, which say it in no other way; and why."""

ENTRY_POINTS = {
    "pipelines.cli.start",
    "pipelines.definitions",
    "pipelines.landing.spark.jars",
    "pipelines.landing.spark.record",
    "pipelines.landing.run.worker_daemon",
    "pipelines.components",
    "sls_io.coordination.migrations.env",
    "sls_io.coordination.migrations.versions.step_0001",
    "sls_io.coordination.migrations.versions.step_0002",
    "sls_io.coordination.migrations.versions.step_0003",
}
"""Modules that start by name: console script, what Dagster loads, set-up, what Spark forks workers from,
what a defs.yaml names, what Alembic runs."""


def test_no_module_is_an_attic() -> None:
    complain(
        f"{at(p)}: name it after what it does"
        for p in tracked()
        if BANNED_NAMES & {*p.relative_to(ROOT).parts[:-1], p.stem.lstrip("_")}
    )


def test_time_comes_from_the_clock_only() -> None:
    complain(
        f"{at(p, line)}: {name}; {BANNED_CALLS[name]}"
        for p in python_files()
        if at(p) != CLOCK_FILE
        for line, name in called(p)
        if name in BANNED_CALLS
    )


def test_nothing_is_mocked() -> None:
    modules = [
        f"{at(p, line)}: {name}; {cure}"
        for p in python_files()
        for line, name in imported(p)
        for banned, cure in BANNED_IN_TESTS.items()
        if name == banned or name.startswith(f"{banned}.")
    ]
    patches = [
        f"{at(p, node.lineno)}: replaces an attribute; hand the value in, or ask the emulator for the fault"
        for p in python_files("tests")
        for node in ast.walk(tree(p))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("monkeypatch.setattr")
    ]
    complain([*modules, *patches])


def test_product_code_does_not_assert() -> None:
    complain(
        f"{at(p, node.lineno)}: raise InvariantBroken; an assert vanishes under -O"
        for p in product()
        for node in ast.walk(tree(p))
        if isinstance(node, ast.Assert)
    )


def test_nothing_decides_by_the_words_of_a_message() -> None:
    complain(
        f"{at(p, line)}: {what} reads a message; ask its type, `LedgerBroken.kind`, `Wait.kind`, "
        "`Deed.operation` or `causes.HeadShown`; else give it a kind"
        for p in python_files("sls_io", "pipelines", "chaos", "fuzz", "bench")
        for line, function, what in read_messages(tree(p))
        if f"{at(p)}:{function}" not in FOREIGN_WORDS
    )


def test_a_foreign_message_that_is_read_is_still_read() -> None:
    there = {f"{at(p)}:{function}" for p in python_files() for _, function, _ in read_messages(tree(p))}
    complain(
        f"{place}: reads no message any more; take it out of the list"
        for place in FOREIGN_WORDS.keys() - there
    )


@pytest.mark.parametrize(
    "line",
    [
        "if error.verb == ADOPT: pass",
        "if 'adopt' in error.verb: pass",
        "if 'locked' not in str(error): raise",
        "return str(error).partition('. To settle it')[0]",
        "done = error.args[0].startswith('no')",
        "found = PATTERN.search(str(error))",
        "found = re.match('x', error.message)",
        "text = str(error)\n    found = PATTERN.findall(text)",
        "if not wait.text.startswith(('closed', 'drained')): pass",
        "waits = [w for w in waits if w.text != NOTHING]",
        "match str(error):\n        case 'no': pass",
        "way = {'gone': 1}.get(error.what)",
        "way = WAYS[error.what]",
    ],
)
def test_a_decision_by_words_is_found(line: str) -> None:
    assert list(read_messages(ast.parse(f"def f(error, wait):\n    {line}")))


@pytest.mark.parametrize(
    "line",
    [
        "raise Told(f'{error.what}; {error.verb}')",
        "if error.kind is Breach.DAMAGED: raise",
        "if error.verb == '' or not wait.text: pass",
        "first = str(error).splitlines()[0]",
        "text = str(number)\n    same = text == other",
    ],
)
def test_what_is_only_shown_is_no_decision(line: str) -> None:
    assert not list(read_messages(ast.parse(f"def f(error, wait, number, other):\n    {line}")))


def read_messages(module: ast.Module) -> Iterator[tuple[int, str, str]]:
    """(line, function, expression) of what compares, searches or cuts the words of a message."""
    functions_of = (n for n in ast.walk(module) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    for function in functions_of:
        inner = list(ast.walk(function))
        errors = {"error"} | {n.name for n in inner if isinstance(n, ast.ExceptHandler) and n.name}
        held = {
            target.id
            for node in inner
            if isinstance(node, ast.Assign) and is_message(node.value, errors, set())
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in inner:
            if any(is_message(part, errors, held) for part in decided_by(node)):
                line = getattr(node, "lineno", function.lineno)
                yield line, function.name, ast.unparse(node).splitlines()[0]


def is_message(node: ast.expr, errors: set[str], held: set[str]) -> bool:
    """Whether it is the text of one of these errors, or of a wait or a cause; `held`: names given one."""
    if isinstance(node, ast.Attribute):
        return node.attr in MESSAGES
    if isinstance(node, ast.Subscript):
        return is_message(node.value, errors, held)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("strip", "lower", "casefold") and is_message(node.func.value, errors, held)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("str", "repr") and node.args:
        return isinstance(node.args[0], ast.Name) and node.args[0].id in errors
    return isinstance(node, ast.Name) and node.id in held


def decided_by(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose words decide in `node`: compared, searched, cut, matched or looked up by."""
    if isinstance(node, ast.Compare):
        both = [node.left, *node.comparators]
        # Whether there is a text at all is no question of its words.
        if not any(isinstance(part, ast.Constant) and not part.value for part in both):
            yield from both
    elif isinstance(node, ast.Match):
        yield node.subject
    elif isinstance(node, ast.Subscript) and not is_message(node.value, set(), set()):
        yield node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in CUTS:
            yield node.func.value
        if node.func.attr in SEARCHES:
            yield from node.args


def test_a_library_that_could_be_exchanged_has_one_owner() -> None:
    complain(
        f"{at(p, line)}: imports {name}; only {', '.join(sorted(OWNERS[library]))} may"
        for p in product()
        for line, name in imported(p)
        if (library := name.split(".")[0]) in OWNERS and at(p) not in OWNERS[library]
    )


def test_what_dagster_does_not_export_is_imported_where_it_was_looked_up() -> None:
    complain(
        f"{at(p, line)}: imports {name}; only {sorted(DAGSTER_PRIVATE)} may"
        for p in product()
        if at(p) not in DAGSTER_PRIVATE
        for line, name in imported(p)
        if re.match(r"dagster\w*\.(_|\w+\._)", name)
    )


def test_what_dagster_does_not_export_was_looked_up_in_the_pinned_release() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    assert f"dagster=={CHECKED_WITH}" in pins
    assert version("dagster") == CHECKED_WITH


def test_sls_io_modules_import_each_other_by_name() -> None:
    """The package root is for users; inside, it would make every module depend on all."""
    packages = {module_name(p) for p in product()}
    complain(
        f"{at(p, line)}: imports from the package root; name the module"
        for p in python_files("sls_io")
        if at(p) != "sls_io/__init__.py"
        for line, name in imported(p)
        if name == "sls_io" or (name.count(".") == 1 and name.startswith("sls_io.") and name not in packages)
    )


def test_public_names_are_documented_and_typed() -> None:
    contracts = OVERRIDES | set(documented_methods())
    complain(problem for p in product() for problem in undocumented(p, contracts))


def documented_methods() -> Iterator[str]:
    """Method names that some class documents: an implementation need not repeat the contract."""
    for path in product():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(inner):
                        yield inner.name


def undocumented(path: Path, contracts: set[str]) -> Iterator[str]:
    """Complaints about one file: module, public classes, functions and methods."""
    module = tree(path)
    if module.body and not ast.get_docstring(module):
        yield f"{at(path, 1)}: no docstring; say what the module is and its rules"
    for node in module.body:
        if not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            yield f"{at(path, node.lineno)}: {node.name} has no docstring; shapes, units, errors"
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        for member in members:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and not member.name.startswith("_"):
                yield from unfinished(path, member, contracts)


def unfinished(
    path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef, contracts: set[str]
) -> Iterator[str]:
    """Complaints about one public function: a short one may let its name speak, none may lack hints."""
    short = len(function.body) == 1
    if not short and not ast.get_docstring(function) and function.name not in contracts:
        yield f"{at(path, function.lineno)}: {function.name} has no docstring; shapes, units, errors"
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    bare = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
    if bare or function.returns is None:
        yield f"{at(path, function.lineno)}: {function.name} lacks hints: {', '.join(bare) or 'return'}"


def test_every_module_is_used() -> None:
    """Imported by product code, an example or bench, loaded from a defs folder, or named in text."""
    loaded = ROOT / "pipelines" / "defs"
    names = {
        module_name(p): p
        for p in product()
        if p.name not in ("__init__.py", "__main__.py") and not p.is_relative_to(loaded)
    }
    used = {name for p in python_files("sls_io", "pipelines", "examples", "bench") for _, name in imported(p)}
    used |= {name.rpartition(".")[0] for name in used}
    texts = [
        p.read_text(encoding="utf-8")
        for p in tracked()
        if p.suffix in (".py", ".yaml") or p.name == "Makefile"
    ]
    complain(
        f"{at(path)}: nobody imports it; use it or delete it"
        for name, path in names.items()
        if name not in used | ENTRY_POINTS
        and not any(f'"{name}' in text or f"-m {name}" in text for text in texts)
    )


def test_every_test_file_has_a_test() -> None:
    complain(
        f"{at(p)}: no test in it; write one or rename the file"
        for p in python_files("tests")
        if p.name.startswith("test_") and not any(f.name.startswith("test_") for f in functions(p))
    )


def test_no_module_imports_from_a_test_file() -> None:
    complain(
        f"{at(p, line)}: imports {name}; what several files share is a world of tests/worlds"
        for p in python_files()
        for line, name in imported(p)
        if re.match(r"tests\.(?:\w+\.)*test_", name)
    )


def test_dbt_is_no_python_package() -> None:
    """An __init__.py there would shadow dbt's own package."""
    complain(
        f"{at(p)}: remove it"
        for p in tracked()
        if p.match("dbt/**/__init__.py") or at(p) == "dbt/__init__.py"
    )


def test_text_is_clean() -> None:
    problems: list[str] = []
    for path in tracked():
        for number, line in enumerate(text_of(path).split("\n"), 1):
            if line != line.rstrip():
                problems.append(f"{at(path, number)}: trailing space")
            if "\t" in line and path.name != "Makefile" and path.suffix != ".go":
                problems.append(f"{at(path, number)}: tab; write spaces, or \\t")
            if len(line) > LINE_CHARS_MAX and path.suffix in (".py", ".sql", ".yaml", ".yml"):
                problems.append(f"{at(path, number)}: {len(line)} characters; {LINE_CHARS_MAX} at most")
    complain(problems)


def test_no_binary_is_tracked() -> None:
    complain(
        f"{at(p)}: {p.stat().st_size} bytes, binary or too large; set-up fetches or a test makes it"
        for p in tracked()
        if p.suffix in (".jar", ".whl", ".so", ".parquet", ".sqlite", ".png", ".gz")
        or b"\0" in p.read_bytes()
        or p.stat().st_size > TRACKED_FILE_BYTES_MAX
    )


def test_a_picture_is_small_and_shown() -> None:
    pages = "".join(text_of(p) for p in tracked() if p.suffix == ".md")
    shown = [p for p in ROOT.glob(PICTURES) if p.stat().st_size <= PICTURE_BYTES_MAX and p.name in pages]
    assert sorted(shown) == sorted(ROOT.glob("docs/images/*"))


def test_the_project_speaks_of_itself_alone() -> None:
    complain(
        f"{at(p, number)}: names {what}; leave it out"
        for p in tracked()
        for number, line in enumerate(text_of(p).split("\n"), 1)
        for what, pattern in FOREIGN.items()
        if pattern.search(line)
    )


def test_constraints_are_names_and_versions() -> None:
    complain(
        f"constraints.txt:{number}: {line!r}; write name==version"
        for number, line in enumerate((ROOT / "constraints.txt").read_text().splitlines(), 1)
        if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9A-Za-z.+]+", line)
    )


def test_links_in_the_docs_lead_somewhere() -> None:
    complain(
        f"{at(p, number)}: {target} is not there"
        for p in tracked()
        if p.suffix == ".md"
        for number, line in enumerate(text_of(p).split("\n"), 1)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line)
        if "://" not in target and not (p.parent / target).exists()
    )


def test_every_room_has_a_layer() -> None:
    layers = " ".join(layer for contract in contracts() for layer in contract.get("layers", []))
    listed = set(re.findall(r"[\w.]+", layers))
    depths = {"sls_io": 2, "pipelines.landing": 3}
    rooms = {
        ".".join(name.split(".")[:depth])
        for p in product()
        for top, depth in depths.items()
        if (name := module_name(p)).startswith(f"{top}.")
    }
    complain(f"{room}: give it a level in the layers contracts of pyproject.toml" for room in rooms - listed)


def contracts() -> list[dict[str, list[str]]]:
    """The import-linter contracts of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: list[dict[str, list[str]]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return found


def test_imports_go_one_way(capsys: pytest.CaptureFixture[str]) -> None:
    broken = import_linter.lint_imports(
        config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True
    )
    if broken:
        pytest.fail(capsys.readouterr().out, pytrace=False)
