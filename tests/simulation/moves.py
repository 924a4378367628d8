"""All moves of a small world of values: its pieces put together, and everything worked out once.

What a worker does is worked out once for each pair of its own number and of the parts of the world that
its effect looks at; everything else is looking it up. The pieces are `effects.py`, what a worker can do
next; `others.py`, what everybody else does; and `judging.py`, what a commit, a table or a checkpoint must
be, judged where it is made.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pipelines.landing.run import protocol
from sls_io.values.claim import Ledger
from tests.simulation.effects import LOOKS, Effects
from tests.simulation.judging import Judge
from tests.simulation.lookups import Lookups
from tests.simulation.model import Lake, Local, Model, Move, Parts, Source
from tests.simulation.others import Catalog, Others
from tests.simulation.steps import Steps
from tests.simulation.table import ORIGIN
from tests.simulation.worker import Habits

_ARRIVING = frozenset({"source", "lake"})
_ANYTHING = frozenset({"source", "lake", "checkpoints"})
"""What drivers with bad habits look at."""
_UNSEEN: Any = None


class Moves:
    """All moves of a model. Raises Violated or InvariantBroken where one must not happen."""

    def __init__(self, model: Model, habits: Habits) -> None:
        self.model, self.habits = model, habits
        self.lookups = Lookups(model)
        self.judge = Judge(self.lookups)
        self.seen: Counter[str] = self.judge.checks.seen
        self.steps = Steps(self.lookups.names, self.seen)
        self.catalog = Catalog(self.lookups, self.judge, any_base=habits.rebase)
        self.effects = Effects(self.lookups, self.steps, self.catalog, self.judge, habits)
        self.others = Others(self.lookups, self.catalog, self.seen)
        self.struck: set[tuple[str, str]] = set()
        self.workers: list[Local] = []
        self.held: list[int] = []
        self.claims: list[bool] = []
        self._numbers: dict[Local, int] = {}
        self._looks: list[tuple[bool, bool, bool]] = []
        self._behind: dict[tuple[int, str], int] = {}
        self._worked_out: dict[tuple[int, Parts, int], tuple[tuple[int, Move], ...]] = {}

    def first(self) -> Parts:
        """Nothing has happened."""
        names = self.lookups.names
        lake = Lake(names.of(Ledger(ORIGIN)))
        return Parts(names.of(Source(0, 0)), names.of(lake), (), (), self.model.faults)

    def worker(self, local: Local) -> int:
        """The number of what a worker is like."""
        number = self._numbers.get(local)
        if number is None:
            number = self._numbers[local] = len(self.workers)
            effect = self.lookups.effect(local)
            self.workers.append(local)
            self.held.append(local.held)
            self.claims.append(isinstance(effect, protocol.ClaimShards))
            looks = LOOKS[type(effect)] | (_ARRIVING if local.flying else frozenset())
            looks = looks if self.habits == Habits() else _ANYTHING
            self._looks.append(("source" in looks, "lake" in looks, "checkpoints" in looks))
        return number

    def of(self, worker: int, parts: Parts, taken: int) -> tuple[tuple[int, Move], ...]:
        """What a worker can do, with its number afterwards; `taken` are shards that others hold, as bits."""
        source, lake, checkpoints = self._looks[worker]
        seen = Parts(
            parts.source if source else _UNSEEN,
            parts.lake if lake else _UNSEEN,
            parts.checkpoints if checkpoints else _UNSEEN,
            _UNSEEN,
            parts.faults and 1,
        )
        key = (worker, seen, taken if self.claims[worker] else 0)
        found = self._worked_out.get(key)
        if found is None:
            local = self.workers[worker]
            effect = self.lookups.effect(local)
            moves = list(self._work_out(local, seen, taken))
            found = self._worked_out[key] = tuple([(self.worker(move.local), move) for move in moves])
            self.struck |= {(move.fault, type(effect).__name__) for move in moves if move.fault}
        return found

    def after(self, parts: Parts, move: Move) -> Parts:
        """What is shared after a worker's move."""
        lost = self.catalog.still(parts.lost) if move.others else parts.lost
        return Parts(
            parts.source,
            parts.lake if move.lake is None else move.lake,
            parts.checkpoints if move.checkpoints is None else move.checkpoints,
            tuple(sorted({*lost, *move.lost})) if move.lost else lost,
            parts.faults - bool(move.fault),
        )

    def behind(self, worker: int, how: str) -> int:
        """The worker's number after somebody moved the table, or its own when nobody did."""
        if not how:
            return worker
        known = self._behind.get((worker, how))
        if known is None:
            known = self._behind[worker, how] = self.worker(self.catalog.outdated(self.workers[worker], how))
        return known

    def _work_out(self, local: Local, parts: Parts, taken: int) -> Iterator[Move]:
        yield from self.effects.of(local, parts, taken)
        if self.lookups.effect(local) is not None:
            yield from self.others.befalling(local, parts)
