"""How much a table has grown since it was maintained, from its metadata and one small file."""

from dataclasses import dataclass

from pyiceberg.table import Table

from pipelines.landing.bounds import UpkeepSettings
from pipelines.landing.ledger import codec
from pipelines.landing.ledger.reading import manifests_of
from pipelines.landing.ledger.state import ancestry
from pipelines.landing.ledger.summary import summary_of
from pipelines.landing.ledger.values import Operation

_DIGITS_MAX = 20


@dataclass(frozen=True, slots=True)
class Wear:
    """`files`: data files that came since the newest compaction, as far as snapshots are kept; `snapshots`
    of the table; `manifests` of its newest snapshot."""

    files: int = 0
    snapshots: int = 0
    manifests: int = 0

    def over(self, bounds: UpkeepSettings) -> tuple[str, ...]:
        """The bounds that are passed, by name."""
        return tuple(
            name
            for name in ("files", "snapshots", "manifests")
            if 0 < getattr(bounds, name) < getattr(self, name)
        )


def wear(table: Table | None) -> Wear:
    """How the table stands. Raises as `reading.py` does."""
    if table is None or table.current_snapshot() is None:
        return Wear()
    files = 0
    for snapshot in ancestry(table):
        summary = summary_of(snapshot)
        deed = codec.decode_deed(summary.get(codec.VERB_KEY, ""))
        if deed is not None and deed.operation is Operation.COMPACT:
            break
        files += _number(summary.get("added-data-files", ""))
    return Wear(files, len(table.metadata.snapshots), len(manifests_of(table, table.current_snapshot())))


def _number(text: str) -> int:
    """Of a summary that another engine may have written."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS_MAX else 0
