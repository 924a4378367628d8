"""What landed when: the landings that the table's snapshots still tell of, and what lies beside them.

Reads the table alone, the service is not asked, and also a table that landings refuse: this is where
a person looks before deciding. Nothing is changed.

All of it follows from what snapshots say of themselves. So it ends where they were expired (`kept_from`),
while gaps and withdrawn intervals come from the newest ledger and are told at any age.

Story: a table is rolled back to landing 3 of 5, and landing 6 follows. 4 and 5 are listed with `in_table`
false: their snapshots are there, their rows are not. A list that left them out would leave the person without
the one thing to look for.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing.contents.cells import origin_and_hour
from pipelines.landing.ledger import codec
from pipelines.landing.ledger.reading import Misread, Unreadable, entries_of, manifests_of
from pipelines.landing.ledger.state import TableState, ancestry, facts, origins_named, others_here, read_state
from pipelines.landing.ledger.summary import is_landing, summary_of, windows_of
from pipelines.landing.ledger.values import Deed, Landed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.former import listed
from pipelines.landing.table.lake import SWEEP_FLOOR_S, Lake
from sls_io.values.claim import CURSOR_UNKNOWN
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.cures import Call, Cure
from sls_io.values.errors import ConfigError, LedgerBroken
from sls_io.values.window import Cursor, Window


@dataclass(frozen=True)
class Entry:
    """One landing, or what a person settled (`deed`, in words `verb`), as its snapshot tells.

    run      id of the attempt that made it
    in_table whether its rows are in the table: not so after a rollback, by hand or by the verb
    withdrawn  those of its windows that were taken back since, wholly or in part, and not landed again
    """

    snapshot_id: int
    at_ms: int
    origin: str
    run: str
    verb: str
    in_table: bool
    windows: tuple[Landed, ...]
    withdrawn: tuple[Window, ...] = ()
    deed: Deed | None = None

    @property
    def rows(self) -> int:
        """Rows it brought."""
        return sum(w.rows for w in self.windows)


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
class Orphan:
    """A file in the data folder that no snapshot refers to: its path below that folder, size, time."""

    path: str
    size: int
    modified_s: float


@dataclass(frozen=True)
class HourFiles:
    """The data files of one logstore and receive hour (since 1970) that `main` has, and their rows."""

    origin: str
    hour: int
    files: int
    rows: int
    size: int


@dataclass(frozen=True)
class History:
    """Everything `sls-lake windows` shows; entries oldest first.

    trouble   why landings are refused now, "" when they are not
    kept_from time of the oldest snapshot still kept, milliseconds; landings before it are not listed
    files     files per hour of the logstore, oldest hour first
    others    metadata files of other tables in the folder: there is no telling which file is an orphan
    orphans   None when they were not looked for, or nobody could tell
    unreadable why there are no `files`, or no `orphans`: a file of the table itself that cannot be read
    cures     what settles either
    """

    table: str
    origins: tuple[str, ...]
    trouble: str
    kept_from: int | None
    entries: tuple[Entry, ...]
    missing: tuple[Interval, ...]
    adopted: int
    files: tuple[HourFiles, ...]
    orphans: tuple[Orphan, ...] | None
    unreadable: str = ""
    cures: tuple[Cure, ...] = ()
    others: tuple[str, ...] = ()


def history(
    logstore: Logstore,
    lake: Lake,
    *,
    orphans: bool = True,
    floor_s: float = SWEEP_FLOOR_S,
    clock: Clock = SYSTEM_CLOCK,
) -> History:
    """The landings of the logstore, what is missing, and orphans older than `floor_s`.

    Raises ConfigError when there is no table yet, or one that sls-lake did not make, and LedgerBroken when
    the catalog has lost it.

    A file of the table's own that cannot be read costs what needs it, files per hour and orphans, and no
    more: the landings are told from the metadata, and `cures` says what settles the file. Nothing is called
    an orphan while metadata of another table lies in the folder: its files would look like ours that nobody
    needs.
    """
    table = lake.load(logstore.table)
    if table is None:
        raise ConfigError(
            f"there is no table {logstore.table}, neither in the catalog ({lake.place}) nor a file of one: "
            "nothing has landed yet",
            cures=(commands.DESCRIBE.plus(does="asks the service, too"),),
        )
    lacking = [name for name in ("__origin__", "__receive_hour__") if name not in table.schema().column_names]
    if lacking:
        raise ConfigError(
            f"table {logstore.table} has no column {lacking[0]}: sls-lake did not make it and never landed "
            "in it; check `table` of the logstore"
        )
    state = facts(table, damaged_too=True)
    mine = origins_named(state, logstore.service.project, logstore.service.logstore)
    snapshots = sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)
    files, beside, unreadable = tuple[HourFiles, ...](), None, ""
    trouble = _trouble(table)
    cures = trouble.cures if trouble else ()
    others = tuple[str, ...]()
    try:
        files = tuple(f for f in files_per_hour(table) if f.origin in mine)
        others = others_here(table, older_than_s=clock.now() - floor_s) if orphans else ()
        if orphans and not others:
            beside = tuple(find_orphans(table, older_than_s=clock.now() - floor_s))
    except (Unreadable, Misread) as error:
        unreadable, cures = str(error), cures or error.cures
    return History(
        table=logstore.table,
        origins=mine,
        trouble=str(trouble or ""),
        kept_from=snapshots[0].timestamp_ms if snapshots else None,
        entries=tuple(_entries(table, state, snapshots, mine)),
        missing=tuple(_missing(state, mine)),
        adopted=state.adopted.rows,
        files=files,
        orphans=beside,
        unreadable=unreadable,
        cures=cures,
        others=others,
    )


def hours_of(logstore: Logstore, lake: Lake) -> tuple[HourFiles, ...]:
    """The files per hour of the logstore, oldest hour first; none where there is no table."""
    table = lake.load(logstore.table)
    if table is None:
        return ()
    state = facts(table, damaged_too=True)
    mine = origins_named(state, logstore.service.project, logstore.service.logstore)
    return tuple(f for f in files_per_hour(table) if f.origin in mine)


def files_per_hour(table: Table) -> list[HourFiles]:
    """From the manifests of `main` alone; files whose partition does not say their hour are left out.

    Raises as `reading.py` does.
    """
    found: dict[tuple[int, str], HourFiles] = {}
    head = table.current_snapshot()
    for manifest in manifests_of(table, head):
        for entry in entries_of(table, manifest):
            file = entry.data_file
            at = origin_and_hour(table, file)
            if at is not None and file.content == DataFileContent.DATA:
                origin, hour = at
                old = found.get((hour, origin), HourFiles(origin, hour, 0, 0, 0))
                found[hour, origin] = HourFiles(
                    origin,
                    hour,
                    old.files + 1,
                    old.rows + file.record_count,
                    old.size + file.file_size_in_bytes,
                )
    return [found[key] for key in sorted(found)]


def find_orphans(
    table: Table, *, older_than_s: float, needed: Collection[str] | None = None
) -> Iterator[Orphan]:
    """Files below the table's data folder that are not `needed` (`needed_by`), last written before then.

    Raises ConfigError for storage that is not read through pyarrow, else as `reading.py` does.

    `older_than_s` is a moment, unix seconds: a file of a landing on its way is no orphan, and only its age
    tells. Worked example: it is 100,000 and the floor is 86,400 s: files last written before 13,600 are
    named.

    Compared by the path as the storage has it: `s3://b/x` and `s3a://b/x` are one file. A file whose age the
    storage does not tell is left out.
    """
    found = listed(table.io, f"{table.location()}/data", recursive=True)
    if found is None:
        raise ConfigError(
            f"files of table {'.'.join(table.name())} cannot be listed through {type(table.io).__name__}",
            cures=(Call(("windows", "--no-orphans")),),
        )
    parse = PyArrowFileIO.parse_location
    folder = parse(f"{table.location()}/data", table.io.properties)[2]
    paths = needed_by(table) if needed is None else needed
    known = {parse(path, table.io.properties)[2] for path in paths}
    for info in found:
        if info.path in known or info.mtime is None:
            continue
        modified_s = info.mtime.timestamp()
        if modified_s < older_than_s:
            yield Orphan(info.path.removeprefix(folder).lstrip("/"), int(info.size or 0), modified_s)


def needed_by(table: Table) -> frozenset[str]:
    """Every file that the table's metadata leads to, by path: metadata, statistics, manifests, data.

    Story: metadata was written into the data folder for a while (`write.metadata.path`). Whoever looks
    there for files of data that nobody needs finds the manifests of kept snapshots.

    Raises as `reading.py` does.
    """
    metadata = table.metadata
    manifests = {m.manifest_path: m for s in metadata.snapshots for m in manifests_of(table, s)}
    return frozenset(
        (
            table.metadata_location,
            *(entry.metadata_file for entry in metadata.metadata_log),
            *(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)),
            *(snapshot.manifest_list for snapshot in metadata.snapshots),
            *manifests,
            *(e.data_file.file_path for m in manifests.values() for e in entries_of(table, m)),
        )
    )


def _entries(
    table: Table, state: TableState, snapshots: list[Snapshot], mine: tuple[str, ...]
) -> Iterator[Entry]:
    there = _in_table(table)
    for snapshot in snapshots:
        summary = summary_of(snapshot)
        origin, windows = windows_of(snapshot)
        deed = codec.decode_deed(summary.get(codec.VERB_KEY, ""))
        shards = state.ledger(origin).shards
        if is_landing(snapshot) and (origin in mine or deed is not None):
            yield Entry(
                snapshot_id=snapshot.snapshot_id,
                at_ms=snapshot.timestamp_ms,
                origin=origin,
                run=summary.get(codec.ATTEMPT_KEY, ""),
                verb="" if deed is None else str(deed),
                deed=deed,
                in_table=snapshot.snapshot_id in there,
                windows=windows,
                withdrawn=tuple(
                    x.window
                    for x in windows
                    if x.window.shard in shards
                    and shards[x.window.shard].withdrawn.overlaps(x.window.begin, x.window.end)
                ),
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
            deed = codec.decode_deed(summary_of(snapshot).get(codec.VERB_KEY, ""))
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
