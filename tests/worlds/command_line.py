"""The verbs of `sls-lake` on a world's logstore, in this process or beside it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from json import loads
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import run
from pipelines.cli.output import LONG, NUMBER_MAX
from tests.worlds.one_logstore import PROJECT, World, catalog_variables, use_catalog

_SETTINGS = """type: pipelines.components.SlsLogstore
attributes:
  service: {{endpoint: "{endpoint}", project: {project}, logstore: {logstore}, tries_max: 4}}
  group: {{name: lake, timeout_s: 30, heartbeat_s: 1, patience_s: 5}}
  table: {table}
  start: 2026-01-01-00:00
  columns: {{n: long, status: int}}
"""

_UNNAMED = ("windows", "kept")
"""Where a verb's own lines write cursors and snapshot ids as text."""

Command = Callable[..., dict[str, Any]]


def settings(world: World) -> str:
    """The settings file of a world's logstore."""
    return _SETTINGS.format(
        endpoint=world.emulator.endpoint,
        project=PROJECT,
        logstore=world.logstore.service.logstore,
        table=world.logstore.table,
    )


def too_long(document: Any, name: str = "") -> list[str]:
    """Names of what jq and JavaScript would round, or what is text only where it is long."""
    if isinstance(document, dict):
        return [
            found
            for key, value in document.items()
            for found in too_long(value, name if name in _UNNAMED else key)
        ]
    if isinstance(document, list):
        return [found for value in document for found in too_long(value, name)]
    bare = isinstance(document, int) and not isinstance(document, bool)
    long_text = isinstance(document, str) and document.isdecimal() and int(document) > NUMBER_MAX
    if (bare and (abs(document) > NUMBER_MAX or name in LONG)) or (
        long_text and name not in {*LONG, *_UNNAMED}
    ):
        return [name]
    return []


def numbers(names: dict[str, Any]) -> dict[str, Any]:
    """Cursors and snapshot ids as numbers, which is what tests have to compare them with."""
    return {name: number(value) if name in LONG else value for name, value in names.items()}


def number(value: Any) -> Any:
    """What a text of digits says, also in lists."""
    if isinstance(value, list):
        return [number(each) for each in value]
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def environment(world: World, folder: Path) -> dict[str, str]:
    """Of a process that uses a world's catalog, with its state in `folder`."""
    catalog = catalog_variables(world.lake)
    return {**os.environ, **catalog, "SLS_LAKE_HOME": str(folder / "state")}


@pytest.fixture
def command(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs one verb with --json on the module's own `world`; its document with `code`, `error` and whether
    there was a `document` at all. With `json=False` the `text` for people instead."""
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(world))
    use_catalog(world.lake, monkeypatch)

    def call(*arguments: str, json: bool = True) -> dict[str, Any]:
        capsys.readouterr()
        if not json:
            code = run([*arguments, "--logstore", str(defs)])
            said = capsys.readouterr()
            out, error = (text.replace(f" -l {defs}", "") for text in said)
            return {"text": out, "code": code, "error": error}
        code = run([*arguments, "--logstore", str(defs), "--json"])
        said = capsys.readouterr()
        if said.out:
            assert not (rounded := too_long(loads(said.out))), f"{arguments[:2]} prints {rounded}"
        # Calls that it names have the logstore that was named; whoever copies them here names it again.
        out, error = (text.replace(f" -l {defs}", "") for text in said)
        document: dict[str, Any] = loads(out, object_hook=numbers) if out else {}
        return {**document, "document": bool(said.out), "code": code, "error": error}

    return call


@contextmanager
def running(arguments: Sequence[str], variables: Mapping[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """A verb of the command line beside the block, its stdout a pipe; killed if it still runs after it."""
    program = Path(sys.executable).parent / "sls-lake"
    with subprocess.Popen(
        [program, *arguments], env={**os.environ, **variables}, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def separately(*arguments: str) -> dict[str, Any]:
    """The JSON document of `sls-lake` in another process: the shared Spark stays up."""
    program = "import sys; from pipelines.cli.main import run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
