"""What a table, a checkpoint and the end of a small world must be, judged where each is made.

The judges look and raise; they make nothing and move nothing. What they share with the random schedules
is in `checks.py`.
"""

from sls_io.values.claim import CURSOR_UNKNOWN, Ledger
from tests.simulation.checks import Checks, Violated
from tests.simulation.lookups import Lookups
from tests.simulation.model import LIES, Lake, Parts, table_of
from tests.simulation.table import Request


class Judge:
    """The judges of one model; each raises Violated. `checks.seen` counts rare situations that came up."""

    def __init__(self, lookups: Lookups) -> None:
        self.lookups = lookups
        self.checks = Checks(latest=False)
        self.checks.lied_to = None if LIES in lookups.model.kinds else set()

    def request(self, request: Request, parts: Parts) -> None:
        """A request that is about to be accepted, against the table that it replaces."""
        lake = self.lookups.lake(parts)
        table = table_of(lake, self.lookups.ledger(lake))
        self.checks.before(self.lookups.service(parts), table, request)

    def landing(self, made: Lake, parts: Parts) -> None:
        """The table that a landing makes of the one in `parts`."""
        lake = self.lookups.lake(parts)
        if made.ledger == lake.ledger:
            raise Violated("a landing that changes nothing")
        self._rows(made, parts)
        _history(self.lookups.ledger(lake), self.lookups.ledger(made))

    def newest(self, epoch: int, lake: Lake) -> None:
        """A run of this epoch is about to land, or to move a checkpoint."""
        if epoch < lake.epoch:
            raise Violated("an older run goes on after a newer one of its name has landed")

    def checkpoints(self, made: tuple[tuple[int, int], ...], parts: Parts) -> None:
        """No checkpoint is beyond its frontier, none goes back; a rollback by a person excuses both."""
        lake, before = self.lookups.lake(parts), dict(parts.checkpoints)
        shards = self.lookups.ledger(lake).shards
        for shard, cursor in made if not lake.fallen else ():
            frontier = shards[shard].frontier if shard in shards else -1
            if cursor > frontier:
                raise Violated(f"shard {shard}: checkpoint {cursor} is beyond the frontier {frontier}")
            if cursor < before.get(shard, -1):
                raise Violated(f"shard {shard}: the checkpoint went back to {cursor}")

    def end(self, parts: Parts) -> None:
        """Nothing is left to do: everything must be there."""
        now, lake = self.lookups.service(parts), self.lookups.lake(parts)
        self.checks.at_the_end(now, table_of(lake, self.lookups.ledger(lake)), now.now_s - 10)

    def _rows(self, lake: Lake, parts: Parts) -> None:
        if len(set(lake.rows)) < len(lake.rows):
            raise Violated(f"rows twice: {lake.rows}")
        shards = self.lookups.ledger(lake).shards
        for shard, entry in shards.items():
            rows = [c for s, c in lake.rows if s == shard]
            truth = self.lookups.service(parts).shards[shard]
            said = [c for begin, end in entry.landed for c in truth.groups(begin, end)]
            if rows != said or (len(rows), sum(rows)) != (entry.rows, entry.sum):
                raise Violated(f"shard {shard}: the ledger says {said}, the table has {rows}")
            if entry.closed and entry.frontier != entry.end:
                raise Violated(f"shard {shard}: closed at {entry.end}, its frontier is {entry.frontier}")
            if any(entry.landed.overlaps(g.begin, g.end) for g in entry.gaps):
                raise Violated(f"shard {shard}: rows inside a gap")
        if {s for s, _ in lake.rows} - set(shards):
            raise Violated("rows of a shard that the ledger does not know")


def _history(before: Ledger, made: Ledger) -> None:
    for shard, entry in before.shards.items():
        after = made.shards.get(shard)
        if after is None or after.start != entry.start:
            raise Violated(f"shard {shard}: its history begins elsewhere now")
        if after.frontier < entry.frontier < CURSOR_UNKNOWN:
            raise Violated(f"shard {shard}: the frontier went back")
