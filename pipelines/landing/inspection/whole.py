"""Files read whole: every column of every row, and the checksums of pages where a file has them.

Story: a disk loses a block of a data file, in the column of a message. Rows, identities and sums are all
there, so a proof by identities is green; whoever reads the message has an error, or other text. So a part of
the files is read whole each day, and all of them in eight days, whoever runs the proof and wherever: which
day is a file's follows from its name.
"""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contents.spread import each_file
from pipelines.landing.ledger.reading import Unreadable, read_whole

DAYS = 7
_DAY_S = 86_400
Chosen = Callable[[str], bool]
"""Whether the file with this path is read whole."""


@dataclass(frozen=True)
class WholeFiles:
    """How many files were read whole, and the rows in these; `others` were read by their identities only."""

    files: int = 0
    rows: int = 0
    others: int = 0


NO_FILES = WholeFiles()


def no_file(path: str) -> bool:
    """None is read whole."""
    return False


def every_file(path: str) -> bool:
    """All are."""
    return True


def of_day(now_s: float) -> Chosen:
    """The files whose day that of `now_s` (Unix seconds) is.

    Each file has one day of each seven, and a day later in the next seven: a proof on working days alone, or
    once a week, meets each file some week. Worked example: a file of day 6 of these seven is read on day 0 of
    the next, so twice within two days, and every eighth day from then on.
    """
    week, day = divmod(int(now_s) // _DAY_S, DAYS)
    return lambda path: (zlib.crc32(_name(path)) + week) % DAYS == day


def read_chosen(
    table: Table, tasks: Iterable[FileScanTask], chosen: Chosen
) -> tuple[WholeFiles, list[Unreadable]]:
    """Read those of these files that are `chosen`; which of them are gone or damaged. Raises TransportError
    when the storage does not answer, Misread as `reading` does."""
    tasks = list(tasks)
    mine = [task for task in tasks if chosen(task.file.file_path)]
    read = each_file(table, mine, _reading)
    lost = [error for error in read if error is not None]
    gone = {error.path for error in lost}
    rows = [int(task.file.record_count) for task in mine if task.file.file_path not in gone]
    return WholeFiles(len(rows), sum(rows), len(tasks) - len(mine)), lost


def _reading(table: Table) -> Callable[[FileScanTask], None]:
    return lambda task: read_whole(table, task.file)


def _name(path: str) -> bytes:
    """What stays the same when the folder is reached another way."""
    return path.rsplit("/", 1)[-1].encode()
