"""Files of a table written anew by a person's decision: other values, or fewer rows, same partition.

One file is work by itself (`spread.py`), some megabytes of its rows in memory. The new files are invisible
until they are published; the sweep deletes those of a try that fails.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.commit import authored
from pipelines.landing.commit.planned import Planned, View
from pipelines.landing.contents import slices
from pipelines.landing.contents.cells import shown
from pipelines.landing.contents.spread import bytes_of, over, unless_wrong
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.reading import batches_of, tasks_of
from pipelines.landing.table.bounded_scan import BoundedScan
from pipelines.landing.table.contract import arrow_schema
from pipelines.landing.table.new_file import NewFile
from pipelines.landing.table.object_store import one_after_another
from sls_io.values.errors import LandingConflict

Result = TypeVar("Result")


def read(
    table: Table, tasks: Sequence[FileScanTask], schema: Schema, row_filter: BooleanExpression | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of these files that are live (row-level deletes applied), in the columns of `schema`.

    Raises as `reading.py` does.
    """
    wanted = arrow_schema(schema)
    reader = BoundedScan(table.metadata, table.io, schema, row_filter or AlwaysTrue())
    for task in one_after_another(table.io, tasks):
        for batch in batches_of(table, reader, task):
            yield batch.select(wanted.names).cast(wanted)


def write(
    table: Table, origin: str, task: FileScanTask, schema: Schema, batches: Iterable[pa.RecordBatch]
) -> DataFile | None:
    """The rows as a new file in the partition of `task`; None, and nothing is written, where there are none.

    Raises TransportError when the storage does not take it; nothing was changed then.
    """
    new = NewFile(table, schema, task.file, f"{origin}/rewritten")
    with new.begun():
        for batch in batches:
            new.add(batch)
        return new.close()


def each(
    table: Table,
    tasks: Sequence[FileScanTask],
    work: Callable[[Table, FileScanTask], Result],
) -> list[Result]:
    """What `work` makes of each file. Raises the first error of one."""
    return list(unless_wrong(over(table, tasks, work, bytes_of=lambda task: bytes_of((task,)))))


def files_of(place: Place, about: BooleanExpression) -> list[FileScanTask]:
    """Files that may hold rows that `about` takes."""
    return tasks_of(place.table, place.table.scan(row_filter=about))


def check_none_came(
    place: Place, now: Place, about: BooleanExpression, rows_in: Callable[[list[FileScanTask]], int]
) -> None:
    """Story: a landing that began before the decision, or under older settings, brings such rows between the
    look at `place` and the commit on `now`. They would stay, and nobody would be told. Raises LandingConflict
    where `rows_in` counts any in the files that came.
    """
    if now is place:
        return
    looked = slices.fingerprint(files_of(place, about))
    # What was looked at is known by path and by the row-level deletes on it; so a file that only lost rows
    # since is looked at once more, and one that a compaction made is, too.
    news = [task for task in files_of(now, about) if shown(task) not in looked]
    if rows_in(news):
        raise LandingConflict(f"such rows came to {now.name} meanwhile; nothing was changed, run it again")


def with_files(
    view: View,
    place: Place,
    tasks: Iterable[FileScanTask],
    change_on: Callable[[Place], authored.Change],
    look: Callable[[], Place],
) -> Planned[View]:
    """The plan whose commit `change_on` makes of the table; `look` gives the table as it is later.

    Story: files are rewritten for minutes, a landing commits meanwhile. As long as the files that were read
    are still there, with the same row-level deletes, what was made of them fits the new head too. When not,
    LandingConflict: nothing was changed.
    """
    wanted = slices.fingerprint(tasks)

    def again() -> Planned[View]:
        now = look()
        there = slices.fingerprint(tasks_of(now.table, now.table.scan(row_filter=slices.mine(now))))
        if not wanted <= there or now.state.schema_id != place.state.schema_id:
            raise LandingConflict(
                f"the files of {now.name} that were read were rewritten meanwhile; nothing was changed, run "
                "it again"
            )
        return Planned(view, now, change_on(now), again=again)

    return Planned(view, place, change_on(place), again=again)
