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
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.__main__ import LOGS_A_GROUP, TICKS_PER_S, access_logs
from pipelines import ROOT
from pipelines.cli.demo.sandbox import Sandbox
from pipelines.cli.demo.spark_server import SparkServer, free_address
from pipelines.cli.output import Output
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK
from sls_io.emulator import Emulator, start
from sls_io.emulator.limits import QUOTAS_OFF, Limits
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.settings import Service
from tests.integration.dagster_server import DagsterServer

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


class Sampler:
    """CPU of this process's descendants but the emulator's, at moments of the wall clock.

    Who loses its parent goes on to count.
    """

    def __init__(self, emulator: int) -> None:
        self._emulator, self._ended = emulator, threading.Event()
        self._parents: dict[int, int] = {}
        self._samples: list[tuple[float, dict[int, float]]] = []

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Sample beside the block."""
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _work(self) -> None:
        spent_s: dict[int, float] = {}
        while not self._ended.is_set():
            self._sample(spent_s)
            self._ended.wait(SAMPLE_S)

    def _sample(self, spent_s: dict[int, float]) -> None:
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:  # it ended between the listing and the look
                continue
            if int(entry) != self._emulator:
                self._parents.setdefault(int(entry), int(fields[1]))
                spent_s[int(entry)] = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        self._samples.append((SYSTEM_CLOCK.now(), dict(spent_s)))

    def family(self, oldest: int) -> set[int]:
        """A process and all that it started."""
        found = {oldest}
        while more := {pid for pid, parent in self._parents.items() if parent in found and pid not in found}:
            found |= more
        return found

    def between(self, begin_s: float, end_s: float, family: set[int]) -> float:
        """CPU seconds of these processes from one moment to another."""
        first, last = self._at(begin_s), self._at(end_s)
        return sum(spent_s - first.get(pid, 0.0) for pid, spent_s in last.items() if pid in family)

    def _at(self, moment_s: float) -> dict[int, float]:
        """The newest sample that is not younger."""
        return self._samples[max(0, sum(at_s <= moment_s for at_s, _ in self._samples) - 1)][1]


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_dagster", description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sls-lake-bench-") as name:
        folder = Path(name)
        os.environ.update(ALIBABA_CLOUD_ACCESS_KEY_ID=FAKE_ID, ALIBABA_CLOUD_ACCESS_KEY_SECRET=FAKE_SECRET)
        os.environ.pop("ALIBABA_CLOUD_SECURITY_TOKEN", None)
        limits = Limits.model_validate(QUOTAS_OFF)
        behind_s = SYSTEM_CLOCK.now() - BEHIND_S
        with start(folder / "emulator", now=behind_s, limits=limits) as emulator:
            box = Sandbox(folder / "box", emulator.port, free_address() if options.warm else "")
            (box.home / "lake").mkdir(parents=True)
            box.enter()
            with ExitStack() as stack:
                if options.warm:
                    stack.enter_context(SparkServer(Output(), box)).wait()
                module = ROOT / "pipelines" / "definitions.py"
                server = stack.enter_context(DagsterServer(box.dagster_home, module, {}))
                for _ in range(options.rounds):
                    _fill(emulator, options.rows)
                    _round(server, emulator, options.rows)


def _fill(emulator: Emulator, rows: int) -> None:
    """Rows that have settled."""
    service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=NAME)
    with SlsClient(service) as client:
        if not client.transport.list_project(project_name_pattern=PROJECT).get_count():
            client.transport.create_project(PROJECT, "")
            client.transport.create_logstore(PROJECT, NAME, ttl=30, shard_count=SHARDS)
        for number in range(rows // LOGS_A_GROUP):
            client.put_raw(access_logs(number), key=f"{number % SHARDS * 16 // SHARDS:x}".ljust(32, "8"))
    emulator.admin.advance(60.0)


def _round(server: DagsterServer, emulator: Emulator, rows: int) -> None:
    """Ask for what a tick asks for, and print where the run's time went."""
    (request,) = server.tick(f"{NAME}_schedule")["runRequests"]
    tags = {tag["key"]: tag["value"] for tag in request["tags"]}
    sampler = Sampler(emulator.pid)
    with sampler.sampling():
        begun_s = SYSTEM_CLOCK.now()
        run_id = server.launch(f"{NAME}_microbatch", tags)
        if server.ended(run_id) != "SUCCESS":
            raise SystemExit(server.failures(run_id))
    events = server.ask(_EVENTS, id=run_id)["logsForRun"]["events"]
    process = re.search(r"Started process for run \(pid: (\d+)\)", " ".join(_said(e) for e in events))
    if process is None:
        raise SystemExit(f"run {run_id} names no process of its own")
    _print(sampler, begun_s, events, sampler.family(int(process[1])), rows)


def _said(event: dict[str, Any]) -> str:
    return str(event.get("message", ""))


def _print(sampler: Sampler, begun_s: float, events: list[dict[str, Any]], ours: set[int], rows: int) -> None:
    servers = sampler.family(os.getpid()) - ours
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
        spent_s = [sampler.between(at_s, end_s, family) for family in (ours, servers)]
        print(line.format(name, end_s - at_s, *spent_s))
        at_s = end_s
    spent_s = [sampler.between(begun_s, at_s, family) for family in (ours, servers)]
    print(line.format("all", at_s - begun_s, *spent_s), flush=True)


if __name__ == "__main__":
    main()
