"""What was asked of shards in one look, remembered."""

from sls_io.values.shard import Head, Shard
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient


class Heads:
    """Heads and receive times of one look at the shards, each asked for once.

    For verbs that show the same shards from several sides: twice the calls take twice the time, and two
    sides that were asked apart may contradict each other. Safe to use from many threads. What was refused
    is asked for again. Nothing may be given up by what is remembered here: that needs an answer of now.
    """

    def __init__(self, client: SlsClient) -> None:
        self._client = client
        self._heads: dict[Shard, Head] = {}
        self._times: dict[tuple[int, Cursor], int] = {}

    def head(self, shard: Shard) -> Head:
        """As `SlsClient.head`. A shard whose status has changed is asked again: its end moved until then."""
        if (found := self._heads.get(shard)) is None:
            found = self._heads[shard] = self._client.head(shard)
        return found

    def cursor_time_s(self, shard: int, cursor: Cursor) -> int:
        """As `SlsClient.cursor_time_s`: the group at a cursor keeps its receive time."""
        if (found := self._times.get((shard, cursor))) is None:
            found = self._times[shard, cursor] = self._client.cursor_time_s(shard, cursor)
        return found
