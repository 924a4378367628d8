"""All shards read by each of many readers, with positions of its own: a broadcast.

    with logs.broadcast("audit", Path("audit.json")) as mine:
        for shard in mine.shards:
            for rows in mine.rows(shard):
                work_off(rows.batch)
                if rows.next is not None:
                    mine.checkpoint(shard, rows.next)

Nobody is asked for a shard and no consumer group is touched: any number of readers read the same logs, each
as far as its own store says. The checkpoint comes after the work, so a process that dies between the two
does that work again. Two processes under one reader's name read the same logs, too; the further position
stays.

A block has the shards that were listed at its begin, parents before their children, which have higher
numbers. A shard without a position begins where `rows` says.
"""

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Literal

from sls_io.checkpoints.policy import OutsidePolicy, begin
from sls_io.checkpoints.store import CheckpointStore
from sls_io.coordination.coordinator import Published
from sls_io.reader.edges import Edges
from sls_io.reader.rows import Extent, Rows
from sls_io.values.errors import ConfigError, StoreError
from sls_io.values.moments import Moment, place_of
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient


class Broadcast:
    """What `Reader.broadcast` gives; use it in one `with` block, from one thread. `outside`: what becomes of
    a position outside of its shard, see `checkpoints/policy.py`."""

    def __init__(
        self,
        client: SlsClient,
        store: CheckpointStore,
        read: Callable[[Extent], Iterator[Rows]],
        *,
        outside: OutsidePolicy = "stop",
    ) -> None:
        self._client, self._store, self._read, self._outside = client, store, read, outside
        self._edges = Edges(client)
        self._kept: dict[int, Cursor | None] | None = None

    def __enter__(self) -> "Broadcast":
        """Look where each shard was left. Raises CheckpointOutside, and what the store does."""
        heads = {shard.id: self._client.head(shard) for shard in self._client.shards()}
        for shard, head in heads.items():
            self._edges.saw(shard, head.begin, head.end)
        starts = begin(self._store, heads, policy=self._outside)
        self._kept = {shard: start.cursor if start else None for shard, start in sorted(starts.items())}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is held, so nothing is let go."""
        self._kept = None

    @property
    def shards(self) -> tuple[int, ...]:
        """All shards that were listed at the begin of the block, parents before children."""
        return tuple(self._positions)

    def checkpoints(self) -> Mapping[int, Cursor | None]:
        """Where this reader is in each shard; None where it has not begun."""
        return dict(self._positions)

    def rows(self, shard: int, *, first: Literal["begin", "end"] | Moment = "begin") -> Iterator[Rows]:
        """The rows of a shard from this reader's position to its end as it is now; without a position from
        `first`: the oldest or the newest log, or a receive time. Raises as `Extent.rows`."""
        known = self._position(shard)
        start = self._client.cursor_at(shard, place_of(first)) if known is None else known
        end = self._client.cursor_at(shard, "end")
        self._edges.saw(shard, start, end)
        yield from self._read(Extent(shard, start, end))

    def checkpoint(self, shard: int, cursor: Cursor) -> Published:
        """Keep that everything before `cursor` is worked off; "ahead" where another process under this name
        is further already.

        Raises as `Edges.check` for a wrong cursor, StoreError when it cannot be kept, or the shard was put
        elsewhere by a reset meanwhile: the next block goes on from there.
        """
        cursor = self._edges.check(shard, cursor, self._position(shard))
        (written,) = self._store.write({shard: cursor})
        if written.fate == "frozen":
            raise StoreError(
                f"{self._store.name}: shard {shard} was put at another position while it was read. Nothing "
                "was written: begin a new block, it goes on from there"
            )
        if written.fate not in ("sent", "ahead"):
            raise StoreError(f"{self._store.name}: the position of shard {shard} is not kept: {written.why}")
        self._positions[shard] = cursor if written.kept is None else written.kept
        return "sent" if written.fate == "sent" else "ahead"

    @property
    def _positions(self) -> dict[int, Cursor | None]:
        if self._kept is None:
            raise ConfigError("positions are not read yet: open the `with` block first")
        return self._kept

    def _position(self, shard: int) -> Cursor | None:
        if shard not in self._positions:
            names = ", ".join(map(str, self._positions)) or "none"
            raise ConfigError(f"no shard {shard!r} was listed at the begin of this block: there is {names}")
        return self._positions[shard]
