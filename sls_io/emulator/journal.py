"""Where LogGroups and changes are kept: in memory, or in append-only segment files.

A segment is a run of records `<u32 length, u32 crc32 of the payload, u8 kind> payload`:
    kind 1  LogGroup   <u32 logstore uid, u32 shard, i64 cursor, i64 receive second> framed bytes
    kind 2  changes    JSON list of `Store.changes`
    kind 3  snapshot   the same list, enough to make everything but the LogGroups
One `writev` a record, in the page cache before the answer goes out: a kill of the process loses
nothing that was acknowledged (loss of power may; this is a stand-in, not a database). A record
torn by a kill can only be the last one; it is cut off at start. Every segment begins with one
snapshot record, so a segment whose LogGroups are all gone can be deleted.
"""

import fcntl
import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from sls_io.emulator.store import Change, Place, Store
from sls_io.errors import ConfigError

SEGMENT_BYTES_MAX = 256 * 1024 * 1024
_HEAD = struct.Struct("<IIB")
_GROUP = struct.Struct("<IIqq")
_GROUP_KIND, _CHANGES_KIND, _SNAPSHOT_KIND = 1, 2, 3
_OFFSET_BITS = 40


class Journal(Protocol):
    """What the edge needs: append, read back, let go."""

    def append(self, uid: int, shard: int, cursor: int, second: int, framed: bytes) -> Place:
        """Keep one framed LogGroup; returns where it is."""
        ...

    def write(self, changes: list[Change]) -> None:
        """Keep changes."""
        ...

    def read(self, places: Sequence[Place], sizes: Sequence[int]) -> bytes:
        """The framed LogGroups, joined: a LogGroupList."""
        ...

    def release(self, places: Sequence[Place]) -> None:
        """These LogGroups are gone; space may be given back."""
        ...

    def close(self) -> None:
        """Nothing more will be written."""
        ...


class MemoryJournal:
    """Keeps LogGroups only while somebody holds their place, which is the bytes themselves."""

    def append(self, uid: int, shard: int, cursor: int, second: int, framed: bytes) -> Place:
        return framed

    def write(self, changes: list[Change]) -> None:
        pass

    def read(self, places: Sequence[Place], sizes: Sequence[int]) -> bytes:
        return b"".join(places)

    def release(self, places: Sequence[Place]) -> None:
        pass

    def close(self) -> None:
        pass


class SegmentJournal:
    """Append-only segment files in `folder`. A place is `segment << 40 | offset of the bytes`."""

    def __init__(
        self, folder: Path, store: Store, now: float, *, segment_bytes_max: int = SEGMENT_BYTES_MAX
    ) -> None:
        self.folder = folder
        self.segment_bytes_max = segment_bytes_max
        self.cut_bytes = 0
        self._store = store
        self._files: dict[int, int] = {}
        self._live: dict[int, int] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(
                f"data folder {folder}: {error.strerror}; name one that can be written"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(
                f"data folder {folder} is in use by another emulator: stop it or name another"
            ) from error
        numbers = sorted(int(path.stem) for path in folder.glob("*.seg"))
        for number in numbers:
            self._open(number)
            self._load(number, last=number == numbers[-1], now=now)
        self._number = numbers[-1] if numbers else 0
        self._end = os.fstat(self._files[self._number]).st_size if numbers else 0
        if not numbers:
            self._roll()
        elif self._end == 0:
            self._snapshot()
        self.release(store.released)
        store.released.clear()

    def append(self, uid: int, shard: int, cursor: int, second: int, framed: bytes) -> Place:
        meta = _GROUP.pack(uid, shard, cursor, second)
        begin = self._record(_GROUP_KIND, meta, framed)
        self._live[self._number] = self._live.get(self._number, 0) + 1
        return self._number << _OFFSET_BITS | (begin + len(meta))

    def write(self, changes: list[Change]) -> None:
        self._record(_CHANGES_KIND, json.dumps(changes, separators=(",", ":")).encode())

    def read(self, places: Sequence[Place], sizes: Sequence[int]) -> bytes:
        mask = (1 << _OFFSET_BITS) - 1
        parts = []
        for place, size in zip(places, sizes, strict=True):
            part = os.pread(self._files[place >> _OFFSET_BITS], size, place & mask)
            if len(part) != size:
                raise ConfigError(f"data folder {self.folder}: a segment is shorter than when it was opened")
            parts.append(part)
        return b"".join(parts)

    def release(self, places: Sequence[Place]) -> None:
        for place in places:
            self._live[place >> _OFFSET_BITS] -= 1
        if places:
            self._delete_dead()

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()
        os.close(self._lock)

    def _delete_dead(self) -> None:
        """Delete the segments without LogGroups; the last one's snapshot knows all else they said."""
        for number in [n for n, live in self._live.items() if live <= 0 and n != self._number]:
            os.close(self._files.pop(number))
            del self._live[number]
            self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08}.seg"

    def _open(self, number: int) -> None:
        self._files[number] = os.open(self._path(number), os.O_RDWR | os.O_CREAT, 0o600)
        self._live[number] = 0

    def _roll(self) -> None:
        """Begin a segment. Without its snapshot it must not stay: older ones could be deleted under it."""
        before = self._number, self._end
        self._number, self._end = self._number + 1, 0
        self._open(self._number)
        try:
            self._snapshot()
        except OSError:
            os.close(self._files.pop(self._number))
            del self._live[self._number]
            self._path(self._number).unlink(missing_ok=True)
            self._number, self._end = before
            raise
        self._delete_dead()

    def _snapshot(self) -> None:
        self._put(_SNAPSHOT_KIND, json.dumps(self._store.snapshot(), separators=(",", ":")).encode())

    def _record(self, kind: int, *parts: bytes) -> int:
        if self._end >= self.segment_bytes_max:
            self._roll()
        return self._put(kind, *parts)

    def _put(self, kind: int, *parts: bytes) -> int:
        """Append one record; returns the file offset of its payload. A failed write leaves no trace."""
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        size = sum(map(len, parts))
        file, begin = self._files[self._number], self._end
        os.lseek(file, begin, os.SEEK_SET)
        try:
            written = os.writev(file, [_HEAD.pack(size, crc, kind), *parts])
            if written != _HEAD.size + size:
                raise OSError(28, "no space left for a whole record")
        except OSError:
            os.ftruncate(file, begin)
            raise
        self._end = begin + written
        return begin + _HEAD.size

    def _load(self, number: int, *, last: bool, now: float) -> None:
        """Replay one segment into the store; cut what a kill left behind the last whole record."""
        file = self._files[number]
        size = os.fstat(file).st_size
        end = 0
        for kind, begin, length in _records(file, size, check=last):
            if kind == _GROUP_KIND:
                uid, shard, cursor, second = _GROUP.unpack(os.pread(file, _GROUP.size, begin))
                self._restore(number, begin + _GROUP.size, uid, shard, cursor, second, length - _GROUP.size)
            elif kind == _SNAPSHOT_KIND:
                self._store.restore(json.loads(os.pread(file, length, begin)), now)
            else:
                for change in json.loads(os.pread(file, length, begin)):
                    self._store.apply(change, now)
            end = begin + length
        if end < size and not last:
            raise ConfigError(f"data folder {self.folder}: {self._path(number).name} is broken at byte {end}")
        if end < size:
            self.cut_bytes = size - end
            os.ftruncate(file, end)

    def _restore(
        self, number: int, at: int, uid: int, shard: int, cursor: int, second: int, size: int
    ) -> None:
        logstore = self._store.by_uid.get(uid)
        log = logstore.shards.get(shard) if logstore else None
        if log is not None and (not log.cursors or cursor > log.cursors[-1]):
            log.restore(cursor, second, number << _OFFSET_BITS | at, size)
            self._live[number] += 1


def _records(file: int, size: int, *, check: bool) -> Iterator[tuple[int, int, int]]:
    """(kind, payload offset, payload length) of each whole record; `check` verifies checksums."""
    at = 0
    while at + _HEAD.size <= size:
        length, crc, kind = _HEAD.unpack(os.pread(file, _HEAD.size, at))
        begin = at + _HEAD.size
        if begin + length > size or kind not in (_GROUP_KIND, _CHANGES_KIND, _SNAPSHOT_KIND):
            return
        if (check or kind != _GROUP_KIND) and zlib.crc32(os.pread(file, length, begin)) != crc:
            return
        yield kind, begin, length
        at = begin + length


def open_journal(data: Path | None, store: Store, now: float, **limits: Any) -> Journal:
    """In memory without `data`; else the folder's segments, replayed into `store`."""
    return MemoryJournal() if data is None else SegmentJournal(data, store, now, **limits)
