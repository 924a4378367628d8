"""Leases in a dictionary: what `SqlLeases` must do, in the plainest words, with faults on request.

`faults` are carried out one a change, in order: `request_lost` does not do it and says no answer came,
`reply_lost` does it and says the same, `late` keeps it for `deliver`. While `down` is true every call fails.
`on_call` hears of each before it is carried out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sls_io.coordination.lease import FREE, Lease, Take, View
from sls_io.values.errors import ConnectFailed, TransportTimeout
from sls_io.values.window import Cursor


@dataclass
class DictLeases:
    """See `LeaseStore`; `changes` counts the changes that were sent, `moved` says who took what of whom."""

    leases: dict[int, Lease] = field(default_factory=dict)
    instances: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    down: bool = False
    changes: int = 0
    moved: list[tuple[int, str, str]] = field(default_factory=list)
    on_their_way: list[Callable[[], object]] = field(default_factory=list)
    name: str = "dict"
    on_call: Callable[[], object] = lambda: None

    def there(self) -> bool:
        self._up()
        return True

    def prepare(self) -> None:
        self._up()

    def read(self) -> View:
        self._up()
        return View(dict(self.leases), dict(self.instances))

    def join(self, me: str, stamp_ms: int) -> None:
        self._change(lambda: self.instances.update({me: stamp_ms}))

    def forget(self, name: str, stamp_ms: int) -> None:
        self._change(lambda: self.instances.pop(name) if self.instances.get(name) == stamp_ms else None)

    def add(self, shards: Iterable[int]) -> None:
        new = tuple(shards)
        self._change(lambda: [self.leases.setdefault(shard, Lease(shard)) for shard in new])

    def renew(self, me: str, owned: Mapping[int, int], lease_id: int, stamp_ms: int) -> None:
        def do() -> None:
            for lease in self._unchanged(owned):
                if lease.owner == me:
                    begun = lease.consumer in ("", me)
                    stamp = stamp_ms if begun else lease.stamp_ms
                    self._put(replace(lease, lease_id=lease_id, stamp_ms=stamp))

        if owned:
            self._change(do)

    def take(self, me: str, wanted: Sequence[Take], lease_id: int, stamp_ms: int) -> None:
        at_once = {take.shard for take in wanted if take.at_once}

        def do() -> None:
            for lease in self._unchanged({take.shard: take.lease_id for take in wanted}):
                consumer = me if lease.shard in at_once else lease.consumer
                self.moved.append((lease.shard, lease.owner, me))
                self._put(replace(lease, lease_id=lease_id, owner=me, consumer=consumer, stamp_ms=stamp_ms))

        if wanted:
            self._change(do)

    def consume(self, me: str, owned: Mapping[int, int], lease_id: int, stamp_ms: int) -> None:
        def do() -> None:
            for lease in self._unchanged(owned):
                if lease.owner == me:
                    self._put(replace(lease, consumer=me, lease_id=lease_id, stamp_ms=stamp_ms))

        if owned:
            self._change(do)

    def hand_over(self, me: str) -> None:
        def do() -> None:
            for lease in list(self.leases.values()):
                if lease.consumer == me != lease.owner:
                    self._put(replace(lease, consumer=""))

        self._change(do)

    def free(self, me: str, lease_ids: Iterable[int], stamp_ms: int, weights: Mapping[int, int]) -> None:
        ids = {*lease_ids}

        def do() -> None:
            for lease in list(self.leases.values()):
                if lease.owner == me == lease.consumer and lease.lease_id in ids:
                    weight = weights.get(lease.shard, lease.weight)
                    self._put(replace(lease, lease_id=FREE, consumer="", stamp_ms=stamp_ms, weight=weight))

        self._change(do)

    def checkpoint(self, me: str, shard: int, cursor: Cursor) -> bool:
        saved: list[int] = []

        def do() -> None:
            lease = self.leases.get(shard)
            if lease and lease.consumer == me and (lease.checkpoint is None or lease.checkpoint <= cursor):
                self._put(replace(lease, checkpoint=cursor))
                saved.append(shard)

        self._change(do)
        return bool(saved)

    def close(self) -> None:
        """There is nothing to let go."""

    def deliver(self) -> None:
        """Carry out what was late."""
        late, self.on_their_way = self.on_their_way, []
        for do in late:
            do()

    def _up(self) -> None:
        self.on_call()
        if self.down:
            raise ConnectFailed("the dictionary is away")

    def _change(self, do: Callable[[], object]) -> None:
        self._up()
        self.changes += 1
        fault = self.faults.pop(0) if self.faults else ""
        if fault in ("", "reply_lost"):
            do()
        if fault == "late":
            self.on_their_way.append(do)
        if fault:
            raise TransportTimeout(f"{fault}: no answer")

    def _unchanged(self, ids: Mapping[int, int]) -> list[Lease]:
        there = ((self.leases.get(shard), lease_id) for shard, lease_id in ids.items())
        return [lease for lease, lease_id in there if lease is not None and lease.lease_id == lease_id]

    def _put(self, lease: Lease) -> None:
        self.leases[lease.shard] = lease
