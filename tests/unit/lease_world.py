"""Workers that share leases in a dictionary, on simulated clocks: nothing here waits.

A worker does what a long run does: it claims, renews, and claims again every second timeout. Its clocks
differ from the others'. Where a claim would wait, the worker comes back later and claims again.
"""

from collections.abc import Mapping

from bench import lease_world as bench
from bench.lease_world import TIMEOUT_S, Waits
from sls_io.coordination.sql_lease import SqlLease
from sls_io.values.clock import ManualClock
from sls_io.values.settings import Group
from tests.unit.dict_leases import DictLeases

__all__ = ["HEARTBEAT_S", "TIMEOUT_S", "Waits", "Worker", "World"]

HEARTBEAT_S = float(bench.HEARTBEAT_S)


class OwnClock(ManualClock):
    """A clock that is `ahead_s` of the world's, and monotonic seconds that begin anywhere."""

    def __init__(self, world: "World", ahead_s: float, begun_s: float) -> None:
        super().__init__()
        self._world, self._ahead_s, self._begun_s = world, ahead_s, begun_s

    def now(self) -> float:
        return 1_700_000_000.0 + self._world.now_s + self._ahead_s

    def monotonic(self) -> float:
        return self._begun_s + self._world.now_s

    def sleep(self, duration_s: float) -> None:
        raise Waits


class World:
    """The time, the shards, the store."""

    def __init__(self, shards: int, assignor: str = "sticky") -> None:
        self.now_s, self.store, self.assignor = 0.0, DictLeases(), assignor
        self.weights: Mapping[int, int | None] = dict.fromkeys(range(shards), 1)
        self._ids = 0

    def new_id(self) -> int:
        self._ids += 1
        return self._ids

    def shards(self) -> Mapping[int, int | None]:
        return self.weights

    def coordinator(
        self, holder: str, *, clock: ManualClock | None = None, patience_s: float = 0.0
    ) -> SqlLease:
        group = Group(
            name="g", holder=holder, timeout_s=TIMEOUT_S, heartbeat_s=HEARTBEAT_S, patience_s=patience_s
        )
        return SqlLease(
            self.store,
            group,
            self.shards,
            assignor=self.assignor,
            clock=clock or OwnClock(self, 0.0, 0.0),
            new_id=self.new_id,
        )


class Worker(bench.Worker):
    """One process of this world."""

    def __init__(self, world: World, name: str, ahead_s: float = 0.0, begun_s: float = 0.0) -> None:
        clock = OwnClock(world, ahead_s, begun_s)
        super().__init__(world.coordinator(name, clock=clock), clock)
        self.world, self.name = world, name

    def end(self) -> None:
        """Let go, as a run does that is done."""
        self.claimed = False
        self.leases.release()
