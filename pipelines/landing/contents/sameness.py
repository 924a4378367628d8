"""Whether the rows of a logstore are those that its ledger knows, and not only as many.

Story: a row of one hour is deleted by hand, one that nobody landed is appended to another. The count is
right. Taking the other hour back would lower the ledger by a row that it never knew, and removing rows for
good would burn the ways by which the first one could come back. It reads the identity columns of the whole
logstore: the price of a decision that cannot be taken back.
"""

from collections.abc import Collection, Mapping
from itertools import islice

from pyiceberg.table import Table

from pipelines.landing.contents.cells import (
    Cell,
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
from pipelines.landing.contents.explained import holds, proves
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.reading import Misread, Unreadable, tasks_of
from pipelines.landing.ledger.state import ways_back
from pipelines.landing.ledger.summary import adopted_of, ledgers_of
from pipelines.landing.table.contract import rows_of
from sls_io.values.errors import LedgerBroken

_TRIES_MAX = 5
"""At most so many landings are read row by row in search of a way back."""


def way_back(
    table: Table, lost: Collection[str] = (), known: Mapping[Shown, Cells] | None = None
) -> int | None:
    """The newest landing that `table rollback` accepts and whose rows are those that its ledgers know;
    None when metadata or storage has none. `lost` are paths of files that are known to be gone or damaged,
    `known` the cells of files that were counted already: what has left main since is all that is read.

    Story: a row is deleted by hand, a foreign one is appended, a landing follows. It has as many rows as its
    ledger says; back to it, nothing is better.
    """
    counted = dict(known or {})
    ways = islice(ways_back(table, lost=lost), _TRIES_MAX)
    return next((s for s in ways if _proven(table, s, counted)), None)


def _proven(table: Table, snapshot_id: int, counted: dict[Shown, Cells]) -> bool:
    """Whether the rows of a landing are those of its ledgers; what is read for it is `counted`."""
    snapshot = table.snapshot_by_id(snapshot_id)
    ledgers, cells = ledgers_of(snapshot), list[Cell]()
    try:
        for task in tasks_of(table, table.scan(snapshot_id=snapshot_id)):
            if partition_origin(table, task.file) in {*ledgers, None}:
                file = shown(task)
                counted[file] = counted.get(file) or cells_of(table, task, {})
                cells += counted[file]
    except (LedgerBroken, Misread):
        return False
    tallies = {key: Tally(*count) for key, count in totals(cells).items()}
    return all(proves(ledger, adopted_of(snapshot), tallies) for ledger in ledgers.values())


def check_same(place: Place) -> None:
    """Raises LedgerBroken when a shard of the logstore holds other rows than its ledger says."""
    mine = place.table.scan(row_filter=rows_of(place.origin.id))
    try:
        counted = count(place.table, tasks_of(place.table, mine), edges([place.ledger]))
    except Unreadable:
        return
    if counted.lost:
        return  # in an hour that stays: those that leave were read
    tallies = counted.shards(place.ledger)
    for shard, entry in sorted(place.ledger.shards.items()):
        if not holds(tallies.get(shard, Tally()), entry, place.state.adopted.of(place.origin.id, shard)):
            back = way_back(place.table)
            or_back = f"; or sls-lake table rollback {back}" if back is not None else ""
            raise LedgerBroken(
                f"shard {shard} holds other rows in {place.name} than its ledger says; nothing was changed",
                verb=f"sls-lake verify --pull, which names the hour to replace{or_back}",
            )


def check_all_same(place: Place) -> None:
    """As `check_same`, for every logstore of the table."""
    for origin in sorted(set(place.state.ledgers) & set(place.state.origins)):
        check_same(place.of(origin))
