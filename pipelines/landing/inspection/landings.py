"""What landed, and what is on its way: each commit that brought windows or that a person made, the files of
runs that have written and not published, and what may still become of them.

    committed  a snapshot of the table has it
    open       files are there that no snapshot has, and the run may be at work
    hanging    the same, and nothing was written for longer than the landing's time-out
    aborted    it can be published no more: a person said so, or the table has moved on since its time-out

Reads the table alone, the service is not asked, and also a table that landings refuse: this is where a person
looks before deciding. Nothing is changed.

A run publishes nothing after its time-out, and each of its tries requires the `main` that it saw before. So
once the table has a commit from after the time-out, whatever a paused run may send is refused. Until then one
that hangs may wake, and what it publishes is right; `landings abort` makes sure that it does not.

The names of staged files tell their attempt, its logstore and receive hour; a whole file tells shard and
cursors. Committed landings follow from what snapshots say of themselves. So they end where these were expired
(`kept_from_s`), while gaps and withdrawn intervals come from the newest ledger and are told at any age.

Story: a table is rolled back to landing 3 of 5, and landing 6 follows. 4 and 5 are listed with `in_table`
false: their snapshots are there, their rows are not. A list that left them out would leave the person without
the one thing to look for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from pyiceberg.table import Table

from pipelines.landing.commit.effect import Effect, Note, Row, record
from pipelines.landing.commit.freshness import landing_timeout_s
from pipelines.landing.hours import moment_text
from pipelines.landing.inspection.table_files import (
    HourFiles,
    Orphan,
    StagedFile,
    files_per_hour,
    find_orphans,
    held_cursors,
    staged_files,
)
from pipelines.landing.ledger import codec
from pipelines.landing.ledger.epochs import RUN_CHARS
from pipelines.landing.ledger.reading import Misread, Unreadable, check_kept
from pipelines.landing.ledger.state import TableState, ancestry, facts, origins_named, others_here, read_state
from pipelines.landing.ledger.summary import deed_in, is_landing, summary_of, windows_of
from pipelines.landing.ledger.values import Deed, Landed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.lake import SWEEP_FLOOR_S, Lake
from sls_io.values.claim import CURSOR_UNKNOWN
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.cures import Cure
from sls_io.values.errors import ConfigError, LedgerBroken, SlsError
from sls_io.values.window import Cursor, Window

_SKEW_S = 60.0
"""By so much the clocks of storage, runs and whoever commits may differ."""


class Stage(StrEnum):
    """What became of a landing, or may."""

    COMMITTED = "committed"
    OPEN = "open"
    HANGING = "hanging"
    ABORTED = "aborted"


@dataclass(frozen=True)
class OneLanding(Effect):
    """One landing, what a person settled (`deed`, in words `verb`), or what is there of a landing that was
    never published.

    run       first digits of the attempt's id, as the names of its files have them; `attempt`: all of them
    files     those that no snapshot has; of a committed landing, what its lost windows and tries left
    windows, snapshot_id, at_s   of a committed one
    in_table  whether its rows are in the table: not so after a rollback, by hand or by the verb
    withdrawn those of its windows that were taken back since, wholly or in part, and not landed again
    aborted_s when a person aborted it
    why       what makes it aborted or hanging, in words
    """

    QUIET = frozenset({"snapshot_id", "withdrawn"})

    run: str
    state: Stage
    origin: str
    files: tuple[StagedFile, ...] = ()
    windows: tuple[Landed, ...] = ()
    withdrawn: tuple[Window, ...] = ()
    snapshot_id: int | None = None
    at_s: float | None = None
    in_table: bool = False
    deed: Deed | None = None
    attempt: str = ""
    aborted_s: int | None = None
    why: str = ""
    table: str = ""

    @property
    def headline(self) -> str:
        committed = f", snapshot {self.snapshot_id}" if self.snapshot_id is not None else ""
        why = f" ({self.why})" if self.why else ""
        return f"{self.table}: {self.verb or 'landing'} {self.run} is {self.state}{committed}{why}"

    def said(self) -> Iterable[Note]:
        if left := self.left:
            yield Note(f"since then it was {left}", "warn")
        if self.swept_s is not None:
            yield Note(
                f"a sweep takes the files that no snapshot has from {moment_text(int(self.swept_s))} UTC on"
            )

    def numbers(self) -> dict[str, int | None]:
        counts = {"windows": len(self.windows), "rows": self.rows}
        return super().numbers() | (counts if self.state is Stage.COMMITTED else {})

    def tables(self) -> dict[str, list[Row]]:
        windows = [
            {
                **record(each.window),
                "rows": each.rows,
                "": "withdrawn" if self.in_table and each.window in self.withdrawn else each.flags,
            }
            for each in self.windows
        ]
        return super().tables() | ({"windows": windows} if windows else {})

    def document(self) -> dict[str, Any]:
        """For a program. A snapshot keeps no sum of a window: the ledger's is one of the shard."""
        plain = super().document()
        for window in plain["windows"]:
            del window["sum"], window["barred"]
        names = ("verb", "rows", "first_s", "last_s", "size", "swept_s")
        return plain | {name: getattr(self, name) for name in names}

    @property
    def verb(self) -> str:
        """What a person settled, in words; "" of a landing."""
        return "" if self.deed is None else str(self.deed)

    @property
    def rows(self) -> int | None:
        """Rows it brought; of one that was not committed nobody has counted them."""
        return sum(w.rows for w in self.windows) if self.state is Stage.COMMITTED else None

    @property
    def left(self) -> str:
        """Which part of it is no longer in the table, in words."""
        if self.state is not Stage.COMMITTED:
            return ""
        if not self.in_table:
            return "taken back"
        if not self.withdrawn:
            return ""
        return "withdrawn" if len(self.withdrawn) == len(self.windows) else "partly withdrawn"

    @property
    def first_s(self) -> float | None:
        """When the oldest of its files was last written."""
        return min((f.modified_s for f in self.files), default=None)

    @property
    def last_s(self) -> float | None:
        """The run's last sign of life: when the newest of its files was last written."""
        return max((f.modified_s for f in self.files), default=None)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(f.size for f in self.files)

    @property
    def swept_s(self) -> float | None:
        """From when on a sweep takes the last of its files."""
        return None if self.last_s is None else self.last_s + SWEEP_FLOOR_S


@dataclass(frozen=True)
class Interval:
    """[begin, end) of a shard that is not in the table, and why: a gap's cause, or `withdrawn`.

    `end` is None where nobody knows it.
    """

    origin: str
    shard: int
    begin: Cursor
    end: Cursor | None
    cause: str


@dataclass(frozen=True)
class Landings:
    """The landings of one logstore, the oldest first, and the table they were looked up in.

    timeout_s  how long one may take from its first file to its commit
    trouble    why landings are refused now
    kept_from_s time of the oldest snapshot still kept; landings before it are not listed
    missing    gaps and withdrawn intervals
    adopted    rows that a person said belong there
    files      files per hour of the logstore, oldest hour first
    others     metadata files of other tables in the folder: there is no telling which file is an orphan
    orphans    None when they were not looked for, or nobody could tell
    unreadable why there are no `files`, `orphans` or landings on their way: a file of the table itself
    """

    table: str
    origins: tuple[str, ...]
    timeout_s: float
    trouble: LedgerBroken | None
    kept_from_s: float | None
    found: tuple[OneLanding, ...]
    missing: tuple[Interval, ...]
    adopted: int
    files: tuple[HourFiles, ...]
    others: tuple[str, ...]
    orphans: tuple[Orphan, ...] | None
    unreadable: SlsError | None

    @property
    def cures(self) -> tuple[Cure, ...]:
        """What settles why landings are refused, or else what cannot be read."""
        error = self.trouble or self.unreadable
        return error.cures if error is not None else ()

    def document(self) -> dict[str, Any]:
        """For a program, without the landings, of which it may want some."""
        quiet = replace(self, found=(), trouble=None, unreadable=None)
        said = {"trouble": str(self.trouble or ""), "unreadable": str(self.unreadable or "")}
        return {name: value for name, value in asdict(quiet).items() if name != "found"} | said


def landings_of(
    logstore: Logstore,
    lake: Lake,
    *,
    orphans: bool = True,
    floor_s: float = SWEEP_FLOOR_S,
    clock: Clock = SYSTEM_CLOCK,
) -> Landings:
    """The landings of the logstore that the table or its folder still tell of, what is missing, and orphans
    older than `floor_s`. Without `orphans` no file is looked for, so nothing that is on its way is seen.

    Raises ConfigError when there is no table yet, or one that sls-lake did not make, or its files cannot be
    listed, LedgerBroken when the catalog has lost it, and as `check_kept`.

    A file of the table's own that cannot be read costs what needs it, and no more: committed landings are
    told from the metadata, and `cures` says what settles the file. Nothing is called an orphan while metadata
    of another table lies in the folder: its files would look like ours that nobody needs.
    """
    table = lake.load(logstore.table)
    if table is None:
        raise ConfigError(
            f"there is no table {logstore.table}, neither in the catalog ({lake.place}) nor a file of one: "
            "nothing has landed yet, and nothing was ever on its way to it",
            cures=(commands.DESCRIBE.plus(does="asks the service, too"),),
        )
    lacking = [name for name in ("__origin__", "__receive_hour__") if name not in table.schema().column_names]
    if lacking:
        raise ConfigError(
            f"table {logstore.table} has no column {lacking[0]}: sls-lake did not make it and never landed "
            "in it; check `table` of the logstore"
        )
    state, now_s = facts(table, damaged_too=True), clock.now()
    mine = _origins(state, logstore)
    files, loose, others = tuple[HourFiles, ...](), tuple[Orphan, ...](), tuple[str, ...]()
    unreadable: SlsError | None = None
    try:
        files = tuple(f for f in files_per_hour(table) if f.origin in mine)
        if orphans:
            others = others_here(table, older_than_s=now_s - floor_s)
            loose = _loose(table, now_s)
    except (Unreadable, Misread) as error:
        check_kept(table)
        unreadable = error
    told = orphans and not others and unreadable is None
    oldest = min(table.metadata.snapshots, key=lambda s: s.sequence_number or 0, default=None)
    return Landings(
        table=logstore.table,
        origins=mine,
        timeout_s=landing_timeout_s(logstore.budget.seconds_max),
        trouble=_trouble(table),
        kept_from_s=oldest.timestamp_ms / 1000 if oldest is not None else None,
        found=_found(table, state, logstore, loose, now_s=now_s),
        missing=tuple(_missing(state, mine)),
        adopted=state.adopted.rows,
        files=files,
        others=others,
        orphans=tuple(each for each in loose if each.modified_s < now_s - floor_s) if told else None,
        unreadable=unreadable,
    )


def landings_in(table: Table, logstore: Logstore, *, clock: Clock = SYSTEM_CLOCK) -> tuple[OneLanding, ...]:
    """The landings alone, of a loaded table. Raises as `reading.py` does where its files cannot be read."""
    now_s = clock.now()
    return _found(table, facts(table, damaged_too=True), logstore, _loose(table, now_s), now_s=now_s)


def one_of(found: Iterable[OneLanding], run: str) -> OneLanding:
    """The landing with the id `run`: its first eight digits, as `OneLanding.run` has them, which may be
    followed by the rest of it. Raises ConfigError when there is none, and for fewer digits.

    Why not as few as name one landing: what a person saw may be gone by now, and its first digits may be
    those of a run at work, which would be aborted instead.
    """
    wanted, known = run[:RUN_CHARS].lower(), list[str]()
    for landing in found:
        if landing.run == wanted:
            return landing
        if landing.state in (Stage.OPEN, Stage.HANGING):
            known.append(landing.run)
    there = f"on their way are {', '.join(known)}" if known else "none is on its way"
    short = f"; give the first {RUN_CHARS} digits of its id" if len(run) < RUN_CHARS else ""
    raise ConfigError(f"no landing {run[:64]!r}: {there}{short}", cures=(commands.LANDINGS,))


def _origins(state: TableState, logstore: Logstore) -> tuple[str, ...]:
    return origins_named(state, logstore.service.project, logstore.service.logstore)


def _loose(table: Table, now_s: float) -> tuple[Orphan, ...]:
    """All files that no snapshot refers to, those of this moment, too."""
    return tuple(find_orphans(table, older_than_s=now_s + SWEEP_FLOOR_S))


def _found(
    table: Table, state: TableState, logstore: Logstore, loose: Iterable[Orphan], *, now_s: float
) -> tuple[OneLanding, ...]:
    """From three ends: snapshots tell of committed ones, the names of files of those that no snapshot has,
    and a property of the table of aborted ones, whose files may be swept by now. A committed landing may have
    files that no snapshot refers to, too: those of windows that it lost.
    """
    mine, timeout_s = _origins(state, logstore), landing_timeout_s(logstore.budget.seconds_max)
    staged = staged_files(loose, mine)
    found = list(_committed(table, state, mine, staged))
    there = {x.run for x in found}
    head = table.current_snapshot()
    moved_s = head.timestamp_ms / 1000 if head is not None else 0.0
    for run, (origin, files) in staged.items():
        if run not in there:
            found.append(_one(run, origin, files, state, now_s=now_s, timeout_s=timeout_s, moved_s=moved_s))
    gone = (r for r in state.aborted if r not in staged and r not in there)
    found += [_aborted(run, "", (), state) for run in gone]
    found.sort(key=lambda x: x.at_s or x.first_s or float(x.aborted_s or 0))
    return tuple(replace(each, table=logstore.table) for each in found)


def described(landing: OneLanding, table: Table) -> OneLanding:
    """With what each of its files holds, where the file is whole."""
    files = (replace(f, part=held_cursors(table, f"{table.location()}/data/{f.path}")) for f in landing.files)
    return replace(landing, files=tuple(files))


def _committed(
    table: Table,
    state: TableState,
    mine: tuple[str, ...],
    staged: dict[str, tuple[str, tuple[StagedFile, ...]]],
) -> Iterator[OneLanding]:
    """Of these origins, and what a person settled for all of them; in the order of the commits."""
    there = _in_table(table)
    for snapshot in sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0):
        origin, windows = windows_of(snapshot)
        deed = deed_in(snapshot)
        if not is_landing(snapshot) or (origin not in mine and deed is None):
            continue
        attempt, shards = summary_of(snapshot).get(codec.ATTEMPT_KEY, ""), state.ledger(origin).shards
        yield OneLanding(
            run=attempt[:RUN_CHARS],
            attempt=attempt,
            state=Stage.COMMITTED,
            origin=origin,
            files=staged.get(attempt[:RUN_CHARS], ("", ()))[1],
            windows=windows,
            withdrawn=tuple(
                x.window
                for x in windows
                if x.window.shard in shards
                and shards[x.window.shard].withdrawn.overlaps(x.window.begin, x.window.end)
            ),
            snapshot_id=snapshot.snapshot_id,
            at_s=snapshot.timestamp_ms / 1000,
            in_table=snapshot.snapshot_id in there,
            deed=deed,
        )


def _in_table(table: Table) -> set[int]:
    """Snapshots whose rows main has: a rollback goes on where it went back to, not at its parent.

    Worked example: snapshots 1 to 5 are landings, 6 is a rollback to 3, 7 a landing. From 7 on the walk finds
    7 and 6, and goes on at 3, not at 5: 7, 6, 3, 2 and 1.
    """
    found: set[int] = set()
    newest = table.metadata.current_snapshot_id
    while newest is not None:
        following: int | None = None
        for snapshot in ancestry(table, newest):
            found.add(snapshot.snapshot_id)
            deed = deed_in(snapshot)
            if deed is not None and deed.operation is Operation.ROLLBACK:
                following = deed.snapshot
                break
        newest = following
    return found


def _missing(state: TableState, mine: tuple[str, ...]) -> Iterator[Interval]:
    for origin in mine:
        for shard, entry in sorted(state.ledger(origin).shards.items()):
            for gap in entry.gaps:
                end = None if gap.end == CURSOR_UNKNOWN else gap.end
                yield Interval(origin, shard, gap.begin, end, gap.cause)
            for begin, stop in entry.withdrawn:
                yield Interval(origin, shard, Cursor(begin), Cursor(stop), "withdrawn")


def _trouble(table: Table) -> LedgerBroken | None:
    try:
        read_state(table)
    except LedgerBroken as error:
        return error
    return None


def _one(
    run: str,
    origin: str,
    files: tuple[StagedFile, ...],
    state: TableState,
    *,
    now_s: float,
    timeout_s: float,
    moved_s: float,
) -> OneLanding:
    """A landing that no snapshot has.

    Worked example: the first file is of 1,000 s, the last of 1,600, the time-out is 3,600 s. Up to 5,200 the
    landing is open, then it hangs. Half of the sweep's floor is 43,200 s, and clocks may differ by 60: once
    the table has a commit from after 44,260, it can be published no more.
    """
    if run in state.aborted:
        return _aborted(run, origin, files, state)
    first_s, last_s = min(f.modified_s for f in files), max(f.modified_s for f in files)
    # A replace has half of the sweep's floor, and its files look the same.
    over_s = first_s + max(timeout_s, SWEEP_FLOOR_S / 2) + _SKEW_S
    if moved_s > over_s:
        why = "its time-out is over, and the table has moved on since: nothing of it can be published"
        return OneLanding(run, Stage.ABORTED, origin, files, why=why)
    if now_s - last_s > timeout_s:
        why = "no sign of life for longer than the time-out"
        return OneLanding(run, Stage.HANGING, origin, files, why=why)
    return OneLanding(run, Stage.OPEN, origin, files)


def _aborted(run: str, origin: str, files: tuple[StagedFile, ...], state: TableState) -> OneLanding:
    at_s = state.aborted[run]
    return OneLanding(run, Stage.ABORTED, origin, files, aborted_s=at_s, why="a person aborted it")
