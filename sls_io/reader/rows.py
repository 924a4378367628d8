"""Cursors [begin, end) of a shard -> pages, or rows in Arrow batches, receive hour by receive hour.

Pages are fetched, checked and decoded by what a landing uses (`fetch.py`, `decoding/`). A landing stops
where it has to and keeps what it has proved; whoever reads from here has the rows already, so all that
would make them incomplete is raised.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sls_io.decoding.decode import Decoder, PagePart
from sls_io.decoding.readings import readings
from sls_io.planning.survey import next_span
from sls_io.planning.values import Span
from sls_io.values.clock import Clock
from sls_io.values.errors import CursorExpired, DecodeError, ServiceError
from sls_io.values.settings import PAGE_GROUPS_MAX
from sls_io.values.window import Cursor, Window
from sls_io.wire.client import SlsClient
from sls_io.wire.fetch import Fetch
from sls_io.wire.pace import Pace
from sls_io.wire.page import Page

_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one page of `shard`, in order.

    batch    the columns of the landed table: the system's, the asked for, `__rest__`, `__error__`, `__raw__`
    next     the cursor behind the page when its last rows are in this batch: what a checkpoint may say once
             they are worked off. None while more rows of the page follow
    forward  cursors were counted forward and may be off, see `Decoded`
    """

    batch: pa.RecordBatch
    shard: int
    next: Cursor | None
    forward: bool = False


@dataclass(frozen=True)
class Extent:
    """The cursors [begin, end) of one shard; begin may be the end."""

    shard: int
    begin: Cursor
    end: Cursor

    def spans(self, client: SlsClient) -> Iterator[Span]:
        """The parts of it, one a receive hour that holds data.

        Raises CursorExpired when retention took its beginning, ServiceError when cursors and receive times
        contradict each other.
        """
        # Every group of it was received before now.
        now_s = int(client.now_s())
        at = self.begin
        while at < self.end:
            span = next_span(client, self.shard, at, until=self.end, until_s=now_s)
            if span is None:
                raise ServiceError(
                    "BadResponse",
                    f"shard {self.shard}: cursors and receive times contradict each other",
                    hint="Ask again later; a landing leaves such a shard alone, too",
                )
            yield span
            at = span.end

    def pages(
        self, client: SlsClient, *, pace: Pace, clock: Clock, groups_max: int = PAGE_GROUPS_MAX
    ) -> Iterator[Page]:
        """Its pages, bodies decompressed. Raises as `_fetches`."""
        for fetch in self._fetches(client, pace, clock, groups_max):
            yield from fetch

    def rows(
        self,
        client: SlsClient,
        decoder: Decoder,
        *,
        pace: Pace,
        clock: Clock,
        groups_max: int = PAGE_GROUPS_MAX,
    ) -> Iterator[Rows]:
        """Its rows; a page without a log is an empty batch, for it moves the cursor. Raises as `_fetches`.

        A page may be many parts. Only the last one has `next`, so a reader can keep a checkpoint between
        pages and not within one, where rows of the same page are still to come.
        """
        for fetch in self._fetches(client, pace, clock, groups_max):
            for page, reading in readings(fetch, decoder):
                last: PagePart | None = None
                for part in reading.parts(fetch.window.hour):
                    if last is not None:
                        yield Rows(last.batch, self.shard, None, reading.forward)
                    last = part
                batch = pa.RecordBatch.from_pylist([], decoder.schema) if last is None else last.batch
                yield Rows(batch, self.shard, page.next, reading.forward)

    def _fetches(self, client: SlsClient, pace: Pace, clock: Clock, groups_max: int) -> Iterator[Fetch]:
        """A fetch a receive hour, to be iterated to its end.

        Raises what the service or the connection said last when a page does not come, DecodeError when it
        comes broken each time, and CursorExpired when retention overtook what was read: then logs of that
        hour may be missing.
        """
        for span in self.spans(client):
            window = Window(self.shard, span.begin, span.end, span.hour)
            fetch = Fetch(
                client,
                window,
                bytes_max=_UNLIMITED,
                deadline_s=float("inf"),
                groups_max=groups_max,
                pace=pace,
                clock=clock,
            )
            yield fetch
            if fetch.stopped:
                raise fetch.error or DecodeError(fetch.cause, shard=self.shard, cursor=fetch.reached)
            if not fetch.proved():
                raise CursorExpired(
                    "Overtaken",
                    f"shard {self.shard}: retention reached cursor {window.begin} while it was read",
                    hint="Logs of that hour may be missing: read again from the shard's begin cursor",
                )
