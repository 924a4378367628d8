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

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask

from pipelines.landing.commit import authored
from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.contents import rewrite, slices
from pipelines.landing.contents.sameness import check_all_same
from pipelines.landing.contents.slices import LogstoreTable, Part
from pipelines.landing.hours import moment_text
from pipelines.landing.ledger.reading import tasks_of
from pipelines.landing.ledger.state import held_columns
from pipelines.landing.ledger.values import Deed, Forgotten, Gone, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.where import Where, parse
from sls_io.claim import SUM_MODULUS, Ledger
from sls_io.client import Origin, SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import ConfigError, InvariantBroken, LandingConflict, printable
from sls_io.window import HOUR_S

REASON_CHARS_MAX = 200


@dataclass(frozen=True)
class Forget:
    """What `table forget` would do.

    what      how the decision is kept in the table: without the values of a filter
    hours     receive hours (since 1970) -> rows of them that leave
    shards    shard -> rows of it that leave
    adopted   how many of the rows were adopted and not landed
    files     files that leave, of which `rewritten` come again without these rows
    before    all receive hours (since 1970) before this one are forgotten, rows or none; 0: only rows
    """

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


@dataclass(frozen=True)
class PlannedForget:
    """A removal with the table it was looked at. `whole` files leave, `partly` are written anew."""

    view: Forget
    place: LogstoreTable
    where: Where | None
    deed: Deed
    parts: tuple[Part, ...]
    whole: tuple[FileScanTask, ...]
    partly: tuple[FileScanTask, ...]


def plan_forget_where(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    where: str,
    *,
    reason: str = "",
    origin: str = "",
    without_missing: bool = False,
) -> PlannedForget:
    """Look at what removing the rows that `where` takes would do. Changes nothing.

    `where` compares columns of the table, like `user = 'x' and __receive_hour__ < '...'`; `origin` is the
    id of another origin that the table knows, whose rows are meant. Raises ConfigError when it cannot be
    read or takes no row, LedgerBroken when the table cannot be trusted or, unless `without_missing`, misses
    rows.
    """
    place = slices.of_known_origin(slices.look_at_table(lake, logstore, client), origin)
    # Files that are written anew have the table's columns only: what was dropped would be lost for good.
    schema = place.table.schema()
    Contract.from_columns(logstore.columns).check_held(schema, held_columns(place.table))
    asked = parse(where, schema)
    if not without_missing:
        slices.check_none_missing(place)
        check_all_same(place)
    maybe = And(slices.mine(place), asked.pruning)
    tasks = tasks_of(place.table, place.table.scan(row_filter=maybe))
    parts: list[Part] = []
    whole: list[FileScanTask] = []
    partly: list[FileScanTask] = []
    for task in tasks:
        found = slices.parts_of(place, [task], asked)
        taken = sum(p.rows for p in found)
        if taken:
            parts += found
            live = sum(p.rows for p in slices.parts_of(place, [task]))
            owned = live if not task.delete_files and live == task.file.record_count else -1
            (whole if taken == owned else partly).append(task)
    if not parts:
        raise ConfigError(
            f"no row of {place.origin.logstore} in {place.name} is taken by that: nothing to do"
        )
    about = f"--where on {', '.join(map(printable, asked.columns))}"
    return _planned(place, asked, parts, whole, partly, about, reason)


def plan_forget_before(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    hour: int,
    *,
    reason: str = "",
    origin: str = "",
    without_missing: bool = False,
) -> PlannedForget:
    """Look at what removing all receive hours before `hour` (since 1970) would do; `origin` as in
    `plan_where`. Changes nothing.

    Raises ConfigError when all of them are forgotten already or a frontier has not passed them,
    LedgerBroken as `plan_where`.
    """
    mine = slices.look_at_table(lake, logstore, client)
    place = slices.of_known_origin(mine, origin)
    if not without_missing:
        slices.check_none_missing(place)
        check_all_same(place)
    if place.origin == mine.origin:
        slices.check_passed(place, client, hour)
    elif not _same_logstore(place.origin, mine.origin):
        _check_reached(place, hour)
    hours = range(hour)
    whole = slices.whole_files(place, hours)
    parts = slices.parts_of(place, whole)
    moment = moment_text(hour * HOUR_S)
    if not parts and place.state.forgotten.before(place.origin.id) >= hour:
        raise ConfigError(
            f"all hours of {place.origin.logstore} before {moment} are forgotten already: nothing to do"
        )
    planned = _planned(place, None, list(parts), whole, [], f"--before {moment}", reason)
    return replace(planned, view=replace(planned.view, before=hour))


def execute_forget(
    lake: Lake, logstore: Logstore, client: SlsClient, planned: PlannedForget, *, clock: Clock = SYSTEM_CLOCK
) -> int:
    """Write what stays of the files anew and commit; the new snapshot. Raises what `rewrite.publish` does.

    Rows that land while it runs are not looked at.
    """
    place, schema = planned.place, planned.place.table.schema()
    files: list[DataFile] = []
    fresh = Freshness(clock)
    left = sum(p.rows for p in slices.parts_of(place, planned.whole))
    for task in planned.partly:
        keeper = _Keeper(place.origin.id, planned.where)
        done = rewrite.write(place, task, schema, keeper.kept(rewrite.read(place, task, schema)))
        left += keeper.dropped
        if done.file is not None:
            files.append(done.file)
    if left != planned.view.rows:
        raise InvariantBroken(f"{left} rows of {place.name} would leave, {planned.view.rows} were counted")
    tasks = (*planned.whole, *planned.partly)

    def change_on(now: LogstoreTable) -> authored.Change:
        ledger = _lowered(now.ledger, planned.parts)
        slices.check_explained(now, planned.parts, adopted_too=True)
        _check_same_hours(planned, now)
        return authored.Change(
            content=now.head,
            ledgers={**now.state.ledgers, ledger.origin: ledger},
            adopted=slices.without_adopted(now.state.adopted, ledger.origin, planned.parts),
            deed=planned.deed,
            forgotten=_forgotten(now.state.forgotten, ledger, planned),
            dropped=frozenset(task.file.file_path for task in tasks),
            added=tuple(files),
            window_origin=ledger.origin,
        )

    return rewrite.commit_rewritten(lake, logstore, client, place, tasks, change_on, fresh=fresh, clock=clock)


def _same_logstore(one: Origin, other: Origin) -> bool:
    """Whether the one is the other before it was deleted and made again: nobody lands it any more."""
    return replace(one, created_s=0, known_as="") == replace(other, created_s=0, known_as="")


def _check_reached(place: LogstoreTable, hour: int) -> None:
    """Raises ConfigError unless every shard in the ledger of another logstore has passed all hours before
    `hour`."""
    for shard, entry in sorted(place.ledger.shards.items()):
        if not entry.closed and entry.reached_s < hour * HOUR_S:
            raise ConfigError(
                f"shard {shard} of {place.origin.id} has reached {moment_text(entry.reached_s)} of the "
                "receive time; ask for earlier hours, or name rows with --where"
            )


def _planned(
    place: LogstoreTable,
    where: Where | None,
    parts: list[Part],
    whole: list[FileScanTask],
    partly: list[FileScanTask],
    about: str,
    reason: str,
) -> PlannedForget:
    slices.check_explained(place, parts, adopted_too=True)
    note = printable(reason.strip())[:REASON_CHARS_MAX]
    deed = Deed(Operation.FORGET, f"{about}: {note}" if note else about)
    view = Forget(
        table=place.name,
        origin=place.origin.id,
        what=str(deed),
        rows=sum(p.rows for p in parts),
        hours={h: sum(p.rows for p in parts if p.hour == h) for h in sorted({p.hour for p in parts})},
        shards={s: sum(p.rows for p in parts if p.shard == s) for s in sorted({p.shard for p in parts})},
        adopted=sum(p.outside for p in parts),
        files=len(whole) + len(partly),
        rewritten=len(partly),
    )
    return PlannedForget(view, place, where, deed, tuple(parts), tuple(whole), tuple(partly))


def _lowered(ledger: Ledger, parts: tuple[Part, ...]) -> Ledger:
    """Rows and sums less those that leave; the intervals stay landed, so nothing brings them back."""
    changed = {}
    for shard in {p.shard for p in parts} & set(ledger.shards):
        entry, mine = ledger.shards[shard], [p for p in parts if p.shard == shard]
        changed[shard] = replace(
            entry,
            rows=entry.rows - sum(p.rows - p.outside for p in mine),
            sum=(entry.sum - sum(p.sum - p.outside_sum for p in mine)) % SUM_MODULUS,
        )
    return ledger.with_shards(changed)


def _forgotten(forgotten: Forgotten, ledger: Ledger, planned: PlannedForget) -> Forgotten:
    for part in planned.parts:
        forgotten = forgotten.plus(
            ledger.origin, part.shard, Gone(part.rows, part.sum, slices.hour_runs([part.hour]))
        )
    if planned.view.before:
        shards = {*ledger.shards, *planned.view.shards}
        forgotten = forgotten.all_before(ledger.origin, shards, planned.view.before)
    return forgotten


def _check_same_hours(planned: PlannedForget, now: LogstoreTable) -> None:
    """Story: a backfill lands an hour between the look and the commit. Its rows would stay, in an hour
    that is said to be forgotten. Raises LandingConflict then."""
    if planned.view.before and now is not planned.place:
        there = slices.fingerprint(slices.whole_files(now, range(planned.view.before)))
        if there != slices.fingerprint(planned.whole):
            raise LandingConflict(f"rows of these hours came to {now.name} meanwhile; look again")


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
