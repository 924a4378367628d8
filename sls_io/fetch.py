"""One window -> its pages, in order, one page in memory.

Rules:
- progress is judged by the next cursor, never by a count; it must advance and never pass the
  window's end, because what lies beyond belongs to another window;
- a page is yielded only when its size and its number of LogGroups are what its headers say. A page
  cut at a group's edge decodes cleanly, so nothing else would notice the missing groups;
- a page that is broken, short, or stands still is pulled again, a counted number of times with a
  growing pause; then the window ends before it (`stopped == "short"`). Nothing is skipped;
- out of bytes or time, it ends at a page's edge. What has been yielded and not handed back with
  `retry` is proved: [window.begin, reached).

Errors of the service and of the connection pass through: the client has already tried again.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, Protocol

from sls_io import loggroup
from sls_io.client import Page
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import DecodeError, TransportTimeout
from sls_io.settings import PAGE_GROUPS_MAX
from sls_io.window import Cursor, Window

PAGE_TRIES_MAX = 3
_PAUSE_S = 0.2


class Pages(Protocol):
    """What a fetch needs of `SlsClient`."""

    def pull(self, shard: int, cursor: Cursor, *, end: Cursor | None = None, groups_max: int = ...) -> Page:
        """One page from `cursor`, never beyond `end`."""
        ...

    def cursor_at(self, shard: int, at: int | Literal["begin", "end"]) -> Cursor:
        """Cursor of `begin`, `end`, or a receive time in unix seconds."""
        ...


class Fetch:
    """Iterate once for the pages of `window`, bodies already decompressed.

    `bytes_max` is in raw bytes and the last page may pass it; `deadline_s` is a moment of the
    clock's monotonic seconds. While iterating and after:

    reached  everything in [window.begin, reached) has been yielded
    stopped  "" at the window's end, else `bytes`, `time` or `short`; "" also before the end of
             the iteration
    cause    why the last page was not taken, when `stopped` is `short`; never log content
    pages, groups, raw_bytes  totals of what was yielded
    """

    def __init__(
        self,
        client: Pages,
        window: Window,
        *,
        bytes_max: int,
        deadline_s: float,
        groups_max: int = PAGE_GROUPS_MAX,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.window = window
        self.reached: Cursor = window.begin
        self.stopped = ""
        self.cause = ""
        self.pages = self.groups = self.raw_bytes = 0
        self._client, self._clock = client, clock
        self._bytes_max, self._deadline_s, self._groups_max = bytes_max, deadline_s, groups_max
        self._tries = 0
        self._yielded: Page | None = None

    def __iter__(self) -> Iterator[Page]:
        while self.reached < self.window.end and not self.stopped:
            self.stopped = self._exhausted()
            if self.stopped:
                return
            try:
                page = self._pull()
            except DecodeError as error:
                self._again(error)
                continue
            except TransportTimeout:
                if self._clock.monotonic() < self._deadline_s:
                    raise
                self.stopped = "time"
                return
            self.pages, self.groups = self.pages + 1, self.groups + page.count
            self.raw_bytes, self.reached = self.raw_bytes + page.raw_bytes, page.next
            self._yielded = page
            yield page
            if self._yielded is page:  # it was not handed back
                self._yielded, self._tries = None, 0

    def retry(self, page: Page, error: DecodeError) -> None:
        """Hand back the page just yielded: it did not decode. The next one is the same, pulled
        again, or the iteration ends before it. Nothing of the page may be kept."""
        if self._yielded is not page:
            raise ValueError("only the page just yielded can be handed back")
        self._yielded = None
        self.pages, self.groups = self.pages - 1, self.groups - page.count
        self.raw_bytes, self.reached = self.raw_bytes - page.raw_bytes, page.cursor
        self._again(error)

    def proved(self) -> bool:
        """Whether the shard still begins at or before the window, asked after the last page.

        Retention may take groups while we read: a page then begins later than asked and nothing
        in it says so. If the shard's begin cursor is past the window's now, we cannot know that
        this did not happen, so the window must not be landed.
        """
        return self._client.cursor_at(self.window.shard, "begin") <= self.window.begin

    def _exhausted(self) -> str:
        if self._clock.monotonic() >= self._deadline_s:
            return "time"
        return "bytes" if self.raw_bytes >= self._bytes_max else ""

    def _again(self, error: DecodeError) -> None:
        self._tries += 1
        self.cause = error.cause
        if self._tries >= PAGE_TRIES_MAX:
            self.stopped = "short"
        else:
            self._clock.sleep(_PAUSE_S * self._tries)

    def _pull(self) -> Page:
        """The next page, checked and decompressed. Raises DecodeError when it must be pulled again."""
        window, at = self.window, self.reached
        page = self._client.pull(window.shard, at, end=window.end, groups_max=self._groups_max)
        if page.next > window.end:
            cause = "the next cursor passes the window's end"
        elif page.next < at:
            cause = "the next cursor goes back"
        elif page.next == at:
            cause = "no progress before the window's end"
        else:
            cause = ""
        if cause:
            raise DecodeError(cause, shard=window.shard, cursor=at)
        raw = loggroup.decompress(page.body, page.compression, page.raw_bytes, shard=window.shard, cursor=at)
        try:
            groups = sum(1 for _ in loggroup.groups(raw))
        except ValueError:
            raise DecodeError("not a LogGroupList", shard=window.shard, cursor=at) from None
        if groups != page.count:
            raise DecodeError(
                f"page has {groups} groups, the header says {page.count}", shard=window.shard, cursor=at
            )
        return replace(page, body=raw, compression="")
