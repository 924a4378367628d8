"""The log service as a value that changes: shards, cursors, receive times, splits, retention, a group.

It never forgets what was written (`truth`), so that checkers can ask; `begin` says what can still be
read. Cursors are integers that mostly follow each other and sometimes jump, as the real ones may.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pipelines.landing.run.protocol import Surveyed
from sls_io.planning.doubts import Second
from sls_io.planning.gone import passed_over
from sls_io.planning.values import Edge, Span, Survey
from sls_io.values.claim import CURSOR_UNKNOWN, Ledger
from sls_io.values.shard import KEY_MAX, KEY_MIN, Head, Shard
from sls_io.values.window import HOUR_S, Cursor

WIDTH = 16
"""The key space has 16 parts here; a shard of one part cannot be split."""


@dataclass
class SimShard:
    """One shard: its keys as parts of 16, and every group ever written to it."""

    id: int
    keys: tuple[int, int]
    parents: frozenset[int]
    created_s: int
    cursors: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    end: int = 0
    begin: int = 0
    readonly: bool = False

    @property
    def value(self) -> Shard:
        """As ListShards says it."""
        begin, end = (KEY_MAX if k == WIDTH else f"{k:x}" + "0" * 31 for k in self.keys)
        return Shard(self.id, self.readonly, begin or KEY_MIN, end, self.created_s)

    def groups(self, begin: int, end: int) -> list[int]:
        """Cursors of the groups ever written in [begin, end)."""
        return self.cursors[bisect_left(self.cursors, begin) : bisect_left(self.cursors, end)]

    def at(self, time_s: int) -> Cursor:
        """GetCursor: the first readable group received at or after `time_s`, else the end."""
        place = bisect_left(self.times, time_s)
        found = self.cursors[place] if place < len(self.cursors) else self.end
        return Cursor(max(found, self.begin))

    def time_of(self, cursor: int) -> int:
        """GetCursorTime: receive time of the first group at or after `cursor`."""
        return self.times[bisect_left(self.cursors, cursor)]


class Gone(Exception):
    """The shard was removed, or the cursor points at data that was."""


class Service:
    """Shards by id; `removed` ones are no longer listed. `owners` and `checkpoints` are the group's."""

    def __init__(self, shards: int, now_s: int) -> None:
        self.now_s = now_s
        self.shards: dict[int, SimShard] = {}
        self.removed: set[int] = set()
        self.owners: dict[int, str] = {}
        self.checkpoints: dict[int, int] = {}
        self.lies: dict[int, str] = {}
        step = WIDTH // shards
        for at in range(shards):
            self._add((at * step, WIDTH if at == shards - 1 else (at + 1) * step), frozenset())

    def listed(self) -> list[SimShard]:
        """Shards that ListShards would return."""
        return [s for s in self.shards.values() if s.id not in self.removed]

    def live(self) -> list[SimShard]:
        """Shards that can be written."""
        return [s for s in self.shards.values() if not s.readonly]

    def append(self, shard: SimShard, *, jump: int) -> None:
        """Write one group now; `jump` cursors are left out before it."""
        shard.cursors.append(shard.end + jump)
        shard.times.append(self.now_s)
        shard.end += jump + 1

    def split(self, shard: SimShard) -> bool:
        """Halve a shard's keys; False when it is too narrow."""
        begin, end = shard.keys
        if end - begin < 2:
            return False
        shard.readonly = True
        middle = (begin + end) // 2
        self._add((begin, middle), frozenset({shard.id}))
        self._add((middle, end), frozenset({shard.id}))
        return True

    def merge(self, shard: SimShard) -> bool:
        """Join a shard with its right neighbour; False when it is the last."""
        right = next((s for s in self.live() if s.keys[0] == shard.keys[1]), None)
        if right is None:
            return False
        shard.readonly = right.readonly = True
        self._add((shard.keys[0], right.keys[1]), frozenset({shard.id, right.id}))
        return True

    def expire(self, before_s: int) -> None:
        """Retention: groups received before `before_s` go, then read-only shards without groups."""
        for shard in self.listed():
            shard.begin = max(shard.begin, shard.at(before_s))
            old = shard.readonly and shard.begin >= shard.end and shard.created_s < before_s
            if old and shard.parents <= self.removed:
                self.removed.add(shard.id)
                self.owners.pop(shard.id, None)

    def head(self, shard: int, *, readonly: bool) -> Head:
        """Begin and end now; `readonly` is what was seen before."""
        if shard in self.removed:
            raise Gone
        found = self.shards[shard]
        seen = Shard(shard, readonly, found.value.begin_key, found.value.end_key, found.created_s)
        return Head(seen, Cursor(found.begin), Cursor(found.end))

    def save(self, holder: str, shard: int, cursor: int) -> bool:
        """Store a checkpoint if `holder` owns the shard."""
        if self.owners.get(shard) != holder:
            return False
        self.checkpoints[shard] = cursor
        return True

    def _add(self, keys: tuple[int, int], parents: frozenset[int]) -> None:
        number = len(self.shards)
        base = 1000 * (number + 1)
        self.shards[number] = SimShard(number, keys, parents, self.now_s, end=base, begin=base)


def model_survey_live(service: Service, head: Head, frontier: int, until_s: int) -> Survey:
    """Spans from the frontier to `until_s`, hour by hour, as the production survey asks for them."""
    shard = service.shards[head.shard.id]
    until = min(shard.at(until_s), head.end)
    at, spans = max(frontier, int(head.begin)), list[Span]()
    while at < until:
        hour = min(shard.time_of(at), until_s) // HOUR_S
        end = min(shard.at((hour + 1) * HOUR_S), until)
        spans.append(Span(hour, Cursor(at), Cursor(end)))
        at = end
    marks = [Edge((s.hour + 1) * HOUR_S, s.end) for s in spans if (s.hour + 1) * HOUR_S <= until_s]
    return Survey(shard.id, head, tuple(spans), (*marks, Edge(until_s, Cursor(until))))


def model_survey_hours(service: Service, head: Head, hours: range, until_s: int) -> Survey:
    """Spans of the named receive hours, whatever has landed."""
    shard = service.shards[head.shard.id]
    until = min(shard.at(until_s), head.end)
    spans: list[Span] = []
    for hour in hours:
        begin, end = shard.at(hour * HOUR_S), min(shard.at((hour + 1) * HOUR_S), until)
        if begin < end:
            spans.append(Span(hour, Cursor(begin), Cursor(end)))
    return Survey(shard.id, head, tuple(spans))


def second_answers(survey: Survey, ledger: Ledger) -> Survey:
    """The survey with what honest second kinds of answers say."""
    head = survey.head
    if head is None:
        return survey
    frontier = ledger.shard(survey.shard, begin=head.begin).frontier
    gone = Second.AGREES if frontier < head.begin else Second.NONE
    over = Second.AGREES if head.readonly else Second.NONE
    return replace(survey, gone=gone, explained=True, over=over)


def shown_again(head: Head, ledger: Ledger) -> bool:
    """Whether the service shows more of a shard that the ledger calls closed."""
    end = ledger.shards[head.shard.id].end
    return end is not None and (end == CURSOR_UNKNOWN or head.end > end or not head.readonly)


def unlisted(service: Service, listed: Iterable[Shard], ledger: Ledger) -> dict[int, Survey]:
    """A survey of each shard that the ledger has open and the list has not."""
    there = {s.id for s in listed}
    return {
        s: Survey(s, None, listed=False, gone=Second.AGREES if s in service.removed else Second.DENIES)
        for s, entry in ledger.shards.items()
        if s not in there and not entry.closed
    }


ONE_KIND, TWO_KINDS = ("not listed", "no cursor"), ("neither listed nor a cursor",)


def lied(told: Surveyed, ledger: Ledger, lies: Mapping[int, str]) -> Surveyed:
    """What is told when of some shards the answers are wrong: one of two kinds, or both."""
    shards, surveys = told.shards, dict(told.surveys)
    for shard, lie in lies.items():
        entry = ledger.shards.get(shard)
        if not any(s.id == shard for s in shards):
            continue
        if lie == ONE_KIND[1]:
            if shard in surveys:
                surveys[shard] = Survey(shard, None, gone=Second.DENIES)
            continue
        shards = tuple(s for s in shards if s.id != shard)
        surveys.pop(shard, None)
        if entry is not None and not entry.closed:
            gone = Second.DENIES if lie in ONE_KIND else Second.AGREES
            surveys[shard] = Survey(shard, None, listed=False, gone=gone)
    for shard in passed_over(shards, ledger):
        if lies.get(shard) in ONE_KIND:
            surveys[shard] = Survey(shard, None, listed=False, gone=Second.DENIES)
    return Surveyed(shards, surveys, told.now_s)


def all_lies(told: Surveyed, ledger: Ledger, lies: Iterable[str]) -> Iterator[tuple[str, Surveyed]]:
    """Each of these lies about each open shard."""
    for shard, entry in sorted(ledger.shards.items()):
        for lie in lies if not entry.closed else ():
            yield f"survey, shard {shard} {lie}", lied(told, ledger, {shard: lie})
