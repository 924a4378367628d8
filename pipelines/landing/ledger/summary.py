"""What the summary of one snapshot says: windows of its landing, ledgers, rows adopted or forgotten.

Whether the table around it fits is asked in `state.py`.
"""

from collections.abc import Mapping

from pyiceberg.expressions import In
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing.ledger import codec
from pipelines.landing.ledger.reading import live_rows
from pipelines.landing.ledger.values import Adopted, Deed, Forgotten, Landed
from sls_io.values.claim import Ledger
from sls_io.values.errors import Breach, LedgerBroken

_DIGITS_MAX = 20
"""Digits of a number in a summary that another engine may have written: a long has fewer."""


def summary_of(snapshot: Snapshot | None) -> Mapping[str, str]:
    """The properties in a snapshot's summary; none for no snapshot."""
    if snapshot is None or snapshot.summary is None:
        return {}
    return snapshot.summary.additional_properties


def summary_bytes(snapshot: Snapshot) -> int:
    """About what a snapshot's summary takes in the table's metadata, which each commit writes whole."""
    return sum(len(name) + len(text) for name, text in summary_of(snapshot).items())


def windows_of(snapshot: Snapshot | None) -> tuple[str, tuple[Landed, ...]]:
    """The windows that a landing brought, and the id of their logstore; "" and none for other snapshots, and
    for a text that is damaged: `facts` stops at the newest landing's, and no older one decides anything."""
    try:
        return check_windows(snapshot)
    except LedgerBroken:
        return "", ()


def check_windows(snapshot: Snapshot | None) -> tuple[str, tuple[Landed, ...]]:
    """The same, but raises LedgerBroken for a damaged text."""
    return codec.decode_windows(summary_of(snapshot).get(codec.WINDOWS_KEY, ""))


def is_landing(snapshot: Snapshot) -> bool:
    """Whether it carries a ledger, as every landing and every settling commit does."""
    return any(name.startswith(codec.LEDGER_PREFIX) for name in summary_of(snapshot))


def ledgers_of(snapshot: Snapshot | None, *, damaged_too: bool = False) -> dict[str, Ledger]:
    """The ledgers in a snapshot's summary; raises and leaves out as `facts` does."""
    found: dict[str, Ledger] = {}
    for name, text in summary_of(snapshot).items():
        if not name.startswith(codec.LEDGER_PREFIX):
            continue
        origin = name.removeprefix(codec.LEDGER_PREFIX)
        try:
            found[origin] = codec.decode(origin, text)
        except LedgerBroken as error:
            if not (damaged_too and error.kind is Breach.DAMAGED):
                raise
    return found


def adopted_of(snapshot: Snapshot | None, *, damaged_too: bool = False) -> Adopted:
    """The adopted rows in a snapshot's summary; raises and leaves out as `facts` does."""
    try:
        return codec.decode_adopted(summary_of(snapshot).get(codec.ADOPTED_KEY, ""))
    except LedgerBroken as error:
        if not (damaged_too and error.kind is Breach.DAMAGED):
            raise
        return Adopted()


def forgotten_of(snapshot: Snapshot | None, *, damaged_too: bool = False) -> Forgotten:
    """The forgotten rows in a snapshot's summary; raises and leaves out as `facts` does."""
    try:
        return codec.decode_forgotten(summary_of(snapshot).get(codec.FORGOTTEN_KEY, ""))
    except LedgerBroken as error:
        if not (damaged_too and error.kind is Breach.DAMAGED):
            raise
        return Forgotten()


def total_records(snapshot: Snapshot | None) -> int | None:
    """Rows in the files of `snapshot` as its summary says, also those that row-level deletes hide; None where
    it does not say."""
    return total_of(snapshot, "total-records")


def least_rows(snapshot: Snapshot | None) -> int | None:
    """Rows that `snapshot` shows at the least, as its summary says; None where it does not say.

    Two deletes may hide the same row, or one that a rewrite took away. Those by value count as hiding none.

    Worked example: files hold 100 rows, row-level deletes name 30 of them: at least 70 are shown. If two of
    these name the same row there are 71, so more than is known proves foreign rows, and fewer prove nothing
    yet.
    """
    rows = total_records(snapshot)
    return None if rows is None else max(0, rows - (total_of(snapshot, "total-position-deletes") or 0))


def total_of(snapshot: Snapshot | None, name: str) -> int | None:
    """A number of the summary; None where it is missing or no plain number."""
    return plain_number(summary_of(snapshot).get(name, ""))


def plain_number(text: str) -> int | None:
    """A number that another engine, or somebody by hand, may have written; None where it is none."""
    plain = text.isascii() and text.isdigit() and len(text) < _DIGITS_MAX
    return int(text) if plain else None


def deed_in(snapshot: Snapshot) -> Deed | None:
    """What a person or a maintenance did, where no landing made the snapshot; None of a landing."""
    return codec.decode_deed(summary_of(snapshot).get(codec.VERB_KEY, ""))


def known_rows(ledgers: Mapping[str, Ledger], adopted: Adopted) -> int:
    """How many rows the ledgers and the adopted rows explain."""
    return adopted.rows + sum(e.rows for ledger in ledgers.values() for e in ledger.shards.values())


def missing_rows(
    table: Table, snapshot: Snapshot, rows: int, ledgers: Mapping[str, Ledger], adopted: Adopted
) -> int:
    """How many fewer rows a snapshot shows (`rows`) than its ledgers and adopted rows explain; below 0 when
    it shows more. Raises as `reading.py` does.

    Story: another engine marks rows as deleted, and a person adopts what is left. Adopting once counted
    the hidden rows, too, and kept them as rows of nobody; counted as lost they would keep the maintenance
    off the table for ever. They explain only what is lacking of rows of nobody.
    """
    known, hidden = known_rows(ledgers, adopted), (total_records(snapshot) or 0) - rows
    if rows >= known or not adopted.others or hidden <= 0:
        return known - rows
    origins = {*ledgers, *(origin for origin, _ in adopted.shards)}
    ours = live_rows(table, snapshot.snapshot_id, where=In(term="__origin__", literals=origins))
    lacking = adopted.others - (rows - ours)
    return known - adopted.others - ours + (lacking if lacking < 0 else max(0, lacking - hidden))
