"""A run is killed where it stands (SIGKILL): the next one gives each row once and deletes nothing."""

import signal
from pathlib import Path

import pytest

from pipelines.landing.run.holder_name import of_command
from pipelines.landing.table.home import HOME_VARIABLE
from tests.integration.killed_run import land_elsewhere
from tests.worlds.one_logstore import World

pytestmark = pytest.mark.spark


def killed(world: World, home: Path, die_at: str) -> None:
    """Run a landing in another process until it kills itself at `die_at`."""
    done = land_elsewhere(world.logstore, world.lake, home, die_at=die_at)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]


@pytest.fixture
def started(world: World) -> World:
    """A world whose table has a first landing and whose logstore has 60 more logs."""
    return world.begun(20, 60)


@pytest.mark.fault("4a.5b.kill")
def test_killed_after_the_publish(started: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The landing stands; the next run has nothing to land and repairs the checkpoint."""
    checkpoints = started.checkpoints()

    killed(started, tmp_path / "home", "publish.done")

    before = started.files()
    assert len(started.landings()) == 3
    assert started.checkpoints() == checkpoints, "it died too late"
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    with of_command(started.logstore, started.lake) as (named, _):
        assert named == started.logstore, "its name, and so its shards, wait for its timeout"
    report = started.land()
    assert (report.rows, report.snapshot_id) == (0, None)
    frontiers = {shard: entry.frontier for shard, entry in started.ledger.shards.items()}
    assert started.checkpoints() == frontiers != checkpoints
    assert started.files() >= before
    started.assert_sound()


@pytest.mark.fault("4a.4.kill")
def test_a_jvm_killed_with_its_tasks_ends_the_run_with_an_error_of_ours(
    started: World, tmp_path: Path
) -> None:
    """Out of memory, say: nothing lands, no checkpoint moves, the next run lands it all."""
    checkpoints = started.checkpoints()
    admin = started.emulator.admin
    held = admin.fault("hold_reply", call="pull_logs", logstore=started.logstore.service.logstore)

    done = land_elsewhere(started.logstore, started.lake, tmp_path / "home", jvm_dies_with_tasks=True)
    admin.remove(held)

    assert done.returncode == 2, done.stderr[-2000:]
    assert "TransportError: a task of Spark at " in done.stderr
    assert len(started.landings()) == 2
    assert started.checkpoints() == checkpoints
    assert started.land().rows == 60
    started.assert_each_log_once()


@pytest.mark.fault("4a.4.kill")
def test_a_jvm_killed_before_its_tasks_is_begun_anew(started: World, tmp_path: Path) -> None:
    """No task was lost with it, so the run lands with another one."""
    done = land_elsewhere(started.logstore, started.lake, tmp_path / "home", jvm_dies_at="write")

    assert done.returncode == 0, done.stderr[-2000:]
    assert len(started.landings()) == 3
    assert started.land().rows == 0
    started.assert_each_log_once()
