"""What of a history can be read after all: parts of gaps, and what lies before a start told too high.

A begin may have been told wrong by every kind of answer, so each look asks for it again. A begin only ever
rises, by retention: a log that is shown before it proves that it was wrong.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sls_io.planning.values import Again
from sls_io.values.claim import CURSOR_UNKNOWN, GAP_SKIPPED, Gap, ShardLedger
from sls_io.values.errors import CursorExpired, SlsError
from sls_io.values.shard import Head, Shard
from sls_io.values.window import HOUR_S, Cursor, IntervalSet
from sls_io.wire.client import SlsClient


@dataclass(frozen=True)
class Begins:
    """Where histories begin: `at` gives the begin of a shard, by the settings and as the service answers now;
    None where it must not be asked again. `gone`: receive hours (since 1970) of which rows were removed for
    good; `before`: all hours before this one were removed whole. `lowered`: whether the settings name an
    earlier time than when the history began; None where nobody knows."""

    at: Callable[[Shard, ShardLedger], Cursor | None]
    gone: IntervalSet = IntervalSet()
    before: int = 0
    lowered: bool | None = None


def readable_again(
    client: SlsClient, shard: Shard, entry: ShardLedger, head: Head, begins: Begins | None = None
) -> tuple[Again, ...]:
    """The parts of gaps that can be read after all, and with `begins` what lies before a start that was
    told: by the begin cursor, and by a pull from there.

    From a gap's begin, or from where the service begins now, up to the gap's end: what the first group there
    says is where it can be read from. A gap without a known end is not looked at: its shard is gone, and is
    opened again as a whole when it is listed.
    """
    parts = []
    for gap in entry.gaps:
        begin = max(gap.begin, head.begin)
        if begin < gap.end < CURSOR_UNKNOWN and (found := _read_again(client, shard.id, begin, gap)):
            parts += [found] if _comes_back(found, begins) else []
    if begins is None or not entry.told or head.begin >= entry.start:
        return tuple(parts)
    lowest = begins.at(shard, entry)
    if lowest is None:
        return tuple(parts)
    before = IntervalSet.of([(max(head.begin, lowest), min(entry.start, head.end))])
    for first, end in before.minus(entry.accounted):
        found = _read_again(client, shard.id, Cursor(first), Gap(Cursor(first), Cursor(end), ""))
        if found and _comes_back(early := replace(found, early=True), begins):
            parts.append(early)
    return tuple(parts)


def _comes_back(found: Again, begins: Begins | None) -> bool:
    """Whether a fill lands any of it, by the rule that a fill goes by (`start.fill_only`): nothing of hours
    that were removed whole; and nothing from before a start of hours of which rows were.

    Story: rows of an hour were removed for good, and later logs of the same hour were skipped. A fill lands
    these, since a gap is of cursors that never landed. Taken for removed, they were owed to nobody, and
    retention took them while the proof was green.
    """
    if begins is None:
        return True
    hours = IntervalSet.of([(found.hours.start, found.hours.stop)]).minus(
        IntervalSet.of([(0, begins.before)])
    )
    return bool(hours.minus(begins.gone) if found.early else hours)


def begins_anew(
    client: SlsClient, head: Head, entry: ShardLedger, readable: Iterable[Again], begins: Begins
) -> Cursor | None:
    """Where an open shard really begins of which nothing has landed from its start. None where that start
    holds, or nobody knows. `readable` is what `readable_again` found.

    Story: begin and end of two shards are swapped for a while, and a history begins with that. One of them
    begins beyond its end then, and nothing would ever land of it.
    """
    early = [part for part in readable if part.early]
    if entry.frontier > entry.start:
        return None
    if early:
        # What lies in hours removed for good is left to a fill, which leaves them out.
        kept = not any(begins.gone.overlaps(part.hours.start, part.hours.stop) for part in early)
        return min(part.begin for part in early) if kept else None
    if head.end >= entry.start:
        return None
    start = begins.at(head.shard, entry)
    if start is None or start > head.end:
        return None
    try:
        page = client.pull(head.shard.id, entry.start, groups_max=1)
    except CursorExpired:
        return start
    except SlsError:
        return None
    return start if page.next < entry.start else None


def _read_again(client: SlsClient, shard: int, begin: Cursor, gap: Gap) -> Again | None:
    """The hours are those of its first and its last cursor, the smaller one first: the order of receive times
    is not relied on."""
    try:
        first, _ = first_group(client, shard, begin)
        if first is None or first >= gap.end:
            return None
        hours = [client.cursor_time_s(shard, Cursor(at)) // HOUR_S for at in (first, gap.end - 1)]
    except SlsError:
        return None
    owed = gap.cause == GAP_SKIPPED
    return Again(first, gap.end, range(min(hours), max(hours) + 1), owed=owed)


def begins_later(client: SlsClient, shard: int, at: Cursor, begin: Cursor) -> bool:
    """Whether PullLogs, too, has nothing from `at` to `begin`, where a shard is said to begin. Raises what
    the call raises; CursorExpired agrees.

    The first group from `at` on is before `begin`: the service has it, so the begin was told wrong. Is it
    there or behind it, retention took what was between.
    """
    first, nothing_to = first_group(client, shard, at)
    return (nothing_to if first is None else first) >= begin


def first_group(client: SlsClient, shard: int, at: Cursor) -> tuple[Cursor | None, Cursor]:
    """The cursor of the first group at or after `at`, or None when there is none or nobody knows; and then
    the cursor up to which there is none."""
    page = client.pull(shard, at, groups_max=1)
    if page.count == 1 and page.last is not None:
        return page.last, page.last
    return None, page.next if page.count == 0 else at
