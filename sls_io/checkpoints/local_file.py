"""A checkpoint store in one JSON document on this machine.

    {"format": "sls-lake-checkpoints 1", "of": ORIGIN, "reader": NAME, "sha256": ...,
     "shards": {"0": {"cursor": "12", "frozen": false, "saved_s": 1790000000.0}}}

A write makes a new document beside the old one (PATH.new), syncs it, renames it over the old one and syncs
the folder: a kill at any moment leaves the old document or the new one, whole. Cursors are strings, since
they have 63 bits. The mode is 0600.

Nothing doubtful is "none". The text must be exactly what this module would write for what it says, and its
checksum must fit; a document of another reader or logstore is refused, and one that is gone, too: the lock
file PATH.lock has a byte in it once the first document was synced. Two processes take turns by that lock.

Why a lock file that remembers. Story: the document is deleted, or moved, or left out when its folder is
copied. A reader that takes "no document" for its first start begins at the oldest log again, or at the
newest and skips what it had not read. With the byte in PATH.lock it stops. A folder that is gone with both
cannot be told from a first start; a link whose target is gone can, so that one stops, too.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sls_io.checkpoints.store import (
    Kept,
    Written,
    filling,
    forgotten,
    keep_further,
    possible,
    put_back,
    thawed,
)
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import StoreBroken, StoreError
from sls_io.values.window import Cursor

FORMAT = "sls-lake-checkpoints 1"
_FORMAT_WORDS = "sls-lake-checkpoints "
BYTES_MAX = 64 * 1024**2
"""No document of ours is larger: the service has some hundred shards a logstore."""
PATIENCE_S = 10.0
"""How long a write waits for another process's, which takes milliseconds."""
_LOOK_AGAIN_S = 0.02
_WRITTEN = b"1"

_Shards = dict[int, Kept]
_T = TypeVar("_T")


class LocalFile:
    """Positions of `reader` in the logstore with the origin id `of`, kept in the file `path`.

    The folder is made when something is written. Threads and processes may share a path. `filled_by` is the
    command that fills a new one, for errors; "" where nobody knows it.
    """

    def __init__(
        self, path: Path, *, of: str, reader: str, clock: Clock = SYSTEM_CLOCK, filled_by: str = ""
    ) -> None:
        # A rename would put a file in the place of a link, and readers on both ways would part.
        self._given, path = path, path.resolve()
        self._path, self._of, self._reader, self._clock = path, of, reader, clock
        self._fill = filling(filled_by)
        self._new = path.with_name(f"{path.name}.new")
        self._lock = path.with_name(f"{path.name}.lock")

    @property
    def name(self) -> str:
        """The path."""
        return f"file {self._path}"

    def read(self) -> Mapping[int, Kept]:
        """The document; nothing before the first one. Raises StoreError, or StoreBroken with the cure."""
        try:
            return self._read()
        except OSError as error:
            raise self._trouble("cannot be read", error) from error

    def write(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        """All in one document. Raises StoreError where it cannot be written; the old one is still there."""
        return tuple(self._changed(lambda s: keep_further(s, cursors, self._clock.now()))) if cursors else ()

    def thaw(self, at: Mapping[int, Cursor | None]) -> None:
        if at:
            self._changed(lambda s: thawed(s, at))

    def place(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        return tuple(self._changed(lambda s: put_back(s, cursors, self._clock.now()))) if cursors else ()

    def forget(self, shards: Collection[int]) -> frozenset[int]:
        return self._changed(lambda s: forgotten(s, shards))

    # --- below

    def _changed(self, change: Callable[[_Shards], _T]) -> _T:
        """Read, change and write under the lock; nothing is written where nothing changed.

        The byte in the lock file comes last: a kill before it leaves a first document that is not remembered,
        and the next look remembers it. Before the document it would call a first start lost.
        """
        try:
            with self._locked() as lock:
                before = self._read()
                shards = dict(before)
                result = change(shards)
                if shards != before:
                    self._replace(shards)
                    if not os.pread(lock, 1, 0):
                        os.pwrite(lock, _WRITTEN, 0)
                        os.fsync(lock)
                return result
        except OSError as error:
            raise self._trouble("cannot be written, what it had is still there", error) from error

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The lock file's descriptor while nobody else has it.

        The lock is a file of its own, since the document is replaced: who waited for the old one would hold a
        lock on what nobody reads any more.
        """
        self._check_link()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            until = self._clock.monotonic() + PATIENCE_S
            while not _taken(lock):
                if self._clock.monotonic() > until:
                    raise StoreError(
                        f"{self.name}: another process has had its lock for {PATIENCE_S:g} s. Look who has "
                        f"{self._lock} open (fuser names it), and end it"
                    )
                self._clock.sleep(_LOOK_AGAIN_S)
            yield lock
        finally:
            # Closing gives the lock back, and so does the end of the process.
            os.close(lock)

    def _read(self) -> _Shards:
        """Gone and never there look alike; the byte in the lock file tells them apart. A link without a
        target is neither: its disk may not be mounted.

        The byte is read before the document is. Story: A finds no document. B writes the first one, and the
        byte after it. A finds the byte: all is lost, and it tells a person to remove the lock file.
        """
        was_written = self._was_written()
        try:
            if self._path.exists() and not self._path.is_file():
                raise self._broken("is no file")
            with open(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC), "rb") as file:
                text = file.read(BYTES_MAX + 1)
        except FileNotFoundError:
            self._check_link()
            if was_written:
                raise StoreBroken(
                    f"{self.name} is gone, and there was one. Restore it; or remove {self._lock}, and "
                    f"{self._fill}: without that file a reader begins as at its first start"
                ) from None
            return {}
        shards = self._parsed(text)
        self._remember()
        return shards

    def _check_link(self) -> None:
        """A link whose target is gone is no first start: its disk may not be mounted."""
        if self._given.is_symlink() and not self._given.exists():
            raise StoreBroken(
                f"{self.name}: {self._given} is a link to it, and it is not there. Look whether its disk is "
                "mounted, or restore it; for a first start name the file itself"
            )

    def _remember(self) -> None:
        """There is a document: the lock file says so again, should somebody have removed or emptied it."""
        if self._was_written():
            return
        # A folder that may only be read has nothing of ours that could be told from a first start.
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(self._lock, flags, 0o600)
            try:
                os.pwrite(lock, _WRITTEN, 0)
                os.fsync(lock)
            finally:
                os.close(lock)

    def _was_written(self) -> bool:
        try:
            return self._lock.stat().st_size > 0
        except FileNotFoundError:
            return False

    def _parsed(self, text: bytes) -> _Shards:
        """What was read is written once more and compared byte for byte. So the checksum is proven, and with
        it all that JSON lets pass: a key that stands there twice, another order, a number in another form.

        Worked example: somebody changes the cursor "12" to "13" with an editor. The document still parses;
        written again from what it says it has another checksum than the one in it, so it "was edited". With
        a blank at its end the checksum fits and the bytes do not, and it stops all the same.
        `"cursor": "012"` is 12 to Python, and stops likewise.
        """
        try:
            document = json.loads(text)
            told = document["format"], document["of"], document["reader"]
        except (ValueError, RecursionError, KeyError, TypeError):
            raise self._broken("is torn, or no document of ours") from None
        if told[0] != FORMAT:
            ours = isinstance(told[0], str) and told[0][: len(_FORMAT_WORDS)] == _FORMAT_WORDS
            raise self._broken("has a format of another release" if ours else "is no document of ours")
        try:
            shards = {int(shard): _kept(entry) for shard, entry in document["shards"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._broken("does not hold shards and cursors") from None
        if encoded(told[1], told[2], shards) != text:
            raise self._broken("was edited, or is torn: its checksum does not fit")
        if told[1:] != (self._of, self._reader):
            raise StoreBroken(
                f"{self.name} keeps the positions of reader {told[2]!r} in logstore {told[1]}, not those of "
                f"{self._reader!r} in {self._of}. Give each reader and logstore a file of its own"
            )
        return shards

    def _replace(self, shards: _Shards) -> None:
        """The steps whose order is the whole point; see the head of this module."""
        text = encoded(self._of, self._reader, shards)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            new = os.open(self._new, flags, 0o600)
            try:
                os.fchmod(new, 0o600)
                rest = memoryview(text)
                while rest:
                    rest = rest[os.write(new, rest) :]
                os.fsync(new)
            finally:
                os.close(new)
            os.replace(self._new, self._path)
        except OSError:
            with suppress(OSError):
                self._new.unlink()
            raise
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _broken(self, what: str) -> StoreBroken:
        return StoreBroken(
            f"{self.name} {what}. Restore it; or move it and {self._lock} aside, and {self._fill}. Nothing "
            "of it was taken"
        )

    def _trouble(self, what: str, error: OSError) -> StoreError:
        return StoreError(
            f"{self.name} {what}: {error.strerror or type(error).__name__}. Look at the folder's rights and "
            "at the space that is left there"
        )


def encoded(of: str, reader: str, shards: Mapping[int, Kept]) -> bytes:
    """The document: the same bytes for the same contents.

    Sorted, one form for each value, and the checksum over all but itself. So what was read can be written
    once more and compared (`_parsed`), and a store copied byte by byte is as good as the first one.
    """
    document: dict[str, Any] = {
        "format": FORMAT,
        "of": of,
        "reader": reader,
        "shards": {
            str(shard): {
                "cursor": None if kept.cursor is None else str(kept.cursor),
                "frozen": kept.frozen,
                "saved_s": float(kept.saved_s),
            }
            for shard, kept in sorted(shards.items())
        },
    }
    document["sha256"] = hashlib.sha256(_text(document)).hexdigest()
    return _text(document) + b"\n"


def _text(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode()


def _kept(entry: Any) -> Kept:
    cursor, frozen, saved_s = entry["cursor"], entry["frozen"], entry["saved_s"]
    if cursor is not None and not possible(int(cursor)):
        raise ValueError
    return Kept(None if cursor is None else Cursor(int(cursor)), float(saved_s), bool(frozen))


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
