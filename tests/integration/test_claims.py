"""A claim that goes away while a run works: the loser starts nothing new, and nothing is lost."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipelines.landing.run.report import CheckpointOutcome
from sls_io.values.errors import ClaimLost
from tests.worlds.one_logstore import PROJECT, World


@pytest.fixture
def started(world: World) -> World:
    """A world with a first landing and 60 logs to come; a run waits two seconds for shards."""
    world.logstore = world.changed(group={**world.logstore.group.model_dump(), "patience_s": 2})
    return world.begun(20, 60)


class DuringWrite:
    """Holds the first page back, does something, and lets the page go once the claim is lost."""

    def __init__(self, world: World, action: Callable[[], object]) -> None:
        self.names: list[str] = []
        self._admin, self._action = world.emulator.admin, action

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if name == "write" and "claim.lost" not in self.names:
            self._held = self._admin.fault("hold", call="pull_logs", times=None)
            self._action()
        if name == "claim.lost":
            self._admin.remove(self._held)

    def assert_no_try_before_the_next_claim(self) -> None:
        """Between the loss and the next claim, nothing was published."""
        lost = self.names.index("claim.lost")
        claims = [i for i, name in enumerate(self.names) if name == "claim" and i > lost]
        until = claims[0] if claims else len(self.names)
        assert "publish" not in self.names[lost:until], self.names


def silent_too_long(world: World) -> None:
    """For the service, the holder's last heartbeat is suddenly very old."""
    world.emulator.admin.advance(31)


@pytest.mark.fault("4a.8.stop")
def test_a_run_that_was_silent_too_long_claims_again_before_it_publishes(started: World) -> None:
    events, said = DuringWrite(started, lambda: silent_too_long(started)), list[str]()

    report = started.land(on_event=events, warn=said.append)

    events.assert_no_try_before_the_next_claim()
    assert (report.rows, report.replans) == (60, 1)
    (reason,) = said
    assert reason.startswith("the claim was lost") and "'lake'" in reason
    started.assert_sound()


@pytest.mark.fault("4a.4.stop", "4a.8.stop")
def test_a_run_whose_shards_went_to_another_publishes_nothing(started: World) -> None:
    """The next run, whoever it is, lands all."""
    before, checkpoints = started.table.metadata.current_snapshot_id, started.checkpoints()

    def taken_over() -> None:
        silent_too_long(started)
        with started.client as client:
            assert client.heartbeat("lake", "another", []) == {0, 1}

    events = DuringWrite(started, taken_over)

    with pytest.raises(ClaimLost, match="held by"):
        started.land(on_event=events)

    events.assert_no_try_before_the_next_claim()
    assert started.table.metadata.current_snapshot_id == before
    assert started.checkpoints() == checkpoints
    silent_too_long(started)
    assert started.land(logstore=started.with_holder("another")).rows == 60
    started.assert_sound()


def test_a_run_whose_group_was_deleted_lands_and_the_next_one_repairs_the_checkpoints(started: World) -> None:
    """Nobody else can hold shards in a group that is gone, and the fence is in the commit anyway."""

    def delete() -> None:
        with started.client as client:
            client.transport.delete_consumer_group(PROJECT, "access_logs", "lake")

    names: list[str] = []

    def on_event(name: str) -> None:
        names.append(name)
        if name == "write":
            delete()

    report = started.land(on_event=on_event)
    repaired = started.land()

    assert report.rows + repaired.rows == 60
    assert started.checkpoints() == {s: e.frontier for s, e in started.ledger.shards.items()}
    started.assert_each_log_once()


def test_checkpoints_are_on_their_way_at_the_same_time(started: World) -> None:
    held = started.emulator.admin.fault("hold", call="save_checkpoint", times=None)
    with started.run() as run, ThreadPoolExecutor(1) as beside:
        run.land()
        assert run.reconcile().ok
        sent = beside.submit(run.checkpoint)
        started.emulator.admin.wait(held, hits=2)  # neither is answered before both were asked for
        started.emulator.admin.remove(held)
        assert [x.outcome for x in sent.result()] == [CheckpointOutcome.MOVED] * 2
    assert started.checkpoints() == {s: e.frontier for s, e in started.ledger.shards.items()}


@pytest.mark.fault("4a.6.refused")
def test_a_checkpoint_that_cannot_be_sent_stops_no_other(started: World) -> None:
    fault = started.emulator.admin.fault("error", call="save_checkpoint", shard=0, times=None, status=500)
    with started.run() as run:
        run.land()
        assert run.reconcile().ok
        outcomes = {x.shard: x.outcome for x in run.checkpoint()}
    assert outcomes == {0: CheckpointOutcome.PUT_OFF, 1: CheckpointOutcome.MOVED}
    started.emulator.admin.remove(fault)
    started.land()
    assert started.checkpoints() == {s: e.frontier for s, e in started.ledger.shards.items()}


def test_only_heartbeats_have_the_deadline_of_heartbeats(started: World) -> None:
    """Story: a busy service listed the groups in a little more than a second. Runs that beat each second
    failed before they had begun, though they would have waited for any other answer."""
    slow = started.emulator.admin.fault("delay", call="list_groups", delay_s=1.2, times=1)

    assert started.land().rows == 60

    started.emulator.admin.wait(slow)
    started.assert_each_log_once()
