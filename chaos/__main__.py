"""`python -m chaos`: exit status 1 when anything was lost, twice, invented, altered, out of order or stuck.

The seed decides every draw of the conductor and of each process; the moments at which the machine runs
them it does not decide, so a seed is a place to look at again, not a recording.
"""

import argparse
import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from chaos.account import Account
from chaos.conductor import Conductor, Wish
from pipelines.landing.table import Lake
from sls_io.emulator import start

LANES = ("in-process", "spark")
_HOUR0_S = 1_790_000_000 // 3600 * 3600


def main() -> int:
    """0: all was well."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long the chaos lasts; default 1")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--lane", choices=LANES, default="in-process", help="where writing tasks run")
    parser.add_argument("--rows-per-s", type=float, default=4000.0, help="logs put a second")
    parser.add_argument("--folder", type=Path, default=Path("var/chaos"), help="emptied first")
    parser.add_argument("--json", type=Path, help="write the account here as JSON, too")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    folder: Path = options.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wish = Wish(options.minutes * 60, seed, folder, commit(), rows_per_s=options.rows_per_s)
    if options.lane == "spark":
        # A Spark takes seconds to start and half a gigabyte: fewer workers, fewer kills, longer lives.
        wish = replace(wish, workers=2, kills_per_s=0.1, fated=0.4, spark=True)
    say(f"chaos: seed {seed}, commit {wish.commit}, {wish.workers} workers, {wish.seconds:.0f} s")
    say(f"every process writes a log in {folder}")
    account = run(wish)
    for line in account.lines():
        say(line)
    if options.json:
        options.json.write_text(account.json())
    say("all was well" if account.ok else "NOT WELL; the folder is kept as it is")
    return 0 if account.ok else 1


def run(wish: Wish) -> Account:
    """An emulator, a lake and a conductor; the account when all is over."""
    # Forked workers find the key pair where an executor finds it.
    os.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"] = "emulator-key"
    os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = "emulator-secret"
    os.environ.pop("ALIBABA_CLOUD_SECURITY_TOKEN", None)
    os.environ["SLS_LAKE_HOME"] = str(wish.folder)
    with start(now=_HOUR0_S + 60.0) as emulator:
        return Conductor(wish, emulator, Lake.default(), Account(wish.seed, wish.commit)).run()


def commit() -> str:
    """What git says this is, with a mark where files were changed since."""
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return asked.stdout.strip()


def say(line: str) -> None:
    """Print, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
