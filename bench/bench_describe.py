"""What the verbs that look at each shard cost with 256 shards, as whole processes, and how often they ask.

    python -m bench.bench_describe [SHARDS] [--record]

A log has landed of each shard, another waits, and the group has checkpoints. Service and lake are real and on
this machine. Seconds of the wall are from a process's start to its end and say little on a busy machine; CPU
seconds are the process's own, all threads. The service is a process of its own, counted apart.
"""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import yaml

from bench.bench_ticks import NOW_S, land, put
from bench.history import add_flag, record
from bench.processes import TICKS_PER_S, program
from pipelines.landing.logstore import Logstore
from sls_io.emulator import Emulator, start
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.wire.client import SlsClient

VERBS = (
    ("--help",),
    ("describe",),
    ("land", "--dry-run"),
    ("checkpoints", "show", "ledger"),
    ("checkpoints", "show", "group:lake"),
    ("groups", "describe"),
    ("shards", "list"),
    ("verify",),
)
ROUNDS = 3


def main(shards: int) -> dict[str, float]:
    """Measure and print; the figures of `describe`."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder, start(Path(folder) / "emulator", now=NOW_S) as emulator:
        project = Path(folder) / "project"
        prepared(project, emulator, shards)
        print(f"{shards} shards, best of {ROUNDS}")
        for verb in VERBS:
            wall_s, cpu_s, their_cpu_s, asked = min(once(verb, project, emulator) for _ in range(ROUNDS))
            print(
                f"  {' '.join(verb):20}{wall_s:7.2f} s   CPU {cpu_s:5.2f} s   "
                f"the service's CPU {their_cpu_s:5.2f} s   {asked:5} requests",
                flush=True,
            )
            if verb == ("describe",):
                figures = {"describe_wall_s": wall_s, "describe_cpu_s": cpu_s, "describe_requests": asked}
    return figures


def prepared(project: Path, emulator: Emulator, shards: int) -> None:
    """A project's folder with a landed logstore, and logs that wait."""
    os.environ |= {
        "SLS_LAKE_HOME": str(project),
        "ALIBABA_CLOUD_ACCESS_KEY_ID": FAKE_ID,
        "ALIBABA_CLOUD_ACCESS_KEY_SECRET": FAKE_SECRET,
    }
    attributes = {
        "service": {"endpoint": emulator.endpoint, "project": "demo", "logstore": "many"},
        "group": "lake",
        "table": "bronze.many",
        "start": "2026-01-01-00:00",
    }
    defs = project / "pipelines" / "defs" / "many" / "defs.yaml"
    defs.parent.mkdir(parents=True)
    defs.write_text(yaml.safe_dump({"type": "pipelines.components.SlsLogstore", "attributes": attributes}))
    (project / "pyproject.toml").touch()
    logstore = Logstore.model_validate(attributes)
    with SlsClient(logstore.service) as client:
        client.transport.create_project("demo", "")
        client.transport.create_logstore("demo", "many", ttl=30, shard_count=shards)
        put(client, shards)
        emulator.admin.advance(1200)
        land(logstore)
        put(client, shards)
        emulator.admin.advance(1200)


def once(verb: tuple[str, ...], project: Path, emulator: Emulator) -> tuple[float, float, float, int]:
    """Wall and CPU seconds of one process, CPU seconds of the service meanwhile, requests."""
    seen = emulator.admin.fault("observe", times=None)
    begun, before = time.perf_counter(), service_cpu_s(emulator)
    # As for a user: what was compiled once is not compiled again.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [program("sls-lake"), *verb], cwd=project, stdout=subprocess.DEVNULL, env=variables
    )
    _, status, used = os.wait4(process.pid, 0)
    wall_s, after = time.perf_counter() - begun, service_cpu_s(emulator)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"sls-lake {' '.join(verb)} ended with {process.returncode}")
    asked = next(fault["hits"] for fault in emulator.admin.faults() if fault["id"] == seen)
    emulator.admin.remove(seen)
    return wall_s, used.ru_utime + used.ru_stime, after - before, asked


def service_cpu_s(emulator: Emulator) -> float:
    """CPU seconds of the service so far."""
    fields = Path(f"/proc/{emulator.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.bench_describe", description=__doc__)
    parser.add_argument("shards", type=int, nargs="?", default=256)
    add_flag(parser)
    options = parser.parse_args()
    found = main(options.shards)
    if options.record:
        record("bench_describe", found)
