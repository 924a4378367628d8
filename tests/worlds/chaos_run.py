"""A run of `python -m chaos`, and the counts of one in which all is well."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_PROGRAM_S = 600.0
_WORDS = (
    "lost", "duplicate", "invented", "altered", "out of order", "child before parent",
    "contradicted", "unkept",
)  # fmt: skip
CLEAN = dict.fromkeys(_WORDS, 0)


def run(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """A run of the program, and the account it wrote."""
    account = folder / "account.json"
    command = [sys.executable, "-m", "chaos", *arguments, "--folder", str(folder / "chaos")]
    command += ["--json", str(account)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_PROGRAM_S, check=False)
    assert account.exists(), done.stdout[-4000:] + done.stderr[-2000:]
    return done, json.loads(account.read_text())
