"""Small files of a sealed receive hour written together, once, in a commit that changes no row.

An hour is sealed when every frontier of its logstore has passed it: no live run adds to it any more. Its
small files become files of the target size in `data/<origin>/compacted/`. A file there is never compacted
again, so a row is written anew at most once. Small files that make a new one are a part; parts are written
here, or as tasks of Spark where they are large (`spread.py`), some megabytes of rows in memory. Each new file
is read again, and its rows and identity sum compared, before anything is committed.

Worked example: an hour has 700 files of 2 MB. At a target of 512 MB they are three parts, in the order of
their first shards and cursors: so the new files' bounds stay narrow, and a reader of one shard opens one.

Why it cannot disturb a landing: a landing adds files to hours that are not sealed, or to hours that a person
named; a compaction replaces files that are there, in one commit that requires the table as it was read.
Whoever commits second is refused and looks again. Worked example: a compaction writes the files a and b
together as c; a backfill adds d to the same hour and commits first. The compaction is refused, finds a and b
unchanged beside d, and commits c in their place: the hour has c and d, and no row twice.

The commit is fenced like a landing (`authored.py`): ledgers and rows stay, the tag moves along, nothing is
marked as deleted. Files with row-level deletes are left alone.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.commit import authored
from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.commit.planned import Planned, Tools
from pipelines.landing.contents import rewrite
from pipelines.landing.contents.cells import origin_and_hour
from pipelines.landing.contents.slices import fingerprint
from pipelines.landing.contents.spread import Portion, bytes_of, in_groups, over, unless_wrong
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.place import Looked
from pipelines.landing.ledger.reading import tasks_of
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.table import commands
from pipelines.landing.table.bounded_scan import rows_of_file
from pipelines.landing.table.contract import rows_of
from pipelines.landing.table.data_files import ROW_GROUP_BYTES, partition_text
from pipelines.landing.table.new_file import NewFile
from sls_io.decoding.decode import identity_sum
from sls_io.values.claim import SUM_MODULUS, Ledger
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import (
    InvariantBroken,
    LandingConflict,
    LedgerBroken,
    SlsError,
    TransportError,
    amount,
    some_of,
)
from sls_io.values.window import HOUR_S

TARGET_BYTES = 512 * 1024**2
FOLDER = "compacted"
_LARGE = 0.75
_PARTS_A_BATCH = 256
"""Of half a GB each: hours on a single core, and far from the age at which files may not be published."""
Why = Literal["unsealed", "few", "done", "marked", "unknown"]
_WHY: Mapping[Why, str] = {
    "few": "already as few files as hold their rows",
    "done": "compacted before, or of files near the target size",
    "marked": "another engine marked rows as deleted: let it write its files anew (rewrite_data_files)",
    "unknown": "their partition says no logstore or no receive hour",
}
_IDENTITY = ("__shard__", "__cursor__", "__index__")


@dataclass(frozen=True)
class CompactableHour:
    """Small files of one logstore and receive hour (since 1970) that are written together.

    `snapshot_id` and `files_after` are None until it was done.
    """

    origin: str
    hour: int
    rows: int
    files: int
    file_bytes: int
    files_after: int | None = None
    snapshot_id: int | None = None
    parts: tuple[Portion, ...] = field(default=(), repr=False, compare=False)

    @property
    def tasks(self) -> Portion:
        """The files."""
        return tuple(task for part in self.parts for task in part)


@dataclass(frozen=True)
class HourPart:
    """Small files of a logstore and receive hour that are written as one file."""

    origin: str
    hour: int
    tasks: Portion
    target_bytes: int


@dataclass(frozen=True)
class Left:
    """Receive hours that stay as they are for the same reason, which `text` says; `origin` where it is one
    logstore's own. Of `unknown` files nobody knows the hour.
    """

    why: Why
    origin: str
    hours: int
    files: int
    text: str


def sealed_before(ledger: Ledger) -> int:
    """The receive hour (since 1970) before which no live run adds rows of this logstore.

    Worked example: of three shards two are open and have reached 09:20 and 11:05, the closed one ended at
    07:40. Live runs go on at 09:20 or later, so all hours before 09:00 are sealed.
    """
    shards = ledger.shards.values()
    still = [entry.reached_s for entry in shards if not entry.closed]
    # All closed: children that no ledger knows yet begin where their parents were last seen.
    reached = min(still) if still else max((entry.reached_s for entry in shards), default=0)
    return reached // HOUR_S


def plan_compaction(looked: Looked, *, target_bytes: int = TARGET_BYTES) -> list[CompactableHour]:
    """Sealed hours with more small files than files of the target size would hold; oldest first."""
    hours, order = [], _order(looked.table.schema())
    for (origin, hour, *_), small in _small(looked, target_bytes):
        parts = _parts(sorted(small, key=order), target_bytes)
        tasks = [task for part in parts for task in part]
        if tasks:
            rows = sum(task.file.record_count for task in tasks)
            size = sum(task.file.file_size_in_bytes for task in tasks)
            hours.append(CompactableHour(origin, hour, rows, len(tasks), size, parts=tuple(parts)))
    return hours


def _parts(tasks: list[FileScanTask], target_bytes: int) -> list[Portion]:
    """Those of these files that are written together: parts of about the target size, each of which becomes
    one file. A file that would be a part alone stays as it is.

    As many parts as hold them; a file goes where its middle lies, so a part may be larger by a file. Worked
    example: of four files of 0.7 times the target, 2.8 together, the middles lie in the first, second, second
    and third of three parts. The second and third file are written together.
    """
    size = sum(task.file.file_size_in_bytes for task in tasks)
    count, before = -(-size // target_bytes), 0
    found = defaultdict[int, list[FileScanTask]](list)
    for task in tasks:
        middle = 2 * before + task.file.file_size_in_bytes
        found[min(count - 1, middle * count // (2 * size))].append(task)
        before += task.file.file_size_in_bytes
    return [tuple(found[n]) for n in sorted(found) if len(found[n]) > 1]


def left(
    looked: Looked, planned: Iterable[CompactableHour], *, target_bytes: int = TARGET_BYTES
) -> tuple[Left, ...]:
    """Why the hours that are not `planned` stay as they are: one entry for each reason; for unsealed hours
    one for each logstore."""
    chosen = {(hour.origin, hour.hour) for hour in planned}
    hours, files = defaultdict[tuple[Why, str], set[tuple[str, int]]](set), Counter[tuple[Why, str]]()
    for why, at, _ in _sorted_out(looked, target_bytes):
        if why in ("few", "done") and at in chosen:
            continue
        key = why, at[0] if why == "unsealed" else ""
        hours[key].add(at)
        files[key] += 1
    return tuple(
        Left(why, origin, len(there), files[why, origin], _why_left(looked, why, origin, there))
        for (why, origin), there in sorted(hours.items())
    )


def _why_left(looked: Looked, why: Why, origin: str, hours: Collection[tuple[str, int]]) -> str:
    if why != "unsealed":
        return _WHY[why]
    first = hour_text(min(hour for _, hour in hours))
    ledger = looked.state.ledgers.get(origin)
    if ledger is None:
        return f"not sealed: the table has no ledger of {origin}"
    last = max(hour for _, hour in hours)
    behind = [
        s for s, e in sorted(ledger.shards.items()) if not e.closed and e.reached_s < (last + 1) * HOUR_S
    ]
    named = some_of(map(str, behind))
    if len(behind) == 1:
        who = f"shard {named} of {origin} has"
    else:
        who = f"shards {named} of {origin} have" if behind else f"the closed shards of {origin} have"
    return f"not sealed: {who} not read all logs of hour {first} and later ones yet"


def _sorted_out(looked: Looked, target_bytes: int) -> Iterator[tuple[Why, tuple[str, int], FileScanTask]]:
    """Each file with the logstore and receive hour of its partition, and why it stays: `few` unless other
    files of its hour can be written together with it.

    The order of the questions is that of what a person can do: nothing, wait, ask another engine, nothing
    more to gain. A file of an hour that is not sealed is `unsealed` whatever else it is. `_LARGE` leaves
    files of three quarters of the target alone: two of them would never fit a part, and one more small file
    is no reason to write 384 MB anew.
    """
    table, folder = looked.table, f"/{FOLDER}/"
    sealed = {origin: sealed_before(ledger) for origin, ledger in looked.state.ledgers.items()}
    for task in tasks_of(table, table.scan()):
        at = origin_and_hour(table, task.file)
        if at is None:
            yield "unknown", ("", 0), task
        elif at[1] >= sealed.get(at[0], 0):
            yield "unsealed", at, task
        elif task.delete_files:
            yield "marked", at, task
        elif folder in task.file.file_path or task.file.file_size_in_bytes >= _LARGE * target_bytes:
            yield "done", at, task
        else:
            yield "few", at, task


def _small(looked: Looked, target_bytes: int) -> list[tuple[tuple[Any, ...], list[FileScanTask]]]:
    """The small files of sealed hours, by partition; the oldest hour first."""
    found = defaultdict[tuple[str, int, int, tuple[str, ...]], list[FileScanTask]](list)
    for why, at, task in _sorted_out(looked, target_bytes):
        if why == "few":
            # By the whole partition: somebody may have added the shard to it, and a file is in one.
            found[(*at, task.file.spec_id, partition_text(task.file))].append(task)
    return sorted(found.items(), key=lambda item: (item[0][1], item[0][0]))


class Compaction(NamedTuple):
    """The plan that writes an hour's files together, and the age that these have by then."""

    planned: Planned[CompactableHour]
    fresh: Freshness


def compactions(
    look: Callable[[], Looked],
    hours: Iterable[CompactableHour],
    *,
    target_bytes: int = TARGET_BYTES,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[Compaction]:
    """Plans of these hours, to be executed as they come. Each is committed on the table that `look` gives
    then.

    The work of one raises LandingConflict when its files were changed since they were planned. New files that
    were not committed are the sweep's.

    Story: files of many hours are written together, and the hours are committed one after the other.
    Meanwhile another engine deletes rows of a file of the last hour without touching the file: as it was
    planned, the new file would bring them back. So what each commit is made on is looked at.
    """
    for some in in_groups(hours, lambda hour: len(hour.parts), _PARTS_A_BATCH):
        fresh, looked = Freshness(clock), look()
        every = [HourPart(h.origin, h.hour, tasks, target_bytes) for h in some for tasks in h.parts]
        files = over(looked.table, every, written_together, bytes_of=lambda part: bytes_of(part.tasks))
        taken, begin = list[DataFile | SlsError](), 0
        for hour in some:
            write = partial(_those, files, taken, range(begin, begin := begin + len(hour.parts)))
            yield Compaction(_planned(look, looked, hour, write), fresh)


def _those(
    files: "Iterator[DataFile | SlsError]", taken: "list[DataFile | SlsError]", places: range
) -> tuple[DataFile, ...]:
    """Those in these places, whoever asked for files before; `taken` keeps what has come.

    Raises TransportError where they did not come, since Spark failed at an hour before.

    Parts of several hours are one job, and its results come in the order of the parts. Worked example: hours
    of 2, 1 and 3 parts take places 0 to 1, 2 and 3 to 5. An hour that is put off before it asks leaves its
    files in `taken`, so the next one still gets its own.
    """
    taken.extend(islice(files, max(0, places.stop - len(taken))))
    if len(taken) < places.stop:
        raise TransportError("its files were not written, since tasks failed before: the next run takes them")
    return tuple(unless_wrong(taken[places.start : places.stop]))


def _planned(
    look: Callable[[], Looked],
    first: Looked,
    hour: CompactableHour,
    write: Callable[[], tuple[DataFile, ...]],
) -> Planned[CompactableHour]:
    deed, paths = Deed(Operation.COMPACT, hour_text(hour.hour)), {task.file.file_path for task in hour.tasks}

    def on(added: tuple[DataFile, ...]) -> Planned[CompactableHour]:
        place = look()
        _check_shown(place, hour, first.state.schema_id)
        unchanged = authored.unchanged(place.head, place.state, deed)
        change = replace(unchanged, dropped=frozenset(paths), added=added)
        return Planned(replace(hour, files_after=len(added)), place, change, again=partial(on, added))

    def work(tools: Tools) -> Planned[CompactableHour]:
        try:
            added = write()
        except LedgerBroken:
            # A file that was taken away meanwhile is not lost.
            _check_shown(look(), hour, first.state.schema_id)
            raise
        return on(added)

    return Planned(hour, first, None, work=work)


def _check_shown(place: Looked, hour: CompactableHour, schema_id: int) -> None:
    """Raises LandingConflict unless each of the hour's files is there, with all of its rows.

    Other files of the hour do not matter: a backfill may have brought one, and it stays beside the new ones.
    A file that has got row-level deletes since does, since the new file holds the rows that they hide.
    """
    rows = rows_of(hour.origin, range(hour.hour, hour.hour + 1))
    there = fingerprint(tasks_of(place.table, place.table.scan(row_filter=rows)))
    if not fingerprint(hour.tasks) <= there or place.state.schema_id != schema_id:
        raise LandingConflict(
            f"files of {place.name} that were being written together, or its columns, changed meanwhile; "
            "nothing was changed, the next maintenance takes them"
        )


def _order(schema: Schema) -> Callable[[FileScanTask], tuple[int, int, str]]:
    """By first shard and cursor, so that the new files' bounds stay narrow.

    Worked example: files that begin at shard 1 cursor 5, shard 0 cursor 900 and shard 0 cursor 20 are taken
    from last to first. A file without bounds counts as shard 0, cursor 0. Bounds are little-endian, as
    Iceberg stores numbers; as bytes they would not sort by value.
    """
    shard, cursor = (schema.find_field(name).field_id for name in _IDENTITY[:2])

    def key(task: FileScanTask) -> tuple[int, int, str]:
        bounds: Mapping[int, bytes] = task.file.lower_bounds or {}
        first = [int.from_bytes(bounds.get(n, b""), "little", signed=True) for n in (shard, cursor)]
        return first[0], first[1], task.file.file_path

    return key


def written_together(table: Table, part: HourPart) -> DataFile:
    """The rows of a part's files in a new file; proven to be the same rows.

    Raises as `reading.py` does, and TransportError when the storage does not take them.

    Three numbers must agree: the rows that were read, the rows that lie in storage, and what the manifest
    said of the old files. The first two differ by a bug or a broken disk, and nothing may be committed. The
    third differs where a file is not the one that the manifest describes, and then the table is what is
    broken.
    """
    like, folder = part.tasks[0].file, f"{part.origin}/{FOLDER}"
    group_bytes = min(ROW_GROUP_BYTES, 8 * part.target_bytes)
    new = NewFile(table, table.schema(), like, folder, name=f"{part.hour}-", group_bytes=group_bytes)
    rows = total = 0
    with new.begun():
        for batch in rewrite.read(table, part.tasks, table.schema()):
            rows, total = rows + batch.num_rows, total + _sum(batch)
            new.add(batch)
        file = new.close()
        written = _counted(table, file) if file else (0, 0)
    if file is None or written != (rows, total % SUM_MODULUS):
        raise InvariantBroken("files written together do not hold the rows that were read")
    said = sum(int(task.file.record_count) for task in part.tasks)
    if rows != said:
        raise LedgerBroken(
            f"files of {'.'.join(table.name())} hold {amount(rows, 'row')}, the table says {said}",
            cures=(commands.VERIFY,),
        )
    return file


def _counted(table: Table, file: DataFile) -> tuple[int, int]:
    """(rows, identity sum) of a file as it lies in storage."""
    with table.io.new_input(file.file_path).open() as stream:
        parts = [(batch.num_rows, _sum(batch)) for batch in rows_of_file(stream, _IDENTITY)]
    return sum(n for n, _ in parts), sum(s for _, s in parts) % SUM_MODULUS


def _sum(part: pa.RecordBatch) -> int:
    shards, cursors, indexes = (part.column(name).to_numpy().astype(np.int64) for name in _IDENTITY)
    return sum(
        identity_sum(int(shard), cursors[shards == shard], indexes[shards == shard])
        for shard in np.unique(shards)
    )
