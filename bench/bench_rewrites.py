"""Peak memory of the verbs that read or write data files, over a few files of rows that look alike.

    python -m bench.bench_rewrites [--mb 360] [--log-bytes 300]

Files of a megabyte hold so many MB raw. Each verb is carried out in a process of its own, one after the other
on the same table, as the command line would. Prints its peak; fails over `--limit-mb`.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.bench_shapes import peak_mb
from bench.logstores import PROJECT, bench_folder, emulator_without_quotas
from bench.shapes import log, pair
from chaos.engine import InProcess
from pipelines.landing.commit.planned import execute
from pipelines.landing.inspection.verify import verify
from pipelines.landing.inspection.whole import every_file
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.operations.mend import Kept, plan_mend
from pipelines.landing.operations.repair_manifests import plan_repair_manifests
from pipelines.landing.operations.replace import plan_replace
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.wire.client import SlsClient
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World, logstore_settings, make_lake

LIMIT_MB = 400.0
GROUP_BYTES = 4_000_000
HOURS = range(HOUR0, HOUR0 + 1)
LANDED = {"n": "long", "status": "int"}
FIXED = {"n": "long", "status": "long"}
DECLARED = {**FIXED, "city": "string"}


@dataclass(frozen=True)
class Place:
    """A table and its logstore, from a process of its own."""

    lake: Lake
    logstore: Logstore

    def having(self, columns: dict[str, str]) -> Logstore:
        """The settings with these columns."""
        return Logstore.model_validate({**self.logstore.model_dump(), "columns": columns})


def _look(at: Place, client: SlsClient) -> int:
    """Nothing but what each verb begins with."""
    return at.lake.load(at.logstore.table) is not None


def _verify(at: Place, client: SlsClient) -> int:
    return int(verify(at.having(DECLARED), at.lake, client).ok)


def _verify_rows(at: Place, client: SlsClient) -> int:
    return int(verify(at.having(DECLARED), at.lake, client, rows=every_file).ok)


def _repair(at: Place, client: SlsClient) -> int:
    """All manifest lists are lost, and a copy of a file lies beside it, which is compared with it."""
    table = at.lake.load(at.logstore.table)
    if table is None:
        raise SystemExit("nothing was landed")
    folder = Path(table.location().removeprefix("file://"))
    file = max((folder / "data").rglob("*.parquet"), key=lambda path: path.stat().st_size)
    shutil.copy(file, file.with_name("copy.parquet"))
    for manifest_list in (folder / "metadata").glob("snap-*.avro"):
        manifest_list.unlink()
    planned = plan_repair_manifests(at.lake, at.having(DECLARED), client)
    execute(at.lake, planned)
    return planned.view.rows


def _mend(at: Place, client: SlsClient, kept_in: Kept, columns: dict[str, str]) -> int:
    logstore = at.having(columns)
    planned = plan_mend(at.lake, logstore, client, HOURS, kept_in=kept_in)
    execute(at.lake, planned)
    return planned.view.mended


def _errors(at: Place, client: SlsClient) -> int:
    return _mend(at, client, "errors", FIXED)


def _rest(at: Place, client: SlsClient) -> int:
    return _mend(at, client, "rest", DECLARED)


def _replace(at: Place, client: SlsClient) -> int:
    return plan_replace(at.lake, at.having(DECLARED), client, HOURS).view.rows


def _forget(at: Place, client: SlsClient) -> int:
    planned = plan_forget_where(at.lake, at.having(DECLARED), client, "n = 3")
    execute(at.lake, planned)
    return planned.view.rows


def _compact(at: Place, client: SlsClient) -> int:
    return sum(hour.rows for hour in Maintainer(at.having(DECLARED), at.lake).execute(["compact"]).compacted)


VERBS: dict[str, Callable[[Place, SlsClient], int]] = {
    "look": _look,
    "verify": _verify,
    "verify --rows": _verify_rows,
    "repair-manifests": _repair,
    "errors": _errors,
    "rest": _rest,
    "replace, planned": _replace,
    "forget": _forget,
    "compact": _compact,
}
"""Verb -> what carries it out and counts its rows; each finds what the one before left."""


def landed(folder: Path, emulator: Emulator, mb: int, log_bytes: int) -> World:
    """An hour of two landings, so of two files a shard: about `mb` raw of logs of so many bytes that look
    alike. Each has an error that another type cures, and a key that has no column."""
    settings = logstore_settings(
        emulator, "alike", columns=LANDED, budget={"settle_s": 0, "bytes_max": 2**40}
    )
    settings = settings.model_copy(
        update={"service": settings.service.model_copy(update={"project": PROJECT})}
    )
    world = World(emulator, make_lake(folder / "lake"), settings, InProcess())
    with world.client as client:
        client.transport.create_project(PROJECT, "")
        client.transport.create_logstore(PROJECT, "alike", ttl=30, shard_count=1)
        text = b"x" * log_bytes
        logs = [
            log(
                pair(b"n", b"%d" % n),
                pair(b"status", b"%d" % 2**40),
                pair(b"city", b"Rome"),
                pair(b"t", text),
            )
            for n in range(10)
        ]
        body = b"".join(logs)
        group = body * max(1, GROUP_BYTES // len(body))
        for half in (1, 2):
            for _ in range(mb * 1_000_000 // len(group) // 2):
                client.put_raw(group)
            world.at(HOUR0_S + 600 * half)
            world.land()
    # The hour is over and a log came after it: it is sealed.
    world.at(HOUR0_S + 3700)
    with world.client as client:
        client.put_raw(log(pair(b"n", b"1")))
    world.at(HOUR0_S + 3900)
    world.land()
    return world


def peaks(mb: int, log_bytes: int) -> dict[str, dict[str, float]]:
    """What each verb took: `peak_mb`, `rows`, `seconds`, and `file_mb` of the table before."""
    found = {}
    with bench_folder() as folder, emulator_without_quotas(folder, now_s=HOUR0_S) as emulator:
        world = landed(folder, emulator, mb, log_bytes)
        settings = folder / "settings.json"
        settings.write_text(world.logstore.model_dump_json())
        for verb in VERBS:
            sizes = [task.file.file_size_in_bytes for task in world.table.scan().plan_files()]
            done = subprocess.run(
                [sys.executable, "-m", "bench.bench_rewrites", "--here", str(folder), "--verb", verb],
                cwd=Path(__file__).parents[1],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{verb}: exit status {done.returncode}: {done.stderr[-2000:]}")
            found[verb] = {**json.loads(done.stdout), "file_mb": sum(sizes) / 1e6}
    return found


def _here(folder: Path, verb: str) -> None:
    logstore = Logstore.model_validate_json((folder / "settings.json").read_text())
    begun_s = SYSTEM_CLOCK.monotonic()
    with SlsClient(logstore.service) as client:
        rows = VERBS[verb](Place(make_lake(folder / "lake"), logstore), client)
    seconds = SYSTEM_CLOCK.monotonic() - begun_s
    print(json.dumps({"peak_mb": peak_mb(), "rows": rows, "seconds": seconds}))


def main() -> int:
    """Print one line a verb; 1 when one took more than the limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--here", type=Path, help="carry out --verb in this process, on what is in this folder"
    )
    parser.add_argument("--verb", choices=VERBS)
    parser.add_argument("--mb", type=int, default=360, help="raw, of all logs together")
    parser.add_argument("--log-bytes", type=int, default=300)
    parser.add_argument("--limit-mb", type=float, default=LIMIT_MB)
    asked = parser.parse_args()
    if asked.here:
        _here(asked.here, asked.verb)
        return 0
    over = []
    for verb, took in peaks(asked.mb, asked.log_bytes).items():
        print(
            f"{verb:>16}: {took['peak_mb']:5.0f} MB peak, {int(took['rows']):>9,} rows, "
            f"{took['file_mb']:6.2f} MB of files, {took['seconds']:6.1f} s",
            flush=True,
        )
        over += [verb] if took["peak_mb"] > asked.limit_mb else []
    if over:
        print(f"over {asked.limit_mb:g} MB: {', '.join(over)}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
