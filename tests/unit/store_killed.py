"""A process that writes a checkpoint file and is killed on the way: the victim of test_local_file.py.

python -m tests.unit.store_killed PATH count           the number of system steps of one write
python -m tests.unit.store_killed PATH step N          killed before its step N
python -m tests.unit.store_killed PATH bytes N         killed in the middle of a write, after N bytes
python -m tests.unit.store_killed PATH full N          the disk takes N bytes of a file and no more
python -m tests.unit.store_killed PATH nobody          as a user who may not write there
"""

import os
import resource
import signal
import sys
from pathlib import Path
from types import FrameType

from sls_io.checkpoints.local_file import LocalFile
from sls_io.values.errors import StoreError
from sls_io.values.window import Cursor

OF, READER = "access_logs-3f9c01aa", "dev"
OLD, NEW = {0: 10, 1: 20}, {0: 11, 1: 20, 2: 30}
_NOBODY = 65534


def main(path: str, how: str, number: str = "0") -> None:
    """Write NEW over what is there."""
    store = LocalFile(Path(path), of=OF, reader=READER)
    count, at = 0, int(number)

    def step(frame: FrameType, event: str, called: object) -> None:
        nonlocal count
        if event != "c_call" or getattr(called, "__module__", "") not in ("posix", "fcntl"):
            return
        count += 1
        if how == "step" and count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    if how == "bytes":
        # Python ignores this signal; its default ends a process that writes beyond the limit.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if how in ("bytes", "full"):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
    if how == "nobody":
        os.seteuid(_NOBODY)
    if how in ("count", "step"):
        sys.setprofile(step)
    try:
        store.write({shard: Cursor(cursor) for shard, cursor in NEW.items()})
    except StoreError as error:
        sys.setprofile(None)
        sys.stdout.write(f"{type(error).__name__}: {error}")
        sys.exit(1)
    sys.setprofile(None)
    sys.stdout.write(str(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
