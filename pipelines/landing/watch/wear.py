"""How much a table has grown since it was maintained, from its metadata and one small file."""

from dataclasses import asdict, dataclass

from pyiceberg.table import Table

from pipelines.landing.ledger.reading import manifests_of
from pipelines.landing.ledger.state import ancestry
from pipelines.landing.ledger.summary import deed_in, summary_bytes, total_of
from pipelines.landing.ledger.values import Operation
from sls_io.values.errors import amount


@dataclass(frozen=True, slots=True)
class Wear:
    """`files`: data files that came since the newest compaction, as far as snapshots are kept; `snapshots`
    of the table, and what their ledgers and windows take in its metadata; `manifests` of the newest.

    What each costs: many files make every query open more of them; snapshots with their ledgers are read by
    each commit, since they stand in the metadata file; manifests are read by whoever plans a scan.

    Worked example: 2,500 files, 120 snapshots, 30 manifests: `over(WORN)` is ("files",), and a maintenance is
    asked for.
    """

    files: int = 0
    snapshots: int = 0
    manifests: int = 0
    ledger_bytes: int = 0

    def __str__(self) -> str:
        return (
            f"{amount(self.files, 'file')} since the newest compaction, {amount(self.snapshots, 'snapshot')} "
            f"with {self.ledger_bytes / 1e6:,.1f} MB of ledgers, {amount(self.manifests, 'manifest')}"
        )

    @property
    def numbers(self) -> dict[str, int]:
        """Each by its name."""
        return asdict(self)

    def over(self, limits: "Wear") -> tuple[str, ...]:
        """The limits that are passed, by name."""
        return tuple(name for name, number in self.numbers.items() if limits.numbers[name] < number)


WORN = Wear(files=2000, snapshots=400, manifests=200, ledger_bytes=40_000_000)
"""Above these a maintenance is asked for: twice of what one leaves."""


def wear(table: Table | None) -> Wear:
    """How the table stands. Raises as `reading.py` does.

    Counted back to the newest compaction that the table still knows; with none, all that is known.
    """
    if table is None or table.current_snapshot() is None:
        return Wear()
    files = 0
    for snapshot in ancestry(table):
        deed = deed_in(snapshot)
        if deed is not None and deed.operation is Operation.COMPACT:
            break
        files += total_of(snapshot, "added-data-files") or 0
    snapshots = table.metadata.snapshots
    manifests = len(manifests_of(table, table.current_snapshot()))
    return Wear(files, len(snapshots), manifests, sum(map(summary_bytes, snapshots)))
