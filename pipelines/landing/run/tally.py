"""How far the tasks of a landing are, for whoever looks while they work.

Spark tells its driver of a task when the task ends, and one may read a shard for a minute. So each window
that is written keeps three numbers in a small file of its own, rewritten after each page, in a folder that
the driver names: tasks and driver are on one machine then. Nothing is decided by these numbers.

A file of three numbers of 8 bytes each, little-endian, written with one `pwrite` at its begin: a page later
the same 24 bytes are overwritten, so a folder of 1,000 windows stays at 24 kB. A reader may meet a file that
was made and has no bytes yet; it counts as nothing.

Worked example: window 0 has read 3 pages with 15 rows of 450 bytes, window 1 one page with 5 rows of 100:
told are 4 pages, 20 rows, 550 bytes. A task that Spark tries again writes over its own number, and the sum
goes back for a while.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

_LAYOUT = Struct("<QQQ")


@dataclass(frozen=True, slots=True)
class PullTally:
    """Pages read, rows made of them, and their raw bytes."""

    pages: int = 0
    rows: int = 0
    raw_bytes: int = 0


def tell(folder: str, index: int, done: PullTally) -> None:
    """Window `index` is so far. A folder that is gone, or a full disk, is no reason to stop reading."""
    try:
        file = os.open(os.path.join(folder, str(index)), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, _LAYOUT.pack(done.pages, done.rows, done.raw_bytes), 0)
        finally:
            os.close(file)
    except OSError:
        pass


def told(folder: Path) -> PullTally:
    """All windows together."""
    found = [path.read_bytes() for path in folder.iterdir()]
    whole = [_LAYOUT.unpack(raw) for raw in found if len(raw) == _LAYOUT.size]
    return PullTally(*(sum(column) for column in zip(*whole, strict=True))) if whole else PullTally()
