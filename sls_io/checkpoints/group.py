"""A consumer group of the service as a checkpoint store: for mirrors, clones and a person's reset.

Reading needs nothing. Writing does: the service takes UpdateCheckPoint without a consumer by force only
(`forceSuccess=true`; vendor documentation), and a forced one always wins: over the shard's holder, backwards,
and over a shard that was finished, which is then read again. So nothing is written unless the store was made
with `forced=True`, and then:

- each write first reads the group, and leaves a shard alone that somebody holds (`held`). The service does
  not compare and write as one step: who joins between the two is overwritten. Use it where nobody joins;
- a lower cursor is not written, which this process decides, and not the service;
- a freeze is kept by this object and no other: the service has none;
- nothing is forgotten here: the service forgets a shard when retention has taken it.

Live runs never use this: they publish as holders (`sls_io/coordination`).
"""

from collections.abc import Collection, Mapping

from sls_io.checkpoints.store import Change, Kept, Written, keep_further, put_back
from sls_io.values.errors import ConfigError, SlsError
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient


class GroupCheckpoints:
    """The checkpoints of consumer group `group`. `own`: a holder's name that is no stranger's."""

    def __init__(self, client: SlsClient, group: str, *, forced: bool = False, own: str = "") -> None:
        self._client, self._group, self._forced, self._own = client, group, forced, own
        self._frozen: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """The group and its logstore."""
        return f"group {self._group} of {self._client.service.full_name}"

    def read(self) -> Mapping[int, Kept]:
        """Every listed shard. Raises ServiceError (ConsumerGroupNotExist for no group) or TransportError."""
        return {
            shard: Kept(e.cursor, e.updated_us / 1e6, shard in self._frozen, e.holder)
            for shard, e in self._client.checkpoints(self._group).items()
        }

    def write(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        """See the head of this module. Raises ConfigError unless the store was made with `forced`."""
        return self._each(cursors, keep_further)

    def place(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        self._frozen |= frozenset(cursors)
        return self._each(cursors, put_back)

    def thaw(self, at: Mapping[int, Cursor | None]) -> None:
        self._frozen -= frozenset(at)

    def forget(self, shards: Collection[int]) -> frozenset[int]:
        """Nothing: the service forgets shards by itself."""
        return frozenset()

    # --- below

    def _each(self, cursors: Mapping[int, Cursor], change: Change) -> tuple[Written, ...]:
        if not self._forced:
            raise ConfigError(
                f"{self.name}: without a holder the service takes a checkpoint by force only, over whoever "
                "reads. Nothing was written: ask for forced writes, or let a holder publish"
            )
        if not cursors:
            return ()
        known = self.read()
        return tuple(self._one(s, c, known.get(s), change) for s, c in sorted(cursors.items()))

    def _one(self, shard: int, cursor: Cursor, known: Kept | None, change: Change) -> Written:
        """The rule is the store's own, applied to this one shard; then whoever holds it counts for more,
        since a forced checkpoint would be undone by their next one."""
        kept = known or Kept(None, frozen=shard in self._frozen)
        (written,) = change({shard: kept}, {shard: cursor}, kept.saved_s)
        if kept.holder not in ("", self._own) and written.fate != "failed":
            return Written(shard, "held", kept.cursor, f"{kept.holder!r} reads it: end that first")
        if written.fate == "sent":
            try:
                self._client.force_checkpoint(self._group, shard, cursor)
            except SlsError as error:
                return Written(shard, "failed", kept.cursor, str(error))
        return written
