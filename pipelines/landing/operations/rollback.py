"""Roll a table back to an earlier landing, as a new commit that says so.

The rows become those of the landing, the ledger what it was then. So the frontiers move back, and the next
landings pull again what left; what retention no longer has becomes a named gap. A shard that appeared after
that landing keeps its start. Without it, the shard's first logs could expire before the next run and nobody
would know that they were missing.

It also settles a `main` that somebody moved by hand, which every landing refuses. With the landing that main
was moved to, the ledger follows the move; with the snapshot of the newest landing, the move is taken back.

Why a new commit, and not Iceberg's own `rollback_to_snapshot`: that moves `main` back and leaves the tag
ahead of it. The rows are gone, the ledger still calls them landed, and so every landing refuses the table.
And `main` is an old snapshot once more: that a commit which was checked against that one comes too late, the
tag alone says then.

Worked example: shard 0 has landed [0, 900), and is rolled back to a landing that knew [0, 300) and
[400, 500), with [300, 400) withdrawn. Its frontier goes from 900 to 500, and the next runs pull [500, 900)
again. [300, 400) leaves as well and stays away: that landing calls it withdrawn, so only a backfill that
names its hour brings it. Shard 1 appeared since and has landed [40, 60): it keeps its start, 40, and all of
it is pulled again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Planned
from pipelines.landing.contents import sameness
from pipelines.landing.contents.cells import cells_of
from pipelines.landing.hours import hour_text, moment_text
from pipelines.landing.ledger import codec, fence
from pipelines.landing.ledger.place import Looked
from pipelines.landing.ledger.reading import Misread, Unreadable
from pipelines.landing.ledger.state import TableState, ancestry, facts, files_of, landed_snapshot
from pipelines.landing.ledger.summary import is_landing, least_rows, ledgers_of, summary_of, windows_of
from pipelines.landing.ledger.values import Deed, Forgotten, Landed, Operation
from pipelines.landing.ledger.ways_back import No, PastLanding, against, landings, newest_forgotten, pasts
from pipelines.landing.operations import reach
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import Ledger
from sls_io.values.cures import Call, Cure, Do
from sls_io.values.errors import ConfigError, LedgerBroken
from sls_io.values.window import Cursor, IntervalSet, Window
from sls_io.wire.client import SlsClient

_UNREADABLE = "a manifest of main cannot be read, so which files leave and return is unknown"


@dataclass(frozen=True)
class ShardBack:
    """One shard: where its frontier is and goes, the cursor intervals and rows its ledger gives back.

    With a restored landing `regained` holds what the ledger gets instead. `kept_out` is the part of
    `withdrawn` that no live run pulls again: the landing calls it withdrawn, or starts after it.
    """

    origin: str
    shard: int
    frontier: Cursor
    frontier_then: Cursor
    rows: int
    rows_then: int
    withdrawn: tuple[tuple[int, int], ...]
    regained: tuple[tuple[int, int], ...]
    kept_out: tuple[tuple[int, int], ...] = ()

    @property
    def again(self) -> IntervalSet:
        """What the next runs pull again."""
        return IntervalSet(self.withdrawn).minus(IntervalSet(self.kept_out))


@dataclass(frozen=True)
class Rollback(Effect):
    """What `table rollback` would do. Row and file counts are those of main, now and then;
    what leaves and returns is None where the manifests of main cannot be read.

    hours      receive hours (since 1970) of the windows that the ledger gives back
    hours_out  those of them with windows that only a backfill which names the hour lands again
    notes      what a person should know before saying yes
    asked      the origin whose service was asked what it still has of that, "" for none; the answer is `kept`
    """

    QUIET = frozenset({"snapshot_id", "landings", "notes", "hours_out", "asked"})

    table: str
    snapshot_id: int
    landed_ms: int
    rows: int | None
    rows_then: int | None
    rows_leaving: int | None
    rows_returning: int | None
    files_leaving: int | None
    files_returning: int | None
    hours: tuple[int, ...]
    landings: tuple[int, ...]
    shards: tuple[ShardBack, ...]
    notes: tuple[str, ...] = ()
    hours_out: tuple[int, ...] = ()
    asked: str = ""
    kept: reach.StillThere | None = None

    @property
    def others(self) -> frozenset[str]:
        """The origins beside the one that was asked whose ledgers give something back; none where nobody was
        asked."""
        given = frozenset(s.origin for s in self.shards if s.withdrawn) if self.asked else frozenset()
        return given - {self.asked}

    @property
    def pulled_again(self) -> bool:
        """Whether the next runs pull anything again."""
        return any(s.again for s in self.shards) or bool(set(self.hours) - set(self.hours_out))

    @property
    def headline(self) -> str:
        landed = moment_text(self.landed_ms // 1000)
        return f"{self.table} back to snapshot {self.snapshot_id}, landed {landed} UTC"

    def said(self) -> Iterable[Note]:
        yield from map(Note, self.notes)
        if self.rows_then == 0:
            yield Note("the table will be empty: nothing had landed by that time")
        if self.pulled_again:
            yield Note(
                "what the ledger gives back is pulled again by the next runs; what retention took becomes a "
                "gap"
            )
        if any(shard.kept_out for shard in self.shards):
            hours = ", ".join(map(hour_text, self.hours_out)) or "older hours"
            yield Note(f"no live run pulls what stays withdrawn: a backfill that names {hours} does")
        if self.kept is None:
            yield Note("the service was not asked what it still has of that", "loss")
        elif self.kept.rows:
            yield Note(f"of what is given back: {self.kept}", "loss" if self.kept.lost else "")
        if self.others:
            yield Note("what the services of the table's other logstores still have was not asked", "loss")

    def then(self) -> Iterable[Cure]:
        if not self.pulled_again:
            return
        if not self.others or any(s.again for s in self.shards if s.origin == self.asked):
            yield commands.LAND
        if self.others:
            yield Do("let the other logstores of the table land what is given back of them")


def plan_rollback(
    lake: Lake, name: str, snapshot_id: int, *, without_missing: bool = False
) -> Planned[Rollback]:
    """Look at what a rollback of table `name` to `snapshot_id` would do. Changes nothing.

    Raises ConfigError when that snapshot is not a landing in the table's history, LedgerBroken when
    its rows or files are not what its ledger says; `without_missing`: rows may be missing from it.

    The plan has no `again`. Somebody who commits meanwhile brings rows that the person has not seen leave, so
    the commit is refused and it is looked at anew.
    """
    table = _load(lake, name)
    state = facts(table, damaged_too=True)
    target = _target(table, snapshot_id)
    (past, *_) = pasts(table, first=snapshot_id)
    given = given_back(state, past)
    now, then = _files_of_main(table), _files_then(table, target)
    _check_accepted(past, state.forgotten, without_missing=without_missing)
    _check_returning(past, then.keys() - (now or {}).keys())
    moved = _Moved() if now is None else _moved(now, then)
    # Nothing to do takes three: the same ledgers, a tag that main leads to, the same files. Story: the newest
    # landing brought no row, and main was moved by hand to the one before. Ledgers and files are those of the
    # newest; the tag alone tells that it left main. Unreadable manifests of main leave both counts None,
    # never 0: going back is their cure.
    as_it_was = (given.ledgers, past.adopted) == (dict(state.ledgers), state.adopted)
    as_it_was = as_it_was and state.tagged is not None and landed_snapshot(table, [state.tagged]) is not None
    if as_it_was and (moved.files_leaving, moved.files_returning) == (0, 0):
        raise ConfigError(f"table {name} is as snapshot {snapshot_id} left it: there is nothing to roll back")
    deed = Deed(Operation.ROLLBACK, snapshot=snapshot_id)
    forgotten = state.forgotten.counting(past.removed)
    change = authored.Change(target, given.ledgers, past.adopted, deed, forgotten=forgotten)
    hours, hours_out = _hours(given)
    view = Rollback(
        table=name,
        snapshot_id=snapshot_id,
        landed_ms=target.timestamp_ms,
        rows=least_rows(table.current_snapshot()),
        rows_then=least_rows(target),
        **moved._asdict(),
        hours=hours,
        landings=tuple(s.snapshot_id for s in given.landings),
        shards=given.shards,
        notes=(*_notes(table, state), *([_UNREADABLE] if now is None else [])),
        hours_out=hours_out,
    )
    return Planned(view, Looked(table, state, table.current_snapshot() or target), change)


class _Moved(NamedTuple):
    """What leaves main and what returns; None: nobody can say."""

    rows_leaving: int | None = None
    rows_returning: int | None = None
    files_leaving: int | None = None
    files_returning: int | None = None


def _moved(now: Mapping[str, DataFile], then: Mapping[str, DataFile]) -> _Moved:
    """What leaves main and what returns, by the paths of files; row-level deletes count no rows.

    Worked example: main has a (10 rows) and b (20 rows), the landing had a and c (5 rows): 20 rows leave in 1
    file, 5 return in 1 file. A row that a compaction wrote anew since leaves with one file and returns with
    another, and counts in both numbers.
    """
    leaving, returning = now.keys() - then.keys(), then.keys() - now.keys()
    rows = sum(_rows(now[path]) for path in leaving), sum(_rows(then[path]) for path in returning)
    return _Moved(*rows, len(leaving), len(returning))


class GivenBack(NamedTuple):
    """What the table gives back when it goes to a landing: the ledgers afterwards, the shards, the landings
    since, and the origins without a readable ledger now. As metadata says; no file is read."""

    ledgers: Mapping[str, Ledger]
    shards: tuple[ShardBack, ...]
    landings: tuple[Snapshot, ...]
    unreadable: frozenset[str]


def given_back(state: TableState, past: PastLanding) -> GivenBack:
    """What going to `past` gives back."""
    # Not what the tag says, which may be gone or have been moved by hand: a logstore that began behind it
    # would lose its start.
    current = ledgers_of(next(iter(landings(past.table)), None), damaged_too=True)
    ledgers = fence.lowered(past.ledgers, current)
    since = tuple(filter(is_landing, _since(past.table, state, past.snapshot)))
    unreadable = frozenset(past.ledgers.keys() - current.keys())
    return GivenBack(ledgers, tuple(_shards_back(current, ledgers)), since, unreadable)


def kept_by_rollback(
    state: TableState, past: PastLanding, origin: str, client: SlsClient
) -> reach.StillThere:
    """What the service still has of the rows of one logstore that its ledger gives back."""
    given = given_back(state, past)
    mine = [shard for shard in given.shards if shard.origin == origin]
    since = map(windows_of, given.landings)
    windows = [landed for name, found in since if name == origin for landed in found]
    return reach.kept_of(
        client,
        {s.shard: _rows_given(s, [x for x in windows if x.window.shard == s.shard]) for s in mine},
        {s.shard: IntervalSet(s.withdrawn) for s in mine},
        windows,
    )


def _rows_given(back: ShardBack, since: Iterable[Landed]) -> int:
    """How many rows a shard gives back, at most; `since` are its windows since, the newest first.

    Where it gets rows back with the landing, the two counts of its ledger say what is between: 60 rows of now
    leave and 50 return, and the counts differ by 10. Then the windows since say more: as many as those of the
    cursors that it gives back have brought, or, where a window is not told any more, all that it has now.
    """
    if not back.regained:
        return max(0, back.rows - back.rows_then)
    parts, left = reach.told(IntervalSet(back.withdrawn), since)
    return back.rows if left else min(back.rows, sum(landed.rows for landed, _ in parts))


def _load(lake: Lake, name: str) -> Table:
    table = lake.load(name)
    # A table of which somebody dropped the branch main has no current snapshot, and landings to go to.
    if table is None or not (table.current_snapshot() or any(landings(table))):
        raise ConfigError(f"table {name} has no snapshots yet: there is nothing to roll back")
    return table


def _target(table: Table, snapshot_id: int) -> Snapshot:
    """Any landing that metadata still has: its content and its ledger belong together, also where a
    rollback by hand put it beside main."""
    name = ".".join(table.name())
    target = table.snapshot_by_id(snapshot_id)
    if target is None:
        raise ConfigError(
            f"snapshot {snapshot_id} is not in the history of table {name} (any more)",
            cures=(commands.LANDINGS,),
        )
    if not is_landing(target):
        older = next((s.snapshot_id for s in ancestry(table, snapshot_id) if is_landing(s)), None)
        said = f"; the landing before it is {older}" if older else ""
        raise ConfigError(
            f"snapshot {snapshot_id} of table {name} is no landing of sls-lake{said}",
            cures=(commands.LANDINGS,),
        )
    return target


def _since(table: Table, state: TableState, target: Snapshot) -> Iterator[Snapshot]:
    """Snapshots after `target` on the way to it from the newest landing and from main, each once.

    Both ways are walked, since they need not be one. Story: main was moved back by hand to before `target`,
    the newest landing is still under the tag. On the way from main there is nothing; what is given back
    stands on the way from the tag.
    """
    seen: set[int] = set()
    for newest in (state.tagged, state.head):
        for snapshot in ancestry(table, newest) if newest is not None else ():
            if snapshot.snapshot_id == target.snapshot_id:
                break
            if (snapshot.sequence_number or 0) > (target.sequence_number or 0) and (
                snapshot.snapshot_id not in seen
            ):
                seen.add(snapshot.snapshot_id)
                yield snapshot


def _files_of_main(table: Table) -> dict[str, DataFile] | None:
    """None when nobody can say: rolling back is what cures that."""
    try:
        return files_of(table, table.current_snapshot())
    except (Unreadable, Misread):
        return None


def _files_then(table: Table, target: Snapshot) -> dict[str, DataFile]:
    try:
        return files_of(table, target)
    except Unreadable as error:
        raise LedgerBroken(
            f"snapshot {target.snapshot_id} of table {'.'.join(table.name())} cannot be had back: {error}",
            cures=(Do("restore the file"), commands.LANDINGS.plus(does="lists others to choose from")),
        ) from error


def _rows(file: DataFile) -> int:
    return int(file.record_count) if file.content == DataFileContent.DATA else 0


def _check_accepted(past: PastLanding, removed: Forgotten, *, without_missing: bool) -> None:
    """Raises ConfigError where removed rows would come back, LedgerBroken where the landing is not what its
    ledgers say, or cannot be had."""
    name = ".".join(past.table.name())
    for no in sorted(against(past, removed), key=list(No).index):
        if no is No.REMOVED:
            _, removal = newest_forgotten(past.table)
            raise ConfigError(
                f"rows were removed from table {name} by `table forget` since snapshot {past.id}, and would "
                "come back with it: choose a landing after that, or the removal itself",
                cures=(commands.rollback(removal),) if removal is not None else (),
            )
        if no is No.GONE:
            raise LedgerBroken(
                f"snapshot {past.id} of table {name} cannot be had back: {len(past.gone)} of its "
                f"{len(past.listed or ())} files are gone",
                cures=(*_instead(past, past.gone), commands.VERIFY),
            )
        if no is No.STRANGE or (no is No.MISSING and not without_missing):
            older = commands.LANDINGS.plus(does="lists older ones to choose from")
            holed = commands.rollback(past.id, "--without-missing", does="goes there all the same")
            named = commands.VERIFY_PULL.plus(does="names what brings them back"), holed
            raise LedgerBroken(
                f"snapshot {past.id} of table {name} has {past.shown} rows, its ledger knows {past.known}: "
                f"{no}",
                cures=(older,) if no is No.STRANGE else (*_instead(past), *named),
            )


def _check_returning(past: PastLanding, paths: Collection[str]) -> None:
    """Raises LedgerBroken where a file that would return cannot be read, or holds other rows than the table
    says. So each of them is read.

    Story: a file was overwritten by a copy of another one, its hour was landed anew, and the table is sound.
    The landing from before that still lists it. Its number of rows is right and the file is there; back to
    it, rows would be there twice, and those that were in the file would be gone. What stays in main a proof
    reads, before and after. The files are those that are read where a way back is looked for: what that
    names is not refused here.
    """
    returning = [task for task in sameness.tasks_of_ledgers(past) if task.file.file_path in paths]
    wrong = [each for each in cells_of(past.table, returning, {}) if isinstance(each, Unreadable)]
    if wrong:
        raise LedgerBroken(
            f"snapshot {past.id} of table {'.'.join(past.table.name())} cannot be had back: {len(wrong)} of "
            f"its {len(past.listed or ())} files would not be what was landed: {wrong[0]}",
            cures=(*_instead(past, [error.path for error in wrong]), commands.VERIFY),
        )


def _instead(past: PastLanding, gone: Collection[str] = ()) -> tuple[Call, ...]:
    """A landing that has all of its own rows."""
    back = sameness.way_back(past.table, gone)
    return (commands.rollback(back.id, does="has all of its own"),) if back is not None else ()


def _hours(given: GivenBack) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Receive hours of the windows that are given back, and of those that no live run lands again.

    Of an origin without a readable ledger, every window since counts.
    """
    by_shard = {(s.origin, s.shard): s for s in given.shards}
    hours, out = set[int](), set[int]()
    for snapshot in given.landings:
        origin, windows = windows_of(snapshot)
        for window in (landed.window for landed in windows):
            back = by_shard.get((origin, window.shard))
            if origin in given.unreadable or (back and _overlaps(back.withdrawn, window)):
                hours.add(window.hour)
            if back and _overlaps(back.kept_out, window):
                out.add(window.hour)
    return tuple(sorted(hours)), tuple(sorted(out))


def _overlaps(pairs: tuple[tuple[int, int], ...], window: Window) -> bool:
    return IntervalSet(pairs).overlaps(window.begin, window.end)


def _shards_back(now: Mapping[str, Ledger], then: Mapping[str, Ledger]) -> Iterator[ShardBack]:
    for origin, ledger in sorted(then.items()):
        current = now.get(origin) or Ledger(origin)
        for shard, entry in sorted(ledger.shards.items()):
            old = current.shards.get(shard) or replace(entry, landed=IntervalSet(), rows=0)
            # Of what is given back, the part that no live run pulls: withdrawn by then, or before the start
            # by then. The rest lies behind the frontier by then, and the next run begins there.
            given = old.landed.minus(entry.landed)
            again = given.minus(entry.withdrawn).minus(IntervalSet.of([(0, entry.start)]))
            yield ShardBack(
                origin=origin,
                shard=shard,
                frontier=old.frontier,
                frontier_then=entry.frontier,
                rows=old.rows,
                rows_then=entry.rows,
                withdrawn=given.pairs,
                regained=entry.landed.minus(old.landed).pairs,
                kept_out=given.minus(again).pairs,
            )


def _notes(table: Table, state: TableState) -> Iterator[str]:
    if state.tagged is None:
        yield "the tag of the newest landing is gone; the commit sets it again"
        return
    unreadable = {
        name.removeprefix(codec.LEDGER_PREFIX)
        for name in summary_of(table.snapshot_by_id(state.tagged))
        if name.startswith(codec.LEDGER_PREFIX)
    } - set(state.ledgers)
    for origin in sorted(unreadable):
        yield f"the newest ledger of {origin} cannot be read; shards that only it knew start at their begin"
    if landed_snapshot(table, [state.tagged]) is None:
        yield f"main was moved by hand: it no longer contains the newest landing, snapshot {state.tagged}"
