"""The lane in which tasks run in executors of a standalone Spark (`cluster.py`), and both are struck.

Drivers are killed and stopped as in the lane `spark`. Beside them executors, their Python, workers and the
master are killed, and executors stop for longer than speculation waits, so that two attempts of one task
write. A driver whose Spark has ended for good ends, and another one begins.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.cluster import Cluster
from chaos.conductor import Conductor

_STRIKE_EVERY_S = 4.0
_SLOW_S = (1.0, 8.0)


@dataclass
class ClusterConductor(Conductor):
    """One run of chaos on `cluster`, which is up."""

    cluster: Cluster = field(default_factory=lambda: Cluster(Path()))

    def _acts(self) -> list[tuple[float, Callable[[], None]]]:
        return [*super()._acts(), (_STRIKE_EVERY_S, self._strike_cluster)]

    def _strike_cluster(self) -> None:
        what, stopped = self.cluster.strike(self.dice)
        if stopped:
            self.account.stops[what] += 1
            self._later(self.dice.uniform(*_SLOW_S), lambda: self.cluster.wake(stopped))
        elif what:
            self.account.kills[what] += 1

    def _still(self) -> None:
        super()._still()
        for pid in self.cluster.executors():
            self.cluster.wake(pid)
