"""What a run holds and what the table has: plain values that planning and landing share.

`Ledger` is read from the table and never from a checkpoint; see `pipelines/landing/ledger/codec.py`
for how it travels in a commit. Nothing here does I/O.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sls_io.values.window import Cursor, IntervalSet

SUM_MODULUS = 2**64
"""Identity sums are kept modulo this: the hash of a log is a number of 64 bits."""
GAP_EXPIRED = "expired"
GAP_SHARD_GONE = "shard_gone"
GAP_SKIPPED = "skipped"
CURSOR_UNKNOWN = Cursor(2**63 - 1)
"""End of a gap in a shard that retention removed: nobody can say where it ended."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to read `shards` until `until_s` of the monotonic clock; `holder` has it."""

    holder: str
    shards: frozenset[int]
    until_s: float = float("inf")

    def valid(self, monotonic_s: float) -> bool:
        """Whether the claim still stands by our own clock."""
        return monotonic_s < self.until_s


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """[begin, end) of a shard that the service says it has no more, or that a person skipped. `cause` is
    `expired`, `shard_gone` or `skipped`.

    No live run waits for it. Should the service show it again, a fill lands it and the gap shrinks.
    """

    begin: Cursor
    end: Cursor
    cause: str


@dataclass(frozen=True, slots=True)
class ShardLedger:
    """What the table knows of one shard.

    start      cursor at which this shard's history in the table begins
    landed     cursor intervals whose rows are in the table
    gaps       intervals that the service has no more, or that were skipped, with cause
    withdrawn  intervals taken back by undo
    end        end cursor once the shard is closed (read-only and drained), else None
    reached_s  receive time, unix seconds, up to which the shard is known to be drained
    rows, sum  rows in the table and the sum mod 2**64 of their identity hashes
    suspect_s  service time, unix seconds, since when the service says by two kinds of answers that what
               lies behind the frontier is gone; 0: it does not. Nothing is given up by it yet
    told       nobody chose the start: it is where the service said that the oldest log lies. A log that it
               shows before it proves that this was wrong
    """

    start: Cursor
    landed: IntervalSet = IntervalSet()
    gaps: tuple[Gap, ...] = ()
    withdrawn: IntervalSet = IntervalSet()
    end: Cursor | None = None
    reached_s: int = 0
    rows: int = 0
    sum: int = 0
    suspect_s: int = 0
    told: bool = False

    @property
    def accounted(self) -> IntervalSet:
        """Landed, gap or withdrawn: nothing of it is planned by a live run."""
        return self.landed.union((g.begin, g.end) for g in self.gaps).union(self.withdrawn)

    @property
    def frontier(self) -> Cursor:
        """From `start`, the end of the unbroken run of landed, gap and withdrawn.

        Here a live run goes on, and up to here a checkpoint may be published: all before it is landed, gone,
        skipped or taken back. What lies behind a hole does not count.

        Worked example: start 10, landed [10, 20) and [30, 40), a gap [20, 25): the frontier is 25. Once a
        fill lands [25, 30) it is 40, without anything being read again.
        """
        return self.accounted.run_end(self.start)

    @property
    def closed(self) -> bool:
        """Read-only, drained to its end, and said so by a landing."""
        return self.end is not None

    def counting(self, rows: int, total: int) -> "ShardLedger":
        """With so many rows more, of the identity sum `total`; fewer where they are negative."""
        return replace(self, rows=self.rows + rows, sum=(self.sum + total) % SUM_MODULUS)

    def opened_again(self) -> "ShardLedger":
        """This entry, closed once, without its end, and without the gap that stood for its removal.

        The gap is found by its cause, not by its unknown end: a fill may have landed hours in its middle
        meanwhile, and what is left of it before them is as readable as what is left after them.
        """
        gaps = tuple(g for g in self.gaps if g.cause != GAP_SHARD_GONE)
        return replace(self, end=None, gaps=gaps, suspect_s=0)

    def begun_anew(self, start: Cursor) -> "ShardLedger":
        """This entry, of which nothing has landed from its start, as one that begins at `start`, below it.
        What was reached was reached from the wrong start, so nothing is.

        Worked example: the start was 500, and the shard was older than retention, so [0, 500) was named a
        gap. It really begins at 300: the gap becomes [0, 300), and [300, 500) is landed like all that is new.
        """
        gaps = tuple(replace(g, end=min(g.end, start)) for g in self.gaps if g.begin < start)
        return replace(self, start=start, gaps=gaps, reached_s=0, suspect_s=0)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Per shard what has landed, for one origin. An empty `shards` means: no first start yet."""

    origin: str
    shards: Mapping[int, ShardLedger] = field(default_factory=dict)

    @property
    def started(self) -> bool:
        """Whether a first start has been landed."""
        return bool(self.shards)

    def shard(self, shard: int, *, begin: Cursor) -> ShardLedger:
        """The shard's entry; a shard never seen before is a child and starts at its `begin`."""
        return self.shards.get(shard) or ShardLedger(start=begin)

    def with_shards(self, changed: Mapping[int, ShardLedger]) -> "Ledger":
        """A copy with these entries replaced or added."""
        return replace(self, shards={**self.shards, **changed})

    def closed(self, shards: Iterable[int]) -> bool:
        """Whether all these shards are closed here."""
        return all(s in self.shards and self.shards[s].closed for s in shards)
