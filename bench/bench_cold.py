"""What a cold run costs: `python -m bench.bench_cold`. A micro-batch every five minutes pays this each time.

`sls-lake land` as a person starts it, in a process of its own, with nothing warm, from an emulator whose CPU
is left out. The CPU of every process it starts is sampled from /proc until the last of them has ended: a
Python worker is reaped by Spark's daemon, so its time never shows in the account of its parent.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from bench.__main__ import COLUMNS, LOGS_A_GROUP, TICKS_PER_S, access_logs
from pipelines.landing.table.lake import HOME_VARIABLE
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK
from sls_io.emulator import start
from sls_io.emulator.limits import QUOTAS_OFF, Limits
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.settings import Service

PROJECT, SHARDS = "bench", 2
SAMPLE_S = 0.02
ENDING_S = 60.0
_DEFS = """type: pipelines.components.SlsLogstore
attributes:
  service: {{endpoint: "{endpoint}", project: {project}, logstore: {name}}}
  group: {{name: bench, heartbeat_s: 1, heartbeat_deadline_s: 1, timeout_s: 30}}
  table: bench.{name}
  start: 2020-01-01-00:00
  columns: {columns}
  budget: {{settle_s: 0, shard_mb_per_s: 10000}}
"""


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_cold", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 200_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sls-lake-bench-") as folder:
        os.environ[HOME_VARIABLE] = folder
        os.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"] = FAKE_ID
        os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = FAKE_SECRET
        os.environ.pop("ALIBABA_CLOUD_SECURITY_TOKEN", None)
        with start(Path(folder) / "emulator", limits=Limits.model_validate(QUOTAS_OFF)) as emulator:
            for rows in options.rows:
                for number in range(options.rounds):
                    _round(emulator.endpoint, Path(folder), f"logs_{rows}_{number}", rows)


def _round(endpoint: str, folder: Path, name: str, rows: int) -> None:
    """Fill a logstore of its own, land it cold, print what each kind of process cost."""
    service = Service(endpoint=endpoint, project=PROJECT, logstore=name)
    with SlsClient(service) as client:
        if not client.transport.list_project(project_name_pattern=PROJECT).get_count():
            client.transport.create_project(PROJECT, "")
        client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=SHARDS)
        for number in range(rows // LOGS_A_GROUP):
            client.put_raw(access_logs(number), key=f"{number % SHARDS * 16 // SHARDS:x}".ljust(32, "8"))
    columns = "{" + ", ".join(f"{key}: {kind}" for key, kind in COLUMNS.items()) + "}"
    defs = folder / f"{name}.yaml"
    defs.write_text(_DEFS.format(endpoint=endpoint, project=PROJECT, name=name, columns=columns))
    command = [str(Path(sys.executable).with_name("sls-lake")), "land", "--json", "-l", str(defs)]
    cpu_s, wall_s, said = measured(command)
    if f'"rows": {rows}' not in said:
        raise SystemExit(f"the landing brought other than {rows} rows: {said[-500:]}")
    parts = "  ".join(f"{kind} {spent:5.2f}" for kind, spent in sorted(cpu_s.items()))
    print(f"{rows:>8,} rows: {sum(cpu_s.values()):6.2f} CPU s  {wall_s:6.2f} s wall  ({parts})", flush=True)


def measured(command: list[str]) -> tuple[dict[str, float], float, str]:
    """CPU seconds by kind of process, wall seconds of the command, and what it printed."""
    begun_s = SYSTEM_CLOCK.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(process.communicate()[0]))
    reader.start()
    seen: dict[int, tuple[str, float]] = {}
    mine = {process.pid}
    wall_s = 0.0
    while SYSTEM_CLOCK.monotonic() - begun_s < 600.0:
        alive = _sample(process.pid, mine, seen)
        if not reader.is_alive() and not wall_s:
            wall_s = SYSTEM_CLOCK.monotonic() - begun_s
        if wall_s and (not alive or SYSTEM_CLOCK.monotonic() - begun_s - wall_s > ENDING_S):
            break
        SYSTEM_CLOCK.sleep(SAMPLE_S)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    total: dict[str, float] = {}
    for kind, spent_s in seen.values():
        total[kind] = total.get(kind, 0.0) + spent_s
    return total, wall_s, "".join(said)


def _sample(driver: int, mine: set[int], seen: dict[int, tuple[str, float]]) -> int:
    """Note the CPU of each process that came from `driver`; how many of them still live.

    `mine` grows: who loses its parent goes on to count.
    """
    parents: dict[int, int] = {}
    found: dict[int, tuple[str, float]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                head, _, tail = file.read().rpartition(")")
        except OSError:  # it ended between the listing and the look
            continue
        fields = tail.split()
        if fields[0] == "Z":
            continue
        parents[int(entry)] = int(fields[1])
        name = head.partition("(")[2]
        kind = "driver" if int(entry) == driver else "Java" if "java" in name else "Python"
        kind = "shell" if name in ("bash", "spark-submit", "spark-class") else kind
        found[int(entry)] = kind, (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    while more := {pid for pid, parent in parents.items() if parent in mine and pid not in mine}:
        mine |= more
    alive = mine & found.keys()
    seen.update({pid: found[pid] for pid in alive})
    return len(alive)


if __name__ == "__main__":
    main()
