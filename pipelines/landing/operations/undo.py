"""Take whole receive hours back: their files leave, their intervals count as withdrawn. One commit.

The frontiers stay where they are, so no live run lands the hours again; a backfill that names them does, and
so does `replace.py`, in one commit. Only hours that every frontier has passed are taken back: nobody could
say what is missing of an hour that is still being landed.

What is withdrawn of a shard is all that has landed of the hours: between the service's own edges as far as
retention still has them, and in any case from the first cursor of their rows to the last. That includes rows
that should be there and are not: `replace.py` brings them back.

Worked example: hour 08 of shard 0 lies between the service's edges 200 and 300, and its rows at 205 to 290.
Withdrawn is [200, 300). With retention at 260 the edge of 08:00 would read 260, so the rows speak, too:
[205, 300). With the shard gone they alone do: [205, 291). What is left of [200, 300) stays landed: no row was
there, and no backfill has anything to bring.

Why whole hours and not windows: files of an hour are compacted together, and then no file is of one window.
An hour is an Iceberg partition, so its files leave as they are and no row is written anew.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask

from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Planned
from pipelines.landing.contents import slices
from pipelines.landing.contents.cells import Cell, totals
from pipelines.landing.contents.holdings import Asking, Holdings, Listed
from pipelines.landing.contents.sameness import check_same
from pipelines.landing.contents.slices import Slice
from pipelines.landing.hours import hours_text, spans
from pipelines.landing.ledger.fence import withdrawn
from pipelines.landing.ledger.place import Place, look
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import Ledger
from sls_io.values.cures import Cure
from sls_io.values.errors import ConfigError, printable
from sls_io.values.window import IntervalSet
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
        return [commands.of_hours(commands.BACKFILL, span, does) for span in spans(self.hours)]


@dataclass(frozen=True)
class PlannedUndo(Planned[Undo]):
    """What else `replace.py` goes by: the logstore's ledger afterwards, and by shard what leaves."""

    place: Place
    commit: authored.Change
    ledger: Ledger = field(kw_only=True)
    taken: Mapping[int, IntervalSet] = field(kw_only=True)


@dataclass(frozen=True)
class Leaving:
    """What leaves with receive hours: files, their rows, and by shard all that has landed of the hours."""

    files: tuple[Listed, ...]
    rows: Slice
    taken: Mapping[int, IntervalSet]


def plan_undo(lake: Lake, logstore: Logstore, client: SlsClient, hours: range) -> PlannedUndo:
    """Look at what taking these receive hours back would do. Changes nothing.

    Raises ConfigError when there is nothing to take back, a frontier has not passed all of the hours,
    or rows of them were removed by decision; LedgerBroken when the table cannot be trusted, its rows are not
    those of the ledger, or a file cannot be read; RowsElsewhere when rows of the hours lie in others.

    The rows of the whole logstore are proven first (`check_same`), and not only those of the hours: where one
    is missing somewhere, and a strange one lies in the hour, their numbers would make up for one another. The
    plan has no `again`: an hour that changed meanwhile is another hour than the one that was shown.
    """
    place = look(lake, logstore, client)
    asking = Asking(place, client)
    asking.decide(lambda held: check_open(held, hours))
    asking.know(check_same(place, [place.origin.id]))
    left = asking.decide(lambda held: leaving(held, hours))
    return undone(place, logstore, asking, hours, left, Operation.UNDO)


def check_open(held: Holdings, hours: range) -> None:
    """Raises ConfigError unless all frontiers have passed the hours and no rows of them were removed."""
    slices.check_passed(held, hours.stop)
    slices.check_not_forgotten(held, hours)


def leaving(
    held: Holdings, hours: range, *, holed: bool = False, only: Mapping[int, IntervalSet] | None = None
) -> Leaving:
    """What leaves with these receive hours, whether all frontiers have passed them or not.

    `holed`: rows may be missing, and files be unreadable of which the service certainly has all rows. `only`:
    what was looked at before, so what landed since stays. Raises as `plan_undo` does, and LandingConflict
    where the two are in one file.
    """
    slices.check_not_forgotten(held, hours)
    files = slices.whole_files(held, hours)
    there, lost = held.known(files)
    taken = _taken(held, (cell for cells in there.values() for cell in cells), hours)
    if only is not None:
        files, taken = _as_looked_at(held, files, taken, only)
        there, lost = held.known(files)
    # The files of an undo leave for good, so each must be read: which rows leave with an unreadable one
    # nobody knows. A replace brings the hours again in the same commit, so there the service stands in for
    # the file.
    if lost and not (holed and kept_whole(held, hours)):
        raise lost[0]
    rows = slices.sorted_by(held.ledger, (cell for cells in there.values() for cell in cells))
    slices.check_explained(held, rows, adopted_too=False)
    if not files and not (holed and taken):
        raise ConfigError(f"{held.name} has no rows of these hours: there is nothing to take back")
    slices.check_nowhere_else(held, taken, hours)
    return Leaving(files, rows, taken)


def undone(
    place: Place, logstore: Logstore, asking: Asking, hours: range, left: Leaving, operation: Operation
) -> PlannedUndo:
    """The plan: what leaves, and the ledger lowered by that."""
    changed, there, tasks = {}, totals(left.rows.cells), asking.of(left.files)
    for shard, intervals in left.taken.items():
        rows, total = there.get((place.origin.id, shard), (0, 0))
        changed[shard] = withdrawn(place.ledger.shards[shard], intervals, rows=rows, total=total)
    ledger = place.ledger.with_shards(changed)
    state = place.state
    return PlannedUndo(
        view=_view(place, ledger, left.rows, tasks, sorted(left.taken), _others(place, logstore, tasks)),
        place=place,
        ledger=ledger,
        taken=left.taken,
        commit=authored.Change(
            content=place.head,
            ledgers={**state.ledgers, ledger.origin: ledger},
            adopted=state.adopted,
            deed=Deed(operation, hours_text(hours)),
            forgotten=state.forgotten.without_barred(ledger.origin, hours, left.taken),
            dropped=frozenset(task.file.file_path for task in tasks),
        ),
    )


def kept_whole(held: Holdings, hours: range) -> bool:
    """Whether the service certainly has all that landed of the hours: of each shard nothing that did lies
    right before the first cursor it still has, or that one is of an earlier hour.

    Equal cursors are the doubtful case. GetCursor for a time before the oldest log answers with the begin
    cursor, so `begin >= first` may mean that retention ends exactly at the hour, or that it has taken a part.
    Worked example: hour 08 begins at 200. The service begins at 0: whole. It answers 260 for both: a part may
    be gone, and [259, 260) has landed: not whole. It answers 200 for both, and history begins at 200, so
    nothing landed before it: whole. With 199 landed the same answers prove nothing, and it counts as not
    whole.
    """
    return all(has_whole(held, hours, shard) for shard in held.ledger.shards)


def has_whole(held: Holdings, hours: range, shard: int) -> bool:
    """The same of one shard."""
    begin, first = held.edges.at("begin", shard), held.edges.at(hours.start, shard)
    landed = held.ledger.shards[shard].landed
    return (
        begin is not None and first is not None and (begin < first or not landed.overlaps(begin - 1, begin))
    )


def _as_looked_at(
    held: Holdings,
    files: tuple[Listed, ...],
    taken: Mapping[int, IntervalSet],
    only: Mapping[int, IntervalSet],
) -> tuple[tuple[Listed, ...], dict[int, IntervalSet]]:
    """What is still there of what was looked at, in files and cursors.

    Worked example: [600, 640) of the hour that runs was looked at; by now a live run has landed [640, 655) of
    it. `since` is [640, 655), `still` is [600, 640), and the file of the live run is left out. A file with
    rows of both raises LandingConflict: another engine's compaction may have made one.
    """
    none = IntervalSet()
    since = {shard: new for shard, each in taken.items() if (new := each.minus(only.get(shard, none)))}
    still = {shard: left for shard, each in taken.items() if (left := each.minus(since.get(shard, none)))}
    return slices.files_without(held, files, still, since) if since else files, still


def _taken(held: Holdings, cells: Iterable[Cell], hours: range) -> dict[int, IntervalSet]:
    """What is landed of the hours, per shard that has something."""
    rows = defaultdict[tuple[int, int], list[Cell]](list)
    for cell in cells:
        rows[cell.shard, cell.hour].append(cell)
    found = {}
    for shard, entry in held.ledger.shards.items():
        of_hours = (those for (of, _), those in rows.items() if of == shard)
        extents = [(min(c.first for c in those), max(c.last for c in those) + 1) for those in of_hours]
        among = IntervalSet.of([*extents, *held.edges.between(shard, hours)])
        found[shard] = entry.landed.minus(entry.landed.minus(among))
    return {shard: intervals for shard, intervals in found.items() if intervals}


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
