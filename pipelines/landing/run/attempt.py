"""One attempt of a run: the table as it was read, and what was written to be published on it.

The step that reads the ledger makes an attempt, the writing step adds rows, a lost race puts the same files
on a newer table. Each step returns a new value. So no step can publish files for a table that was never read,
and the parts of an attempt change together.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from pipelines.landing.barring import Barring
from pipelines.landing.commit import publish
from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.contents.holdings import Asking
from pipelines.landing.contents.slices import check_nowhere
from pipelines.landing.ledger.barred import barring_of, bars_of
from pipelines.landing.ledger.newest_landing import check_adds_up
from pipelines.landing.ledger.place import Place, landable
from pipelines.landing.ledger.start import check_beside, check_origin, origin_text
from pipelines.landing.ledger.state import TableState, read_state
from pipelines.landing.ledger.values import Delta, Landed
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.spark_task import FileRow
from pipelines.landing.run.write import WrittenWindow, job_for, write_windows
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.contract import Contract, partition_of
from pipelines.landing.table.data_files import data_file, unpacked
from sls_io.planning.values import Plan, PlannedWindow
from sls_io.values.claim import Ledger
from sls_io.values.window import IntervalSet, Window
from sls_io.wire.client import Origin


@dataclass(frozen=True)
class Attempt:
    """Files on their way into `table`, which said `base` when it was read.

    id       of all its tries, kept in the snapshot
    origin   the logstore, as the table knows it
    evolved  the table's next schema, with which the files are written; None: it stays
    rows     what was written of each window
    fresh    since when the files lie there
    """

    id: str
    origin: Origin
    table: Table
    base: TableState
    evolved: Schema | None
    fresh: Freshness
    rows: Mapping[Window, WrittenWindow] = field(default_factory=dict)

    @classmethod
    def begun(
        cls, table: Table, logstore: Logstore, origin: Origin, contract: Contract, fresh: Freshness
    ) -> "Attempt":
        """A new attempt on `table` as it is. Raises LedgerBroken when the table's newest landing does not add
        up, or the table cannot be written to; ConfigError when the declared columns do not fit the table, or
        it is another logstore's."""
        base = read_state(table)
        check_beside(base, origin, logstore)
        check_adds_up(table, "nothing was landed and no checkpoint moved")
        found = cls(
            id=uuid.uuid4().hex,
            origin=check_origin(base, origin, logstore.table),
            table=table,
            base=base,
            evolved=landable(logstore, table),
            fresh=fresh,
        )
        found.barring(contract)  # columns of which nobody could tell what may not land are refused, too
        return found

    @property
    def ledger(self) -> Ledger:
        """What the table says of the logstore."""
        return self.base.ledger(self.origin.id)

    @property
    def schema(self) -> Schema:
        """With which files are written."""
        return self.evolved if self.evolved is not None else self.table.schema()

    def write(
        self,
        engine: Engine,
        logstore: Logstore,
        windows: tuple[PlannedWindow, ...],
        *,
        deadline_s: float,
        tag: str,
    ) -> list[WrittenWindow]:
        """Pull these windows into files that nobody sees yet, until `deadline_s` (unix seconds, service):
        each as it ended. `tag` cancels it."""
        job = job_for(
            logstore,
            self.table,
            origin=self.origin.id,
            attempt=self.id,
            windows=windows,
            schema=self.schema,
            deadline_s=deadline_s,
            barring=self.barring(Contract.from_columns(logstore.columns)),
        )
        return write_windows(engine, job, tag=tag)

    def wrote(self, written: Iterable[WrittenWindow], fresh: Freshness) -> "Attempt":
        """With the files of these windows, none of them older than `fresh`."""
        return replace(self, rows={w.landed.window: w for w in written if w.landed}, fresh=fresh)

    @property
    def landed(self) -> tuple[Landed, ...]:
        """The windows that were written, as far as they were proven, in the order of their writing."""
        return tuple(w.landed for w in self.rows.values() if w.landed)

    def on(self, table: Table, logstore: Logstore) -> "Attempt":
        """The same files on the table as it is now; `fits` says whether they can be published there.

        Story: of two logstores with one `table` each finds it empty, and one registers first. Raises
        ConfigError for the other.
        """
        # Its landing was proven when the run began; what came since is a race, not damage.
        base = read_state(table, newest=False)
        check_beside(base, self.origin, logstore)
        return replace(self, table=table, base=base)

    def fits(self, base: TableState, *, fill: bool) -> bool:
        """Whether files written for `base` can be published on this table.

        Files carry the ids of a schema and lie in the partitions of a spec. Under another of either they
        would be read wrongly or not found, so they are left to the sweep.
        """
        same = (self.base.schema_id, self.base.spec_id) == (base.schema_id, base.spec_id)
        # A fill is on its way while a person forgets its hours: planned again, nothing of them is in it.
        then, now = (b.forgotten.before(self.origin.id) for b in (base, self.base))
        # And so are rows that may not land any more: written again, they are left out.
        allowed = bars_of(self.base, self.origin) == bars_of(base, self.origin)
        return same and allowed and not (fill and then != now)

    def barring(self, contract: Contract) -> Barring:
        """What may not land of the files of this attempt. Raises as `barring_of`."""
        return barring_of(self.base, self.origin, contract, self.schema)

    def check_not_there(self, logstore: Logstore, plan: Plan) -> None:
        """Raises RowsElsewhere where rows of the plan's windows lie in another hour of the table.

        Story: rows of an hour were put into the next one by another engine, and the hour was taken back.
        Its cursors count as withdrawn, and the rows are there.
        """
        head, found = self.table.current_snapshot(), dict[int, IntervalSet]()
        for window in (planned.window for planned in plan.windows):
            before = found.get(window.shard, IntervalSet())
            found[window.shard] = before.union([(window.begin, window.end)])
        if head is not None and found:
            place = Place(self.table, self.base, head, logstore, self.origin)
            Asking(place, None).decide(lambda held: check_nowhere(held, found))

    def partition(self, shard: int, hour: int) -> Record:
        """Where rows of a shard and a receive hour (since 1970) lie in the table."""
        name, spec = ".".join(self.table.name()), self.table.spec()
        return partition_of(spec, self.schema, table=name, origin=self.origin.id, shard=shard, hour=hour)

    def file_rows(self, landed: Landed) -> tuple[FileRow, ...]:
        """What the task said of the files of a window."""
        written = self.rows.get(landed.window)
        return written.files if written else ()

    def request(
        self, delta: Delta, ledger: Ledger, *, now_ms: int, properties: Mapping[str, str]
    ) -> publish.Request:
        """One try to publish `delta`, on exactly the table that was read, and to set these properties of it.
        Writes manifests.

        Called anew for each try, on `self.table` as it was loaded last: a snapshot id and the manifests are
        new, the data files are the same. Worked example: two files of 40 MB were written once; a race that is
        lost three times writes four times a manifest of some kilobytes, and no row again.
        """
        return publish.build(
            self.table,
            self.base,
            delta=delta,
            ledger=ledger,
            files=self.files(delta.windows),
            attempt=self.id,
            origin=publish.RegisteredOrigin(self.origin.id, origin_text(self.origin)),
            now_ms=now_ms,
            schema=self.evolved,
            properties=properties,
        )

    def files(self, windows: Iterable[Landed]) -> list[DataFile]:
        """The table's entries of what was written of these windows.

        A window that lost to another landing is not among `windows`, so its files are in no entry: they stay
        where they are, and the sweep takes them. A window without rows has no file, and its cursors land all
        the same.
        """
        return [
            data_file(
                path=row.path,
                size=row.size,
                metrics=unpacked(row.metrics),
                partition=self.partition(landed.window.shard, landed.window.hour),
                spec_id=self.base.spec_id,
            )
            for landed in windows
            for row in self.rows[landed.window].files
        ]
