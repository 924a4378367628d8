"""Whether the rows of a logstore are those that its ledger knows, and not only as many.

Story: a row of one hour is deleted by hand, one that nobody landed is appended to another. The count is
right. Taking the other hour back would lower the ledger by a row that it never knew, and removing rows for
good would burn the ways by which the first one could come back. It reads the identity columns of the whole
logstore: the price of a decision that cannot be taken back.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contents.cells import (
    Cells,
    Shown,
    Tally,
    cells_of,
    count,
    edges,
    partition_origin,
    shown,
    totals,
)
from pipelines.landing.contents.explained import compare, known_of, unlike
from pipelines.landing.contents.spread import unless_wrong
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.reading import Misread, tasks_of
from pipelines.landing.ledger.values import Count, Forgotten, Landed, less, summed
from pipelines.landing.ledger.ways_back import PastLanding, newest_forgotten, newest_way, pasts
from pipelines.landing.table import commands
from pipelines.landing.table.contract import rows_of
from sls_io.values.claim import Ledger
from sls_io.values.cures import Call, Do
from sls_io.values.errors import ConfigError, LedgerBroken, TransportError


def way_back(
    table: Table, lost: Collection[str] = (), known: Mapping[Shown, Cells] | None = None
) -> PastLanding | None:
    """The newest landing that `table rollback` accepts and whose rows are those that its ledgers know;
    None when metadata or storage has none. `lost` are paths of files that are known to be gone or damaged,
    `known` the cells of files that were counted already: what has left main since is all that is read."""
    counted, removed = dict(known or {}), newest_forgotten(table)[0]
    return newest_way(pasts(table, lost=lost), removed, lambda past: _proven(past, counted))


def tasks_of_ledgers(past: PastLanding) -> Iterator[FileScanTask]:
    """The files of a landing that may hold rows of a logstore that it has a ledger of. Raises as
    `reading.py` does."""
    for task in tasks_of(past.table, past.table.scan(snapshot_id=past.id)):
        if partition_origin(past.table, task.file) in {*past.ledgers, None}:
            yield task


def _proven(past: PastLanding, counted: dict[Shown, Cells]) -> bool:
    """Whether the rows of a landing are those of its ledgers; what is read for it is `counted`."""
    try:
        tasks = list(tasks_of_ledgers(past))
        unread = [task for task in tasks if shown(task) not in counted]
        for task, found in zip(unread, unless_wrong(cells_of(past.table, unread, {})), strict=True):
            counted[shown(task)] = found
    except (LedgerBroken, Misread):
        return False
    cells = (cell for task in tasks for cell in counted[shown(task)])
    tallies = {key: Tally(*both) for key, both in totals(cells).items()}
    return not any(unlike(ledger, past.adopted, tallies) for ledger in past.ledgers.values())


def check_same(place: Place, origins: Collection[str], lifted: str = "") -> Mapping[Shown, Cells]:
    """Raises LedgerBroken when a shard of these origins holds other rows than its ledger and what was adopted
    say: what would leave could not be told from what is missing already. The cells of what was counted.

    `lifted` is an option of whoever asks for something that no rollback passes. Story: rows are deleted by
    hand. Before anybody looks, others are removed for good, and with that the rollback and the replace that
    would have brought the first ones back are refused for ever.
    """
    ledgers, adopted = {name: place.state.ledger(name) for name in sorted(origins)}, place.state.adopted
    there = compare(place.table, ledgers)
    for name, ledger in ledgers.items():
        if not there.proves(ledger, adopted):
            wrong = unlike(ledger, adopted, there.tallies)
            rows = {shard: (tally.rows, known) for shard, (tally, (known, _)) in wrong.items()}
            raise _other_rows(place, name, rows, lifted, there.files)
    return there.files


@dataclass(frozen=True)
class Exchange:
    """What leaves some `shards` of a table with `files`, and the windows that come `again` in its place.

    `lowered` is the ledger without what leaves, `forgotten` what may not land without what was kept out of
    that. Of the shards `whole` the service certainly has all that landed there.
    """

    place: Place
    shards: frozenset[int]
    lowered: Ledger
    forgotten: Forgotten
    files: frozenset[str]
    again: Sequence[Landed]
    whole: frozenset[int]


def recounted(ledger: Ledger, exchange: Exchange) -> tuple[Ledger, tuple[str, ...]]:
    """The ledger of the hours that landed `again`, and the shards of which the service gives more rows by now
    than it gave when they landed.

    Where as many rows come as left, with the same sum, the ledger stays as it is, but for rows that may not
    land: what was kept out of the hours until now is given back, what is kept out of what came is taken off.
    Worked example: of the 40 rows of an hour 3 were kept out when it landed, so its shard counts 37. A value
    was barred since, and pulled again 5 are kept out: 37 + 3 - 5 = 35 rows, and their sums likewise.

    Where others come, there are two stories. By hand: 4 of 40 rows were deleted, 36 leave and 40 come. The
    ledger says 40, and is right. By the service: it left a group out of a page, and its headers spoke of the
    rest alone; 40 landed, a second pull found 60, and its cure is this replace. The ledger says 40, and with
    60 rows in the table every later run would be refused. The whole logstore tells them apart, as it does
    before an undo: in the second story all rows are those of the ledger, so it goes up by what came more.

    It never goes down: fewer rows may be such a page once more, and by one answer nothing is given up. So a
    shard has at least as many rows afterwards as before, or as many as its ledger says. Where the ledger
    goes up, that holds of each window: what comes more in one does not pay for what lacks in another.

    Of a short page nobody knows which cursors its groups have: they are counted back from its end. So where
    more come and retention may have taken a part of the hours, the rows that leave may be of that part.
    (Where as many come, that is believed: the edge of retention lies in some hour at all times.)

    Raises TransportError where an answer would cost rows, ConfigError where retention may have, LedgerBroken
    where a shard would have more rows than its ledger says, and has others than these by now: nobody could
    tell which are strange.
    """
    place, more, barred = exchange.place, dict[int, Count](), dict[int, Count]()
    for shard in exchange.shards:
        before, after = place.ledger.shards[shard], exchange.lowered.shards[shard]
        mine = [each for each in exchange.again if each.window.shard == shard]
        then, now = place.state.forgotten, exchange.forgotten
        gone = less(*(summed(each.barred_of(ledger.origin, shard).values()) for each in (then, now)))
        barred[shard] = less(gone, summed(each.barred for each in mine))
        came = summed((each.rows, each.sum) for each in mine)
        more[shard] = less(less(came, (before.rows - after.rows, before.sum - after.sum)), barred[shard])
    others = {shard for shard, count in more.items() if count != (0, 0)}
    there = _unproven(place, others)
    for shard in sorted(others):
        known = known_of(place.ledger, place.adopted, shard)[0]
        _check_rows(place, shard, more[shard][0], known, there.get(shard))
    risen = sorted(others - there.keys())
    _check_each_window(exchange, risen)
    changed = dict(ledger.shards)
    for shard, by in (*barred.items(), *((shard, more[shard]) for shard in risen)):
        changed[shard] = changed[shard].counting(*by)
    return ledger.with_shards(changed), tuple(
        f"shard {shard}: {more[shard][0]:,} rows more came than had landed; the service gives more of these "
        "cursors than it gave then, and the ledger goes by that"
        for shard in risen
    )


def _unproven(place: Place, shards: Collection[int]) -> dict[int, int]:
    """Those of these shards of which the table does not hold what the ledger says, or perhaps not, and how
    many rows it holds. Reads as `check_same` does, unless nothing is asked."""
    if not shards:
        return {}
    there = compare(place.table, {place.origin.id: place.ledger})
    wrong = unlike(place.ledger, place.adopted, there.tallies)
    return {
        shard: there.tallies.get((place.origin.id, shard), Tally()).rows
        for shard in shards
        if shard in wrong or any(file.may_hold(shard) for file in there.lost)
    }


def _check_rows(place: Place, shard: int, more: int, known: int, there: int | None) -> None:
    """Raises as `recounted`: `more` rows come than left, the ledger says `known`, and `there` are so many;
    None: exactly the known ones."""
    after = (known if there is None else there) + more
    if more <= 0 if there is None else more < 0 and after < known:
        raise _fewer(place, shard, f"{-more:,} rows fewer" if more else "other rows")
    if there is not None and more > 0 and after > known:
        raise LedgerBroken(
            f"shard {shard}: {more:,} rows more came than had landed, and {place.name} does not hold what "
            "its ledger says of it: rows are lost, or strange. Nothing was replaced. Settle these first, "
            "then replace the hours",
            cures=(*_to_back(place.table), commands.VERIFY_PULL),
        )


def _check_each_window(exchange: Exchange, shards: Collection[int]) -> None:
    """Raises as `recounted` where a window of these shards comes with fewer rows than leave, or may."""
    place, origin = exchange.place, exchange.place.origin.id
    for shard in shards:
        if shard not in exchange.whole:
            raise ConfigError(
                f"shard {shard}: more rows came than had landed, and retention may have taken a part of "
                "these hours: rows that are there could not come back, so nothing is replaced"
            )
    came = {each.window: each.rows + each.barred[0] for each in exchange.again if each.window.shard in shards}
    every = tasks_of(place.table, place.table.scan(row_filter=rows_of(origin))) if came else ()
    files = [task for task in every if task.file.file_path in exchange.files]
    left = count(place.table, files, edges((), {origin: came})).windows(origin, came)
    for window, (rows, _) in left.items():
        if rows > came[window]:
            raise _fewer(place, window.shard, f"{rows - came[window]:,} rows fewer")


def _fewer(place: Place, shard: int, what: str) -> TransportError:
    return TransportError(
        f"shard {shard}: the service gives {what} of these hours than {place.name} holds; nothing was "
        "replaced, run it again"
    )


def _other_rows(
    place: Place, origin: str, rows: Mapping[int, Count], lifted: str, files: Mapping[Shown, Cells]
) -> LedgerBroken:
    """The error for shards with so many `rows`, and so many that the ledger knows; none where only a file
    that cannot be read says that it held more."""
    option = (Do(f"say {lifted} here"),) if lifted else ()
    short = next((shard for shard, (there, known) in rows.items() if there < known), None)
    if short is not None:
        after = "; no rollback would bring them back after this" if lifted else ""
        return LedgerBroken(
            f"table {place.name} misses rows: of {origin} in shard {short} it holds {rows[short][0]}, its "
            f"ledger says {rows[short][1]}{after}; nothing was changed",
            cures=(commands.VERIFY_PULL, *option),
        )
    what = f"shard {min(rows)} of {origin}" if rows else origin
    return LedgerBroken(
        f"{what} holds other rows in {place.name} than its ledger says; nothing was changed",
        cures=(commands.VERIFY_PULL, *_to_back(place.table, files), *option),
    )


def _to_back(table: Table, known: Mapping[Shown, Cells] | None = None) -> tuple[Call, ...]:
    """The rollback to the newest landing that `way_back` finds, if it finds one."""
    back = way_back(table, known=known)
    return () if back is None else (commands.rollback(back.id),)
