"""How many rows of the newest receive hours have an error, and the most frequent causes.

Rows and errors of an hour come from the manifests alone, where each file says how many values of
`__error__` are null: milliseconds, and no data is read. Causes are counted over a sample.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from pyiceberg.expressions import And, NotNull
from pyiceberg.table import Table

from pipelines.landing.ledger.reading import batches_of, tasks_of
from pipelines.landing.ledger.state import read_state
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.bounded_scan import BoundedScan
from pipelines.landing.table.contract import hour_place, received_in
from pipelines.landing.table.lake import Lake
from sls_io.decoding.causes import listed
from sls_io.window import HOUR_S

HOURS = 24
"""Receive hours that are looked at: what was wrong days ago is no news."""
SAMPLE_ROWS = 10_000
CAUSES_SHOWN = 5


@dataclass(frozen=True)
class HourErrors:
    """Rows of one receive hour in the table, and those of them with an error."""

    rows: int = 0
    errors: int = 0

    @property
    def share(self) -> float:
        """Part of the rows that has an error, 0 to 1."""
        return self.errors / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class ErrorRows:
    """Receive hour (since 1970) -> its rows and errors; the worst hour, None where there are no rows.

    causes   cause -> rows of the sample that have it, of the worst hour, most frequent first
    sample   rows that were read for it
    """

    hours: Mapping[int, HourErrors]
    worst: int | None = None
    causes: Mapping[str, int] | None = None
    sample: int = 0


def error_rows(logstore: Logstore, lake: Lake) -> ErrorRows:
    """The newest hours of the table, up to the newest that any shard has reached.

    Files whose writer counted no nulls are left out. Raises LedgerBroken when the table cannot be read.
    """
    table = lake.load(logstore.table)
    if table is None or table.current_snapshot() is None:
        return ErrorRows({})
    shards = [entry for ledger in read_state(table).ledgers.values() for entry in ledger.shards.values()]
    newest = max((entry.reached_s // HOUR_S for entry in shards), default=0)
    # Rows may be in the hour after the newest that is reached: a run may stop in it.
    found = by_hour(table, newest - HOURS + 1, newest + 2)
    worst = max(found, key=lambda hour: (found[hour].share, hour), default=None)
    if worst is None or not found[worst].errors:
        return ErrorRows(found, worst)
    only = And(received_in(range(worst, worst + 1)), NotNull(term="__error__"))
    scan = table.scan(row_filter=only, selected_fields=("__error__",))
    reader = BoundedScan(table.metadata, table.io, scan.projection(), only)
    batches = (batch for task in tasks_of(table, scan) for batch in batches_of(table, reader, task))
    texts = (text for batch in batches for text in batch.column("__error__").to_pylist())
    sample = list(islice(texts, SAMPLE_ROWS))
    causes = Counter(part for text in sample for part in listed(text))
    return ErrorRows(found, worst, dict(causes.most_common(CAUSES_SHOWN)), len(sample))


def by_hour(table: Table, first: int, stop: int) -> dict[int, HourErrors]:
    """Of each receive hour first..stop (not included) that has rows. Raises LedgerBroken as above."""
    field = table.schema().find_field("__error__").field_id
    places = {number: hour_place(spec, table.schema()) for number, spec in table.specs().items()}
    found: dict[int, HourErrors] = {}
    for task in tasks_of(table, table.scan(row_filter=received_in(range(max(0, first), max(0, stop))))):
        place, nulls = places[task.file.spec_id], (task.file.null_value_counts or {}).get(field)
        if place is None or nulls is None:
            continue
        hour, rows = int(task.file.partition[place]), task.file.record_count
        before = found.get(hour, HourErrors())
        found[hour] = HourErrors(before.rows + rows, before.errors + rows - nulls)
    return found
