"""What sensors of many logstores cost while nothing is wrong: `make bench LANE=sensors`.

    python -m bench.bench_sensors [--logstores 100] [--minutes 5] [--threads 0] [--own]

A real code server, web server and daemon, with all sensors turned on: one of each kind for all logstores, or
with `--own` for each of them. Each logstore has two shards and a table, in which one landing is. Service and
storage are on this machine; what the service spends is left out. Printed are the ticks that the daemon made
in that time, and how many it should have made, and what the processes spent. Dagster's own part is in it: it
asks for a tick over gRPC, and keeps what came of it. `--threads` is how many the daemon asks with at once; 0
is what it does unless told.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import psutil
from dagster._core.definitions.run_request import InstigatorType

from bench.bench_logstores import made as made_project
from bench.bench_ticks import land, put
from bench.history import add_flag, record
from bench.logstores import PROJECT, bench_folder, emulator_without_quotas, made
from pipelines.landing.logstore import load_logstore
from pipelines.landing.project_file import write_kept
from sls_io.emulator import Emulator
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient
from tests.worlds.dagster_server import DagsterServer

SHARDS, BEHIND_S = 2, 7200.0
A_MINUTE = {"demand": 1.0, "sealed": 0.2, "health": 0.2}
"""How often each sensor of a logstore ticks in a minute."""
PROCESSES = {"code server": "code-server", "daemon": "dagster._daemon", "web server": "dagster_webserver"}
"""A word of the command line of each."""
_FILE = """type: pipelines.components.SlsProject
attributes:
  service: {{endpoint: "{endpoint}", project: bench}}
  logstores: "*"
  {of_all}
  defaults:
    group: lake
    table: bronze.{{logstore}}
    {own}
"""
_ON = "sensors: [demand, sealed, health]"


class _Server(DagsterServer):
    """With the daemon that everybody has, and so many threads for sensors."""

    def __init__(self, home: Path, module: Path, environment: Mapping[str, str], *, threads: int) -> None:
        super().__init__(home, module, environment)
        if threads:
            with (home / "dagster.yaml").open("a") as settings:
                settings.write(f"sensors:\n  use_threads: true\n  num_workers: {threads}\n")

    def _daemon(self) -> tuple[str, ...]:
        return ("dagster._daemon", "run", "-w", str(self._workspace))


def landed(emulator: Emulator, package: Path, logstores: int, *, own: bool) -> None:
    """So many logstores with a landing each, and the file that names them."""
    folder = package / "defs" / "shop"
    (folder / "defs.yaml").write_text(
        _FILE.format(endpoint=emulator.endpoint, of_all="" if own else _ON, own=_ON if own else "")
    )
    write_kept(folder, {f"logs{number}": "2026-01-01-00:00" for number in range(logstores)})
    services = [
        Service(endpoint=emulator.endpoint, project=PROJECT, logstore=f"logs{number}")
        for number in range(logstores)
    ]
    for service in services:
        made(service, shards=SHARDS)
        with SlsClient(service) as client:
            put(client, SHARDS)
    emulator.admin.advance(60.0)
    one = package.parent / "one.yaml"
    for service in services:
        said = {
            "service": {"endpoint": service.endpoint, "project": PROJECT, "logstore": service.logstore},
            "group": "lake",
            "table": f"bronze.{service.logstore}",
            "start": "2026-01-01-00:00",
        }
        one.write_text(json.dumps({"type": "pipelines.components.SlsLogstore", "attributes": said}))
        land(load_logstore(one))


def spent_s() -> dict[str, float]:
    """CPU seconds of each of Dagster's processes so far, with what it started."""
    found = dict.fromkeys(PROCESSES, 0.0)
    for process in psutil.Process().children():
        command = process.cmdline()
        name = next((name for name, word in PROCESSES.items() if word in command), "")
        for each in (process, *process.children(recursive=True)) if name else ():
            times = each.cpu_times()
            found[name] += times.user + times.system
    return found


def ticked(home: Path, begun_s: float, ended_s: float) -> int:
    """How many ticks of sensors began in that time."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return sum(
            begun_s <= tick.timestamp < ended_s
            for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
            for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id)
        )


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logstores", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--own", action="store_true")
    add_flag(parser)
    options = parser.parse_args()
    behind_s = SYSTEM_CLOCK.now() - BEHIND_S
    with bench_folder() as folder, emulator_without_quotas(folder, now_s=behind_s) as emulator:
        package = made_project(folder / "project", options.logstores)
        landed(emulator, package, options.logstores, own=options.own)
        home, environment = folder / "dagster", {"PYTHONPATH": str(package.parent)}
        module, threads = package / "definitions.py", options.threads
        with _Server(home, module, environment, threads=threads):
            SYSTEM_CLOCK.sleep(60.0)  # the first tick of a sensor sees all anew
            before, begun_s = spent_s(), SYSTEM_CLOCK.now()
            SYSTEM_CLOCK.sleep(options.minutes * 60)
            after, ended_s = spent_s(), SYSTEM_CLOCK.now()
            ticks = ticked(home, begun_s, ended_s)
    minutes = (ended_s - begun_s) / 60
    due = (options.logstores if options.own else 1) * sum(A_MINUTE.values()) * minutes
    print(f"{options.logstores} logstores, {minutes:.1f} minutes: {ticks:,} ticks of {due:,.0f}")
    figures = {"ticks": float(ticks), "due": due}
    for name in PROCESSES:
        cpu_s = after[name] - before[name]
        each_ms = cpu_s / minutes / options.logstores * 1000
        print(f"{name:12} {cpu_s:7.1f} CPU s, {each_ms:6.1f} ms a logstore and minute")
        figures[f"{name}_cpu_ms_a_logstore_and_minute"] = each_ms
    if options.record:
        record("sensors" if not options.own else "own_sensors", figures)


if __name__ == "__main__":
    main()
