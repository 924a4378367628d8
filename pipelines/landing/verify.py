"""Proves a table: the ledger against itself, against the rows, and against the service.

Four questions, each answered for every shard:
- is the ledger free of holes from its start, apart from named gaps and withdrawn intervals;
- do the rows in the table add up to the ledger's rows and identity sums;
- is every row there once, and inside an interval that the ledger calls landed;
- how far is the frontier from the service's end.
Only the identity columns are read. The answer names what is wrong and where, never a row's content.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contract import hour_place
from pipelines.landing.ledger import Gone
from pipelines.landing.logstore import Logstore
from pipelines.landing.report import hours_text
from pipelines.landing.start import check_origin
from pipelines.landing.state import read_state, reconcile
from pipelines.landing.table import Lake
from sls_io.claim import Ledger, ShardLedger
from sls_io.client import SlsClient
from sls_io.decode import identity_sum
from sls_io.errors import LedgerBroken, ShardGone, SlsError
from sls_io.planning import CURSOR_UNKNOWN
from sls_io.window import HOUR_S, Cursor

_Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ShardProof:
    """One shard: what the ledger says, what the table holds, and what is wrong with it."""

    shard: int
    rows_ledger: int
    rows_table: int
    frontier: Cursor
    end: Cursor | None
    closed: bool
    gaps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rows_adopted: int = 0
    withdrawn: tuple[str, ...] = ()
    rows_forgotten: int = 0


@dataclass(frozen=True)
class Proof:
    """The verdict over one logstore in one table. `ok` means: every landed log is there once."""

    table: str
    origin: str
    shards: tuple[ShardProof, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong anywhere."""
        return not self.problems and not any(s.problems for s in self.shards)

    @property
    def rows(self) -> int:
        """Rows of this origin in the table."""
        return sum(s.rows_table for s in self.shards)


@dataclass
class _Tally:
    """What the table's files hold of one shard; the counts are of rows."""

    rows: int = 0
    sum: int = 0
    doubled: int = 0
    outside: int = 0


def verify(logstore: Logstore, lake: Lake, client: SlsClient) -> Proof:
    """Prove the logstore's part of its table. Raises only when there is nothing to prove yet or
    the service or catalog cannot be reached; everything else is a problem in the `Proof`."""
    origin = client.origin()
    table = lake.load(logstore.table)
    if table is None:
        return Proof(logstore.table, origin.id, problems=("there is no table yet: nothing has landed",))
    try:
        state = read_state(table)
        check_origin(state, origin, logstore.table)
    except LedgerBroken as error:
        return Proof(logstore.table, origin.id, problems=(str(error),))
    problems = reconcile(table)
    ledger = state.ledger(origin.id)
    if not ledger.started:
        problems.append("the ledger is empty: nothing has landed")
    tallies, gone = _tally(table, origin.id, ledger)
    problems += [text for text in gone if text not in problems]
    ends = _ends(client)
    adopted = {s: v for (name, s), v in state.adopted.shards.items() if name == origin.id}
    decided = {
        shard: _Decided(
            adopted.get(shard, (0, 0)),
            state.forgotten.of(origin.id, shard),
            _withdrawn(client, shard, ledger) if shard in ends else {},
        )
        for shard in {*ledger.shards, *tallies, *adopted}
    }
    shards = tuple(_prove(s, ledger, tallies.get(s), ends, decided[s]) for s in sorted(decided))
    return Proof(logstore.table, origin.id, shards, tuple(problems))


def _tally(table: Table, origin: str, ledger: Ledger) -> tuple[dict[int, _Tally], list[str]]:
    """Each shard's tally over all files, and the files that are gone.

    An hour at a time: a row's receive hour follows from its cursor, so twins are in one hour, and
    memory is the identities of the largest hour, 16 bytes a row.
    """
    columns = ("__shard__", "__cursor__", "__index__")
    mine = EqualTo(term="__origin__", value=origin)
    scan = table.scan(row_filter=mine, selected_fields=columns)
    reader = ArrowScan(table.metadata, table.io, scan.projection(), mine)
    tallies: dict[int, _Tally] = defaultdict(_Tally)
    gone: list[str] = []
    for tasks in _by_hour(table, scan.plan_files()):
        keys: dict[int, list[_Longs]] = defaultdict(list)
        for task in tasks:
            try:
                for shards, cursors, indexes in _identities(reader.to_record_batches([task])):
                    for shard in np.unique(shards).tolist():
                        at = shards == shard
                        keys[shard].append(np.stack([cursors[at], indexes[at]]))
            except FileNotFoundError:
                gone.append(f"file is gone: {task.file.file_path.rsplit('/', 1)[-1]}")
        for shard, parts in keys.items():
            _count(tallies[shard], shard, np.concatenate(parts, axis=1), ledger.shards.get(shard))
    return dict(tallies), gone


def _by_hour(table: Table, tasks: Iterable[FileScanTask]) -> Iterable[list[FileScanTask]]:
    """The files of each receive hour; all files together when a partition spec has no hour."""
    hours: dict[int | None, list[FileScanTask]] = defaultdict(list)
    places = {number: hour_place(spec, table.schema()) for number, spec in table.specs().items()}
    for task in tasks:
        place = places[task.file.spec_id]
        hours[None if place is None else task.file.partition[place]].append(task)
    return [[task for each in hours.values() for task in each]] if None in hours else hours.values()


def _identities(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[_Longs, _Longs, _Longs]]:
    for batch in batches:
        shards, cursors, indexes = (
            batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64)
            for name in ("__shard__", "__cursor__", "__index__")
        )
        yield shards, cursors, indexes


def _count(tally: _Tally, shard: int, keys: _Longs, entry: ShardLedger | None) -> None:
    order = np.lexsort((keys[1], keys[0]))
    cursors, indexes = keys[0][order], keys[1][order]
    tally.rows += len(cursors)
    tally.sum = (tally.sum + identity_sum(shard, cursors, indexes)) % 2**64
    tally.doubled += int(((cursors[1:] == cursors[:-1]) & (indexes[1:] == indexes[:-1])).sum())
    inside = np.zeros(len(cursors), dtype=bool)
    for begin, end in entry.landed if entry else ():
        inside |= (cursors >= begin) & (cursors < end)
    tally.outside += int((~inside).sum())


def _ends(client: SlsClient) -> dict[int, Cursor]:
    ends: dict[int, Cursor] = {}
    for shard in client.shards():
        try:
            ends[shard.id] = client.head(shard).end
        except ShardGone:
            continue
    return ends


@dataclass(frozen=True)
class _Decided:
    """What people decided about a shard: rows adopted, rows forgotten, hours withdrawn."""

    adopted: tuple[int, int]
    forgotten: Gone
    hours: Mapping[tuple[int, int], str]


def _withdrawn(client: SlsClient, shard: int, ledger: Ledger) -> dict[tuple[int, int], str]:
    """The receive hours of each withdrawn interval, as far as the service still knows them."""
    entry = ledger.shards.get(shard)
    found: dict[tuple[int, int], str] = {}
    for begin, end in entry.withdrawn if entry else ():
        try:
            first = last = client.cursor_time_s(shard, Cursor(begin)) // HOUR_S
            while (edge := client.cursor_at(shard, (last + 1) * HOUR_S)) < end:
                last = client.cursor_time_s(shard, edge) // HOUR_S
            found[begin, end] = hours_text(range(first, last + 1))
        except SlsError:
            continue
    return found


def _prove(
    shard: int,
    ledger: Ledger,
    tally: _Tally | None,
    ends: dict[int, Cursor],
    decided: _Decided,
) -> ShardProof:
    entry = ledger.shards.get(shard)
    rows = tally.rows if tally else 0
    adopted, gone = decided.adopted, decided.forgotten
    before = adopted[0]
    notes = [f"{before} rows were adopted: there before the ledger begins, by a decision"] if before else []
    if gone.rows:
        hours = ", ".join(hours_text(range(b, e)) for b, e in gone.hours)
        notes.append(f"{gone.rows} rows of {hours} were removed by decision")
    if entry is None:
        problems = [f"{rows} rows of a shard that the ledger does not know"]
        if before:
            problems = _sums(ShardLedger(Cursor(0)), tally, adopted)
        return ShardProof(shard, 0, rows, Cursor(0), None, False, (), tuple(problems), tuple(notes), before)
    problems = [*_sums(entry, tally, adopted), *_once(tally, before)]
    notes += [f"landed ahead of the frontier: [{b}, {e})" for b, e in entry.landed if b > entry.frontier]
    end = ends.get(shard)
    if end is not None and entry.frontier > end and not entry.closed:
        problems.append(
            f"the ledger reached {entry.frontier}, the service ends at {end}: not the same logstore"
        )
    return ShardProof(
        shard=shard,
        rows_ledger=entry.rows,
        rows_table=rows,
        frontier=entry.frontier,
        end=end,
        closed=entry.closed,
        gaps=tuple(f"[{g.begin}, {'?' if g.end == CURSOR_UNKNOWN else g.end}) {g.cause}" for g in entry.gaps),
        problems=tuple(problems),
        notes=tuple(notes),
        rows_adopted=before,
        withdrawn=tuple(
            f"[{b}, {e}) of {decided.hours.get((b, e), 'an hour the service no longer has')}"
            for b, e in entry.withdrawn
        ),
        rows_forgotten=gone.rows,
    )


def _sums(entry: ShardLedger, tally: _Tally | None, adopted: tuple[int, int]) -> list[str]:
    """Rows and identities that the ledger and what was adopted do not explain."""
    rows, total = (tally.rows, tally.sum) if tally else (0, 0)
    if rows != entry.rows + adopted[0]:
        beside = f" and {adopted[0]} adopted" if adopted[0] else ""
        return [f"the table holds {rows} rows, the ledger {entry.rows}{beside}"]
    if total != (entry.sum + adopted[1]) % 2**64:
        return ["the identities of the rows do not add up to the ledger's sum"]
    return []


def _once(tally: _Tally | None, adopted: int) -> list[str]:
    problems = []
    if tally and tally.doubled:
        problems.append(f"{tally.doubled} rows are there more than once")
    if tally and tally.outside > adopted:
        problems.append(f"{tally.outside - adopted} rows lie outside of what the ledger calls landed")
    return problems
