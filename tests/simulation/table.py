"""The lake table as a list of snapshots: refs, requirements, files, and what others do to it.

A commit is accepted only on the exact head, tag, schema and spec it names. Compaction, another
logstore's landing and a person's rollback move the refs as they would in Iceberg.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.landing.ledger.epochs import Epoch
from pipelines.landing.run.protocol import Publish
from sls_io.values.claim import Ledger
from sls_io.values.window import Window

ORIGIN = "sim"


@dataclass(frozen=True)
class File:
    """Rows of one window: the cursors of the groups that were pulled."""

    id: int
    window: Window
    cursors: tuple[int, ...]
    schema: int
    written_s: int


@dataclass(frozen=True)
class Snapshot:
    """`files` are all files of the table at this snapshot; `ledger` only where a landing wrote one."""

    id: int
    parent: int | None
    sequence: int
    files: frozenset[File]
    ledger: Ledger | None = None


@dataclass(frozen=True)
class Run:
    """A live run among those of its deployment, which a name stands for. `seen`: how many landings of the
    deployment there were when it first read the table."""

    id: int
    name: str
    begun_s: int
    seen: int
    epoch: Epoch


@dataclass(frozen=True)
class Request:
    """One try: what it brings, and the exact state that it requires."""

    snapshot_id: int
    head: int | None
    tag: int | None
    schema: int
    spec: int
    files: frozenset[File]
    effect: Publish
    live: bool
    run: "Run | None" = None


class Table:
    """Snapshots, the refs `main` and `tag`, schema and spec ids, and files that were deleted."""

    def __init__(self) -> None:
        self.snapshots: dict[int, Snapshot] = {}
        self.main: int | None = None
        self.tag: int | None = None
        self.schema = 0
        self.spec = 0
        self.deleted: set[int] = set()
        self.written: dict[int, File] = {}
        self.epochs: dict[str, Epoch] = {}
        self.landings: dict[str, list[Run]] = {}
        self.ids = 0
        self.version = 0

    def next_id(self) -> int:
        """A number never used before, for snapshots and files."""
        self.ids += 1
        return self.ids

    @property
    def files(self) -> frozenset[File]:
        """Files of `main`."""
        return self.snapshots[self.main].files if self.main is not None else frozenset()

    @property
    def ledger(self) -> Ledger:
        """The ledger under the tag."""
        found = self.snapshots[self.tag].ledger if self.tag is not None else None
        return found if found is not None else Ledger(ORIGIN)

    def ancestry(self) -> Iterator[Snapshot]:
        """Snapshots of `main`, newest first."""
        at = self.main
        while at is not None:
            yield self.snapshots[at]
            at = self.snapshots[at].parent

    @property
    def rolled_back(self) -> bool:
        """Whether `main` no longer contains the newest landing."""
        if self.tag is None:
            return False
        floor = self.snapshots[self.tag].sequence
        for snapshot in self.ancestry():
            if snapshot.id == self.tag:
                return False
            if snapshot.sequence < floor:
                break
        return True

    def landed(self, tries: tuple[int, ...]) -> int | None:
        """The try that is in `main`, if any."""
        return next((s.id for s in self.ancestry() if s.id in tries), None) if tries else None

    def fits(self, request: Request) -> bool:
        """Whether the table is exactly as the request requires."""
        return not self.has(request) and (self.main, self.tag, self.schema, self.spec) == (
            request.head,
            request.tag,
            request.schema,
            request.spec,
        )

    def has(self, request: Request) -> bool:
        """Whether the snapshot was added already; a catalog refuses it then whatever is required."""
        return request.snapshot_id in self.snapshots

    def apply(self, request: Request) -> None:
        """Take a request in; the caller has asked whether it fits."""
        self._append(request.snapshot_id, self.files | request.files, request.effect.ledger)
        self.tag = request.snapshot_id
        if request.run is not None:
            self.epochs[request.run.name] = request.run.epoch
            self.landings.setdefault(request.run.name, []).append(request.run)

    def newer(self, run: Run) -> bool:
        """Whether a run of the deployment that is newer has landed since this one read the table. Newer is
        who read it later: a run may begin, and read only after another has landed."""
        since = self.landings.get(run.name, [])[run.seen :]
        return any(other.id != run.id and other.epoch.number > run.epoch.number for other in since)

    def compact(self) -> None:
        """Somebody rewrites all files: other files, same rows. The tag stays."""
        if self.main is not None:
            files = frozenset(
                File(self.next_id(), f.window, f.cursors, f.schema, f.written_s) for f in self.files
            )
            self.written |= {f.id: f for f in files}
            self._append(self.next_id(), files, None)

    def refresh(self) -> None:
        """A landing of no rows, or of another logstore: head and tag move, our ledger is carried on."""
        if self.main is not None and not self.rolled_back:
            number = self.next_id()
            self._append(number, self.files, self.ledger)
            self.tag = number

    def sweep(self, before_s: int) -> None:
        """Delete files nobody sees that are older; earlier writers are made to reload first."""
        self.refresh()
        seen = {f.id for s in self.ancestry() for f in s.files}
        self.deleted |= {f.id for f in self.written.values() if f.id not in seen and f.written_s < before_s}

    def roll_back_by_hand(self, steps: int) -> bool:
        """A person points `main` at an older snapshot; True when that took a landing away."""
        line = list(self.ancestry())
        self.main = line[min(steps, len(line) - 1)].id
        self.version += 1
        return self.rolled_back

    def settle(self) -> None:
        """The verb: the newest ledger that is still part of `main` becomes the ledger again."""
        found = next((s for s in self.ancestry() if s.ledger is not None), None)
        if found is not None:
            number = self.next_id()
            self._append(number, self.files, found.ledger)
            self.tag = number

    def _append(self, number: int, files: frozenset[File], ledger: Ledger | None) -> None:
        sequence = 1 + max((s.sequence for s in self.snapshots.values()), default=0)
        self.snapshots[number] = Snapshot(number, self.main, sequence, files, ledger)
        self.main = number
        self.version += 1
