"""Every state that a small world can get into: breadth first, until the queue is empty.

A state is one integer: the number of what is shared and the sorted numbers of the workers, 24 bits each.
In every state what must hold is judged: commits, rows, gaps, closings and checkpoints where they are
made (`moves.py`), and that the job can still be finished: were faults to stop right there, whatever is
on its way arrives or not, the workers end their runs one after the other in any order, a last one runs
until nothing is left, and then every group must be in rows or in a gap.
"""

import gc
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from sls_io.errors import InvariantBroken
from tests.simulation.checks import Violated
from tests.simulation.model import IDLE, Local, Model, Move, Parts
from tests.simulation.moves import Moves
from tests.simulation.worker import Habits

BITS = 24
MASK = (1 << BITS) - 1
NO_HABITS = Habits()
RUN_STEPS_MAX = 200

Outcome = tuple[int, int, str]
"""A worker's move: its number, the shared number, what happens to the other workers' bases."""


@dataclass(frozen=True)
class Explored:
    """A finished search: distinct states, moves between them, the longest shortest way to a state.

    `locals` and `shared` are the distinct states of a worker and of all the rest; `steps` the distinct
    calls of the protocol; `seen` counts rare situations, `struck` has each (fault, effect it struck at).
    """

    states: int
    moves: int
    depth: int
    locals: int
    shared: int
    steps: int
    seen: Counter[str]
    struck: frozenset[tuple[str, str]]


class Exhaustive:
    """One search of one model."""

    def __init__(self, model: Model, habits: Habits = NO_HABITS) -> None:
        self.model = model
        self.moves = Moves(model, habits)
        self._workers: dict[Local, int] = {}
        self._locals: list[Local] = []
        self._numbers: dict[Parts, int] = {}
        self._parts: list[Parts] = []
        self._outcomes: dict[int, tuple[Outcome, ...]] = {}
        self._held: list[int] = []
        self._claims: list[bool] = []
        self._moved: dict[str, dict[int, int]] = {"landed": {}, "moved": {}, "rolled back": {}}
        self._others: dict[int, tuple[tuple[int, str], ...]] = {}
        self._quiet: dict[int, tuple[tuple[int, str], ...]] = {}
        self._runs: dict[int, frozenset[tuple[int, str]]] = {}
        self._ended: set[int] = set()
        self._parents: dict[int, int] = {}

    def run(self) -> Explored:
        """Explore everything. Raises Violated or InvariantBroken with the shortest way there in a note."""
        idle = self._worker(IDLE)
        start = self._pack(self._shared(self.moves.first()), [idle] * self.model.workers)
        parents = self._parents = {start: -1}
        queue, depth, edges, state, finishing = [start], 0, 0, start, False
        collects = gc.isenabled()
        gc.disable()  # millions of values that all stay: looking for garbage among them takes half the time
        try:
            while queue:
                found: list[int] = []
                for state in queue:
                    finishing = False
                    shared, workers = self._unpack(state)
                    reached = self._next(shared, workers)
                    edges += len(reached)
                    for one in reached:
                        if one not in parents:
                            parents[one] = state
                            found.append(one)
                    finishing = True
                    self._can_be_finished(shared, workers)
                queue = found
                depth += 1
        except (Violated, InvariantBroken) as error:
            for line in self.way_to(state):
                error.add_note(line)
            error.add_note(
                "then faults stop, runs are ended one by one" if finishing else "and then the next move"
            )
            raise
        finally:
            if collects:
                gc.enable()
        return Explored(
            len(parents),
            edges,
            depth - 1,
            len(self._locals),
            len(self._parts),
            len(self.moves.taken_steps),
            self.moves.seen,
            frozenset(self.moves.struck),
        )

    def sample(self, rng: Random, steps: int) -> Counter[str]:
        """One random way of `steps` moves, its faults at places drawn from all of them. Judges as `run`.

        Returns the faults that struck. For models that are too large to be explored to their end.
        """
        state = self._pack(self._shared(self.moves.first()), [self._worker(IDLE)] * self.model.workers)
        self._parents = {state: -1}
        places = set(rng.sample(range(steps), self.model.faults))
        struck: Counter[str] = Counter()
        try:
            for step in range(steps):
                shared, workers = self._unpack(state)
                self._can_be_finished(shared, workers)
                left = self._parts[shared].faults
                calm: list[int] = []
                strikes: list[int] = []
                for reached in self._next(shared, workers):
                    fewer = self._parts[self._unpack(reached)[0]].faults < left
                    (strikes if fewer else calm).append(reached)
                before, state = state, rng.choice(strikes if step in places and strikes else calm)
                self._parents.setdefault(state, before)
                if state in strikes:
                    struck[self.way_to(state)[-1].split(": ", 1)[-1]] += 1
        except (Violated, InvariantBroken) as error:
            for line in self.way_to(state):
                error.add_note(line)
            raise
        return struck

    def way_to(self, state: int) -> list[str]:
        """The moves from the start to `state`, one a line."""
        way = [state]
        while self._parents[way[-1]] >= 0:
            way.append(self._parents[way[-1]])
        way.reverse()
        lines: list[str] = []
        names = [f"worker {name}" for name in "ABC"[: self.model.workers]]
        for before, after in pairwise(way):
            line, names = self._line(before, after, names)
            lines.append(line)
        return lines

    # --- one step --------------------------------------------------------------------------------

    def _next(self, shared: int, workers: list[int]) -> list[int]:
        """The states that one move leads to."""
        found: list[int] = []
        last = -1
        for at, worker in enumerate(workers):
            if worker == last:
                continue  # it is in the same state as the one before it: its moves lead to the same states
            last = worker
            rest = workers[:at] + workers[at + 1 :]
            taken = self._held_by(rest) if self._claims[worker] else 0
            key = (taken << BITS | shared) << BITS | worker
            for worker2, shared2, others in self._outcomes.get(key) or self._known_outcomes(
                worker, shared, taken
            ):
                left = [self._outdated(w, others) for w in rest] if others else rest
                if len(left) == 1:  # the common case by hand: sorting takes as long as all the rest
                    two = left[0]
                    low, high = (worker2, two) if worker2 < two else (two, worker2)
                    found.append((shared2 << BITS | low) << BITS | high)
                else:
                    found.append(self._pack(shared2, [worker2, *left]))
        for shared2, how in self._others.get(shared) or self._known_others(shared):
            left = [self._outdated(w, how) for w in workers] if how else workers
            found.append(self._pack(shared2, left))
        return found

    def _known_others(self, shared: int) -> tuple[tuple[int, str], ...]:
        known = self._others.get(shared)
        if known is None:
            known = self._others[shared] = tuple(
                (self._shared(parts), how) for _, parts, how in self.moves.of_others(self._parts[shared])
            )
        return known

    def _held_by(self, workers: list[int]) -> int:
        taken = 0
        for worker in workers:
            taken |= self._held[worker]
        return taken

    def _known_outcomes(self, worker: int, shared: int, taken: int) -> tuple[Outcome, ...]:
        key = ((taken if self._claims[worker] else 0) << BITS | shared) << BITS | worker
        known = self._outcomes.get(key)
        if known is not None:
            return known
        parts = self._parts[shared]
        known = self._outcomes[key] = tuple(
            dict.fromkeys(
                (self._worker(move.local), self._shared(self._after(parts, move)), move.others)
                for move in self.moves.of(self._locals[worker], parts, taken)
            )
        )
        return known

    def _after(self, parts: Parts, move: Move) -> Parts:
        lost = parts.lost if not move.others or self.moves.habits.rebase else ()
        return Parts(
            parts.source,
            parts.lake if move.lake is None else move.lake,
            parts.checkpoints if move.checkpoints is None else move.checkpoints,
            tuple(sorted({*lost, *move.lost})) if move.lost else lost,
            parts.faults - bool(move.fault),
        )

    def _outdated(self, worker: int, how: str) -> int:
        known = self._moved[how].get(worker)
        if known is None:
            known = self._moved[how][worker] = self._worker(self.moves.outdated(self._locals[worker], how))
        return known

    # --- numbers ---------------------------------------------------------------------------------

    def _pack(self, shared: int, workers: list[int]) -> int:
        if len(workers) == 2:
            one, two = workers
            return (shared << BITS | one) << BITS | two if one < two else (shared << BITS | two) << BITS | one
        for worker in sorted(workers):
            shared = shared << BITS | worker
        return shared

    def _unpack(self, state: int) -> tuple[int, list[int]]:
        if self.model.workers == 2:
            return state >> 2 * BITS, [state >> BITS & MASK, state & MASK]
        workers = []
        for _ in range(self.model.workers):
            workers.append(state & MASK)
            state >>= BITS
        return state, workers

    def _worker(self, local: Local) -> int:
        number = self._workers.get(local)
        if number is None:
            number = self._workers[local] = len(self._locals)
            self._locals.append(local)
            self._held.append(local.held)
            self._claims.append(self.moves.claims(local))
        return number

    def _shared(self, parts: Parts) -> int:
        number = self._numbers.get(parts)
        if number is None:
            number = self._numbers[parts] = len(self._parts)
            self._parts.append(parts)
        return number

    # --- liveness --------------------------------------------------------------------------------

    def _can_be_finished(self, shared: int, workers: list[int]) -> None:
        """Faults have stopped: workers end their runs in any order; every way must end well."""
        ended, held, landed = self._ended, self._held, self._moved["landed"]
        for quiet, how in self._quiet.get(shared) or self._quieted(shared):
            ready = [self._outdated(w, how) for w in workers] if how else workers
            last = -1
            for at, worker in enumerate(ready):
                if worker == last:
                    continue
                last = worker
                rest = ready[:at] + ready[at + 1 :]
                taken = held[rest[0]] if len(rest) == 1 else self._held_by(rest)
                key = (taken << BITS | worker) << BITS | quiet
                for after, others in self._runs.get(key) or self._run_to_end(worker, quiet, taken):
                    if len(rest) == 1 and (not others or rest[0] in landed):
                        key = after << BITS | (landed[rest[0]] if others else rest[0])
                        if key in ended:  # the common case by hand
                            continue
                    left = [self._outdated(w, others) for w in rest] if others else rest
                    key = self._pack(after, left)
                    if key not in ended:
                        self._ended_by_others(after, left)
                        ended.add(key)

    def _ended_by_others(self, shared: int, workers: list[int]) -> None:
        if workers:
            self._can_be_finished(shared, workers)
            return
        for quiet, _ in self._quieted(shared):
            self._last_run(quiet)

    def _quieted(self, shared: int) -> tuple[tuple[int, str], ...]:
        """The story is told to its end, a person settles, each lost request arrives or never does."""
        known = self._quiet.get(shared)
        if known is None:
            found = set(self._calm(self._parts[shared]._replace(faults=0), ""))
            known = self._quiet[shared] = tuple((self._shared(parts), how) for parts, how in found)
        return known

    def _calm(self, parts: Parts, how: str) -> Iterable[tuple[Parts, str]]:
        options = list(self.moves.of_others(parts))
        must = next((o for o in options if o[0] in ("the service goes on", "a person settles")), None)
        if must is not None:
            return self._calm(must[1], must[2] or how)
        found = [(parts._replace(lost=()), how)]
        for _, after, what in options:
            found += self._calm(after, what)
        return found

    def _run_to_end(self, worker: int, shared: int, taken: int, steps: int = 0) -> frozenset[tuple[int, str]]:
        """Every way the worker's run can end when nobody else does anything and nothing goes wrong."""
        if self._locals[worker] == IDLE:
            return frozenset({(shared, "")})
        key = (taken << BITS | worker) << BITS | shared
        known = self._runs.get(key)
        if known is not None:
            return known
        if steps > RUN_STEPS_MAX:
            raise Violated("a run goes round in circles")
        ends: set[tuple[int, str]] = set()
        for worker2, shared2, how in self._known_outcomes(worker, shared, taken):
            for end, others in self._run_to_end(worker2, shared2, taken, steps + 1):
                ends.add((end, others or how))
        found = self._runs[key] = frozenset(ends)
        return found

    def _last_run(self, shared: int) -> None:
        """A worker alone runs until a run changes nothing; then everything must be there."""
        for _ in range(RUN_STEPS_MAX):
            worker, parts, _ = self._known_outcomes(self._worker(IDLE), shared, 0)[0]
            ends = {end for end, _ in self._run_to_end(worker, parts, 0)} - {shared}
            if not ends:
                self.moves.judge_end(self._parts[shared])
                return
            shared = min(ends)
        raise Violated("runs go on landing although nothing new was written")

    def _line(self, before: int, after: int, names: list[str]) -> tuple[str, list[str]]:
        """What the move between two states is called, and whose numbers stand where after it."""
        shared, workers = self._unpack(before)
        parts = self._parts[shared]
        for at, worker in enumerate(workers):
            rest = workers[:at] + workers[at + 1 :]
            for move in self.moves.of(self._locals[worker], parts, self._held_by(rest)):
                left = [self._outdated(o, move.others) for o in rest] if move.others else rest
                mine = self._worker(move.local)
                if self._pack(self._shared(self._after(parts, move)), [mine, *left]) == after:
                    left_names = names[:at] + names[at + 1 :]
                    order = sorted(zip([mine, *left], [names[at], *left_names], strict=True))
                    return f"{names[at]}: {move.label}", [name for _, name in order]
        for label, shared2, how in self.moves.of_others(parts):
            left = [self._outdated(w, how) for w in workers] if how else workers
            if self._pack(self._shared(shared2), left) == after:
                return label, [name for _, name in sorted(zip(left, names, strict=True))]
        raise LookupError("no move leads there")
