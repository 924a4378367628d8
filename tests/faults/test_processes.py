"""A run is killed, stopped for longer than its claim, or starved of disk, at every step.

Real processes and real signals; time passes for the service only, which is the harder case: a run that
slept does not know it. That a run also stops by its own clock is tried in the coordinators' contract.
"""

import os
import signal

import pytest

from sls_io.values.errors import ClaimLost
from tests.faults.forked_run import Forge
from tests.worlds.one_logstore import World

LANDED_BEFORE, TO_COME = 20, 60


@pytest.mark.parametrize(
    ("point", "landed"),
    [
        pytest.param("claim", 0, id="claim", marks=pytest.mark.fault("4a.1.kill")),
        pytest.param("claim.done", 0, id="claimed", marks=pytest.mark.fault("4a.1.kill")),
        pytest.param("read_ledger.done", 0, id="ledger", marks=pytest.mark.fault("4a.2.kill")),
        pytest.param("survey.done", 0, id="survey", marks=pytest.mark.fault("4a.2.kill")),
        pytest.param("task.done", 0, id="first-file", marks=pytest.mark.fault("4a.4.kill")),
        pytest.param("write.done", 0, id="written", marks=pytest.mark.fault("4a.4.kill")),
        pytest.param("publish.built", 0, id="built", marks=pytest.mark.fault("4a.5a.kill")),
        pytest.param("commit", 0, id="commit", marks=pytest.mark.fault("4a.5a.kill")),
        pytest.param("committed", 60, id="committed", marks=pytest.mark.fault("4a.5b.kill")),
        pytest.param("reconcile.done", 60, id="reconciled", marks=pytest.mark.fault("4a.5b.kill")),
        pytest.param("checkpoint", 60, id="checkpoint", marks=pytest.mark.fault("4a.6.kill")),
        pytest.param("release", 60, id="release", marks=pytest.mark.fault("4a.7.kill")),
    ],
)
def test_killed_at(started: World, forge: Forge, point: str, landed: int) -> None:
    """Written files that were not published are listed nowhere, and the next run leaves them alone."""
    files = started.files()
    checkpoints = started.checkpoints()

    assert forge.run(started.logstore, started.lake, act="kill", point=point).ended() == -signal.SIGKILL

    assert len(started.table_rows()) == LANDED_BEFORE + landed
    assert (started.checkpoints() == checkpoints) is (point != "release")
    assert started.files() >= files
    orphans = started.data_files() - set(started.published())
    assert bool(orphans) is (point in ("task.done", "write.done", "publish.built", "commit"))
    started.assert_next_lands(TO_COME - landed)
    assert started.data_files() >= orphans and not orphans & set(started.published())


@pytest.mark.fault("4a.3.kill")
def test_killed_in_the_middle_of_a_pull(started: World, forge: Forge) -> None:
    held = started.fault("hold_reply", call="pull_logs")
    run = forge.run(started.logstore, started.lake, act="kill", point="none")
    started.emulator.admin.wait(held)

    signal_to(run.pid, signal.SIGKILL)

    assert run.ended() == -signal.SIGKILL
    started.emulator.admin.remove(held)
    assert len(started.table_rows()) == LANDED_BEFORE
    started.assert_next_lands(TO_COME)


@pytest.mark.fault("4a.6.kill")
def test_killed_between_two_checkpoints(started: World, forge: Forge) -> None:
    """One shard's is stored, the other's is on its way."""
    admin, saved = started.emulator.admin, {"call": "save_checkpoint", "logstore": logstore(started)}
    stored, held = admin.fault("hold_reply", **saved), admin.fault("hold", after=1, **saved)
    before = started.checkpoints()
    run = forge.run(started.logstore, started.lake)
    admin.wait(stored)
    admin.wait(held)

    signal_to(run.pid, signal.SIGKILL)

    assert run.ended() == -signal.SIGKILL
    now = started.checkpoints()
    assert sum(now[s] != before[s] for s in (0, 1)) == 1
    admin.remove()
    started.assert_next_lands(0)


@pytest.mark.fault("4a.8.kill", "4a.7.kill")
def test_the_shards_of_a_killed_holder_are_another_ones_after_the_timeout_and_not_before(
    started: World, forge: Forge
) -> None:
    forge.run(started.logstore, started.lake, act="kill", point="write").ended()
    other = started.with_holder("another")

    with pytest.raises(ClaimLost, match="held by"):
        started.land(logstore=other)
    started.pass_by()

    assert started.land(logstore=other).rows == TO_COME
    started.assert_whole()


@pytest.mark.parametrize(
    ("point", "landed"),
    [
        pytest.param("claim", 0, id="claim", marks=pytest.mark.fault("4a.1.stop")),
        pytest.param("claim.done", 0, id="claimed", marks=pytest.mark.fault("4a.1.stop", "4a.8.stop")),
        pytest.param("read_ledger.done", 0, id="ledger", marks=pytest.mark.fault("4a.2.stop")),
        pytest.param("survey.done", 0, id="survey", marks=pytest.mark.fault("4a.2.stop")),
        pytest.param("task", 0, id="pull", marks=pytest.mark.fault("4a.3.stop")),
        pytest.param("task.done", 0, id="first-file", marks=pytest.mark.fault("4a.4.stop")),
        pytest.param("write.done", 0, id="written", marks=pytest.mark.fault("4a.4.stop")),
        pytest.param("publish.built", 0, id="built", marks=pytest.mark.fault("4a.5a.stop")),
        pytest.param("commit", 0, id="commit", marks=pytest.mark.fault("4a.5a.stop")),
        pytest.param("committed", 60, id="committed", marks=pytest.mark.fault("4a.5b.stop")),
        pytest.param("checkpoint", 60, id="checkpoint", marks=pytest.mark.fault("4a.6.stop")),
        pytest.param("release", 60, id="release", marks=pytest.mark.fault("4a.7.stop")),
    ],
)
def test_stopped_for_longer_than_its_claim_at(started: World, forge: Forge, point: str, landed: int) -> None:
    """Another holder lands meanwhile what was not landed; who wakes adds nothing and takes nothing back."""
    run = forge.run(started.logstore, started.lake, act="stop", point=point)
    run.stopped()
    started.pass_by()
    assert started.land(logstore=started.with_holder("another")).rows == TO_COME - landed
    started.assert_whole()
    landings, files = started.landings(), started.files()

    status = run.wake()

    assert status in (0, 2)
    assert started.landings() == landings, "who slept has published something"
    assert started.files() >= files
    started.assert_whole()
    assert started.land_more(10, pass_s=31).rows == 10
    started.assert_whole()


@pytest.mark.fault("4a.3.stop")
def test_stopped_for_longer_than_its_claim_in_the_middle_of_a_pull(started: World, forge: Forge) -> None:
    """The page it asked for came while it slept; it reads it, and what follows, for nothing."""
    held = started.fault("hold_reply", call="pull_logs")
    run = forge.run(started.logstore, started.lake)
    started.emulator.admin.wait(held)
    signal_to(run.pid, signal.SIGSTOP)
    run.stopped()
    started.pass_by()
    assert started.land(logstore=started.with_holder("another")).rows == TO_COME
    landings = started.landings()
    started.emulator.admin.remove(held)

    assert run.wake() in (0, 2)

    assert started.landings() == landings
    started.assert_whole()


@pytest.mark.fault("4a.6.stop")
def test_a_checkpoint_of_a_holder_that_slept_is_refused(started: World, forge: Forge) -> None:
    """It has read what is stored and is about to write; meanwhile the shards are another's and further on."""
    held = started.fault("hold", call="save_checkpoint")
    run = forge.run(started.logstore, started.lake)
    started.emulator.admin.wait(held)
    signal_to(run.pid, signal.SIGSTOP)
    run.stopped()
    started.pass_by()
    started.put(10, pass_s=31)
    started.fault("observe", call="save_checkpoint")
    assert started.land(logstore=started.with_holder("another")).rows == 10
    frontiers = started.checkpoints()

    started.emulator.admin.remove(held)

    assert run.wake() == 0, "its landing stands"
    assert started.checkpoints() == frontiers
    started.assert_whole()


@pytest.mark.parametrize(
    ("point", "landed", "status"),
    [
        pytest.param("claim", 60, 0, id="claim", marks=pytest.mark.fault("4a.1.disk_full")),
        pytest.param("survey", 60, 0, id="survey", marks=pytest.mark.fault("4a.2.disk_full")),
        pytest.param("task", 0, 2, id="pull", marks=pytest.mark.fault("4a.3.disk_full", "4a.4.disk_full")),
        pytest.param("publish", 0, 2, id="manifests", marks=pytest.mark.fault("4a.5a.disk_full")),
        pytest.param("commit", 0, 2, id="commit", marks=pytest.mark.fault("4a.5a.disk_full")),
        pytest.param("committed", 60, 0, id="committed", marks=pytest.mark.fault("4a.5b.disk_full")),
        pytest.param("checkpoint", 60, 0, id="checkpoint", marks=pytest.mark.fault("4a.6.disk_full")),
        pytest.param("release", 60, 0, id="release", marks=pytest.mark.fault("4a.7.disk_full")),
        pytest.param("write", 0, 2, id="renew", marks=pytest.mark.fault("4a.8.disk_full")),
    ],
)
def test_disk_full_at(started: World, forge: Forge, point: str, landed: int, status: int) -> None:
    """What needs no disk goes on; what does ends with one sentence, and the next run lands it."""
    checkpoints = started.checkpoints()

    ended = forge.run(started.logstore, started.lake, act="disk", point=point).ended()

    assert (ended, len(started.table_rows())) == (status, LANDED_BEFORE + landed)
    assert (started.checkpoints() == checkpoints) is (landed == 0)
    started.assert_next_lands(TO_COME - landed)


@pytest.mark.parametrize(("act", "heard"), [("stop", True), ("stop", False), ("kill", False)])
def test_a_run_that_nobody_waited_for_is_over_before_the_next_one(
    started: World, forge: Forge, act: str, heard: bool
) -> None:
    """Its words are not the next one's, which lands what is to be landed."""
    left = forge.run(started.logstore, started.lake, act=act, point="claim")
    if heard:
        left.stopped()

    assert forge.run(started.logstore, started.lake, act="kill", point="write").ended() == -signal.SIGKILL

    assert left.last.startswith("ended")
    with pytest.raises(ProcessLookupError):
        signal_to(left.pid, signal.SIGCONT)


def logstore(world: World) -> str:
    """The logstore's name, for a fault that is to meet this world only."""
    return world.logstore.service.logstore


def signal_to(pid: int, number: signal.Signals) -> None:
    """Send a signal to a run of ours."""
    os.kill(pid, number)
