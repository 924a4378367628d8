"""What a landing brings to the ledger, and what stands beside it: adopted and forgotten rows, as values."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipelines.landing.barring import Bars
from sls_io.planning.values import LedgerChange
from sls_io.values.claim import SUM_MODULUS
from sls_io.values.window import IntervalSet, Window

Count = tuple[int, int]
"""Rows and their identity sum, mod 2**64."""


def summed(counts: Iterable[Count]) -> Count:
    """All of them together."""
    rows = total = 0
    for number, part in counts:
        rows, total = rows + number, (total + part) % SUM_MODULUS
    return rows, total


def less(one: Count, other: Count) -> Count:
    """`one` without `other`."""
    return one[0] - other[0], (one[1] - other[1]) % SUM_MODULUS


Key = tuple[str, int]
"""An origin and a shard."""
BARRED_MAX = 2000
"""So many hours of shards are kept with their counts of barred rows, some 25 bytes each."""


@dataclass(frozen=True, slots=True)
class Landed:
    """A window that was written: actual ends, rows, identity sum (mod 2**64), raw bytes, flags; and the rows
    and the sum of what was left out, since its values may not land."""

    window: Window
    rows: int
    sum: int
    raw_bytes: int = 0
    flags: str = ""
    barred: Count = (0, 0)


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


_NONE = Gone(0, 0, IntervalSet())


def _added(one: Gone, more: Gone) -> Gone:
    return Gone(
        one.rows + more.rows,
        (one.sum + more.sum) % SUM_MODULUS,
        one.hours.union(more.hours),
        max(one.before, more.before),
    )


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Everything that left the table by a decision, and what may not land.

    shards  (origin, shard) -> rows, sum and hours of what was removed
    bars    values whose rows may not land, also by a decision that goes on
    barred  (origin, shard) -> receive hour -> rows that are not there because of that, although their cursors
            are landed; they go and come with their hour, so they are of the landing that says them
    older   the same of hours that are too many to be kept one by one

    Equal are those after which the same was removed: what is older than a removal is told by that.
    """

    shards: Mapping[Key, Gone] = field(default_factory=dict)
    bars: Bars = field(default_factory=Bars)
    barred: Mapping[Key, Mapping[int, Count]] = field(default_factory=dict, compare=False)
    older: Mapping[Key, Gone] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        return bool(self.shards or self.bars.begun)

    def of(self, origin: str, shard: int) -> Gone:
        """What one shard lost, hours and all; zeros where nothing was forgotten."""
        return _added(self.shards.get((origin, shard), _NONE), self.older.get((origin, shard), _NONE))

    def barred_of(self, origin: str, shard: int) -> Mapping[int, Count]:
        """Of one shard what is barred, by receive hour."""
        return self.barred.get((origin, shard), {})

    def hours(self, origin: str) -> IntervalSet:
        """Receive hours of which rows of `origin` were forgotten, and which cannot be landed again."""
        both = (*self.shards.items(), *self.older.items())
        return IntervalSet.of(p for (name, _), gone in both if name == origin for p in gone.hours)

    def before(self, origin: str) -> int:
        """All receive hours of `origin` before this one are forgotten, rows or none; 0: no such hour."""
        return max((gone.before for (name, _), gone in self.shards.items() if name == origin), default=0)

    def plus(self, origin: str, shard: int, more: Gone) -> "Forgotten":
        """With `more` of one shard."""
        key = origin, shard
        return replace(self, shards={**self.shards, key: _added(self.shards.get(key, _NONE), more)})

    def all_before(self, origin: str, shards: Iterable[int], hour: int) -> "Forgotten":
        """With all receive hours of `origin` before `hour`, those without rows too, kept with `shards`."""
        found = self
        for shard in shards:
            found = found.plus(origin, shard, Gone(0, 0, IntervalSet.of([(0, hour)]), hour))
        return found.closed(origin, range(hour))

    def closed(self, origin: str, hours: Container[int]) -> "Forgotten":
        """With what is barred of these hours removed for good: nothing of them lands again."""
        found = self
        for (name, shard), barred in self.barred.items():
            for hour in barred if name == origin else ():
                if hour in hours:
                    found = found.plus(name, shard, Gone(*barred[hour], IntervalSet.of([(hour, hour + 1)])))
        return found.without_barred(origin, hours)

    def lacks(self, origin: str, hour: int) -> bool:
        """Whether rows of a receive hour were removed for good, or are kept out."""
        barred = (of for (name, _), of in self.barred.items() if name == origin)
        return self.hours(origin).overlaps(hour, hour + 1) or any(hour in of for of in barred)

    def plus_barred(self, origin: str, shard: int, hour: int, more: Count) -> "Forgotten":
        """With rows of a receive hour of one shard that may not land."""
        if not more[0]:
            return self
        hours = self.barred_of(origin, shard)
        now = {**hours, hour: summed([hours.get(hour, (0, 0)), more])}
        return replace(self, barred={**self.barred, (origin, shard): now})

    def landed(self, origin: str, windows: Iterable[Landed]) -> "Forgotten":
        """With what was left out of these windows."""
        found = self
        for each in windows:
            found = found.plus_barred(origin, each.window.shard, each.window.hour, each.barred)
        return found.bounded()

    def without_barred(
        self, origin: str, hours: Container[int] | None = None, shards: Iterable[int] | None = None
    ) -> "Forgotten":
        """Without what is barred of these hours of these shards, or of all: their cursors are not landed any
        more."""
        gone = None if shards is None else frozenset(shards)

        def left(key: Key, of: Mapping[int, Count]) -> Mapping[int, Count]:
            if key[0] != origin or (gone is not None and key[1] not in gone):
                return of
            return {hour: count for hour, count in of.items() if hours is not None and hour not in hours}

        kept = {key: stays for key, of in self.barred.items() if (stays := left(key, of))}
        older = {key: of for key, of in self.older.items() if hours is not None or key[0] != origin}
        return replace(self, barred=kept, older=older)

    def counting(self, other: "Forgotten", origin: str | None = None) -> "Forgotten":
        """The same decisions with what another landing says is barred, of one origin or of all."""
        if origin is None:
            return replace(self, barred=other.barred, older=other.older)
        mine = self.without_barred(origin)
        barred = {key: of for key, of in other.barred.items() if key[0] == origin}
        older = {key: of for key, of in other.older.items() if key[0] == origin}
        return replace(mine, barred={**mine.barred, **barred}, older={**mine.older, **older})

    def bounded(self) -> "Forgotten":
        """With at most `BARRED_MAX` hours of shards one by one: the oldest are only summed up."""
        every = sorted((hour, key) for key, of in self.barred.items() for hour in of)
        if len(every) <= BARRED_MAX:
            return self
        barred, older = {key: dict(of) for key, of in self.barred.items()}, dict(self.older)
        for hour, key in every[:-BARRED_MAX]:
            gone = Gone(*barred[key].pop(hour), IntervalSet.of([(hour, hour + 1)]))
            older[key] = _added(older.get(key, _NONE), gone)
        return replace(self, barred={key: of for key, of in barred.items() if of}, older=older)
