"""Where the time of a run in Dagster goes: `python -m bench.bench_dagster`.

A real webserver and daemon launch real runs of `bronze/access_logs` over an emulator whose CPU is left out.
The moments of a run are those of its own events; between them stands the CPU of the run's process, its Java
and its Python workers, and of Dagster's servers beside, sampled from /proc. On a machine that is shared the
wall time says little, CPU seconds do.

`--warm` lets the runs use the Spark server of `sls-lake dev`; what that spends counts as the servers'.
"""

import argparse
import os
import re
from contextlib import ExitStack
from statistics import median
from typing import Any

from bench import history
from bench.logstores import bench_folder, emulator_without_quotas, made, put_rows
from bench.processes import Watch
from pipelines.cli.demo.sandbox import Sandbox
from pipelines.cli.demo.spark_server import SparkServer, free_address
from pipelines.cli.output import Output
from pipelines.landing.table.home import ROOT
from sls_io.emulator import Emulator
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Service
from tests.worlds.dagster_server import DagsterServer

NAME, PROJECT, SHARDS = "access_logs", "demo", 2
SAMPLE_S, BEHIND_S = 0.05, 7200.0
_EVENTS = """query($id: ID!) { logsForRun(runId: $id, limit: 1000) { ... on EventConnection { events {
    __typename ... on MessageEvent { timestamp message } } } } }"""
PHASES = (
    ("asked for, until queued", "RunEnqueuedEvent", ""),
    ("in the queue", "RunStartingEvent", ""),
    ("process started, Dagster imported", "EngineEvent", "Started process for run"),
    ("code location imported", "RunStartEvent", ""),
    ("step made ready", "ExecutionStepStartEvent", ""),
    ("before the claim", "LogMessageEvent", "landing: claim"),
    ("claim, ledger, survey", "LogMessageEvent", "landing: write"),
    ("Spark and its writing tasks", "LogMessageEvent", "landing: write.done"),
    ("commit", "LogMessageEvent", "landing: publish.done"),
    ("hours, checks", "LogMessageEvent", "landing: checkpoint"),
    ("checkpoint, release", "LogMessageEvent", "landing: release.done"),
    ("checks beside, end of the step", "ExecutionStepSuccessEvent", ""),
    ("end of the run", "RunSuccessEvent", ""),
)
"""What lies between the event before and this one: the type of that, and what its message begins with."""


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_dagster", description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", action="store_true")
    history.add_flag(parser)
    options = parser.parse_args()
    behind_s = SYSTEM_CLOCK.now() - BEHIND_S
    with bench_folder() as folder, emulator_without_quotas(folder, now_s=behind_s) as emulator:
        box = Sandbox(folder / "box", emulator.port, free_address() if options.warm else "")
        (box.home / "lake").mkdir(parents=True)
        box.enter()
        with ExitStack() as stack:
            if options.warm:
                stack.enter_context(SparkServer(Output(), box)).wait()
            module = ROOT / "pipelines" / "definitions.py"
            server = stack.enter_context(DagsterServer(box.dagster_home, module, {}))
            service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=NAME)
            made(service, shards=SHARDS)
            rounds = []
            for _ in range(options.rounds):
                put_rows(service, options.rows, shards=SHARDS)
                emulator.admin.advance(60.0)
                rounds.append(_round(server, emulator, options.rows))
    if options.record:
        kind = "warm" if options.warm else "cold"
        figures = {f"{kind}_{name}": median(found[name] for found in rounds) for name in rounds[0]}
        history.record(f"bench_dagster, {kind}", figures)


def _round(server: DagsterServer, emulator: Emulator, rows: int) -> dict[str, float]:
    """Ask for what a tick asks for, print where the run's time went; the figures of the whole by name."""
    (request,) = server.tick(f"{NAME}_schedule")["runRequests"]
    tags = {tag["key"]: tag["value"] for tag in request["tags"]}
    watch = Watch(os.getpid(), but=(emulator.pid,), every_s=SAMPLE_S)
    with watch.sampling():
        begun_s = SYSTEM_CLOCK.now()
        run_id = server.launch(f"{NAME}_microbatch", tags)
        if server.ended(run_id) != "SUCCESS":
            raise SystemExit(server.failures(run_id))
    events = server.ask(_EVENTS, id=run_id)["logsForRun"]["events"]
    process = re.search(r"Started process for run \(pid: (\d+)\)", " ".join(_said(e) for e in events))
    if process is None:
        raise SystemExit(f"run {run_id} names no process of its own")
    return _print(watch, begun_s, events, watch.family(int(process[1])), rows)


def _said(event: dict[str, Any]) -> str:
    return str(event.get("message", ""))


def _print(
    watch: Watch, begun_s: float, events: list[dict[str, Any]], ours: set[int], rows: int
) -> dict[str, float]:
    servers = watch.family(os.getpid()) - ours - {os.getpid()}
    print(f"{rows:,} rows in a run of Dagster:    s  CPU s of the run  of the servers")
    line = "{:34} {:5.1f}  {:15.1f}  {:14.1f}"
    at_s = begun_s
    for name, kind, words in PHASES:
        end_s = next(
            (
                float(event["timestamp"]) / 1000
                for event in reversed(events)
                if event["__typename"] == kind and _said(event).startswith(words)
                and not _said(event).removeprefix(words).startswith(".")
            ),
            at_s,
        )  # fmt: skip
        spent_s = [watch.between(at_s, end_s, family) for family in (ours, servers)]
        print(line.format(name, end_s - at_s, *spent_s))
        at_s = end_s
    spent_s = [watch.between(begun_s, at_s, family) for family in (ours, servers)]
    print(line.format("all", at_s - begun_s, *spent_s), flush=True)
    return {"wall_s": at_s - begun_s, "run_cpu_s": spent_s[0], "servers_cpu_s": spent_s[1]}


if __name__ == "__main__":
    main()
