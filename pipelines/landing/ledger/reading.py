"""Reading a table's own files: what cannot be read is named in one sentence, with what settles it.

Decoders raise whatever they meet in a file that was cut off or overwritten: UnicodeDecodeError, EOFError,
pyarrow's ValueError, an OSError without a number. They raise the same for a filter or a schema that they
cannot follow. An OSError with a number of the system, or of S3, is about the storage; of any other error a
second look by another reader (`second_look.py`) decides whether it is about the file, here and nowhere else.

Whoever reads checks the checksums of pages, where a file has them. Story: a bit of a stored value turns over,
and the value still is one. A compaction reads it, writes the other value anew with a checksum that fits, and
nothing ever tells again that it was not what landed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import chain
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import NestedField, PrimitiveType

from pipelines.landing.ledger.manifests import Planner, manifests_in
from pipelines.landing.table import commands, second_look
from pipelines.landing.table.bounded_scan import BoundedScan
from pipelines.landing.table.contract import origin_place
from pipelines.landing.table.lake import ANSWER_S
from pipelines.landing.table.trouble import is_storage, storage_trouble
from sls_io.values.cures import Cure, Do
from sls_io.values.deadline import answered
from sls_io.values.errors import Breach, InvariantBroken, LedgerBroken, SlsError, TransportError, amount
from sls_io.values.side_by_side import Answer, Asked, answers

Sizes = dict[str, int | None]
_ALL = AlwaysTrue()
_BOUNDED = ("__shard__", "__cursor__")
_IDENTITY = ("__origin__", "__shard__", "__cursor__", "__index__")


BY_VALUE = "another engine marked rows as deleted by their values (equality deletes)"
_EQUALITY = f"{BY_VALUE}: rows of the table are gone, and PyIceberg cannot tell which"
REWRITE = Do("let that engine write its files anew (rewrite_data_files), and look again")


class Unreadable(LedgerBroken):
    """A file that a snapshot of the table needs is gone or damaged. `file`: the data or delete file, or
    the path of a manifest or manifest list.

    The cure is looked for only when somebody asks for it, because the search reads manifests.
    """

    def __init__(self, table: Table, file: DataFile | str, what: str, *, first: Do | None = None) -> None:
        Exception.__init__(self, what)
        self.kind, self.file, self.first = Breach.OTHER, file, first
        self._table = table

    @property
    def path(self) -> str:
        """Where the file is, or was."""
        return _path(self.file)

    @cached_property
    def cures(self) -> tuple[Cure, ...]:  # type: ignore[override]
        """What settles it. Others must be tried before they are named: `cures.py` does that."""
        table, file = self._table, self.file
        restore = self.first or Do("restore the file")
        head = table.current_snapshot()
        listed = listed_files(table, head, {}) if head else frozenset()
        if listed is not None and self.path not in listed:
            kept = _newest_without(table, self.path)
            # The maintenance does not keep one alone.
            return (restore, commands.expire(kept)) if kept > 1 else (restore,)
        # Other columns may be damaged than those that tell which rows there are.
        whole = isinstance(file, DataFile) and not absent(table, [file.file_path])
        return (restore, commands.VERIFY_ROWS if whole else commands.VERIFY)


class Misread(InvariantBroken):
    """We failed at a file that another reader reads whole. Nothing of it is lost, and nothing is given up.

    `what` says which file it is.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what}. Nothing was changed and nothing needs to be given up. Run it again: an answer of the "
            "storage may have been broken on its way. If it is said again, it is our mistake, or a change of "
            "the table's columns that PyIceberg cannot follow: keep the table as it is, and run it with "
            "--debug to have the trace"
        )


@contextmanager
def reading(table: Table, file: DataFile | str, *deletes: DataFile) -> Iterator[None]:
    """Around reading `file`, a data file or the path of a manifest or manifest list, with the row-level
    `deletes` on it, and nothing else.

    Raises Unreadable when one of them is gone or the file is damaged, Misread when another reader says that
    it is whole, TransportError when the storage does not answer.

    The order is: what the storage says is no matter of a file; of files that are not there it is asked again;
    else a second reader decides. Where that one reads all of it, the mistake is ours, and nothing is given
    up.
    """
    try:
        yield
    except (SlsError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise _not_there(table, file, *deletes) from error
    except Exception as error:  # whatever the decoder met: the module's docstring says why
        _raise_storage(table, error)
        try:
            wrong = _looked_again(table, file)
        except second_look.Undecided as undecided:
            raise Misread(
                f"{_named(file)} could not be read ({type(error).__name__}), and whether it is damaged could "
                f"not be found out ({undecided}): run it again"
            ) from error
        except FileNotFoundError as again:
            raise _not_there(table, file) from again
        except Exception as again:
            _raise_storage(table, again)
            wrong = type(again).__name__
        if not wrong:
            raise Misread(
                f"{_named(file)} could not be read ({type(error).__name__}), but it is whole: another reader "
                "has read all of it"
            ) from error
        raise Unreadable(table, file, _cut_off(file, wrong)) from error


def _not_there(table: Table, *files: DataFile | str) -> Unreadable | TransportError:
    """What it means that one of these was not there. The first that is gone is to blame; where all are there,
    the answer was wrong."""
    lost = absent(table, map(_path, files))
    for each in files:
        if _path(each) in lost:
            return Unreadable(table, each, gone(each))
    return TransportError(
        f"the storage said that {_named(files[0])} is not there, and then that it is: run it again"
    )


def _raise_storage(table: Table, error: Exception) -> None:
    if is_storage(error):
        raise TransportError(f"{storage_trouble(table.location(), error)}; run it again") from error


def _looked_again(table: Table, file: DataFile | str) -> str:
    """What another reader finds wrong with the file; "" when it is whole."""
    if isinstance(file, str):
        if file.endswith(".avro"):
            return second_look.manifest(table.io, file)
        return second_look.data_file(table.io, file)
    ours = file.content == DataFileContent.DATA
    names = table.schema().column_names
    ids = {table.schema().find_field(n).field_id for n in _IDENTITY if n in names} if ours else set()
    return second_look.data_file(table.io, file.file_path, rows=file.record_count, ids=ids)


def manifests_of(table: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    """The manifests of a snapshot; none without one. Raises as `reading` does."""
    if snapshot is None:
        return []
    with reading(table, snapshot.manifest_list):
        return manifests_in(table.io, snapshot.manifest_list)


def entries_of(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    """The live entries of a manifest. Raises as `reading` does."""
    with reading(table, manifest.manifest_path):
        return manifest.fetch_manifest_entry(table.io, discard_deleted=True)


def entries_in(table: Table, manifests: Iterable[ManifestFile]) -> Iterator[ManifestEntry]:
    """The live entries of all of these manifests, in their order. Raises as `reading` does."""
    told = asked_of_files(table, partial(entries_of, table), manifests)
    return chain.from_iterable(entries for _, entries in told)


def entries_where(table: Table, wanted: BooleanExpression) -> Iterator[ManifestEntry]:
    """The live entries of data files of main, less those of manifests whose partitions say that no row of
    theirs is wanted. Raises as `reading` does."""
    planner = Planner(table.metadata, table.io, wanted)
    every = manifests_of(table, table.current_snapshot())
    return entries_in(table, (m for m in every if m.content == ManifestContent.DATA and planner.may_have(m)))


def asked_of_files(
    table: Table, call: Callable[[Asked], Answer], asked: Iterable[Asked]
) -> Iterator[tuple[Asked, Answer]]:
    """What is asked of some files of the table, with its answer, in order: as `answers` where somebody waits.

    Worked example: twenty manifests of a disk here take 5 ms of CPU one after another. Sixteen threads take
    13 for them, since nobody waits and all want Python; of a store they take 50 ms of the wall and not 400.
    """
    return ((each, call(each)) for each in asked) if is_here(table) else answers(call, asked)


def is_here(table: Table) -> bool:
    """Whether the table's files are on a disk of this machine, or one that is mounted like it."""
    return urlsplit(table.location()).scheme in ("", "file")


def absent(table: Table, paths: Iterable[str]) -> list[str]:
    """Those of the files that the storage does not have, and says so twice: one answer proves nothing, and
    what is gone may be given up for it. Raises as `reading` does where it does not answer."""
    return [*sizes_unless(table, paths, lambda _, size: size is not None)]


def sizes_unless(table: Table, paths: Iterable[str], fits: Callable[[str, int | None], bool]) -> Sizes:
    """Bytes of those of the files of which the storage says twice what does not fit; None of one that is not
    there. Raises as `absent`."""
    found = Sizes.fromkeys(paths)
    for _ in range(2):
        told = asked_of_files(table, partial(_size_of, table), found)
        found = {path: size for path, size in told if not fits(path, size)}
    return found


def check_kept(table: Table) -> None:
    """Raises TransportError where snapshots of `table` were expired since it was loaded. Asked by who is
    about to say that a file is gone, after that was found.

    Story: a proof loads the table. A maintenance writes its hours together, expires the snapshots of before,
    and sweeps their files. The proof finds files gone, twice, and a person is told what is lost of a table
    that is whole.
    """
    now = {s.snapshot_id for s in as_of_now(table).snapshots()}
    if not {s.snapshot_id for s in table.snapshots()} <= now:
        raise TransportError(
            f"snapshots of {'.'.join(table.name())} were expired while it was looked at, and their files may "
            "have gone with them: run it again"
        )


def as_of_now(table: Table) -> Table:
    """The table as its catalog has it now; the same where it does not load it: nothing is known of that."""
    try:
        return loaded_again(table)
    except Exception:  # every catalog has its own exceptions
        return table


def loaded_again(table: Table) -> Table:
    """The same. Raises NoAnswer, and as the catalog does."""
    return answered(
        lambda: table.catalog.load_table(table.name()),
        deadline_s=ANSWER_S,
        waits_for="the Iceberg catalog",
    )


def _size_of(table: Table, path: str) -> int | None:
    """Bytes of a file; None where it is not there."""
    try:
        return len(table.io.new_input(path))
    except FileNotFoundError:
        return None
    except Exception as error:
        _raise_storage(table, error)
        raise


def tasks_of(table: Table, scan: DataScan) -> list[FileScanTask]:
    """The files that a scan of `table` would read. Raises as `reading` does."""
    try:
        snapshot = scan.snapshot()
        manifests = manifests_in(table.io, snapshot.manifest_list) if snapshot is not None else []
        return list(Planner(table.metadata, table.io, scan.row_filter).plan_files(manifests))
    except Exception as error:
        raise _told(table, manifests_of(table, scan.snapshot()), error) from error


def tasks_in(table: Table, manifests: Collection[ManifestFile]) -> list[FileScanTask]:
    """The files that a snapshot of these manifests alone would show. Raises as `reading` does."""
    try:
        return list(Planner(table.metadata, table.io).plan_files(manifests))
    except Exception as error:
        raise _told(table, manifests, error) from error


def _told(table: Table, manifests: Iterable[ManifestFile], error: Exception) -> Exception:
    """What is raised for manifests that could not be read: PyIceberg reads them on several threads, and its
    error names none, so the one is looked for.

    Read again one by one, on this thread. That some engine deleted by value is looked for in the same walk:
    all manifests of such a table can be read, and still nobody can tell its rows.
    """
    for manifest in manifests:
        for entry in entries_of(table, manifest):
            if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                return Unreadable(table, entry.data_file, _EQUALITY, first=REWRITE)
    _raise_storage(table, error)
    return Misread(
        f"all manifests of table {'.'.join(table.name())} can be read, but its files could not be told "
        f"({type(error).__name__})"
    )


def batches_of(
    table: Table, reader: BoundedScan, task: FileScanTask, *, whole: bool = False
) -> Iterator[pa.RecordBatch]:
    """What `reader` takes of one file, with the row-level deletes on it, a batch at a time. Raises as
    `reading` does, also for a whole file with other rows than the table says; `whole`: the reader takes all
    rows of its origin. That they are all is known after the last one, so nobody acts on them before.

    A row-level delete that is damaged shows as an error at the data file. So deletes are looked at, too,
    where the data file turns out to be whole.
    """
    rows, spans = 0, {name: bounds(table, task.file, name) for name in _BOUNDED}
    try:
        with reading(table, task.file, *task.delete_files):
            for batch in reader.to_record_batches([task]):
                rows += batch.num_rows
                _check_rows(table, task, _strange(batch, spans))
                yield batch
    except Misread as error:
        for deletes in task.delete_files:
            if wrong := _looked_again(table, deletes):
                raise Unreadable(table, deletes, _cut_off(deletes, wrong)) from error
        raise
    if whole:
        _check_rows(table, task, _other_count(table, task, rows))


def _check_rows(table: Table, task: FileScanTask, wrong: str) -> None:
    """Raises Unreadable where something is `wrong` with the rows of a file that every reader reads.

    Story: somebody restores a lost file from the wrong one. It is a whole file of this very table, and its
    rows are there twice.
    """
    if wrong:
        raise Unreadable(
            table,
            task.file,
            _overwritten(task.file, wrong),
        )


def _overwritten(file: DataFile, wrong: str) -> str:
    return f"file was overwritten by another one ({wrong}): {_last(file.file_path)}"


def other_size(file: DataFile, size: int) -> str:
    """Both sizes, in words."""
    return f"it has {size} bytes, the table says {file.file_size_in_bytes}"


def _other_count(table: Table, task: FileScanTask, rows: int) -> str:
    """What tells that a file of one logstore holds other rows than the table says; "" when nothing does."""
    of_one = origin_place(table.specs()[task.file.spec_id], table.schema()) is not None
    said = int(task.file.record_count)
    if of_one and not task.delete_files and rows != said:
        return f"it holds {amount(rows, 'row')} of its logstore, the table says {said}"
    return ""


def _strange(batch: pa.RecordBatch, spans: Mapping[str, tuple[int, int] | None]) -> str:
    """What tells that these are not rows of the file that the table means; "" when nothing does.

    Bounds of shard and cursor stand in the manifest, which nobody overwrites with the file: rows of another
    window lie outside of them.
    """
    for name, span in spans.items():
        if span and name in batch.schema.names and batch.num_rows:
            low, high = pc.min_max(batch.column(name)).as_py().values()
            if low is not None and (low < span[0] or high > span[1]):
                return f"its {name.strip('_')}s are not those that the table says"
    return ""


def read_whole(table: Table, file: DataFile) -> None:
    """Every column of every row of a file, a batch in memory at a time. Raises as `reading` does, also for a
    file of another size than the table says.

    Story: rows are read again because a key holds personal data by now; a backup of the data folder brings
    the files from before back, under the names of the new ones. The identities are the same.
    """
    with reading(table, file):
        size, wrong = len(table.io.new_input(file.file_path)), _looked_again(table, file)
    if wrong:
        raise Unreadable(table, file, _cut_off(file, wrong))
    if size != file.file_size_in_bytes:
        raise Unreadable(table, file, _overwritten(file, other_size(file, size)))


def bounds(table: Table, file: DataFile, name: str) -> tuple[int, int] | None:
    """The lowest and highest value of a column of whole numbers in a file, as the table says; None where
    it does not."""
    field: NestedField = table.schema().find_field(name)
    low, high = ((each or {}).get(field.field_id) for each in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None or not isinstance(field.field_type, PrimitiveType):
        return None
    with suppress(Exception):  # written by another engine, in whatever form
        return int(from_bytes(field.field_type, low)), int(from_bytes(field.field_type, high))
    return None


def live_rows(table: Table, snapshot_id: int | None = None, *, where: BooleanExpression = _ALL) -> int:
    """Rows that a snapshot (default: main's) shows of those that `where` takes: by its manifests, and by
    reading the files of which row-level deletes hide some, or which hold others, too. Raises as
    `reading` does.

    A snapshot's own total counts hidden rows, too.
    """
    scan = table.scan(snapshot_id=snapshot_id, row_filter=where)
    return sum(rows_shown(table, task, where=where) for task in tasks_of(table, scan))


def rows_shown(table: Table, task: FileScanTask, *, where: BooleanExpression = _ALL) -> int:
    """As `live_rows`, of one file."""
    if not task.delete_files and task.residual == _ALL:
        return int(task.file.record_count)
    reader = BoundedScan(table.metadata, table.io, table.schema().select("__shard__"), where)
    return sum(batch.num_rows for batch in batches_of(table, reader, task))


def gone(file: DataFile | str) -> str:
    """One phrase that says that the file is not there."""
    return f"{_kind(file)} is gone: {_last(_path(file))}"


def _path(file: DataFile | str) -> str:
    return file if isinstance(file, str) else file.file_path


def _kind(file: DataFile | str) -> str:
    if isinstance(file, DataFile) or not file.endswith(".avro"):
        return "file"
    return "manifest list" if _last(file).startswith("snap-") else "manifest"


def _named(file: DataFile | str) -> str:
    return f"{_kind(file)} {_last(_path(file))}"


def _cut_off(file: DataFile | str, wrong: str) -> str:
    return f"{_kind(file)} was cut off or overwritten, it cannot be read ({wrong}): {_last(_path(file))}"


def listed_files(table: Table, snapshot: Snapshot, seen: dict[str, frozenset[str]]) -> frozenset[str] | None:
    """Every file that a snapshot needs, by path; None when not all of its manifests can be read. `seen`
    keeps what each manifest lists from one call to the next.

    Manifests are shared by snapshots: `seen` makes the cost that of different manifests, not of snapshots.
    """
    with suppress(Exception):  # which one it is does not matter here
        paths = {snapshot.manifest_list}
        for manifest in manifests_in(table.io, snapshot.manifest_list):
            path = manifest.manifest_path
            if path not in seen:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                seen[path] = frozenset(entry.data_file.file_path for entry in entries)
            paths |= {path, *seen[path]}
        return frozenset(paths)
    return None


def readable_manifests(
    table: Table, snapshot: Snapshot | None
) -> tuple[list[ManifestFile], list[Unreadable]]:
    """The manifests of a snapshot that can be read, and what cannot: some of them, or their list."""

    def trouble(manifest: ManifestFile) -> Unreadable | None:
        try:
            entries_of(table, manifest)
        except Unreadable as error:
            return error
        return None

    try:
        manifests = manifests_of(table, snapshot)
    except Unreadable as error:
        return [], [error]
    found = list(asked_of_files(table, trouble, manifests))
    return [each for each, error in found if error is None], [error for _, error in found if error]


def _newest_without(table: Table, path: str) -> int:
    """How many of the newest snapshots an expiry may keep, so that no branch, no tag and none of them needs
    that file; 0 where one of the first two does."""
    seen, metadata = dict[str, frozenset[str]](), table.metadata
    snapshots = {each.snapshot_id: each for each in metadata.snapshots}
    needed = {each for each, s in snapshots.items() if path in (listed_files(table, s, seen) or {path})}
    kept, at = 0, metadata.current_snapshot_id
    while at in snapshots and at not in needed:
        kept, at = kept + 1, snapshots[at].parent_snapshot_id
    return 0 if any(ref.snapshot_id in needed for ref in metadata.refs.values()) else kept


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]
