"""Who holds shards under the deployment's name, among the processes of one machine.

The service keeps a shard for the name that holds it until a timeout after that name's last heartbeat, and it
has no call that leaves a group (`server_group.py`). So shards are free at once for one only: for whoever goes
on under the same name. A command line that has a name of its own waits a minute for the shards of a run that
ended, was cancelled or was killed, and the next run waits as long for those of the command line.

So a command goes on under the deployment's name where two things hold:

    nobody uses it now    a lock of the operating system on a file in the state folder: it ends with its
                          process, however that ended. Runs share it, a command has it alone, and another
                          command waits for that one as for shards
    it is this machine's  the table names the newest run of the deployment that landed (`epochs.py`), and the
                          file has the runs that landed from here

Else it takes a name of its own, and the group shares the shards between the two.

Worked example: a run lands from here as `sls-lake` and is killed. `sls-lake land` finds the lock free, and in
the table the run that the file has: it joins as `sls-lake` and has all shards with its first heartbeat. On
somebody's laptop, with the same settings, the file lacks that run: there it is `sls-lake-cli-HOST`, and the
deployment, which may be at work, keeps its shards.

It saves waiting, and protects no data: the fence is in the table's commit.
"""

import fcntl
import hashlib
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.landing.ledger.epochs import RUN_CHARS, Epoch
from pipelines.landing.ledger.start import known
from pipelines.landing.ledger.state import facts
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.home import home
from pipelines.landing.table.lake import Lake
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.deadline import Deadline
from sls_io.values.errors import ClaimLost
from sls_io.wire.client import SlsClient

_FOLDER = "holders"
_RUNS_KEPT = 1000
_LOOK_AGAIN_S = 0.2


class HolderName:
    """The name as one process has it; `None` for a descriptor where no file can be had: then nobody else is
    seen, and nothing is written down."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def lands(self, run: str) -> None:
        """`run` is about to land under the name; written down before, since a run may be killed behind it."""
        if self._descriptor is not None:
            os.write(self._descriptor, f"{run[:RUN_CHARS]}\n".encode("ascii"))


@contextmanager
def of_run(logstore: Logstore) -> Iterator[HolderName]:
    """For a run of the deployment; others of it may run beside it. While a command has the name, it waits as
    long as for shards (`group.patience_s`).

    Raises ClaimLost when the command is still at work then.
    """
    with _opened(logstore) as descriptor:
        patience = Deadline.after(logstore.group.patience_s)
        while descriptor is not None and not _locked(descriptor, fcntl.LOCK_SH):
            _wait_for_command(logstore, patience)
        yield HolderName(descriptor)


@contextmanager
def of_command(logstore: Logstore, lake: Lake) -> Iterator[tuple[Logstore, HolderName]]:
    """For a command: the logstore with the name to go on under, the deployment's where it can. Another
    command that has it is waited for, as `of_run` does.

    Raises ClaimLost when that one is still at work then, and what service and catalog raise.
    """
    with _opened(logstore) as descriptor:
        if descriptor is not None and _alone(logstore, descriptor):
            newest = _newest(logstore, lake)
            if newest is None or newest.run in _landed_here(descriptor):
                yield logstore, HolderName(descriptor)
                return
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        yield with_own_name(logstore), HolderName(None)


@contextmanager
def _opened(logstore: Logstore) -> Iterator[int | None]:
    """The file of the name, one for each logstore and deployment. None where there can be none: a state
    folder that cannot be written is no reason not to land."""
    service = logstore.service
    known = "\n".join((service.endpoint, service.project, service.logstore, logstore.deployment))
    path: Path = home() / _FOLDER / hashlib.sha256(known.encode("utf-8")).hexdigest()[:16]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _alone(logstore: Logstore, descriptor: int) -> bool:
    """Whether this command has the name for itself; not beside runs, which may go on for long.

    Story: two `land`, the second a moment behind the first. The second took a name of its own, the first
    ended, and for a name of its own the service keeps shards back until the timeout: the second gave up, and
    a third one had them at once.
    """
    patience = Deadline.after(logstore.group.patience_s)
    while not _locked(descriptor, fcntl.LOCK_EX):
        if _locked(descriptor, fcntl.LOCK_SH):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return False
        _wait_for_command(logstore, patience)
    return True


def _wait_for_command(logstore: Logstore, patience: Deadline) -> None:
    if patience.left_s <= 0:
        raise ClaimLost(
            f"group {logstore.group.name!r}: a command on this machine lands as "
            f"{logstore.group.holder!r}. Its shards are free when it ends: ask again then"
        )
    SYSTEM_CLOCK.sleep(_LOOK_AGAIN_S)


def _locked(descriptor: int, how: int) -> bool:
    """Without waiting. A file system that has no locks has them all in use."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _newest(logstore: Logstore, lake: Lake) -> Epoch | None:
    """The newest run of the deployment that landed, as the table says."""
    table = lake.load(logstore.table)
    if table is None:
        return None
    with SlsClient(logstore.service) as client:
        origin = client.origin()
    state = facts(table)
    return state.epochs.get(known(state, origin).id, {}).get(logstore.deployment)


def _landed_here(descriptor: int) -> list[str]:
    """The newest runs in the file, which keeps no more of them; nobody else has it open for writing now."""
    size = os.fstat(descriptor).st_size
    runs = os.pread(descriptor, size, 0).decode("ascii", errors="replace").split()
    if len(runs) > 2 * _RUNS_KEPT:
        runs = runs[-_RUNS_KEPT:]
        os.ftruncate(descriptor, 0)
        os.write(descriptor, "".join(f"{run}\n" for run in runs).encode("ascii"))
    return runs


def with_own_name(logstore: Logstore) -> Logstore:
    """With a name of the command line on this machine: a deployment and a command of the same name would
    answer each other's heartbeats."""
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname()) or "host"
    holder = f"{logstore.group.holder}-cli-{host}"[:128]
    return logstore.model_copy(update={"group": logstore.group.model_copy(update={"holder": holder})})
