"""A world of two processes that share leases, as values; what production's `SqlLease` makes of them.

Time is counted in ticks of half a timeout, and a state has no clock: each time in it is an age. Lease ids are
only ever compared, and none but FREE comes back: so a process remembers of an id whether the row still has
it. What a process does follows from itself and from what is shared, and is worked out once for each pair. A
move puts the values into a `SqlLease` over a dictionary, lets it act, and takes the values out again. None of
the rules is written here.

What may go wrong with any change that a process sends: its request is lost, its answer is, it arrives later;
before it is sent the process sleeps, is killed, or the other one does a whole step.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from sls_io.coordination.lease import FREE, HeldLeases, Lease, Take, View, Watch
from sls_io.coordination.sql_lease import SqlLease
from sls_io.values.clock import ManualClock
from sls_io.values.errors import ClaimLost, TransportError, TransportTimeout
from sls_io.values.settings import Group
from sls_io.values.window import Cursor
from tests.simulation.model import some
from tests.unit.dict_leases import DictLeases

TIMEOUT_S = 30
TICK_S = 15
AGE_MAX = 4
"""Ticks after which leases are taken again: older is no different."""
SAME, OTHER = 1, 2
_EPOCH_S = 1_700_000_010
_STAMP_AGE_MAX = 3
_BEHIND_S = 1000 * TIMEOUT_S
_LATE_IDS = 50
_NAMES_IDS = frozenset({"renew", "consume", "take", "free"})

REQUEST_LOST, REPLY_LOST, LATE = "request_lost", "reply_lost", "late"
SLEEPS, KILLED, OVERTAKEN = "sleeps", "is killed", "is overtaken"
FAULTS = (REQUEST_LOST, REPLY_LOST, LATE, SLEEPS, KILLED, OVERTAKEN)


class Process(NamedTuple):
    """One process: what its `SqlLease` knows, with ages in ticks. `unsaved`: its landings to publish.

    leases     (shard, what the row's id was: FREE, SAME as now or OTHER, age)    took  age of its last taking
    instances  (name, whether its sign of life is what it was, age)
    ids        (place of an id that it wrote, age of its sending): a shard, or -1, -2... of what is late
    lost       the same, of those whose answer never came
    owned      (shard, whether the row still has that id)
    until      (shard, ticks left)                             waiting  (shard, age)
    """

    leases: tuple[tuple[int, int, int], ...] = ()
    instances: tuple[tuple[str, bool, int], ...] = ()
    read: int = 2
    carried: frozenset[int | str] = frozenset()
    whole: bool = False
    ids: tuple[tuple[int, int], ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    owned: tuple[tuple[int, bool], ...] = ()
    until: tuple[tuple[int, int], ...] = ()
    waiting: tuple[tuple[int, int], ...] = ()
    carry: bool = False
    took: int = 4
    claimed: bool = False
    unsaved: tuple[tuple[int, int], ...] = ()

    @property
    def working(self) -> frozenset[int]:
        """What it works on; nothing while it claims."""
        return frozenset(s for s, _ in self.until) if self.claimed else frozenset()


class Sent(NamedTuple):
    """A change on its way: (shard, id that it must have, whether it may be begun at once) of each lease.

    In a state that id is as in `Process.leases`.
    """

    verb: str
    me: str
    leases: tuple[tuple[int, int, bool], ...] = ()
    lease_id: int = FREE
    stamp: int = 0


class Shared(NamedTuple):
    """All but the processes; `frontiers` is what the table has of each shard, stamps are ticks from now.

    The lease ids are 1, or FREE.
    """

    leases: tuple[Lease, ...]
    instances: tuple[tuple[str, int], ...]
    late: tuple[Sent, ...]
    frontiers: tuple[int, ...]
    faults: int


class Model(NamedTuple):
    """What is explored. `landings`: how many a shard may get, each with its checkpoint; `verbs`: the changes
    that faults strike at, all where none is named; `ahead`: stamps are ahead of everybody's clock, as
    after one run whose clock was wrong."""

    name: str
    shards: int = 2
    faults: int = 1
    kinds: tuple[str, ...] = FAULTS
    verbs: tuple[str, ...] = ()
    landings: int = 0
    names: tuple[str, ...] = ("a", "b")
    ahead: bool = False

    def __str__(self) -> str:
        landings = f", {some(self.landings, 'landing')} of each" if self.landings else ""
        at = f" at {', '.join(self.verbs)}" if self.verbs else ""
        faults = f"{some(self.faults, 'fault')} of {some(len(self.kinds), 'kind')}{at}"
        faults = faults if self.faults else "no faults"
        return f"{self.name}: 2 workers, {some(self.shards, 'shard')}{landings}, {faults}"


class _Waits(Exception):
    """A claim would wait now: the process comes back a tick later."""


class Killed(BaseException):
    """The process is gone. No `except` of production's may hold it back."""


class _Clock(ManualClock):
    """The world's time; whoever waits comes back later. Its wall time is so far behind stamps."""

    def __init__(self, behind_s: int) -> None:
        super().__init__()
        self._behind_s = behind_s

    def begin(self) -> None:
        """Be at the moment from which a state's ages count."""
        self._now, self._monotonic = float(_EPOCH_S - self._behind_s), 0.0

    def sleep(self, duration_s: float) -> None:
        raise _Waits


class _Wire:
    """The store as one process sees it; `strike` is asked before the change of that number is carried out."""

    name = "dict"

    def __init__(self, store: DictLeases) -> None:
        self.store = store
        self.changes: list[str] = []
        self.late: list[Sent] = []
        self.strike: tuple[int, Callable[[], str]] | None = None

    def there(self) -> bool:
        return True

    def prepare(self) -> None:
        """It is there."""

    def read(self) -> View:
        return self.store.read()

    def close(self) -> None:
        """There is nothing to let go."""

    def join(self, me: str, stamp_ms: int) -> None:
        self._send(Sent("join", me, stamp=stamp_ms))

    def forget(self, name: str, stamp_ms: int) -> None:
        self._send(Sent("forget", name, stamp=stamp_ms))

    def add(self, shards: Iterable[int]) -> None:
        self._send(Sent("add", "", tuple((s, FREE, False) for s in shards)))

    def renew(self, me: str, owned: Mapping[int, int], lease_id: int, stamp_ms: int) -> None:
        if owned:
            self._send(Sent("renew", me, _pairs(owned), lease_id, stamp_ms))

    def take(self, me: str, wanted: Sequence[Take], lease_id: int, stamp_ms: int) -> None:
        if wanted:
            rows = tuple((t.shard, t.lease_id, t.at_once) for t in wanted)
            self._send(Sent("take", me, rows, lease_id, stamp_ms))

    def consume(self, me: str, owned: Mapping[int, int], lease_id: int, stamp_ms: int) -> None:
        if owned:
            self._send(Sent("consume", me, _pairs(owned), lease_id, stamp_ms))

    def hand_over(self, me: str) -> None:
        self._send(Sent("hand_over", me))

    def free(self, me: str, lease_ids: Iterable[int], stamp_ms: int, weights: Mapping[int, int]) -> None:
        self._send(Sent("free", me, tuple((-1, i, False) for i in sorted(lease_ids)), FREE, stamp_ms))

    def checkpoint(self, me: str, shard: int, cursor: Cursor) -> bool:
        return self._send(Sent("checkpoint", me, ((shard, int(cursor), False),)))

    def _send(self, sent: Sent) -> bool:
        fault = ""
        self.changes.append(sent.verb)
        if self.strike is not None and self.strike[0] == len(self.changes):
            fault = self.strike[1]()
        done = fault not in (REQUEST_LOST, LATE) and _carry_out(self.store, sent)
        if fault == LATE:
            self.late.append(sent)
        if fault in (REQUEST_LOST, REPLY_LOST, LATE):
            raise TransportTimeout("no answer")
        return done


def _pairs(owned: Mapping[int, int]) -> tuple[tuple[int, int, bool], ...]:
    return tuple((shard, lease_id, False) for shard, lease_id in sorted(owned.items()))


def _carry_out(store: DictLeases, sent: Sent) -> bool:
    ids = {shard: lease_id for shard, lease_id, _ in sent.leases}
    match sent.verb:
        case "join" | "forget":
            getattr(store, sent.verb)(sent.me, sent.stamp)
        case "add":
            store.add(ids)
        case "renew" | "consume":
            getattr(store, sent.verb)(sent.me, ids, sent.lease_id, sent.stamp)
        case "take":
            store.take(sent.me, [Take(*row) for row in sent.leases], sent.lease_id, sent.stamp)
        case "hand_over":
            store.hand_over(sent.me)
        case "free":
            store.free(sent.me, [lease_id for _, lease_id, _ in sent.leases], sent.stamp, {})
        case "checkpoint":
            ((shard, cursor, _),) = sent.leases
            return store.checkpoint(sent.me, shard, Cursor(cursor))
    return True


class Scene:
    """A state in motion: the store, the clock, and the processes that are alive.

    `watch` is called whenever somebody may look at what all of them work on.
    """

    def __init__(self, model: Model, watch: Callable[[Sequence[frozenset[int]]], None]) -> None:
        self.model, self._watch = model, watch
        self.clock, self.store = _Clock(_BEHIND_S if model.ahead else 0), DictLeases()
        self._weights = dict.fromkeys(range(model.shards), 1)
        self.wires = [_Wire(self.store) for _ in model.names]
        self.leases = [self._made(name, wire) for name, wire in zip(model.names, self.wires, strict=True)]
        self.alive: list[bool] = []
        self.claimed: list[bool] = []
        self.unsaved: list[dict[int, int]] = []
        self.frontiers: list[int] = []
        self.late: list[Sent] = []
        self._ids = 0

    def _made(self, name: str, wire: _Wire) -> SqlLease:
        group = Group(name="g", holder=name, timeout_s=TIMEOUT_S, heartbeat_s=5.0, patience_s=0.0)
        return SqlLease(wire, group, lambda: self._weights, clock=self.clock, new_id=self._new_id)

    def _new_id(self) -> int:
        self._ids += 1
        return self._ids

    # --- acts ------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Half a timeout passes."""
        self.clock.advance(TICK_S)

    def step(self, at: int) -> None:
        """What a process does next by itself: it begins, claims, or renews."""
        self._do(at, self._renew if self.claimed[at] else self._claim)

    def run_again(self, at: int) -> None:
        """The next run of the name: the one before has let go."""
        if self.claimed[at]:
            self.end(at)
        self.step(at)

    def end(self, at: int) -> None:
        """The run is over and lets go."""
        self._do(at, self._end)

    def land(self, at: int, shard: int) -> None:
        """A landing of the shard: what this process will publish."""
        self.frontiers[shard] += 1
        self.unsaved[at][shard] = self.frontiers[shard]

    def save(self, at: int, shard: int) -> None:
        """Publish what it landed of the shard."""
        cursor = Cursor(self.unsaved[at].pop(shard))
        self._do(at, lambda _: self.leases[at].checkpoint(shard, cursor))

    def kill(self, at: int) -> None:
        """The process is gone without a word."""
        self.alive[at], self.claimed[at], self.unsaved[at] = False, False, {}

    def arrive(self, number: int) -> None:
        """A change that was late is carried out."""
        _carry_out(self.store, self.late.pop(number))

    def strikes(self, at: int, kind: str) -> str:
        """What befalls a process that is about to send a change; a fault for the wire, or nothing."""
        other = 1 - at
        if kind == KILLED:
            raise Killed
        if kind == OVERTAKEN:
            self.step(other)
        if kind == SLEEPS:
            for _ in range(_STAMP_AGE_MAX):
                self.tick()
                self.step(other)
        if kind in (OVERTAKEN, SLEEPS):
            self._watch(self.working())
            return ""
        return kind

    def working(self) -> list[frozenset[int]]:
        """What each works on now."""
        return [
            lease.working if claimed else frozenset()
            for lease, claimed in zip(self.leases, self.claimed, strict=True)
        ]

    def _do(self, at: int, act: Callable[[int], object]) -> None:
        try:
            act(at)
        except ClaimLost:
            self._end(at)
        except (TransportError, _Waits):
            pass

    def _claim(self, at: int) -> None:
        if not self.alive[at]:
            self._put_process(at, Process())
        self.alive[at], self.claimed[at] = True, False
        self.leases[at].claim()
        self.claimed[at] = True

    def _renew(self, at: int) -> None:
        self.leases[at].renew()

    def _end(self, at: int) -> None:
        self.claimed[at] = False
        self.leases[at].release()
        self.kill(at)

    # --- values in, and out again ----------------------------------------------------------------

    def put(self, shared: Shared, processes: Sequence[Process | None]) -> None:
        """Be as these say."""
        self.clock.begin()
        self.store.leases = {one.shard: _raw_lease(one) for one in shared.leases}
        self.store.instances = {name: _ms(stamp) for name, stamp in shared.instances}
        self.late = [self._raw(at, sent) for at, sent in enumerate(shared.late)]
        self.frontiers = list(shared.frontiers)
        count = len(self.wires)
        self.alive, self.claimed, self.unsaved = [False] * count, [False] * count, [{} for _ in range(count)]
        self._ids = 100  # more than a state has
        for wire in self.wires:
            wire.changes, wire.strike, wire.late = [], None, self.late
        for at, process in enumerate(processes):
            if process is not None:
                self._put_process(at, process)
                self.alive[at] = True

    def _raw(self, at: int, sent: Sent) -> Sent:
        rows = sent.leases
        if sent.verb in _NAMES_IDS:
            rows = tuple((s, self._id(s, i), x) for s, i, x in rows)
        return sent._replace(leases=rows, lease_id=sent.lease_id and _LATE_IDS + at, stamp=_ms(sent.stamp))

    def _id(self, shard: int, what: int) -> int:
        """The id that a value stands for; one that the row no longer has is nobody's."""
        return {FREE: FREE, SAME: 1 + shard}.get(what, -1)

    def _put_process(self, at: int, known: Process) -> None:
        lease, now_s = self.leases[at], self.clock.monotonic()

        def ago(ticks: int) -> float:
            return now_s - ticks * TICK_S

        def number(place: int) -> int:
            return 1 + place if place >= 0 else _LATE_IDS - 1 - place

        instances = self.store.instances
        lease._watch = Watch(
            {s: (self._id(s, i), ago(t)) for s, i, t in known.leases},
            {n: (instances.get(n, 0) if same else -1, ago(t)) for n, same, t in known.instances},
            ago(known.read),
            known.carried,
            known.whole,
        )
        lease._held = HeldLeases(
            {number(p): ago(t) for p, t in known.ids},
            {s: 1 + s if same else -1 for s, same in known.owned},
            {s: now_s + t * TICK_S for s, t in known.until},
            {s: ago(t) for s, t in known.waiting},
        )
        lease._lost = {number(p): ago(t) for p, t in known.lost}
        lease._carried, lease._took_s = known.carry, ago(known.took)
        lease._view, lease._given, lease._refused, lease._prepared = View(), self._weights, None, True
        self.claimed[at] = known.claimed
        self.unsaved[at] = dict(known.unsaved)

    def shared(self, faults: int) -> Shared:
        """What is shared now."""
        stamps = [one.stamp_ms for one in self.store.leases.values()]
        stamps += [*self.store.instances.values(), *(sent.stamp for sent in self.late)]
        ticks = self._ticks(stamps)
        return Shared(
            tuple(_known_lease(one, ticks[one.stamp_ms]) for _, one in sorted(self.store.leases.items())),
            tuple((name, ticks[stamp]) for name, stamp in sorted(self.store.instances.items())),
            tuple(
                sent._replace(
                    leases=tuple((s, self._what(s, i), x) for s, i, x in sent.leases)
                    if sent.verb in _NAMES_IDS
                    else sent.leases,
                    lease_id=int(sent.lease_id != FREE),
                    stamp=ticks[sent.stamp],
                )
                for sent in self.late
            ),
            tuple(self.frontiers),
            faults,
        )

    def _ticks(self, stamps: Iterable[int]) -> dict[int, int]:
        """Each stamp in ticks from now; of those that are long ago, or ahead, only the order matters."""
        if self.model.ahead:
            return {stamp: -at for at, stamp in enumerate(sorted({*stamps}, reverse=True))}
        now_ms = (_EPOCH_S + self.clock.monotonic()) * 1000
        ticks = {stamp: int((stamp - now_ms) // (TICK_S * 1000)) for stamp in stamps}
        old = sorted({t for t in ticks.values() if t <= -_STAMP_AGE_MAX}, reverse=True)
        place = {t: -_STAMP_AGE_MAX - at for at, t in enumerate(old)}
        return {stamp: place.get(t, t) for stamp, t in ticks.items()}

    def _what(self, shard: int, lease_id: int) -> int:
        row = self.store.leases.get(shard)
        if lease_id == FREE:
            return FREE
        return SAME if row is not None and row.lease_id == lease_id else OTHER

    def process(self, at: int) -> Process | None:
        """What a process is like now."""
        if not self.alive[at]:
            return None
        lease, now_s = self.leases[at], self.clock.monotonic()
        watch, held, rows, instances = lease._watch, lease._held, self.store.leases, self.store.instances

        def age(at_s: float, most: int = TIMEOUT_S // TICK_S) -> int:
            return round(min(most, (now_s - at_s) / TICK_S))

        def places(ids: Mapping[int, float]) -> tuple[tuple[int, int], ...]:
            # An id that no row has and that is not on its way is never met again.
            found = [(s, age(ids[one.lease_id])) for s, one in rows.items() if one.lease_id in ids]
            late = enumerate(sent.lease_id for sent in self.late)
            return tuple(sorted(found + [(-1 - n, age(ids[i])) for n, i in late if i in ids]))

        return Process(
            tuple((s, self._what(s, i), age(t)) for s, (i, t) in sorted(watch.leases.items())),
            tuple(
                (n, self.shows(instances.get(n), v), age(t)) for n, (v, t) in sorted(watch.instances.items())
            ),
            age(watch.read_s),
            watch.carried,
            watch.whole,
            places(held.ids),
            places(lease._lost),
            tuple((s, self._what(s, i) == SAME) for s, i in sorted(held.owned.items())),
            tuple(
                (s, left)
                for s, t in sorted(held.until_s.items())
                if (left := round((t - now_s) / TICK_S)) > 0
            ),
            tuple((s, age(t)) for s, t in sorted(held.waiting.items())),
            lease._carried,
            age(lease._took_s, AGE_MAX),
            self.claimed[at],
            tuple(sorted(self.unsaved[at].items())),
        )

    def shows(self, now: int | None, known: int) -> bool:
        """Whether a sign of life is of the tick that it was of; where stamps are ahead, all are of one."""
        if self.model.ahead:
            return now == known
        return now is not None and now // (TICK_S * 1000) == known // (TICK_S * 1000)


def _ms(ticks: int) -> int:
    """A stamp of the moment from which ages count."""
    return (_EPOCH_S + ticks * TICK_S) * 1000


@cache
def _raw_lease(one: Lease) -> Lease:
    return replace(one, lease_id=one.lease_id and 1 + one.shard, stamp_ms=_ms(one.stamp_ms))


def _known_lease(one: Lease, stamp: int) -> Lease:
    return _lease(one.shard, int(one.lease_id != FREE), one.owner, one.consumer, one.checkpoint, stamp)


@cache
def _lease(*parts: Any) -> Lease:
    return Lease(*parts)
