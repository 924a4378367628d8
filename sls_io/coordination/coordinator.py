"""The contract of everything that decides who reads which shard.

    claim        join, wait for shards            -> Claim, or ClaimLost: others have them all
    renew        one sign of life beside the work -> Claim, or ClaimLost: stop starting anything
    checkpoints  what is published, per shard     -> read, never guessed: a failed read raises
    checkpoint   publish one shard's frontier     -> only as its holder, never by force, never back
    release      after the last checkpoint        -> what others wait for is theirs

A claim avoids wasted work and protects no data: a holder can be paused between a check and the
act, so the fence is in the table's commit. One contract suite runs over all coordinators.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from sls_io.values.claim import Claim
from sls_io.values.window import Cursor

Published = Literal["sent", "ahead"]
"""What became of a checkpoint: sent, or not needed since the stored one is already beyond it."""


class Coordinator(Protocol):
    """Holds shards for `holder`. `renew` may run in another thread than the rest, and `checkpoint` in
    several, each for another shard; nothing else may."""

    @property
    def holder(self) -> str:
        """The name shards are held under: the same for every run of a deployment."""
        ...

    @property
    def renew_every_s(self) -> float:
        """Seconds between two calls of `renew`, at most."""
        ...

    def claim(self) -> Claim:
        """Join and wait for shards, no longer than the coordinator's patience.

        Raises ClaimLost, naming who has them, when there are none to be had; ConfigError when
        waiting could not help.
        """
        ...

    def renew(self) -> Claim:
        """Say that the holder lives. The claim's time counts from when this was *sent*.

        Shards that the service wants for somebody else stay in the claim: they are not handed over
        before `release` or the next `claim`. Raises ClaimLost when time or service say that the
        claim is gone; a TransportError leaves the claim standing until its time is over.
        """
        ...

    def checkpoints(self) -> Mapping[int, Cursor | None]:
        """The published cursor of every shard the coordinator knows; None where there is none yet."""
        ...

    def checkpoint(self, shard: int, cursor: Cursor) -> Published:
        """Publish `cursor` for a held shard; an equal one is sent again, a lower one is not.

        Raises ClaimLost when the shard is not held (any more).
        """
        ...

    def release(self) -> None:
        """Say that no shard is worked on any more. Never raises for a service out of reach."""
        ...
