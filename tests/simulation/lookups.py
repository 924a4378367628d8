"""What the numbers of a small world stand for: whoever has a number asks here for its value.

Nothing is decided, counted or judged here, and an answer never depends on what was asked before.
"""

from pipelines.landing.run import protocol
from sls_io.values.claim import Ledger
from tests.simulation.model import Lake, Local, Model, Names, Parts, Source, service
from tests.simulation.service import Service


class Lookups:
    """The values of one model; `names` has their numbers."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.names = Names()

    def source(self, parts: Parts) -> Source:
        """How far the service is."""
        found: Source = self.names.values[parts.source]
        return found

    def service(self, parts: Parts) -> Service:
        """The service itself; nobody may change it."""
        return service(self.model, self.source(parts))

    def lake(self, parts: Parts) -> Lake:
        """The table."""
        found: Lake = self.names.values[parts.lake]
        return found

    def ledger(self, lake: Lake) -> Ledger:
        """The ledger that is in the table."""
        found: Ledger = self.names.values[lake.ledger]
        return found

    def kinds(self, parts: Parts) -> frozenset[str]:
        """The faults that may still happen."""
        return self.model.kinds if parts.faults else frozenset()

    def state(self, local: Local) -> protocol.State:
        """The protocol's state of a worker that has begun."""
        found: protocol.State = self.names.values[local.state]
        return found

    def effect(self, local: Local) -> protocol.Effect | None:
        """What a worker is to carry out; None when it has not begun."""
        found: protocol.Effect | None = self.names.values[local.effect] if local.effect >= 0 else None
        return found
