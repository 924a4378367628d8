"""Every state of two workers that share leases: breadth first, until the queue is empty.

What is judged in every state, and at every moment in which one of them is in the middle of a change:

one reader   two never work on one shard
checkpoints  none is beyond what landed, none goes back
it settles   were faults to stop right there, whatever is on its way arriving or not: both work on their
             part of the shards, and no lease changes its owner any more
it goes on   were one of them gone for good, the other one works on all shards

Two processes of one name are not kept apart by leases, so of them only the checkpoints are judged.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.simulation.checks import Violated
from tests.simulation.lease_moves import TWO, Moves, State
from tests.simulation.lease_world import Model, Shared

QUIET_MAX = 80


@dataclass(frozen=True)
class Explored:
    """A finished search: distinct states, moves between them; `seen` counts rare situations."""

    states: int
    moves: int
    seen: Counter[str]


class LeaseSearch:
    """One search of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.moves = Moves(model, self._one_reader)
        self.seen: Counter[str] = Counter()
        self._apart = len(set(model.names)) > 1
        self._came: dict[State, tuple[State, str] | None] = {}
        self._good: list[set[State]] = [set(), set(), set()]
        self._judged: set[tuple[int, int]] = set()

    def run(self) -> Explored:
        """Explore everything. Raises Violated with the shortest way there in its notes."""
        start = self.moves.first()
        self._came = {start: None}
        queue, edges = [start], 0
        for state in queue:
            label = "then faults stop"
            try:
                if self._apart:
                    self._judge_end(state)
                label = "and then the next move"
                for label, after in self.moves.of(state):
                    edges += 1
                    if (state[0], after[0]) not in self._judged:
                        self._judge(self.moves.all_shared[state[0]], self.moves.all_shared[after[0]])
                        self._judged.add((state[0], after[0]))
                    if after not in self._came:
                        self._came[after] = (state, label)
                        working = self.moves.working(after)
                        self._one_reader(working)
                        self.seen["two work"] += all(working)
                        queue.append(after)
            except Violated as error:
                for line in [*self._way(state), label]:
                    error.add_note(line)
                raise
        return Explored(len(queue), edges, self.seen)

    def _way(self, state: State) -> list[str]:
        way: list[str] = []
        came = self._came[state]
        while came is not None:
            way.append(came[1])
            came = self._came[came[0]]
        return way[::-1]

    def _one_reader(self, working: Sequence[frozenset[int]]) -> None:
        if self._apart and (both := frozenset.intersection(*working)):
            raise Violated(f"both work on {sorted(both)}")

    def _judge(self, before: Shared, after: Shared) -> None:
        was = {one.shard: one for one in before.leases}
        for one in after.leases:
            old, saved = was.get(one.shard, one), one.checkpoint or 0
            if saved > after.frontiers[one.shard]:
                raise Violated(f"shard {one.shard}: checkpoint {saved} is beyond what landed")
            if saved < (old.checkpoint or 0):
                raise Violated(f"shard {one.shard}: the checkpoint went back to {saved}")
            if old.owner not in ("", one.owner):
                taken = "begun at once" if one.consumer == one.owner else "from one that lives"
                self.seen[f"a lease was taken, {taken}"] += 1
            self.seen["handed over"] += bool(one.lease_id and old.consumer and not one.consumer)
        self.seen["an answer was lost, or a process stopped"] += after.faults < before.faults
        self.seen["a checkpoint was saved"] += before.frontiers == after.frontiers and [
            one.checkpoint for one in before.leases
        ] != [one.checkpoint for one in after.leases]

    # --- faults have stopped ---------------------------------------------------------------------

    def _judge_end(self, state: State) -> None:
        calm = self.moves.without_faults(state, late=True)
        ends = [self.moves.without_faults(state, late=False)]
        ends += [self.moves.arrived(calm, n) for n in range(len(self.moves.all_shared[calm[0]].late))]
        for end in ends:
            end = self.moves.without_faults(end, late=False)
            self._comes_to(end, TWO, self._both_work)
            for at in TWO:
                gone = (end[0], end[1], self.moves.nobody) if at == 0 else (end[0], self.moves.nobody, end[2])
                self._comes_to(gone, (at,), self._one_works)

    def _comes_to(self, state: State, who: Sequence[int], judge: Callable[[list[State]], None]) -> None:
        """Follow the steps of `who` until states come again, and judge those."""
        good = self._good[2 if len(who) > 1 else who[0]]
        way: dict[State, int] = {}
        while state not in good:
            if state in way:
                judge(list(way)[way[state] :])
                break
            if len(way) > QUIET_MAX:
                raise Violated("it never comes to rest")
            way[state] = len(way)
            state = self.moves.tick(state)
            for at in who:
                state = self.moves.run_again(state, at)
        good.update(way)

    def _both_work(self, again: list[State]) -> None:
        least = self.model.shards // 2
        for state in again:
            working = self.moves.working(state)
            if sum(map(len, working)) < self.model.shards or min(map(len, working)) < least:
                raise Violated(f"in the end they work on {[sorted(w) for w in working]}")
        owners = {tuple(x.owner for x in self.moves.all_shared[state[0]].leases) for state in again}
        if len(owners) > 1:
            raise Violated("leases change their owners for ever")

    def _one_works(self, again: list[State]) -> None:
        for state in again:
            if max(map(len, self.moves.working(state))) < self.model.shards:
                raise Violated("who is left does not work on all shards")
