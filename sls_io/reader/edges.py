"""What the service has of each shard, as far as it was asked: a reader's checkpoint must lie in there.

A service takes any number for a checkpoint, and whoever goes on from one outside of the shard reads nothing,
or what was skipped. So a wrong one is refused before it is sent. The service is asked only for a cursor that
does not lie in what is known already: what was just read does.
"""

from operator import index
from typing import SupportsIndex

from sls_io.values.errors import CheckpointOutside, ConfigError
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient


class Edges:
    """Begin and end of shards, remembered. For one thread."""

    def __init__(self, client: SlsClient) -> None:
        self._client = client
        self._seen: dict[int, tuple[Cursor, Cursor]] = {}

    def saw(self, shard: int, begin: Cursor, end: Cursor) -> None:
        """The service has [begin, end) of `shard`."""
        self._seen[shard] = begin, end

    def check(self, shard: int, given: object, kept: Cursor | None) -> Cursor:
        """The checkpoint as a cursor, unless it cannot be meant; `kept` is the one that there is, and may be
        said again. Numbers of other libraries are numbers, too.

        Raises ConfigError for what is no cursor, or lies behind `kept`; CheckpointOutside for one outside of
        its shard.

        What was just read lies in the last page's edges, so this asks the service nothing in a loop that only
        goes on.
        """
        if not isinstance(given, SupportsIndex) or isinstance(given, bool):
            raise ConfigError(
                f"shard {shard}: a checkpoint is a cursor, like `Rows.next`, not a {type(given).__name__}; "
                "while that is None, more rows of the page follow"
            )
        cursor = Cursor(index(given))
        if cursor == kept:
            return cursor
        if kept is not None and cursor < kept:
            raise ConfigError(
                f"shard {shard}: the checkpoint {cursor} lies before {kept}, which is kept already: a reader "
                "only goes forward. Nothing was written"
            )
        begin, end = self._seen.get(shard, (Cursor(0), Cursor(-1)))
        if not begin <= cursor <= end:
            begin, end = self._client.cursor_at(shard, "begin"), self._client.cursor_at(shard, "end")
            self.saw(shard, begin, end)
        if not begin <= cursor <= end:
            raise CheckpointOutside(
                f"shard {shard}: the checkpoint {cursor} lies outside of what the service has, {begin} to "
                f"{end}. Nothing was written; `Rows.next` is a cursor that can be said",
                shard=shard,
            )
        return cursor
