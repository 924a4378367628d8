"""One shard of the emulator: where its LogGroups lie, by cursor and by receive second. Pure, no I/O.

A LogGroup is a few numbers in arrays, and a cursor is found by bisection: a shard of a million groups is
read as fast as one of ten. Cursors, jumps and seconds: head of `store.py`.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any

from sls_io.emulator.storage.refusal import invalid_cursor, parameter_invalid
from sls_io.values.shard import Shard

PAGE_BYTES_MAX = 10 * 1024 * 1024

Place = Any
Change = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """One page before its bytes are read: groups [first, first + count) by position.

    `next` is the next cursor, `last` the cursor of the last group (None when empty), `time_s` its
    receive second; `raw_bytes` counts the framed groups; `at_end` says nothing is behind `next`.
    """

    places: Sequence[Place]
    sizes: list[int]
    raw_bytes: int
    first: int | None
    last: int | None
    next: int
    time_s: int | None
    at_end: bool

    @property
    def count(self) -> int:
        return len(self.places)


class ShardLog:
    """One shard: its range and the index of its LogGroups, oldest first.

    Four arrays of one length: cursor, receive second, where each group ends in framed bytes, and its place.
    `ends` counts on: what retention took is `cut`, so sizes and sums are differences, and nothing is counted
    anew.
    """

    __slots__ = (
        "base", "begin_key", "closed_s", "created_s", "cursors", "cut", "end_key", "ends", "id", "next",
        "places", "times",
    )  # fmt: skip

    def __init__(
        self, id: int, begin_key: str, end_key: str, created_s: float, base: int, *, numbered: bool = False
    ) -> None:
        self.id, self.begin_key, self.end_key, self.created_s = id, begin_key, end_key, created_s
        self.closed_s: float | None = None
        self.base = base
        self.next = base
        self.cut = 0
        self.cursors = array("q")
        self.times = array("q")
        self.ends = array("q")
        self.places: MutableSequence[Place] = array("q") if numbered else []

    @property
    def readonly(self) -> bool:
        return self.closed_s is not None

    @property
    def begin(self) -> int:
        """Cursor of the oldest group, or of the next write."""
        return self.cursors[0] if self.cursors else self.next

    @property
    def raw_bytes(self) -> int:
        """Framed bytes kept."""
        return self.ends[-1] - self.cut if self.ends else 0

    def value(self) -> Shard:
        """As ListShards tells it."""
        return Shard(self.id, self.readonly, self.begin_key, self.end_key, int(self.created_s))

    def append(self, place: Place, size: int, now: float) -> int:
        """Add one LogGroup of `size` framed bytes; returns its cursor."""
        cursor = self.next
        self.restore(cursor, self.second(now), place, size)
        return cursor

    def second(self, now: float) -> int:
        """The receive second a write at `now` gets."""
        return max(int(now), self.times[-1]) if self.times else int(now)

    def restore(self, cursor: int, time_s: int, place: Place, size: int) -> None:
        """Add a LogGroup whose cursor and receive second are known."""
        self.ends.append((self.ends[-1] if self.ends else self.cut) + size)
        self.cursors.append(cursor)
        self.times.append(time_s)
        self.places.append(place)
        self.next = cursor + 1

    def at_time(self, second: int) -> int:
        """Cursor of the first group received at or after `second`, or of the next write.

        Worked example: groups 5 to 8 were received at 100, 100, 100 and 103. From 100 on is 5, from 101 on
        is 8, and so is from 103; from 104 on is 9, the next write. The third write came at 98, after
        somebody set the clock back, and has 100.
        """
        position = bisect_left(self.times, second)
        return self.cursors[position] if position < len(self.cursors) else self.next

    def time_of(self, cursor: int) -> int:
        """Receive second of the first group at or after `cursor`. InvalidCursor at the end."""
        self._check(cursor)
        position = bisect_left(self.cursors, cursor)
        if position == len(self.cursors):
            raise invalid_cursor()
        return self.times[position]

    def span(self, cursor: int, count: int, end: int | None, bytes_max: int = PAGE_BYTES_MAX) -> RecordSpan:
        """At most `count` groups from `cursor`, before `end`, within `bytes_max` but at least one.

        Worked example: cursors 5, 6, 7, 9, each of 4 MB, asked from 5 for ten: 10 MB have room for two, so 5
        and 6, and the next cursor is 7. From 7 on one alone is given, since 8 does not follow: next is 9.
        """
        self._check(cursor)
        if end is not None and end < cursor:
            raise parameter_invalid("end_cursor is before cursor")
        first = bisect_left(self.cursors, cursor)
        limit = len(self.cursors) if end is None else bisect_left(self.cursors, end)
        stop = min(limit, first + count)
        if stop > first:
            room = bisect_right(self.ends, self._before(first) + bytes_max, first, stop)
            stop = max(room, first + 1)
            stop = self._contiguous(first, stop)
        sizes = [self.ends[i] - self._before(i) for i in range(first, stop)]
        if stop < limit:
            following = self.cursors[stop]
        else:
            following = self.next if end is None else min(end, self.next)
        some = stop > first
        return RecordSpan(
            places=self.places[first:stop],
            sizes=sizes,
            raw_bytes=sum(sizes),
            first=self.cursors[first] if some else None,
            last=self.cursors[stop - 1] if some else None,
            next=max(following, cursor),
            time_s=self.times[stop - 1] if some else None,
            at_end=following >= self.next,
        )

    def trim(self, cursor: int) -> Sequence[Place]:
        """Forget the groups before `cursor`; returns their places.

        `cut` becomes the end of the last group that goes, before the arrays lose it.

        Worked example: groups 5 to 8 have 4, 6, 5 and 7 bytes, so `ends` is 4, 10, 15, 22. Trimmed before
        7: `ends` is 15, 22 and `cut` is 10; the sizes are still 5 and 7, and 12 bytes are kept. A million
        of them are trimmed without a sum.
        """
        gone = bisect_left(self.cursors, cursor)
        places = self.places[:gone]
        if gone:
            self.cut = self.ends[gone - 1]
            del self.cursors[:gone], self.times[:gone], self.ends[:gone], self.places[:gone]
        return places

    def entries(self) -> Iterator[tuple[int, int, Place, int]]:
        """(cursor, receive second, place, size) of each group kept now."""
        for i in range(len(self.cursors)):
            if i < len(self.cursors):
                yield self.cursors[i], self.times[i], self.places[i], self.ends[i] - self._before(i)

    def doc(self) -> Change:
        """What `Logstore.restore` needs of this shard, without its groups."""
        keys = ("id", "begin_key", "end_key", "created_s", "closed_s", "base", "begin", "next")
        return {key: getattr(self, key) for key in keys}

    def _before(self, position: int) -> int:
        return self.ends[position - 1] if position else self.cut

    def _contiguous(self, first: int, stop: int) -> int:
        """Up to where cursors follow one another: labels count back from the last one, so a page must not
        hold a jump. They only rise, so a run is without a jump where its length is the difference of its
        ends, and a longer run than one with a jump has it, too: the end can be bisected."""
        if self.cursors[stop - 1] - self.cursors[first] == stop - 1 - first:
            return stop
        low, high = first + 1, stop
        while low < high:
            middle = (low + high + 1) // 2
            if self.cursors[middle - 1] - self.cursors[first] == middle - 1 - first:
                low = middle
            else:
                high = middle - 1
        return low

    def _check(self, cursor: int) -> None:
        if not self.begin <= cursor <= self.next:
            raise invalid_cursor()
