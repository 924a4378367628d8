"""A landing whose tasks run behind a Spark Connect server: the same plan, no local session."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyspark
import pytest

from pipelines.cli.demo.spark_server import free_address
from pipelines.landing.spark.remote import place_of
from pipelines.landing.spark.session import catalog_conf
from tests import needs
from tests.integration.killed_run import land_elsewhere, python
from tests.integration.spark_server import ROOT, serving
from tests.integration.tended import assert_tended, tend_elsewhere
from tests.worlds.one_logstore import HOUR0_S, World, catalog_variables

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_PROGRAM_S = 600.0

_DIES = """
import os, signal, sys
from pathlib import Path
from pipelines.landing.spark.session import Engine

def end_the_server(numbers):
    java = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
    os.kill(int(java), signal.SIGKILL)
    return iter(())

engine = Engine(remote=sys.argv[1])
try:
    engine.run(1, end_the_server, tag="dies")
except Exception as error:
    print(type(error).__name__, error)
engine.stop()
"""
"""In a process of its own: Connect's client and a local Spark do not share one."""

_SHARES = """
import os, sys
from pyspark.sql import SparkSession
from pipelines.landing.spark.session import Engine

def forked_by(numbers):
    return iter([str(os.getppid())])

def engine_once():
    engine = Engine(remote=sys.argv[1])
    (parent,) = engine.run(1, forked_by, tag="shares")
    engine.stop()
    return parent

print(engine_once(), engine_once())
SparkSession.builder.remote(sys.argv[1]).getOrCreate().stop()
print(engine_once())
"""
"""Which process forked a run's worker: of two runs in one session, and of a third after it was closed."""

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Connect server, which knows this project's packages and the key pair."""
    with plain(tmp_path_factory.mktemp("server"), {}) as address:
        yield address


@contextmanager
def plain(folder: Path, more: Mapping[str, str]) -> Iterator[str]:
    """The address of such a server as somebody else starts it, with `more` settings."""
    address = free_address().partition("/;")[0]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(place_of(address)[1]),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder / "scratch"),
        **more,
    }
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2,3]"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    ours = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    with serving([*command, "--class", _SERVER, "spark-internal"], address, folder, ours):
        yield address


def test_a_server_proves_writes_together_and_removes(world: World, server: str, tmp_path: Path) -> None:
    assert_tended(tend_elsewhere(world, tmp_path / "home", remote=server))
    world.assert_proved()


def test_a_landing_over_spark_connect(world: World, server: str, tmp_path: Path) -> None:
    world.put(60, until_s=HOUR0_S + 120)

    done = land_elsewhere(world.logstore, world.lake, tmp_path / "home", remote=server)

    assert done.returncode == 0, done.stderr[-2000:]
    assert len(world.table_rows()) == 60
    world.assert_sound()
    assert world.checkpoints() == {s: e.frontier for s, e in world.ledger.shards.items()}


def test_runs_that_share_a_session_find_their_workers_ready_and_one_that_was_closed_hurts_nobody(
    server: str,
) -> None:
    done = python("-c", _SHARES, f"{server}/;session_id={uuid4()}")

    assert done.returncode == 0, done.stderr[-2000:]
    first, second, after = done.stdout.split()
    assert first == second != after


def test_a_server_that_dies_in_the_middle_of_the_work_is_named_with_the_cure(server: str) -> None:
    done = python("-c", _DIES, server)

    assert done.returncode == 0, done.stderr[-2000:]
    (said,) = done.stdout.splitlines()
    assert said.startswith(f"ConnectFailed no Spark Connect server answers at {server}: start it")


def test_dbt_runs_on_a_server_with_the_profile_that_starts_its_own_spark_elsewhere(
    world: World, tmp_path: Path
) -> None:
    needs.spark_jars()
    columns = {"n": "long", "status": "int", "latency_ms": "double"}
    world.put(20, until_s=HOUR0_S + 3600)
    world.land(logstore=world.changed(columns=columns))
    catalog = catalog_variables(world.lake)
    with plain(tmp_path, catalog_conf(world.lake)) as address:
        done = subprocess.run(
            [Path(sys.executable).with_name("sls-lake"), "dbt", "run", "-s", "+access_logs_by_minute"],
            cwd=tmp_path,
            env={**os.environ, **catalog, "SLS_LAKE_HOME": str(tmp_path), "SLS_SPARK_REMOTE": address},
            capture_output=True,
            text=True,
            timeout=_PROGRAM_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    minutes = world.lake.load("silver.access_logs_by_minute")
    assert minutes is not None
    assert sum(minutes.scan().to_arrow()["logs"].to_pylist()) == 20
