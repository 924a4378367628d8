"""Shards held while a `with` block works on them: claimed, renewed beside the work, let go at its end.

    with logs.hold("reports") as held:
        for shard in sorted(held.shards):
            for rows in held.rows(shard):
                work_off(rows.batch)
                if rows.next is not None:
                    held.checkpoint(shard, rows.next)

The checkpoint comes after the work. A process that dies between the two does that work again: what must
not be done twice is kept together with the cursor, as a landing does it. A block has the shards that its
claim brought; ask for others by a new block, which costs one heartbeat.
"""

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Literal

from sls_io.coordination.coordinator import Coordinator, Published
from sls_io.coordination.renewal import Renewal
from sls_io.reader.edges import Edges
from sls_io.reader.rows import Extent, Rows
from sls_io.values.claim import Claim
from sls_io.values.clock import Clock
from sls_io.values.errors import ClaimLost
from sls_io.values.moments import Moment, place_of
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient


class Held:
    """What `Reader.hold` gives; use it in one `with` block, from one thread.

    `read` gives the rows of an extent. `lost` hears once, from the thread of the heartbeats, why the claim
    went away. `closing` is called at the end, whatever happened.
    """

    def __init__(
        self,
        client: SlsClient,
        coordinator: Coordinator,
        read: Callable[[Extent], Iterator[Rows]],
        *,
        clock: Clock,
        lost: Callable[[str], None] | None = None,
        closing: Callable[[], None] | None = None,
    ) -> None:
        self._client, self._coordinator, self._read, self._clock = client, coordinator, read, clock
        self._heard, self._closing = lost, closing
        self._why = ""
        self._renewal: Renewal | None = None
        self._published: dict[int, Cursor | None] | None = None
        self._edges = Edges(client)

    def __enter__(self) -> "Held":
        """Claim shards and begin to renew. Raises as `Coordinator.claim` does."""
        try:
            claim = self._coordinator.claim()
        except BaseException:
            self._close()
            raise
        self._renewal = Renewal(self._coordinator, claim, clock=self._clock, lost=self._lost)
        self._renewal.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go. Raises ClaimLost when the claim went away while the block worked and nothing else was
        raised: whoever takes its end for success would not know that another had the shards, too."""
        held = self.valid
        if self._renewal is not None:
            self._renewal.stop()
        try:
            self._coordinator.release()
        finally:
            self._close()
        if error is None and not held:
            raise self._gone()

    @property
    def holder(self) -> str:
        """The name the shards are held under."""
        return self._coordinator.holder

    @property
    def shards(self) -> frozenset[int]:
        """The shards that are held."""
        return self._claim.shards

    @property
    def valid(self) -> bool:
        """Whether they still are: the claim was not taken away and is not over by our own clock."""
        return self._renewal is not None and self._renewal.valid

    def check(self) -> None:
        """Raises ClaimLost, with the reason, when the shards are not held any more."""
        if not self.valid:
            raise self._gone()

    def checkpoints(self) -> Mapping[int, Cursor | None]:
        """What is published of every shard; read once. Raises as `Coordinator.checkpoints` does."""
        if self._published is None:
            self._published = dict(self._coordinator.checkpoints())
        return dict(self._published)

    def begin(self, shard: int, *, first: Literal["begin", "end"] | Moment = "begin") -> Cursor:
        """Where `rows` begins: at the shard's checkpoint, without one at `first`."""
        known = self.checkpoints().get(shard)
        return self._client.cursor_at(shard, place_of(first)) if known is None else known

    def rows(
        self, shard: int, *, first: Literal["begin", "end"] | Moment = "begin", at: Cursor | None = None
    ) -> Iterator[Rows]:
        """The rows of a held shard from its checkpoint to its end as it is now; without a checkpoint from
        `first`: the oldest or the newest log, or a receive time. With `at` from that cursor, whatever is
        published: where the same reader goes on.

        Raises ClaimLost before it gives anything that is not held any more, CursorExpired when retention
        took what the checkpoint points at, else as `Extent.rows`.
        """
        self._check(shard)
        known = self.checkpoints().get(shard)
        begin = self.begin(shard, first=first) if at is None else at
        end = self._client.cursor_at(shard, "end")
        if at is None and known is not None and begin >= end:
            # A shard drained before it was split: the service calls it over, and gives its children to
            # somebody, only when a checkpoint comes.
            self.checkpoint(shard, known)
        self._edges.saw(shard, begin, end)
        for rows in self._read(Extent(shard, begin, end)):
            self._check(shard)
            yield rows

    def checkpoint(self, shard: int, cursor: Cursor) -> Published:
        """Publish that everything before `cursor` is worked off; `Rows.next` is such a cursor.

        Raises ClaimLost when the shard is not held any more: then another may have begun where the last
        checkpoint was. Raises as `Edges.check` for a wrong cursor, and sends nothing then.
        """
        self._check(shard)
        cursor = self._edges.check(shard, cursor, self.checkpoints().get(shard))
        published = self._coordinator.checkpoint(shard, cursor)
        if self._published is not None and published == "sent":
            self._published[shard] = cursor
        return published

    @property
    def _claim(self) -> Claim:
        if self._renewal is None:
            raise ClaimLost("nothing is held yet: open the `with` block first")
        return self._renewal.claim

    def _check(self, shard: int) -> None:
        self.check()
        if shard not in self.shards:
            raise ClaimLost(f"shard {shard!r} is not held by {self.holder!r}: it has {sorted(self.shards)}")

    def _lost(self, why: str) -> None:
        self._why = why
        if self._heard is not None:
            self._heard(why)

    def _gone(self) -> ClaimLost:
        return ClaimLost(
            self._why
            or f"the claim of {self.holder!r} is over: no heartbeat was answered in time. Claim again"
        )

    def _close(self) -> None:
        if self._closing is not None:
            self._closing()
