"""One window -> its pages, in order, one page in memory.

Rules:
- progress is judged by the next cursor, never by a count; it must advance and never pass the
  window's end, because what lies beyond belongs to another window;
- a page is yielded only when its size and its number of LogGroups are what its headers say. A page
  cut at a group's edge decodes cleanly, so nothing else would notice the missing groups;
- a page whose groups do not take all cursors up to the next one is pulled a second time, since the
  service may leave cursors out and may as well have left out groups: both must say the same;
- a page that is broken, short, or stands still is pulled again, a counted number of times with a
  growing pause; then the window ends before it (`stopped == "short"`). Nothing is skipped;
- calls keep the pace of the shard's read quota. Throttled all the same (others read the shard, too), or
  not answered, it waits and asks again, after the client did so several times: inside the deadline for a
  quota, a counted number of times for anything else. Then the window ends there, `throttled` or `failed`:
  what was read is as good as any other page and lands, the error is said;
- trouble on the way is told from content: what came twice with the same bytes, and the size and number
  that its headers say, is what was sent (`Page.confirmed`). The reader of a page hands back with `doubt`
  what it cannot read, once;
- frames between the groups that are broken the same way each time are the service's own. Then the page
  is pulled group by group: the one with the broken frame is a confirmed page alone, the others are whole;
- with a bound for pages, it begins with one group and asks for as many as fit by the page before. A page that
  is larger is pulled again with fewer groups; one of a single group is taken, however large it is;
- out of bytes or time, it ends at a page's edge. What has been yielded and not handed back with
  `retry` or `doubt` is proved: [window.begin, reached).

What says that the data is gone (CursorExpired, ShardGone) passes through.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, Protocol

from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import (
    CursorExpired,
    DecodeError,
    ServiceError,
    ShardGone,
    SlsError,
    Throttled,
    TransportError,
    TransportTimeout,
    printable,
)
from sls_io.values.settings import PAGE_GROUPS_MAX, SHARD_MB_PER_S
from sls_io.values.window import Cursor, Window
from sls_io.wire import loggroup
from sls_io.wire.pace import Pace
from sls_io.wire.page import Page

PAGE_TRIES_MAX = 3
THROTTLED_TRIES_MAX = 60
"""Where no deadline ends the waiting: each is several tries of the client already, minutes together."""
THROTTLED, FAILED = "throttled", "failed"
_PAUSE_S = 0.2
_GROWTH = 4
_THROTTLED_PAUSE_S = 2.0
_CAUSE_CHARS_MAX = 400
_STATUS_LASTING = range(400, 500)


class Pages(Protocol):
    """What a fetch needs of `SlsClient`."""

    def pull(self, shard: int, cursor: Cursor, *, end: Cursor | None = None, groups_max: int = ...) -> Page:
        """One page from `cursor`, never beyond `end`."""
        ...

    def cursor_at(self, shard: int, at: int | Literal["begin", "end"]) -> Cursor:
        """Cursor of `begin`, `end`, or a receive time in unix seconds."""
        ...


def _lasting(error: SlsError) -> bool:
    """Whether asking again would not change the answer: a refusal that does not mean "later"."""
    return isinstance(error, ServiceError) and error.status in _STATUS_LASTING


def told(error: SlsError) -> str:
    """An error in a line, with its kind."""
    return printable(f"{type(error).__name__}: {error}", _CAUSE_CHARS_MAX)


class Fetch:
    """Iterate once for the pages of `window`, bodies already decompressed.

    `bytes_max` is in raw bytes and the last page may pass it; `page_bytes_max`, too, is passed only by a page
    of one group; `deadline_s` is a moment of the clock's monotonic seconds. While iterating and after:

    reached  everything in [window.begin, reached) has been yielded
    stopped  "" at the window's end, else `bytes`, `time`, `quota` (time, most of it spent on keeping
             the pace), `short`, `throttled` or `failed`; "" also before the end of the iteration
    cause    why the last page was not taken, when `stopped` is one of the last three; never log content
    error    what the service or the connection said last, when `stopped` is `throttled` or `failed`
    pages, groups, raw_bytes  totals of what was yielded

    `pace` is shared by the windows that one reader reads one after the other.
    """

    def __init__(
        self,
        client: Pages,
        window: Window,
        *,
        bytes_max: int,
        deadline_s: float,
        groups_max: int = PAGE_GROUPS_MAX,
        page_bytes_max: int | None = None,
        pace: Pace | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.window = window
        self.reached: Cursor = window.begin
        self.stopped = ""
        self.cause = ""
        self.error: SlsError | None = None
        self.pages = self.groups = self.raw_bytes = 0
        self._client, self._clock = client, clock
        self._bytes_max, self._deadline_s, self._groups_max = bytes_max, deadline_s, groups_max
        self._page_bytes_max = page_bytes_max
        self._most = groups_max if page_bytes_max is None else 1
        self._pace = pace or Pace(SHARD_MB_PER_S, clock=clock)
        self._tries = self._refused = 0
        self._yielded: Page | None = None
        self._doubted: bytes | None = None
        self._unframed: tuple[bytes, int] = b"", 0
        self._narrow_until: Cursor = window.begin

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
            except (CursorExpired, ShardGone):
                raise
            except (TransportError, ServiceError) as error:
                self.stopped = self._unanswered(error)
                continue
            self.error, self.cause, self._refused = None, "", 0
            if page is None:  # the same place again, group by group
                continue
            self.pages, self.groups = self.pages + 1, self.groups + page.count
            self.raw_bytes, self.reached = self.raw_bytes + page.raw_bytes, page.next
            self._yielded = page
            yield page
            if self._yielded is page:  # it was not handed back
                self._yielded, self._tries, self._doubted = None, 0, None
                self._ask_for(page, _GROWTH * self._most)

    def retry(self, page: Page, error: DecodeError) -> None:
        """Hand back the page just yielded: it did not decode. The next one is the same, pulled
        again, or the iteration ends before it. Nothing of the page may be kept."""
        self._take_back(page)
        self._again(error)

    def doubt(self, page: Page) -> None:
        """Hand back the page just yielded: something in it cannot be read. It is pulled again, and comes
        confirmed when its bytes are the same. Nothing of the page may be kept.

        Worked example: a page of 3 groups has bytes that nobody can read. It is handed back; the second
        pull brings the same bytes and comes `confirmed`, so they are what was sent, and land with their
        cause. Had the second pull brought four groups with the same first three, the page would be doubted
        once more; other bytes count as a broken page.
        """
        self._take_back(page)
        before, self._doubted = self._doubted, page.body
        # The service may cut a page elsewhere each time; more of the same is no other page.
        if before is not None and not page.body.startswith(before):
            self._again(DecodeError("other bytes with each pull", shard=page.shard, cursor=page.cursor))

    def _take_back(self, page: Page) -> None:
        if self._yielded is not page:
            raise ValueError("only the page just yielded can be handed back")
        self._yielded = None
        self.pages, self.groups = self.pages - 1, self.groups - page.count
        self.raw_bytes, self.reached = self.raw_bytes - page.raw_bytes, page.cursor

    def proved(self) -> bool:
        """Whether the shard still begins at or before the window, asked after the last page.

        Retention may take groups while we read: a page then begins later than asked and nothing
        in it says so. If the shard's begin cursor is past the window's now, we cannot know that
        this did not happen, so the window must not be landed. Asked again like a page; raises what the
        last try did.
        """
        self.error, self._refused = None, 0
        while True:
            try:
                return self._client.cursor_at(self.window.shard, "begin") <= self.window.begin
            except (CursorExpired, ShardGone):
                raise
            except (TransportError, ServiceError) as error:
                self._note(error)
                if _lasting(error) or self._refused >= PAGE_TRIES_MAX:
                    raise
                self._pause()

    def _exhausted(self) -> str:
        # Also when the pace would send the next call too late.
        if max(self._clock.monotonic(), self._pace.free_s) >= self._deadline_s:
            if self.error is not None:
                return self._kind
            return "quota" if self._pace.bound else "time"
        return "bytes" if self.raw_bytes >= self._bytes_max else ""

    def _unanswered(self, error: TransportError | ServiceError) -> str:
        """Why the fetch ends here; "" after a pause, when the caller is to ask again.

        Story: four readers share a quota that feeds one. Each is refused for as long as the client
        tries; were that the end of the task, all that the four had read would be thrown away.

        Worked example: a quota refuses for ten minutes and the deadline is a quarter of an hour off: after
        each refusal, which already took the client's six tries, 1 to 2 s pass, and the window goes on at
        the same cursor. A 500 that stays is asked about three times, 0.1 to 0.4 s apart; a 404 once.
        """
        late = self._clock.monotonic() >= self._deadline_s
        if late and isinstance(error, TransportTimeout):
            return "time"
        self._note(error)
        tries_max = THROTTLED_TRIES_MAX if self._kind == THROTTLED else PAGE_TRIES_MAX
        if late or _lasting(error) or self._refused >= tries_max:
            return self._kind
        self._pause()
        return ""

    def _note(self, error: TransportError | ServiceError) -> None:
        self._refused += 1
        self.error, self.cause = error, told(error)

    @property
    def _kind(self) -> str:
        return THROTTLED if isinstance(self.error, Throttled) else FAILED

    def _pause(self) -> None:
        longest_s = _THROTTLED_PAUSE_S if self._kind == THROTTLED else _PAUSE_S * self._refused
        self._clock.sleep(longest_s * random.uniform(0.5, 1.0))

    def _again(self, error: DecodeError) -> None:
        self._tries += 1
        self.cause = error.cause
        if self._tries >= PAGE_TRIES_MAX:
            self.stopped = "short"
        else:
            self._clock.sleep(_PAUSE_S * self._tries)

    def _ask_for(self, page: Page, most: int) -> None:
        """As many groups with the next call as fit, if they are like those of `page`; at most `most`.

        Worked example: the bound is 8 MB. The first call asks for one group and gets one of 2 MB: four fit,
        and four times as many as before are asked for at most, so four. These take 4 MB: the next call asks
        for 8. Had they taken 10 MB, the page would be left and pulled again with 3.
        """
        if self._page_bytes_max is not None and page.count and page.raw_bytes:
            fitting = page.count * self._page_bytes_max // page.raw_bytes
            self._most = max(1, min(self._groups_max, most, fitting))

    def _pull(self) -> Page | None:
        """The next page, checked and decompressed; None when it must be pulled with fewer groups. Raises
        DecodeError when it must be pulled again.

        The checks stand in the order of what they cost: cursors first, of numbers alone; then the size,
        before anything is unpacked; then the frames, which are counted without being decoded; last a second
        pull, where cursors were left out. A page that fails one is never yielded, and the cursor stays
        where it was.
        """
        window, at = self.window, self.reached
        most = 1 if at < self._narrow_until else self._most
        page = self._paced_pull(at, most)
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
        if min(most, page.count) > 1 and page.raw_bytes > (self._page_bytes_max or page.raw_bytes):
            self._ask_for(page, most - 1)
            return None
        raw = loggroup.decompress(page.body, page.compression, page.raw_bytes, shard=window.shard, cursor=at)
        page = replace(page, body=raw, compression="")
        try:
            groups = sum(1 for _ in loggroup.groups(raw))
        except ValueError:
            return self._without_frames(page)
        if groups != page.count:
            raise DecodeError(
                f"page has {groups} groups, the header says {page.count}", shard=window.shard, cursor=at
            )
        if page.count != page.next - at:
            self._pull_again(page, most)
        confirmed = self._doubted is not None and self._doubted.startswith(raw)
        return replace(page, confirmed=True) if confirmed else page

    def _without_frames(self, page: Page) -> Page | None:
        """A page whose frames are broken. Raises DecodeError until it came the same as often as a page is
        pulled.

        Worked example: of 100 groups from cursor 500 one has a broken frame. The page comes three times
        with the same bytes: so the service has it like that. From 500 to the page's next cursor one group
        is asked for at a time: 99 pages are whole, and one, the broken one, is given confirmed and becomes
        one row.
        """
        body, times = self._unframed
        times = times + 1 if body == page.body else 1
        self._unframed = page.body, times
        if times < PAGE_TRIES_MAX or not page.count:
            raise DecodeError("not a LogGroupList", shard=page.shard, cursor=page.cursor)
        self._unframed, self._tries = (b"", 0), 0
        if page.count > 1 and page.cursor >= self._narrow_until:
            self._narrow_until = page.next
            return None
        if page.count > 1:  # more than one although one was asked for: the headers cannot be believed
            self._tries = PAGE_TRIES_MAX
            raise DecodeError("not a LogGroupList", shard=page.shard, cursor=page.cursor)
        return replace(page, confirmed=True)

    def _pull_again(self, page: Page, most: int) -> None:
        """Raises DecodeError unless a second pull from there says the same as `page`.

        A jump of the service and a page that lost groups look alike: both have fewer groups than cursors. A
        jump is the same each time. What was lost on the way is most often there with the second pull, so
        the two differ and neither is taken.
        """
        second = self._paced_pull(page.cursor, most)
        if _said(second) != _said(page):
            raise DecodeError(
                "pulled twice, the page ends elsewhere or holds another number of groups",
                shard=page.shard,
                cursor=page.cursor,
            )

    def _paced_pull(self, at: Cursor, most: int) -> Page:
        self._pace.wait()
        page = self._client.pull(self.window.shard, at, end=self.window.end, groups_max=most)
        self._pace.took(page.raw_bytes)
        return page


def _said(page: Page) -> tuple[Cursor, int, int, Cursor | None]:
    return page.next, page.count, page.raw_bytes, page.last
