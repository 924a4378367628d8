"""Whether the rows of a logstore are those that its ledger knows, and not only as many.

Story: a row of one hour is deleted by hand, one that nobody landed is appended to another. The count is
right. Taking the other hour back would lower the ledger by a row that it never knew, and removing rows for
good would burn the ways by which the first one could come back. It reads the identity columns of the whole
logstore: the price of a decision that cannot be taken back.
"""

from collections.abc import Collection
from itertools import islice

from pyiceberg.table import Table

from pipelines.landing.contents.explained import holds, proves
from pipelines.landing.contents.tally import Tally, tally
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.reading import Misread
from pipelines.landing.ledger.state import ways_back
from pipelines.landing.ledger.summary import adopted_of, ledgers_of
from pipelines.landing.table import calls
from sls_io.values.errors import LedgerBroken

_TRIES_MAX = 5
"""At most so many landings are read row by row in search of a way back."""


def way_back(table: Table, lost: Collection[str] = ()) -> int | None:
    """The newest landing that `table rollback` accepts and whose rows are those that its ledgers know;
    None when metadata or storage has none. `lost` are paths of files that are known to be gone or damaged.

    Story: a row is deleted by hand, a foreign one is appended, a landing follows. It has as many rows as its
    ledger says; back to it, nothing is better.
    """
    return next((s for s in islice(ways_back(table, lost=lost), _TRIES_MAX) if _proven(table, s)), None)


def _proven(table: Table, snapshot_id: int) -> bool:
    snapshot = table.snapshot_by_id(snapshot_id)
    adopted = adopted_of(snapshot)
    for origin, ledger in ledgers_of(snapshot).items():
        try:
            shards, unreadable = tally(table, origin, ledger, snapshot_id=snapshot_id)
        except (LedgerBroken, Misread):
            return False
        tallies = {(origin, shard): each for shard, each in shards.items()}
        if unreadable or not proves(ledger, adopted, tallies):
            return False
    return True


def check_same(place: Place) -> None:
    """Raises LedgerBroken when a shard of the logstore holds other rows than its ledger says."""
    tallies, unreadable = tally(place.table, place.origin.id, place.ledger)
    if unreadable:
        return  # in an hour that stays: those that leave were read
    for shard, entry in sorted(place.ledger.shards.items()):
        if not holds(tallies.get(shard, Tally()), entry, place.state.adopted.of(place.origin.id, shard)):
            back = way_back(place.table)
            raise LedgerBroken(
                f"shard {shard} holds other rows in {place.name} than its ledger says; nothing was changed",
                cures=(calls.VERIFY_PULL, *((calls.rollback(back),) if back is not None else ())),
            )


def check_all_same(place: Place) -> None:
    """As `check_same`, for every logstore of the table."""
    for origin in sorted(set(place.state.ledgers) & set(place.state.origins)):
        check_same(place.of(origin))
