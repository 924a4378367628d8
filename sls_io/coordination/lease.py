"""Leases: what their rows mean, when one has expired, and what to take. Values in, values out.

A row of a shard has a lease id, an owner and a consumer. Whoever changes the lease writes a new id, and
only onto the id that it read: of two that try, one wins. The owner is who shall have the shard, the
consumer who may work on it now:

    id 0                           free; an owner beside it let go and has its name on it still
    owner A, consumer A            A works on it
    owner B, consumer A            B took it; A has one timeout to save its checkpoint, then B begins
    owner B, consumer ""           A has let go before that; B may begin at once

Nobody's clock is compared with anybody's. An owner renews its lease, which changes the id; who sees the
same id for a whole timeout of its own clock calls the lease expired. What is seen for the first time
counts as alive, and time in which the tables could not be read proves nothing: nobody could renew.

A run that lasts seconds sees nothing for a whole timeout. What its holder's run before has seen counts,
too: a sign of life that is older than that run, and older than a timeout, is `carried`. It needs no
watching for a timeout any more, only for as long as a living owner needs to show itself (`grace_s`).

Stamps only rise, so one wrong clock puts all of them ahead: each later one is a millisecond more, and they
say who was later, and not how long ago. While they are ahead of our clock by more than a timeout, none of
them proves that a timeout has passed: who gave no sign since the run before is watched for a whole one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from sls_io.coordination.assignors import Assignor, assigned
from sls_io.values.window import Cursor

FREE = 0
"""The lease id of a shard that nobody works on."""
_BLIND_PART = 0.5
_RENEWALS_A_TIMEOUT = 5
_GRACE_RENEWALS = 2
_WEIGHT_BAND = 4
"""A kept weight stays until what is measured differs from it by more than this part of it."""
_Key = TypeVar("_Key", int, str)


class ConsumerState(StrEnum):
    """How far a consumer is with a shard, and what that means for a run."""

    INITIALIZING = "INITIALIZING"
    """It owns the lease, and another may still work on the shard: no page is pulled yet."""
    PROCESSING = "PROCESSING"
    """It owns the lease and works on the shard: windows are planned, read, landed."""
    STOPPING = "STOPPING"
    """Another owns the lease: what is landed is still published, nothing new is begun."""
    STOP_COMPLETED = "STOP_COMPLETED"
    """It has let go: the next one may begin at once."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One row. `stamp_ms`: when its id was last changed, as whoever changed it says, unix milliseconds; of a
    shard that is being handed over, when it was taken. `weight`: raw bytes a second of receive time, as its
    holders measured, see `weight_to_keep`; None: nobody has."""

    shard: int
    lease_id: int = FREE
    owner: str = ""
    consumer: str = ""
    checkpoint: Cursor | None = None
    stamp_ms: int = 0
    weight: int | None = None

    def states(self) -> Mapping[str, ConsumerState]:
        """Who is how far with the shard; nobody when nobody ever had it."""
        if self.lease_id == FREE:
            return {self.owner: ConsumerState.STOP_COMPLETED} if self.owner else {}
        if self.owner == self.consumer:
            return {self.owner: ConsumerState.PROCESSING}
        taken = {self.owner: ConsumerState.INITIALIZING}
        return {**taken, self.consumer: ConsumerState.STOPPING} if self.consumer else taken


@dataclass(frozen=True, slots=True)
class View:
    """What one look at both tables said: the leases by shard, and each instance's last sign of life in unix
    milliseconds, by its own word."""

    leases: Mapping[int, Lease] = field(default_factory=dict)
    instances: Mapping[str, int] = field(default_factory=dict)

    def of(self, shards: Mapping[int, int | None]) -> "View":
        """The same with the leases of these shards only."""
        return replace(self, leases={s: lease for s, lease in self.leases.items() if s in shards})

    def sign_ms(self, shard: int) -> int:
        """The last sign of life of the lease and its owner."""
        lease = self.leases[shard]
        return max(lease.stamp_ms, self.instances.get(lease.owner, 0))

    def next_stamp_ms(self, now_s: float) -> int:
        """The stamp of a change that is made after this look: our wall time, but later than every stamp in
        it. So their order is right although clocks differ.

        Worked example: our clock says 1,000 and a lease says 1,200, written by one whose clock is ahead: ours
        is 1,201. Who sorts by stamps sees the later change as later.
        """
        return max(int(now_s * 1000), self._newest_ms + 1)

    def ahead(self, now_s: float, timeout_s: float) -> bool:
        """Whether its stamps are so far ahead of our clock that their distances say nothing of time.

        Story: b's clock is a day ahead for one run. a's next stamp is a millisecond later than b's, and so
        on, for a day: nobody's is ever a timeout older than another's, and what b held when it died was
        nobody's for all of that day.
        """
        return self._newest_ms > (now_s + timeout_s) * 1000

    @property
    def _newest_ms(self) -> int:
        stamps = [lease.stamp_ms for lease in self.leases.values()]
        return max([*stamps, *self.instances.values()], default=0)


@dataclass(frozen=True, slots=True)
class Watch:
    """Since when which lease and which instance was seen unchanged; seconds of our monotonic clock.

    `read_s` is the last look. `carried` are those of which the holder's run before has seen nothing either;
    `whole`: they are watched for a whole timeout all the same, since stamps say nothing of time.
    """

    leases: Mapping[int, tuple[int, float]] = field(default_factory=dict)
    instances: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    read_s: float = float("-inf")
    carried: frozenset[int | str] = frozenset()
    whole: bool = False

    def after(self, view: View, at_s: float, timeout_s: float) -> "Watch":
        """After a look at `at_s`. What changed, and what is new, is seen as alive from now on.

        Story: the database is away for ten minutes. Nobody could renew, so each lease would be ten minutes
        old at the first look, and everybody would take from everybody. So a time without a look that is
        longer than half a timeout counts as one renewal, a fifth, which is what a living owner needs to show
        itself once the database is back.

        It counts for something, because a database can also be slow for good. Story: each call takes a second
        and a half, four workers share it, and half a timeout lies between any two looks. When such times
        counted for nothing, a dead worker's shards were nobody's for ever.

        Worked example: with a timeout of 60 s, a lease has the id 7 at 0, 10, ... and still at 60: it is
        silent. Had nobody looked between 10 and 45, it would be silent at 83: 10 s, 12 s for the 35, and 38.
        """
        gap_s = at_s - self.read_s
        blind_s = gap_s - timeout_s / _RENEWALS_A_TIMEOUT if gap_s > timeout_s * _BLIND_PART else 0.0
        ids = {shard: lease.lease_id for shard, lease in view.leases.items()}
        leases, changed = _seen(self.leases, ids, at_s, blind_s)
        instances, shown = _seen(self.instances, view.instances, at_s, blind_s)
        return Watch(leases, instances, at_s, self.carried - changed - shown, self.whole)

    def carry(self, view: View, me: str, *, now_s: float, timeout_s: float) -> "Watch":
        """With what the run before of `me` has seen: whoever has given no sign of life since that run gave
        its last, and none for a timeout before our wall time `now_s`. Without such a run nothing is carried.

        Worked example, with a timeout of 60 s and a grace of 10: our run before gave its last sign of life at
        12:00:00, now it is 12:05:00. A lease of b renewed at 11:59:30 was silent while that run looked, and
        has been since: it is carried, and needs 10 s more. One of c renewed at 12:00:30 is seen for the first
        time: a whole timeout. Were the newest stamp one of tomorrow, the lease of b would need a whole
        timeout, too, and be waited for.
        """
        if me not in view.instances:
            return self
        newest_ms, whole = view.instances[me], view.ahead(now_s, timeout_s)
        if not whole:
            newest_ms = min(newest_ms, view.next_stamp_ms(now_s) - int(timeout_s * 1000))
        leases = {s for s, one in view.leases.items() if one.owner != me and view.sign_ms(s) <= newest_ms}
        names = {name for name, sign_ms in view.instances.items() if name != me and sign_ms <= newest_ms}
        # Clocks differ a little, so their `grace_s` begins now, however long they were watched.
        seen = {s: (value, self.read_s if s in leases else at_s) for s, (value, at_s) in self.leases.items()}
        shown = {
            n: (value, self.read_s if n in names else at_s) for n, (value, at_s) in self.instances.items()
        }
        return Watch(seen, shown, self.read_s, frozenset({*leases, *names}), whole)

    def silent(self, key: int | str, at_s: float, *, timeout_s: float, grace_s: float) -> bool:
        """Whether the lease of shard `key`, or the instance of that name, was watched for long enough."""
        seen = self.instances.get(key) if isinstance(key, str) else self.leases.get(key)
        needed_s = min(grace_s, timeout_s) if key in self.carried and not self.whole else timeout_s
        return seen is not None and at_s - seen[1] >= needed_s


@dataclass(frozen=True, slots=True)
class Terms:
    """What a group's workers agree on: the same for all of them, or they count differently.

    A lease is renewed every `renew_every_s`; unchanged for `timeout_s` it is expired.
    """

    timeout_s: float
    heartbeat_s: float
    assignor: Assignor

    @property
    def renew_every_s(self) -> float:
        """Seconds between renewals: as configured, but five in a timeout, so that some may be lost."""
        return min(self.heartbeat_s, self.timeout_s / _RENEWALS_A_TIMEOUT)

    @property
    def take_every_s(self) -> float:
        """Seconds between two rounds in which leases are taken from those that live."""
        return 2 * self.timeout_s

    @property
    def grace_s(self) -> float:
        """How long a living owner needs at most to show itself.

        Two renewals, so that one that is lost does not make a living owner look gone.
        """
        return _GRACE_RENEWALS * self.renew_every_s

    def silent(self, watch: Watch, key: int | str, at_s: float) -> bool:
        """Whether a lease or an instance counts as gone."""
        return watch.silent(key, at_s, timeout_s=self.timeout_s, grace_s=self.grace_s)


@dataclass(frozen=True, slots=True)
class Take:
    """A lease to take while its id is still `lease_id`. `at_once`: nobody works on the shard, so its taker
    is its consumer, too."""

    shard: int
    lease_id: int
    at_once: bool


def members(view: View, watch: Watch, me: str, at_s: float, terms: Terms) -> tuple[str, ...]:
    """Who shares the shards, sorted: the instances and the owners of leases that are alive, and `me`.

    Owners count beside instances: one whose sign of life is lost still renews its leases, and would else be
    shared away while it works.
    """
    instances = {name for name in view.instances if not terms.silent(watch, name, at_s)}
    owners = {lease.owner for lease in view.leases.values() if _alive(lease, watch, at_s, terms)}
    return tuple(sorted({*instances, *owners, me}))


def due_to(
    view: View, watch: Watch, me: str, *, weights: Mapping[int, int], at_s: float, terms: Terms
) -> tuple[int, ...]:
    """The shards that the assignor gives to `me`; who gets none stands by."""
    living = members(view, watch, me, at_s, terms)
    owners = {
        shard: lease.owner
        for shard, lease in view.leases.items()
        if lease.owner in living and (lease.lease_id == FREE or _alive(lease, watch, at_s, terms))
    }
    there = {shard: weight for shard, weight in weights.items() if shard in view.leases}
    return assigned(terms.assignor, living, there, owners)[me] if there else ()


def takes(
    view: View,
    watch: Watch,
    me: str,
    *,
    weights: Mapping[int, int],
    at_s: float,
    terms: Terms,
    from_living: bool,
) -> tuple[Take, ...]:
    """What `me` takes now: all that the assignor gives it and that it does not own, in one round.

    What is free or expired is begun at once. A lease of a living owner is taken only with `from_living`;
    it is begun one timeout later. With the assignor `sticky` none is taken unless its owner has two more
    than `me`, of open shards or of closed ones, so it ends: where numbers differ by one, nobody is better
    off.

    Worked example: a has the shards 0 to 3, b joins. `sticky` gives two to each: b takes 2 and 3 where it may
    take from the living, and begins a timeout later. At its next look each has two, and nothing moves.

    An owner that is silent is no member, so the assignor shares out what it has, and all of that is begun at
    once.
    """
    found = []
    for shard in due_to(view, watch, me, weights=weights, at_s=at_s, terms=terms):
        lease = view.leases[shard]
        at_once = lease.lease_id == FREE or not _alive(lease, watch, at_s, terms)
        if at_once or (lease.owner != me and from_living):
            found.append(Take(shard, lease.lease_id, at_once))
    return tuple(found)


def weights(view: View, given: Mapping[int, int | None]) -> Mapping[int, int]:
    """What each of the shards that are `given` weighs: what is given with it, else what its row says.

    Of whom nobody knows, it weighs what the mean of those weighs that have any weight: a child of a split
    gets logs before anybody could measure how many. By rows alone, so two that read the same rows share by
    the same weights.

    Worked example: shard 0 weighs 900 and shard 1 weighs 100, shard 2 is closed and weighs 0. Shard 3 has
    just appeared: it weighs 500.
    """
    rows = view.leases
    known = {
        shard: weight if weight is not None or shard not in rows else rows[shard].weight
        for shard, weight in given.items()
    }
    heavy = [weight for weight in known.values() if weight]
    mean = sum(heavy) // len(heavy) if heavy else 1
    return {shard: mean if weight is None else weight for shard, weight in known.items()}


def weight_to_keep(known: int | None, measured: int) -> int:
    """The weight that a row has from now on: the one that is there, unless it is wrong by more than a
    quarter.

    Shards are shared by what rows say, so while no row changes nothing moves. Story: every run wrote what it
    had measured. The weights of all rows were never twice the same, and however little a move had to gain,
    some pair of workers was just about to gain it: now and then a shard moved, for ever.

    Worked example: 1,000 is kept, and 1,200 and 830 are measured: it stays. 1,300 is measured: that is kept,
    and from then on all from 975 to 1,625 is the same. A shard that becomes ten times as heavy changes its
    row eleven times at most on its way, since 1.25 to the eleventh is more than ten.
    """
    if known is not None and abs(measured - known) * _WEIGHT_BAND <= known:
        return known
    return measured


def forgettable(view: View, watch: Watch, me: str, at_s: float, terms: Terms) -> Mapping[str, int]:
    """Instances that are gone, with the sign of life that they must still have to be forgotten."""
    return {
        name: sign_ms
        for name, sign_ms in view.instances.items()
        if name != me and terms.silent(watch, name, at_s)
    }


def missing(view: View, watch: Watch, at_s: float, terms: Terms) -> frozenset[int | str]:
    """Of the carried ones those that may still show themselves: waiting, for `grace_s` or, where stamps are
    ahead, for a timeout, says whether."""
    return frozenset(
        key
        for key in watch.carried
        if (key in view.leases or key in view.instances) and not terms.silent(watch, key, at_s)
    )


def _alive(lease: Lease, watch: Watch, at_s: float, terms: Terms) -> bool:
    return lease.lease_id != FREE and not terms.silent(watch, lease.shard, at_s)


@dataclass(frozen=True, slots=True)
class HeldLeases:
    """What one process has of the leases, from its own looks at them.

    ids       lease ids that it wrote, or may have written -> own monotonic second before they were sent
    owned     shards whose lease has one of these ids, with the id
    until_s   shard -> own second until when it may be worked on
    waiting   shards that were taken and are not begun -> own second since when

    What a process believes follows from ids that only it can have written. So a second process of the same
    name, or a row that somebody put back, is seen: the id there is none of ours.
    """

    ids: Mapping[int, float] = field(default_factory=dict)
    owned: Mapping[int, int] = field(default_factory=dict)
    until_s: Mapping[int, float] = field(default_factory=dict)
    waiting: Mapping[int, float] = field(default_factory=dict)

    def sends(self, lease_id: int, sent_s: float) -> "HeldLeases":
        """Before a test-and-set to `lease_id`: whatever becomes of its answer, it may be carried out."""
        return replace(self, ids={**self.ids, lease_id: sent_s})

    def seen(
        self, view: View, me: str, *, at_s: float, timeout_s: float, lost: frozenset[int] = frozenset()
    ) -> "HeldLeases":
        """After a look at `at_s`; `lost`: ids whose answer never came, which may still be carried out.

        A claim counts from before its id was sent, so it ends before anybody else sees that id for a whole
        timeout. A shard that another took stays ours for what is left of that time: its taker waits for
        longer. An id under our name that is not ours is another process of that name: the shard is its.

        Worked example, with a timeout of 60 s: a renewal is sent at 100 and answered at 103. The claim lasts
        until 160. Others can see the new id from 100 on at the earliest, so for none of them is it silent
        before 160.
        """
        mine = {
            s: lease for s, lease in view.leases.items() if lease.owner == me and lease.lease_id in self.ids
        }
        until_s = {
            s: self.ids[lease.lease_id] + timeout_s for s, lease in mine.items() if lease.consumer == me
        }
        for shard, end_s in self.until_s.items():
            lease = view.leases.get(shard)
            if lease is not None and lease.consumer == me and lease.owner != me and at_s < end_s:
                until_s[shard] = end_s
        there = {lease.lease_id for lease in mine.values()}
        return HeldLeases(
            ids={lease_id: sent_s for lease_id, sent_s in self.ids.items() if lease_id in there | lost},
            owned={s: lease.lease_id for s, lease in mine.items()},
            until_s=until_s,
            waiting={s: self.waiting.get(s, at_s) for s, lease in mine.items() if lease.consumer != me},
        )

    def ready(self, view: View, *, stamp_ms: int, at_s: float, terms: Terms) -> frozenset[int]:
        """Shards to begin: let go by the one before, or taken a timeout ago, by this process or one before
        it of the same name. That one may have had another clock, so its stamp must be older by `grace_s`.

        Worked example: with a timeout of 60 s and a grace of 10, a shard that this process took at 100 is
        begun at 160. One that a run before it took is begun once its stamp is 70 s old.
        """
        apart_ms = (terms.timeout_s + terms.grace_s) * 1000
        return frozenset(
            shard
            for shard, since_s in self.waiting.items()
            if not view.leases[shard].consumer
            or at_s - since_s >= terms.timeout_s
            or stamp_ms - view.leases[shard].stamp_ms >= apart_ms
        )

    def working(self, at_s: float) -> frozenset[int]:
        """The shards that may be worked on."""
        return frozenset(shard for shard, end_s in self.until_s.items() if at_s < end_s)


def pause_s(now_s: float, me: str, sharing: tuple[str, ...], every_s: float) -> float:
    """Seconds until `me` looks again: each of those that share has a moment of its own in `every_s`.

    Story: a schedule starts ten workers in the same second. Without this all of them would ask the database
    in the same second, again and again.

    Worked example: a, b and c share every 6 s: a looks at 0, 6, 12, b at 2, 8, 14, c at 4, 10, 16. At 7, a
    waits 5 s and c 3. For b it is 1 s to 8, less than a quarter of 6, so it looks at 14.
    """
    moment_s = every_s * sharing.index(me) / len(sharing) if me in sharing else 0.0
    wait_s = (moment_s - now_s) % every_s
    # Too soon to see anything new: the moment after that.
    return wait_s if wait_s > every_s / 4 else wait_s + every_s


def _seen(
    known: Mapping[_Key, tuple[int, float]], now: Mapping[_Key, int], at_s: float, blind_s: float
) -> tuple[dict[_Key, tuple[int, float]], frozenset[int | str]]:
    """(since when each is what it is, those that are something else than they were)."""
    changed = frozenset(key for key, value in now.items() if key in known and known[key][0] != value)
    same = known.keys() - changed
    since = {key: known[key][1] + blind_s if key in same else at_s for key in now}
    return {key: (value, since[key]) for key, value in now.items()}, changed
