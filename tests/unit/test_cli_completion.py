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
    code = "from pipelines.cli.main import cli; cli(prog_name='sls-lake')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=asked, cwd=folder, capture_output=True, text=True, check=True
    )
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
    ],
)
def test_a_shell_is_offered_verbs_options_and_logstores(
    words: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    make_project(
        tmp_path, **{name: CLICKS.replace("clicks", name) for name in ("clicks", "orders", "others")}
    )
    assert offered(tmp_path, *words) == expected
