"""Leases in a database decide: rows that are renewed, expire and are taken, checkpoints in the same rows.

What rows mean and what is taken stands in `lease.py`, the statements in `lease_store.py`; here is the order
of things, the clock and the patience.

    claim    a sign of life; what is under our own name is renewed at once, without waiting; then one round
             of taking: free and expired leases, then those of the fullest holders
    renew    a new id for each lease, a look, and the shards that were taken a timeout ago are begun
    release  what another has taken is handed over now; the rest is free, with our name on it

Short runs. A run that ends lets go of its leases and leaves its name on them. Whoever has the fewest may take
some of them, and begins at once since nobody works on them; the others stay for the next run of the same
name, which takes them back without waiting. A run that is killed leaves leases that nobody renews: the next
one of its name renews them and goes on. So a run waits in three cases only: nothing is free for it; all it
got was taken from somebody who works on it, who has one timeout to save its checkpoints; or somebody gave no
sign of life since our run before and for a timeout, then it waits for two renewals, until that one shows
itself or is given up. Where one wrong clock has put the stamps ahead of ours by more than a timeout, it waits
for a whole timeout in the last two cases, although it has shards to work on. What is taken while our run
already has shards to work on is begun by a later run: a run does not wait for more work. For that it keeps
its stamp of the taking, so that the timeout passes between runs, too. As with the service's group, a holder
between its runs keeps its shards while the group's timeout is longer than the schedule's interval.

Long runs take again with each `claim`, from living holders every second timeout at most.

No answer. After a change whose answer was lost, the rows are looked at, and only they say what happened. A
database that is away ends the claims of all, by their own clocks, and nobody takes anything: what could not
be looked at was not seen to be silent. When it is back, each goes on with the leases under its name.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Self

from sls_io.coordination import lease as leases
from sls_io.coordination.assignors import Assignor, named
from sls_io.coordination.coordinator import Published
from sls_io.coordination.database import Database
from sls_io.coordination.lease import HeldLeases, Lease, Terms, View, Watch
from sls_io.coordination.lease_store import LeaseStore, SqlLeases
from sls_io.values.claim import Claim
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ClaimLost, InvariantBroken, SlsError, TransportError, printable
from sls_io.values.settings import Group
from sls_io.values.window import Cursor

_ID_BITS = 62


class SqlLease:
    """Shards held through leases in `store`, for `group`'s holder, with `group`'s times.

    `shards` says which there are and what each weighs, 0: it is closed, None: what its row says (`weigh`); it
    is asked at each claim. `assignor` says who gets which, see `assignors.py`. All workers of a group need
    the same of both, and the same timeout.
    `new_id` makes lease ids: any positive number of at most 62 bits that no other process makes.
    """

    def __init__(
        self,
        store: LeaseStore,
        group: Group,
        shards: Callable[[], Mapping[int, int | None]],
        *,
        assignor: Assignor | str = "sticky",
        clock: Clock = SYSTEM_CLOCK,
        new_id: Callable[[], int] = lambda: secrets.randbits(_ID_BITS) + 1,
    ) -> None:
        self._store, self._group, self._shards, self._clock = store, group, shards, clock
        chosen = named(assignor) if isinstance(assignor, str) else assignor
        self._terms, self._new_id = Terms(group.timeout_s, group.heartbeat_s, chosen), new_id
        self._given: Mapping[int, int | None] = {}
        self._measured: Mapping[int, int] = {}
        self._watch = Watch()
        # Replaced as a whole, never changed in place: `renew` runs in a thread of its own.
        self._held = HeldLeases()
        self._lost: dict[int, float] = {}
        self._view = View()
        self._prepared = self._carried = False
        self._took_s = float("-inf")
        self._refused: TransportError | None = None

    @classmethod
    def at(
        cls,
        address: str,
        group: Group,
        shards: Callable[[], Mapping[int, int | None]],
        *,
        signature: str,
        assignor: Assignor | str = "sticky",
        clock: Clock = SYSTEM_CLOCK,
    ) -> Self:
        """Over the database at `address`; `signature` names the logstore, the same for all its workers.

        Raises ConfigError when the address is none, or names a driver that is not there.
        """
        database = Database(address, deadline_s=group.heartbeat_s)
        store = SqlLeases(database, group=group.name, signature=signature)
        return cls(store, group, shards, assignor=assignor, clock=clock)

    @property
    def holder(self) -> str:
        """The name that leases are held under."""
        return self._group.holder

    @property
    def renew_every_s(self) -> float:
        """Seconds between renewals: as configured, but five in a timeout."""
        return self._terms.renew_every_s

    @property
    def working(self) -> frozenset[int]:
        """The shards that may be worked on at this moment, by our own clock and the last look."""
        return self._held.working(self._clock.monotonic())

    def look(self) -> View:
        """All leases of the group as they are, for people; nothing is taken, and nobody joins. Tables of an
        earlier release are brought up to date, where there are none they are not made."""
        if not self._prepared and not self._store.there():
            return View()
        self._prepare()
        return self._store.read()

    def close(self) -> None:
        """Let go of connections; the next call makes new ones."""
        self._store.close()

    def claim(self) -> Claim:
        """Join, and take what is ours to take. See the head of this module for when this waits.

        At most for the group's `patience_s`, or, where it has nothing to work on and took something, for the
        timeout after which that may be begun. Called with no work under way: shards that another has taken
        are let go. Raises ClaimLost, naming who has the shards, when there are none to be had.

        Each round looks, renews, takes and begins. It is enough once there is a shard to work on and nobody
        is left who may yet show itself. A round that was not answered is one that brought nothing: the error
        is raised only where patience ends with it.
        """
        began_s, joined = self._clock.monotonic(), False
        round_s = began_s
        while True:
            failure: TransportError | None = None
            try:
                if not joined:
                    self._prepare()
                    self._given = self._shards()
                view = self._look() if joined else self._joined()
                joined = True
                round_s = self._clock.monotonic()
                view = self._round(view, round_s)
            except TransportError as error:
                failure = error
            now_s = self._clock.monotonic()
            held = self._held.working(now_s)
            # As of the round that took: whoever is given up since is taken by the next one.
            missing = self._missing(round_s)
            if held and not missing and failure is None:
                return self._claim()
            pause_s = self._pause_s()
            if now_s + pause_s > began_s + self._patience_s(joined and bool(self._held.waiting or missing)):
                if held and joined:
                    return self._claim()
                raise failure or self._refused or self._nothing_to_be_had(self._view)
            self._clock.sleep(pause_s)

    def _missing(self, at_s: float) -> bool:
        """Whether to wait on: somebody may yet show itself, or this run must begin what it took.

        A later run would begin it once the stamp of the taking is old. While stamps are ahead, none is.

        Story: `at_s` was the moment after the round. On a busy machine a holder that was gone came to be
        given up in between: the round had not taken its shards, and nobody was missing any more. The claim
        ended without them, and only the next run had them.
        """
        if leases.missing(self._view, self._watch, at_s, self._terms):
            return True
        return bool(self._held.waiting) and self._view.ahead(self._clock.now(), self._terms.timeout_s)

    def _patience_s(self, coming: bool) -> float:
        """How long a claim is waited for; until a timeout is over where shards are `coming` with it."""
        if not coming:
            return self._group.patience_s
        return max(self._group.patience_s, self._terms.timeout_s + 2 * self.renew_every_s)

    def renew(self) -> Claim:
        """One renewal; see the contract. A shard that another has taken stays in the claim for what is left
        of its timeout, and one that was taken from another joins it after one."""
        if not self.working:
            raise self._expired()
        before = self._held.owned
        try:
            view = self._beat()
        except SlsError as error:
            if self.working:
                raise
            raise self._expired() from error
        if not self.working:
            raise self._gone(view, before)
        return self._claim()

    def checkpoints(self) -> Mapping[int, Cursor | None]:
        """The saved cursor of every shard that has a row; raises when they cannot be read."""
        return {shard: lease.checkpoint for shard, lease in self.look().leases.items()}

    def checkpoint(self, shard: int, cursor: Cursor) -> Published:
        """Save while `consumer_owner` is us, in the one statement that saves, and never an earlier one.

        Three ends: it was saved; a later one is there, and nothing is to be done (`ahead`); another consumes
        the shard, and nothing of ours counts any more. Which of them it was says the row, also where the
        answer was lost.
        """
        working = self.working
        if not working:
            raise self._expired()
        if shard not in working:
            raise ClaimLost(f"shard {shard} is not held by {self.holder!r}: claim it first")
        try:
            if self._store.checkpoint(self.holder, shard, cursor):
                return "sent"
        except TransportError:
            found = self._store.read().leases.get(shard)
            if found is not None and found.consumer == self.holder and found.checkpoint == cursor:
                return "sent"
            raise
        found = self._store.read().leases.get(shard)
        if found is None or found.consumer != self.holder:
            by = repr(found.consumer or found.owner) if found is not None else "nobody"
            raise ClaimLost(
                f"shard {shard} is held by {by} now: what {self.holder!r} has landed of it stays, and its "
                "next holder publishes it"
            )
        return "ahead"

    def weigh(self, measured: Mapping[int, int]) -> None:
        """What shards weigh, raw bytes a second of receive time, as whoever works on them measured. Kept in
        the rows of those that we own when they are let go: a change that is made anyway, under our lease id.

        Whoever is killed before leaves the weights that were there.
        """
        self._measured = measured

    def release(self) -> None:
        """Hand over what another has taken, and let go of the rest, with our name on it.

        Out of reach: what was taken may be begun one timeout after that, all else expires.
        """
        weights, self._measured = self._newly_weighed(), {}
        was, self._held, self._carried = self._held, HeldLeases(), False
        try:
            if was.ids:
                self._store.hand_over(self.holder)
                self._store.free(self.holder, [*was.ids], self._stamp_ms(), weights)
        except SlsError:
            pass
        finally:
            self._store.close()

    # --- below

    def _prepare(self) -> None:
        if not self._prepared:
            self._store.prepare()
            self._prepared = True

    def _newly_weighed(self) -> Mapping[int, int]:
        """The weights of our shards that are not what their rows say."""
        ours = self._measured.keys() & self._held.owned.keys()
        rows = {shard: row for shard, row in self._view.leases.items() if shard in ours}
        found = {s: leases.weight_to_keep(row.weight, self._measured[s]) for s, row in rows.items()}
        return {shard: weight for shard, weight in found.items() if weight != rows[shard].weight}

    def _look(self) -> View:
        """Look at the rows, and draw conclusions of what is ours and who is silent."""
        view = self._view = self._store.read().of(self._given)
        at_s, timeout_s = self._clock.monotonic(), self._terms.timeout_s
        self._watch = self._watch.after(view, at_s, timeout_s)
        # What is on its way for longer than a timeout cannot help any more.
        self._lost = {lost: sent_s for lost, sent_s in self._lost.items() if at_s - sent_s < timeout_s}
        lost = frozenset(self._lost)
        self._held = self._held.seen(view, self.holder, at_s=at_s, timeout_s=timeout_s, lost=lost)
        return view

    def _joined(self) -> View:
        """A sign of life, a lease for each shard, and nothing that another has taken is ours any more."""
        view = self._look()
        stamp_ms = self._stamp_ms()
        if not self._carried:
            now_s, timeout_s = self._clock.now(), self._terms.timeout_s
            self._watch = self._watch.carry(view, self.holder, now_s=now_s, timeout_s=timeout_s)
            self._carried = True
        self._change(lambda: self._store.join(self.holder, stamp_ms))
        if new := sorted(self._given.keys() - view.leases.keys()):
            self._change(lambda: self._store.add(new))
        if any(one.consumer == self.holder != one.owner for one in view.leases.values()):
            self._change(lambda: self._store.hand_over(self.holder))
        return self._look()

    def _round(self, view: View, now_s: float) -> View:
        """Renew what is under our name, whoever wrote it; take what is ours to take at `now_s`; begin what is
        due.

        One id for what is renewed and what is taken: a process is recognised by it, and one look finds both.
        """
        from_living = now_s - self._took_s >= self._terms.take_every_s
        own = {s: one.lease_id for s, one in view.leases.items() if one.owner == self.holder and one.lease_id}
        wanted = leases.takes(
            view,
            self._watch,
            self.holder,
            weights=leases.weights(view, self._given),
            at_s=now_s,
            terms=self._terms,
            from_living=from_living,
        )
        if from_living:
            self._took_s = now_s
        for name, sign_ms in leases.forgettable(view, self._watch, self.holder, now_s, self._terms).items():
            self._change(lambda n=name, s=sign_ms: self._store.forget(n, s))  # type: ignore[misc]
        stamp_ms, lease_id = self._stamp_ms(), self._new_id()
        self._held = self._held.sends(lease_id, now_s)
        wanted = tuple(take for take in wanted if take.shard not in own)
        self._change(lambda: self._store.renew(self.holder, own, lease_id, stamp_ms), lease_id)
        self._change(lambda: self._store.take(self.holder, wanted, lease_id, stamp_ms), lease_id)
        return self._begun(self._look())

    def _beat(self) -> View:
        """Renew what this process has, and nothing else; begin what is due.

        Nothing is taken here: it runs beside the work, and taking is what `claim` does, with no work under
        way.
        """
        sent_s, owned = self._clock.monotonic(), self._held.owned
        stamp_ms, lease_id = self._stamp_ms(), self._new_id()
        self._held = self._held.sends(lease_id, sent_s)
        self._change(lambda: self._store.renew(self.holder, owned, lease_id, stamp_ms), lease_id)
        self._change(lambda: self._store.join(self.holder, stamp_ms))
        return self._begun(self._look())

    def _begun(self, view: View) -> View:
        """Become the consumer of what was let go, or taken a timeout ago.

        Story: b took a shard, its sign of life was lost on the way, and it began. The row's stamp was still
        that of the taking, a timeout ago, so for a's next run b was long gone: both worked on the shard.
        So beginning is a change of the lease as a renewal is, with an id and a stamp of its own.
        """
        at_s, now_ms = self._clock.monotonic(), int(self._clock.now() * 1000)
        due = self._held.ready(view, stamp_ms=now_ms, at_s=at_s, terms=self._terms)
        if not due:
            return view
        owned = {shard: self._held.owned[shard] for shard in due}
        stamp_ms, lease_id = self._stamp_ms(), self._new_id()
        self._held = self._held.sends(lease_id, at_s)
        self._change(lambda: self._store.consume(self.holder, owned, lease_id, stamp_ms), lease_id)
        return self._look()

    def _change(self, send: Callable[[], None], lease_id: int = leases.FREE) -> None:
        """Send a change. A lost answer is no failure: the look that follows says what became of it."""
        try:
            send()
            self._refused = None
        except TransportError as error:
            # A database that can be read and not written would look like one that others have all shards of.
            self._refused = error
            if lease_id:
                self._lost[lease_id] = self._clock.monotonic()

    def _sharing(self, view: View) -> tuple[str, ...]:
        return leases.members(view, self._watch, self.holder, self._clock.monotonic(), self._terms)

    def _pause_s(self) -> float:
        return leases.pause_s(self._clock.now(), self.holder, self._sharing(self._view), self.renew_every_s)

    def _stamp_ms(self) -> int:
        """Our wall time, but later than every stamp that was seen."""
        return self._view.next_stamp_ms(self._clock.now())

    def _claim(self) -> Claim:
        now_s = self._clock.monotonic()
        working = self._held.working(now_s)
        if not working:
            raise InvariantBroken(f"group {self._group.name!r}: a claim of no shard")
        return Claim(self.holder, working, max(self._held.until_s[s] for s in working))

    def _expired(self) -> ClaimLost:
        return self._said(
            f"no lease of {self.holder!r} was renewed for {self._terms.timeout_s:g} s, so its shards count "
            "as lost. Claim again"
        )

    def _gone(self, view: View, before: Mapping[int, int]) -> ClaimLost:
        """Who has what was ours until now."""
        now = [view.leases[s] for s in before if s in view.leases]
        if any(one.owner == self.holder for one in now):
            return self._said(
                f"another process holds its shards under the name {self.holder!r} and goes on with them. Let "
                "it end, or give each deployment a holder name of its own"
            )
        return self._said(f"the shards of {self.holder!r} were taken by {_names(now)}. Claim again")

    def _nothing_to_be_had(self, view: View) -> ClaimLost:
        timeout_s, waiting = self._terms.timeout_s, sorted(self._held.waiting)
        if not view.leases:
            return self._said("the logstore lists no shard; ask again when it has one")
        if waiting:
            return self._said(
                f"shards {printable(str(waiting))} were taken, and their holders have {timeout_s:g} s to "
                "save their checkpoints: the next run begins with them"
            )
        others = _names([one for one in view.leases.values() if one.owner != self.holder])
        weights, at_s = leases.weights(view, self._given), self._clock.monotonic()
        if not leases.due_to(view, self._watch, self.holder, weights=weights, at_s=at_s, terms=self._terms):
            closed = sum(self._given.get(shard) == 0 for shard in view.leases)
            of_them = f" ({closed} of them closed)" if closed else ""
            return self._said(
                f"{self.holder!r} stands by: {len(self._sharing(view))} workers share {len(view.leases)} "
                f"shards{of_them}, and {others} have them. It takes over when one of them is silent for "
                f"{timeout_s:g} s"
            )
        return self._said(
            f"all its shards are held by {others}. If that one has ended, its shards are free {timeout_s:g} "
            "s after its last sign of life (the group's timeout): ask again then"
        )

    def _said(self, what: str) -> ClaimLost:
        return ClaimLost(f"group {self._group.name!r}: {what}")


def _names(held: list[Lease]) -> str:
    return ", ".join(repr(name) for name in sorted({one.owner for one in held} - {""})) or "nobody"
