"""Rows leave a table for good, in one commit: whole files, and rows of files that are written anew.

What is asked for is planned in `forget.py`; here is what it means for files, ledgers and what the table says
from then on. Nothing leaves that came after the look: a commit is made on the table as it is then, and where
other files hold the rows by then, it is refused.

The ledger gives rows and sums away and keeps its intervals. Worked example: [0, 100) is landed with 100 rows,
and 3 of them leave. The ledger says 97 rows in [0, 100), and 3 stand beside it as forgotten. Withdrawn, their
cursors would be landed again by the next backfill of the hour; and a gap would say that the service had lost
them.

What leaves is counted twice: at the look, by which a person says yes, and when the files are written. Where
the two differ it is a bug, InvariantBroken, and nothing is committed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.barring import Bar
from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Planned, Tools
from pipelines.landing.contents import rewrite, slices
from pipelines.landing.contents.holdings import Asking
from pipelines.landing.contents.slices import Slice
from pipelines.landing.contents.where import Where
from pipelines.landing.hours import hour_text, spans
from pipelines.landing.ledger.barred import bars_of
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.values import Deed, Forgotten, Operation
from pipelines.landing.table import commands
from sls_io.values.claim import GAP_SKIPPED, Ledger, ShardLedger
from sls_io.values.cures import Cure
from sls_io.values.errors import InvariantBroken, LandingConflict, printable

UNREAD = (
    "rows with an error that have nothing in a column of the filter: {:,}; what the bytes that they keep say "
    "of it nobody compared"
)
REASON_CHARS_MAX = 200
"""Of the reason that a person gives, which the table keeps for ever."""


@dataclass(frozen=True)
class Forget(Effect):
    """What `table forget` would do.

    what      how the decision is kept in the table: without the values of a filter
    hours     receive hours (since 1970) -> rows of them that leave
    shards    shard -> rows of it that leave
    adopted   how many of the rows were adopted and not landed
    files     files that leave, of which `rewritten` come again without these rows
    before    all receive hours (since 1970) before this one are forgotten, rows or none; 0: only rows
    unlanded  intervals of cursors that were withdrawn or skipped, of whichever hours: what of them is of a
              forgotten hour cannot land any more
    barred    values that may not land from then on, or, where that `ends`, may again
    standing  values of the logstore that may not land now
    unread    rows with an error that have nothing in a column of the filter, of the receive hours `reread`
    """

    WHAT = "{table}: rows of {origin} are to leave for good"
    QUIET = frozenset({"before", "barred", "standing", "unlanded", "unread", "reread"})

    table: str
    origin: str
    what: str
    rows: int = 0
    hours: dict[int, int] = field(default_factory=dict)
    shards: dict[int, int] = field(default_factory=dict)
    adopted: int = 0
    files: int = 0
    rewritten: int = 0
    before: int = 0
    unlanded: int = 0
    barred: int = 0
    ends: bool = False
    standing: int = 0
    unread: int = 0
    reread: str = ""

    @property
    def headline(self) -> str:
        if self.ends:
            return f"{self.table}: rows of {self.origin} with these values are to land again"
        if not (self.rows or self.before or self.barred):
            return f"{self.table}: nothing of {self.origin} is to leave"
        return super().headline

    def said(self) -> Iterable[Note]:
        if self.barred and self.ends:
            yield Note(
                f"{self.barred} values may land again; rows that left stay away until their hours are landed "
                "anew"
            )
        elif self.barred:
            yield Note(f"from then on rows with these {self.barred} values are left out of every landing")
        if self.standing:
            yield Note(f"{self.standing} values may not land in this table now")
        if self.before:
            also = f", nor what is older of {self.unlanded} intervals that were withdrawn or skipped"
            yield Note(
                f"from then on nothing received before {hour_text(self.before)} is landed, by no backfill"
                f"{also * bool(self.unlanded)}",
                "loss",
            )
        if self.what:
            yield Note(f"the table will say of it: {self.what}")
        if self.unread:
            yield Note(UNREAD.format(self.unread), "warn")
        if self.rows:
            yield Note(
                "older snapshots hold the rows until they are expired, and longer under a tag or branch"
            )

    def then(self) -> Iterable[Cure]:
        return read_again(self.reread)


def _unlanded(entry: ShardLedger) -> int:
    """How many intervals of a shard a backfill could still land."""
    return len(entry.withdrawn.pairs) + sum(gap.cause == GAP_SKIPPED for gap in entry.gaps)


@dataclass(frozen=True)
class Removal:
    """What leaves of the table that was looked at: `whole` files, and rows of those that are written anew,
    `partly`. `look` gives the table as it is later, `deed` is what the table says of it. `barred`: what may
    not land from then on."""

    place: Place
    look: Callable[[], Place]
    where: Where | None
    leaving: Slice
    whole: tuple[FileScanTask, ...]
    partly: tuple[FileScanTask, ...]
    deed: Deed
    before: int = 0
    barred: frozenset[Bar] = frozenset()
    salt: str = ""
    unread: Slice = field(default_factory=Slice)

    def planned(self) -> Planned[Forget]:
        """As data. Raises LedgerBroken for rows that nothing explains."""
        slices.check_explained(self.place, self.leaving, adopted_too=True)
        hours, shards = Counter[int](), Counter[int]()
        for cell in self.leaving.cells:
            hours[cell.hour] += cell.rows
            shards[cell.shard] += cell.rows
        view = Forget(
            table=self.place.name,
            origin=self.place.origin.id,
            what=str(self.deed),
            rows=self.leaving.rows,
            hours=dict(sorted(hours.items())),
            shards=dict(sorted(shards.items())),
            adopted=sum(cell.rows for cell in self.leaving.others),
            files=len(self.whole) + len(self.partly),
            rewritten=len(self.partly),
            before=self.before,
            unlanded=sum(map(_unlanded, self.place.ledger.shards.values())) if self.before else 0,
            barred=len(self.barred),
            standing=len(bars_of(self.place.state, self.place.origin)),
            unread=self.unread.rows,
            reread=span_of(self.unread),
        )
        return Planned(view, self.place, None, work=partial(self._work, view))

    def _work(self, view: Forget, tools: Tools) -> Planned[Forget]:
        """Write what stays of the files anew. Rows that land meanwhile are not looked at."""
        place, without = self.place, partial(_without, self.where, self.place.origin.id)
        made = rewrite.each(place.table, self.partly, without)
        files = tuple(file for file, _ in made if file is not None)
        leaving = slices.slice_of(place, self.whole)
        left = leaving.rows + sum(dropped for _, dropped in made)
        if left != view.rows:
            raise InvariantBroken(f"{left} rows of {place.name} would leave, {view.rows} were counted")
        tasks, change_on = (*self.whole, *self.partly), partial(self._change_on, files)
        return rewrite.with_files(view, place, tasks, change_on, self.look)

    def _change_on(self, files: tuple[DataFile, ...], now: Place) -> authored.Change:
        ledger = slices.lowered(now.ledger, self.leaving.landed)
        slices.check_explained(now, self.leaving, adopted_too=True)
        self._check_same_hours(now)
        self._check_none_came(now)
        return authored.Change(
            content=now.head,
            ledgers={**now.state.ledgers, ledger.origin: ledger},
            adopted=slices.without_adopted(now.state.adopted, self.leaving),
            deed=self.deed,
            forgotten=self._forgotten(now, ledger),
            dropped=frozenset(task.file.file_path for task in (*self.whole, *self.partly)),
            added=files,
            window_origin=ledger.origin,
        )

    def _forgotten(self, now: Place, ledger: Ledger) -> Forgotten:
        """What the table says from then on of what left and of what may not land.

        Two ways, which exclude one another. Rows whose value may not land go into the count of barred rows of
        their hour: the hour may land again without them. Others count as removed, and an undo or a replace of
        their hours is refused from then on.

        Raises LandingConflict where somebody else barred the table's first values meanwhile: they have
        another salt, and hashes under two salts cannot stand side by side.
        """
        forgotten = now.state.forgotten
        if self.barred:
            if forgotten.bars.salt not in ("", self.salt):
                raise LandingConflict(
                    f"other values were kept out of {self.place.name} meanwhile; look again"
                )
            bars = replace(forgotten.bars, salt=self.salt).plus(self.barred)
            return slices.barred(replace(forgotten, bars=bars), self.leaving)
        forgotten = slices.removed(forgotten, self.leaving.cells)
        if self.before:
            shards = {*ledger.shards, *(cell.shard for cell in self.leaving.cells)}
            forgotten = forgotten.all_before(ledger.origin, shards, self.before)
        return forgotten

    def _check_same_hours(self, now: Place) -> None:
        """Story: a backfill lands an hour between the look and the commit. Its rows would stay, in an hour
        that is said to be forgotten. Raises LandingConflict then."""
        if self.before and now is not self.place:
            there = slices.fingerprint(whole_before(now, self.before))
            if there != slices.fingerprint(self.whole):
                raise LandingConflict(f"rows of these hours came to {now.name} meanwhile; look again")

    def _check_none_came(self, now: Place) -> None:
        """A decision that holds from now on says that there are none. Raises LandingConflict where others
        came."""
        where = self.where
        if self.barred and where is not None:
            about = maybe_of(self.place, where)
            rewrite.check_none_came(
                self.place, now, about, lambda news: slices.slice_of(now, news, where).rows
            )


def _without(
    where: Where | None, origin: str, table: Table, task: FileScanTask
) -> tuple[DataFile | None, int]:
    """A file written anew without the rows of a logstore that `where` takes, and how many these were.

    A row whose `__origin__` is null is of nobody, and stays. With `where` None all rows of the logstore
    leave, and those of others in the same file stay.
    """
    schema, dropped = table.schema(), list[int]()

    def kept() -> Iterator[pa.RecordBatch]:
        for batch in rewrite.read(table, [task], schema):
            taken = pc.fill_null(pc.equal(batch.column("__origin__"), origin), False)
            if where is not None:
                taken = pc.and_(taken, where.taken(batch))
            left = batch.filter(pc.invert(taken))
            dropped.append(batch.num_rows - left.num_rows)
            yield left

    return rewrite.write(table, origin, task, schema, kept()), sum(dropped)


def deed_of(about: str, reason: str) -> Deed:
    """What the table says of what was asked `about`, with the reason.

    Worked example: of a reason of 300 characters 200 are kept, and a line break in it becomes a blank: the
    deed is one line wherever it is printed.
    """
    note = printable(reason.strip())[:REASON_CHARS_MAX]
    return Deed(Operation.FORGET, f"{about}: {note}" if note else about)


def span_of(found: Slice) -> str:
    """The receive hours of these rows, from the first to the last; "" where there are none."""
    hours = {cell.hour for cell in found.cells}
    return spans(range(min(hours), max(hours) + 1))[0] if hours else ""


def read_again(span: str) -> tuple[Cure, ...]:
    """What fills the columns of rows with an error from their bytes; nothing for no hours."""
    does = "reads rows with an error again; then ask once more"
    return (commands.of_hours(commands.ERRORS, span, does),) if span else ()


def maybe_of(place: Place, where: Where) -> BooleanExpression:
    """Rows of the logstore that `where` may take, as far as the statistics of files tell."""
    return And(slices.mine(place), where.pruning)


def whole_before(place: Place, hour: int) -> list[FileScanTask]:
    """Files of the receive hours before `hour` (since 1970), of which each holds no others."""
    asking = Asking(place, None)
    return asking.of(asking.decide(lambda held: slices.whole_files(held, range(hour))))
