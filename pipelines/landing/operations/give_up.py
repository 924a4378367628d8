"""Give up the rows of data files that are gone or damaged, these rows and no others. One commit.

For rows that nothing brings back: retention has taken the hour, and a rollback would cost more than it
brings. The files leave. The ledger's rows and sums become those of the rows that are left. The number of rows
that were given up stands beside the ledgers from then on, as for `table adopt`, and `verify` names it. The
cursors of the lost rows count as withdrawn: no live run lands them; a backfill that names the hour does, if
the service still has them. Nothing else of the ledger changes.

Of a receive hour of which rows were removed for good, or may not land, the cursors stay landed: nobody knows
any more which of them were those of such rows, and a backfill would land these, too, or count them twice. So
nothing of that hour lands again.

Nobody can read any more which rows were in a lost file. Known are how many the table says, and which rows are
left. So giving up is refused unless exactly that many rows are missing, shard by shard where each file is of
one shard: a row that was lost in another way is never given up with them.

Worked example: shard 0 has landed [0, 100) with 100 rows, and its ledger says so. One file is gone, and its
manifest says: 30 rows, shard 0. The files that are left hold 70. 30 are missing and 30 were in the file, so
it is given up: the ledger says 70 rows, their cursors are withdrawn, and 30 stand as missing beside it. Had
the files held 69, somebody would have deleted a row by hand, too. Giving up 31 rows would hide that for ever,
so it is refused.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import FileScanTask

from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Planned
from pipelines.landing.contents import slices
from pipelines.landing.contents.cells import Cells, partition_hour, totals
from pipelines.landing.contents.slices import Slice
from pipelines.landing.hours import spans
from pipelines.landing.ledger.fence import withdrawn
from pipelines.landing.ledger.place import Place, Trust, look
from pipelines.landing.ledger.reading import Unreadable, bounds, read_whole, tasks_of
from pipelines.landing.ledger.state import windows_in
from pipelines.landing.ledger.values import Adopted, Deed, Landed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations import reach
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.cures import Cure
from sls_io.values.errors import ConfigError, LedgerBroken, amount
from sls_io.values.window import IntervalSet
from sls_io.wire.client import SlsClient

_PIECES_MAX = 100
"""The most intervals that a shard's lost rows may lie in; with more the ledger would be a list of rows."""


@dataclass(frozen=True)
class GivenUp(Effect):
    """What `table give-up` would do. `hours` are receive hours (since 1970) with lost files, and the rows
    in these; `kept` is what the service still has of the rows, which a backfill of the hours `again` lands
    again; None for another origin, whose service is not asked."""

    QUIET = frozenset({"again"})

    WHAT = "{table}: rows of {origin} in files that are gone or damaged are given up"

    table: str
    origin: str
    rows: int
    hours: Mapping[int, int]
    files: tuple[str, ...]
    shards: tuple[slices.ShardWithdrawn, ...]
    kept: reach.StillThere | None
    again: tuple[int, ...]

    def said(self) -> Iterable[Note]:
        if self.kept is None:
            yield Note("what its service still has of them was not asked", "loss")
        else:
            yield Note(str(self.kept), "loss" if self.kept.lost else "")

    def then(self) -> Iterable[Cure]:
        yield commands.VERIFY.plus(does="goes on to name them")
        if self.kept is not None and self.kept.lost < self.rows:
            for span in spans(self.again):
                yield commands.of_hours(commands.BACKFILL, span, "lands again what the service still has")


def plan_give_up(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    *,
    origin: str = "",
    whole: Callable[[str], bool] = lambda path: False,
) -> Planned[GivenUp]:
    """Look at what giving the lost files of the logstore up would do, or those of another `origin` that the
    table knows. Changes nothing.

    Lost is a file of which nobody can read which rows are in it; of files whose path `whole` takes, also one
    of which any other column cannot be read.

    Raises ConfigError when no file is lost or the table has no ledger of that origin, LedgerBroken when the
    table cannot be trusted or what is missing is not what was in the lost files.
    """
    own = look(lake, logstore, client, trust=Trust.SOUND)
    place = own.of_known(origin)
    kept, lost = _sorted_out(place, whole)
    if not lost:
        raise ConfigError(
            f"every file of {place.origin.logstore} in {place.name} can be read: nothing is lost"
        )
    if any(partition_hour(place.table, task.file) is None for task in lost):
        raise ConfigError(f"a lost file of {place.name} is not of one receive hour; restore it")
    there = Slice(tuple(c for _, s in kept for c in s.landed), tuple(c for _, s in kept for c in s.others))
    slices.check_explained(place, there, adopted_too=True)
    short = _short(place, there)
    _check_same_rows(place, lost, {shard: a + b for shard, (a, b) in short.items()})
    windows = list(windows_in(place.table, place.origin.id))
    closed = _closed(place, lost)
    landed = [shard for shard, (rows, _) in short.items() if rows]
    taken = {shard: _cursors(place, shard, kept, lost, closed, windows) for shard in landed}
    ledger = place.ledger.with_shards(
        {shard: _lowered(place, there, shard, cursors) for shard, cursors in taken.items()}
    )
    given = {shard: a + b for shard, (a, b) in short.items() if a + b}
    still = None
    if place is own:
        again = _may_land(place, lost, closed, short)
        never = sum(given.values()) - sum(again.values())
        still = reach.kept_of(client, again, taken, windows, never=never)
    return Planned(
        view=_view(place, ledger, lost, closed, given, still),
        place=place,
        commit=authored.Change(
            content=place.head,
            ledgers={**place.state.ledgers, ledger.origin: ledger},
            adopted=_adopted(place, there, given),
            deed=Deed(Operation.GIVE_UP),
            forgotten=place.state.forgotten.closed(place.origin.id, closed),
            dropped=frozenset(task.file.file_path for task in lost),
        ),
    )


_Kept = list[tuple[FileScanTask, Slice]]


def _sorted_out(place: Place, whole: Callable[[str], bool]) -> tuple[_Kept, list[FileScanTask]]:
    """The logstore's files that can be read, with their rows, and those that cannot. Raises Unreadable where
    row-level deletes are lost: the rows themselves are all there."""
    kept: _Kept = []
    lost: list[FileScanTask] = []
    for task in tasks_of(place.table, place.table.scan(row_filter=slices.mine(place))):
        try:
            found = slices.slice_of(place, [task])
            if whole(task.file.file_path):
                read_whole(place.table, task.file)
            kept.append((task, found))
        except Unreadable as error:
            # `file` is a text for a manifest: then nobody knows which files there are. A file of deletes that
            # is gone hides fewer rows than before, and given up it would bring deleted rows back.
            if isinstance(error.file, str) or error.file.content != DataFileContent.DATA:
                raise
            lost.append(task)
    return kept, lost


def _short(place: Place, there: Slice) -> dict[int, tuple[int, int]]:
    """Rows that are missing of each shard: landed ones, adopted ones.

    The two are apart since they go different ways: landed ones leave the ledger and can land again, adopted
    ones leave `Adopted`, and no landing brings them. Fewer than none means rows that nobody brought.
    """
    origin, adopted = place.origin.id, place.state.adopted.shards_of(place.origin.id)
    landed, others = totals(there.landed), totals(there.others)
    found = {}
    for shard in sorted({*place.ledger.shards, *adopted, *(key[1] for key in (*landed, *others))}):
        entry, before = place.ledger.shards.get(shard), place.state.adopted.of(origin, shard)[0]
        rows, beside = (each.get((origin, shard), (0, 0))[0] for each in (landed, others))
        found[shard] = (entry.rows if entry else 0) - rows, before - beside
    return found


def _check_same_rows(place: Place, lost: Iterable[FileScanTask], short: Mapping[int, int]) -> None:
    """Raises LedgerBroken unless exactly the rows of the lost files are missing, as far as the table says
    how many those were.

    Worked example: of a lost file of 30 rows of shard 0, 31 are missing of shard 0 and shard 1 has one too
    many. The sums agree, and it is refused, since the file is of shard 0 alone. Were its bounds shards 0 to
    1, nobody could tell, and the sums decide: it passes. With row-level deletes on the file 25 missing rows
    pass, too: the deletes may hide the other 5.
    """
    of_shard: dict[int, int] = defaultdict(int)
    rows, single, exact = 0, True, True
    for task in lost:
        shards = bounds(place.table, task.file, "__shard__")
        rows += task.file.record_count
        # Of rows that row-level deletes hide the ledger may know, or not.
        exact = exact and not task.delete_files
        single = single and shards is not None and shards[0] == shards[1]
        if shards is not None:
            of_shard[shards[0]] += task.file.record_count
    missing = sum(short.values())
    same = missing == rows if exact else 0 <= missing <= rows
    if same and single and exact:
        same = all(of_shard[shard] == short.get(shard, 0) for shard in {*of_shard, *short})
    if not same:
        raise LedgerBroken(
            f"the lost files of {place.name} held {amount(rows, 'row')} of {place.origin.logstore}, and "
            f"{missing} are missing: rows were lost in another way, too, or are there that nobody landed; "
            "nothing was changed",
            cures=(commands.ADOPT_REST,),
        )


def _closed(place: Place, lost: Iterable[FileScanTask]) -> frozenset[int]:
    """The hours of lost files of which nothing lands again.

    Story: a value was barred, so a landing left its row at cursor 12 out, and [10, 20) counts as landed with
    9 rows. The file is lost. Withdrawn, a backfill would land all of [10, 20) and count the row at 12 as
    barred a second time; removed for good, that row would come back.
    """
    forgotten, origin = place.state.forgotten, place.origin.id
    return frozenset(hour for hour in _hours(place, lost) if forgotten.lacks(origin, hour))


def _may_land(
    place: Place, lost: Iterable[FileScanTask], closed: Collection[int], short: Mapping[int, tuple[int, int]]
) -> dict[int, int]:
    """How many of the missing rows of each shard a landing may bring again, at least: not adopted ones, and
    not those of lost files of the hours `closed`.

    Worked example: 100 landed and 20 adopted rows of shard 0 are missing, and a lost file of a closed hour
    had 30 rows: 70 may land again. Had that file rows of shard 1, too, it may still be all 30: 70.
    """
    never: dict[int, int] = defaultdict(int)
    for task in lost:
        if partition_hour(place.table, task.file) in closed:
            for shard in short:
                never[shard] += task.file.record_count * _may_hold(place, shard, task)
    return {shard: max(0, rows - never[shard]) for shard, (rows, _) in short.items()}


def _hours(place: Place, lost: Iterable[FileScanTask]) -> dict[int, int]:
    """The receive hours (since 1970) of lost files, and the rows in these."""
    hours: dict[int, int] = defaultdict(int)
    for task in lost:
        hours[partition_hour(place.table, task.file) or 0] += task.file.record_count
    return dict(sorted(hours.items()))


def _cursors(
    place: Place,
    shard: int,
    kept: _Kept,
    lost: Iterable[FileScanTask],
    closed: Collection[int],
    windows: Iterable[Landed],
) -> IntervalSet:
    """Where the lost rows of a shard were: between rows that are left, inside of what has landed. Those of
    the hours `closed` stay landed."""
    mine = [task for task in lost if _may_hold(place, shard, task)]
    lost = [task for task in mine if partition_hour(place.table, task.file) not in closed]
    if mine and not lost:
        return IntervalSet()
    entry = place.ledger.shards[shard]
    cells = tuple(cell for _, found in kept for cell in found.cells if cell.shard == shard)
    extents = IntervalSet.of(
        pair for task in lost for pair in _extents(place, shard, cells, task.file, windows)
    )
    of = {(shard, cell.hour) for cell in cells if extents.overlaps(cell.first, cell.last + 1)}
    # A cell says the first and the last cursor of its rows, not which lie between. So the files with rows of
    # the same hour are read once more, cursor by cursor, and what they show is not withdrawn: it would land
    # twice.
    near = [task for task, found in kept if any((c.shard, c.hour) in of for c in found.cells)]
    there = slices.cursors_of(place, near, shard)
    left = IntervalSet.of((c, c + 1) for c in there.tolist() if extents.overlaps(c, c + 1))
    landed = entry.landed.minus(entry.landed.minus(extents))
    found = landed.minus(left)
    if not found or len(found.pairs) > _PIECES_MAX:
        raise LedgerBroken(
            f"nobody can say where the lost rows of shard {shard} were in {place.name}: rows that are left "
            "lie among them; nothing was changed",
            cures=(commands.ADOPT_REST,),
        )
    return found


def _may_hold(place: Place, shard: int, task: FileScanTask) -> bool:
    shards = bounds(place.table, task.file, "__shard__")
    return shards is None or shards[0] <= shard <= shards[1]


def _extents(
    place: Place,
    shard: int,
    cells: Cells,
    file: DataFile,
    windows: Iterable[Landed],
) -> Iterator[tuple[int, int]]:
    """Cursors of a shard that may have been in a lost file.

    From the best evidence to the least. Where the file's bounds name one shard, the rows lie between its
    cursor bounds. Else they lie between the last row that is left of an earlier hour and the first one of a
    later hour, since receive hours of a shard follow one another as cursors do.

    A landing's window reaches further than its rows: the service jumps over cursors, so a page may end at 58
    with the last row at 52. Without the window's own edges [53, 58) would stay landed, an interval without
    rows that ends in the middle of a page.

    Worked example: rows are left at 10 to 19 of the hour before and from 60 of the hour after, and a lost
    file of the hour names no shard: [20, 60). With bounds 40 to 52 it is [40, 53), and with a window [40, 58)
    of that hour, that too. Of [20, 60) `_cursors` then takes away what is left of the hour, say 30 to 39:
    [20, 30) and [40, 60) are withdrawn.
    """
    shards, span = bounds(place.table, file, "__shard__"), bounds(place.table, file, "__cursor__")
    hour = partition_hour(place.table, file)
    if hour is None:
        return
    low = max((cell.last + 1 for cell in cells if cell.hour < hour), default=0)
    high = min((cell.first for cell in cells if cell.hour > hour), default=2**63 - 1)
    if shards is not None and shards[0] == shards[1] and span is not None:
        low, high = span[0], span[1] + 1
    # A window's own edges, where they are known: the service ends a page there.
    for window in (x.window for x in windows if (x.window.shard, x.window.hour) == (shard, hour)):
        if window.begin < high and low < window.end:
            yield int(window.begin), int(window.end)
    if low < high:
        yield low, high


def _lowered(place: Place, there: Slice, shard: int, taken: IntervalSet) -> ShardLedger:
    """The shard with the rows that are left."""
    entry = place.ledger.shards[shard]
    rows, total = totals(there.landed).get((place.origin.id, shard), (0, 0))
    return withdrawn(entry, taken, rows=entry.rows - rows, total=entry.sum - total)


def _adopted(place: Place, there: Slice, given: Mapping[int, int]) -> Adopted:
    """Adopted rows that are left, and how many are missing by now."""
    adopted, origin = place.state.adopted, place.origin.id
    shards = {key: value for key, value in adopted.shards.items() if key[0] != origin}
    shards |= totals(there.others)
    missing = dict(adopted.missing)
    for shard, rows in given.items():
        missing[origin, shard] = missing.get((origin, shard), 0) + rows
    return replace(adopted, shards=shards, missing=missing)


def _view(
    place: Place,
    ledger: Ledger,
    lost: list[FileScanTask],
    closed: Collection[int],
    given: Mapping[int, int],
    kept: reach.StillThere | None,
) -> GivenUp:
    hours = _hours(place, lost)
    return GivenUp(
        table=place.name,
        origin=place.origin.id,
        rows=sum(given.values()),
        hours=hours,
        files=tuple(sorted(task.file.file_path.rsplit("/", 1)[-1] for task in lost)),
        shards=slices.withdrawn_of(place.ledger, ledger, given),
        kept=kept,
        again=tuple(hour for hour in hours if hour not in closed),
    )
