"""The files of a data folder: what stands in a segment, and the list that says what must be there.

A segment is a head, then records:
    head    <4s "SLSJ", u32 version, 8 bytes folder id, u64 number>
    record  <4s mark, u32 length, u32 checksum, u8 kind> payload
        kind 1  LogGroup   <u32 logstore uid, u32 shard, i64 cursor, i64 receive second> framed bytes
        kind 2  changes    JSON list of `Store.changes`
        kind 3  snapshot   the same list, enough to make everything but the LogGroups
The checksum covers length, kind and payload, so no flipped bit passes. The mark lets a search find
the next record behind a damaged one.

`ends` is the list: which segments there are, how long each of the closed ones is, and how much of
the last one was acknowledged. A segment alone cannot tell a tail that nobody was promised from one
that somebody cut off; with the list it can.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

VERSION = 2
LIST = "ends"
GROUP, CHANGES, SNAPSHOT = 1, 2, 3
_MAGIC = b"SLSJ"
_MARK = b"\xf5rec"
_FILE = struct.Struct("<4sI8sQ")
_RECORD = struct.Struct("<4sIIB")
_SUMMED = struct.Struct("<IB")
FILE_HEAD_BYTES, RECORD_HEAD_BYTES = _FILE.size, _RECORD.size


class Damaged(Exception):
    """Bytes that cannot be what was written; the text says what is wrong with them."""


class Record(NamedTuple):
    """One whole record: its kind, and where its payload stands in the file."""

    kind: int
    begin: int
    length: int

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.begin + self.length


def file_head(folder_id: bytes, number: int) -> bytes:
    """The head of segment `number`."""
    return _FILE.pack(_MAGIC, VERSION, folder_id, number)


def record_head(kind: int, *parts: bytes) -> bytes:
    """What stands before the payload that `parts` make."""
    length = sum(map(len, parts))
    checksum = zlib.crc32(_SUMMED.pack(length, kind))
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return _RECORD.pack(_MARK, length, checksum, kind)


def record_at(content: "bytes | mmap", at: int, size: int) -> Record | None:
    """The whole record at `at`, None when what stands there does not prove itself.

    The length is part of the sum: a bit that turns over in it makes another sum, or a record that runs over
    the end.

    Worked example: a record of 3 bytes takes 16: mark, length 3, sum, kind, and the bytes. With one bit of
    them turned, or with 15 bytes there, the answer is None.
    """
    begin = at + _RECORD.size
    if begin > size:
        return None
    mark, length, checksum, kind = _RECORD.unpack(content[at:begin])
    if mark != _MARK or begin + length > size or kind not in (GROUP, CHANGES, SNAPSHOT):
        return None
    if zlib.crc32(content[begin : begin + length], zlib.crc32(_SUMMED.pack(length, kind))) != checksum:
        return None
    return Record(kind, begin, length)


def records(content: "bytes | mmap", at: int, size: int) -> Iterator[Record]:
    """The records from `at` on, up to the first that does not prove itself."""
    while (found := record_at(content, at, size)) is not None:
        yield found
        at = found.end


def all_records(content: "bytes | mmap", at: int, size: int) -> Iterator[Record]:
    """Every record that proves itself from `at` on, also behind damage.

    Behind damage the next mark is looked for. A mark within a LogGroup's own bytes begins no record, since
    its checksum does not fit.
    """
    while 0 <= at < size:
        for found in records(content, at, size):
            yield found
            at = found.end
        at = content.find(_MARK, at + 1)


def check_head(content: "bytes | mmap", folder_id: bytes, number: int) -> None:
    """Raises Damaged unless `content` begins as segment `number` of this folder does.

    In the order of what a person does about it: an empty or short file, another program's, another version's,
    another folder's, and one that was renamed.
    """
    if bytes(content[: _FILE.size]) == file_head(folder_id, number):
        return
    if len(content) < _FILE.size:
        raise Damaged("is empty" if not len(content) else "is shorter than its head")
    magic, version, other, found = _FILE.unpack(content[: _FILE.size])
    if magic != _MAGIC:
        raise Damaged("does not begin as a segment does")
    if version != VERSION:
        raise Damaged(f"is of version {version}, this emulator reads version {VERSION}")
    if other != folder_id:
        raise Damaged("belongs to another data folder")
    raise Damaged(f"is segment {found} under another name")


def head_of(path: Path) -> tuple[bytes, int] | None:
    """(id of the folder, number) as a segment of this version says them; None without such a head."""
    with path.open("rb") as file:
        head = file.read(_FILE.size)
    if len(head) < _FILE.size:
        return None
    magic, version, folder_id, number = _FILE.unpack(head)
    return (folder_id, number) if magic == _MAGIC and version == VERSION else None


class Mapped:
    """The bytes of a file, read through the page cache and not into memory."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self._file).st_size
        # A mapping of nothing is refused by the system.
        self.content: bytes | mmap = mmap(self._file, 0, access=ACCESS_READ) if self.size else b""

    def __enter__(self) -> "Mapped":
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self.content, mmap):
            self.content.close()
        os.close(self._file)


@dataclass(slots=True)
class Ends:
    """What the list says: `closed` number -> bytes, the last segment, and its acknowledged end."""

    id: bytes = field(default_factory=lambda: os.urandom(8))
    closed: dict[int, int] = field(default_factory=dict)
    last: int = 0
    end: int = 0

    def first_line(self) -> bytes:
        """The line that each record rewrites in place: always as long.

        As long as ever, so that it is overwritten in place, and one write moves the end.

        Worked example: segment 2, 500 bytes acknowledged: 20 digits, a blank, 8 digits of the checksum, a
        line end, 30 bytes in all. The sum is over the folder's id and the segment's number, too: a line of
        another list does not fit here.
        """
        said = f"{self.end:020d}"
        return f"{said} {zlib.crc32(self.id + b'%d %d' % (self.last, self.end)):08x}\n".encode()

    def text(self) -> bytes:
        """The whole list."""
        told = {"version": VERSION, "id": self.id.hex(), "closed": self.closed, "last": self.last}
        line = json.dumps(told).encode() + b"\n"
        return self.first_line() + line + b"%08x\n" % zlib.crc32(line)


def read_ends(folder: Path) -> Ends | None:
    """The folder's list, None when there is none. Raises Damaged.

    The list is written once more from what was read and compared: so both sums, the order and the numbers are
    proven at once.
    """
    try:
        text = (folder / LIST).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damaged(f"cannot be read: {error.strerror}") from None
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        first, line, total = text.splitlines(keepends=True)
        if total == b"%08x\n" % zlib.crc32(line):
            told = json.loads(line)
            if told["version"] != VERSION:
                raise Damaged(f"is of version {told['version']}, this emulator reads version {VERSION}")
            closed = {int(number): int(size) for number, size in told["closed"].items()}
            found = Ends(bytes.fromhex(told["id"]), closed, int(told["last"]), int(first.split()[0]))
            if found.text() == text:
                return found
    raise Damaged("does not match its checksum")


def write_ends(folder: Path, ends: Ends) -> int:
    """Put a new list in the place of the old one, whole or not at all; returns its open file."""
    beside = folder / f"{LIST}.new"
    file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        text = ends.text()
        if os.write(file, text) != len(text):
            raise OSError(28, "no space left for the list of segments")
        os.rename(beside, folder / LIST)
    except BaseException:
        os.close(file)
        beside.unlink(missing_ok=True)
        raise
    return file


def set_aside(path: Path, why: str) -> Path:
    """Rename `path` so that nothing takes it for a segment any more; returns where it is now."""
    kept = free_name(path, why)
    path.rename(kept)
    return kept


def free_name(path: Path, why: str) -> Path:
    """A name beside `path` that nothing has yet: `<name>.<why>`, with a number where needed."""
    kept, again = path.with_name(f"{path.name}.{why}"), 1
    while kept.exists() or kept.is_symlink():
        again += 1
        kept = path.with_name(f"{path.name}.{why}-{again}")
    return kept
