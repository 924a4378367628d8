"""Figures over time: `python -m bench.history` prints what `--record` wrote, a table a bench.

A line of `history.jsonl` is one bench run: when, of which commit, on which machine, what it said. A commit
with a `+` had changes that were not in it. Do not compare figures of two machines, nor of one that had other
work: `load` is how many processes wanted a core when the bench ended. Wall time suffers most.
"""

import argparse
import json
import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pipelines.landing.table.home import ROOT
from sls_io.values.clock import SYSTEM_CLOCK

HISTORY = ROOT / "bench" / "history.jsonl"
_WIDTH = 160


def add_flag(parser: argparse.ArgumentParser) -> None:
    """`--record`, for a bench whose figures are worth keeping."""
    parser.add_argument("--record", action="store_true", help="append the figures to bench/history.jsonl")


def record(bench: str, figures: Mapping[str, float], *, path: Path = HISTORY) -> None:
    """Append one run's figures; a figure's name ends with its unit."""
    line = {
        "bench": bench,
        "date": datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC).strftime("%Y-%m-%d %H:%M"),
        "commit": _commit(),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 1),
        "figures": {name: round(value, 3) for name, value in figures.items()},
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def machine() -> dict[str, Any]:
    """Cores, processor and memory of this machine."""
    model = _field(Path("/proc/cpuinfo"), "model name") or "unknown"
    memory_kb = int((_field(Path("/proc/meminfo"), "MemTotal") or "0 kB").split()[0])
    return {"cores": os.cpu_count() or 0, "cpu": model, "memory_gb": round(memory_kb / 1e6, 1)}


def _field(path: Path, name: str) -> str | None:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next(
        (value.strip() for key, _, value in (x.partition(":") for x in lines) if key.strip() == name), None
    )


def _commit() -> str:
    """The commit that is checked out, with `+` where the tree differs; "unknown" without git."""
    try:
        head, changed = (
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
            for words in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.strip() + "+" * bool(changed)


def tables(path: Path = HISTORY) -> list[Table]:
    """A table of each bench in the file: a line a run, oldest first, a column a figure of the newest run."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        run = json.loads(line)
        runs.setdefault(run["bench"], []).append(run)
    return [_table(bench, found) for bench, found in runs.items()]


def _table(bench: str, runs: list[dict[str, Any]]) -> Table:
    table = Table(title=bench, title_justify="left")
    names = list(runs[-1]["figures"])
    for name in ("date", "commit", "machine", "load", *names):
        table.add_column(name, justify="right" if name in names else "left", overflow="fold")
    for run in runs:
        of = run["machine"]
        where = f"{of['cores']} cores, {of['memory_gb']:g} GB, {of['cpu']}"
        shown = [f"{run['figures'][name]:g}" if name in run["figures"] else "" for name in names]
        table.add_row(run["date"], run["commit"], where, f"{run['load']:g}", *shown)
    return table


def main() -> None:
    """Print all tables."""
    argparse.ArgumentParser(prog="python -m bench.history", description=__doc__).parse_args()
    console = Console(width=_WIDTH)
    shown = tables()
    for table in shown:
        console.print(table)
    if not shown:
        console.print(f"nothing was recorded in {HISTORY.relative_to(ROOT)} yet: make bench RECORD=1")


if __name__ == "__main__":
    main()
