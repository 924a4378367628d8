"""What a shell is offered for a line that is not typed to its end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.projects import CLICKS, make_project

ROOT = Path(__file__).resolve().parents[2]


def offered(folder: Path, *words: str) -> list[str]:
    """The completions of the last word, as the program itself tells bash."""
    asked = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_SLS_LAKE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("sls-lake", *words)),
        "COMP_CWORD": str(len(words)),
    }
    heavy = {"numpy", "pandas", "pyarrow", "pyiceberg", "rich", "sqlalchemy"}
    code = (
        f"import atexit, sys; atexit.register(lambda: print({heavy} & sys.modules.keys(), file=sys.stderr))"
    )
    code += "; from pipelines.cli.main import cli; cli(prog_name='sls-lake')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=asked, cwd=folder, capture_output=True, text=True, check=True
    )
    if words[-2:-1] in (("-l",), ("--logstore",)):
        assert done.stderr == "set()\n", "a name is offered at once, without what its verb needs"
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("des",), ["describe"]),
        (("groups", "se"), ["set"]),
        (("checkpoints", "set", "--out"), ["--out-of-range"]),
        (("describe", "--logstore", "o"), ["orders", "others"]),
        (("describe", "-l", "cl"), ["clicks"]),
        (("describe", "-l", "x"), []),
        (("table", "undo", "--hour", "2026-11-20-07:00", "-l", "ord"), ["orders"]),
    ],
)
def test_a_shell_is_offered_verbs_options_and_logstores(
    words: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    make_project(
        tmp_path, **{name: CLICKS.replace("clicks", name) for name in ("clicks", "orders", "others")}
    )
    assert offered(tmp_path, *words) == expected
