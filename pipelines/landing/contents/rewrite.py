"""Files of a table written anew by a person's decision: other values, or fewer rows, same partition.

Runs in this process, without Spark: one file at a time, some megabytes of its rows in memory. The new files
are invisible until they are published; the sweep deletes those of a try that fails.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask

from pipelines.landing.commit import authored
from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.contents import slices
from pipelines.landing.contents.slices import LogstoreTable
from pipelines.landing.ledger.reading import batches_of, tasks_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.bounded_scan import BoundedScan
from pipelines.landing.table.contract import arrow_schema
from pipelines.landing.table.lake import Lake, storage_trouble
from pipelines.landing.table.new_file import NewFile
from sls_io.client import SlsClient
from sls_io.clock import Clock
from sls_io.errors import LandingConflict, TransportError

_TRIES_MAX = 20


@dataclass(frozen=True)
class Rewritten:
    """What became of one file: `file` is None when no row of it is left."""

    task: FileScanTask
    file: DataFile | None


def read(
    place: LogstoreTable, task: FileScanTask, schema: Schema, row_filter: BooleanExpression | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file that are live (row-level deletes applied), in the columns of `schema`.

    Raises as `reading.py` does.
    """
    wanted = arrow_schema(schema)
    reader = BoundedScan(place.table.metadata, place.table.io, schema, row_filter or AlwaysTrue())
    for batch in batches_of(place.table, reader, task):
        yield batch.select(wanted.names).cast(wanted)


def write(
    place: LogstoreTable, task: FileScanTask, schema: Schema, batches: Iterable[pa.RecordBatch]
) -> Rewritten:
    """The rows as a new file in the partition of `task`; nothing is written where there are none.

    Raises TransportError when the storage does not take it; nothing was changed then.
    """
    try:
        return _write(place, task, schema, batches)
    except OSError as error:
        trouble = storage_trouble(place.table.location(), error)
        raise TransportError(f"{trouble}; nothing was changed") from error


def _write(
    place: LogstoreTable, task: FileScanTask, schema: Schema, batches: Iterable[pa.RecordBatch]
) -> Rewritten:
    new = NewFile(place.table, schema, task.file, f"{place.origin.id}/rewritten")
    try:
        for batch in batches:
            new.add(batch)
        return Rewritten(task, new.close())
    except BaseException:
        new.abandon()
        raise


def commit_rewritten(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    place: LogstoreTable,
    tasks: Iterable[FileScanTask],
    change_on: Callable[[LogstoreTable], authored.Change],
    *,
    fresh: Freshness,
    clock: Clock,
) -> int:
    """Commit what `change_on` makes of the table; the new snapshot. `fresh` was made
    before the first new file.

    Story: files are rewritten for minutes, a landing commits meanwhile. As long as the files that were read
    are still there, with the same row-level deletes, what was made of them fits the new head too. When not,
    LandingConflict: nothing was changed. The age is looked at after the table: a sweep that took the new
    files made a commit before, so either this one is refused or the files are seen to be old.
    """
    looked_at = slices.fingerprint(tasks)
    for _ in range(_TRIES_MAX):
        try:
            return authored.commit(
                lake, place.table, place.state, change_on(place), now_ms=int(clock.now() * 1000)
            )
        except LandingConflict:
            now = replace(slices.look_at_table(lake, logstore, client), origin=place.origin)
            there = slices.fingerprint(tasks_of(now.table, now.table.scan(row_filter=slices.mine(now))))
            if not looked_at <= there or now.state.schema_id != place.state.schema_id:
                break
            if not fresh.publishable:
                break
            place = now
    raise LandingConflict(
        f"the files of {logstore.table} that were read were rewritten meanwhile, or others committed to "
        "the table before each try; nothing was changed, run it again"
    )
