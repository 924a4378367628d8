"""The lane in which tasks run in executors of a standalone Spark (`cluster.py`), and both are struck.

Drivers are killed and stopped as in the lane `spark`. Beside them executors, their Python, workers and the
master are killed, and executors stop for longer than speculation waits, so that two attempts of one task
write. A worker loses the service while the other one has it (`network`). A driver whose Spark has ended for
good ends, and another one begins.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.cluster import Cluster
from chaos.conductor import Conductor
from chaos.network import Network
from sls_io.values.settings import Service

_STRIKE_EVERY_S = 4.0
_SLOW_S = (1.0, 8.0)
_DOWN_EVERY_S = 15.0
_DOWN_S = (1.0, 15.0)
"""Shorter and longer than all tries of a request last."""


@dataclass
class ClusterConductor(Conductor):
    """One run of chaos on `cluster`, which is up."""

    cluster: Cluster = field(default_factory=lambda: Cluster(Path()))
    network: Network = field(default_factory=lambda: Network(0, Path()))

    def _acts(self) -> list[tuple[float, Callable[[], None]]]:
        own = [(_STRIKE_EVERY_S, self._strike_cluster), (_DOWN_EVERY_S, self._cut_off)]
        return [*super()._acts(), *own]

    def _service(self) -> Service:
        return super()._service().model_copy(update={"endpoint": self.network.endpoint})

    def _cut_off(self) -> None:
        worker = self.dice.choice(self.cluster.workers)
        self.network.down(worker)
        self.account.cut_off[worker] += 1
        self._later(self.dice.uniform(*_DOWN_S), lambda: self.network.up(worker))

    def _strike_cluster(self) -> None:
        what, stopped = self.cluster.strike(self.dice)
        if stopped:
            self.account.stops[what] += 1
            self._later(self.dice.uniform(*_SLOW_S), lambda: self.cluster.wake(stopped))
        elif what:
            self.account.kills[what] += 1

    def _still(self) -> None:
        super()._still()
        for worker in self.cluster.workers:
            self.network.up(worker)
        for pid in self.cluster.executors():
            self.cluster.wake(pid)
