"""`make simulate N=20000`: random schedules, then every model explored to its end.

Prints the commit, the seeds, the states and the rates; stores nothing. Two processes share the work:
the largest model needs 1.3 GB, so more of them would not be kind to a laptop.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from sls_io.values.clock import SYSTEM_CLOCK
from tests.simulation.lease_models import FULL as LEASES
from tests.simulation.models import FULL
from tests.simulation.share import chunks, explore_any, play

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str]) -> int:
    """Everything, a line for each part. Returns 1 when an invariant was broken."""
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("schedules", type=int, nargs="?", default=20_000, help="random schedules to play")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first schedule")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-models", action="store_true", help="play the schedules only")
    asked = parser.parse_args(arguments)
    say(f"commit {commit()}")
    broken: list[str] = []
    with ProcessPoolExecutor(asked.processes, mp_context=get_context("spawn")) as pool:
        begun_s, seen = SYSTEM_CLOCK.monotonic(), Counter[str]()
        last = asked.first_seed + asked.schedules
        for part, problems in pool.map(play, chunks(asked.first_seed, last)):
            seen += part
            broken += problems
        taken_s = SYSTEM_CLOCK.monotonic() - begun_s
        say(
            f"seeds {asked.first_seed}..{last - 1}: {asked.schedules:,} schedules in {taken_s:.0f} s, "
            f"{asked.schedules / max(taken_s, 1e-9):,.0f} a second, {len(broken)} broken"
        )
        for situation, count in sorted(seen.items()):
            say(f"    {count:>9,} {situation}")
        begun_s, states = SYSTEM_CLOCK.monotonic(), 0
        wanted = () if asked.no_models else (*FULL, *LEASES)
        for number, lines, problems in pool.map(explore_any, wanted):
            states += number
            broken += problems
            for line in lines:
                say(line)
        if states:
            taken_s = SYSTEM_CLOCK.monotonic() - begun_s
            say(f"together: {states:,} states in {taken_s:.0f} s, {states / taken_s:,.0f} a second")
    for line in broken:
        say(line)
    return bool(broken)


def commit() -> str:
    """The commit that is checked out, and whether files differ from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "HEAD").strip() + (" with changes" if changed else "")


def say(line: str) -> None:
    """Print at once: a full run takes minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
