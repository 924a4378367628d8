"""What the service said of a shard, and what a run makes of it: a plan, with one ledger change."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sls_io.planning.doubts import Second
from sls_io.planning.waits import Wait
from sls_io.values.claim import Gap
from sls_io.values.shard import Head
from sls_io.values.window import Cursor, Window


@dataclass(frozen=True, slots=True)
class Edge:
    """The first group received at or after `time_s` (unix seconds) is at `cursor`."""

    time_s: int
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Span:
    """Unread cursors [begin, end) of one shard, all received within `hour` (since 1970)."""

    hour: int
    begin: Cursor
    end: Cursor


@dataclass(frozen=True, slots=True)
class Again:
    """A part of a gap that can be read, and its receive hours (since 1970); `early`: it lies before a start
    that was told; `owed`: a person skipped it."""

    begin: Cursor
    end: Cursor
    hours: range
    early: bool = False
    owed: bool = False


@dataclass(frozen=True, slots=True)
class Survey:
    """What the service said of one shard for this run.

    head       its status and ends, or None when GetCursor says that there is no such shard
    spans      the unread part up to `until`, hour by hour, in order, as far as it was looked at
    marks      times and the cursors they resolved to: reaching the cursor means reaching the time
    cut        it is older than the service keeps logs and was never seen: its beginning may be gone
    listed     whether ListShards has it
    gone       what a second kind of answer says of data that is gone: with `head` None of the shard, else
               of what lies between frontier and begin cursor
    explained  that data is older than the service keeps logs
    over       what a second kind of answer says of the end and the status of a read-only shard
    opened     the ledger calls it closed and the service shows more of it
    doubt      answers that contradict each other: the shard is left alone
    readable   parts of its gaps that can be read again, and what lies before a start that was told
    anew       where its history begins after all: the ledger's start was wrong, nothing landed from there
    trouble    why the service could not be asked now: the shard waits, and nothing is known of it
    """

    shard: int
    head: Head | None
    spans: tuple[Span, ...] = ()
    marks: tuple[Edge, ...] = ()
    cut: bool = False
    listed: bool = True
    gone: Second = Second.NONE
    explained: bool = False
    over: Second = Second.NONE
    opened: bool = False
    doubt: str = ""
    readable: tuple[Again, ...] = ()
    anew: Cursor | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A change of what the ledger suspects of a shard at this frontier: from `seen_s` to `now_s`. What is
    decided by it holds only while the ledger still says `seen_s`."""

    frontier: Cursor
    seen_s: int
    now_s: int


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window to write; its end is an upper bound.

    Windows of one `chain` are written one after the other by one task, and share its `bytes_max` of
    raw bytes: when those are used up, the rest of the chain is not pulled at all.
    """

    window: Window
    bytes_max: int
    chain: int = 0


@dataclass(frozen=True, slots=True)
class LedgerChange:
    """What a plan changes in a ledger beside the windows it lands, by shard.

    Drafted shard by shard, it travels as it is: plan, delta, `merge`. Each part says what the ledger must
    still say for it to apply, so that a change planned on an older ledger does no harm to a newer one.

    starts      first seen now, with where its history begins
    chosen      those of `starts` that a policy chose; the service told the others
    anew        begins elsewhere after all: the start that the ledger has, and the one that is right
    opened      closed, and the service shows more of it: the end it was closed at
    suspicions  what the ledger is to suspect of it
    gaps        what the service has no more
    closings    drained and read-only: its end
    marks       times and cursors as in `Survey`
    lineage     the parents that must be closed before a window of the shard may land; in a group that
                keeps no order only those that may be hidden (`gone.passed_over`)
    """

    starts: dict[int, Cursor] = field(default_factory=dict)
    chosen: frozenset[int] = frozenset()
    anew: dict[int, tuple[Cursor, Cursor]] = field(default_factory=dict)
    opened: dict[int, Cursor] = field(default_factory=dict)
    suspicions: dict[int, Suspicion] = field(default_factory=dict)
    gaps: dict[int, tuple[Gap, ...]] = field(default_factory=dict)
    closings: dict[int, Cursor] = field(default_factory=dict)
    marks: dict[int, tuple[Edge, ...]] = field(default_factory=dict)
    lineage: dict[int, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything one landing needs to know, decided before any log is pulled.

    `waits` says for each shard without a window what it waits for; `suspects` what is in doubt, a sentence a
    shard; `readable` is as in `Survey`.
    """

    origin: str
    live: bool
    until_s: int
    windows: tuple[PlannedWindow, ...] = ()
    change: LedgerChange = field(default_factory=LedgerChange)
    waits: Mapping[int, Wait] = field(default_factory=dict)
    suspects: Mapping[int, str] = field(default_factory=dict)
    readable: Mapping[int, tuple[Again, ...]] = field(default_factory=dict)

    @property
    def hours(self) -> tuple[int, ...]:
        """The receive hours the windows lie in, ascending."""
        return tuple(sorted({p.window.hour for p in self.windows}))
