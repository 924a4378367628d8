"""Give a table a ledger that is true again, where its own cannot be had or does not explain the rows.

What is asked is the table itself: the identities of its rows, counted and summed for each logstore and
shard. A ledger that is still readable somewhere (under the tag, in an older landing of main) is kept
when the rows prove it: same rows, same identity sums. Where none is proven, a person says where each
shard starts from now on, and the rows that are there are *adopted*: counted, so that rows which nobody
brought are still seen, and never called landed.

Situations that end here: rows without a ledger, rows of unknown origin beside landed ones, a logstore
without its ledger (a deleted tag), a damaged ledger, history that was expired between main and the
newest landing, a logstore that was deleted and made again. A table that was provably rolled back is
the business of `rollback.py`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing import publish, settle
from pipelines.landing.ledger import ADOPT, Adopted, lowered
from pipelines.landing.logstore import Logstore
from pipelines.landing.start import check_origin, origin_text
from pipelines.landing.state import (
    TableState,
    adopted_of,
    ancestry,
    check_ancestry,
    facts,
    is_landing,
    ledgers_of,
    read_state,
    total_records,
)
from pipelines.landing.table import Lake
from sls_io.claim import Ledger, ShardLedger
from sls_io.client import Origin, SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.decode import identity_sum
from sls_io.errors import ConfigError, LedgerBroken
from sls_io.shard import Head
from sls_io.window import Cursor

At = int | Literal["begin", "latest", "rows"]
"""Where shards start: a time (unix seconds), the service's begin or end, or right after the last row."""

Key = tuple[str, int]
_IDENTITY = ("__origin__", "__shard__", "__cursor__", "__index__")


@dataclass(frozen=True)
class Tally:
    """Rows of one shard in the table: how many, their identity sum mod 2**64, the highest cursor."""

    rows: int = 0
    sum: int = 0
    last: int = -1

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        return Tally(self.rows + other.rows, (self.sum + other.sum) % 2**64, max(self.last, other.last))


@dataclass(frozen=True)
class ShardStart:
    """Where a shard would start, and the rows before that which would be adopted."""

    shard: int
    start: Cursor | None
    adopted: int


@dataclass(frozen=True)
class Adoption:
    """What `table adopt` found and would do.

    trouble   why landings are refused now
    kept      origin -> snapshot whose ledger the rows prove
    starts    the shards of this logstore whose ledger begins anew; empty when its ledger is kept
    others    rows of origins that the table does not know, adopted as a number
    unsettled other logstores whose ledger is not proven: they have to be adopted too
    asks      a start must be named before this can be done
    """

    table: str
    origin: str
    trouble: str
    kept: Mapping[str, int]
    starts: tuple[ShardStart, ...]
    others: int
    unsettled: tuple[str, ...]
    asks: bool


@dataclass(frozen=True)
class Planned:
    """An adoption with the exact table it was looked at; `change` is None while a start is asked for."""

    view: Adoption
    table: Table
    state: TableState
    change: settle.Change | None


def plan(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    *,
    at: At | None = None,
    cursors: Mapping[int, Cursor] | None = None,
) -> Planned:
    """Look at what adopting would do. Changes nothing.

    `cursors` names single shards' starts, `at` that of the others. Raises ConfigError when there is
    nothing to settle or a start would land rows again that are there, LedgerBroken when another verb
    is the cure.
    """
    name = logstore.table
    table = lake.load(name)
    head = table.current_snapshot() if table is not None else None
    if table is None or head is None:
        raise ConfigError(f"table {name} has no snapshots yet: the first run starts its ledger by itself")
    origin = client.origin()
    trouble = _trouble(table, origin, name)
    state = facts(table, damaged_too=True)
    told = {o for s in _candidates(table, state) for o in ledgers_of(s, damaged_too=True)}
    tallies, scanned = tally(table, {*state.origins, *told, origin.id})
    ledgers, sources, adopted = _proven(table, state, tallies)
    ledgers = lowered(ledgers, {o: ledger for o, ledger in state.ledgers.items() if o in ledgers})
    asks, starts = origin.id not in ledgers, dict[int, Cursor]()
    named = at is not None or bool(cursors)
    if named and not asks:
        raise ConfigError(f"the ledger of {origin.id} is proven by its rows and stays; leave the start out")
    if asks and named:
        starts = _starts(client, logstore, origin.id, tallies, at, cursors or {})
        ledgers[origin.id] = Ledger(origin.id, {s: ShardLedger(start=c) for s, c in starts.items()})
    if asks:
        adopted |= {k: (t.rows, t.sum) for k, t in tallies.items() if k[0] == origin.id}
    # Rows that row-level deletes hide still count in the table's total.
    hidden = max(0, (total_records(head) or 0) - scanned)
    others = scanned - sum(t.rows for t in tallies.values()) + hidden
    view = Adoption(
        table=name,
        origin=origin.id,
        trouble=trouble,
        kept=sources,
        starts=_shard_starts(origin.id, starts, tallies) if asks else (),
        others=others,
        unsettled=tuple(sorted(set(state.origins) - set(ledgers) - {origin.id})),
        asks=asks and not named,
    )
    change = settle.Change(
        head,
        ledgers,
        Adopted(adopted, others),
        "adopt",
        publish.Origin(origin.id, origin_text(origin)),
        forgotten=state.forgotten,
    )
    return Planned(view, table, state, None if view.asks else change)


def execute(lake: Lake, planned: Planned, *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Commit a planned adoption; the new snapshot. Raises ConfigError while a start is missing, else
    what `settle.commit` does."""
    if planned.change is None:
        raise ConfigError(
            f"nothing proves what of {planned.view.origin} is in {planned.view.table}: say where its shards "
            "start with --at rows, begin, latest or an hour"
        )
    now_ms = int(clock.now() * 1000)
    return settle.commit(lake, planned.table, planned.state, planned.change, now_ms=now_ms)


def tally(table: Table, origins: set[str]) -> tuple[dict[Key, Tally], int]:
    """Rows of these origins by (origin, shard), and how many rows the table has in all.

    Raises ConfigError for a table without identity columns, LedgerBroken when a file is gone.
    """
    name = ".".join(table.name())
    if not set(_IDENTITY) <= set(table.schema().column_names):
        raise ConfigError(
            f"table {name} lacks columns of sls-lake ({', '.join(_IDENTITY)}); land in a table of its own"
        )
    found: dict[Key, Tally] = defaultdict(Tally)
    scanned = 0
    try:
        for batch in table.scan(selected_fields=_IDENTITY).to_arrow_batch_reader():
            scanned += batch.num_rows
            for key, part in _counted(batch, origins):
                found[key] = found[key].plus(part)
    except FileNotFoundError as error:
        file = str(getattr(error, "filename", "") or error).rsplit("/", 1)[-1].strip("'\"")
        raise LedgerBroken(
            f"a data file that table {name} lists is gone ({file}), so its rows cannot be counted",
            verb="restore the file, or sls-lake table rollback to a landing before it",
        ) from error
    return dict(found), scanned


def proves(ledger: Ledger, adopted: Adopted, tallies: Mapping[Key, Tally]) -> bool:
    """Whether the table holds of this origin exactly the rows that the ledger and what was adopted
    before say: as many, with the same identity sum, in every shard. Pure."""
    mine = {shard for origin, shard in {*tallies, *adopted.shards} if origin == ledger.origin}
    for shard in {*ledger.shards, *mine}:
        entry = ledger.shards.get(shard) or ShardLedger(Cursor(0))
        rows, total = adopted.of(ledger.origin, shard)
        there = tallies.get((ledger.origin, shard), Tally())
        if (there.rows, there.sum) != (entry.rows + rows, (entry.sum + total) % 2**64):
            return False
    return True


def _counted(batch: pa.RecordBatch, origins: set[str]) -> Iterator[tuple[Key, Tally]]:
    names = batch.column("__origin__").dictionary_encode()
    codes = names.indices.to_numpy(zero_copy_only=False)
    for code, origin in enumerate(names.dictionary.to_pylist()):
        if origin not in origins:
            continue
        mine = batch.filter(pa.array(codes == code))
        shards, cursors, indexes = (
            mine.column(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in _IDENTITY[1:]
        )
        for shard in np.unique(shards).tolist():
            at = shards == shard
            total = identity_sum(shard, cursors[at], indexes[at])
            yield (origin, shard), Tally(int(at.sum()), total % 2**64, int(cursors[at].max()))


def _trouble(table: Table, origin: Origin, name: str) -> str:
    """Why landings are refused. Raises when they are not, or when another verb settles it."""
    try:
        check_origin(read_state(table), origin, name)
    except LedgerBroken as error:
        if error.verb != ADOPT:
            raise
        if facts(table, damaged_too=True).tagged is not None:
            _check_not_rolled_back(table)
        return str(error).partition(". To settle it")[0]
    raise ConfigError(f"the ledger of table {name} explains its rows: there is nothing to settle")


def _check_not_rolled_back(table: Table) -> None:
    try:
        check_ancestry(table)
    except LedgerBroken as error:
        if error.verb != ADOPT:
            raise


def _candidates(table: Table, state: TableState) -> Iterator[Snapshot]:
    """Snapshots whose ledger may be true, the likeliest first."""
    tagged = table.snapshot_by_id(state.tagged) if state.tagged is not None else None
    if tagged is not None:
        yield tagged
    yield from (s for s in ancestry(table) if is_landing(s) and s != tagged)


def _proven(
    table: Table, state: TableState, tallies: Mapping[Key, Tally]
) -> tuple[dict[str, Ledger], dict[str, int], dict[Key, tuple[int, int]]]:
    """Per origin the newest ledger that the rows prove, its snapshot, and what it had adopted."""
    ledgers: dict[str, Ledger] = {}
    sources: dict[str, int] = {}
    adopted: dict[Key, tuple[int, int]] = {}
    for snapshot in _candidates(table, state):
        before = adopted_of(snapshot, damaged_too=True)
        for origin, ledger in ledgers_of(snapshot, damaged_too=True).items():
            if origin not in ledgers and proves(ledger, before, tallies):
                ledgers[origin], sources[origin] = ledger, snapshot.snapshot_id
                adopted |= {k: v for k, v in before.shards.items() if k[0] == origin}
    return ledgers, sources, adopted


def _starts(
    client: SlsClient,
    logstore: Logstore,
    origin: str,
    tallies: Mapping[Key, Tally],
    at: At | None,
    cursors: Mapping[int, Cursor],
) -> dict[int, Cursor]:
    listed = {s.id: s for s in client.shards()}
    unknown = sorted(set(cursors) - set(listed))
    if unknown:
        raise ConfigError(f"the service lists no shard {unknown[0]}; `sls-lake describe` shows those it has")
    unnamed = sorted(set(listed) - set(cursors))
    if at is None and unnamed:
        raise ConfigError(f"say where shard {unnamed[0]} starts, too: add --at for the shards not named")
    starts: dict[int, Cursor] = {}
    for shard, entry in sorted(listed.items()):
        head, there = client.head(entry), tallies.get((origin, shard), Tally())
        start = cursors[shard] if shard in cursors else _start(client, logstore, head, there, at)
        if start > head.end:
            raise ConfigError(f"shard {shard} ends at {head.end}: it cannot start at {start}, after that")
        if there.rows and start <= there.last:
            raise ConfigError(
                f"shard {shard} has {there.rows} rows in {logstore.table}, up to cursor {there.last}: "
                f"starting at {start} would land rows again; use --at rows, or a cursor after them"
            )
        starts[shard] = start
    return starts


def _start(client: SlsClient, logstore: Logstore, head: Head, there: Tally, at: At | None) -> Cursor:
    shard = head.shard.id
    if at == "rows" and there.rows:
        if there.last < head.begin:
            # Retention has passed the last row: starting right behind it makes the rest a named gap.
            return Cursor(there.last + 1)
        return client.pull(shard, Cursor(there.last), groups_max=1).next
    if at == "latest":
        return head.end
    floor = client.cursor_at(shard, logstore.start_s)
    return max(floor, client.cursor_at(shard, at) if isinstance(at, int) else head.begin)


def _shard_starts(
    origin: str, starts: Mapping[int, Cursor], tallies: Mapping[Key, Tally]
) -> tuple[ShardStart, ...]:
    there = {shard: t.rows for (name, shard), t in tallies.items() if name == origin}
    return tuple(ShardStart(s, starts.get(s), there.get(s, 0)) for s in sorted({*starts, *there}))
