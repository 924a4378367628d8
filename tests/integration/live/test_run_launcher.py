"""Whether a run lives, as Dagster's monitor asks the launcher, when its code server does not have it."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import psutil
import pytest
from dagster._core.events import EngineEventData
from dagster._core.launcher import WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.test_utils import create_run_for_test

from chaos.site import free_port
from pipelines.run_launcher import WatchedRunLauncher

pytestmark = pytest.mark.dagster


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@contextmanager
def process() -> Iterator[int]:
    """A process like that of a run, which lives for the block; its number."""
    spawned = multiprocessing.get_context("spawn").Process(target=signal.pause)
    spawned.start()
    assert spawned.pid is not None
    try:
        yield spawned.pid
    finally:
        spawned.kill()
        spawned.join()


def health(instance: dg.DagsterInstance, run: dg.DagsterRun) -> WorkerStatus:
    launcher = WatchedRunLauncher()
    launcher.register_instance(instance)
    return launcher.check_run_worker_health(run).status


def begun(
    instance: dg.DagsterInstance, number: int | None, *, host: str = "127.0.0.1", port: int = 0
) -> dg.DagsterRun:
    """A run that told of its process, if it did. Nobody listens where its code server was, but at `port`."""
    tags = {GRPC_INFO_TAG: json.dumps({"host": host, "port": port or free_port()})}
    run: dg.DagsterRun = create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags=tags)
    if number is not None:
        instance.report_engine_event("begun", run, EngineEventData.in_process(number))
    return run


def test_a_run_whose_process_lives_is_alive_and_one_whose_process_has_ended_has_failed(
    instance: dg.DagsterInstance,
) -> None:
    with process() as number:
        run = begun(instance, number)
        assert health(instance, run) is WorkerStatus.RUNNING
    assert health(instance, run) is WorkerStatus.FAILED
    assert health(instance, begun(instance, None)) is WorkerStatus.FAILED


def test_a_process_that_waits_to_be_asked_how_it_ended_is_none(instance: dg.DagsterInstance) -> None:
    with process() as number:
        os.kill(number, signal.SIGKILL)
        os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
        assert psutil.Process(number).status() == psutil.STATUS_ZOMBIE
        assert health(instance, begun(instance, number)) is WorkerStatus.FAILED


def test_a_process_made_after_the_run_began_has_its_number_only(instance: dg.DagsterInstance) -> None:
    """As after a start of the machine, when numbers are given out anew."""
    with process() as number:
        later = begun(instance, number)
        (record,) = instance.get_records_for_run(later.run_id).records
        assert health(instance, later) is WorkerStatus.RUNNING
        earlier = create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags=later.tags)
        entry = record.event_log_entry._replace(run_id=earlier.run_id, timestamp=0.0)
        instance.store_event(entry)
        assert health(instance, earlier) is WorkerStatus.FAILED


def test_another_program_under_its_number_is_not_its_process(instance: dg.DagsterInstance) -> None:
    """As in a container whose loopback reaches a code server in another one."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        assert health(instance, begun(instance, other.pid)) is WorkerStatus.FAILED


def test_of_a_server_on_another_machine_no_process_is_looked_for_here(instance: dg.DagsterInstance) -> None:
    with process() as number:
        assert health(instance, begun(instance, number, host="127.0.0.2")) is WorkerStatus.FAILED


@contextmanager
def code_server(folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    """A code server as a deployment starts one, and its port. It asks a process of its own."""
    definitions, port = folder / "definitions.py", free_port()
    definitions.write_text("import dagster as dg\n\ndefs = dg.Definitions()\n")
    command = [sys.executable, "-m", "dagster", "code-server", "start", "-f", str(definitions)]
    command += ["-h", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        try:
            assert server.stdout is not None
            assert any(b"Started Dagster code proxy server" in line for line in server.stdout)
            yield psutil.Process(server.pid), port
        finally:
            for each in psutil.Process(server.pid).children(recursive=True):
                each.kill()
            server.kill()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_code_server_that_does_not_know_the_run_or_has_lost_its_own_process_decides_nothing(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    """It does not know the run when it has loaded its code again since."""
    with code_server(tmp_path) as (server, port):
        with process() as number:
            run, ended = begun(instance, number, port=port), begun(instance, None, port=port)
            assert health(instance, run) is WorkerStatus.RUNNING
            assert health(instance, ended) is WorkerStatus.FAILED
            for child in server.children(recursive=True):
                child.kill()
                child.wait()
            assert health(instance, run) is WorkerStatus.RUNNING
            assert health(instance, ended) is WorkerStatus.FAILED
        assert listens(port)
        assert health(instance, run) is WorkerStatus.FAILED
