"""Rows read again with the contract of today, from what the table keeps of them; the service is not asked.

    errors   rows that could not be represented exactly, from the log's own bytes: after a contract was mended
    rest     the others, from `__rest__`: after a column was declared for a key that came before it; and all
             rows, after a key was declared `drop` or `hash`

Rows that turn out to have a value that may not land leave, and are counted as a landing counts them.

How they are read stands in `contents/kept.py` and `contents/rest.py`. The identities stay, so the ledger
stays too, but for rows that leave. Asked a second time it finds nothing that would change.

Why not land the hours again: the service may have them no more, and it is not needed. A row with an error
keeps the log's own bytes, and any other row keeps in `__rest__` what no column took. So a mend reads the
files that have such rows and pulls nothing, however long retention has been over.

Why the ledger may stay as it is: rows are summed over shard, cursor and index, which a mend never changes. A
file that had 1,000 rows has 1,000 after it, or fewer by exactly those that may not land; all else is
InvariantBroken before anything is committed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression, NotNull
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.barring import Barring
from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Planned, Tools
from pipelines.landing.contents import cells, kept, rest, rewrite, slices
from pipelines.landing.contents.spread import each_file, unless_wrong
from pipelines.landing.hours import hours_text, spans
from pipelines.landing.ledger.barred import barring_of, bars_of
from pipelines.landing.ledger.place import Place, look
from pipelines.landing.ledger.reading import live_rows
from pipelines.landing.ledger.state import held_columns
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.contract import Contract, partition_of, rows_of
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.names import protected_keys
from pipelines.landing.transform import Transform
from sls_io.values.cures import Cure
from sls_io.values.errors import ConfigError, InvariantBroken, LandingConflict
from sls_io.wire.client import SlsClient

Kept = Literal["errors", "rest"]
"""Which rows, and what they are read from."""
_ABOUT: dict[Kept, str] = {
    "errors": "with an error",
    "rest": "with declared keys in __rest__, or plain values of drop and hash keys",
}
_OPERATIONS: dict[Kept, Operation] = {"errors": Operation.ERRORS, "rest": Operation.REST}


@dataclass(frozen=True)
class Mend(Effect):
    """What `backfill --mode errors`, or `rest`, would do.

    rows     rows of these hours with an error; with a declared key in `__rest__`, or a plain value of a key
             that is `drop` or `hash`
    mended   those that would have none any more; `changed` counts those, too, that keep another one
    files    files that would be written anew
    barred   rows that would leave, since they turn out to have a value that may not land
    unread   rows of these hours with an error, where only others are read again; their hours `reread`
    left     cause -> rows that would still have it
    protects keys that the table has as drop or hash from then on, and had not
    """

    QUIET = frozenset({"unread", "reread", "protects"})

    mode: Kept
    table: str
    origin: str
    rows: int
    mended: int
    changed: int
    files: int
    left: dict[str, int]
    barred: int = 0
    unread: int = 0
    reread: str = ""
    protects: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        return f"{self.table}: rows of these hours {_ABOUT[self.mode]}, read again with today's contract"

    def said(self) -> Iterable[Note]:
        if self.unread:
            yield Note(
                f"rows of these hours with an error: {self.unread:,}; their columns are filled from the "
                "bytes that they keep, and not by this",
                "warn",
            )
        if self.protects:
            yield Note(
                "from then on nothing lands by settings that do not say drop or hash of "
                f"{', '.join(self.protects)}"
            )

    def then(self) -> Iterable[Cure]:
        does = "reads rows with an error again"
        return (commands.of_hours(commands.ERRORS, self.reread, does),) if self.reread else ()


_NONE: Mapping[str, int] = {}


class _Tried(NamedTuple):
    """How many rows of a file are looked at, have no error any more, change at all; what they still have; how
    many of them may not land."""

    rows: int = 0
    mended: int = 0
    changed: int = 0
    left: Mapping[str, int] = _NONE
    barred: int = 0

    def plus(self, more: "_Tried") -> "_Tried":
        """Those of more rows, too."""
        return _Tried(
            self.rows + more.rows,
            self.mended + more.mended,
            self.changed + more.changed,
            Counter(self.left) + Counter(more.left),
            self.barred + more.barred,
        )


class _Made(NamedTuple):
    """A file written anew, if a row of it is left, and the cells of the rows that leave."""

    file: DataFile | None
    leaving: cells.Cells


@dataclass(frozen=True)
class _Rereading:
    """How rows of these receive hours are read again, wherever it is done: called with the table and a file,
    it writes that anew in the columns of `schema`. `cut`: the edges of the ledger.

    Where files are many it is pickled and sent to Spark's workers, so it holds settings and values only, and
    the reader is made where it reads. The same value does the dry run (`tried`) and the work, so what was
    shown is what is done.
    """

    mode: Kept
    logstore: Logstore
    origin: str
    hours: range
    schema: Schema
    barring: Barring
    cut: cells.Edges

    @property
    def reader(self) -> kept.RowReader:
        """What reads a row again. Raises ConfigError where the settings forbid it."""
        logstore, origin = self.logstore, self.origin
        contract, transform = Contract.from_columns(logstore.columns), Transform(logstore.transform)
        if self.mode == "errors":
            return _OwnRows(kept.FromBytes(contract, origin, self.schema, transform), origin, self.hours)
        # Of a row without an error nothing is kept from before the transform: one that halves a number would
        # halve it twice. `__raw__` is from before it, so rows with errors are read again through it.
        if logstore.transform:
            raise ConfigError(
                f"the settings of {logstore.name} have a transform, and it has made these rows what they "
                "are: it cannot be called on them twice",
                cures=(commands.of_hours(commands.REPLACE, spans(self.hours)[0], "lands the hours again"),),
            )
        return _OwnRows(rest.FromRest(contract), origin, self.hours)

    @property
    def wanted(self) -> BooleanExpression:
        """Rows that may be read again, as far as a filter tells."""
        return And(rows_of(self.origin, self.hours), self.reader.about)

    def all_tried(self, table: Table, tasks: list[FileScanTask]) -> Iterator[_Tried]:
        """As `tried`, of each file in order. Raises the first error of one."""
        return unless_wrong(each_file(table, tasks, self.tried))

    def tried(self, table: Table) -> Callable[[FileScanTask], _Tried]:
        """What reading the rows of a file again comes to; nothing is written."""
        reader = self.reader

        def of(task: FileScanTask) -> _Tried:
            tried = _Tried()
            for batch in rewrite.read(table, [task], self.schema, reader.about):
                chosen = batch.filter(reader.chosen(batch))
                if not chosen.num_rows:
                    continue
                again = reader.again(chosen)
                barred = pc.sum(self.barring.taken(again.batch)).as_py() or 0
                tried = tried.plus(_Tried(again.rows, again.mended, again.changed, again.left, barred))
            return tried

        return of

    def __call__(self, table: Table, task: FileScanTask) -> _Made:
        leaving = list[cells.Identities]()
        again = map(partial(kept.mended, self.reader), rewrite.read(table, [task], self.schema))
        file = rewrite.write(table, self.origin, task, self.schema, self._sifted(again, leaving))
        rows = sum(len(part.cursors) for part in leaving) + (file.record_count if file else 0)
        # Counted are the rows that stay and those that leave. With row-level deletes the manifest counts rows
        # that are hidden, so its number says nothing; but a file of which nothing at all is read was not
        # chosen for that.
        if rows == 0 or (not task.delete_files and rows != task.file.record_count):
            name = ".".join(table.name())
            raise InvariantBroken(f"a file of {name} has other rows after they were read again")
        return _Made(file, cells.cells_in(leaving, self.cut))

    def _sifted(
        self, batches: Iterable[pa.RecordBatch], leaving: list[cells.Identities]
    ) -> Iterator[pa.RecordBatch]:
        """The rows without those of the logstore that may not land, which join `leaving`."""
        for batch in batches:
            mine = pc.fill_null(pc.equal(batch.column("__origin__"), self.origin), False)
            taken = pc.and_(mine, self.barring.taken(batch))
            gone = batch.filter(taken)
            leaving.extend(cells.apart(gone) if gone.num_rows else ())
            yield batch.filter(pc.invert(taken)) if gone.num_rows else batch


@dataclass(frozen=True)
class _Mending:
    """Files of the table that was looked at, `tasks`, whose rows change when they are read again. `look`
    gives the table as it is later."""

    place: Place
    look: Callable[[], Place]
    rereading: _Rereading
    evolved: bool
    tasks: tuple[FileScanTask, ...]

    def work(self, view: Mend, tools: Tools) -> Planned[Mend]:
        """Write them anew."""
        place, asked = self.place, self.rereading
        made = rewrite.each(place.table, self.tasks, asked)
        files = tuple(each.file for each in made if each.file is not None)
        leaving = slices.sorted_by(place.ledger, (cell for each in made for cell in each.leaving))
        deed = Deed(_OPERATIONS[asked.mode], hours_text(asked.hours))
        change_on = partial(self._change_on, deed, files, leaving)
        return rewrite.with_files(view, place, self.tasks, change_on, self.look)

    def _change_on(
        self,
        deed: Deed,
        files: tuple[DataFile, ...],
        leaving: slices.Slice,
        now: Place,
    ) -> authored.Change:
        """The change on the table as it is by now.

        Story: a person bars a value while rows are read again. The files were sifted by the bars of before,
        and would bring rows with that value back into a table that says there are none. Raises
        LandingConflict then, also where rows came that would change, and LedgerBroken for rows that leave
        and that nothing explains.
        """
        if bars_of(now.state, now.origin) != bars_of(self.place.state, now.origin):
            raise LandingConflict(
                f"somebody decided meanwhile what may land in {now.name}; nothing was changed, run it again"
            )
        rewrite.check_none_came(self.place, now, self.rereading.wanted, partial(self._changing, now))
        slices.check_explained(now, leaving, adopted_too=True)
        ledger = slices.lowered(now.ledger, leaving.landed)
        return authored.Change(
            content=now.head,
            ledgers={**now.state.ledgers, ledger.origin: ledger},
            adopted=slices.without_adopted(now.state.adopted, leaving),
            deed=deed,
            forgotten=slices.barred(now.state.forgotten, leaving),
            dropped=frozenset(task.file.file_path for task in self.tasks),
            added=files,
            window_origin=self.place.origin.id,
            schema=self.rereading.schema if self.evolved else None,
            same_rows=not self.tasks,
            properties=self.rereading.logstore.protection(now.table.properties),
        )

    def _changing(self, now: Place, tasks: list[FileScanTask]) -> int:
        """How many rows of these files would change, too: none of a landing under today's contract."""
        return sum(tried.changed for tried in self.rereading.all_tried(now.table, tasks))


def plan_mend(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    hours: range,
    *,
    kept_in: Kept = "errors",
) -> Planned[Mend]:
    """Read the rows of these receive hours and try today's contract. Changes nothing.

    Raises ConfigError for a contract that the table cannot follow, LedgerBroken when the table cannot
    be trusted.
    """
    place = look(lake, logstore, client)
    contract = Contract.from_columns(logstore.columns)
    logstore.protection(place.table.properties)
    evolved = contract.evolved(place.table.metadata, held_columns(place.table))
    schema = evolved or place.table.schema()
    barring, cut = barring_of(place.state, place.origin, contract, schema), cells.edges([place.ledger])
    rereading = _Rereading(kept_in, logstore, place.origin.id, hours, schema, barring, cut)
    there, tasks, whole = rewrite.files_of(place, rereading.wanted), list[FileScanTask](), _Tried()
    for task, found in zip(there, rereading.all_tried(place.table, there), strict=True):
        whole = whole.plus(found)
        # A file in which nothing would change is not written anew, though rows of it were looked at: that is
        # why a second time finds nothing to do. Of a file that is written anew the rows that row-level
        # deletes hide do not come along.
        if found.changed:
            _check_accounted(place, task)
            tasks.append(task)
    errors = And(slices.mine(place, hours), NotNull(term="__error__"))
    unread = live_rows(place.table, where=errors) if kept_in == "rest" else 0
    hides = logstore.protected if kept_in == "rest" else frozenset[str]()
    protects = tuple(sorted(hides - protected_keys(place.table.properties, logstore.service.full_name)))
    view = Mend(
        kept_in,
        place.name,
        place.origin.id,
        whole.rows,
        whole.mended,
        whole.changed,
        len(tasks),
        dict(Counter(whole.left).most_common()),
        whole.barred,
        unread,
        spans(hours)[0] if unread else "",
        protects,
    )
    if not (tasks or protects):
        return Planned(view, place, None, nothing=f"no row of these hours of {view.table} would change")
    later = partial(look, lake, logstore, client)
    mending = _Mending(place, later, rereading, evolved is not None, tuple(tasks))
    return Planned(view, place, None, work=partial(mending.work, view))


class _OwnRows:
    """As `reader`, of the rows of one logstore and of these receive hours only.

    Story: another engine partitions the table anew, and a file holds rows of two logstores. One of them
    declares a key `drop`; read again by its contract, the rows of the other one lost theirs, for good.
    """

    def __init__(self, reader: kept.RowReader, origin: str, hours: range) -> None:
        self._reader, self._origin, self._hours = reader, origin, hours
        self.about = reader.about
        self.again = reader.again

    def chosen(self, batch: pa.RecordBatch) -> pa.Array:
        at = cells.receive_hours(batch)
        inside = pa.array((at >= self._hours.start) & (at < self._hours.stop))
        own = pc.and_(pc.equal(batch.column("__origin__"), self._origin), inside)
        return pc.and_(self._reader.chosen(batch), own)


def _check_accounted(place: Place, task: FileScanTask) -> None:
    """Raises ConfigError for a file whose partition says values of its rows: read again, they may differ."""
    table = place.table
    try:
        spec, name = table.specs()[task.file.spec_id], ".".join(table.name())
        partition_of(spec, table.schema(), table=name, origin="", shard=0, hour=0)
    except ConfigError as error:
        raise ConfigError(
            f"{error}; then let that engine write its files anew (rewrite_data_files)"
        ) from error
