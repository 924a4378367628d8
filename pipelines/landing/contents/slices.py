"""Parts of a logstore's table that a person names: which files they are in, and what rows they hold.

Rows are counted one by one before they leave a table. Their identities are read, summed, and sorted into rows
that the ledger calls landed, rows that were adopted, and rows that nothing explains. Rows of the last kind
stop whatever was asked.

Why count what leaves, when manifests have the number of rows of each file: the ledger keeps rows and a sum of
identities of each shard, and no manifest knows identities. Nor is its number that of the rows that are seen.
Story: another engine deletes 3 of an hour's 100 rows by a row-level delete, and the manifest still says 100.
Lowered by 100 the ledger would agree with the table, and nobody would hear of the 3 rows. Lowered by the 97
that leave it goes on to miss 3, and a proof says so.

A whole hour leaves as whole files: undo and replace drop files, and rewrite none. So it is asked first which
files an hour has (`whole_files`), then whether rows of it lie anywhere else (`elsewhere`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import FileScanTask

from pipelines.landing.contents.cells import (
    Cell,
    Cells,
    Edges,
    Filter,
    Shown,
    cells_of,
    edges,
    edges_of,
    identities,
    shown,
    totals,
)
from pipelines.landing.contents.holdings import Asks, Holdings, Listed, ServiceEdges
from pipelines.landing.contents.spread import unless_wrong
from pipelines.landing.hours import hour_text, hours_text, moment_text
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.values import Adopted, Forgotten, Gone
from pipelines.landing.table import commands
from pipelines.landing.table.contract import rows_of
from sls_io.values.claim import SUM_MODULUS, Ledger, ShardLedger
from sls_io.values.cures import Cure, Do
from sls_io.values.errors import ConfigError, LandingConflict, LedgerBroken, some_of
from sls_io.values.window import HOUR_S, Cursor, IntervalSet

Fingerprint = frozenset[Shown]


@dataclass(frozen=True)
class ShardWithdrawn:
    """One shard: rows that leave, rows its ledger keeps, and the cursor intervals withdrawn."""

    shard: int
    rows: int
    rows_after: int
    withdrawn: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Slice:
    """Rows of a logstore: those that its ledger calls `landed`, and `others`, which were adopted or which
    nothing explains."""

    landed: Cells = ()
    others: Cells = ()

    @property
    def cells(self) -> Cells:
        """All of them."""
        return (*self.landed, *self.others)

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(cell.rows for cell in self.cells)

    def plus(self, other: "Slice") -> "Slice":
        """Both together."""
        return Slice((*self.landed, *other.landed), (*self.others, *other.others))


def check_passed(held: Holdings, end_hour: int) -> None:
    """Raises ConfigError unless every frontier of the origin has passed all hours before `end_hour`."""
    if why := not_passed(held, end_hour):
        raise ConfigError(f"{why}, or ask for earlier hours")


def not_passed(held: Holdings, end_hour: int) -> str:
    """Which frontier of the origin has not passed all hours before `end_hour`, and what to do; "" where all
    have.

    Story: a shard is split, nothing of the children has landed yet, and somebody takes back an hour from
    before the split. The service tells that they have nothing of it.

    Why it is asked at all: what a shard has still to land of an hour, the next live run brings, and an hour
    that was taken back would be there in part. Only a listed shard is let go by the service's word: of one
    that it lists no more there is no cursor to hold against the frontier.
    """
    service, end_s = held.edges, end_hour * HOUR_S
    over = end_s <= service.settled_s
    land = "land first" if over else "land once they are over"
    for shard in sorted(service.listed | set(held.ledger.shards)):
        entry = held.ledger.shards.get(shard)
        passed = entry is not None and (entry.closed or entry.reached_s >= end_s)
        if passed or (over and shard in service.listed and _nothing_left(service, shard, entry, end_hour)):
            continue
        if entry is None:
            return f"shard {shard} has not landed in {held.name} yet; {land}"
        reached = moment_text(entry.reached_s) if entry.reached_s else "nothing"
        return (
            f"shard {shard} has reached {reached} of the receive time, not all of the hours asked for; {land}"
        )
    return ""


def _nothing_left(service: ServiceEdges, shard: int, entry: ShardLedger | None, end_hour: int) -> bool:
    """Whether the service has nothing before that hour that has not landed of this shard."""
    frontier = service.at("begin", shard) if entry is None else entry.frontier
    end = service.at(end_hour, shard)
    return frontier is not None and end is not None and end <= frontier


def check_not_forgotten(held: Holdings, hours: range) -> None:
    """Raises ConfigError for hours of which rows were removed by decision: they would come back."""
    forgotten = held.forgotten.hours(held.origin).within(hours.start, hours.stop)
    if forgotten:
        raise ConfigError(
            f"rows of {moment_text(forgotten.pairs[0][0] * HOUR_S)} were removed by `table forget`, and "
            "would come back if that hour was landed again; ask for hours without it, or from a later time"
        )


def whole_files(held: Holdings, hours: range) -> tuple[Listed, ...]:
    """The files with rows of these receive hours; each holds rows of one hour of this origin only.

    Worked example: of the hours 7 and 8 there are file a (partition says hour 7), file b (hour 8), and file c
    (its partition says no hour, its bounds say 7 to 9). c is read. With rows of hour 9 only it is not among
    the files; with rows of 8 only it is; with rows of 8 and 9 it cannot leave, and that is refused.

    Raises ConfigError when one holds others, too; those whose partition does not say so are read.
    """
    files = [file for file in held.files if file.may_be_of(hours)]
    loose = [file for file in files if file.origin is None or file.hour is None]
    there, lost = held.known(loose)
    if lost:
        raise lost[0]
    # One without rows of these hours is not among them, whatever its bounds let one think.
    mixed = {file: {_of(held, cell, hours) for cell in cells} for file, cells in there.items()}
    if any(len(found) > 1 for found in mixed.values()):
        raise ConfigError(
            f"a file of {held.name}, which another engine wrote while the table was partitioned otherwise, "
            "also holds rows of other hours or logstores; let Spark write its files anew first: CALL "
            f"lake.system.rewrite_data_files(table => '{held.name}', options => map('rewrite-all', 'true'))"
        )
    return tuple(file for file in files if mixed.get(file, {True}) == {True})


def files_without(
    held: Holdings,
    files: Collection[Listed],
    cursors: Mapping[int, IntervalSet],
    since: Mapping[int, IntervalSet],
) -> tuple[Listed, ...]:
    """Those of the files without rows of what landed `since`, by shard, beside these `cursors`.

    Raises LandingConflict when one holds rows of both: it cannot leave, and they cannot stay in it. A file
    that cannot be read holds what its manifest says.
    """
    found, (there, _) = list[Listed](), held.known(files)
    for file in files:
        cells = there.get(file)
        if cells is None:
            old, new = file.may_hold(cursors), file.may_hold(since)
        else:
            old, new = (any(_is_of(held, file, cell, each) for cell in cells) for each in (cursors, since))
        if old and new:
            raise LandingConflict(
                f"a file of {held.name} holds rows that were looked at, and others that landed since; "
                "nothing was changed, look again without --execute"
            )
        if not new:
            found.append(file)
    return tuple(found)


def _is_of(held: Holdings, file: Listed, cell: Cell, cursors: Mapping[int, IntervalSet]) -> bool:
    return _among(file, cell, cursors.get(cell.shard, IntervalSet()), edges_of(held.origin, cursors))


def _of(held: Holdings, cell: Cell, hours: range) -> bool:
    return cell.origin == held.origin and cell.hour in hours


class RowsElsewhere(LedgerBroken):
    """Rows of the hours `asked` for also lie in the hours `others`. `hours` spans both."""

    def __init__(
        self,
        place_name: str,
        asked: range,
        others: Collection[int],
        *,
        cures: tuple[Cure, ...],
    ) -> None:
        self.asked, self.others = asked, others
        self.hours = range(min(asked.start, *others), max(asked.stop, *(hour + 1 for hour in others)))
        super().__init__(
            f"rows of {hours_text(asked)} lie in other receive hours of {place_name}: in "
            f"{some_of(map(hour_text, sorted(others)))}. "
            "Taking the hours back would leave those rows there, landing the hours again would double them; "
            "nothing was changed",
            cures=cures,
        )


def check_nowhere_else(held: Holdings, cursors: Mapping[int, IntervalSet], hours: range) -> None:
    """Raises RowsElsewhere when rows of these cursors of each shard lie in other receive hours.

    Story: another engine writes an hour anew and labels it an hour later. Rows and sums of the table are
    what they were; the hour lands again, and each of its rows is there twice.
    """
    others = elsewhere(held, cursors, hours)
    if others:
        raise RowsElsewhere(held.name, hours, others, cures=(commands.VERIFY_PULL,))


def check_nowhere(held: Holdings, cursors: Mapping[int, IntervalSet]) -> None:
    """Raises LedgerBroken when rows of these cursors, which a fill is about to land, are in the table.

    Only as far as bounds tell: a file without bounds is not read, since the whole table might have to be
    read.
    """
    if there := elsewhere(held, cursors, range(0), unbounded=False):
        raise LedgerBroken(
            f"{held.name} holds rows that its ledger does not call landed, in receive hours "
            f"{some_of(map(hour_text, sorted(there)))}: filled now, they would be there "
            "twice; nothing was landed",
            cures=(commands.VERIFY,),
        )


def elsewhere(
    held: Holdings, cursors: Mapping[int, IntervalSet], hours: range, *, unbounded: bool = True
) -> frozenset[int]:
    """Receive hours outside of `hours` with rows of these cursors of each shard. A file whose bounds exclude
    these cursors is not read; where only landings wrote, that is every file. A file without bounds is read if
    `unbounded`. What was in a file that cannot be read is not there."""
    cut = edges_of(held.origin, cursors)
    near = [
        file
        for file in held.files
        if not (file.hour is not None and file.hour in hours)
        and file.may_hold(cursors)
        and (unbounded or file.cursors is not None)
    ]
    found = set[int]()
    for file, cells in held.known(near, cut)[0].items():
        for cell in cells:
            if cell.origin == held.origin and _among(file, cell, cursors.get(cell.shard, IntervalSet()), cut):
                found.add(cell.hour)
    # A file whose partition says no hour may hold rows of these hours, where they belong.
    return frozenset(hour for hour in found if hour not in hours)


def _among(file: Listed, cell: Cell, cursors: IntervalSet, cut: Edges) -> bool:
    """Whether rows of a cell are in the intervals: its first or its last one, surely. Where an interval lies
    between the two nobody can tell, and the file is counted once more.

    Worked example: a cell has rows from 10 to 50. [0, 11) and [50, 60) have one of them. Of [20, 30) nobody
    can tell, so the file is asked for with edges at 20 and 30. Then either a cell begins and ends inside, or
    none touches it. Most files are never counted a second time: what is asked is mostly a whole hour.
    """
    if any(cursors.overlaps(at, at + 1) for at in (cell.first, cell.last)):
        return True
    if cursors.overlaps(cell.first, cell.last + 1):
        raise Asks(files=(file,), cut=cut)
    return False


def mine(place: Place, hours: range | None = None) -> BooleanExpression:
    """Rows of the logstore, and of these receive hours."""
    return rows_of(place.origin.id, hours)


def fingerprint(tasks: Iterable[FileScanTask]) -> Fingerprint:
    """Which rows these files show: each with the row-level deletes that apply to it."""
    return frozenset(map(shown, tasks))


def slice_of(place: Place, tasks: Iterable[FileScanTask], where: Filter | None = None) -> Slice:
    """The logstore's rows of these files, or those that `where` takes. Raises as `reading.py` does."""
    found = unless_wrong(cells_of(place.table, list(tasks), edges([place.ledger]), where))
    return sorted_by(place.ledger, (cell for cells in found for cell in cells))


def sorted_by(ledger: Ledger, cells: Iterable[Cell]) -> Slice:
    """Those of these rows that are of the ledger's logstore, as it knows them."""
    found = defaultdict[bool, list[Cell]](list)
    for cell in cells:
        if cell.origin == ledger.origin:
            found[cell.landed(ledger)].append(cell)
    return Slice(tuple(found[True]), tuple(found[False]))


def cursors_of(place: Place, tasks: Iterable[FileScanTask], shard: int) -> npt.NDArray[np.int64]:
    """The cursors of one shard that have rows in these files, each once."""
    rows = (each for task in tasks for each in identities(place.table, task))
    found = [each.cursors for each in rows if (each.origin, each.shard) == (place.origin.id, shard)]
    return np.unique(np.concatenate([np.array([], dtype=np.int64), *found]))


def check_explained(held: Holdings | Place, found: Slice, *, adopted_too: bool) -> None:
    """Raises LedgerBroken for rows that neither the ledger nor, if those may go, adoption explains."""
    landed, others = totals(found.landed), totals(found.others)
    for key in sorted({*landed, *others}):
        entry, beside = held.ledger.shards.get(key[1]), others.get(key, (0, 0))[0]
        rows = landed.get(key, (0, 0))[0]
        if rows > (entry.rows if entry else 0) or beside > held.adopted.of(*key)[0]:
            raise LedgerBroken(
                f"shard {key[1]} has rows in {held.name} that its ledger does not explain; "
                "nothing was changed",
                cures=(commands.VERIFY,),
            )
        if beside and not adopted_too:
            raise ConfigError(
                f"{beside} rows of shard {key[1]} were adopted: no landing brought them and none "
                "could bring them again",
                cures=(Do("remove them with `table forget`"),),
            )


def without_adopted(adopted: Adopted, leaving: Slice) -> Adopted:
    """The adopted rows that remain once those rows have left that lie outside of the ledger."""
    shards = dict(adopted.shards)
    for key, (rows, total) in totals(leaving.others).items():
        shards[key] = shards[key][0] - rows, (shards[key][1] - total) % SUM_MODULUS
    return replace(adopted, shards={key: value for key, value in shards.items() if value[0]})


def lowered(ledger: Ledger, leaving: Cells) -> Ledger:
    """Rows and sums less those that leave; the intervals stay landed, so nothing brings them back.

    Were the intervals taken out, the next run would land the removed rows again. Were rows and sum left, each
    proof would miss them for ever.
    """
    changed = {}
    for (_, shard), (rows, total) in totals(leaving).items():
        changed[shard] = ledger.shards[shard].counting(-rows, -total)
    return ledger.with_shards(changed)


def removed(forgotten: Forgotten, leaving: Cells) -> Forgotten:
    """With rows that leave for good, whatever lands later."""
    for cell in leaving:
        gone = Gone(cell.rows, cell.sum, hour_runs([cell.hour]))
        forgotten = forgotten.plus(cell.origin, cell.shard, gone)
    return forgotten


def barred(forgotten: Forgotten, leaving: Slice) -> Forgotten:
    """With rows that leave since their values may not land: their hours can be landed again, without them.
    Rows that no landing brought leave for good."""
    for cell in leaving.landed:
        forgotten = forgotten.plus_barred(cell.origin, cell.shard, cell.hour, (cell.rows, cell.sum))
    return removed(forgotten, leaving.others).bounded()


def hour_runs(hours: Iterable[int]) -> IntervalSet:
    """Hours as intervals."""
    return IntervalSet.of((hour, hour + 1) for hour in hours)


def withdrawn_of(before: Ledger, after: Ledger, rows: Mapping[int, int]) -> tuple[ShardWithdrawn, ...]:
    """Of the shards with so many `rows` that leave what their ledger keeps, and what it calls withdrawn."""
    none = ShardLedger(start=Cursor(0))
    of = ((s, n, before.shards.get(s, none), after.shards.get(s, none)) for s, n in sorted(rows.items()))
    return tuple(
        ShardWithdrawn(s, n, new.rows, new.withdrawn.minus(old.withdrawn).pairs) for s, n, old, new in of
    )
