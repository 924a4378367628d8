"""The service's consumer group decides: heartbeats in, shards out, checkpoints kept there.

What release really means. The service has no call that leaves a group, and a shard that is ours
(`already_alloc`) is not revoked by leaving it out of a heartbeat: it stays ours until
`timeout_s` after the last heartbeat. Only a shard that is being *taken* from us (`transfer`) goes
over to its next holder when a heartbeat leaves it out. So `release` sends one last heartbeat with
nothing held: shards others wait for are theirs at once, all others stay with our name until the
timeout. Holder names are the same for every run of a deployment, so the next run finds its shards
still its own when the timeout is longer than the schedule's interval; after that they are free.

The group is made if it is not there. One that is there keeps its timeout and order, whatever our
settings say: other members rely on them. `drift` says what differs, and the group's own timeout is
the one that counts for our clock.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from sls_io.coordination.coordinator import Published
from sls_io.coordination.heartbeat import Membership, renew_every_s
from sls_io.values.claim import Claim
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ClaimLost, ServiceError, SlsError, TransportError
from sls_io.values.settings import Group
from sls_io.values.window import Cursor
from sls_io.wire.client import GroupInfo, SlsClient


class ServerGroup:
    """Shards of `client`'s logstore, held through consumer group `group`.

    A heartbeat has a short deadline of its own (`group.heartbeat_s`): one that is not answered by then is
    sent anew. All else waits as the client does, since nobody asks it again. Whoever pulls beside the claim
    gives it a client of its own, so that a long pull cannot hold a heartbeat up.
    """

    def __init__(self, client: SlsClient, group: Group, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client, self._group, self._clock = client, group, clock
        self._beat = client.with_deadline(group.heartbeat_s)
        self._info: GroupInfo | None = None
        # Replaced as a whole, never changed in place: `renew` runs in a thread of its own.
        self._member = Membership()
        self._stored: dict[int, Cursor | None] | None = None

    @property
    def holder(self) -> str:
        """The name in the group."""
        return self._group.holder

    @property
    def renew_every_s(self) -> float:
        """Seconds between heartbeats; shorter than configured when the group's timeout asks for it."""
        return renew_every_s(self._group.heartbeat_s, self._timeout_s)

    @property
    def drift(self) -> tuple[str, ...]:
        """How the group differs from our settings, a phrase each; known once `claim` was called."""
        group = self._group
        found = self._info.drift(group) if self._info is not None else []
        return tuple(f"group {group.name!r}: {phrase}" for phrase in found)

    def claim(self) -> Claim:
        """Join and wait for shards: until two answers in a row agree, or patience ends.

        The second heartbeat follows the first at once, so a holder alone in its group waits for
        nobody. With nothing granted it beats every `renew_every_s` until patience ends, then
        raises ClaimLost. Called with no work under way: shards asked back are let go.

        Worked example: alone in its group, a holder is granted 0 to 3 by the first heartbeat and, listing
        these, by the second, too: two calls and no wait. With another member that hands over two of them, it
        asks every `renew_every_s` until an answer comes twice.
        """
        self._ensure()
        self._stored = None
        self._member = self._member.handed_over() if self._alive() else Membership()
        began_s, patient_until = self._clock.now(), self._clock.monotonic() + self._group.patience_s
        before: frozenset[int] | None = None
        while True:
            failure: TransportError | None = None
            try:
                self._join()
            except TransportError as error:
                failure = error
            held = frozenset() if failure else self._member.held
            if held and held == before:
                return self._claim()
            if held and before is None:
                before = held
                continue
            before = held or None
            if self._clock.monotonic() + self.renew_every_s > patient_until:
                if held:
                    return self._claim()
                raise failure or self._nothing_granted(began_s)
            self._clock.sleep(self.renew_every_s)

    def renew(self) -> Claim:
        """One heartbeat. See the contract; shards newly granted wait for the next `claim`.

        A heartbeat that was accepted proves nothing by itself: the process may have been stopped for longer
        than a timeout before it read the answer. So the clock is asked once more behind it.
        """
        if not self._alive():
            raise self._expired()
        try:
            self._send()
        except ClaimLost:
            self._member = Membership()
            raise
        except SlsError as error:
            if self._alive():
                raise
            raise self._expired() from error
        if not self._alive():
            # Accepted, but we were paused for longer than a timeout since: the shards may be gone.
            raise self._expired()
        return self._claim()

    def checkpoints(self) -> Mapping[int, Cursor | None]:
        """The group's checkpoints; raises when they cannot be read."""
        stored = {shard: entry.cursor for shard, entry in self._client.checkpoints(self._group.name).items()}
        self._stored = dict(stored)
        return stored

    def checkpoint(self, shard: int, cursor: Cursor) -> Published:
        """Publish as the shard's holder, after the stored ones were read once under this claim.

        An equal cursor is sent again: the service looks whether a read-only shard is finished only
        when a checkpoint comes, and a shard drained before its split would keep its children waiting.
        """
        if not self._alive():
            raise self._expired()
        if shard not in self._member.held:
            raise ClaimLost(f"shard {shard} is not held by {self.holder!r}: claim it first")
        if self._stored is None:
            self._stored = dict(self.checkpoints())
        stored = self._stored.get(shard)
        if stored is not None and stored > cursor:
            return "ahead"
        self._client.save_checkpoint(self._group.name, self.holder, shard, cursor)
        self._stored[shard] = cursor
        return "sent"

    def release(self) -> None:
        """One last heartbeat with nothing held, so that shards asked back are handed over now.

        Out of reach, or already dropped: the group's timeout does the same, later.
        """
        was, self._member = self._member, Membership()
        if not was.alive(self._clock.monotonic()):
            return
        try:
            self._beat.heartbeat(self._group.name, self.holder, ())
        except (ClaimLost, TransportError, ServiceError):
            return

    # --- below

    @property
    def _timeout_s(self) -> int:
        return self._info.timeout_s if self._info else self._group.timeout_s

    def _ensure(self) -> None:
        """Make the group, or take note of how it is."""
        name = self._group.name
        self._info = next((g for g in self._client.groups() if g.name == name), None)
        if self._info is not None:
            return
        # Two deployments may start at once: whoever is second finds the first one's settings.
        if self._client.create_group(self._group):
            self._info = GroupInfo(name, self._group.timeout_s, self._group.order)
        else:
            self._info = next((g for g in self._client.groups() if g.name == name), None)

    def _alive(self) -> bool:
        return self._member.alive(self._clock.monotonic())

    def _send(self) -> None:
        sent_s = self._clock.monotonic()
        granted = self._beat.heartbeat(self._group.name, self.holder, self._member.held)
        self._member = self._member.accepted(granted, sent_s=sent_s, timeout_s=self._timeout_s)

    def _join(self) -> None:
        """One heartbeat with no work under way: what is granted is held, what is asked back is not."""
        try:
            self._send()
        except ClaimLost:
            if not self._member.held:
                raise
            # Forgotten: the service restarted, or we were silent. It lets us in with nothing held.
            self._member = Membership()
            self._send()
        self._member = self._member.handed_over()

    def _claim(self) -> Claim:
        return Claim(self.holder, self._member.held, self._member.until_s)

    def _expired(self) -> ClaimLost:
        return ClaimLost(
            f"group {self._group.name!r}: no heartbeat of {self.holder!r} was accepted for "
            f"{self._timeout_s} s, so its shards count as lost. Claim again"
        )

    def _nothing_granted(self, began_s: float) -> ClaimLost:
        """Who has the shards, as far as checkpoints tell, until when at most, and what to do.

        Who had died before `began_s` is evicted one timeout after it; that needs nobody's help.
        """
        group = self._group.name
        try:
            entries = self._client.checkpoints(group).values()
            others = sorted({e.holder for e in entries} - {"", self.holder})
        except (TransportError, ServiceError):
            others = []
        by = f"by {', '.join(repr(o) for o in others)}" if others else "by other holders"
        since, until = _time(began_s), _time(began_s + self._timeout_s)
        return ClaimLost(
            f"group {group!r}: all its shards are held {by} since {since} UTC or longer. If that run has "
            f"ended, this ends by itself at {until} UTC at the latest, {self._timeout_s} s after its last "
            "heartbeat (the group's timeout): ask again then. If it runs, let it end, or use another group"
        )


def _time(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%H:%M:%S")
