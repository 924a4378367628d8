"""Rows that could not be represented exactly, read again from their kept bytes after a contract fix.

Such a row has its cause in `__error__` and the log's own bytes in `__raw__`. These are decoded with the
contract of today; what fits now gets its columns, and no error any more. The service is not asked, the
identities stay, so the ledger stays too. Asked a second time it finds nothing that would change.

What is not part of a log's bytes stays as it is: topic, source and tags of its group, and causes that
are about those. A value that was hashed when it landed is not hashed again. Bytes that are no log (a
whole LogGroup that cannot be taken apart, or a log that cannot be read) stay, too, unless a key that is
declared `drop` or `hash` by now may be in them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, NotNull
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask

from pipelines.landing.commit import authored
from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.contents import rewrite, slices
from pipelines.landing.contents.slices import LogstoreTable
from pipelines.landing.hours import hours_text
from pipelines.landing.ledger.reading import tasks_of
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import Contract, arrow_schema, partition_of
from pipelines.landing.table.lake import Lake
from pipelines.landing.transform import Transform
from sls_io import loggroup
from sls_io.client import Page, SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.decoding import causes
from sls_io.decoding.causes import KEYS_MAX, SEPARATOR, Cause
from sls_io.decoding.decode import Declared, Decoder
from sls_io.decoding.nested import guarded, hashed_once, plain_log
from sls_io.errors import ConfigError, InvariantBroken
from sls_io.window import Cursor

_KEPT = (
    "__origin__",
    "__shard__",
    "__cursor__",
    "__index__",
    "__receive_hour__",
    "__topic__",
    "__source__",
    "__tags__",
)
_BROKEN = NotNull(term="__error__")
_BODY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Mend:
    """What `backfill --mode errors` would do.

    rows     rows with an error in these hours
    mended   rows that would have none any more; `changed` counts those, too, that keep another one
    files    files that would be written anew
    left     cause -> rows that would still have it
    """

    table: str
    origin: str
    rows: int
    mended: int
    changed: int
    files: int
    left: dict[str, int]


@dataclass(frozen=True)
class PlannedMend:
    """A mend with the table it was looked at; `tasks` are the files with rows that change."""

    view: Mend
    place: LogstoreTable
    hours: range
    schema: Schema
    evolved: bool
    tasks: tuple[FileScanTask, ...]


def plan_mend(lake: Lake, logstore: Logstore, client: SlsClient, hours: range) -> PlannedMend:
    """Read the rows with errors of these receive hours and try today's contract. Changes nothing.

    Raises ConfigError for a contract that the table cannot follow, LedgerBroken when the table cannot
    be trusted.
    """
    place = slices.look_at_table(lake, logstore, client)
    contract = Contract.from_columns(logstore.columns)
    evolved = contract.evolved(place.table.metadata)
    schema = evolved or place.table.schema()
    reader = _Reader(contract, place.origin.id, schema, Transform(logstore.transform))
    tasks: list[FileScanTask] = []
    rows = mended = changed = 0
    left: dict[str, int] = {}
    for task in tasks_of(place.table, place.table.scan(row_filter=And(slices.mine(place, hours), _BROKEN))):
        found = 0
        for batch in rewrite.read(place, task, schema, _BROKEN):
            after = reader.again(batch)
            rows += batch.num_rows
            mended += after.column("__error__").null_count
            found += _differing(batch, after)
            for cause in after.column("__error__").drop_null().to_pylist():
                left[cause] = left.get(cause, 0) + 1
        if found:
            _check_accounted(place, task)
            tasks.append(task)
        changed += found
    view = Mend(place.name, place.origin.id, rows, mended, changed, len(tasks), left)
    return PlannedMend(view, place, hours, schema, evolved is not None, tuple(tasks))


def execute_mend(
    lake: Lake, logstore: Logstore, client: SlsClient, planned: PlannedMend, *, clock: Clock = SYSTEM_CLOCK
) -> int:
    """Write the files anew and commit; the new snapshot. Raises ConfigError when nothing would change,
    else what `rewrite.publish` does."""
    if not planned.tasks:
        raise ConfigError(f"no row with an error in these hours of {planned.view.table} would change")
    place, schema = planned.place, planned.schema
    contract, transform = Contract.from_columns(logstore.columns), Transform(logstore.transform)
    reader = _Reader(contract, place.origin.id, schema, transform)
    files: list[DataFile] = []
    fresh = Freshness(clock)
    for task in planned.tasks:
        done = rewrite.write(place, task, schema, map(reader.mended, rewrite.read(place, task, schema)))
        if done.file is None or (not task.delete_files and done.file.record_count != task.file.record_count):
            raise InvariantBroken(f"a file of {place.name} has other rows after its errors were read again")
        files.append(done.file)

    def change_on(now: LogstoreTable) -> authored.Change:
        return authored.Change(
            content=now.head,
            ledgers=now.state.ledgers,
            adopted=now.state.adopted,
            deed=Deed(Operation.ERRORS, hours_text(planned.hours)),
            forgotten=now.state.forgotten,
            dropped=frozenset(task.file.file_path for task in planned.tasks),
            added=tuple(files),
            window_origin=place.origin.id,
            schema=schema if planned.evolved else None,
        )

    return rewrite.commit_rewritten(
        lake, logstore, client, place, planned.tasks, change_on, fresh=fresh, clock=clock
    )


def _check_accounted(place: LogstoreTable, task: FileScanTask) -> None:
    """Raises ConfigError for a file whose partition says values of its rows: read again, they may differ."""
    table = place.table
    try:
        partition_of(table.specs()[task.file.spec_id], table.schema(), origin="", shard=0, hour=0)
    except ConfigError as error:
        raise ConfigError(
            f"{error}; then let that engine write its files anew (rewrite_data_files)"
        ) from error


class _Reader:
    """Kept bytes -> rows, with one contract, one schema and one transform."""

    def __init__(self, contract: Contract, origin: str, schema: Schema, transform: Transform) -> None:
        self._transform = transform
        declared = contract.declared
        self._pii = {d.name.encode(): d.pii for d in declared if d.pii}
        self._hashed = frozenset(d.name.encode() for d in declared if d.pii == "hash")
        # Their values are digests by the time they are decoded, so they are taken as they are.
        self._decoder = Decoder(origin, [_unhashed(d) for d in declared], arrow_schema(schema))

    def mended(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch` with each row that has an error read again."""
        broken = pc.is_valid(batch.column("__error__"))
        if not pc.any(broken).as_py():
            return batch
        after = self.again(batch.filter(broken))
        places = pc.add(pc.cumulative_sum(broken.cast(pa.int64())), batch.num_rows - 1)
        rows = pa.array(range(batch.num_rows), pa.int64())
        both = pa.Table.from_batches([batch, after]).combine_chunks()
        return both.take(pc.if_else(broken, places, rows)).combine_chunks().to_batches()[0]

    def again(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that all have an error, read again; one without kept bytes stays as it is."""
        parts = [self._part(part) for part in _parts(batch)]
        return pa.Table.from_batches(parts, batch.schema).combine_chunks().to_batches()[0]

    def _part(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raws = batch.column("__raw__").to_pylist()
        if not all(map(_is_log, raws, batch.column("__error__").to_pylist())):
            return self._guarded(batch)
        logs = [hashed_once(raw, self._hashed) if self._hashed else raw for raw in raws]
        body = b"".join(loggroup.frame(loggroup.frame(log)) for log in logs)
        count = len(logs)
        page = Page(0, Cursor(0), Cursor(count), count, len(body), "", body, None)
        decoded = self._decoder.decode(page, hour=0).batch
        columns = {name: batch.column(name) for name in _KEPT}
        both = zip(
            batch.column("__error__").to_pylist(), decoded.column("__error__").to_pylist(), strict=True
        )
        errors = [_cause(old, new) for old, new in both]
        kept = zip(errors, decoded.column("__raw__").to_pylist(), logs, strict=True)
        columns["__error__"] = pa.array(errors, pa.string())
        columns["__raw__"] = pa.array(
            [None if e is None else new or log for e, new, log in kept], pa.binary()
        )
        read = pa.RecordBatch.from_arrays(
            [columns[f.name] if f.name in columns else decoded.column(f.name) for f in batch.schema],
            schema=batch.schema,
        )
        return self._transform.of(read, batch.column("__shard__")[0].as_py())

    def _guarded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One row whose bytes are no log; they go when personal data may be in them."""
        raw, error = batch.column("__raw__")[0].as_py(), batch.column("__error__")[0].as_py()
        if raw is None or not self._pii or guarded(raw, self._pii, readable=False)[1]:
            return batch
        gone = {"__raw__": pa.nulls(1, pa.binary())}
        gone["__error__"] = pa.array([f"{error}{SEPARATOR}{Cause.WITHHELD}"], pa.string())
        return pa.RecordBatch.from_arrays(
            [gone.get(f.name, batch.column(f.name)) for f in batch.schema], schema=batch.schema
        )


def _is_log(raw: bytes | None, error: str) -> bool:
    """Whether the kept bytes are one log that can be read."""
    if raw is None or not causes.read(error).holds_log:
        return False
    try:
        plain_log(raw, 0, len(raw), pairs_max=KEYS_MAX)
    except ValueError:
        return False
    return True


def _unhashed(declared: Declared) -> Declared:
    return replace(declared, pii="") if declared.pii == "hash" else declared


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices whose kept bytes fit a page; a row without the bytes of a log stands alone."""
    begin = size = 0
    errors = batch.column("__error__")
    for row, scalar in enumerate(batch.column("__raw__")):
        raw = scalar.as_py()
        log = _is_log(raw, errors[row].as_py())
        length = len(raw or b"")
        if row > begin and (not log or size + length > _BODY_BYTES or size < 0):
            yield batch.slice(begin, row - begin)
            begin, size = row, 0
        size = size + length if log else -1
    if begin < batch.num_rows:
        yield batch.slice(begin)


def _cause(old: str, new: str | None) -> str | None:
    """Causes of today, after those of before that are about the group and not about the log."""
    found = causes.read(new).all if new else ()
    group = (cause for cause in causes.read(old).group if cause not in found)
    return SEPARATOR.join([*group, *found]) or None


def _differing(before: pa.RecordBatch, after: pa.RecordBatch) -> int:
    """Rows that are not the same; by text, in which also NaN is what it was."""
    pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
    return sum(repr(old) != repr(new) for old, new in pairs)
