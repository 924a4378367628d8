"""A landing whose tasks run in executors of a standalone Spark, of two workers beside their driver.

What becomes of it when these die is `make chaos LANE=cluster`.
"""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.cluster import DRIVER, Cluster
from tests.integration.killed_run import land_elsewhere
from tests.worlds.one_logstore import HOUR0_S, World

pytestmark = pytest.mark.spark

_KEYS = ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET")


@pytest.fixture
def keyless(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose workers were started without the service's keys."""
    env = {name: value for name, value in os.environ.items() if name not in _KEYS}
    with Cluster(tmp_path / "cluster", env=env) as cluster:
        yield cluster


def test_executors_without_keys_are_told_from_a_driver_without(
    world: World, keyless: Cluster, tmp_path: Path
) -> None:
    world.put(60)
    world.at(HOUR0_S + 120)

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
