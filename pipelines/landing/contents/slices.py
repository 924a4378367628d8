"""Parts of a logstore's table that a person names: which files they are in, and what rows they hold.

Rows are counted one by one before they leave a table. Their identities are read, summed, and sorted into rows
that the ledger calls landed, rows that were adopted, and rows that nothing explains. Rows of the last kind
stop whatever was asked.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import prune_columns
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.hours import hour_text, hours_text, moment_text
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.reading import Unreadable, batches_of, bounds, tasks_of
from pipelines.landing.ledger.values import Adopted
from pipelines.landing.table import calls
from pipelines.landing.table.bounded_scan import BoundedScan
from pipelines.landing.table.contract import hour_place, origin_place, rows_of
from sls_io.decoding.decode import identity_sum
from sls_io.values.claim import SUM_MODULUS, Ledger, ShardLedger
from sls_io.values.cures import Cure, Do
from sls_io.values.errors import ConfigError, LedgerBroken, ShardGone
from sls_io.values.window import HOUR_S, IntervalSet
from sls_io.wire.client import SlsClient

IDENTITY = ("__shard__", "__cursor__", "__index__", "__receive_hour__")
_HOUR_US = HOUR_S * 1_000_000
_HOURS_NAMED_MAX = 5
_Longs = npt.NDArray[np.int64]
Fingerprint = frozenset[tuple[str, frozenset[str]]]


class Filter(Protocol):
    """What takes some of a batch's rows: the columns it needs by field id, and which rows it takes."""

    @property
    def fields(self) -> frozenset[int]: ...

    def taken(self, batch: pa.RecordBatch) -> pa.BooleanArray: ...


@dataclass(frozen=True)
class Part:
    """Rows of one shard and receive hour: how many, their identity sum mod 2**64, and the lowest and
    highest cursor. `outside` and `outside_sum` are those that the ledger does not call landed."""

    shard: int
    hour: int
    rows: int
    sum: int
    first: int
    last: int
    outside: int = 0
    outside_sum: int = 0

    def plus(self, other: "Part") -> "Part":
        """Both together."""
        return Part(
            self.shard,
            self.hour,
            self.rows + other.rows,
            (self.sum + other.sum) % SUM_MODULUS,
            min(self.first, other.first),
            max(self.last, other.last),
            self.outside + other.outside,
            (self.outside_sum + other.outside_sum) % SUM_MODULUS,
        )


def check_passed(place: Place, client: SlsClient, end_hour: int) -> None:
    """Raises ConfigError unless every frontier of the origin has passed all hours before `end_hour`.

    Story: a shard is split, nothing of the children has landed yet, and somebody takes back an hour from
    before the split. The service tells that they have nothing of it.
    """
    listed, end_s = {s.id for s in client.shards()}, end_hour * HOUR_S
    over = end_s <= client.now_s() - place.logstore.budget.settle_s
    for shard in sorted(listed | set(place.ledger.shards)):
        entry = place.ledger.shards.get(shard)
        passed = entry is not None and (entry.closed or entry.reached_s >= end_s)
        if passed or (over and shard in listed and _nothing_left(client, shard, entry, end_s)):
            continue
        if entry is None:
            raise ConfigError(f"shard {shard} has not landed in {place.name} yet; land first")
        reached = moment_text(entry.reached_s) if entry.reached_s else "nothing"
        raise ConfigError(
            f"shard {shard} has reached {reached} of the receive time, not all of the hours asked for; "
            "land first, or ask for earlier hours"
        )


def _nothing_left(client: SlsClient, shard: int, entry: ShardLedger | None, end_s: int) -> bool:
    """Whether the service has nothing before `end_s` that has not landed of this shard."""
    try:
        frontier = client.cursor_at(shard, "begin") if entry is None else entry.frontier
        return client.cursor_at(shard, end_s) <= frontier
    except ShardGone:
        return False


def check_not_forgotten(place: Place, hours: range) -> None:
    """Raises ConfigError for hours of which rows were removed by decision: they would come back."""
    forgotten = place.state.forgotten.hours(place.origin.id).within(hours.start, hours.stop)
    if forgotten:
        raise ConfigError(
            f"rows of {moment_text(forgotten.pairs[0][0] * HOUR_S)} were removed by `table forget`, and "
            "would come back if that hour was landed again; leave it out"
        )


def whole_files(place: Place, hours: range) -> list[FileScanTask]:
    """The files with rows of these receive hours; each holds rows of one hour of this origin only.

    Raises ConfigError when one holds others, too; those whose partition does not say so are read.
    """
    tasks = tasks_of(place.table, place.table.scan(row_filter=mine(place, hours)))
    plain = _hour_files(place)
    if not all(plain(task) or _only(place, task, hours) for task in tasks):
        raise ConfigError(
            f"a file of {place.name}, which another engine wrote while the table was partitioned otherwise, "
            "also holds rows of other hours or logstores; let Spark write its files anew first: CALL "
            f"lake.system.rewrite_data_files(table => '{place.name}', options => map('rewrite-all', 'true'))"
        )
    return tasks


def _only(place: Place, task: FileScanTask, hours: range) -> bool:
    """Whether all rows of a file are of this origin and these hours, by reading them. Raises as `reading.py`
    does."""
    schema, begin, end = place.table.schema(), hours.start * _HOUR_US, hours.stop * _HOUR_US
    ids = {schema.find_field(name).field_id for name in ("__origin__", "__receive_hour__")}
    columns = prune_columns(schema, ids, select_full_types=True)
    reader = BoundedScan(place.table.metadata, place.table.io, columns, AlwaysTrue())
    for batch in batches_of(place.table, reader, task):
        at = _micros(batch)
        owned = pc.all(pc.equal(batch.column("__origin__"), place.origin.id)).as_py()
        if batch.num_rows and not (owned and begin <= at.min() and at.max() < end):
            return False
    return True


class RowsElsewhere(LedgerBroken):
    """Rows of the hours `asked` for also lie in the hours `others`. `hours` spans both. `together` spans
    these and all hours whose rows are mixed with theirs, where one replace can take all, else None."""

    def __init__(
        self,
        place_name: str,
        asked: range,
        others: Collection[int],
        *,
        cures: tuple[Cure, ...],
        together: range | None = None,
    ) -> None:
        self.asked, self.others, self.together = asked, others, together
        self.hours = range(min(asked.start, *others), max(asked.stop, *(hour + 1 for hour in others)))
        named = ", ".join(map(hour_text, sorted(others)[:_HOURS_NAMED_MAX]))
        more = f" and {len(others) - _HOURS_NAMED_MAX} more" if len(others) > _HOURS_NAMED_MAX else ""
        super().__init__(
            f"rows of {hours_text(asked)} lie in other receive hours of {place_name}: in {named}{more}. "
            "Taking the hours back would leave those rows there, landing the hours again would double them; "
            "nothing was changed",
            cures=cures,
        )


def check_nowhere_else(place: Place, cursors: Mapping[int, IntervalSet], hours: range) -> None:
    """Raises RowsElsewhere when rows of these cursors of each shard lie in other receive hours.

    Story: another engine writes an hour anew and labels it an hour later. Rows and sums of the table are
    what they were; the hour lands again, and each of its rows is there twice.
    """
    others = elsewhere(place, cursors, hours)
    if others:
        raise RowsElsewhere(place.name, hours, others, cures=(calls.VERIFY_PULL,))


def check_nowhere(place: Place, cursors: Mapping[int, IntervalSet]) -> None:
    """Raises LedgerBroken when rows of these cursors, which a fill is about to land, are in the table.

    Only as far as bounds tell: a file without bounds is not read, since the whole table might have to be
    read.
    """
    if there := elsewhere(place, cursors, range(0), unbounded=False):
        raise LedgerBroken(
            f"{place.name} holds rows that its ledger does not call landed, in receive hours "
            f"{', '.join(map(hour_text, sorted(there)[:_HOURS_NAMED_MAX]))}: filled now, they would be there "
            "twice; nothing was landed",
            cures=(calls.VERIFY,),
        )


def elsewhere(
    place: Place, cursors: Mapping[int, IntervalSet], hours: range, *, unbounded: bool = True
) -> frozenset[int]:
    """Receive hours outside of `hours` with rows of these cursors of each shard. A file whose bounds exclude
    these cursors is not read; where only landings wrote, that is every file. A file without bounds is read if
    `unbounded`."""
    table = place.table
    found: set[int] = set()
    for task in tasks_of(table, table.scan(row_filter=mine(place))):
        if partition_hour(table, task.file) in hours or not _may_hold(table, task.file, cursors):
            continue
        if not unbounded and bounds(table, task.file, "__cursor__") is None:
            continue
        with suppress(Unreadable):  # what was in it is not there
            found |= _hours_with(_batches(place, task), cursors)
    # A file whose partition says no hour may hold rows of these hours, where they belong.
    return frozenset(hour for hour in found if hour not in hours)


def _hours_with(batches: Iterable[pa.RecordBatch], cursors: Mapping[int, IntervalSet]) -> set[int]:
    """The receive hours of rows with these cursors of each shard."""
    found: set[int] = set()
    for shard, at, hour in _places(batches):
        for begin, end in cursors.get(shard, IntervalSet()):
            found.update(np.unique(hour[(at >= begin) & (at < end)]).tolist())
    return found


def partition_hour(table: Table, file: DataFile) -> int | None:
    """The receive hour of a file as its partition says; None where that says nothing."""
    at = hour_place(table.specs()[file.spec_id], table.schema())
    return None if at is None or file.partition[at] is None else int(file.partition[at])


def partition_origin(table: Table, file: DataFile) -> str | None:
    """The logstore whose rows a file holds as its partition says; None where that says nothing."""
    at = origin_place(table.specs()[file.spec_id], table.schema())
    return None if at is None else str(file.partition[at])


def origin_and_hour(table: Table, file: DataFile) -> tuple[str, int] | None:
    """Both of a file; None where its partition says less."""
    origin, hour = partition_origin(table, file), partition_hour(table, file)
    return None if origin is None or hour is None else (origin, hour)


def _batches(place: Place, task: FileScanTask) -> Iterator[pa.RecordBatch]:
    """The identities and receive hours of the logstore's rows in one file. Raises as `reading.py` does."""
    schema = place.table.schema()
    ids = {schema.find_field(name).field_id for name in IDENTITY}
    columns = prune_columns(schema, ids, select_full_types=True)
    reader = BoundedScan(place.table.metadata, place.table.io, columns, mine(place))
    return batches_of(place.table, reader, task, whole=True)


def _may_hold(table: Table, file: DataFile, cursors: Mapping[int, IntervalSet]) -> bool:
    shards, span = bounds(table, file, "__shard__"), bounds(table, file, "__cursor__")
    return any(
        (shards is None or shards[0] <= shard <= shards[1])
        and (span is None or intervals.overlaps(span[0], span[1] + 1))
        for shard, intervals in cursors.items()
    )


def _places(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, _Longs, _Longs]]:
    """Cursors and receive hours of the rows, by shard."""
    for batch in batches:
        shards, cursors = (
            batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in IDENTITY[:2]
        )
        hours = receive_hours(batch)
        for shard in np.unique(shards).tolist():
            yield shard, cursors[shards == shard], hours[shards == shard]


def check_counted(place: Place) -> None:
    """Raises LedgerBroken when a shard of the logstore has more or fewer rows than its ledger and what was
    adopted say: what would leave then could not be told from what is missing already."""
    for shards, rows, known in _counted(place):
        if rows != known:
            raise LedgerBroken(
                f"table {place.name} holds {rows} rows of {place.origin.logstore}{_of_shards(shards)}, its "
                f"ledger says {known}; nothing was changed",
                cures=(calls.VERIFY_PULL,),
            )


def check_none_missing(place: Place) -> None:
    """As `check_counted`, for every logstore of the table, before something that no rollback passes.

    Story: rows are deleted by hand. Before anybody looks, others are removed for good, and with that the
    rollback and the replace that would have brought the first ones back are refused for ever.
    """
    for origin in sorted(set(place.state.ledgers) & set(place.state.origins)):
        for shards, rows, known in _counted(place.of(origin)):
            if rows < known:
                raise LedgerBroken(
                    f"table {place.name} misses rows: of {origin}{_of_shards(shards)} it holds {rows}, its "
                    f"ledger says {known}; no rollback would bring them back after this; nothing was changed",
                    cures=(calls.VERIFY_PULL, Do("say --without-missing here")),
                )


def _of_shards(shards: Collection[int]) -> str:
    return f" in shard {', '.join(map(str, shards))}" if shards else ""


def _counted(place: Place) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """(shards, rows there, rows known) of each shard, from the manifests; files that hold rows of several
    shards are held against what is left of all of them. Files whose rows are partly hidden or of others are
    read."""
    origin, plain = place.origin.id, _hour_files(place)
    there, mixed = defaultdict[int, int](int), 0
    odd: list[FileScanTask] = []
    for task in tasks_of(place.table, place.table.scan(row_filter=mine(place))):
        span = bounds(place.table, task.file, "__shard__")
        if not plain(task) or task.delete_files:
            odd.append(task)
        elif span is not None and span[0] == span[1]:
            there[span[0]] += task.file.record_count
        else:
            mixed += task.file.record_count
    for part in parts_of(place, odd):
        there[part.shard] += part.rows
    known = defaultdict[int, int](int, {s: entry.rows for s, entry in place.ledger.shards.items()})
    for (name, shard), (rows, _) in place.state.adopted.shards.items():
        known[shard] += rows if name == origin else 0
    shards = tuple(sorted({*there, *known}))
    if not mixed:
        for shard in shards:
            yield (shard,), there[shard], known[shard]
    else:
        for shard in shards:
            if there[shard] > known[shard]:
                yield (shard,), there[shard], known[shard]
        yield (), sum(there.values()) + mixed, sum(known.values())


def _hour_files(place: Place) -> Callable[[FileScanTask], bool]:
    """Whether a file's partition says that its rows are of one logstore and one receive hour."""
    schema, specs = place.table.schema(), place.table.specs()
    fit = {
        number
        for number, spec in specs.items()
        if hour_place(spec, schema) is not None and origin_place(spec, schema) is not None
    }
    return lambda task: task.file.spec_id in fit


def mine(place: Place, hours: range | None = None) -> BooleanExpression:
    """Rows of the logstore, and of these receive hours."""
    return rows_of(place.origin.id, hours)


def fingerprint(tasks: Iterable[FileScanTask]) -> Fingerprint:
    """Which rows these files show: each with the row-level deletes that apply to it."""
    return frozenset(
        (task.file.file_path, frozenset(d.file_path for d in task.delete_files)) for task in tasks
    )


def parts_of(place: Place, tasks: Collection[FileScanTask], where: Filter | None = None) -> tuple[Part, ...]:
    """The logstore's rows of these files, or those that `where` takes, by shard and hour.

    Reads one file at a time, and of it only the identity columns and those that `where` names. Columns are
    selected by id: a name may hold dots, blanks and quotes. Raises as `reading.py` does.
    """
    schema = place.table.schema()
    ids = {schema.find_field(name).field_id for name in IDENTITY} | (where.fields if where else set())
    columns = prune_columns(schema, ids, select_full_types=True)
    reader = BoundedScan(place.table.metadata, place.table.io, columns, mine(place))
    found: dict[tuple[int, int], Part] = {}
    for task in tasks:
        batches = batches_of(place.table, reader, task, whole=True)
        if where is not None:
            batches = (batch.filter(where.taken(batch)) for batch in batches)
        for part in _parts(batches, place.ledger):
            key = part.shard, part.hour
            found[key] = found[key].plus(part) if key in found else part
    return tuple(found[key] for key in sorted(found))


def cursors_of(place: Place, tasks: Iterable[FileScanTask], shard: int) -> _Longs:
    """The cursors of one shard that have rows in these files, each once."""
    found = [cursors for task in tasks for at, cursors, _ in _places(_batches(place, task)) if at == shard]
    return np.unique(np.concatenate([np.array([], dtype=np.int64), *found]))


def check_explained(place: Place, parts: Iterable[Part], *, adopted_too: bool) -> None:
    """Raises LedgerBroken for rows that neither the ledger nor, if those may go, adoption explains."""
    rows: dict[int, int] = defaultdict(int)
    outside: dict[int, int] = defaultdict(int)
    for part in parts:
        rows[part.shard] += part.rows - part.outside
        outside[part.shard] += part.outside
    for shard in sorted(rows):
        entry = place.ledger.shards.get(shard)
        adopted = place.state.adopted.of(place.origin.id, shard)[0]
        if rows[shard] > (entry.rows if entry else 0) or outside[shard] > adopted:
            raise LedgerBroken(
                f"shard {shard} has rows in {place.name} that its ledger does not explain; "
                "nothing was changed",
                cures=(calls.VERIFY,),
            )
        if outside[shard] and not adopted_too:
            raise ConfigError(
                f"{outside[shard]} rows of shard {shard} were adopted: no landing brought them and none "
                "could bring them again",
                cures=(Do("remove them with `table forget`"),),
            )


def without_adopted(adopted: Adopted, origin: str, parts: Iterable[Part]) -> Adopted:
    """The adopted rows that remain once the rows of `parts` that lie outside of the ledger have left."""
    shards = dict(adopted.shards)
    for part in parts:
        if part.outside:
            rows, total = shards[origin, part.shard]
            shards[origin, part.shard] = rows - part.outside, (total - part.outside_sum) % SUM_MODULUS
    return replace(adopted, shards={key: value for key, value in shards.items() if value[0]})


def hour_runs(hours: Iterable[int]) -> IntervalSet:
    """Hours as intervals."""
    return IntervalSet.of((hour, hour + 1) for hour in hours)


def _parts(batches: Iterable[pa.RecordBatch], ledger: Ledger) -> Iterator[Part]:
    for batch in batches:
        shards, cursors, indexes = (
            batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in IDENTITY[:3]
        )
        hours = receive_hours(batch)
        for shard, hour in np.unique(np.stack([shards, hours]), axis=1).T.tolist():
            here = (shards == shard) & (hours == hour)
            entry = ledger.shards.get(shard)
            yield _part(shard, hour, cursors[here], indexes[here], entry.landed if entry else IntervalSet())


def _micros(batch: pa.RecordBatch) -> _Longs:
    """The receive hours of rows, microseconds since 1970."""
    at = batch.column("__receive_hour__").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    micros: _Longs = at.to_numpy(zero_copy_only=False).astype(np.int64)
    return micros


def receive_hours(batch: pa.RecordBatch) -> _Longs:
    """The receive hours of rows, hours since 1970."""
    hours: _Longs = _micros(batch) // _HOUR_US
    return hours


def _part(shard: int, hour: int, cursors: _Longs, indexes: _Longs, landed: IntervalSet) -> Part:
    out = np.ones(len(cursors), dtype=bool)
    for begin, end in landed:
        out &= ~((cursors >= begin) & (cursors < end))
    return Part(
        shard=shard,
        hour=hour,
        rows=len(cursors),
        sum=identity_sum(shard, cursors, indexes) % SUM_MODULUS,
        first=int(cursors.min()),
        last=int(cursors.max()),
        outside=int(out.sum()),
        outside_sum=identity_sum(shard, cursors[out], indexes[out]) % SUM_MODULUS,
    )
