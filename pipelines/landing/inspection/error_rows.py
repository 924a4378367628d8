"""How many rows of the newest receive hours have an error, and the most frequent causes.

Rows and errors of an hour come from the manifests alone, where each file says how many values of
`__error__` are null: milliseconds, and no data is read. Causes are counted over a sample.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice

from pyiceberg.expressions import And, BooleanExpression, In, NotNull
from pyiceberg.table import Table

from pipelines.landing.ledger.reading import batches_of, entries_where, tasks_of
from pipelines.landing.ledger.state import origins_named, read_state
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.bounded_scan import BoundedScan
from pipelines.landing.table.contract import hour_place, origin_place, received_in
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.object_store import one_after_another
from sls_io.decoding.causes import UNNAMED, counted
from sls_io.values.window import HOUR_S

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


def share_text(share: float) -> str:
    """A part of the rows (0 to 1) in percent, for the eye: with one decimal, and with so many more that
    neither few nor all but few look like none: `0.04%`, `99.96%`."""
    percent = 100 * share
    least = min(percent, 100 - percent)
    decimals = 1 if least <= 0 or least >= 1 else 1 - math.floor(math.log10(least))
    text = f"{percent:.{decimals}f}"
    whole, _, part = text.partition(".")
    return f"{whole}.{part.rstrip('0') or '0'}%"


@dataclass(frozen=True)
class ErrorRows:
    """Receive hour (since 1970) -> its rows and errors; the worst hour, None where there are no rows.

    origins  ids of the logstore in the table, whose rows these are
    causes   cause -> rows of the sample that have it, of the worst hour, most frequent first; last, whatever
             its rank, the number of rows with more causes than they name: the others are then lower bounds
    sample   rows that were read for it
    """

    hours: Mapping[int, HourErrors]
    worst: int | None = None
    origins: tuple[str, ...] = ()
    causes: Mapping[str, int] | None = None
    sample: int = 0


def error_rows(logstore: Logstore, lake: Lake) -> ErrorRows:
    """The newest hours of the logstore in its table, up to the newest that any of its shards has reached.

    Story: two logstores share a table, and one of them sends what no column takes. The other one's check must
    not be red for it. Which rows are its own is known without the service, by project and logstore.
    Files whose writer counted no nulls are left out. Raises LedgerBroken when the table cannot be read.
    """
    table = lake.load(logstore.table)
    if table is None or table.current_snapshot() is None:
        return ErrorRows({})
    state = read_state(table, newest=False)
    origins = origins_named(state, logstore.service.project, logstore.service.logstore)
    shards = [entry for name in origins for entry in state.ledger(name).shards.values()]
    newest = max((entry.reached_s // HOUR_S for entry in shards), default=0)
    # Rows may be in the hour after the newest that is reached: a run may stop in it.
    found = by_hour(table, origins, newest - HOURS + 1, newest + 2)
    worst = max(found, key=lambda hour: (found[hour].share, hour), default=None)
    if worst is None or not found[worst].errors:
        return ErrorRows(found, worst, origins)
    only = And(_of(origins, range(worst, worst + 1)), NotNull(term="__error__"))
    scan = table.scan(row_filter=only, selected_fields=("__error__",))
    reader = BoundedScan(table.metadata, table.io, scan.projection(), only)
    tasks = one_after_another(table.io, tasks_of(table, scan))
    batches = (batch for task in tasks for batch in batches_of(table, reader, task))
    texts = (text for batch in batches for text in batch.column("__error__").to_pylist())
    sample = list(islice(texts, SAMPLE_ROWS))
    causes = Counter(cause for text in sample for cause in counted(text))
    unnamed = {cause: causes.pop(cause) for cause in UNNAMED if cause in causes}
    return ErrorRows(found, worst, origins, dict(causes.most_common(CAUSES_SHOWN)) | unnamed, len(sample))


def by_hour(table: Table, origins: Collection[str], first: int, stop: int) -> dict[int, HourErrors]:
    """Of each receive hour first..stop (not included) that has rows of these origins. Raises LedgerBroken as
    above."""
    field = table.schema().find_field("__error__").field_id
    specs, schema = table.specs().items(), table.schema()
    places = {number: (hour_place(spec, schema), origin_place(spec, schema)) for number, spec in specs}
    hours = range(max(0, first), max(0, stop))
    found: dict[int, HourErrors] = {}
    if not origins:
        return found
    for entry in entries_where(table, _of(origins, hours)):
        file = entry.data_file
        (place, owner), partition = places[file.spec_id], file.partition
        nulls = (file.null_value_counts or {}).get(field)
        # A file of a partitioning by hand may hold rows of others, too: it does not say whose errors.
        if place is None or owner is None or nulls is None or partition[owner] not in origins:
            continue
        # A manifest may list other hours beside those that are asked for, and files of nobody's.
        if (hour := partition[place]) not in hours:
            continue
        rows = file.record_count
        # `__error__` is null where a row is whole: of 1,000 rows with 996 nulls 4 have an error.
        before = found.get(hour, HourErrors())
        found[hour] = HourErrors(before.rows + rows, before.errors + rows - nulls)
    return found


def _of(origins: Collection[str], hours: range) -> BooleanExpression:
    return And(In(term="__origin__", literals=set(origins)), received_in(hours))
