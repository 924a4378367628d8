"""The tutorial, word by word: its commands run in their order beside an emulator, and say what it says."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from pipelines.cli.demo.sandbox import Sandbox
from pipelines.landing.spark.session import JARS_VARIABLE, installed_jars
from sls_io.emulator import start
from tests import needs
from tests.integration.spark_server import deployed
from tests.snippets import ROOT, blocks
from tests.worlds.project_copy import project

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
_MARK = "next block"
SAYS = [
    (),
    ("the first run makes the table", "runway"),
    (),
    ("3 rows in", "3 rows into bronze.shop"),
    ("verified: 3 rows",),
    ("3 rows could not be typed exactly",),
    ("placed is not timestamp",),
    ("rows 3, mended 3, changed 3, files 1",),
    ("leave", "dry run", "6 rows into bronze.shop", "verified: 6 rows"),
    ("is gone", "the alert would go out now"),
    ("verified: 6 rows",),
    (),
    ("closed: read-only and drained",),
    ("undo", "verified: 9 rows"),
]
"""What stands in the output of each block, in this order."""


@pytest.mark.spark
@pytest.mark.slow
def test_the_commands_of_the_tutorial_do_what_it_says(tmp_path: Path) -> None:
    needs.spark_jars()
    root = project(tmp_path)
    (root / "pipelines" / "defs" / "clicks" / "defs.yaml").unlink()
    home = root / "var" / "dev"
    home.mkdir(parents=True)
    (home / "lake").mkdir()
    # What `make dev` has made by then.
    with (
        start(home / "emulator") as emulator,
        deployed(home, Sandbox(home, emulator.port).variables()) as spark,
    ):
        (home / "env").write_text(Sandbox(home, emulator.port, spark).exports())
        script = [". var/dev/env", "sls-lake load -l access_logs --rows 50 --create >/dev/null"]
        for block in blocks(TUTORIAL, "sh"):
            script += [f"echo '{_MARK}'", block]
        script.append("sls-lake describe -l shop --json > var/described.json")
        done = subprocess.run(
            ["bash", "-e", "-c", "\n".join(script)],
            cwd=root,
            env={
                **{name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ},
                "HOME": str(tmp_path),
                "PYTHONPATH": str(root),
                JARS_VARIABLE: str(installed_jars()[0].parent),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    said = done.stdout.split(f"{_MARK}\n")[1:]
    assert done.returncode == 0, done.stdout[-6000:]
    assert len(said) == len(SAYS)
    for number, (text, wanted) in enumerate(zip(said, SAYS, strict=True)):
        flat = " ".join(text.split())
        for words in wanted:
            assert words in flat, f"block {number} does not say {words!r}: {text}"
    shards = json.loads((root / "var" / "described.json").read_text())["shards"]
    rows = {shard["shard"]: shard["rows"] for shard in shards}
    assert rows[2] == rows[3] == 1, "both children of the split got a log, whatever came before"
