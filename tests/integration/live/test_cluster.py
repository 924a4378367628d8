"""A landing whose tasks run in executors of a standalone Spark, of two workers beside their driver.

What becomes of it when these die is `make chaos LANE=cluster`.
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from chaos.cluster import DRIVER, Cluster
from tests.integration.killed_run import land_elsewhere, python
from tests.integration.tended import assert_tended, tend_elsewhere
from tests.worlds.one_logstore import HOUR0_S, World, patient

pytestmark = pytest.mark.spark

_DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    # A landing has no shuffle, so nothing keeps an executor that has no task.
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
}
_KEYS = ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose workers have the service's keys."""
    with Cluster(tmp_path_factory.mktemp("keys") / "cluster") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose workers were started without the service's keys. One test ends its workers: the last
    of those that have it."""
    env = {name: value for name, value in os.environ.items() if name not in _KEYS}
    with Cluster(tmp_path_factory.mktemp("keyless") / "cluster", env=env) as cluster:
        yield cluster


def test_executors_prove_write_together_and_remove(world: World, cluster: Cluster, tmp_path: Path) -> None:
    assert_tended(tend_elsewhere(world, tmp_path / "home", master=cluster.master, conf=DRIVER))
    world.assert_proved()


@pytest.mark.parametrize("conf", [DRIVER, DRIVER | _DYNAMIC], ids=["fixed", "dynamic"])
def test_a_second_attempt_lands_what_the_first_one_waits_for(
    world: World, cluster: Cluster, tmp_path: Path, conf: dict[str, str]
) -> None:
    """A task waits for an answer of the service. Its second attempt, on another executor, has one at once,
    and the run ends while the first one still waits."""
    world.put(200, until_s=HOUR0_S + 120)
    logstore = world.logstore.service.logstore
    held = world.emulator.admin.fault("hold_reply", call="pull_logs", logstore=logstore)
    slow = world.changed(service=patient(world.emulator, logstore))

    done = land_elsewhere(slow, world.lake, tmp_path / "home", master=cluster.master, conf=conf)

    assert done.returncode == 0, done.stderr[-2000:]
    (fault,) = world.emulator.admin.faults()
    assert fault["hits"] == 1
    world.emulator.admin.remove(held)
    world.assert_sound()


def test_executors_without_keys_are_told_from_a_driver_without(
    world: World, keyless: Cluster, tmp_path: Path
) -> None:
    world.put(60, until_s=HOUR0_S + 120)

    done = land_elsewhere(
        world.logstore,
        world.lake,
        tmp_path / "home",
        master=keyless.master,
        conf=DRIVER | {"spark.task.maxFailures": "1"},
    )

    assert done.returncode == 2, done.stderr[-2000:]
    (said,) = (line for line in done.stderr.splitlines() if line.startswith("ConfigError: "))
    assert said.startswith("ConfigError: no key pair for the log service: set ALIBABA_CLOUD_ACCESS_KEY_ID")
    assert f"for the executors on {platform.node()}, where a task ran" in said
    assert world.lake.load(world.logstore.table) is None or not world.table_rows()


def test_what_an_executor_lacks_for_a_second_pull_names_its_machine(
    world: World, keyless: Cluster, tmp_path: Path
) -> None:
    done = tend_elsewhere(world, tmp_path / "home", master=keyless.master, conf=DRIVER)

    assert done.returncode == 2, done.stdout[-2000:]
    assert f"for the executors on {platform.node()}, where a task ran" in done.stderr.splitlines()[-1]


def test_a_doctor_asks_each_executor_and_names_the_machine_that_lacks_keys(
    keyless: Cluster, tmp_path: Path
) -> None:
    (grade, came), keys = told(keyless, tmp_path, {})

    there = rf"2 executors on {platform.node()} \(Python .*\)"
    assert grade == "fine" and re.fullmatch(rf"\d+ workers of {there} did it", came), came
    assert keys[0] == "wrong"
    assert keys[1].startswith(f"{platform.node()}: no key pair for the log service")


def test_a_doctor_gives_up_where_no_executor_can_come(keyless: Cluster, tmp_path: Path) -> None:
    """Spark would wait for ever."""
    for name in keyless.workers:
        keyless.daemons[name].kill()

    for grade, came in told(keyless, tmp_path, {"within_s": 0.5}):
        assert grade == "wrong"
        assert came == "after 0.5 s not every task had ended: no executor is free, or one hangs"


@pytest.mark.parametrize("kind", ["context", "session"])
def test_a_master_that_cannot_be_is_named(tmp_path: Path, kind: str) -> None:
    ask = f"from pipelines.landing.spark.session import Engine; Engine(master='yarn2').{kind}"
    done = python("-c", ask, SLS_LAKE_HOME=str(tmp_path))

    said = done.stderr.splitlines()[-1]
    assert said.startswith("sls_io.values.errors.ConfigError: Spark does not start at yarn2 (")
    assert said.endswith("check SLS_SPARK_MASTER, and that its master answers and gives this one cores")


def told(cluster: Cluster, folder: Path, options: Mapping[str, float]) -> list[list[str]]:
    """(grade, what came) of a doctor who asks executors where they are, and then for a service."""
    answer, program = folder / "answer.json", folder / "ask.py"
    program.write_text(
        _ASK.format(master=cluster.master, conf=DRIVER, answer=str(answer), options=dict(options))
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said: list[list[str]] = json.loads(answer.read_text())
    return said


_ASK = """
import json
from pipelines.landing.doctor.engine import of_engine
from pipelines.landing.doctor.trial import made
from pipelines.landing.spark.session import Engine
from sls_io.values.settings import Service

engine = Engine(master="{master}", conf={conf})
service = Service(endpoint="http://127.0.0.1:9", project="demo", logstore="demo")
said = []
for asked in (None, service):
    (trial,) = made([of_engine(engine, asked, None, **{options})])
    said.append([trial.grade.value, trial.came])
with open("{answer}", "w", encoding="utf-8") as out:
    json.dump(said, out)
engine.stop(wait=True)
"""
