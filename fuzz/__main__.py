"""`python -m fuzz`: exit status 1 when a round of any lane came out wrong.

Lanes are played one after the other, each for its share of the time. What failed is kept with its seed
in `var/fuzz/failures`; make a named test of it when it is mended.
"""

import argparse
import importlib
import json
import secrets
import shutil
import sys
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

from fuzz.lane import SEEDS_A_RUN, Opener
from sls_io.values.clock import SYSTEM_CLOCK

LANES = ("values", "groups", "answers", "verbs", "reread")
FAILURES_MAX = 5


@dataclass
class Account:
    """What one lane did: rounds, counts by name, and (seed, what was wrong) of each failure."""

    lane: str
    rounds: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def line(self) -> str:
        """One line for a person."""
        counts = ", ".join(f"{name} {number:,}" for name, number in sorted(self.counts.items()))
        failures = f"failures {len(self.failures)}"
        return f"{self.lane}: {self.rounds:,} rounds in {self.seconds:.0f} s; {counts}; {failures}"


def main() -> int:
    """0: every round came out as it must."""
    options = parse()
    folder: Path = options.folder.absolute()
    if options.round is not None:
        if not options.lane:
            say("--round goes with --lane: one round of one lane")
            return 2
        accounts = [play(options.lane[0], folder, first=options.round, rounds_max=1)]
    else:
        seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
        lanes = options.lane or list(LANES)
        say(f"fuzz: seed {seed}, {options.minutes:g} minutes, lanes {', '.join(lanes)}")
        share_s = options.minutes * 60 / len(lanes)
        accounts = [play(lane, folder, first=seed * SEEDS_A_RUN, seconds=share_s) for lane in lanes]
        say(f"again: make fuzz MINUTES={options.minutes:g} SEED={seed}")
    failed = [account for account in accounts if account.failures]
    for account in failed:
        say(f"NOT WELL; {account.lane}: {keep(account, folder)}")
    say("not all was well" if failed else "all was well")
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=4.0, help="for all lanes together; default 4")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--lane", action="append", choices=LANES, help="may be said again; default: all")
    parser.add_argument("--round", type=int, default=None, help="play this one round, as a failure names it")
    parser.add_argument("--folder", type=Path, default=Path("var/fuzz"), help="its `run` is emptied first")
    return parser.parse_args()


def play(
    lane: str, folder: Path, *, first: int, seconds: float = 0.0, rounds_max: int = SEEDS_A_RUN
) -> Account:
    """Rounds of `lane` from the seed `first` on until the time is over or too much is wrong."""
    running = folder / "run" / lane
    shutil.rmtree(running, ignore_errors=True)
    running.mkdir(parents=True)
    account = Account(lane)
    begun_s = SYSTEM_CLOCK.monotonic()
    open_lane = cast(Opener, importlib.import_module(f"fuzz.{lane}").open_lane)
    with open_lane(running) as played:
        least = min(played.rounds_min, rounds_max)
        while len(account.failures) < FAILURES_MAX and account.rounds < rounds_max:
            if account.rounds >= least and SYSTEM_CLOCK.monotonic() - begun_s >= seconds:
                break
            seed = first + account.rounds
            try:
                played.play(seed)
            except Exception as error:  # whatever escapes is a finding
                say(f"{lane}: round {seed}: {type(error).__name__}: {error}")
                account.failures.append((seed, traceback.format_exc()))
            account.rounds += 1
        account.counts = Counter(played.counts)
    account.seconds = SYSTEM_CLOCK.monotonic() - begun_s
    say(account.line())
    return account


def keep(account: Account, folder: Path) -> Path:
    """The failures of a lane as a file, and where it is."""
    path = folder / "failures" / f"{account.lane}-{account.failures[0][0]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(account) | {"counts": dict(account.counts)}, indent=2))
    return path


def say(text: str) -> None:
    """A line on standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
