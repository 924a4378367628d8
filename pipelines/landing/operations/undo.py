"""Take whole receive hours back: their files leave, their intervals count as withdrawn. One commit.

The frontiers stay where they are, so no live run lands the hours again; a backfill that names them does, and
so does `replace.py`, in one commit. Only hours that every frontier has passed are taken back: nobody could
say what is missing of an hour that is still being landed.

What is withdrawn of a shard is all that has landed of the hours: between the service's own edges as far as
retention still has them, and in any case from the first cursor of their rows to the last. That includes rows
that should be there and are not: `replace.py` brings them back.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask

from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.operation import Planned
from pipelines.landing.contents import slices
from pipelines.landing.contents.cells import Cell, Cells, totals
from pipelines.landing.contents.sameness import check_same
from pipelines.landing.contents.slices import Slice
from pipelines.landing.hours import hours_text
from pipelines.landing.ledger.fence import withdrawn
from pipelines.landing.ledger.place import Place, Trust, look
from pipelines.landing.ledger.reading import spans
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import calls
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.cures import Cure
from sls_io.values.errors import ConfigError, LedgerBroken, ShardGone, printable
from sls_io.values.window import HOUR_S, IntervalSet
from sls_io.wire.client import SlsClient


@dataclass(frozen=True)
class Undo(Effect):
    """What `table undo` would do. `hours` are receive hours (since 1970) with their rows.

    others   column that the logstore does not declare -> its values in these rows; where the rows are pulled
             again, it is null
    cannot_come_again   what retention has taken of them already, a sentence a shard
    """

    WHAT = "{table}: the rows of these hours leave"
    QUIET = frozenset({"cannot_come_again"})

    table: str
    origin: str
    hours: Mapping[int, int]
    rows: int
    files: int
    file_bytes: int
    shards: tuple[slices.ShardWithdrawn, ...]
    others: Mapping[str, int]
    cannot_come_again: tuple[str, ...] = ()

    def said(self) -> Iterable[Note]:
        for name, values in sorted(self.others.items()):
            yield Note(
                f"{values:,} values of column {printable(name)} leave: the logstore does not declare it, so "
                "it is null in rows that are pulled again",
                "warn",
            )
        for text in self.cannot_come_again:
            yield Note(text, "loss")

    def then(self) -> Iterable[Cure]:
        does = "lands these hours again"
        if self.cannot_come_again:
            does = (
                "lands again what retention still has; the rest comes back only by a rollback, while its "
                "files are there"
            )
        return [calls.of_hours(calls.BACKFILL, span, does) for span in spans(self.hours)]


@dataclass(frozen=True)
class PlannedUndo(Planned[Undo]):
    """What else `replace.py` goes by: the logstore's ledger afterwards, and by shard what leaves."""

    place: Place
    commit: authored.Change
    ledger: Ledger = field(kw_only=True)
    taken: Mapping[int, IntervalSet] = field(kw_only=True)


def plan_undo(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    hours: range,
    *,
    operation: Operation = Operation.UNDO,
    counted: bool = True,
) -> PlannedUndo:
    """Look at what taking these receive hours back would do. Changes nothing.

    `counted`: the rows that are there must be as many as the ledger says, and all can be read.

    Raises ConfigError when there is nothing to take back, a frontier has not passed all of the hours,
    or rows of them were removed by decision; LedgerBroken when the table cannot be trusted, RowsElsewhere
    when rows of the hours lie in others.
    """
    place = look(lake, logstore, client, trust=Trust.WHOLE if counted else Trust.SOUND)
    slices.check_passed(place, client, hours.stop)
    slices.check_not_forgotten(place, hours)
    files = check_same(place, [place.origin.id]) if counted else {}
    tasks = slices.whole_files(place, hours)
    if counted:
        leaving = slices.slice_of(place, tasks, counted=files)
    else:
        leaving = _readable(client, place, tasks, hours)
    slices.check_explained(place, leaving, adopted_too=False)
    taken = _taken(client, place.ledger, leaving.cells, hours)
    if not tasks and (counted or not taken):
        raise ConfigError(f"{place.name} has no rows of these hours: there is nothing to take back")
    slices.check_nowhere_else(place, taken, hours)
    changed, there = {}, totals(leaving.cells)
    for shard, intervals in taken.items():
        rows, total = there.get((place.origin.id, shard), (0, 0))
        changed[shard] = withdrawn(place.ledger.shards[shard], intervals, rows=rows, total=total)
    ledger = place.ledger.with_shards(changed)
    state = place.state
    return PlannedUndo(
        view=_view(place, ledger, leaving, tasks, sorted(taken), _others(place, logstore, tasks)),
        place=place,
        ledger=ledger,
        taken=taken,
        commit=authored.Change(
            content=place.head,
            ledgers={**state.ledgers, ledger.origin: ledger},
            adopted=state.adopted,
            deed=Deed(operation, hours_text(hours)),
            forgotten=state.forgotten,
            dropped=frozenset(task.file.file_path for task in tasks),
        ),
    )


def _readable(client: SlsClient, place: Place, tasks: Iterable[FileScanTask], hours: range) -> Slice:
    """What those files hold that can be read. Raises LedgerBroken for one that cannot, unless all that
    may have been in it can be pulled again."""
    found = Slice()
    for task in tasks:
        try:
            found = found.plus(slices.slice_of(place, [task]))
        except LedgerBroken:
            if not all(
                kept_whole(client, entry, shard, hours) for shard, entry in place.ledger.shards.items()
            ):
                raise
    return found


def kept_whole(client: SlsClient, entry: ShardLedger, shard: int, hours: range) -> bool:
    """Whether the service certainly has all that landed of the hours: nothing that did lies right before
    the first cursor it still has, or that one is of an earlier hour."""
    try:
        begin = int(client.cursor_at(shard, "begin"))
        first = int(client.cursor_at(shard, hours.start * HOUR_S))
    except ShardGone:
        return False
    return begin < first or not entry.landed.overlaps(begin - 1, begin)


def _taken(client: SlsClient, ledger: Ledger, cells: Cells, hours: range) -> dict[int, IntervalSet]:
    """What is landed of the hours, per shard that has something."""
    rows = defaultdict[tuple[int, int], list[Cell]](list)
    for cell in cells:
        rows[cell.shard, cell.hour].append(cell)
    found = {}
    for shard, entry in ledger.shards.items():
        of_hours = (those for (of, _), those in rows.items() if of == shard)
        extents = [(min(c.first for c in those), max(c.last for c in those) + 1) for those in of_hours]
        among = IntervalSet.of([*extents, *_edges(client, shard, hours)])
        found[shard] = entry.landed.minus(entry.landed.minus(among))
    return {shard: intervals for shard, intervals in found.items() if intervals}


def _edges(client: SlsClient, shard: int, hours: range) -> list[tuple[int, int]]:
    """The hours' cursors as the service has them; nothing once retention took all of them."""
    try:
        begin, end = (int(client.cursor_at(shard, at * HOUR_S)) for at in (hours.start, hours.stop))
    except ShardGone:
        return []
    return [(begin, end)] if begin < end else []


def _view(
    place: Place,
    ledger: Ledger,
    leaving: Slice,
    tasks: list[FileScanTask],
    shards: list[int],
    others: Mapping[str, int],
) -> Undo:
    hours, before = Counter[int](), place.ledger
    for cell in leaving.cells:
        hours[cell.hour] += cell.rows
    return Undo(
        table=place.name,
        origin=ledger.origin,
        hours=dict(sorted(hours.items())),
        rows=leaving.rows,
        files=len(tasks),
        file_bytes=sum(task.file.file_size_in_bytes for task in tasks),
        shards=slices.withdrawn_of(
            before, ledger, {s: before.shards[s].rows - ledger.shards[s].rows for s in shards}
        ),
        others=others,
    )


def _others(place: Place, logstore: Logstore, tasks: Iterable[FileScanTask]) -> dict[str, int]:
    """Values in columns that the logstore does not declare, as the files' statistics count them. Of a column
    with others inside these are counted, since files tell nothing of itself: those of the fullest."""
    schema, found = place.table.schema(), Counter[str]()
    others = Contract.from_columns(logstore.columns).others(schema)
    inside = {name: frozenset(Schema(schema.find_field(name)).field_ids) for name in others}
    for task in tasks:
        values, nulls = task.file.value_counts or {}, task.file.null_value_counts or {}
        for name, numbers in inside.items():
            found[name] += max(values.get(number, 0) - nulls.get(number, 0) for number in numbers)
    return {name: count for name, count in found.items() if count > 0}
