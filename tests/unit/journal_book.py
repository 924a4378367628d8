"""A store of the emulator on a data folder, the way the service uses the two."""

from pathlib import Path

from sls_io.emulator.storage.journal import SegmentJournal
from sls_io.emulator.storage.store import Store, StoredLogstore

NOW = 1_790_000_000.0


class Book:
    """A store on a folder, and what it holds."""

    def __init__(self, folder: Path, *, segment_bytes_max: int = 1 << 20, salvage: bool = False) -> None:
        self.store = Store(numbered=True)
        self.journal = SegmentJournal(
            folder, self.store, NOW, segment_bytes_max=segment_bytes_max, salvage=salvage
        )

    def __enter__(self) -> "Book":
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()

    @property
    def logstore(self) -> StoredLogstore:
        return self.store.logstore("demo", "logs")

    def create(self) -> None:
        self.store.create_project("demo", {}, NOW)
        self.store.create_logstore("demo", "logs", 30, 2, {}, NOW)
        self.commit()

    def put(self, shard: int, content: bytes) -> int:
        log = self.logstore.shards[shard]
        place = self.journal.append(self.logstore.uid, shard, log.next, int(NOW), content)
        return log.append(place, len(content), NOW)

    def commit(self) -> None:
        if self.store.changes:
            self.journal.write(self.store.changes)
            self.store.changes.clear()
        self.journal.release(self.store.released)
        self.store.released.clear()

    def content(self, shard: int) -> list[bytes]:
        log = self.logstore.shards[shard]
        return [self.journal.read([place], [size]) for _, _, place, size in log.entries()]

    def groups(self) -> set[bytes]:
        """Of all shards; none where the logstore is lost."""
        if ("demo", "logs") not in self.store.logstores:
            return set()
        return {group for shard in self.logstore.shards for group in self.content(shard)}
