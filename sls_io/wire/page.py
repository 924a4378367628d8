"""A page of logs as the service sent it, and how its headers may contradict one another."""

from dataclasses import dataclass

from sls_io.values.window import Cursor


@dataclass(frozen=True, slots=True)
class Page:
    """One PullLogs answer of `shard` from `cursor`; progress is `next`, never `count`.

    `count` is in LogGroups, `raw_bytes` the size of the plain body. `body` is compressed as
    received, by `compression` ("lz4", "zstd", "deflate" or ""). `last` is the cursor of the last
    group where the service says so (`x-log-read-last-cursor`). `confirmed`: it was pulled again and came
    with the same bytes, so what cannot be read in it is what was sent.
    """

    shard: int
    cursor: Cursor
    next: Cursor
    count: int
    raw_bytes: int
    compression: str
    body: bytes
    last: Cursor | None
    confirmed: bool = False


def contradiction(page: Page) -> str:
    """How the headers of a page contradict one another or its body; "" when they do not.

    Cursors of groups ascend, so a page of `count` groups takes at least so many, from the cursor that was
    asked for up to the next one, and its last group is one of these. Story: a page says count 0 and size
    0 and has no body, and its next cursor is the window's end. Taken as "nothing there" the window would
    be landed without a log; that the last group read lies inside of it shows that there were some.

    Worked example: a page from 100 with next 103 and 3 groups may say 102 as the last, and nothing else.
    With next 108 it may say 107, 106, 105, ... down to 102, since cursors may jump. With 3 groups, next 102
    is too near. A next cursor below 100 is no contradiction here: going back is `fetch.py`'s to refuse,
    which knows the window.
    """
    empty = (page.count == 0, page.raw_bytes == 0, not page.body)
    if page.count < 0 or page.raw_bytes < 0:
        return "the headers count less than nothing"
    if any(empty) and not all(empty):
        return "count, size and body disagree on whether there is anything"
    if page.next - page.cursor < page.count and page.next >= page.cursor:
        return "the next cursor is too near for so many groups"
    if page.last is not None:
        return _last_group(page, page.last)
    return ""


def _last_group(page: Page, last: Cursor) -> str:
    inside = page.cursor <= last < page.next
    if page.count == 0:
        return "the page is empty, and the last group read lies in it" if inside else ""
    if not inside or last - page.cursor < page.count - 1:
        return "the last group read does not lie in the page"
    if page.count == page.next - page.cursor and last != page.next - 1:
        return "the last group read is not the one before the next cursor"
    return ""
