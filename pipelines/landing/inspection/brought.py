"""What each commit of `main` brought, receive hour by receive hour: what somebody has to be told of.

A run tells what it landed; a run that died behind its commit told nothing, and neither did a verb of the
command line. The table knows all of them, so whoever tells asks it, and not the run.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing.ledger import codec
from pipelines.landing.ledger.state import added_entries, ancestry
from pipelines.landing.ledger.summary import summary_of, windows_of
from pipelines.landing.ledger.values import Landed, Operation
from pipelines.landing.table.contract import hour_place
from sls_io.claim import Ledger
from sls_io.errors import LedgerBroken, SlsError
from sls_io.window import HOUR_S

COMMITS_MAX = 100
"""With 256 shards each ledger takes some milliseconds to read, and a live run reads all of these."""
_REREAD = frozenset({Operation.ERRORS, Operation.REST})
"""They bring no window, and rows of their hours are others since."""


@dataclass(frozen=True, slots=True)
class Brought:
    """One commit. `windows`: by receive hour (since 1970), what landed or was landed again; `hours`: these,
    and those that every open shard has passed with it."""

    snapshot_id: int
    windows: Mapping[int, tuple[Landed, ...]] = field(default_factory=dict)
    hours: frozenset[int] = frozenset()


def brought(table: Table, origin: str) -> Iterator[Brought]:
    """The newest commits of `main`, newest first, and what each brought of the logstore with this id.

    Only a landing passes hours: what a person settles moves frontiers over hours that nobody read. So does a
    gap, over hours that were lost, and nobody knows which: a commit that names one has its hours with rows.
    """
    snapshots = [*islice(ancestry(table), COMMITS_MAX)]
    ledgers = [_ledger(snapshot, origin) for snapshot in snapshots]
    for at, snapshot in enumerate(snapshots):
        deed = codec.decode_deed(summary_of(snapshot).get(codec.VERB_KEY, ""))
        windows = _windows(snapshot, origin)
        hours, now = set(windows), ledgers[at]
        before = next((each for each in ledgers[at + 1 :] if each is not None), None)
        if deed is not None and deed.operation in _REREAD:
            hours |= _written(table, snapshot)
        elif deed is None and now is not None and before is not None and _gaps(now) <= _gaps(before):
            hours = landed_hours(windows, oldest_reached_s([before]), oldest_reached_s([now]) or 0)
        yield Brought(snapshot.snapshot_id, windows, frozenset(hours))


def oldest_reached_s(ledgers: Iterable[Ledger]) -> int | None:
    """The oldest receive time reached over all open shards, or over all shards when none is open
    (a split whose children are not in the table yet). None before first start."""
    shards = [entry for ledger in ledgers for entry in ledger.shards.values()]
    open_shards = [entry for entry in shards if not entry.closed]
    return min((entry.reached_s for entry in open_shards or shards), default=None)


def landed_hours(with_rows: Iterable[int], before_s: int | None, reached_s: int) -> set[int]:
    """Hours with rows, and those that the oldest receive time reached has passed on its way from `before_s`.

    Before the first landing there is no such time. Hours older than the first row are not shown then: the
    history of the table may begin after them.
    """
    rows = set(with_rows)
    first = before_s // HOUR_S if before_s else min(rows, default=reached_s // HOUR_S)
    return rows | complete_hours(range(first, reached_s // HOUR_S + 1), reached_s)


def complete_hours(asked: Iterable[int], reached_s: int) -> set[int]:
    """The asked hours that lie wholly before the receive time reached."""
    return {hour for hour in asked if (hour + 1) * HOUR_S <= reached_s}


def _ledger(snapshot: Snapshot, origin: str) -> Ledger | None:
    text = summary_of(snapshot).get(f"{codec.LEDGER_PREFIX}{origin}")
    try:
        return codec.decode(origin, text) if text is not None else None
    except LedgerBroken:
        return None


def _gaps(ledger: Ledger | None) -> set[tuple[int, int, int]]:
    found = ledger.shards.items() if ledger is not None else ()
    return {(shard, gap.begin, gap.end) for shard, entry in found for gap in entry.gaps}


def _windows(snapshot: Snapshot, origin: str) -> dict[int, tuple[Landed, ...]]:
    of, landed = windows_of(snapshot)
    hours: dict[int, tuple[Landed, ...]] = {}
    for each in landed if of == origin else ():
        hours[each.window.hour] = (*hours.get(each.window.hour, ()), each)
    return hours


def _written(table: Table, snapshot: Snapshot) -> set[int]:
    """Hours of the files that a commit wrote; none where they cannot be read. The words of its deed are for
    people."""
    places = {number: hour_place(spec, table.schema()) for number, spec in table.specs().items()}
    try:
        files = [entry.data_file for entry in added_entries(table, snapshot)]
    except (SlsError, OSError):
        return set()
    placed = [(file, places[file.spec_id]) for file in files]
    return {int(file.partition[place]) for file, place in placed if place is not None}
