"""Remove rows for good, because the law or the table's retention says so. One commit.

    where    rows that a filter takes; files that hold others, too, are written anew without them
    before   whole receive hours before one; their files leave, and all hours before it are forgotten
             from then on: those without rows, too, because they were withdrawn or never landed

The ledger's rows and sums are lowered by what leaves, the intervals stay landed: no run and no backfill
brings the rows back. How many rows left, of which shard and hours, stands beside the ledgers for ever, so
that `verify` says "removed by decision" and not nothing. A rollback to an older landing, an undo and a
replace of those hours are refused from then on.

The filter itself is written nowhere, since it may name the very thing that is to be forgotten: only
the columns are, and the reason that the person gives. Older snapshots hold the rows until they are
expired, and the files lie there until they are swept.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask

from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.operation import Planned, Tools
from pipelines.landing.contents import rewrite, slices
from pipelines.landing.contents.cells import Cells, totals
from pipelines.landing.contents.holdings import Asking
from pipelines.landing.contents.sameness import check_same
from pipelines.landing.contents.slices import Slice
from pipelines.landing.contents.where import Where, parse
from pipelines.landing.hours import hour_text, moment_text
from pipelines.landing.ledger.place import Place, look
from pipelines.landing.ledger.reading import tasks_of
from pipelines.landing.ledger.state import held_columns
from pipelines.landing.ledger.values import Deed, Forgotten, Gone, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import SUM_MODULUS, Ledger
from sls_io.values.errors import ConfigError, InvariantBroken, LandingConflict, printable
from sls_io.values.window import HOUR_S
from sls_io.wire.client import Origin, SlsClient

REASON_CHARS_MAX = 200


@dataclass(frozen=True)
class Forget(Effect):
    """What `table forget` would do.

    what      how the decision is kept in the table: without the values of a filter
    hours     receive hours (since 1970) -> rows of them that leave
    shards    shard -> rows of it that leave
    adopted   how many of the rows were adopted and not landed
    files     files that leave, of which `rewritten` come again without these rows
    before    all receive hours (since 1970) before this one are forgotten, rows or none; 0: only rows
    """

    WHAT = "{table}: rows of {origin} are to leave for good"
    QUIET = frozenset({"before"})

    table: str
    origin: str
    what: str
    rows: int
    hours: dict[int, int]
    shards: dict[int, int]
    adopted: int
    files: int
    rewritten: int
    before: int = 0

    def said(self) -> Iterable[Note]:
        if self.before:
            yield Note(
                f"from then on nothing received before {hour_text(self.before)} is landed, by no backfill"
            )
        yield Note(f"the table will say of it: {self.what}")
        yield Note("older snapshots hold the rows until they are expired")


@dataclass(frozen=True)
class _Removal:
    """What leaves of the table that was looked at: `whole` files, and rows of those that are written anew,
    `partly`. `look` gives the table as it is later."""

    place: Place
    look: Callable[[], Place]
    where: Where | None
    leaving: Slice
    whole: tuple[FileScanTask, ...]
    partly: tuple[FileScanTask, ...]
    about: str
    reason: str
    before: int = 0

    @property
    def deed(self) -> Deed:
        """What the table says of it."""
        note = printable(self.reason.strip())[:REASON_CHARS_MAX]
        return Deed(Operation.FORGET, f"{self.about}: {note}" if note else self.about)

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
        )
        return Planned(view, self.place, None, work=partial(self._work, view))

    def _work(self, view: Forget, tools: Tools) -> Planned[Forget]:
        """Write what stays of the files anew. Rows that land meanwhile are not looked at."""
        place, schema, files = self.place, self.place.table.schema(), list[DataFile]()
        left = slices.slice_of(place, self.whole).rows
        for task in self.partly:
            keeper = _Keeper(place.origin.id, self.where)
            done = rewrite.write(place, task, schema, keeper.kept(rewrite.read(place, task, schema)))
            left += keeper.dropped
            if done.file is not None:
                files.append(done.file)
        if left != view.rows:
            raise InvariantBroken(f"{left} rows of {place.name} would leave, {view.rows} were counted")
        tasks, change_on = (*self.whole, *self.partly), partial(self._change_on, tuple(files))
        return rewrite.with_files(view, place, tasks, change_on, self.look)

    def _change_on(self, files: tuple[DataFile, ...], now: Place) -> authored.Change:
        ledger = _lowered(now.ledger, self.leaving.landed)
        slices.check_explained(now, self.leaving, adopted_too=True)
        self._check_same_hours(now)
        return authored.Change(
            content=now.head,
            ledgers={**now.state.ledgers, ledger.origin: ledger},
            adopted=slices.without_adopted(now.state.adopted, self.leaving),
            deed=self.deed,
            forgotten=self._forgotten(now.state.forgotten, ledger),
            dropped=frozenset(task.file.file_path for task in (*self.whole, *self.partly)),
            added=files,
            window_origin=ledger.origin,
        )

    def _forgotten(self, forgotten: Forgotten, ledger: Ledger) -> Forgotten:
        for cell in self.leaving.cells:
            gone = Gone(cell.rows, cell.sum, slices.hour_runs([cell.hour]))
            forgotten = forgotten.plus(ledger.origin, cell.shard, gone)
        if self.before:
            shards = {*ledger.shards, *(cell.shard for cell in self.leaving.cells)}
            forgotten = forgotten.all_before(ledger.origin, shards, self.before)
        return forgotten

    def _check_same_hours(self, now: Place) -> None:
        """Story: a backfill lands an hour between the look and the commit. Its rows would stay, in an hour
        that is said to be forgotten. Raises LandingConflict then."""
        if self.before and now is not self.place:
            there = slices.fingerprint(_whole_before(now, self.before))
            if there != slices.fingerprint(self.whole):
                raise LandingConflict(f"rows of these hours came to {now.name} meanwhile; look again")


def plan_forget_where(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    where: str,
    *,
    reason: str = "",
    origin: str = "",
    without_missing: bool = False,
) -> Planned[Forget]:
    """Look at what removing the rows that `where` takes would do. Changes nothing.

    `where` compares columns of the table, like `user = 'x' and __receive_hour__ < '...'`; `origin` is the
    id of another origin that the table knows, whose rows are meant. Raises ConfigError when it cannot be
    read or takes no row, LedgerBroken when the table cannot be trusted or, unless `without_missing`, misses
    rows.
    """
    place = look(lake, logstore, client).of_known(origin)
    # Files that are written anew have the table's columns only: what was dropped would be lost for good.
    schema = place.table.schema()
    Contract.from_columns(logstore.columns).check_held(schema, held_columns(place.table))
    asked = parse(where, schema)
    if not without_missing:
        _check_none_missing(place)
    maybe = And(slices.mine(place), asked.pruning)
    tasks = tasks_of(place.table, place.table.scan(row_filter=maybe))
    leaving = Slice()
    whole: list[FileScanTask] = []
    partly: list[FileScanTask] = []
    for task in tasks:
        found = slices.slice_of(place, [task], asked)
        if taken := found.rows:
            leaving = leaving.plus(found)
            live = slices.slice_of(place, [task]).rows
            owned = live if not task.delete_files and live == task.file.record_count else -1
            (whole if taken == owned else partly).append(task)
    if not leaving.cells:
        raise ConfigError(
            f"no row of {place.origin.logstore} in {place.name} is taken by that: nothing to do"
        )
    about = f"--where on {', '.join(map(printable, asked.columns))}"
    later = _later(lake, logstore, client, place)
    return _Removal(place, later, asked, leaving, tuple(whole), tuple(partly), about, reason).planned()


def plan_forget_before(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    hour: int,
    *,
    reason: str = "",
    origin: str = "",
    without_missing: bool = False,
) -> Planned[Forget]:
    """Look at what removing all receive hours before `hour` (since 1970) would do; `origin` as in
    `plan_where`. Changes nothing.

    Raises ConfigError when all of them are forgotten already or a frontier has not passed them,
    LedgerBroken as `plan_where`.
    """
    mine = look(lake, logstore, client)
    place = mine.of_known(origin)
    if not without_missing:
        _check_none_missing(place)
    if place.origin == mine.origin:
        Asking(place, client).decide(lambda held: slices.check_passed(held, hour))
    elif not _same_logstore(place.origin, mine.origin):
        _check_reached(place, hour)
    whole = _whole_before(place, hour)
    leaving = slices.slice_of(place, whole)
    moment = moment_text(hour * HOUR_S)
    if not leaving.cells and place.state.forgotten.before(place.origin.id) >= hour:
        raise ConfigError(
            f"all hours of {place.origin.logstore} before {moment} are forgotten already: nothing to do"
        )
    later, about = _later(lake, logstore, client, place), f"--before {moment}"
    return _Removal(place, later, None, leaving, tuple(whole), (), about, reason, before=hour).planned()


def _whole_before(place: Place, hour: int) -> list[FileScanTask]:
    asking = Asking(place, None)
    return asking.of(asking.decide(lambda held: slices.whole_files(held, range(hour))))


def _check_none_missing(place: Place) -> None:
    """In any logstore of the table."""
    check_same(place, set(place.state.ledgers) & set(place.state.origins), "--without-missing")


def _later(lake: Lake, logstore: Logstore, client: SlsClient, place: Place) -> Callable[[], Place]:
    return lambda: replace(look(lake, logstore, client), origin=place.origin)


def _same_logstore(one: Origin, other: Origin) -> bool:
    """Whether the one is the other before it was deleted and made again: nobody lands it any more."""
    return replace(one, created_s=0, known_as="") == replace(other, created_s=0, known_as="")


def _check_reached(place: Place, hour: int) -> None:
    """Raises ConfigError unless every shard in the ledger of another logstore has passed all hours before
    `hour`."""
    for shard, entry in sorted(place.ledger.shards.items()):
        if not entry.closed and entry.reached_s < hour * HOUR_S:
            raise ConfigError(
                f"shard {shard} of {place.origin.id} has reached {moment_text(entry.reached_s)} of the "
                "receive time; ask for earlier hours, or name rows with --where"
            )


def _lowered(ledger: Ledger, leaving: Cells) -> Ledger:
    """Rows and sums less those that leave; the intervals stay landed, so nothing brings them back."""
    changed = {}
    for (_, shard), (rows, total) in totals(leaving).items():
        entry = ledger.shards[shard]
        changed[shard] = replace(entry, rows=entry.rows - rows, sum=(entry.sum - total) % SUM_MODULUS)
    return ledger.with_shards(changed)


class _Keeper:
    """The rows that are not the origin's, or that a filter does not take; `dropped` counts the others."""

    def __init__(self, origin: str, where: Where | None) -> None:
        self._origin, self._where = origin, where
        self.dropped = 0

    def kept(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Each batch without them."""
        for batch in batches:
            taken = pc.fill_null(pc.equal(batch.column("__origin__"), self._origin), False)
            if self._where is not None:
                taken = pc.and_(taken, self._where.taken(batch))
            kept = batch.filter(pc.invert(taken))
            self.dropped += batch.num_rows - kept.num_rows
            yield kept
