"""What a landing brings to the ledger, and what stands beside it: adopted and forgotten rows, as values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sls_io.planning.values import LedgerChange
from sls_io.values.claim import SUM_MODULUS
from sls_io.values.window import IntervalSet, Window


@dataclass(frozen=True, slots=True)
class Landed:
    """A window that was written: actual ends, rows, identity sum (mod 2**64), raw bytes, flags."""

    window: Window
    rows: int
    sum: int
    raw_bytes: int = 0
    flags: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """What one landing brings to the ledger of its origin: windows, and the change that its plan made.
    `first`: it is the first start."""

    origin: str
    live: bool
    windows: tuple[Landed, ...] = ()
    change: LedgerChange = field(default_factory=LedgerChange)
    first: bool = False


class Operation(StrEnum):
    """What makes a snapshot with a ledger where no landing does. OTHER: unknown to this release."""

    ABORT = "abort"
    ADOPT = "adopt"
    COLUMNS = "columns"
    COMPACT = "compact"
    ERRORS = "errors"
    FORGET = "forget"
    GIVE_UP = "give-up"
    MANIFESTS = "manifests"
    PAUSE = "pause"
    REFRESH = "refresh"
    RELABEL = "relabel"
    REPAIR_MANIFESTS = "repair-manifests"
    REPLACE = "replace"
    REST = "rest"
    RESUME = "resume"
    ROLLBACK = "rollback"
    SKIP = "skip"
    UNDO = "undo"
    OTHER = ""


@dataclass(frozen=True, slots=True)
class Deed:
    """What was done. `about`: words for people (hours, a filter); `snapshot`: where a rollback goes to."""

    operation: Operation
    about: str = ""
    snapshot: int | None = None

    def __str__(self) -> str:
        said = self.about if self.snapshot is None else str(self.snapshot)
        return " ".join(part for part in (self.operation, said) if part)


@dataclass(frozen=True, slots=True)
class Adopted:
    """Rows that were in the table before its ledger began: a person said that they belong there.

    shards   (origin, shard) -> rows and their identity sum, of the origins that the table knows
    others   rows of any other origin, or of none
    missing  (origin, shard) -> rows that an older ledger knew and that were not there any more: a person
             said to go on without them
    """

    shards: Mapping[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    others: int = 0
    missing: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """All that are there."""
        return self.others + sum(rows for rows, _ in self.shards.values())

    def of(self, origin: str, shard: int) -> tuple[int, int]:
        """(rows, identity sum) of one shard; zeros where nothing was adopted."""
        return self.shards.get((origin, shard), (0, 0))

    def shards_of(self, origin: str) -> frozenset[int]:
        """The shards of `origin` with adopted rows."""
        return frozenset(shard for name, shard in self.shards if name == origin)


@dataclass(frozen=True, slots=True)
class Gone:
    """Rows of one shard that left by a decision: how many, their identity sum, receive hours.

    With `before`, all receive hours before that one are among `hours`, whatever was there of them.
    """

    rows: int
    sum: int
    hours: IntervalSet
    before: int = 0


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Everything that left the table by a decision: (origin, shard) -> rows, sum and hours."""

    shards: Mapping[tuple[str, int], Gone] = field(default_factory=dict)

    def of(self, origin: str, shard: int) -> Gone:
        """What one shard lost; zeros where nothing was forgotten."""
        return self.shards.get((origin, shard), Gone(0, 0, IntervalSet()))

    def hours(self, origin: str) -> IntervalSet:
        """Receive hours of which rows of `origin` were forgotten."""
        return IntervalSet.of(
            p for (name, _), gone in self.shards.items() if name == origin for p in gone.hours
        )

    def before(self, origin: str) -> int:
        """All receive hours of `origin` before this one are forgotten, rows or none; 0: no such hour."""
        return max((gone.before for (name, _), gone in self.shards.items() if name == origin), default=0)

    def plus(self, origin: str, shard: int, more: Gone) -> "Forgotten":
        """With `more` of one shard."""
        old = self.of(origin, shard)
        total = Gone(
            old.rows + more.rows,
            (old.sum + more.sum) % SUM_MODULUS,
            old.hours.union(more.hours),
            max(old.before, more.before),
        )
        return Forgotten({**self.shards, (origin, shard): total})

    def all_before(self, origin: str, shards: Iterable[int], hour: int) -> "Forgotten":
        """With all receive hours of `origin` before `hour`, those without rows too, kept with `shards`."""
        found = self
        for shard in shards:
            found = found.plus(origin, shard, Gone(0, 0, IntervalSet.of([(0, hour)]), hour))
        return found
