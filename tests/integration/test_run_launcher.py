"""Whether a run lives, as Dagster's monitor asks the launcher, when its code server says nothing of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
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
    """A process that lives for the block; its number."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child.pid
        child.kill()


def health(instance: dg.DagsterInstance, run: dg.DagsterRun) -> WorkerStatus:
    launcher = WatchedRunLauncher()
    launcher.register_instance(instance)
    return launcher.check_run_worker_health(run).status


def begun(instance: dg.DagsterInstance, number: int | None, host: str = "127.0.0.1") -> dg.DagsterRun:
    """A run that told of its process, if it did; nobody listens where its code server was."""
    server = json.dumps({"host": host, "port": free_port()})
    run = create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags={GRPC_INFO_TAG: server})
    if number is not None:
        instance.report_engine_event("begun", run, EngineEventData.in_process(number))
    return run


def test_a_run_whose_process_lives_is_alive_whatever_became_of_its_code_server(
    instance: dg.DagsterInstance,
) -> None:
    assert health(instance, begun(instance, os.getpid())) is WorkerStatus.RUNNING


def test_a_run_whose_process_has_ended_and_one_that_never_had_any_have_failed(
    instance: dg.DagsterInstance,
) -> None:
    with process() as number:
        run = begun(instance, number)
        assert health(instance, run) is WorkerStatus.RUNNING
    assert health(instance, run) is WorkerStatus.FAILED
    assert health(instance, begun(instance, None)) is WorkerStatus.FAILED


def test_a_process_that_waits_to_be_asked_how_it_ended_is_none(instance: dg.DagsterInstance) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert health(instance, begun(instance, child.pid)) is WorkerStatus.FAILED


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


def test_of_a_server_on_another_machine_no_process_is_looked_for_here(instance: dg.DagsterInstance) -> None:
    assert health(instance, begun(instance, os.getpid(), host="127.0.0.2")) is WorkerStatus.FAILED
