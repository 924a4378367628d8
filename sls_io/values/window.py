"""Cursors, windows and sets of cursor intervals.

Invariants:
- a cursor is an integer; on the wire it is the padded base64 of its decimal text. As texts
  "99" sorts after "100", so only the integers are ever compared;
- cursors are compared, never subtracted: the service may jump between groups;
- a window is half-open [begin, end), of one shard, inside one receive hour, begin < end;
- an `IntervalSet` is sorted, its intervals are disjoint and never touch (touching ones merge).

Source of the encoding: decodeCursor in the vendor's Go SDK, checked against the Python SDK.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NewType

from sls_io.values.errors import ConfigError, InvariantBroken

Cursor = NewType("Cursor", int)

HOUR_S = 3600


def cursor_to_wire(cursor: int) -> str:
    """Padded base64 of the decimal text: the vendor's decoders reject unpadded text."""
    return base64.b64encode(str(cursor).encode("ascii")).decode("ascii")


def cursor_from_wire(text: str) -> Cursor:
    """The integer inside. Raises ConfigError for text that is no cursor."""
    try:
        digits = base64.b64decode(text, validate=True)
        # int() alone also takes signs, spaces and underscores: two texts would be one cursor.
        if digits.isdigit() and (cursor := int(digits)) < 2**63:
            return Cursor(cursor)
    except (binascii.Error, ValueError):
        pass
    raise ConfigError("not a cursor: expected padded base64 of a decimal number, as the service prints it")


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """Half-open [begin, end) of one shard within one receive hour.

    `hour` counts hours since 1970-01-01 00:00 UTC.
    """

    shard: int
    begin: Cursor
    end: Cursor
    hour: int

    def __post_init__(self) -> None:
        if self.begin >= self.end:
            raise InvariantBroken(f"window of shard {self.shard}: {self.begin} is not before {self.end}")

    def id(self, origin: str) -> str:
        """The same 16 hex digits for the same cursors, whoever lands them.

        Hour and holder are no part of it: who lands the same cursors lands the same window.
        """
        text = f"{origin}/{self.shard}/{self.begin}/{self.end}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """An immutable set of half-open cursor intervals: sorted, disjoint, never touching.

    That intervals never touch is what `run_end` lives on: one look finds the whole run. Were [0, 5) and
    [5, 9) kept apart, the run from 0 would end at 5, and a frontier would stand still in front of rows that
    are there.
    """

    pairs: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(intervals: Iterable[tuple[int, int]]) -> "IntervalSet":
        """The union of `intervals`; empty ones vanish, touching ones merge."""
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(p for p in intervals if p[0] < p[1]):
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return IntervalSet(tuple(merged))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.pairs)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def union(self, other: Iterable[tuple[int, int]]) -> "IntervalSet":
        """All cursors that are in either."""
        return IntervalSet.of((*self.pairs, *other))

    def minus(self, other: "IntervalSet") -> "IntervalSet":
        """The cursors of this set that are not in `other`.

        One pass over `other` is enough: it is sorted, so `at`, the first cursor that nothing has cut yet,
        only rises.

        Worked example: [0, 10) without {[2, 4), [6, 12)} is {[0, 2), [4, 6)}.
        """
        kept: list[tuple[int, int]] = []
        for begin, end in self.pairs:
            at = begin
            for cut_begin, cut_end in other.pairs:
                if cut_end <= at or cut_begin >= end:
                    continue
                if cut_begin > at:
                    kept.append((at, cut_begin))
                at = max(at, cut_end)
            if at < end:
                kept.append((at, end))
        return IntervalSet.of(kept)

    def within(self, begin: int, end: int) -> "IntervalSet":
        """The part inside [begin, end)."""
        return IntervalSet.of((max(b, begin), min(e, end)) for b, e in self.pairs)

    def overlaps(self, begin: int, end: int) -> bool:
        """Whether any cursor of [begin, end) is in the set."""
        return any(b < end and begin < e for b, e in self.pairs)

    def run_end(self, start: int) -> Cursor:
        """End of the unbroken run that contains `start`; `start` itself when it is not inside.

        Worked example: of {[10, 20), [30, 40)} the run from 10 ends at 20, the one from 15 at 20, too, and
        from 20 on there is none: 20 itself.
        """
        for begin, end in self.pairs:
            if begin <= start < end:
                return Cursor(end)
        return Cursor(start)
