"""Whether the rows of a logstore are those that its ledger knows, and not only as many.

Story: a row of one hour is deleted by hand, one that nobody landed is appended to another. The count is
right. Taking the other hour back would lower the ledger by a row that it never knew, and removing rows for
good would burn the ways by which the first one could come back. It reads the identity columns of the whole
logstore: the price of a decision that cannot be taken back.
"""

from collections.abc import Collection, Iterator, Mapping

from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contents.cells import (
    Cells,
    Shown,
    Tally,
    cells_of,
    partition_origin,
    shown,
    totals,
)
from pipelines.landing.contents.explained import compare, unlike
from pipelines.landing.contents.spread import unless_wrong
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.reading import Misread, tasks_of
from pipelines.landing.ledger.values import Count
from pipelines.landing.ledger.ways_back import PastLanding, newest_forgotten, newest_way, pasts
from pipelines.landing.table import commands
from sls_io.values.cures import Do
from sls_io.values.errors import LedgerBroken


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


def unproven(place: Place, shards: Collection[int]) -> dict[int, int]:
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
    back = way_back(place.table, known=files)
    to_back = (commands.rollback(back.id),) if back is not None else ()
    what = f"shard {min(rows)} of {origin}" if rows else origin
    return LedgerBroken(
        f"{what} holds other rows in {place.name} than its ledger says; nothing was changed",
        cures=(commands.VERIFY_PULL, *to_back, *option),
    )
