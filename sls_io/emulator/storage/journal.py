"""Where LogGroups and changes are kept: in memory, or in append-only segment files (`segment.py`).

A record is one `writev`, then the acknowledged end in the list `ends` moves behind it, then the
answer goes out; both are in the page cache. So a kill of the process loses nothing that was
acknowledged, and what stands behind that end was promised to nobody. At start

- a tail that a kill tore is cut off, said, and kept in a file beside;
- anything else that is not as it was written is refused, and nothing is changed: a flipped bit, a
  segment that is short, empty or missing. `salvage.py` goes on from there when a person asks for it.

Loss of power may take what the system had not written yet; the list then says that it is missing.
Every segment begins with a snapshot, so one whose LogGroups are all gone can be deleted.
"""

import fcntl
import json
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sls_io.emulator.storage.salvage import salvage as salvaged
from sls_io.emulator.storage.segment import (
    CHANGES,
    FILE_HEAD_BYTES,
    GROUP,
    LIST,
    RECORD_HEAD_BYTES,
    SNAPSHOT,
    Damaged,
    Ends,
    Mapped,
    Record,
    all_records,
    check_head,
    file_head,
    free_name,
    read_ends,
    record_head,
    records,
    set_aside,
    write_ends,
)
from sls_io.emulator.storage.shard_log import Change, Place
from sls_io.emulator.storage.store import Store
from sls_io.values.errors import ConfigError

SEGMENT_BYTES_MAX = 256 * 1024 * 1024
_GROUP = struct.Struct("<IIqq")
_OFFSET_BITS = 40
_CURE = (
    "Nothing was changed: put the file back from a copy, or start once with --salvage, which keeps what is "
    "damaged in files beside and serves every record that proves itself"
)


class Journal:
    """What the edge needs: append, read back, let go. This one is for an emulator without a data folder: it
    keeps LogGroups only while somebody holds their place, which is the bytes themselves.

    `notes`: what was cut, moved or lost at start.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []

    def append(self, uid: int, shard: int, cursor: int, second: int, framed: bytes) -> Place:
        """Keep one framed LogGroup; returns where it is."""
        return framed

    def write(self, changes: list[Change]) -> None:
        """Keep changes."""

    def read(self, places: Sequence[Place], sizes: Sequence[int]) -> bytes:
        """The framed LogGroups, joined: a LogGroupList."""
        return b"".join(places)

    def release(self, places: Sequence[Place]) -> None:
        """These LogGroups are gone; space may be given back."""

    def close(self) -> None:
        """Nothing more will be written."""


class SegmentJournal(Journal):
    """Append-only segment files in `folder`. A place is `segment << 40 | offset of the bytes`.

    A place is one number, so that a shard's index is an array: 40 bits for the offset in a segment, 22 for
    its number (`salvage.NUMBERS`).

    Worked example: the LogGroup whose bytes begin at offset 61 of segment 3 is at `3 << 40 | 61`,
    3298534883389: a segment's head takes 24 bytes, a record's 13, and the group's own numbers 24. The
    largest place is below 2^62.
    """

    def __init__(
        self, folder: Path, store: Store, now: float, *, segment_bytes_max: int = SEGMENT_BYTES_MAX,
        salvage: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.folder = folder
        self.segment_bytes_max = segment_bytes_max
        self._store = store
        self._files: dict[int, int] = {}
        self._live: dict[int, int] = {}
        self._list = self._lock = -1
        try:
            self._lock = self._locked()
            if salvage:
                self.notes += salvaged(folder)
            self._ends = self._known()
            self._load(now)
            self._set_strangers_aside()
            if salvage or not self._ends.last:
                # A salvaged segment may lack its snapshot, and then no older one could ever be deleted.
                self._roll()
        except OSError as error:
            self.close()
            raise ConfigError(
                f"data folder {folder}: {error.strerror}; name one that can be written"
            ) from error
        except BaseException:
            self.close()
            raise
        self.release(store.released)
        store.released.clear()

    def append(self, uid: int, shard: int, cursor: int, second: int, framed: bytes) -> Place:
        meta = _GROUP.pack(uid, shard, cursor, second)
        begin = self._record(GROUP, meta, framed)
        self._live[self._ends.last] += 1
        return self._ends.last << _OFFSET_BITS | (begin + len(meta))

    def write(self, changes: list[Change]) -> None:
        self._record(CHANGES, _json(changes))

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
        for file in (*self._files.values(), self._list, self._lock):
            if file >= 0:
                os.close(file)
        self._files.clear()
        self._list = self._lock = -1

    def _locked(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise ConfigError(
                f"data folder {self.folder} is in use by another emulator: stop it or name another"
            ) from error
        return lock

    def _known(self) -> Ends:
        """The list, every file that it names being there; a new one for a new folder.

        Segments without a list are refused, and so is a list without its segments: either way nobody can say
        what was acknowledged and is gone.
        """
        found = {path.name for path in self.folder.glob("*.seg")}
        try:
            ends = read_ends(self.folder)
        except Damaged as damage:
            raise self._refusal(LIST, f"{damage}, and only it says what was acknowledged") from None
        if ends is None and found:
            raise self._refusal(LIST, "is missing, and only it says what was acknowledged")
        if ends is None:
            ends = Ends()
            self._list = write_ends(self.folder, ends)
        else:
            self._list = os.open(self.folder / LIST, os.O_RDWR)
        if gone := sorted(self._named(ends) - found):
            raise self._refusal(", ".join(gone), "is missing, with all LogGroups in it")
        return ends

    def _named(self, ends: Ends) -> set[str]:
        return {self._path(number).name for number in (*ends.closed, *([ends.last] if ends.last else []))}

    def _set_strangers_aside(self) -> None:
        """Rename the segments that the list does not name.

        They are what a kill left: a segment begun and not yet on the list, so nothing in it was
        acknowledged, or one that was dead and off the list, but not yet deleted.
        """
        for name in sorted({path.name for path in self.folder.glob("*.seg")} - self._named(self._ends)):
            kept = set_aside(self.folder / name, "unlisted")
            self.notes.append(f"{name} is on no list of acknowledged segments: it was renamed to {kept.name}")

    def _delete_dead(self) -> None:
        """Delete the segments without LogGroups; the last one's snapshot knows all else they said.

        They leave the list first: a kill in between leaves a file that nobody misses. Without room
        for another list they stay, and the next release tries again.

        `_live` counts the LogGroups of each segment that a shard still knows.

        Worked example: segments 1 to 3, of which 2 is the oldest with a LogGroup that a shard still has. 1
        goes, and what it said of projects, groups and checkpoints is in the snapshot that 3 begins with. 2
        stays, whole, for the sake of one group: nothing is ever moved between segments.
        """
        dead = [number for number in self._ends.closed if self._live[number] <= 0]
        if not dead:
            return
        closed = {number: size for number, size in self._ends.closed.items() if number not in dead}
        with suppress(OSError):
            self._relist(Ends(self._ends.id, closed, self._ends.last, self._ends.end))
            for number in dead:
                os.close(self._files.pop(number))
                del self._live[number]
                self._path(number).unlink(missing_ok=True)

    def _relist(self, ends: Ends) -> None:
        file = write_ends(self.folder, ends)
        if self._list >= 0:
            os.close(self._list)
        self._list, self._ends = file, ends

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08}.seg"

    def _roll(self) -> None:
        """Begin a segment: head and snapshot first, then the list that names it, then records.

        A kill in between leaves a file that the list does not name, and that nobody was promised.

        Snapshot, list, records: an older segment can go as soon as its LogGroups have, because all else it
        said is in the newer one's snapshot.

        In the list before anything is written to it that is answered. Were it the other way round, a kill
        would leave answered records in a segment that the list does not name, which the next start takes
        for nobody's and renames.
        """
        number = self._ends.last + 1
        snapshot = _json(self._store.snapshot())
        parts = [file_head(self._ends.id, number), record_head(SNAPSHOT, snapshot), snapshot]
        closed = dict(self._ends.closed)
        if self._ends.last:
            closed[self._ends.last] = self._ends.end
        file = os.open(self._path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _write(file, 0, parts)
            self._relist(Ends(self._ends.id, closed, number, sum(map(len, parts))))
        except BaseException:
            os.close(file)
            self._path(number).unlink(missing_ok=True)
            raise
        self._files[number], self._live[number] = file, 0
        self._delete_dead()

    def _record(self, kind: int, *parts: bytes) -> int:
        """Append one record; returns the file offset of its payload. A failed write leaves no trace.

        The end on the list moves only behind a whole record, and the answer goes out behind that. So there
        are three states after a kill: the record is not whole (it is cut), whole and not on the list (it
        counts, nobody was answered), or on the list.
        """
        if self._ends.end >= self.segment_bytes_max:
            self._roll()
        file, begin = self._files[self._ends.last], self._ends.end
        try:
            self._ends.end = begin + _write(file, begin, [record_head(kind, *parts), *parts])
            _write(self._list, 0, [self._ends.first_line()])
        except OSError:
            self._ends.end = begin
            with suppress(OSError):
                os.ftruncate(file, begin)
            with suppress(OSError):
                # Should half of the new line stand there: the old one must not be left torn.
                _write(self._list, 0, [self._ends.first_line()])
            raise
        return begin + RECORD_HEAD_BYTES

    def _load(self, now: float) -> None:
        """Replay the segments into the store. What is wrong is refused before anything is changed.

        Worked example: the list says that segment 3 is the last, and 500 bytes of it were acknowledged. Whole
        records end at 480: 20 acknowledged bytes are gone, and the folder is refused. They end at 560 of 570:
        60 bytes were written and not answered, and count; the last 10 are cut off and kept beside.
        """
        told = dict(sorted(self._ends.closed.items()))
        if self._ends.last:
            told[self._ends.last] = self._ends.end
        for number, acknowledged in told.items():
            name = self._path(number).name
            with Mapped(self._path(number)) as mapped:
                self._files[number] = os.open(self._path(number), os.O_RDWR)
                self._live[number] = 0
                for record in self._proven(name, number, acknowledged, mapped):
                    self._replay(name, number, record, mapped, now)
                    told[number] = record.end
        for number, end in told.items():
            self._cut(number, end)
        if self._ends.last and told[self._ends.last] != self._ends.end:
            self._ends.end = told[self._ends.last]
            _write(self._list, 0, [self._ends.first_line()])

    def _proven(self, name: str, number: int, acknowledged: int, mapped: Mapped) -> Iterator[Record]:
        """The records of a segment. Raises ConfigError unless all that were acknowledged prove themselves.

        In the last segment whole ones behind them count, too: they were written and not answered.
        """
        content, size = mapped.content, mapped.size
        try:
            check_head(content, self._ends.id, number)
        except Damaged as damage:
            raise self._refusal(name, f"{damage}; {acknowledged} bytes of it were acknowledged") from None
        at = FILE_HEAD_BYTES
        for record in records(content, at, size if number == self._ends.last else min(size, acknowledged)):
            yield record
            at = record.end
        if at >= acknowledged:
            return
        behind = sum(1 for _ in all_records(content, at + 1, size))
        what = f"ends at byte {size}" if size < acknowledged else f"is damaged at byte {at}"
        raise self._refusal(
            name,
            f"{what}: of {acknowledged} acknowledged bytes those from {at} on do not prove themselves, "
            f"but for {behind} whole records",
        )

    def _cut(self, number: int, end: int) -> None:
        """Cut what stands behind the last whole record: keep it in a file beside, and say so.

        A kill inside a write leaves it. Nobody was promised it, and whoever put it asks again.
        """
        file = self._files[number]
        tail = os.fstat(file).st_size - end
        if tail <= 0:
            return
        name = self._path(number).name
        kept = free_name(self._path(number), f"cut-{end}")
        kept.write_bytes(os.pread(file, tail, end))
        os.ftruncate(file, end)
        self.notes.append(
            f"{name}: {tail} bytes behind byte {end} are no whole record and were never acknowledged: "
            f"they were cut off and kept in {kept.name}"
        )

    def _replay(self, name: str, number: int, record: Record, mapped: Mapped, now: float) -> None:
        """A record that proves itself and makes no sense is of another emulator, so it is refused and never
        skipped."""
        content = mapped.content[record.begin : record.end]
        try:
            if record.kind == GROUP:
                uid, shard, cursor, second = _GROUP.unpack(content[: _GROUP.size])
                at = number << _OFFSET_BITS | (record.begin + _GROUP.size)
                # Also one that finds no shard: its segment must not be deleted under it.
                self._live[number] += 1
                if not self._store.restore_group(uid, shard, cursor, second, at, record.length - _GROUP.size):
                    self.notes.append(f"{name}: the LogGroup at byte {record.begin} has no shard to be in")
            elif record.kind == SNAPSHOT:
                self._store.restore(json.loads(content), now)
            else:
                for change in json.loads(content):
                    self._store.apply(change, now)
        except (KeyError, TypeError, ValueError, AttributeError, struct.error, OverflowError) as error:
            raise self._refusal(
                name, f"says at byte {record.begin} what this emulator does not understand"
            ) from error

    def _refusal(self, name: str, what: str) -> ConfigError:
        return ConfigError(f"data folder {self.folder}: {name} {what}. {_CURE}")


def _json(value: list[Change]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _write(file: int, at: int, parts: Sequence[bytes]) -> int:
    """Write all of `parts` at `at`, or raise OSError; returns how many bytes that are."""
    os.lseek(file, at, os.SEEK_SET)
    size = sum(map(len, parts))
    if os.writev(file, parts) != size:
        raise OSError(28, "no space left for a whole record")
    return size


def open_journal(data: Path | None, store: Store, now: float, **limits: Any) -> Journal:
    """In memory without `data`; else the folder's segments, replayed into `store`."""
    return Journal() if data is None else SegmentJournal(data, store, now, **limits)
