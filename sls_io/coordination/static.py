"""Shards named by the caller: backfill, replay, tests.

Nobody else is asked, so nobody else is disturbed: a static holder joins no group, publishes no
checkpoint and can be beside any number of others. What it lands is fenced by the table.
"""

from collections.abc import Iterable, Mapping

from sls_io.coordination.coordinator import Published
from sls_io.values.claim import Claim
from sls_io.values.errors import ConfigError
from sls_io.values.window import Cursor

HOLDER = "static"
_RENEW_EVERY_S = 3600.0


class Static:
    """Holds exactly `shards`, for ever, by declaration."""

    holder = HOLDER
    renew_every_s = _RENEW_EVERY_S

    def __init__(self, shards: Iterable[int]) -> None:
        self._claim = Claim(HOLDER, frozenset(shards))
        if not self._claim.shards:
            raise ConfigError("a static holder needs at least one shard: name the shards to read")

    def claim(self) -> Claim:
        """The shards it was made with; never waits."""
        return self._claim

    def renew(self) -> Claim:
        """The same claim: nobody can take it."""
        return self._claim

    def checkpoints(self) -> Mapping[int, Cursor | None]:
        """Nothing: what has landed is in the table's ledger."""
        return {}

    def checkpoint(self, shard: int, cursor: Cursor) -> Published:
        """Refused: a backfill that moved a live run's checkpoint would make it skip."""
        raise ConfigError(
            f"shard {shard}: a static holder never moves a checkpoint; keep the position yourself, as "
            "`broadcast` does, or hold the shard by a consumer group"
        )

    def release(self) -> None:
        """Nothing to let go."""
