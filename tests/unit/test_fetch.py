"""Fetching from a small shard in memory that can misbehave on request."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sls_io.values.clock import ManualClock
from sls_io.values.errors import (
    ConnectFailed,
    CursorExpired,
    DecodeError,
    ServiceError,
    SlsError,
    Throttled,
    TransportTimeout,
)
from sls_io.values.window import Cursor, Window
from sls_io.wire import loggroup
from sls_io.wire.fetch import FAILED, PAGE_TRIES_MAX, THROTTLED, THROTTLED_TRIES_MAX, Fetch
from sls_io.wire.pace import Pace
from sls_io.wire.page import Page

GROUP = b"\x1a\x05topic" + b"\x22" + b"\x0a" + b"s" * 10
LARGE = b"\x22" + loggroup.varint(25_000) + b"s" * 25_000
LARGE_PAGE_MB = len(loggroup.frame(LARGE)) * 10 / 1e6

Fault = Callable[[Page], Page]


@dataclass
class Shelf:
    """A shard: groups at cursors that may jump, pulled like the service does it.

    `faults` are applied to the next answers, one each; None leaves that answer as it is. `refusals` are
    what the next questions for a cursor get.
    """

    cursors: list[int]
    end: int
    begin: int = 0
    clock: ManualClock = field(default_factory=ManualClock)
    pull_s: float = 0.0
    faults: list[Fault | None] = field(default_factory=list)
    refusals: list[SlsError] = field(default_factory=list)
    group: bytes = GROUP
    pulled: list[int] = field(default_factory=list)

    def pull(self, shard: int, cursor: Cursor, *, end: Cursor | None = None, groups_max: int = 1000) -> Page:
        self.pulled.append(cursor)
        self.clock.advance(self.pull_s)
        stop = self.end if end is None else min(end, self.end)
        here = [c for c in self.cursors if cursor <= c < stop]
        page, rest = here[:groups_max], here[groups_max:]
        raw = loggroup.frame(self.group) * len(page)
        body = loggroup.compress(raw, "lz4")
        after = Cursor(rest[0] if rest else stop)
        answer = Page(shard, cursor, after, len(page), len(raw), "lz4", body, None)
        fault = self.faults.pop(0) if self.faults else None
        return fault(answer) if fault else answer

    def cursor_at(self, shard: int, at: int | Literal["begin", "end"]) -> Cursor:
        assert (shard, at) == (0, "begin")
        if self.refusals:
            raise self.refusals.pop(0)
        return Cursor(self.begin)


def changed(**changes: Any) -> Fault:
    return lambda page: replace(page, **changes)


def short_by_one_group(page: Page) -> Page:
    """Cut at a group's edge, the header of the plain size made to fit: only the count can tell."""
    raw = loggroup.frame(GROUP) * (page.count - 1)
    return replace(page, body=loggroup.compress(raw, "lz4"), raw_bytes=len(raw))


def fail(error: Exception) -> Fault:
    def raise_it(page: Page) -> Page:
        raise error

    return raise_it


def fetch(shelf: Shelf, end: int, *, begin: int = 0, bytes_max: int = 10**9, **more: Any) -> Fetch:
    more = {"groups_max": 10, "deadline_s": 1e9} | more
    window = Window(0, Cursor(begin), Cursor(end), 7)
    return Fetch(shelf, window, bytes_max=bytes_max, clock=shelf.clock, **more)


@given(
    st.lists(st.integers(0, 300), unique=True, max_size=60).map(sorted),
    st.integers(1, 13),
    st.integers(0, 250),
    st.integers(1, 100),
)
def test_a_window_is_read_whole_once_and_nothing_else(
    cursors: list[int], groups_max: int, begin: int, size: int
) -> None:
    shelf = Shelf(cursors, end=400)
    run = fetch(shelf, begin + size, begin=begin, groups_max=groups_max)
    pages = list(run)
    assert run.stopped == "" and run.reached == begin + size
    assert sum(p.count for p in pages) == sum(begin <= c < begin + size for c in cursors) == run.groups
    assert [p.cursor for p in pages] == [begin, *(p.next for p in pages[:-1])]
    assert run.pages == len(pages) and run.raw_bytes == sum(len(p.body) for p in pages)


def test_bodies_come_plain() -> None:
    (page,) = fetch(Shelf([1, 2], end=3), 3)
    assert (page.body, page.compression) == (loggroup.frame(GROUP) * 2, "")
    assert page.raw_bytes == len(page.body)


@pytest.mark.fault("4b.drain.pull")
def test_a_page_without_groups_that_advances_is_progress() -> None:
    run = fetch(Shelf([], end=50), 50)
    assert [(p.count, p.next) for p in run] == [(0, 50)]
    assert (run.reached, run.stopped) == (50, "")


def test_a_page_that_leaves_cursors_out_is_pulled_twice_and_one_that_does_not_is_not() -> None:
    shelf = Shelf([0, 1, 2, 7, 8], end=9)
    run = fetch(shelf, 9, groups_max=3)
    assert [(p.cursor, p.next) for p in run] == [(0, 7), (7, 9)]
    assert shelf.pulled == [0, 0, 7]


EMPTY = {"body": b"", "count": 0, "raw_bytes": 0, "compression": ""}


@pytest.mark.fault("4b.lying.pull")
@pytest.mark.parametrize("nth", [0, 1], ids=["the first pull", "the second"])
def test_one_page_that_says_that_nothing_is_there_proves_nothing(nth: int) -> None:
    lie: list[Fault | None] = [changed(**EMPTY, next=Cursor(9))]
    shelf = Shelf([0, 1, 2, 7, 8], end=9, faults=[*[None] * nth, *lie])
    run = fetch(shelf, 9)
    assert sum(p.count for p in run) == 5
    assert (run.stopped, run.reached) == ("", 9)


def test_pages_that_never_agree_on_what_they_leave_out_end_the_window() -> None:
    lies = [changed(**EMPTY, next=Cursor(n)) for n in (3, 4, 5, 6, 8, 9)]
    run = fetch(Shelf([0, 1, 7], end=9, faults=list(lies)), 9)
    assert list(run) == []
    assert (run.stopped, run.reached) == ("short", 0)


def test_out_of_bytes_it_stops_at_a_pages_edge() -> None:
    shelf = Shelf(list(range(100)), end=100)
    record = len(loggroup.frame(GROUP))
    run = fetch(shelf, 100, bytes_max=11 * record)
    assert [p.cursor for p in run] == [0, 10]
    assert (run.stopped, run.reached, run.raw_bytes, run.groups) == ("bytes", 20, 20 * record, 20)


def test_a_bound_on_pages_is_passed_only_by_a_group_that_is_larger_alone() -> None:
    shelf = Shelf(list(range(100)), end=100)
    record = len(loggroup.frame(GROUP))
    run = fetch(shelf, 100, page_bytes_max=7 * record)
    counts = [p.count for p in run]
    assert (sum(counts), counts[0], max(counts)) == (100, 1, 7)
    alone = fetch(Shelf(list(range(5)), end=5), 5, page_bytes_max=record - 1)
    assert [p.count for p in alone] == [1] * 5
    assert (alone.stopped, alone.reached) == ("", 5)


def test_a_page_that_is_larger_than_its_bound_is_pulled_again_with_fewer_groups() -> None:
    shelf = Shelf(list(range(60)), end=60)
    record = len(loggroup.frame(GROUP))
    run = fetch(shelf, 60, page_bytes_max=8 * record)
    counts = []
    for page in run:
        counts.append(page.count)
        shelf.group = GROUP * 3 if len(counts) == 3 else shelf.group
    assert sum(counts) == 60
    assert max(counts[3:]) * len(loggroup.frame(GROUP * 3)) <= 8 * record
    assert len(shelf.pulled) == len(counts) + 1


def test_the_last_page_may_use_up_the_budget_exactly() -> None:
    shelf = Shelf(list(range(10)), end=10)
    run = fetch(shelf, 10, bytes_max=1)
    assert [p.count for p in run] == [10]
    assert run.stopped == ""


def test_out_of_time_it_stops_at_a_pages_edge() -> None:
    shelf = Shelf(list(range(100)), end=100, pull_s=1.0)
    run = fetch(shelf, 100, deadline_s=2.5)
    assert [p.cursor for p in run] == [0, 10, 20]
    assert (run.stopped, run.reached) == ("time", 30)


def test_without_time_nothing_is_pulled() -> None:
    shelf = Shelf([1], end=2)
    run = fetch(shelf, 2, deadline_s=0.0)
    assert list(run) == [] and shelf.pulled == []
    assert (run.stopped, run.reached, run.pages) == ("time", 0, 0)


def test_a_call_that_outlives_the_deadline_is_out_of_time() -> None:
    late = Shelf(list(range(20)), end=20, pull_s=1.0, faults=[None, fail(TransportTimeout("late"))])
    run = fetch(late, 20, deadline_s=2.0)
    assert len(list(run)) == 1 and (run.stopped, run.reached) == ("time", 10)


QUOTA = Throttled("ShardReadQuotaExceed", "used up", status=403)
AWAY: dict[str, SlsError] = {
    "no answer": TransportTimeout("no answer"),
    "refused": ConnectFailed("refused"),
    "a failure that stays": ServiceError("InternalServerError", "failed", status=500),
    "an answer that is none": ServiceError("BadResponse", "no JSON", status=200),
}


@pytest.mark.parametrize("error", AWAY.values(), ids=AWAY.keys())
def test_a_service_that_goes_away_late_ends_the_window_with_the_pages_read(error: SlsError) -> None:
    shelf = Shelf(list(range(30)), end=30, faults=[None, *[fail(error)] * PAGE_TRIES_MAX])
    run = fetch(shelf, 30)
    assert [p.cursor for p in run] == [0]
    assert (run.stopped, run.reached, run.error) == (FAILED, 10, error)
    assert run.cause.startswith(type(error).__name__) and shelf.pulled == [0] + [10] * PAGE_TRIES_MAX


def test_a_service_that_comes_back_is_read_on() -> None:
    shelf = Shelf(list(range(30)), end=30, faults=[None, *[fail(AWAY["refused"])] * (PAGE_TRIES_MAX - 1)] * 3)
    run = fetch(shelf, 30)
    assert [p.cursor for p in run] == [0, 10, 20]
    assert (run.stopped, run.error, run.cause) == ("", None, "")


def test_a_refusal_that_asking_again_would_not_change_ends_the_window_at_once() -> None:
    refused = ServiceError("Unauthorized", "denied", status=401)
    shelf = Shelf(list(range(30)), end=30, faults=[None, fail(refused)])
    run = fetch(shelf, 30)
    assert [p.cursor for p in run] == [0]
    assert (run.stopped, shelf.pulled) == (FAILED, [0, 10])


def test_a_throttled_pull_waits_inside_the_deadline_and_the_window_is_read_whole() -> None:
    """Far longer than any other trouble is waited for: six tries of the client are one of these."""
    shelf = Shelf(list(range(30)), end=30, faults=[None, *[fail(QUOTA)] * 20, None, *[fail(QUOTA)] * 20])
    run = fetch(shelf, 30, deadline_s=240.0)
    assert [p.cursor for p in run] == [0, 10, 20]
    assert (run.stopped, run.reached) == ("", 30) and shelf.clock.monotonic() < 240


@pytest.mark.parametrize("pull_s", [0.0, 12.0])
def test_a_window_that_stays_throttled_ends_with_the_pages_read(pull_s: float) -> None:
    shelf = Shelf(list(range(30)), end=30, pull_s=pull_s, faults=[None, *[fail(QUOTA)] * 1000])
    run = fetch(shelf, 30, deadline_s=100.0)
    assert [p.cursor for p in run] == [0]
    assert (run.stopped, run.reached, run.error) == (THROTTLED, 10, QUOTA)
    assert "ShardReadQuotaExceed" in run.cause and shelf.clock.monotonic() < 100 + 12 + 2


def test_where_nothing_ends_the_waiting_for_a_quota_the_tries_do() -> None:
    shelf = Shelf(list(range(30)), end=30, faults=[fail(QUOTA)] * 1000)
    run = fetch(shelf, 30, deadline_s=float("inf"))
    assert list(run) == [] and (run.stopped, len(shelf.pulled)) == (THROTTLED, THROTTLED_TRIES_MAX)


@pytest.mark.parametrize(
    ("group", "mb_per_s", "pull_s", "each_s"),
    [
        (LARGE, LARGE_PAGE_MB / 5, 0.0, 5.0),
        (LARGE, LARGE_PAGE_MB / 5, 4.0, 5.0),
        (LARGE, LARGE_PAGE_MB / 5, 7.0, 7.0),
        (GROUP, 0.5, 0.0, 0.2),
    ],
    ids=[
        "bytes",
        "time a pull took is paid",
        "a slow pull does not wait",
        "calls: five a second with half a MB",
    ],
)
def test_pages_come_no_faster_than_the_shards_quota(
    group: bytes, mb_per_s: float, pull_s: float, each_s: float
) -> None:
    shelf = Shelf(list(range(50)), end=50, pull_s=pull_s, group=group)
    pace = Pace(mb_per_s, clock=shelf.clock)
    at_s = [shelf.clock.monotonic() for _ in fetch(shelf, 50, pace=pace)]
    assert [b - a for a, b in pairwise(at_s)] == pytest.approx([each_s] * 4)


def test_out_of_time_by_the_pace_the_window_says_that_the_quota_was_the_bound() -> None:
    shelf = Shelf(list(range(100)), end=100, group=LARGE)
    run = fetch(shelf, 100, deadline_s=25.0, pace=Pace(LARGE_PAGE_MB / 10, clock=shelf.clock))
    assert [p.cursor for p in run] == [0, 10, 20]
    assert (run.stopped, run.reached) == ("quota", 30)
    assert shelf.clock.monotonic() == pytest.approx(20)  # it does not wait for a call that comes too late


def test_windows_of_one_reader_share_its_pace() -> None:
    shelf = Shelf(list(range(20)), end=20, group=LARGE)
    pace = Pace(LARGE_PAGE_MB / 5, clock=shelf.clock)
    for begin in (0, 10):
        list(fetch(shelf, begin + 10, begin=begin, pace=pace))
    assert shelf.clock.monotonic() == pytest.approx(5)


@pytest.mark.parametrize("error", [*AWAY.values(), QUOTA])
def test_the_last_question_is_asked_again_too(error: SlsError) -> None:
    """A whole window was read: it must not be thrown away for one answer to GetCursor."""
    shelf = Shelf(list(range(20)), end=20, refusals=[error] * (PAGE_TRIES_MAX - 1))
    run = fetch(shelf, 20, deadline_s=0.1)
    shelf.clock.advance(1)
    assert run.proved()
    shelf.refusals = [error] * PAGE_TRIES_MAX
    with pytest.raises(type(error)):
        run.proved()


BROKEN: dict[str, Fault] = {
    "cut short at a group's edge": short_by_one_group,
    "one group too many": lambda p: replace(p, count=p.count + 1),
    "another size": lambda p: replace(p, raw_bytes=p.raw_bytes + 1),
    "no lz4": changed(body=b"\xff" * 9),
    "an empty 200": changed(body=b"", count=0, raw_bytes=0, compression="", next=Cursor(0)),
    "next cursor stands still": changed(next=Cursor(0)),
    "next cursor goes back": changed(next=Cursor(-1)),
    "next cursor passes the window": changed(next=Cursor(21)),
    "no LogGroupList": changed(body=b"\x0a\x7f", raw_bytes=2, compression=""),
    "headers missing": fail(DecodeError("a page without its headers", shard=0, cursor=0)),
}


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_page_is_pulled_again(fault: Fault) -> None:
    shelf = Shelf(list(range(20)), end=20, faults=[fault] * (PAGE_TRIES_MAX - 1))
    run = fetch(shelf, 20)
    assert [p.cursor for p in run] == [0, 10]
    assert shelf.pulled == [0] * PAGE_TRIES_MAX + [10]
    assert (run.stopped, run.reached, run.groups) == ("", 20, 20)


BROKEN_ON_THE_WAY = {name: fault for name, fault in BROKEN.items() if name != "no LogGroupList"}


@pytest.mark.parametrize("fault", BROKEN_ON_THE_WAY.values(), ids=BROKEN_ON_THE_WAY.keys())
@pytest.mark.fault("4b.corrupt.pull")
def test_a_page_that_stays_broken_ends_the_window_before_it(fault: Fault) -> None:
    if fault is BROKEN["next cursor stands still"] or fault is BROKEN["an empty 200"]:
        fault = changed(body=b"", count=0, raw_bytes=0, compression="", next=Cursor(10))
    shelf = Shelf(list(range(20)), end=20, faults=[None] + [fault] * PAGE_TRIES_MAX)
    run = fetch(shelf, 20)
    assert [p.cursor for p in run] == [0]
    assert (run.stopped, run.reached, run.pages, run.groups) == ("short", 10, 1, 10)
    assert run.cause and shelf.pulled == [0] + [10] * PAGE_TRIES_MAX


def test_the_tries_of_one_page_do_not_count_for_the_next() -> None:
    twice: list[Fault | None] = [short_by_one_group, short_by_one_group, None]
    shelf = Shelf(list(range(30)), end=30, faults=twice * 3)
    run = fetch(shelf, 30)
    assert [p.cursor for p in run] == [0, 10, 20] and run.stopped == ""


def test_a_page_handed_back_is_the_next_one_again() -> None:
    shelf = Shelf(list(range(20)), end=20)
    run = fetch(shelf, 20)
    kept = []
    for page in run:
        if shelf.pulled.count(page.cursor) < PAGE_TRIES_MAX:
            run.retry(page, DecodeError("does not decode", shard=0, cursor=page.cursor))
            assert run.reached == page.cursor
            continue
        kept.append(page)
    assert [p.cursor for p in kept] == [0, 10]
    assert (run.pages, run.groups, run.reached, run.stopped) == (2, 20, 20, "")
    assert run.raw_bytes == sum(p.raw_bytes for p in kept)


def test_a_page_handed_back_too_often_ends_the_window_before_it() -> None:
    shelf = Shelf(list(range(20)), end=20)
    run = fetch(shelf, 20)
    for page in run:
        if page.cursor == 10:
            run.retry(page, DecodeError("does not decode", shard=0, cursor=10))
    assert (run.stopped, run.reached, run.pages, run.groups) == ("short", 10, 1, 10)
    assert run.cause == "does not decode"


def test_a_page_in_doubt_is_settled_when_its_bytes_come_again() -> None:
    shelf = Shelf(list(range(20)), end=20)
    run, seen = fetch(shelf, 20), []
    for page in run:
        seen.append((int(page.cursor), page.confirmed))
        if page.cursor == 10 and not page.confirmed:
            run.doubt(page)
    assert seen == [(0, False), (10, False), (10, True)]
    assert (run.stopped, run.reached, run.pages, run.groups) == ("", 20, 2, 20)


def test_a_page_in_doubt_that_comes_cut_elsewhere_is_settled_as_far_as_it_is_the_same() -> None:
    def half(page: Page) -> Page:
        raw = loggroup.frame(GROUP) * 5
        return replace(
            page,
            body=loggroup.compress(raw, "lz4"),
            raw_bytes=len(raw),
            count=5,
            next=Cursor(page.cursor + 5),
        )

    shelf = Shelf(list(range(20)), end=20, faults=[None, half])
    run, seen = fetch(shelf, 20), []
    for page in run:
        seen.append((int(page.cursor), page.count, page.confirmed))
        if not page.confirmed and page.cursor == 0:
            run.doubt(page)
    assert seen == [(0, 10, False), (0, 5, True), (5, 10, False), (15, 5, False)]


def test_a_page_that_is_another_with_each_pull_is_trouble_on_the_way() -> None:
    def spoilt(number: int) -> Fault:
        def fault(page: Page) -> Page:
            raw = loggroup.frame(GROUP[:-1] + bytes((number,))) * page.count
            return replace(page, body=loggroup.compress(raw, "lz4"))

        return fault

    shelf = Shelf(list(range(10)), end=10, faults=[spoilt(n) for n in range(9)])
    run = fetch(shelf, 10)
    for page in run:
        assert not page.confirmed
        run.doubt(page)
    assert (run.stopped, run.reached, run.pages) == ("short", 0, 0)
    assert len(shelf.pulled) == PAGE_TRIES_MAX + 1


def test_of_frames_that_stay_broken_one_group_is_a_page_of_its_own_and_the_others_are_whole() -> None:
    """The service frames the groups, so a producer cannot do this. Nothing is lost and nothing stuck."""

    def at_13(page: Page) -> Page:
        groups = [loggroup.frame(GROUP)] * page.count
        if page.cursor <= 13 < page.next:
            groups[13 - page.cursor] = b"\x0e\x05what"
        raw = b"".join(groups)
        return replace(page, body=loggroup.compress(raw, "lz4"), raw_bytes=len(raw))

    shelf = Shelf(list(range(30)), end=30, faults=[at_13] * 50)
    run = fetch(shelf, 30)
    pages = list(run)
    assert [p.cursor for p in pages] == [0, *range(10, 20), 20]
    assert [p.cursor for p in pages if p.confirmed] == [13]
    assert (run.stopped, run.groups, run.reached) == ("", 30, 30)
    assert [p.body for p in pages if p.confirmed] == [b"\x0e\x05what"]


def test_broken_frames_of_more_groups_than_were_asked_for_end_the_window_before_them() -> None:
    """Nobody knows how many groups there are, so nobody can say what would be passed over."""
    fault = changed(body=b"\x0a\x7f", raw_bytes=2, compression="", count=2)
    shelf = Shelf(list(range(20)), end=20, faults=[fault] * 9)
    run = fetch(shelf, 20)
    assert (list(run), run.stopped, run.reached) == ([], "short", 0)
    assert shelf.pulled == [0] * 2 * PAGE_TRIES_MAX


def test_only_the_page_just_yielded_can_be_handed_back() -> None:
    run = fetch(Shelf(list(range(20)), end=20), 20)
    first, _ = run
    with pytest.raises(ValueError, match="just yielded"):
        run.retry(first, DecodeError("late", shard=0, cursor=0))


def test_that_the_data_is_gone_passes_through() -> None:
    shelf = Shelf([1], end=5, faults=[fail(CursorExpired("InvalidCursor", "this cursor is invalid"))])
    with pytest.raises(CursorExpired):
        list(fetch(shelf, 5))


def test_a_window_is_proved_while_the_shard_still_begins_at_or_before_it() -> None:
    shelf = Shelf(list(range(20)), end=20)
    run = fetch(shelf, 20, begin=5)
    list(run)
    shelf.begin = 5
    assert run.proved()
    shelf.begin = 6
    assert not run.proved()
