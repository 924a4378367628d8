"""Shards side by side, what surveys say of them, and the plan that follows."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from hypothesis import strategies as st

from sls_io.planning.doubts import Second
from sls_io.planning.draft import Patience
from sls_io.planning.plan import plan_live
from sls_io.planning.values import Edge, Plan, Span, Survey
from sls_io.planning.waits import Wait
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.settings import Budget
from sls_io.values.shard import Head, Shard
from sls_io.values.window import HOUR_S, Cursor, IntervalSet

POINTS = st.integers(0, 40)


ANSWERS = st.sampled_from(Second)


SETS = st.lists(st.tuples(POINTS, POINTS), max_size=3).map(IntervalSet.of)


UNTIL_S = 100 * HOUR_S


def apart(number: int, *, readonly: bool = False) -> Shard:
    """A shard whose keys no other has."""
    return Shard(number, readonly, f"{number:02x}" + "0" * 30, f"{number + 1:02x}" + "0" * 30)


def surveyed(
    shard: Shard, begin: int, end: int, *spans: tuple[int, int, int], marks: tuple[Edge, ...] = ()
) -> Survey:
    """A survey of a shard that holds [begin, end); spans are (hour, begin, end)."""
    made = tuple(Span(h, Cursor(b), Cursor(e)) for h, b, e in spans)
    return Survey(shard.id, Head(shard, Cursor(begin), Cursor(end)), made, marks)


def live(
    shards: list[Shard],
    surveys: list[Survey],
    ledger: dict[int, ShardLedger],
    *,
    budget: Budget = Budget(),
    ordered: bool = True,
    patience: Patience | None = None,
    left: Mapping[int, Wait] | None = None,
    name_gaps: bool = True,
) -> Plan:
    """A live plan that holds the surveyed shards."""
    by_id = {s.shard: s for s in surveys}
    return plan_live(
        shards=shards,
        surveys=by_id,
        ledger=Ledger("o", ledger),
        budget=budget,
        until_s=UNTIL_S,
        ordered=ordered,
        patience=patience or Patience(),
        left=left or {},
        name_gaps=name_gaps,
    )


def windows(plan: Plan) -> list[tuple[int, int, int, int]]:
    """(shard, begin, end, hour) in the order of the plan."""
    return [(p.window.shard, p.window.begin, p.window.end, p.window.hour) for p in plan.windows]


def cuts(draw: st.DrawFn, begin: int, end: int) -> tuple[tuple[int, int, int], ...]:
    """[begin, end) cut into hours at random cursors."""
    inner = draw(st.sets(st.integers(begin, end), max_size=4)) - {begin, end}
    edges = [begin, *sorted(inner), end]
    return tuple((at, b, e) for at, (b, e) in enumerate(pairwise(edges)) if b < e)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Shard], list[Survey], dict[int, ShardLedger], Budget]:
    """Shards side by side with any ledger, retention anywhere, some held and some not."""
    shards, surveys, ledger = [], list[Survey](), {}
    for number in range(draw(st.integers(1, 3))):
        shard = apart(number, readonly=draw(st.booleans()))
        start = draw(POINTS)
        entry = ShardLedger(Cursor(start), draw(SETS).within(start, 41))
        begin = draw(POINTS)
        end = max(draw(POINTS), begin, entry.frontier)
        shards.append(shard)
        if draw(st.booleans()):
            ledger[number] = entry
        frontier = entry.frontier if number in ledger else begin
        at = max(frontier, begin)
        upto = draw(st.integers(at, max(at, end)))
        if draw(st.booleans()):
            made = surveyed(shard, begin, end, *cuts(draw, at, upto))
            seconds = {"gone": draw(ANSWERS), "explained": draw(st.booleans()), "over": draw(ANSWERS)}
            surveys.append(replace(made, **seconds))
    return shards, surveys, ledger, Budget(windows_max=draw(st.integers(1, 6)))


SINCE_S, OUTAGE_S = 50 * HOUR_S, 60.0


def unlisted(second: Second) -> Survey:
    """Shard 0 is not in the list; what GetCursor says of it."""
    return Survey(0, None, listed=False, gone=second)


def too_high(second: Second, *, explained: bool = False) -> Survey:
    """Shard 0 is said to begin at 6; what PullLogs from the frontier says, and the age of what is there."""
    return replace(surveyed(apart(0), 6, 9, (7, 6, 9)), gone=second, explained=explained)


def suspecting(suspect_s: int = 0) -> ShardLedger:
    """Landed up to 5."""
    return ShardLedger(Cursor(2), IntervalSet.of([(2, 5)]), suspect_s=suspect_s)


IN_DOUBT = [unlisted, too_high]
