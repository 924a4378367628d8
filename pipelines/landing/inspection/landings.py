"""Landings on their way: files that runs have written and not published, and what may still become of them.

    committed  a snapshot of the table has it
    open       files are there that no snapshot has, and the run may be at work
    hanging    the same, and nothing was written for longer than the landing's time-out
    aborted    it can be published no more: a person said so, or the table has moved on since its time-out

A run publishes nothing after its time-out, and each of its tries requires the `main` that it saw before. So
once the table has a commit from after the time-out, whatever a paused run may send is refused. Until then one
that hangs may wake, and what it publishes is right; `landings abort` makes sure that it does not.

The names of staged files tell their attempt, its logstore and receive hour; a whole file tells shard and
cursors.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.freshness import landing_timeout_s
from pipelines.landing.hours import moment_text
from pipelines.landing.inspection.history import Orphan, find_orphans
from pipelines.landing.ledger import codec
from pipelines.landing.ledger.epochs import RUN_CHARS
from pipelines.landing.ledger.state import TableState, facts, origins_named
from pipelines.landing.ledger.summary import is_landing, summary_of, windows_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.lake import SWEEP_FLOOR_S, Lake
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ConfigError

_STAGED = re.compile(
    r"(?P<origin>[^/]+)/(?P<hour>[0-9]+)/[0-9a-f]{16}-(?P<run>[0-9a-f]{8})-[0-9a-f]{8}\.parquet"
)
_SKEW_S = 60.0
"""By so much the clocks of storage, runs and whoever commits may differ."""


class Stage(StrEnum):
    """What became of a landing, or may."""

    COMMITTED = "committed"
    OPEN = "open"
    HANGING = "hanging"
    ABORTED = "aborted"


@dataclass(frozen=True)
class HeldCursors:
    """What a whole file holds: the cursors of its rows, the last one included."""

    shard: int
    first_cursor: int
    last_cursor: int
    rows: int


@dataclass(frozen=True)
class StagedFile:
    """A file that no snapshot has, its receive hour (since 1970); `part` where it was asked for and is
    whole."""

    path: str
    hour: int
    size: int
    modified_s: float
    part: HeldCursors | None = None


@dataclass(frozen=True)
class OneLanding(Effect):
    """One landing, or what is there of one that was never published.

    run       first digits of the attempt's id, as the names of its files have them
    files     those that no snapshot has; of a committed landing, what its lost windows and tries left
    windows, rows, snapshot_id, at_s   of a committed one
    aborted_s when a person aborted it
    why       what makes it aborted or hanging, in words
    """

    QUIET = frozenset({"snapshot_id"})

    run: str
    state: Stage
    origin: str
    files: tuple[StagedFile, ...] = ()
    windows: int = 0
    rows: int = 0
    snapshot_id: int | None = None
    at_s: float | None = None
    aborted_s: int | None = None
    why: str = ""
    table: str = ""

    @property
    def headline(self) -> str:
        committed = f", snapshot {self.snapshot_id}" if self.snapshot_id is not None else ""
        why = f" ({self.why})" if self.why else ""
        return f"{self.table}: landing {self.run} is {self.state}{committed}{why}"

    def said(self) -> Iterable[Note]:
        if self.swept_s is not None:
            yield Note(
                f"a sweep takes the files that no snapshot has from {moment_text(int(self.swept_s))} UTC on"
            )

    def document(self) -> dict[str, Any]:
        more = {"first_s": self.first_s, "last_s": self.last_s, "size": self.size, "swept_s": self.swept_s}
        return super().document() | more

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
class Landings:
    """The landings of one logstore, the oldest first, and the table they were looked up in.

    timeout_s  how long one may take from its first file to its commit
    others     files beside them that no snapshot has and no landing wrote: a compaction's, or by hand
    """

    table: str
    timeout_s: float
    found: tuple[OneLanding, ...]
    others: int

    def one(self, run: str) -> OneLanding:
        """The landing with the id `run`: its first eight digits, as `OneLanding.run` has them, which may be
        followed by the rest of it. Raises ConfigError when there is none, and for fewer digits.

        Why not as few as name one landing: what a person saw may be gone by now, and its first digits may be
        those of a run at work, which would be aborted instead.
        """
        wanted = run[:RUN_CHARS].lower()
        for landing in self.found:
            if landing.run == wanted:
                return landing
        known = [x.run for x in self.found if x.state in (Stage.OPEN, Stage.HANGING)]
        there = f"on their way are {', '.join(known)}" if known else "none is on its way"
        short = f"; give the first {RUN_CHARS} digits of its id" if len(run) < RUN_CHARS else ""
        raise ConfigError(
            f"no landing {run[:64]!r} in {self.table}: {there}{short}",
            cures=(commands.LANDINGS,),
        )


def landings_of(logstore: Logstore, lake: Lake, *, clock: Clock = SYSTEM_CLOCK) -> Landings:
    """The landings of the logstore that the table or its folder still tell of. Changes nothing.

    Raises ConfigError where there is no table or its files cannot be listed, LedgerBroken where the catalog
    has lost it, else as `reading.py` does.
    """
    table = lake.load(logstore.table)
    if table is None:
        raise ConfigError(f"there is no table {logstore.table} yet: nothing was ever on its way to it")
    return landings_in(table, logstore, clock=clock)


def landings_in(table: Table, logstore: Logstore, *, clock: Clock = SYSTEM_CLOCK) -> Landings:
    """The same of a loaded table. Raises as `landings_of`.

    From both ends: snapshots tell of committed ones, the names of files of those that no snapshot has, and a
    property of the table of aborted ones, whose files may be swept by now. A committed landing may have files
    among the orphans, too: those of windows that it lost.
    """
    state, now_s = facts(table, damaged_too=True), clock.now()
    mine = origins_named(state, logstore.service.project, logstore.service.logstore)
    timeout_s = landing_timeout_s(logstore.budget.seconds_max)
    staged, others = _staged(find_orphans(table, older_than_s=now_s + SWEEP_FLOOR_S), mine)
    found = _committed(table, mine, staged)
    there = {x.run for x in found}
    head = table.current_snapshot()
    moved_s = head.timestamp_ms / 1000 if head is not None else 0.0
    for run, (origin, files) in staged.items():
        if run not in there:
            found.append(_one(run, origin, files, state, now_s=now_s, timeout_s=timeout_s, moved_s=moved_s))
    gone = (r for r in state.aborted if r not in staged and r not in there)
    found += [_aborted(run, "", (), state) for run in gone]
    found.sort(key=lambda x: x.at_s or x.first_s or float(x.aborted_s or 0))
    named = tuple(replace(each, table=logstore.table) for each in found)
    return Landings(logstore.table, timeout_s, named, others)


def described(landing: OneLanding, table: Table) -> OneLanding:
    """With what each of its files holds, where the file is whole."""
    files = (replace(f, part=_part(table, f"{table.location()}/data/{f.path}")) for f in landing.files)
    return replace(landing, files=tuple(files))


def _staged(
    orphans: Iterable[Orphan], mine: tuple[str, ...]
) -> tuple[dict[str, tuple[str, tuple[StagedFile, ...]]], int]:
    """Run -> origin and files, of these origins; and how many other files are there.

    Worked example: `o/7/0123456789abcdef-9f31c0de-00000001.parquet` is of the origin `o`, hour 7, landing
    `9f31c0de`. A compaction names its files otherwise: they count as others, and belong to no landing.
    """
    found: dict[str, tuple[str, tuple[StagedFile, ...]]] = {}
    others = 0
    for orphan in orphans:
        name = _STAGED.fullmatch(orphan.path)
        if name is None:
            others += 1
        elif name["origin"] in mine:
            file = StagedFile(orphan.path, int(name["hour"]), orphan.size, orphan.modified_s)
            found[name["run"]] = name["origin"], (*found.get(name["run"], ("", ()))[1], file)
    return found, others


def _committed(
    table: Table, mine: tuple[str, ...], staged: dict[str, tuple[str, tuple[StagedFile, ...]]]
) -> list[OneLanding]:
    found = []
    for snapshot in table.metadata.snapshots:
        origin, windows = windows_of(snapshot)
        summary = summary_of(snapshot)
        deed = codec.decode_deed(summary.get(codec.VERB_KEY, ""))
        if not is_landing(snapshot) or origin not in mine or deed is not None:
            continue
        run = summary.get(codec.ATTEMPT_KEY, "")[:RUN_CHARS]
        found.append(
            OneLanding(
                run=run,
                state=Stage.COMMITTED,
                origin=origin,
                files=staged.get(run, ("", ()))[1],
                windows=len(windows),
                rows=sum(w.rows for w in windows),
                snapshot_id=snapshot.snapshot_id,
                at_s=snapshot.timestamp_ms / 1000,
            )
        )
    return found


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


def _part(table: Table, path: str) -> HeldCursors | None:
    """What a Parquet file's own statistics say; None for one that is still being written, or was cut off."""
    try:
        with table.io.new_input(path).open() as stream:
            metadata = pq.read_metadata(stream)
    except (OSError, pa.ArrowInvalid):
        return None
    places = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    shards, cursors = ([g.column(places[n]).statistics for g in groups] for n in ("__shard__", "__cursor__"))
    if not groups or not all(s is not None and s.has_min_max for s in (*shards, *cursors)):
        return None
    return HeldCursors(
        shards[0].min, min(c.min for c in cursors), max(c.max for c in cursors), metadata.num_rows
    )
