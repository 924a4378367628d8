"""The metadata files in a table's folder: what says that there was a table, and whose the files are.

A catalog is one row that names one file. When the row is lost, or an older backup of it comes back, the
folder still knows better, and three questions are asked of it:

    look_for    the catalog has no such table: did it have one? Then a new one would begin in the old
                folder, and what retention took meanwhile would be gone without a word
    newer       the catalog has the table: is the metadata that it names the newest?
    strangers   something is about to be deleted: is every file here of this table?

And one of the catalog: `other_name`, does it have this very table under another name?

Only a writer that found version N as the table's own ever writes version N + 1. So a version N + 1 may
be a try that was refused or killed before the catalog heard of it, and N + 2 proves that N + 1 was
accepted: a catalog that says N was put back.
"""

import re
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, NoSuchNamespaceError, TableAlreadyExistsError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import LongType, NestedField

from pipelines.landing.table import commands
from sls_io.values.cures import Do
from sls_io.values.deadline import NoAnswer, current
from sls_io.values.errors import LedgerBroken, amount
from sls_io.values.side_by_side import side_by_side

_ENDING = ".metadata.json"
_NUMBERED = re.compile(r"v?(\d+)(?:-.*)?(?:\.gz)?\.metadata\.json")
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-fA-F-]{36})"')
_BESIDE = re.compile(r"-[0-9a-f]{8}")
_HEAD_BYTES = 64 * 1024
_GZIP_BITS = 31
_NAMED_MAX = 3
_LISTINGS_MAX = 8
_ANY_SCHEMA = Schema(NestedField(1, "n", LongType(), required=False))


@dataclass(frozen=True)
class Version:
    """One metadata file. `number` counts the commits before it, -1 for a name that does not say."""

    path: str
    number: int
    size: int
    modified_s: float

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Former:
    """A table that is not in the catalog and was: what says so, a phrase each.

    registrable  some of it is metadata with snapshots, which can be registered again
    of_others    nothing lies where the table would; tables lie beside it of which the catalog knows none
    """

    found: tuple[str, ...]
    registrable: bool
    of_others: bool = False


@dataclass(frozen=True)
class FormerPlace:
    """Where a new table of some name would lie, and what reads there."""

    io: FileIO
    location: str


def look_for(catalog: Catalog, table: str, metadata_location: str = "") -> Former | None:
    """What the storage says of a table that is not in the catalog; None when it says nothing.

    `metadata_location`: of a file that the catalog names and that cannot be read; the table's own folder,
    wherever that is, is looked at as well.

    A table without a snapshot counts as nothing: a run that was killed while it created the table leaves a
    first metadata file, and no row can be lost with it. None also where files cannot be listed.
    """
    place = place_of(catalog, table)
    folders = _folders(place.io, _parent(place.location)) if place else None
    if place is None or folders is None:
        return None
    found, registrable, others = list[str](), False, list[str]()
    locations = beside(place, folders)
    own = _parent(_parent(metadata_location)) if metadata_location else place.location
    for location in [*locations, *({own} - set(locations))]:
        phrase, metadata = _told_by(place.io, location)
        registrable |= metadata
        found += [phrase] if phrase else []
    if not found and (others := _others(catalog, table, place, folders)):
        shown = ", ".join(others[:_NAMED_MAX])
        found.append(f"the catalog knows no table there, and {_parent(place.location)} holds {shown}")
    return Former(tuple(found), registrable, bool(others)) if found else None


def gone_with(io: FileIO, metadata_location: str, warehouse: str) -> str:
    """The largest folder that is gone with a metadata file, in words; "" when its folder is there.

    Raises OSError when the storage does not answer.
    """
    folder = _parent(metadata_location)
    owned = warehouse and metadata_location.startswith(f"{warehouse.rstrip('/')}/")
    parts = {"the whole warehouse": warehouse if owned else "", "the table's folder": _parent(folder)}
    for what, path in {**parts, "its metadata folder": folder}.items():
        if path and _is_gone(io, path):
            return f"{what} {path}"
    return ""


def place_of(catalog: Catalog, table: str) -> FormerPlace | None:
    """Where the catalog would put a new table; None where it does not say. Makes nothing."""
    try:
        staged = catalog.create_table_transaction(table, _ANY_SCHEMA)
    except NoSuchNamespaceError:
        warehouse = catalog.properties.get("warehouse", "").rstrip("/")
        if "://" not in warehouse and not warehouse.startswith("/"):
            return None
        location = "/".join([warehouse, *table.split(".")])
        return FormerPlace(load_file_io(catalog.properties, location), location)
    except (BadRequestError, TableAlreadyExistsError):
        return None  # a server without staged tables, or somebody was faster
    # The staged table's own IO: a server may lend keys for this table alone.
    return FormerPlace(staged._table.io, staged.table_metadata.location)


def beside(place: FormerPlace, folders: Sequence[str] | None = None) -> list[str]:
    """The location itself, and the ones that `new_location` made beside it, where they exist.

    Only names that `new_location` makes: `orders-3f9c01aa` is a later folder of `orders`, `orders-eu` another
    table's.
    """
    names = folders if folders is not None else _folders(place.io, _parent(place.location)) or ()
    own = _last(place.location)
    later = [n for n in names if n.startswith(own) and _BESIDE.fullmatch(n.removeprefix(own))]
    return [place.location, *(f"{_parent(place.location)}/{name}" for name in sorted(later))]


def lost(place: str, table: str, former: Former) -> LedgerBroken:
    """The error for a table that the catalog at `place` has lost: what was found, and what can be done."""
    elsewhere = "where metadata was written to another folder (write.metadata.path): names the newest of it"
    back = (
        commands.REGISTER.plus(does="puts the newest metadata back")
        if former.registrable
        else commands.REGISTER.plus("--metadata", "FILE", does=elsewhere)
    )
    new = Do("where the catalog is new: give it a folder of its own, PYICEBERG_CATALOG__LAKE__WAREHOUSE")
    return LedgerBroken(
        f"table {table} is not in the catalog ({place}), but there "
        f"{'may have been' if former.of_others else 'was'} one: {'; '.join(former.found)}. "
        "Nothing was landed",
        cures=(Do("restore the catalog"), *([new] if former.of_others else []), back, commands.START_OVER),
    )


def new_location(location: str) -> str:
    """A folder beside `location` that no table had: files of two tables are never in one."""
    return f"{location.rstrip('/')}-{uuid.uuid4().hex[:8]}"


def versions(io: FileIO, folder: str) -> list[Version] | None:
    """The metadata files in a metadata folder, newest first; None when nobody can list them."""
    found = listed(io, folder)
    if found is None:
        return None
    files = [
        Version(f"{folder}/{_last(f.path)}", number_of(f.path), int(f.size or 0), f.mtime.timestamp())
        for f in found
        if f.path.endswith(_ENDING) and f.mtime is not None
    ]
    return sorted(files, key=lambda v: (v.number, v.modified_s, v.path), reverse=True)


def other_name(catalog: Catalog, table: str, table_uuid: str) -> str:
    """The name under which the catalog has the table of this id, where that is not `table`; "" for none.

    Looks in the namespace of `table` only, and no longer than the deadline that is kept: a table is loaded
    for each name. One that cannot be loaded is passed over, it says nothing of whose it is. Raises NoAnswer,
    and as the catalog does.
    """
    own = Catalog.identifier_to_tuple(table)
    try:
        names = catalog.list_tables(own[:-1])
    except NoSuchNamespaceError:
        return ""
    for identifier in names:
        if tuple(identifier) == own:
            continue
        if not current().left_s:
            raise NoAnswer("not all tables of the namespace were looked at")
        try:
            found = catalog.load_table(identifier)
        except Exception:  # gone meanwhile, or its metadata is
            continue
        if uuid_of(found) == table_uuid:
            return ".".join(identifier)
    return ""


def number_of(path: str) -> int:
    """How many commits came before this metadata file, by its name; -1 when that does not say.

    Worked example: `00003-9f31c0de.metadata.json` is 3, by PyIceberg and catalogs; `v12.metadata.json` and
    `v12.gz.metadata.json` are 12, by Hadoop's tables; `x.metadata.json` is -1.
    """
    found = _NUMBERED.fullmatch(_last(path))
    return int(found[1]) if found else -1


def uuid_of(table: Table | None) -> str:
    """Which table this is, whatever name and catalog it has by now; "" of none.

    A name says less: begun anew the table has the same one, and other rows. What moves to another catalog, or
    is registered again, keeps its UUID.
    """
    return str(table.metadata.table_uuid) if table is not None else ""


def uuid_in(io: FileIO, path: str) -> str | None:
    """Whose metadata file it is; None when nobody can say, since it was cut off or overwritten.

    Reads its first bytes only: all writers put the id there, and the file may hold megabytes.
    Raises FileNotFoundError when the storage says twice that it is not there, and OSError when it does not
    answer. Story: one answer is wrong, about the metadata of another table in this folder. Believed, it would
    let that table's files be swept as leftovers of ours.
    """
    try:
        head = _head(io, path)
    except FileNotFoundError:
        head = _head(io, path)
    if path.endswith(f".gz{_ENDING}"):
        try:
            head = zlib.decompressobj(_GZIP_BITS).decompress(head)
        except zlib.error:
            return None
    found = _UUID.search(head)
    return found[1].decode().lower() if found else None


def _head(io: FileIO, path: str) -> bytes:
    with io.new_input(path).open(seekable=False) as stream:
        return bytes(stream.read(_HEAD_BYTES))


def read(io: FileIO, path: str) -> TableMetadata | None:
    """The metadata, None when the file is gone or damaged. Raises OSError when the storage fails."""
    try:
        return FromInputFile.table_metadata(io.new_input(path))
    except FileNotFoundError:
        return None
    except OSError:
        raise
    except Exception:  # whatever the decoder met is about the file
        return None


def newer(
    io: FileIO, there: Iterable[Version], metadata_location: str, table_uuid: str, *, before_s: float = 0.0
) -> Version | None:
    """One of the versions that are `there`, newest first, that only a later state of the table than
    `metadata_location` can have left.

    Two numbers further, and not one: a commit that was refused leaves a file with the next number. Who wrote
    the one after that has found this one as the table's own. `before_s`: one number further will do, where it
    was written before that time (unix seconds), so that nobody is about to commit it.
    """
    number = number_of(metadata_location)
    if number < 0:
        return None
    for version in there:
        if version.number <= number:
            return None
        if version.number == number + 1 and version.modified_s >= before_s:
            continue
        try:
            if uuid_in(io, version.path) == table_uuid:
                return version
        except FileNotFoundError:
            continue
    return None


def strangers(io: FileIO, folder: str, metadata: TableMetadata, pointer: str, before_s: float) -> list[str]:
    """Metadata files in `folder` of another table, or of an unknown one, a phrase each.

    Whatever such a table refers to looks like a leftover of ours, so nothing here may be deleted. An
    unreadable file counts only when it is older than `before_s`: a younger one is being written. An empty
    file names nothing and never was a version.

    What the table's own log names is known without being read. Of the others each is asked for its uuid.
    """
    known = {_last(pointer), *(_last(entry.metadata_file) for entry in metadata.metadata_log)}
    mine = str(metadata.table_uuid)

    def one(version: Version) -> str:
        try:
            found = uuid_in(io, version.path)
        except FileNotFoundError:
            return ""
        if found is None:
            told = version.size > 0 and version.modified_s < before_s
            return f"metadata/{version.name} cannot be read, so nobody knows its table" if told else ""
        return "" if found == mine else f"metadata/{version.name} is of another table, {found}"

    others = [v for v in versions(io, folder) or () if v.name not in known]
    return [phrase for phrase in side_by_side(one, others) if phrase]


def listed(io: FileIO, folder: str, *, recursive: bool = False) -> list[FileInfo] | None:
    """The files below a folder, none where it is not there; None when this IO cannot list."""
    return _listed(io, folder, FileType.File, recursive=recursive)


def _listed(io: FileIO, folder: str, kind: FileType, *, recursive: bool = False) -> list[FileInfo] | None:
    if not isinstance(io, PyArrowFileIO):
        return None
    scheme, netloc, path = PyArrowFileIO.parse_location(folder, io.properties)
    selector = FileSelector(path, allow_not_found=True, recursive=recursive)
    return [info for info in _selected(io.fs_by_scheme(scheme, netloc), selector) if info.type is kind]


def _selected(files: FileSystem, selector: FileSelector) -> list[FileInfo]:
    """What a selector finds. Arrow opens a local folder and, when that fails, looks whether it is there.

    Story: A asks for the folder of a namespace that has no table yet and opens nothing. B, who makes the
    first table, makes the folder. Arrow looks for A, finds it and tells "no such folder", although A
    asked for none to be an answer. Each further try fails only if the folder went and came again.
    """
    for _ in range(_LISTINGS_MAX - 1):
        try:
            return cast("list[FileInfo]", files.get_file_info(selector))
        except FileNotFoundError:
            continue
    return cast("list[FileInfo]", files.get_file_info(selector))


def _is_gone(io: FileIO, folder: str) -> bool:
    if not isinstance(io, PyArrowFileIO):
        return False
    scheme, netloc, path = PyArrowFileIO.parse_location(folder, io.properties)
    return bool(io.fs_by_scheme(scheme, netloc).get_file_info(path).type is FileType.NotFound)


def _folders(io: FileIO, parent: str) -> list[str] | None:
    found = _listed(io, parent, FileType.Directory)
    return None if found is None else [_last(info.path) for info in found]


def _told_by(io: FileIO, location: str) -> tuple[str, bool]:
    """What the files below a location say of a table ("" for nothing), and whether metadata says it.

    Metadata with a snapshot is the strongest word: a table was there and had rows. Files beside it, or
    metadata that cannot be read, are a weaker one. The first version by its number is no word at all.

    Story: A makes the table, and B, who found no table, looks here. B finds no version, A writes 00000,
    B lists the files and finds one. Counted, it would be a lost table, since A tells the catalog only now.
    A file of any other kind comes after the catalog's row, which B asks for once more.
    """
    silent, torn = set[str](), False
    for version in versions(io, f"{location}/metadata") or ():
        metadata = read(io, version.path)
        if metadata is not None and metadata.snapshots:
            return (
                f"{location} holds metadata of table {metadata.table_uuid} with "
                f"{amount(len(metadata.snapshots), 'snapshot')}, the newest {version.name}"
            ), True
        torn |= metadata is None and version.number != 0
        if metadata is not None:
            silent.add(version.name)
    files = listed(io, location, recursive=True) or ()
    others = [f for f in files if number_of(f.path) and _last(f.path) not in silent]
    if not others:
        return "", False
    why = "no metadata that can be read" if torn else "no metadata with a snapshot"
    return f"{location} holds {amount(len(others), 'file')} and {why}", False


def _others(catalog: Catalog, table: str, place: FormerPlace, folders: Sequence[str]) -> list[str]:
    """Tables in the folder of the namespace, when the catalog knows not one of the namespace.

    Story: two first runs make two tables of a new namespace. B lists the folder and finds A's, which
    has landed; A's row was there before A's second version, so B, who asks the catalog last, finds it.
    """
    own, parent = _last(place.location), _parent(place.location)
    landed = list(_with_commits(place.io, parent, [n for n in folders if not n.startswith(own)]))
    if not landed:
        return []
    try:
        return [] if catalog.list_tables(table.split(".", maxsplit=1)[0]) else landed
    except NoSuchNamespaceError:
        return landed


def _with_commits(io: FileIO, parent: str, names: Sequence[str]) -> Iterator[str]:
    for name in names[:_NAMED_MAX]:
        if any(version.number > 0 for version in versions(io, f"{parent}/{name}/metadata") or ()):
            yield name


def _last(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _parent(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[0]
