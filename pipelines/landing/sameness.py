"""Whether the rows of a logstore are those that its ledger knows, and not only as many.

Story: a row of one hour is deleted by hand, one that nobody landed is appended to another. The count is
right. Taking the other hour back would lower the ledger by a row that it never knew, and removing rows for
good would burn the ways by which the first one could come back. It reads the identity columns of the whole
logstore: the price of a decision that cannot be taken back.
"""

from pipelines.landing.slices import Place, of_origin
from pipelines.landing.tally import Tally, tally
from sls_io.errors import LedgerBroken


def check_same(place: Place) -> None:
    """Raises LedgerBroken when a shard of the logstore holds other rows than its ledger says."""
    tallies, unreadable = tally(place.table, place.origin.id, place.ledger)
    if unreadable:
        return  # in an hour that stays: those that leave were read
    for shard, entry in sorted(place.ledger.shards.items()):
        there, (rows, total) = tallies.get(shard, Tally()), place.state.adopted.of(place.origin.id, shard)
        if (there.rows, there.sum) != (entry.rows + rows, (entry.sum + total) % 2**64):
            raise LedgerBroken(
                f"shard {shard} holds other rows in {place.name} than its ledger says; nothing was changed",
                verb="sls-lake verify --pull, which names the hour to replace; or sls-lake table rollback "
                f"{place.state.tagged} to the newest landing",
            )


def check_all_same(place: Place) -> None:
    """As `check_same`, for every logstore of the table."""
    for origin in sorted(set(place.state.ledgers) & set(place.state.origins)):
        check_same(of_origin(place, origin))
