"""Worlds without a JVM: production runs whose writing tasks are carried out in this process.

One emulator serves all tests; each has a logstore, a catalog and a warehouse of its own, and the
emulator's time only moves on.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.landing.contents.spread import Spread
from sls_io.emulator import Emulator, Limits, start
from sls_io.values.window import HOUR_S
from tests.faults.forked_run import Forge
from tests.worlds.command_line import command
from tests.worlds.in_process import quick_world
from tests.worlds.lossy_catalog import lossy
from tests.worlds.mold import Mold
from tests.worlds.one_logstore import HOUR0_S, World

__all__ = ["command"]


@pytest.fixture(scope="session")
def shared_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """One emulator for all tests of the folder: they are more than a project may have logstores."""
    limits = Limits(logstores_max=100_000)
    with start(tmp_path_factory.mktemp("emulator") / "data", now=HOUR0_S + 60.0, limits=limits) as emulator:
        yield emulator


@pytest.fixture
def quick(shared_emulator: Emulator, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """A logstore of two shards; calls are given up after 1.5 seconds, claims last thirty."""
    with world_of(shared_emulator, tmp_path, request.node.nodeid, read_s=1.0) as world:
        yield world


@pytest.fixture
def calm(shared_emulator: Emulator, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """The same for a test that lets no answer wait: only a service that hangs is given up."""
    with world_of(shared_emulator, tmp_path, request.node.nodeid, read_s=60.0) as world:
        yield world


@pytest.fixture(scope="session")
def three_hours(tmp_path_factory: pytest.TempPathFactory) -> Mold:
    """Three receive hours of 20 rows, a landing each, all of them passed by every shard."""
    return Mold(
        tmp_path_factory.mktemp("three_hours"),
        lambda emulator, lake: quick_world(emulator, lake).land_hours(3),
    )


@pytest.fixture
def world(three_hours: Mold) -> Iterator[World]:
    """A copy of three hours. Another world of the same name in a test file takes its place."""
    with three_hours.copy() as world, Spread(world.engine).kept():
        yield world


@contextmanager
def world_of(shared_emulator: Emulator, folder: Path, test: str, *, read_s: float) -> Iterator[World]:
    """A logstore and a lake of the test's own.

    The clock stands a minute into an hour: what a test puts must not fall into two hours by chance.
    """
    now_s = shared_emulator.admin.now()
    shared_emulator.admin.set_clock((now_s // HOUR_S + 1) * HOUR_S + 60.0)
    name = f"logs_{hashlib.sha256(test.encode()).hexdigest()[:12]}"
    world = quick_world(shared_emulator, folder / "lake", name, read_s=read_s)
    with Spread(world.engine).kept():
        yield world
    shared_emulator.admin.remove()


@pytest.fixture
def started(quick: World) -> World:
    """A world whose catalog can be told to lose answers, with a first landing and 60 logs to come."""
    quick.lake, _ = lossy(quick.lake)
    return quick.begun(20, 60)


@pytest.fixture(scope="session")
def forging() -> Iterator[Forge]:
    """The process that forks runs."""
    with Forge() as made:
        yield made


@pytest.fixture
def forge(forging: Forge) -> Iterator[Forge]:
    """Where runs are forked as processes of their own, which end with their test."""
    yield forging
    forging.end_run()
