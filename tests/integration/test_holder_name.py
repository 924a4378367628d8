"""Page and command line on one machine go on under one name: what one let go is the other's at once.

The emulator's clock stands still: a shard that had to wait for the group's timeout would not come at all.
"""

import socket
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Thread

import pytest

from pipelines.landing.logstore import Logstore
from pipelines.landing.run.holder_name import of_command, of_run
from pipelines.landing.table.home import HOME_VARIABLE
from sls_io.values.errors import ClaimLost
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World
from tests.worlds.other_region import relabel


@pytest.fixture
def started(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world that a run of the deployment has landed in from this state folder, with 60 logs to come."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "state"))
    world.logstore = world.changed(group={**world.logstore.group.model_dump(), "patience_s": 0.5})
    world.put(20)
    land_as_deployed(world)
    world.put(60, pass_s=11)
    return world


def land_as_deployed(world: World) -> None:
    """As a run under Dagster does it."""
    world.emulator.admin.advance(11)
    with of_run(world.logstore) as name:
        world.land(name=name)


def holders(world: World) -> set[str]:
    """Under whose names the group's checkpoints were saved."""
    with world.client as client:
        return {entry.holder for entry in client.checkpoints("lake").values()}


def test_a_command_has_the_shards_of_a_run_that_ended_at_once_and_a_run_those_of_the_command(
    started: World, command: Command
) -> None:
    landed = command("land")

    assert (landed["code"], landed["rows"]) == (0, 60), landed["error"]
    assert holders(started) == {started.logstore.group.holder}
    started.put(10)
    land_as_deployed(started)
    assert started.reports[-1].rows == 10
    started.assert_each_log_once()


def test_beside_a_run_at_work_a_command_has_a_name_of_its_own(started: World) -> None:
    own = f"{started.logstore.group.holder}-cli-{socket.gethostname()}"
    with of_run(started.logstore), of_command(started.logstore, started.lake) as (beside, _):
        assert beside.group.holder == own
    with of_command(started.logstore, started.lake) as (behind, _):
        assert behind == started.logstore


def test_on_another_machine_a_command_has_a_name_of_its_own(
    started: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "elsewhere"))
    with of_command(started.logstore, started.lake) as (named, _):
        assert named.group.holder != started.logstore.group.holder


def test_a_label_that_was_put_right_leaves_the_name_to_the_deployment_at_work(
    started: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a logstore that no run seems to have landed, whoever asks first would take the name."""
    relabel(started)
    with of_command(started.logstore, started.lake) as (here, _):
        assert here == started.logstore
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "elsewhere"))
    with of_command(started.logstore, started.lake) as (named, _):
        assert named.group.holder != started.logstore.group.holder


def test_what_landed_elsewhere_since_takes_the_name_away(started: World) -> None:
    started.emulator.admin.advance(11)
    started.land()

    with of_command(started.logstore, started.lake) as (named, _):
        assert named.group.holder != started.logstore.group.holder


def test_a_run_waits_for_a_command_and_then_says_what_it_waited_for(started: World) -> None:
    with (
        of_command(started.logstore, started.lake),
        pytest.raises(ClaimLost, match=r"a command on this machine lands as .* ask again then"),
        of_run(started.logstore),
    ):
        pytest.fail("two had the name at once")


def test_a_command_waits_for_another_one_and_then_goes_on_under_its_name(started: World) -> None:
    with (
        of_command(started.logstore, started.lake),
        pytest.raises(ClaimLost, match=r"a command on this machine lands as .* ask again then"),
        of_command(started.logstore, started.lake),
    ):
        pytest.fail("two had the name at once")
    patient = started.changed(group={**started.logstore.group.model_dump(), "patience_s": 20})
    second, begun = Future[Logstore](), Event()

    def waits() -> None:
        begun.set()
        with of_command(patient, started.lake) as (named, _):
            second.set_result(named)

    with of_command(started.logstore, started.lake):
        waiting = Thread(target=waits)
        waiting.start()
        begun.wait()
    assert second.result(timeout=120) == patient
    waiting.join()


def test_a_state_folder_that_cannot_be_written_keeps_nobody_from_landing(
    started: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "holders").touch()
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "full"))
    started.emulator.admin.advance(31)
    with of_command(started.logstore, started.lake) as (named, name):
        started.land(logstore=named, name=name)
    assert started.reports[-1].rows == 60
