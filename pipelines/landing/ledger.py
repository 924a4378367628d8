"""The ledger: read from the table, checked, and carried back in the summary of a commit.

One tag, `sls-lake`, sits on the snapshot of the newest landing. That snapshot's summary holds

    sls-lake.attempt            id of the attempt that made it
    sls-lake.windows            what this landing brought, with rows and flags
    sls-lake.ledger.<origin>    for every origin of the table: per shard start, landed, gaps,
                                withdrawn, end, receive time reached, rows, identity sum
    sls-lake.adopted            rows that were there before a ledger began: counted, never proven; and
                                how many were missing by then
    sls-lake.forgotten          rows that left by a decision and must not come again
    sls-lake.verb               what was done, where no landing made the snapshot: `rollback 123`
    sls-lake.rewritten          rows of files that this snapshot wrote anew, without landing any

Text, version 1: version, number of shards, shards, joined by ";", fields by ":", numbers in base 36.
A shard is
`id:start:landed:gaps:withdrawn:end:reached:rows:sum`; intervals are `begin-end` joined by ",",
`begin` left out where it equals the shard's start. A `+` before the start says that nobody chose it: the
service told it, and is asked again. Releases that do not know the `+` read the same number. 256 shards take
about 13 KB. Version 2, written only
while a shard is suspected to be gone, has one more field: since when, unix seconds of the service, or
empty. A release that does not know it refuses the table and says so: it would forget the suspicion.

`merge` is the fence of a landing, as values: what a landing brings is accepted only when no window
overlaps what has landed, each live window begins at its shard's frontier, and parents are closed
before children. It is computed against the exact table state the commit then requires.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sls_io.claim import Gap, Ledger, ShardLedger
from sls_io.errors import Breach, LedgerBroken
from sls_io.planning import GAP_EXPIRED, GAP_SHARD_GONE, Edge, Suspicion, opened
from sls_io.window import Cursor, IntervalSet, Window

TAG = "sls-lake"
ATTEMPT_KEY = "sls-lake.attempt"
WINDOWS_KEY = "sls-lake.windows"
LEDGER_PREFIX = "sls-lake.ledger."
ADOPTED_KEY = "sls-lake.adopted"
FORGOTTEN_KEY = "sls-lake.forgotten"
VERB_KEY = "sls-lake.verb"
REWRITTEN_KEY = "sls-lake.rewritten"
ORIGIN_PROPERTY_PREFIX = "sls-lake.origin."
VERSION = "1"
_SUSPECTS = "2"
"""Version of the text of a ledger in which a shard is suspected to be gone; 1 where none is."""
_ADOPTED_MISSING = "2"
"""Version of the text of adopted rows that also says how many were missing; 1 where none were."""

ADOPT = "sls-lake table adopt"
"""The verb that settles what no ledger explains."""
_UPGRADE = "upgrade sls-lake to the release that wrote the table"

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_TOLD = "+"
_CAUSES = {GAP_EXPIRED: "x", GAP_SHARD_GONE: "g"}
_CAUSE_OF = {letter: cause for cause, letter in _CAUSES.items()}
_SUM_MODULUS = 2**64


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
    """What one landing changes in the ledger of its origin. `chosen` are those of `starts` that a policy
    chose; the service told the others."""

    origin: str
    live: bool
    windows: tuple[Landed, ...] = ()
    starts: Mapping[int, Cursor] = field(default_factory=dict)
    gaps: Mapping[int, tuple[Gap, ...]] = field(default_factory=dict)
    closings: Mapping[int, Cursor] = field(default_factory=dict)
    marks: Mapping[int, tuple[Edge, ...]] = field(default_factory=dict)
    lineage: Mapping[int, frozenset[int]] = field(default_factory=dict)
    first: bool = False
    opened: Mapping[int, Cursor] = field(default_factory=dict)
    suspicions: Mapping[int, Suspicion] = field(default_factory=dict)
    chosen: frozenset[int] = frozenset()
    anew: Mapping[int, tuple[Cursor, Cursor]] = field(default_factory=dict)


class Operation(StrEnum):
    """What makes a snapshot with a ledger where no landing does. OTHER: unknown to this release."""

    ADOPT = "adopt"
    COMPACT = "compact"
    ERRORS = "errors"
    FORGET = "forget"
    GIVE_UP = "give-up"
    MANIFESTS = "manifests"
    REFRESH = "refresh"
    RELABEL = "relabel"
    REPAIR_MANIFESTS = "repair-manifests"
    REPLACE = "replace"
    ROLLBACK = "rollback"
    UNDO = "undo"
    OTHER = ""


_OPERATIONS = frozenset(Operation) - {Operation.OTHER}


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
            (old.sum + more.sum) % _SUM_MODULUS,
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


@dataclass(frozen=True, slots=True)
class Merged:
    """The ledger after a delta, which of its windows are in it, and which lost to another landing."""

    ledger: Ledger
    accepted: tuple[Landed, ...]
    lost: tuple[Landed, ...]


def merge(ledger: Ledger, delta: Delta) -> Merged:
    """Apply `delta` to `ledger`, window by window, refusing what another landing was first with.

    A refused live window takes the later windows of its shard with it, since they no longer begin
    at the frontier. Closings and marks apply only where the frontier really is where they say.
    """
    shards = dict(ledger.shards)
    for shard, start in delta.starts.items():
        shards.setdefault(shard, ShardLedger(start=start, told=shard not in delta.chosen))
    for shard, (seen, start) in delta.anew.items():
        entry = shards.get(shard)
        # Landed from the old start meanwhile, it keeps it: what lies before is a fill's then.
        if entry is not None and not entry.closed and entry.start == entry.frontier == seen:
            shards[shard] = entry.begun_anew(start)
    for shard, end in delta.opened.items():
        entry = shards.get(shard)
        # Closed at another end, it was opened by somebody else meanwhile and has been looked at since.
        if entry is not None and entry.end == end:
            shards[shard] = opened(entry)
    stale = _suspected(shards, delta.suspicions)
    for shard, gaps in delta.gaps.items():
        entry = shards.get(shard)
        # Since this was planned a person took the shard out of the ledger, or another run drained and
        # closed it: nothing of it is missing any more.
        if entry is None or entry.closed or shard in stale:
            continue
        kept = [g for gap in gaps for g in _trim(gap, entry.settled)]
        shards[shard] = replace(entry, gaps=tuple(sorted({*entry.gaps, *kept})))
    accepted: list[Landed] = []
    lost: list[Landed] = []
    for landed in sorted(delta.windows, key=lambda x: x.window):
        shard = landed.window.shard
        if _fits(shards.get(shard), landed.window, delta, ledger):
            shards[shard] = _with_window(shards[shard], landed)
            accepted.append(landed)
        else:
            lost.append(landed)
    for shard, end in delta.closings.items():
        entry = shards.get(shard)
        if entry is not None and entry.frontier >= end and not entry.closed:
            shards[shard] = replace(entry, end=end, suspect_s=0)
    for shard, marks in delta.marks.items():
        if shard in shards:
            shards[shard] = _with_marks(shards[shard], marks)
    return Merged(Ledger(ledger.origin, shards), tuple(accepted), tuple(lost))


def _suspected(shards: dict[int, ShardLedger], suspicions: Mapping[int, Suspicion]) -> set[int]:
    """Apply what the landing suspects of shards; those of which the ledger says something else by now.

    Story: A is told that a shard is gone, as it was told a run ago, and plans its gap. B is told better,
    takes the suspicion back, perhaps lands a window. A's try is refused; merged into the new ledger, its
    gap would cover what B has just seen. What A's proof began with is no longer there, so it is dropped.
    """
    stale = set()
    for shard, found in suspicions.items():
        entry = shards.get(shard)
        known = None if entry is None or entry.closed else (entry.frontier, entry.suspect_s)
        if entry is not None and known == (found.frontier, found.seen_s):
            shards[shard] = replace(entry, suspect_s=found.now_s)
        else:
            stale.add(shard)
    return stale


def lowered(then: Mapping[str, Ledger], now: Mapping[str, Ledger]) -> dict[str, Ledger]:
    """The ledgers `then`, and of every shard that only `now` knows its start and what was lost before.

    For a table that went back: forgotten, such a shard would begin wherever retention is by then.
    """
    result: dict[str, Ledger] = {}
    for origin in sorted({*then, *now}):
        before = then.get(origin) or Ledger(origin)
        later = now[origin].shards if origin in now else {}
        news = {
            s: ShardLedger(e.start, gaps=tuple(g for g in e.gaps if g.end <= e.start), told=e.told)
            for s, e in later.items()
            if s not in before.shards
        }
        result[origin] = before.with_shards(news)
    return result


def withdrawn(entry: ShardLedger, taken: IntervalSet, *, rows: int, total: int) -> ShardLedger:
    """`entry` after `rows` rows of the identity sum `total` left, all that is landed of `taken`.

    What leaves counts as withdrawn: the frontier stays, no live run lands it again.
    """
    left = entry.landed.minus(entry.landed.minus(taken))
    return replace(
        entry,
        landed=entry.landed.minus(left),
        withdrawn=entry.withdrawn.union(left),
        rows=entry.rows - rows,
        sum=(entry.sum - total) % _SUM_MODULUS,
    )


def _fits(entry: ShardLedger | None, window: Window, delta: Delta, base: Ledger) -> bool:
    if entry is None or entry.landed.overlaps(window.begin, window.end):
        return False
    if not delta.live:
        # A gap is what the service once said it had no more. A fill brings what it shows again: it was
        # pulled, so it is there, and the gap shrinks by it. No frontier moves: both are settled.
        return True
    if any(g.begin < window.end and window.begin < g.end for g in entry.gaps):
        return False
    # A: plans a live window up to the end. B: fills a part of it and takes that back (withdrawn).
    # Only a backfill that names the hours may land it again, so A's window is refused.
    if entry.withdrawn.overlaps(window.begin, window.end):
        return False
    # A: plans a child's window while its parent has data left. B: lands it first, out of order.
    # The parents are looked up in the base that this commit requires, so B is refused here.
    needed = delta.lineage.get(window.shard, frozenset())
    return window.begin == entry.frontier and base.closed(needed)


def _with_window(entry: ShardLedger, landed: Landed) -> ShardLedger:
    pair = (int(landed.window.begin), int(landed.window.end))
    return replace(
        entry,
        landed=entry.landed.union([pair]),
        gaps=tuple(g for gap in entry.gaps for g in _trim(gap, IntervalSet.of([pair]))),
        withdrawn=entry.withdrawn.minus(IntervalSet.of([pair])),
        rows=entry.rows + landed.rows,
        sum=(entry.sum + landed.sum) % _SUM_MODULUS,
    )


def _with_marks(entry: ShardLedger, marks: Iterable[Edge]) -> ShardLedger:
    reached = max((m.time_s for m in marks if m.cursor <= entry.frontier), default=0)
    return replace(entry, reached_s=max(entry.reached_s, reached))


def _trim(gap: Gap, settled: IntervalSet) -> list[Gap]:
    rest = IntervalSet.of([(gap.begin, gap.end)]).minus(settled)
    return [Gap(Cursor(b), Cursor(e), gap.cause) for b, e in rest]


def encode(ledger: Ledger) -> str:
    """The ledger of one origin as the text of its summary property."""
    suspects = any(e.suspect_s for e in ledger.shards.values())
    shards = [
        _encode_shard(s, e) + (f":{_base36(e.suspect_s) if e.suspect_s else ''}" if suspects else "")
        for s, e in sorted(ledger.shards.items())
    ]
    return ";".join([_SUSPECTS if suspects else VERSION, _base36(len(shards)), *shards])


def decode(origin: str, text: str) -> Ledger:
    """The ledger in a summary property. Raises LedgerBroken for text of another version or shape."""
    version, _, body = text.partition(";")
    if version not in (VERSION, _SUSPECTS):
        raise LedgerBroken(
            f"the ledger of {origin} has version {version[:8]!r}, this release reads {VERSION} and "
            f"{_SUSPECTS}",
            verb=_UPGRADE,
        )
    try:
        count, *parts = body.split(";")
        # Counted, because a text that was cut between two shards would read as a smaller ledger.
        if int(count, 36) != len(parts):
            raise ValueError(count)
        if version == VERSION:
            return Ledger(origin, dict(_decode_shard(part) for part in parts))
        return Ledger(origin, dict(_decode_suspect(part) for part in parts))
    except (ValueError, KeyError, IndexError) as error:
        raise _damaged(f"the ledger of {origin}") from error


def decode_deed(text: str) -> Deed | None:
    """What `sls-lake.verb` says, the inverse of a deed's `str`; None for an absent text, which a landing
    has. Whatever is not understood is the words of another operation, and never an error."""
    word, _, about = text.partition(" ")
    if word not in _OPERATIONS:
        return Deed(Operation.OTHER, text) if text else None
    operation = Operation(word)
    if operation is not Operation.ROLLBACK:
        return Deed(operation, about)
    known = about.isascii() and about.isdecimal()
    return Deed(operation, snapshot=int(about)) if known else Deed(Operation.OTHER, text)


def _damaged(what: str) -> LedgerBroken:
    return LedgerBroken(f"{what} cannot be read: its text is damaged", verb=ADOPT, kind=Breach.DAMAGED)


def _body(text: str, rows: str, *versions: str) -> str:
    version, _, body = text.partition(";")
    if version not in (VERSION, *versions):
        raise LedgerBroken(
            f"the {rows} rows have version {version[:8]!r}, this release reads "
            f"{' and '.join((VERSION, *versions))}",
            verb=_UPGRADE,
        )
    return body


def encode_adopted(adopted: Adopted) -> str:
    """`1;others;origin:shard:rows:sum;...` for `sls-lake.adopted`, or, where rows were missing,
    `2;others;origin:shard:rows:sum:missing;...`; empty when nothing was adopted."""
    lost = {key: rows for key, rows in adopted.missing.items() if rows}
    if not adopted.rows and not lost:
        return ""
    parts = [_ADOPTED_MISSING if lost else VERSION, _base36(adopted.others)]
    for origin, shard in sorted({*adopted.shards, *lost}):
        numbers = [shard, *adopted.of(origin, shard), *([lost.get((origin, shard), 0)] if lost else [])]
        parts.append(":".join([origin, *map(_base36, numbers)]))
    return ";".join(parts)


def decode_adopted(text: str) -> Adopted:
    """The inverse; an absent text means that nothing was adopted. Raises LedgerBroken as `decode`."""
    if not text:
        return Adopted()
    body = _body(text, "adopted", _ADOPTED_MISSING)
    fields = 3 if text.startswith(VERSION) else 4
    try:
        others, *parts = body.split(";")
        shards: dict[tuple[str, int], tuple[int, int]] = {}
        missing: dict[tuple[str, int], int] = {}
        for part in parts:
            origin, *numbers = part.rsplit(":", fields)
            if len(numbers) != fields:
                raise ValueError(part)
            shard, rows, total, *lost = (int(n, 36) for n in numbers)
            if rows:
                shards[origin, shard] = rows, total
            if any(lost):
                missing[origin, shard] = lost[0]
        return Adopted(shards, int(others, 36), missing)
    except ValueError as error:
        raise _damaged("the count of adopted rows") from error


def encode_forgotten(forgotten: Forgotten) -> str:
    """`1;origin:shard:rows:sum:hours;...` for `sls-lake.forgotten`; hours are `begin-end` joined by
    ",", and `-end` for all before one. Empty when nothing was forgotten."""
    if not forgotten.shards:
        return ""
    parts = [VERSION]
    for (origin, shard), gone in sorted(forgotten.shards.items()):
        single = gone.hours.minus(IntervalSet.of([(0, gone.before)]))
        # A release that does not know `before` reads the same hours.
        before = [f"-{_base36(gone.before)}"] if gone.before else []
        hours = ",".join([*before, *(f"{_base36(b)}-{_base36(e)}" for b, e in single)])
        parts.append(":".join([origin, *(_base36(n) for n in (shard, gone.rows, gone.sum)), hours]))
    return ";".join(parts)


def decode_forgotten(text: str) -> Forgotten:
    """The inverse; an absent text means that nothing was. Raises LedgerBroken as `decode`."""
    if not text:
        return Forgotten()
    body = _body(text, "forgotten")
    try:
        shards: dict[tuple[str, int], Gone] = {}
        for part in body.split(";"):
            origin, shard, rows, total, hours = part.rsplit(":", 4)
            texts = [p for p in hours.split(",") if p]
            pairs = IntervalSet.of(_pair(0, p) for p in texts)
            before = max((_pair(0, p)[1] for p in texts if p.startswith("-")), default=0)
            shards[origin, int(shard, 36)] = Gone(int(rows, 36), int(total, 36), pairs, before)
        return Forgotten(shards)
    except ValueError as error:
        raise _damaged("the count of forgotten rows") from error


def encode_windows(origin: str, windows: Iterable[Landed]) -> str:
    """`1;origin;shard:begin:end:hour:rows:bytes:flags;...` for `sls-lake.windows`."""
    parts = [VERSION, origin]
    for x in windows:
        w = x.window
        numbers = (w.shard, w.begin, w.end, w.hour, x.rows, x.raw_bytes)
        parts.append(":".join([*(_base36(n) for n in numbers), x.flags]))
    return ";".join(parts)


def decode_windows(text: str) -> tuple[str, tuple[Landed, ...]]:
    """(origin, windows) of a landing; sums are not in it. An empty text is no landing of ours."""
    parts = text.split(";")
    if len(parts) < 2 or parts[0] != VERSION:
        return "", ()
    windows = []
    for part in parts[2:]:
        *numbers, flags = part.split(":")
        shard, begin, end, hour, rows, raw_bytes = (int(n, 36) for n in numbers)
        windows.append(Landed(Window(shard, Cursor(begin), Cursor(end), hour), rows, 0, raw_bytes, flags))
    return parts[1], tuple(windows)


def _encode_shard(shard: int, entry: ShardLedger) -> str:
    start = int(entry.start)
    gaps = ",".join(f"{_interval(start, (g.begin, g.end))}{_CAUSES[g.cause].upper()}" for g in entry.gaps)
    parts = (
        _base36(shard),
        f"{_TOLD if entry.told else ''}{_base36(start)}",
        ",".join(_interval(start, p) for p in entry.landed),
        gaps,
        ",".join(_interval(start, p) for p in entry.withdrawn),
        "" if entry.end is None else _base36(entry.end),
        _base36(entry.reached_s),
        _base36(entry.rows),
        _base36(entry.sum),
    )
    return ":".join(parts)


def _decode_shard(text: str) -> tuple[int, ShardLedger]:
    shard, start_text, landed, gaps, withdrawn, end, reached, rows, total = text.split(":")
    start = int(start_text, 36)
    return int(shard, 36), ShardLedger(
        start=Cursor(start),
        landed=IntervalSet.of(_pair(start, p) for p in landed.split(",") if p),
        gaps=tuple(_gap(start, p) for p in gaps.split(",") if p),
        withdrawn=IntervalSet.of(_pair(start, p) for p in withdrawn.split(",") if p),
        end=Cursor(int(end, 36)) if end else None,
        reached_s=int(reached, 36),
        rows=int(rows, 36),
        sum=int(total, 36),
        told=start_text.startswith(_TOLD),
    )


def _decode_suspect(text: str) -> tuple[int, ShardLedger]:
    rest, _, since = text.rpartition(":")
    shard, entry = _decode_shard(rest)
    return shard, replace(entry, suspect_s=int(since, 36) if since else 0)


def _interval(start: int, pair: tuple[int, int]) -> str:
    begin = "" if pair[0] == start else _base36(pair[0])
    return f"{begin}-{_base36(pair[1])}"


def _pair(start: int, text: str) -> tuple[int, int]:
    begin, end = text.split("-")
    return (int(begin, 36) if begin else start), int(end, 36)


def _gap(start: int, text: str) -> Gap:
    begin, end = _pair(start, text[:-1])
    return Gap(Cursor(begin), Cursor(end), _CAUSE_OF[text[-1].lower()])


def _base36(value: int) -> str:
    if value < 36:
        return _DIGITS[value]
    digits = []
    while value:
        value, rest = divmod(value, 36)
        digits.append(_DIGITS[rest])
    return "".join(reversed(digits))
