"""Heartbeat algebra: what we hold, what the service grants, and when to stop by our own clock.

Values in, values out. With H = the shards we list in a heartbeat (held: worked on, or still to be
checkpointed) and G = the shards in its answer (granted):

    keep     H & G   go on
    give up  H - G   wanted for somebody else: finish or drop the work, then stop listing it.
                     As long as it is listed it is *not* handed over
    start    G - H   ours to begin; not listing it yet revokes nothing

Time: the service drops a holder `timeout_s` after it *received* a heartbeat. We cannot see that
moment, but it is not before the moment we sent it, so a claim that ends `timeout_s` after the
sending of the last accepted heartbeat never outlives the service's view of it.
Source: the vendor's consumer README (heartbeat rules), reference clients in three languages.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Membership:
    """What a holder knows of its place in a group.

    held      shards it lists in heartbeats
    asked     those of them that the service wants for somebody else
    offered   shards granted that it has not begun
    until_s   monotonic second at which all this is over unless a heartbeat is accepted
    """

    held: frozenset[int] = NOTHING
    asked: frozenset[int] = NOTHING
    offered: frozenset[int] = NOTHING
    until_s: float = float("-inf")

    def alive(self, monotonic_s: float) -> bool:
        """Whether the membership still stands by our own clock."""
        return monotonic_s < self.until_s

    def accepted(self, granted: Iterable[int], *, sent_s: float, timeout_s: float) -> "Membership":
        """After an accepted heartbeat that was sent at `sent_s`. Nothing is begun or handed over yet."""
        given = frozenset(granted)
        # An answer that was overtaken by a later heartbeat must not shorten what that one won.
        until_s = max(self.until_s, sent_s + timeout_s)
        return replace(self, asked=self.held - given, offered=given - self.held, until_s=until_s)

    def handed_over(self) -> "Membership":
        """With no work under way: what is asked for is let go, what is offered is taken."""
        return replace(self, held=(self.held - self.asked) | self.offered, asked=NOTHING, offered=NOTHING)


def renew_every_s(heartbeat_s: float, timeout_s: float) -> float:
    """Seconds between heartbeats: as configured, but two may be lost before `timeout_s` is over.

    The group may be somebody else's making, with a shorter timeout than our settings expect.
    """
    return min(heartbeat_s, timeout_s / 3)
