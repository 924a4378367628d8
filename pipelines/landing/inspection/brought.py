"""What each commit of `main` brought, receive hour by receive hour: what somebody has to be told of.

A run tells what it landed; a run that died behind its commit told nothing, and neither did a verb of the
command line. The table knows all of them, so whoever tells asks it, and not the run.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from pipelines.landing.contents.cells import partition_hour, partition_origin
from pipelines.landing.ledger import codec
from pipelines.landing.ledger.newest_landing import added_entries
from pipelines.landing.ledger.reading import entries_in, manifests_of
from pipelines.landing.ledger.state import ancestry
from pipelines.landing.ledger.summary import deed_in, is_landing, summary_of, windows_of
from pipelines.landing.ledger.values import Landed
from sls_io.values.claim import Ledger
from sls_io.values.errors import LedgerBroken, SlsError
from sls_io.values.window import HOUR_S

COMMITS_MAX = 100
"""With 256 shards each ledger takes some milliseconds to read, and a live run reads all of these. Commits
that leave all rows as they are do not count.

Story: a run dies right behind its commit, and a maintenance compacts a hundred hours, a commit each. With
these counted, the run's commit was out of reach, and its hours stayed failed on Dagster's page for ever."""
_BEFORE_MAX = 366 * 24
"""Hours before the first row that a first landing brings: who names 1970 as the start has half a million."""


@dataclass(frozen=True, slots=True)
class Brought:
    """One commit. `windows`: by receive hour (since 1970), what landed or was landed again; `changed`: hours
    of which files came or left by a person's verb or by other hands; `hours`: these, and those that every
    open shard has passed with it."""

    snapshot_id: int
    windows: Mapping[int, tuple[Landed, ...]] = field(default_factory=dict)
    hours: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()


def brought(table: Table, origin: str, since: int | None = None) -> Iterator[Brought]:
    """The newest commits of `main` after which rows are others, newest first, and what each brought of the
    logstore with this id. `since`: the hour that its history here begins with, where the whole history was
    asked for: the first landing has passed the hours from there to its first row.

    Only a landing passes hours: what a person settles moves frontiers over hours that nobody read. So does a
    gap, over hours that were lost, and nobody knows which: a commit that names one has its hours with rows.
    """
    snapshots, chosen = list[Snapshot](), list[int]()
    for snapshot in ancestry(table):
        if not _same_rows(snapshot):
            chosen.append(len(snapshots))
        snapshots.append(snapshot)
        if len(chosen) > COMMITS_MAX:
            break

    @cache
    def ledger(at: int) -> Ledger | None:
        return _ledger(snapshots[at], origin)

    for at in chosen[:COMMITS_MAX]:
        snapshot, now = snapshots[at], ledger(at)
        # Also of a commit that left the rows: a skip moves frontiers.
        before = next(
            (found for n in range(at + 1, len(snapshots)) if (found := ledger(n)) is not None), None
        )
        windows = _windows(snapshot, origin)
        plain = is_landing(snapshot) and deed_in(snapshot) is None  # it only adds, and its windows say what
        changed = set[int]() if plain else _changed(table, snapshot, origin)
        hours = changed | set(windows)
        if plain and now is not None and before is not None and _gaps(now) <= _gaps(before):
            first = since if _untouched(before) else None
            hours = landed_hours(windows, oldest_reached_s([before]), oldest_reached_s([now]) or 0, first)
        yield Brought(snapshot.snapshot_id, windows, frozenset(hours), frozenset(changed))


def oldest_reached_s(ledgers: Iterable[Ledger]) -> int | None:
    """The oldest receive time reached over all open shards, or over all shards when none is open
    (a split whose children are not in the table yet). None before first start."""
    shards = [entry for ledger in ledgers for entry in ledger.shards.values()]
    open_shards = [entry for entry in shards if not entry.closed]
    return min((entry.reached_s for entry in open_shards or shards), default=None)


def landed_hours(
    with_rows: Iterable[int], before_s: int | None, reached_s: int, since: int | None = None
) -> set[int]:
    """Hours with rows, and those that the oldest receive time reached has passed on its way from `before_s`.

    Before the first landing there is no such time. Then they begin with the hour `since`, a year ago at most.
    Where there is none, hours older than the first row are not shown: the history may begin after them.

    Worked example: rows came in hour 12, and all shards have reached 13:01, after 10:30 before: hours 10, 11
    and 12, since the end of 10 was passed, too. Of a first landing it is hour 12 and, with 14:00 reached, 13;
    with `since` 10, hours 10 to 13.
    """
    rows = set(with_rows)
    oldest = min(rows, default=reached_s // HOUR_S)
    begin = oldest if since is None else min(oldest, max(since, oldest - _BEFORE_MAX))
    first = before_s // HOUR_S if before_s else begin
    return rows | complete_hours(range(first, reached_s // HOUR_S + 1), reached_s)


def _untouched(ledger: Ledger) -> bool:
    """Whether nothing of a history has been passed yet. Not that of a split, whose children begin anew."""
    return not oldest_reached_s([ledger]) and not any(entry.closed for entry in ledger.shards.values())


def complete_hours(asked: Iterable[int], reached_s: int) -> set[int]:
    """The asked hours that lie wholly before the receive time reached."""
    return {hour for hour in asked if (hour + 1) * HOUR_S <= reached_s}


def _ledger(snapshot: Snapshot, origin: str) -> Ledger | None:
    text = summary_of(snapshot).get(f"{codec.LEDGER_PREFIX}{origin}")
    try:
        return codec.decode(origin, text) if text is not None else None
    except LedgerBroken:
        return None


def _gaps(ledger: Ledger) -> set[tuple[int, int, int]]:
    return {(shard, gap.begin, gap.end) for shard, entry in ledger.shards.items() for gap in entry.gaps}


def _windows(snapshot: Snapshot, origin: str) -> dict[int, tuple[Landed, ...]]:
    of, landed = windows_of(snapshot)
    hours: dict[int, tuple[Landed, ...]] = {}
    for each in landed if of == origin else ():
        hours[each.window.hour] = (*hours.get(each.window.hour, ()), each)
    return hours


def _same_rows(snapshot: Snapshot) -> bool:
    """Whether a commit says that all rows are what they were: files or manifests written anew, or a verb that
    appended nothing. A landing appends nothing, too, where it passes empty hours."""
    done = snapshot.summary.operation if snapshot.summary is not None else Operation.OVERWRITE
    return done is Operation.REPLACE or (done is Operation.APPEND and deed_in(snapshot) is not None)


def _changed(table: Table, snapshot: Snapshot, origin: str) -> set[int]:
    """Hours of the logstore's files that came or left with a commit, whatever verb made it; none where they
    cannot be read. The words of its deed are for people."""
    before = table.snapshot_by_id(snapshot.parent_snapshot_id or 0)
    try:
        if before is None:  # expired: nobody can say what has left
            files = [entry.data_file for entry in added_entries(table, snapshot)]
        else:
            files = _differing(table, snapshot, before)
    except (SlsError, OSError):
        return set()
    # Where a partition says no logstore the rows may be of this one.
    mine = (f for f in files if partition_origin(table, f) in (origin, None))
    return {hour for file in mine if (hour := partition_hour(table, file)) is not None}


def _differing(table: Table, one: Snapshot, other: Snapshot) -> list[DataFile]:
    """The files that only one of two snapshots has. Manifests that both have are not read."""
    manifests = [{m.manifest_path: m for m in manifests_of(table, each)} for each in (one, other)]
    alone = manifests[0].keys() ^ manifests[1].keys()
    files = [
        {
            entry.data_file.file_path: entry.data_file
            for entry in entries_in(table, (manifest for path, manifest in each.items() if path in alone))
        }
        for each in manifests
    ]
    return [(files[0] | files[1])[path] for path in files[0].keys() ^ files[1].keys()]
