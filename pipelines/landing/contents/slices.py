"""Parts of a logstore's table that a person names: which files they are in, and what rows they hold.

Rows are counted one by one before they leave a table. Their identities are read, summed, and sorted into rows
that the ledger calls landed, rows that were adopted, and rows that nothing explains. Rows of the last kind
stop whatever was asked.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contents.cells import (
    Cell,
    Cells,
    Filter,
    Shown,
    cells_of,
    edges,
    edges_of,
    identities,
    origin_and_hour,
    partition_hour,
    shown,
    totals,
)
from pipelines.landing.hours import hour_text, hours_text, moment_text
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.reading import Unreadable, bounds, tasks_of
from pipelines.landing.ledger.values import Adopted
from pipelines.landing.table import calls
from pipelines.landing.table.contract import rows_of
from sls_io.values.claim import SUM_MODULUS, Ledger, ShardLedger
from sls_io.values.cures import Cure, Do
from sls_io.values.errors import ConfigError, LedgerBroken, ShardGone
from sls_io.values.window import HOUR_S, Cursor, IntervalSet
from sls_io.wire.client import SlsClient

_HOURS_NAMED_MAX = 5
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
    if not all(origin_and_hour(place.table, task.file) or _only(place, task, hours) for task in tasks):
        raise ConfigError(
            f"a file of {place.name}, which another engine wrote while the table was partitioned otherwise, "
            "also holds rows of other hours or logstores; let Spark write its files anew first: CALL "
            f"lake.system.rewrite_data_files(table => '{place.name}', options => map('rewrite-all', 'true'))"
        )
    return tasks


def _only(place: Place, task: FileScanTask, hours: range) -> bool:
    """Whether all rows of a file are of this origin and these hours, by reading them. Raises as `reading.py`
    does."""
    cells = cells_of(place.table, task, {})
    return all(cell.origin == place.origin.id and cell.hour in hours for cell in cells)


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
    found, cut = set[int](), edges_of(place.origin.id, cursors)
    for task in tasks_of(table, table.scan(row_filter=mine(place))):
        if partition_hour(table, task.file) in hours or not _may_hold(table, task.file, cursors):
            continue
        if not unbounded and bounds(table, task.file, "__cursor__") is None:
            continue
        with suppress(Unreadable):  # what was in it is not there
            cells = cells_of(table, task, cut)
            found |= {cell.hour for cell in cells if cell.origin == place.origin.id and _among(cell, cursors)}
    # A file whose partition says no hour may hold rows of these hours, where they belong.
    return frozenset(hour for hour in found if hour not in hours)


def _among(cell: Cell, cursors: Mapping[int, IntervalSet]) -> bool:
    return any(cell.within(begin, end) for begin, end in cursors.get(cell.shard, ()))


def _may_hold(table: Table, file: DataFile, cursors: Mapping[int, IntervalSet]) -> bool:
    shards, span = bounds(table, file, "__shard__"), bounds(table, file, "__cursor__")
    return any(
        (shards is None or shards[0] <= shard <= shards[1])
        and (span is None or intervals.overlaps(span[0], span[1] + 1))
        for shard, intervals in cursors.items()
    )


def mine(place: Place, hours: range | None = None) -> BooleanExpression:
    """Rows of the logstore, and of these receive hours."""
    return rows_of(place.origin.id, hours)


def fingerprint(tasks: Iterable[FileScanTask]) -> Fingerprint:
    """Which rows these files show: each with the row-level deletes that apply to it."""
    return frozenset(map(shown, tasks))


def slice_of(
    place: Place,
    tasks: Iterable[FileScanTask],
    where: Filter | None = None,
    *,
    counted: Mapping[Shown, Cells] | None = None,
) -> Slice:
    """The logstore's rows of these files, or those that `where` takes; a file that was `counted` by the
    ledger's edges is not read again. Raises as `reading.py` does."""
    cut, found = edges([place.ledger]), defaultdict[bool, list[Cell]](list)
    for task in tasks:
        for cell in (counted or {}).get(shown(task)) or cells_of(place.table, task, cut, where):
            if cell.origin == place.origin.id:
                found[cell.landed(place.ledger)].append(cell)
    return Slice(tuple(found[True]), tuple(found[False]))


def cursors_of(place: Place, tasks: Iterable[FileScanTask], shard: int) -> npt.NDArray[np.int64]:
    """The cursors of one shard that have rows in these files, each once."""
    rows = (each for task in tasks for each in identities(place.table, task))
    found = [each.cursors for each in rows if (each.origin, each.shard) == (place.origin.id, shard)]
    return np.unique(np.concatenate([np.array([], dtype=np.int64), *found]))


def check_explained(place: Place, found: Slice, *, adopted_too: bool) -> None:
    """Raises LedgerBroken for rows that neither the ledger nor, if those may go, adoption explains."""
    landed, others = totals(found.landed), totals(found.others)
    for key in sorted({*landed, *others}):
        entry, beside = place.ledger.shards.get(key[1]), others.get(key, (0, 0))[0]
        rows = landed.get(key, (0, 0))[0]
        if rows > (entry.rows if entry else 0) or beside > place.state.adopted.of(*key)[0]:
            raise LedgerBroken(
                f"shard {key[1]} has rows in {place.name} that its ledger does not explain; "
                "nothing was changed",
                cures=(calls.VERIFY,),
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
