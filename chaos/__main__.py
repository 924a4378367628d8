"""`python -m chaos`: exit status 1 when anything was lost, twice, invented, altered, out of order or stuck.

The seed decides every draw of the conductor and of each process; the moments at which the machine runs
them it does not decide, so a seed is a place to look at again, not a recording.
"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from chaos.account import Account
from chaos.conductor import SERVICE_FOLDER, Conductor, Wish
from chaos.troubles.reapply import reapplying
from pipelines.landing.table.lake import Lake
from sls_io.emulator import start
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.window import HOUR_S

LANES = ("in-process", "spark", "cluster", "dagster")
CATALOGS = ("sql", "reapplying")
HOURS_BEHIND = 12
"""In the lane of Dagster, whose runs may not name hours to come, the service's clock begins so far back."""
_HOUR0_S = 1_790_000_000 // 3600 * 3600


def main() -> int:
    """0: all was well."""
    options = parse()
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    folder: Path = options.folder.absolute()
    running = folder / "run"
    shutil.rmtree(running, ignore_errors=True)
    running.mkdir(parents=True)
    wish = wish_of(options, seed, running)
    say(f"chaos: seed {seed}, commit {wish.commit}, {wish.workers} workers, {wish.seconds:.0f} s")
    say(f"every process writes a log in {running}")
    account = run(wish, options.lane, options.catalog)
    account.settings = settings(options, seed)
    for line in account.lines():
        say(line)
    if options.json:
        options.json.write_text(account.json())
    say(f"again: {account.settings}")
    if not account.ok:
        say(f"NOT WELL; the folder is kept as it is, seed and account are in {keep(account, folder)}")
        return 1
    say("all was well")
    return 0


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long the chaos lasts; default 1")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--lane", choices=LANES, default=LANES[0], help="where writing tasks run")
    parser.add_argument("--rows-per-s", type=float, help="logs put a second; default: as the lane can")
    parser.add_argument("--catalog", choices=CATALOGS, default=CATALOGS[0], help="reapplying: see reapply.py")
    parser.add_argument("--no-fence", action="store_true", help="send no requirements: must NOT end well")
    parser.add_argument("--folder", type=Path, default=Path("var/chaos"), help="its `run` is emptied first")
    parser.add_argument("--json", type=Path, help="write the account here as JSON, too")
    return parser.parse_args()


def wish_of(options: argparse.Namespace, seed: int, folder: Path) -> Wish:
    """What the lane can bear."""
    wish = Wish(options.minutes * 60, seed, folder, commit(), fence=not options.no_fence)
    if options.lane in ("spark", "cluster"):
        # A Spark takes seconds to start and half a gigabyte: fewer workers, fewer kills, longer lives.
        wish = replace(
            wish, workers=2, kills_per_s=0.1, fated=0.4, master="local[1,3]", house_every_s=3.0,
            rows_per_s=2000.0, restart_every_s=30.0, jump_every_s=25.0, run_s=30,
            claim_s=6, reshape_every_s=8.0,
        )  # fmt: skip
    if options.lane == "dagster":
        from pipelines.landing.hours import hour_text

        wish = replace(
            wish, workers=3, kills_per_s=0.06, fated=0.65, house_every_s=4.0, rows_per_s=1000.0,
            restart_every_s=40.0, jump_every_s=60.0,
            start=hour_text(_behind_s() // HOUR_S), run_s=60, claim_s=12, reshape_every_s=20.0,
        )  # fmt: skip
    if options.rows_per_s is not None:
        wish = replace(wish, rows_per_s=options.rows_per_s)
    return wish


def run(wish: Wish, lane: str, catalog: str) -> Account:
    """An emulator, a lake and a conductor; the account when all is over."""
    # Forked workers find the key pair where an executor finds it.
    os.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"] = "emulator-key"
    os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = "emulator-secret"
    os.environ.pop("ALIBABA_CLOUD_SECURITY_TOKEN", None)
    os.environ["SLS_LAKE_HOME"] = str(wish.folder)
    account = Account(wish.seed, wish.commit, lane=lane)
    lake = Lake.default() if catalog == CATALOGS[0] else reapplying(Lake.default())
    data = wish.folder / SERVICE_FOLDER
    if lane == "dagster":
        from chaos import site
        from chaos.dagster_lane import DagsterConductor

        emulator = start(data, now=_behind_s() + 60.0)
        box = site.enter(wish.folder / "site", emulator.port)
        return DagsterConductor(wish, emulator, Lake.default(), account, box=box).run()
    emulator = start(data, now=_HOUR0_S + 60.0)
    if lane == "cluster":
        from chaos.cluster import DRIVER, Cluster
        from chaos.cluster_lane import ClusterConductor
        from chaos.network import Network

        with Cluster(wish.folder / "cluster") as cluster, Network(emulator.port, cluster.work) as network:
            wish = replace(wish, master=cluster.master, conf=DRIVER)
            return ClusterConductor(wish, emulator, lake, account, cluster=cluster, network=network).run()
    return Conductor(wish, emulator, lake, account).run()


def _behind_s() -> int:
    """An hour that began before the machine's, by as much as the service's clock may be moved on."""
    return (int(SYSTEM_CLOCK.now()) // HOUR_S - HOURS_BEHIND) * HOUR_S


def settings(options: argparse.Namespace, seed: int) -> str:
    """The command that draws the same again."""
    words = [f"--minutes {options.minutes:g}", f"--seed {seed}", f"--lane {options.lane}"]
    words += [f"--rows-per-s {options.rows_per_s:g}"] if options.rows_per_s is not None else []
    words += [f"--catalog {options.catalog}"] if options.catalog != CATALOGS[0] else []
    words += ["--no-fence"] if options.no_fence else []
    return "python -m chaos " + " ".join(words)


def keep(account: Account, folder: Path) -> Path:
    """Keep a seed that did not end well, with its settings and account and what the processes wrote."""
    place = folder / "failures" / f"{account.lane}-{account.seed}-{account.commit}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "account.json").write_text(json.dumps(account.doc(), indent=2) + "\n")
    for log in (folder / "run").glob("*.log"):
        shutil.copy(log, place)
    return place


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
