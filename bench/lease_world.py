"""Workers that share leases in a real database, on a clock of their own making: no second is waited for.

A worker does what a long run does: it claims, renews each heartbeat, and claims again every second timeout.
Each acts at a moment of its own. Where a claim would wait, it claims again at its next moment.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sls_io.coordination.assignors import assigned, named
from sls_io.coordination.sql_lease import SqlLease
from sls_io.values.clock import Clock, ManualClock
from sls_io.values.errors import ClaimLost, TransportError
from sls_io.values.settings import Group

TIMEOUT_S, HEARTBEAT_S = 30, 5


class Waits(Exception):
    """A claim would wait now."""


class RoundClock(ManualClock):
    """The clock of all workers; who would sleep comes back later."""

    def sleep(self, duration_s: float) -> None:
        """Raises Waits."""
        raise Waits


@dataclass
class Worker:
    """One process. `working` is what it works on now; it is nothing while it claims."""

    leases: SqlLease
    clock: Clock
    claimed: bool = False
    claim_at_s: float = float("-inf")

    @property
    def working(self) -> frozenset[int]:
        """Its shards."""
        return self.leases.working if self.claimed else frozenset()

    def step(self) -> None:
        """Renew, or claim where nothing is held or it is time to."""
        now_s = self.clock.monotonic()
        if now_s >= self.claim_at_s + 2 * TIMEOUT_S:
            # From when it takes, not from when it may begin with what it took.
            self.claimed, self.claim_at_s = False, now_s
        try:
            if self.claimed:
                self.leases.renew()
            else:
                self.leases.claim()
                self.claimed = True
        except ClaimLost:
            self.claimed = False
        except (TransportError, Waits):
            pass


@dataclass
class Moves:
    """What happened to leases: `takes` of what was free, `steals` from one who lives, `inherited` from one
    who is gone; `cpu_s` of this process in `rounds` rounds, in each of which all workers act once."""

    takes: int = 0
    steals: int = 0
    inherited: int = 0
    rounds: int = 0
    cpu_s: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds of a round."""
        return 1000 * self.cpu_s / max(1, self.rounds)


@dataclass
class World:
    """The leases of one group in the database at `address`, and who works with them."""

    address: str
    signature: str
    assignor: str
    weights: Mapping[int, int]
    clock: RoundClock = field(default_factory=RoundClock)
    workers: dict[str, Worker] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)

    def join(self, name: str) -> None:
        """One worker more."""
        group = Group(
            name="bench", holder=name, timeout_s=TIMEOUT_S, heartbeat_s=float(HEARTBEAT_S), patience_s=0.0
        )
        leases = SqlLease.at(
            self.address,
            group,
            lambda: self.weights,
            signature=self.signature,
            assignor=self.assignor,
            clock=self.clock,
        )
        self.workers[name] = Worker(leases, self.clock)

    def die(self, name: str) -> None:
        """It says nothing any more, and lets nothing go."""
        self.workers.pop(name).leases.close()

    def balanced(self) -> bool:
        """Whether each shard is worked on by the one who shall have it: the assignor would move nothing."""
        held = {name: tuple(sorted(worker.working)) for name, worker in self.workers.items()}
        owners = {shard: name for name, shards in held.items() for shard in shards}
        return assigned(named(self.assignor), list(held), self.weights, owners) == held

    def run(self, timeouts: float, until: Callable[[], bool] = lambda: False) -> tuple[float, Moves]:
        """Let so many timeouts pass, or fewer once `until` holds: how many, and what moved."""
        moves, begun_s = Moves(), self.clock.monotonic()
        while (passed := (self.clock.monotonic() - begun_s) / TIMEOUT_S) < timeouts and not until():
            began_s = time.process_time()
            for moment in range(HEARTBEAT_S):
                self.clock.advance(1.0)
                for place, worker in enumerate(self.workers.values()):
                    if place % HEARTBEAT_S == moment:
                        worker.step()
            moves.cpu_s += time.process_time() - began_s
            moves.rounds += 1
            self._count(moves)
        return passed, moves

    def close(self) -> None:
        """Let go of the connections of all."""
        for worker in self.workers.values():
            worker.leases.close()

    def _count(self, moves: Moves) -> None:
        leases = next(iter(self.workers.values())).leases.look().leases
        now = {shard: lease.owner for shard, lease in leases.items()}
        for shard, owner in now.items():
            before = self.owners.get(shard, "")
            if owner in (before, ""):
                continue
            moves.takes += not before
            moves.steals += before in self.workers
            moves.inherited += bool(before) and before not in self.workers
        self.owners = now
