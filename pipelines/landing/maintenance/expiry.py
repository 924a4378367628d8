"""Which snapshots leave the metadata: of many the old ones; what left with them. `maintain.py` commits it."""

from collections.abc import Collection, Mapping
from itertools import islice

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH

from pipelines.landing.ledger.codec import TAG
from pipelines.landing.ledger.state import ancestry
from pipelines.landing.ledger.summary import summary_bytes
from pipelines.landing.table import former

SNAPSHOTS_MAX, SNAPSHOTS_MIN = 200, 20
LEDGER_BYTES_MAX = 20_000_000
KEPT = (
    f"{SNAPSHOTS_MAX}, or as many as have {LEDGER_BYTES_MAX // 10**6} MB of ledgers, but at least "
    f"{SNAPSHOTS_MIN}"
)
"""How many are kept where nobody says, in words."""


def affordable(table: Table) -> int:
    """How many snapshots of main stay where nobody says: `SNAPSHOTS_MAX`, or as many as have at most
    `LEDGER_BYTES_MAX` of ledgers, but `SNAPSHOTS_MIN` in any case.

    Each commit writes the ledgers of all kept snapshots, and whoever opens the table reads them. Worked
    example: a landing of 1,024 shards leaves 120 kB, so 166 stay, 14 hours at a landing each five minutes. Of
    10,000 shards 20 stay, with 24 MB.
    """
    size = 0
    for number, snapshot in enumerate(islice(ancestry(table), SNAPSHOTS_MAX)):
        size += summary_bytes(snapshot)
        if size > LEDGER_BYTES_MAX:
            return max(SNAPSHOTS_MIN, number)
    return SNAPSHOTS_MAX


def expired(
    table: Table, snapshots_max: int, coming: int = 0, *, since_ms: float = float("inf")
) -> tuple[int, ...]:
    """Snapshots that leave so that the newest `snapshots_max` of main stay, and on top every ref's, and those
    of `since_ms` and later, however many they are.

    Snapshots that no ref leads to leave first: a rollback put them aside. `coming`: how many commits of ours
    come before, each of which moves main and the tag.

    Story: somebody puts a tag on the table each day. Counted among the 200, the tags of seven months would
    leave main its head alone: no way back, and no run would find its own commit behind an answer that was
    lost.

    Worked example: a landing each five minutes makes 288 snapshots a day. The newest 200 are 17 hours, and
    with a `since_ms` of three days ago 864 stay.
    """
    snapshots, along = table.metadata.snapshots, {MAIN_BRANCH, TAG} if coming else set()
    if len(snapshots) + coming <= snapshots_max:
        return ()
    named = {ref.snapshot_id for name, ref in table.metadata.refs.items() if name not in along}
    kept = named | set(_newest(table, max(0, snapshots_max - coming)))
    # Asked of all snapshots, those beside main, too. Of 230 on main the oldest 30 leave; of 230 with 2 put
    # aside by a rollback the 2 leave and the oldest 28; a tag of somebody's on the fourth keeps that.
    return tuple(s.snapshot_id for s in snapshots if s.snapshot_id not in kept and s.timestamp_ms < since_ms)


def holding(table: Table, snapshots_max: int) -> tuple[str, ...]:
    """Names of somebody's that keep a snapshot with all its files, which would leave without them."""
    newest = set(_newest(table, snapshots_max))
    return tuple(sorted(n for n, ref in table.metadata.refs.items() if ref.snapshot_id not in newest))


def _newest(table: Table, count: int) -> list[int]:
    return [snapshot.snapshot_id for snapshot in islice(ancestry(table), count)]


def left_too(table: Table, leaving: Collection[int]) -> tuple[Mapping[str, int], str]:
    """The refs that left with these snapshots, and the metadata file that still has both. No refs where that
    file cannot be read.

    A ref that was made when the expiry was on its way already: what the catalog changed says whether.
    """
    for entry in reversed(table.metadata.metadata_log):
        try:
            before = former.read(table.io, entry.metadata_file)
        except OSError:
            break
        if before is None or any(s.snapshot_id in leaving for s in before.snapshots):
            refs = before.refs.items() if before else ()
            return {n: ref.snapshot_id for n, ref in refs if ref.snapshot_id in leaving}, entry.metadata_file
    return {}, ""
