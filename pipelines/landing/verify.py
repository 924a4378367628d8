"""Proves a table: the ledger against itself, against the rows, and against the service.

Four questions, each answered for every shard:
- is the ledger free of holes from its start, apart from named gaps and withdrawn intervals;
- do the rows in the table add up to the ledger's rows and identity sums;
- is every row there once, and inside an interval that the ledger calls landed;
- how far is the frontier from the service's end.
Only the identity columns are read. The answer names what is wrong and where, never a row's content.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from pipelines.landing.logstore import Logstore
from pipelines.landing.start import check_origin
from pipelines.landing.state import read_state, reconcile
from pipelines.landing.table import Lake
from sls_io.claim import Ledger, ShardLedger
from sls_io.client import SlsClient
from sls_io.decode import identity_sum
from sls_io.errors import LedgerBroken, ShardGone
from sls_io.planning import CURSOR_UNKNOWN
from sls_io.window import Cursor

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
    keys: list[_Longs] = field(default_factory=list)
    rows: int = 0
    sum: int = 0


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
    tallies: dict[int, _Tally] = {}
    try:
        tallies = _tally(table, origin.id)
    except FileNotFoundError as error:
        name = str(getattr(error, "filename", "") or error).rsplit("/", 1)[-1].strip("'\"")
        problems.append(f"a data file that the table lists is gone: {name}")
    ends = _ends(client)
    shards = tuple(_prove(s, ledger, tallies.get(s), ends) for s in sorted({*ledger.shards, *tallies}))
    return Proof(logstore.table, origin.id, shards, tuple(problems))


def _tally(table: Table, origin: str) -> dict[int, _Tally]:
    """Rows, identity sum and identities of each shard, from the table's files."""
    columns = ("__shard__", "__cursor__", "__index__")
    scan = table.scan(row_filter=EqualTo(term="__origin__", value=origin), selected_fields=columns)
    tallies: dict[int, _Tally] = {}
    for shards, cursors, indexes in _identities(scan.to_arrow_batch_reader()):
        for shard in np.unique(shards).tolist():
            mine = shards == shard
            tally = tallies.setdefault(shard, _Tally())
            tally.rows += int(mine.sum())
            tally.sum = (tally.sum + identity_sum(shard, cursors[mine], indexes[mine])) % 2**64
            tally.keys.append(np.stack([cursors[mine], indexes[mine]]))
    return tallies


def _identities(reader: pa.RecordBatchReader) -> Iterator[tuple[_Longs, _Longs, _Longs]]:
    for batch in reader:
        shards, cursors, indexes = (
            batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64)
            for name in ("__shard__", "__cursor__", "__index__")
        )
        yield shards, cursors, indexes


def _ends(client: SlsClient) -> dict[int, Cursor]:
    ends: dict[int, Cursor] = {}
    for shard in client.shards():
        try:
            ends[shard.id] = client.head(shard).end
        except ShardGone:
            continue
    return ends


def _prove(shard: int, ledger: Ledger, tally: _Tally | None, ends: dict[int, Cursor]) -> ShardProof:
    entry = ledger.shards.get(shard)
    rows = tally.rows if tally else 0
    if entry is None:
        problem = f"{rows} rows of a shard that the ledger does not know"
        return ShardProof(shard, 0, rows, Cursor(0), None, False, problems=(problem,))
    problems = [*_sums(entry, tally), *_once(entry, tally)]
    notes = [f"landed ahead of the frontier: [{b}, {e})" for b, e in entry.landed if b > entry.frontier]
    end = ends.get(shard)
    if end is not None and entry.frontier > end and not entry.closed:
        problems.append(
            f"the ledger reached {entry.frontier}, the service ends at {end}: not the same logstore"
        )
    notes += [f"hole before [{b}, {e})" for b, e in entry.landed if b > entry.frontier]
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
    )


def _sums(entry: ShardLedger, tally: _Tally | None) -> list[str]:
    rows, total = (tally.rows, tally.sum) if tally else (0, 0)
    if rows != entry.rows:
        return [f"the table holds {rows} rows, the ledger {entry.rows}"]
    if total != entry.sum:
        return ["the identities of the rows do not add up to the ledger's sum"]
    return []


def _once(entry: ShardLedger, tally: _Tally | None) -> list[str]:
    if tally is None:
        return []
    keys = np.concatenate(tally.keys, axis=1)
    order = np.lexsort((keys[1], keys[0]))
    cursors, indexes = keys[0][order], keys[1][order]
    problems = []
    doubled = int(((cursors[1:] == cursors[:-1]) & (indexes[1:] == indexes[:-1])).sum())
    if doubled:
        problems.append(f"{doubled} rows are there more than once")
    inside = np.zeros(len(cursors), dtype=bool)
    for begin, end in entry.landed:
        inside |= (cursors >= begin) & (cursors < end)
    outside = int((~inside).sum())
    if outside:
        problems.append(f"{outside} rows lie outside of what the ledger calls landed")
    return problems
