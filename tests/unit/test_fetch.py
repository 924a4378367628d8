"""Fetching from a small shard in memory that can misbehave on request."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sls_io import loggroup
from sls_io.client import Page
from sls_io.clock import ManualClock
from sls_io.errors import CursorExpired, DecodeError, TransportTimeout
from sls_io.fetch import PAGE_TRIES_MAX, Fetch
from sls_io.window import Cursor, Window

GROUP = b"\x1a\x05topic" + b"\x22" + b"\x0a" + b"s" * 10

Fault = Callable[[Page], Page]


@dataclass
class Shelf:
    """A shard: groups at cursors that may jump, pulled like the service does it.

    `faults` are applied to the next answers, one each; None leaves that answer as it is.
    """

    cursors: list[int]
    end: int
    begin: int = 0
    clock: ManualClock = field(default_factory=ManualClock)
    pull_s: float = 0.0
    faults: list[Fault | None] = field(default_factory=list)
    pulled: list[int] = field(default_factory=list)

    def pull(self, shard: int, cursor: Cursor, *, end: Cursor | None = None, groups_max: int = 1000) -> Page:
        self.pulled.append(cursor)
        self.clock.advance(self.pull_s)
        stop = self.end if end is None else min(end, self.end)
        here = [c for c in self.cursors if cursor <= c < stop]
        page, rest = here[:groups_max], here[groups_max:]
        raw = loggroup.frame(GROUP) * len(page)
        body = loggroup.compress(raw, "lz4")
        after = Cursor(rest[0] if rest else stop)
        answer = Page(shard, cursor, after, len(page), len(raw), "lz4", body, None)
        fault = self.faults.pop(0) if self.faults else None
        return fault(answer) if fault else answer

    def cursor_at(self, shard: int, at: int | Literal["begin", "end"]) -> Cursor:
        assert (shard, at) == (0, "begin")
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


def test_out_of_bytes_it_stops_at_a_pages_edge() -> None:
    shelf = Shelf(list(range(100)), end=100)
    record = len(loggroup.frame(GROUP))
    run = fetch(shelf, 100, bytes_max=11 * record)
    assert [p.cursor for p in run] == [0, 10]
    assert (run.stopped, run.reached, run.raw_bytes, run.groups) == ("bytes", 20, 20 * record, 20)


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


def test_a_call_that_outlives_the_deadline_is_out_of_time_and_another_timeout_is_an_error() -> None:
    late = Shelf(list(range(20)), end=20, pull_s=1.0, faults=[None, fail(TransportTimeout("late"))])
    run = fetch(late, 20, deadline_s=2.0)
    assert len(list(run)) == 1 and (run.stopped, run.reached) == ("time", 10)
    early = Shelf(list(range(20)), end=20, pull_s=1.0, faults=[None, fail(TransportTimeout("early"))])
    with pytest.raises(TransportTimeout):
        list(fetch(early, 20, deadline_s=50.0))


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


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN.keys())
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


def test_only_the_page_just_yielded_can_be_handed_back() -> None:
    run = fetch(Shelf(list(range(20)), end=20), 20)
    first, _ = run
    with pytest.raises(ValueError, match="just yielded"):
        run.retry(first, DecodeError("late", shard=0, cursor=0))


def test_errors_of_the_service_pass_through() -> None:
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
