"""Keep a table small and fast, beside landings that go on: `sls-lake table maintain`.

    compact     small files of sealed receive hours written together, once (`compact.py`)
    manifests   data manifests written anew when they are many
    expire      all but the newest and the young snapshots leave the metadata; no file is deleted
    sweep       old files that no kept snapshot refers to are deleted: data, manifests, manifest lists
    metadata    old metadata versions that the metadata log does not name are deleted

The first three are commits, fenced like a landing: of two that race one looks again. The last two
delete, by path, and only after a *refresh*: a commit that changes nothing but `main`.

Story: A writes files and is paused for a day. The sweep finds files that nobody refers to and deletes
them, A wakes and publishes. Because of the refresh A's commit is refused, A loads the table again, and
there its files are older than half of the floor, so it plans afresh. Whoever reads the table after the
refresh writes files younger than it, and what is deleted is older than the refresh by the whole floor.

The order is part of the rule. Compaction and manifests come first, since what they replace is only free once
the snapshots that list it are expired. The expiry comes before the refresh, since the refresh is what refuses
a rollback that was looked at before. Each step looks at the table anew: a landing may have come, or a loss.

Worked example: 230 snapshots, 3 hours to compact, a sweep, 200 to be kept. The 3 commits make 233, the
refresh will be one more, so 34 leave: 199 and the refresh.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table

from pipelines.landing.commit import authored
from pipelines.landing.commit.after_commit import Made, commits
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.commit.planned import TRIES_MAX, Done, NothingToDo, Planned, Tools, View, execute
from pipelines.landing.contents import sameness
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection import cures
from pipelines.landing.inspection.table_files import Orphan
from pipelines.landing.ledger.place import Looked, look_at
from pipelines.landing.ledger.reading import Misread, Unreadable, check_kept, live_rows, manifests_of
from pipelines.landing.ledger.state import held_columns, landed_snapshot, others_here, others_text
from pipelines.landing.ledger.summary import missing_rows
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance import compact, sweep
from pipelines.landing.maintenance.compact import CompactableHour, Left
from pipelines.landing.maintenance.expiry import affordable, expired, holding, left_too
from pipelines.landing.run.driver import PUBLISH_DEADLINE_S, RELOAD_DEADLINE_S
from pipelines.landing.table import commands
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import SWEEP_FLOOR_S, Lake
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.cures import Cure
from sls_io.values.errors import (
    ConfigError,
    LandingConflict,
    LedgerBroken,
    TransportError,
    amount,
    printable,
    some_of,
)

STEPS = ("compact", "manifests", "expire", "sweep", "metadata")
MANIFESTS_MAX = 100
_FILES_A_MANIFEST = 2000
_DELETING = frozenset({"sweep", "metadata"})


@dataclass(frozen=True)
class Maintenance(Effect):
    """What would be done, or was.

    left       why the other hours are not compacted, as it was before; empty without that step
    refreshed  the snapshot that made earlier writers look again; None when nothing was deleted
    manifests  data manifests of main, now and after; the same where they stay
    expired    snapshots that leave, oldest first; `kept` stay
    holding    tags and branches that keep older snapshots, and so their files
    swept, metadata  files deleted; paths below the table's folder
    put_off    what was left for the next time, and why: steps, hours, files
    unsettled  some of that waits for a person: rows are lost, or a file cannot be read

    In a dry run `swept` are the files that nothing needs now. A run also sweeps what its own compaction,
    manifests and expiry free.
    """

    QUIET = frozenset({"steps", "left", "manifests", "expired", "kept", "holding", "refreshed", "put_off"})

    table: str
    steps: tuple[str, ...]
    executed: bool
    compacted: tuple[CompactableHour, ...] = ()
    left: tuple[Left, ...] = ()
    manifests: tuple[int, int] = (0, 0)
    expired: tuple[int, ...] = ()
    kept: int = 0
    holding: tuple[str, ...] = ()
    refreshed: int | None = None
    swept: tuple[Orphan, ...] = ()
    metadata: tuple[Orphan, ...] = ()
    put_off: tuple[str, ...] = ()
    unsettled: bool = False

    @property
    def headline(self) -> str:
        return f"{self.table}: {', '.join(self.steps)}"

    def said(self) -> Iterable[Note]:
        for each in self.left:
            yield Note(f"not compacted: {left_text(each)}")
        if self.holding:
            names = some_of(map(printable, self.holding), 3)
            yield Note(f"older snapshots stay, with their files, while these names do: {names}")
        frees = self.compacted or self.expired or self.manifests[0] != self.manifests[1]
        if "sweep" in self.steps and not self.executed and frees:
            yield Note("on top come files that this very run's compaction, manifests and expiry free")
        for why in self.put_off:
            yield Note(f"put off: {why}", "warn")

    def numbers(self) -> dict[str, int | None]:
        after = [hour.files_after for hour in self.compacted if hour.files_after is not None]
        return {
            "hours_compacted": len(self.compacted),
            "rows_compacted": sum(hour.rows for hour in self.compacted),
            "files_before": sum(hour.files for hour in self.compacted),
            **({"files_after": sum(after)} if self.executed else {}),
            "manifests_before": self.manifests[0],
            "manifests_after": self.manifests[1],
            "snapshots_expired": len(self.expired),
            "snapshots_kept": self.kept,
            "files_swept": len(self.swept),
            "swept_bytes": sum(file.size for file in self.swept),
            "metadata_files_deleted": len(self.metadata),
            "put_off": len(self.put_off),
        }

    def document(self) -> dict[str, Any]:
        return asdict(replace(self, compacted=tuple(replace(hour, parts=()) for hour in self.compacted)))


class Maintainer:
    """One maintenance of one table.

    `keep_s`: a younger snapshot stays, however many there are. `floor_s`: no younger file is deleted; at
    least a day and three times the longest run of the logstore. `on_event` hears the name of each step's
    commit before it is sent.
    """

    def __init__(
        self,
        logstore: Logstore,
        lake: Lake,
        *,
        target_bytes: int = compact.TARGET_BYTES,
        manifests_max: int = MANIFESTS_MAX,
        snapshots_max: int | None = None,
        keep_s: float = 0.0,
        floor_s: float = SWEEP_FLOOR_S,
        clock: Clock = SYSTEM_CLOCK,
        on_event: Callable[[str], None] = lambda name: None,
    ) -> None:
        # Worked example: runs of at most 10 hours need 3 x 36,000 s + 120 s, so a floor below 30 hours is
        # refused; up to runs of 8 hours the day is about enough. A writer goes by half of `SWEEP_FLOOR_S`,
        # whatever floor is named here (`freshness.py`), so a higher one is as safe.
        unknown_s = PUBLISH_DEADLINE_S + RELOAD_DEADLINE_S
        lowest_s = max(SWEEP_FLOOR_S, 3 * logstore.budget.seconds_max + unknown_s)
        if floor_s < lowest_s:
            raise ConfigError(
                f"files younger than {lowest_s / 3600:g} hours may be about to be published; "
                "name a floor that is not below that"
            )
        if target_bytes < 1 or (snapshots_max or 2) < 2 or manifests_max < 1:
            raise ConfigError("a target size and manifests are at least 1, snapshots to keep at least 2")
        self.lake, self.name, self.clock, self._logstore = lake, logstore.table, clock, logstore
        self.target_bytes, self.manifests_max = target_bytes, manifests_max
        self.snapshots_max, self.floor_s, self._on_event = snapshots_max, floor_s, on_event
        self._keep_s = keep_s
        self._put_off: list[str] = []
        self._unsettled = False
        self._made = Made(self.name)

    def plan(self, steps: Collection[str] = STEPS) -> Maintenance:
        """What `execute` would do to the table as it is now. Changes nothing.

        Raises ConfigError when nothing has landed, LedgerBroken when the table cannot be trusted.
        """
        steps, self._put_off, self._unsettled = _ordered(steps), [], False
        looked = self._look()
        table, now_s = looked.table, self.clock.now()
        if not self._whole(looked, steps):
            return self._told(table, steps, executed=False)
        hours, left = self._compactable(looked, steps)
        count = _manifest_count(table)
        fewer = _fewest(table) if "manifests" in steps and self._many(table) else count
        # Each commit of this very run is a snapshot, too, and among the newest that stay.
        refresh = bool(_DELETING & set(steps))
        commits = len(hours) + (fewer != count)
        leaving = self._leaving(table, refresh, coming=commits) if "expire" in steps else ()
        deleting = [step for step in steps if step in _DELETING]
        deleting = [] if self._mixed(table, now_s, deleting) else deleting
        swept = self._swept(table, now_s) if "sweep" in deleting else ()
        old = sweep.old_metadata(table, older_than_s=now_s - self.floor_s) if "metadata" in deleting else ()
        return replace(
            self._told(table, steps, executed=False),
            compacted=hours,
            left=left,
            manifests=(count, fewer),
            expired=leaving,
            kept=len(table.metadata.snapshots) - len(leaving) + commits + refresh,
            holding=holding(table, self._most(table)) if "expire" in steps else (),
            swept=swept,
            metadata=old,
        )

    def execute(self, steps: Collection[str] = STEPS) -> Maintenance:
        """Do it, each step on the table as it is by then.

        Raises what `plan` does; LandingConflict when others committed before each try, LandingUnknown when an
        answer was lost, CommitStands for what came after a commit of its own. Whatever it raises, asking for
        the same again is safe.
        """
        steps, self._put_off, self._unsettled = _ordered(steps), [], False
        with commits(self.name) as self._made:
            return self._execute(steps)

    def _execute(self, steps: tuple[str, ...]) -> Maintenance:
        looked = self._look()
        if not self._whole(looked, steps):
            return self._told(looked.table, steps, executed=True)
        hours, left = self._compactable(looked, steps)
        compacted = self._compact(hours)
        manifests = self._regroup("manifests" in steps)
        deleting = [step for step in steps if step in _DELETING]
        deletes = bool(deleting)
        # The refresh comes after, and is a snapshot, too. Story: it came first; a rollback is looked at
        # after it and committed after the expiry, to a snapshot whose files are being deleted.
        leaving = tuple[int, ...]()
        if "expire" in steps and self._whole(self._look(), ["expire"]):
            leaving = self._expire(deletes)
            deletes = self._alone(leaving, ", ".join(deleting) or "expire") and deletes
        refreshed, swept, metadata = None, tuple[Orphan, ...](), tuple[Orphan, ...]()
        if deletes and self._whole(self._look(), deleting):
            looked = self._refresh()
            table, refreshed = looked.table, looked.state.tagged
            # The storage's own clock stamps the files; ours may be ahead of it.
            now_s = min(self.clock.now(), sweep.stored_s(table))
            deleting = [] if self._mixed(table, now_s, deleting) else deleting
            if "sweep" in deleting:
                swept = self._delete(table, self._swept(table, now_s))
            if "metadata" in deleting:
                metadata = self._delete(table, sweep.old_metadata(table, older_than_s=now_s - self.floor_s))
        after = self._look().table
        return replace(
            self._told(after, steps, executed=True),
            compacted=compacted,
            left=left,
            manifests=manifests,
            expired=leaving,
            holding=holding(after, self._most(after)) if "expire" in steps else (),
            refreshed=refreshed,
            swept=swept,
            metadata=metadata,
        )

    def _whole(self, looked: Looked, steps: Collection[str]) -> bool:
        """Whether the table holds the rows that its ledgers say; if not, `steps` are put off.

        Story: somebody deletes rows by hand, and before anybody looks the nightly expiry and sweep take
        the snapshots and files that still hold them. Or a compaction makes what is left the newest landing,
        which a rollback should bring the rows back from.
        """
        try:
            why = _lost(looked, self._logstore.option)
        except (Unreadable, Misread) as error:
            return self._refused(looked.table, ", ".join(steps), error)
        if why:
            self._put_off.append(f"{', '.join(steps)}: {why}")
            self._unsettled = True
        return not why

    def _refused(self, table: Table, steps: str, error: Unreadable | Misread) -> bool:
        """Puts the steps off, with what settles it. False, for who asks whether they may go on. Raises as
        `check_kept`: another maintenance may be at work."""
        check_kept(table)
        cures.give_cures(error, self._logstore, self.lake)
        self._put_off.append(f"{steps}: {error}{self._named(error.cures)}")
        self._unsettled = True
        return False

    def _named(self, found: Collection[Cure]) -> str:
        return f"; {commands.phrase(found, self._logstore.option)}" if found else ""

    def _told(self, table: Table, steps: tuple[str, ...], *, executed: bool) -> Maintenance:
        """What is to be told in any case; where nothing is done, that alone."""
        return Maintenance(
            table=self.name,
            steps=steps,
            executed=executed,
            kept=len(table.metadata.snapshots),
            put_off=tuple(self._put_off),
            unsettled=self._unsettled,
        )

    def _compactable(
        self, looked: Looked, steps: Collection[str]
    ) -> tuple[tuple[CompactableHour, ...], tuple[Left, ...]]:
        if "compact" not in steps:
            return (), ()
        # Files that are written anew have the table's columns only: what was dropped would be lost for good.
        schema, held = looked.table.schema(), held_columns(looked.table)
        Contract.from_columns(self._logstore.columns).check_held(schema, held)
        hours = tuple(compact.plan_compaction(looked, target_bytes=self.target_bytes))
        return hours, compact.left(looked, hours, target_bytes=self.target_bytes)

    # --- commits ---------------------------------------------------------------------------------

    def _compact(self, hours: Iterable[CompactableHour]) -> tuple[CompactableHour, ...]:
        done = []
        unreadable: list[tuple[CompactableHour, Unreadable]] = []
        clock, size = self.clock, self.target_bytes
        for each in compact.compactions(self._look, hours, target_bytes=size, clock=clock):
            hour = each.planned.view
            try:
                made = self._done("compact", each.planned, each.fresh)
            except Unreadable as error:
                unreadable.append((hour, error))
            except (LandingConflict, LedgerBroken, TransportError) as error:
                self._put_off.append(f"compact {hour_text(hour.hour)}: {error}")
                self._unsettled |= isinstance(error, LedgerBroken)
            else:
                done.append(replace(made.planned.view, snapshot_id=made.snapshot))
        self._put_off_unreadable(unreadable)
        return tuple(done)

    def _put_off_unreadable(self, hours: Sequence[tuple[CompactableHour, Unreadable]]) -> None:
        """Cures are looked for once, behind the last hour: a search reads the whole table."""
        if not hours:
            return
        cures.give_cures_of_all([error for _, error in hours], self._logstore, self.lake)
        self._unsettled = True
        for hour, error in hours[:-1]:
            self._put_off.append(f"compact {hour_text(hour.hour)}: {error}")
        last, error = hours[-1]
        self._put_off.append(f"compact {hour_text(last.hour)}: {error}{self._named(error.cures)}")

    def _regroup(self, wanted: bool) -> tuple[int, int]:
        looked = self._look()
        before = _manifest_count(looked.table)
        if not wanted or not self._many(looked.table):
            return before, before
        changed = self._commit(Operation.MANIFESTS, regroup=_FILES_A_MANIFEST)
        return before, _manifest_count(changed.table)

    def _many(self, table: Table) -> bool:
        """Whether the manifests are many, and writing them anew would at least halve them.

        Worked example: 101 manifests of 41 files each would be 3. 101 manifests of 2,000 files would be 101
        again: without the second condition each maintenance wrote them anew, for nothing.
        """
        return _manifest_count(table) > self.manifests_max and 2 * _fewest(table) <= _manifest_count(table)

    def _refresh(self) -> Looked:
        return self._commit(Operation.REFRESH)

    def _commit(self, operation: Operation, *, regroup: int = 0) -> Looked:
        """A commit that leaves all rows, and the table loaded after it, which contains it."""

        def plan() -> Planned[None]:
            looked = self._look()
            change = authored.unchanged(looked.head, looked.state, Deed(operation))
            change = replace(change, regroup=regroup, same_rows=bool(regroup))
            return Planned(None, looked, change, again=plan)

        snapshot = self._done(operation, plan()).snapshot
        after = self._look()
        if landed_snapshot(after.table, [snapshot]) is None:
            raise LandingConflict(f"snapshot {snapshot} of {self.name} was taken back at once")
        return after

    def _expire(self, later: int) -> tuple[int, ...]:
        """The snapshots that left the metadata; `later`: how many this maintenance goes on to make."""
        try:
            leaving = self._done("expire", self._expiry(later)).planned.view
        except NothingToDo:  # others were first
            return ()
        self._made.what = f"an expiry of {amount(len(leaving), 'snapshot')} of {self.name} is committed"
        return leaving

    def _alone(self, leaving: Collection[int], steps: str) -> bool:
        """Whether no ref left with these snapshots; else `steps` are put off, for its files."""
        refs, file = left_too(self._look().table, leaving) if leaving else ({}, "")
        for ref, snapshot in sorted(refs.items()):
            self._put_off.append(
                f"{steps}: {ref!r} was put on snapshot {snapshot} in the moment in which that expired, and "
                f"is gone with it. Its files stay until the next maintenance: until then {file} leads to them"
            )
            self._unsettled = True
        return not refs

    def _expiry(self, later: int) -> Planned[tuple[int, ...]]:
        """Somebody else's commits may be on top of the newest landing. With snapshots between the two gone
        nobody could prove any more that the landing is part of main: the tag moves first."""
        again = partial(self._expiry, later)
        for _ in range(TRIES_MAX):
            looked = self._look()
            leaving = self._leaving(looked.table, later)
            if not leaving:
                return Planned((), looked, None)
            if looked.state.tagged == looked.state.head:
                return Planned(leaving, looked, authored.Expiry(leaving), again=again)
            self._commit(Operation.REFRESH)
        raise LandingConflict(
            f"others committed to {self.name} right behind the tag; no snapshot was expired"
        )

    def _leaving(self, table: Table, later: int, coming: int = 0) -> tuple[int, ...]:
        """`expired`, by this maintenance's clock, with room for what it makes `later`."""
        since_ms = (self.clock.now() - self._keep_s) * 1000 if self._keep_s else float("inf")
        return expired(table, self._most(table) - later, coming, since_ms=since_ms)

    def _most(self, table: Table) -> int:
        return self.snapshots_max or affordable(table)

    def _done(self, step: str, planned: Planned[View], fresh: Freshness | None = None) -> Done[View]:
        tools = Tools(self.clock, on_event=lambda event: self._on_event(f"{step}.built"))
        done = execute(self.lake, planned, tools, fresh)
        self._made.snapshot(done.snapshot)
        return done

    def _look(self) -> Looked:
        return look_at(self.lake, self.name)

    # --- files -----------------------------------------------------------------------------------

    def _mixed(self, table: Table, now_s: float, steps: Collection[str]) -> bool:
        """Whether files of another table lie here, too; nothing is deleted then.

        Story: a table is lost from the catalog and a new one begins in its folder. No snapshot of the new
        one refers to the old files, and after a day they would go, the only thing that is left of it.
        """
        others = others_here(table, older_than_s=now_s - self.floor_s) if steps else ()
        if others:
            self._put_off.append(f"{', '.join(steps)}: {others_text(others)}")
            self._unsettled = True
        return bool(others)

    def _swept(self, table: Table, now_s: float) -> tuple[Orphan, ...]:
        """The orphans; none when a kept snapshot cannot say which files it needs."""
        try:
            return sweep.orphans(table, older_than_s=now_s - self.floor_s)
        except (Unreadable, Misread) as error:
            self._refused(table, "sweep", error)
            return ()

    def _delete(self, table: Table, files: Iterable[Orphan]) -> tuple[Orphan, ...]:
        """What was deleted. A file that cannot be is put off by itself: the others need not wait for it."""
        gone = []
        for file in files:
            try:
                table.io.delete(f"{table.location()}/{file.path}")
            except FileNotFoundError:
                continue  # another maintenance was first
            except OSError as error:
                self._put_off.append(f"{file.path} could not be deleted ({type(error).__name__})")
            else:
                gone.append(file)
        return tuple(gone)


def left_text(left: Left) -> str:
    """Why hours are not compacted, with their number, for people."""
    hours = "" if left.why == "unknown" else f"{amount(left.hours, 'hour')}, "
    return f"{hours}{amount(left.files, 'file')}: {left.text}"


def _lost(looked: Looked, name: str) -> str:
    """Why the table does not hold as many rows as its ledgers and adopted rows say; "" when it does.

    From the manifests, apart from files with row-level deletes. Raises as `reading.py` does.
    """
    table, state = looked.table, looked.state
    rows, head = live_rows(table), table.current_snapshot()
    missing = missing_rows(table, head, rows, state.ledgers, state.adopted) if head is not None else 0
    if not missing:
        return ""
    target = sameness.way_back(table)
    named = (commands.VERIFY, *([cures.brought_back(target)] if target is not None else []))
    return (
        f"table {'.'.join(table.name())} holds {amount(rows, 'row')}, its ledger says {rows + missing}, and "
        f"older snapshots may be the only way back, so they stay: {commands.phrase(named, name)}"
    )


def _ordered(steps: Collection[str]) -> tuple[str, ...]:
    strange = sorted(set(steps) - set(STEPS))
    if strange:
        raise ConfigError(f"{strange[0]!r} is no step of the maintenance; they are {', '.join(STEPS)}")
    return tuple(step for step in STEPS if step in steps)


def _manifest_count(table: Table) -> int:
    manifests = manifests_of(table, table.current_snapshot())
    return sum(m.content == ManifestContent.DATA for m in manifests)


def _fewest(table: Table) -> int:
    """How many data manifests there would be."""
    files = dict[int, int]()
    for manifest in manifests_of(table, table.current_snapshot()):
        if manifest.content == ManifestContent.DATA:
            live = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
            files[manifest.partition_spec_id] = files.get(manifest.partition_spec_id, 0) + live
    return sum(-(-count // _FILES_A_MANIFEST) for count in files.values())
