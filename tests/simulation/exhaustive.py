"""Every state that a small world can get into: breadth first, until the queue is empty.

A state is one integer: the number of what is shared, then the sorted numbers of the workers. All states
of one depth are an array, so that what was worked out once (where a worker's move leads, how a run can
end) is looked up for a whole depth at a time.
In every state what must hold is judged: commits, rows, gaps, closings and checkpoints where they are
made (`judging.py`), and that the job can still be finished: were faults to stop right there, whatever is
on its way arrives or not, the workers end their runs one after the other in any order, a last one runs
until nothing is left, and then every group must be in rows or in a gap.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, pairwise
from operator import or_
from random import Random

import numpy as np
import numpy.typing as npt

from sls_io.values.errors import InvariantBroken
from tests.simulation.checks import Violated
from tests.simulation.model import IDLE, Model, Parts
from tests.simulation.moves import Moves
from tests.simulation.worker import Habits

BITS_MAX = 24
NO_HABITS = Habits()
RUN_STEPS_MAX = 200
HOW = ("", "landed", "moved", "rolled back")
"""What a move does to the bases of all other workers; a row has its place here."""

Numbers = npt.NDArray[np.int64]
Rows = tuple[int, ...]
"""Each is three numbers in one: what happens to the others, the shared number, a worker's number."""


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


class Known:
    """A set of numbers that only grows: a sorted array."""

    def __init__(self) -> None:
        self.numbers: Numbers = np.empty(0, np.int64)

    def lacks(self, numbers: Numbers) -> Numbers:
        """Those of `numbers` that are not in the set, sorted, each once."""
        distinct = _distinct(numbers)
        if not len(self.numbers):
            return distinct
        at = np.searchsorted(self.numbers, distinct)
        found: Numbers = distinct[self.numbers.take(at, mode="clip") != distinct]
        return found

    def add(self, numbers: Numbers) -> None:
        """Take in numbers that the set lacks."""
        both = np.concatenate([self.numbers, numbers])
        both.sort(kind="stable")  # two sorted runs: merged, not sorted
        self.numbers = both


def _distinct(numbers: Numbers) -> Numbers:
    """The numbers sorted, each once; `np.unique` would hash them first, which takes many times as long."""
    ordered = np.sort(numbers)
    found: Numbers = ordered[np.diff(ordered, prepend=-1) != 0]
    return found


class Exhaustive:
    """One search of one model."""

    def __init__(self, model: Model, habits: Habits = NO_HABITS) -> None:
        self.model = model
        self.moves = Moves(model, habits)
        self.bits = min(BITS_MAX, 63 // (model.workers + 1))
        self.mask = (1 << self.bits) - 1
        self.idle = self.moves.worker(IDLE)
        self._numbers: dict[Parts, int] = {}
        self._parts: list[Parts] = []
        self._outcomes: dict[int, Rows] = {}
        self._others: dict[int, Rows] = {}
        self._quiet: dict[int, Rows] = {}
        self._runs: dict[int, Rows] = {}
        self._judged = [Known() for _ in range(model.workers + 1)]
        self._levels: list[Numbers] = []

    def run(self) -> Explored:
        """Explore everything. Raises Violated or InvariantBroken with the shortest way there in a note."""
        known, edges, self._levels = Known(), 0, [self._start()]
        collects = gc.isenabled()
        gc.disable()  # millions of values that all stay: looking for garbage among them takes half the time
        try:
            while len(states := self._levels[-1]):
                known.add(states)
                reached, _ = self._next(states)
                edges += len(reached)
                self._can_be_finished(states, self.model.workers)
                self._levels.append(known.lacks(reached))
        except (Violated, InvariantBroken) as error:
            self._tell(error, self._way_to(self._guilty(self._levels[-1])))
            raise
        finally:
            if collects:
                gc.enable()
        return Explored(
            len(known.numbers),
            edges,
            len(self._levels) - 2,
            len(self.moves.workers),
            len(self._parts),
            len(self.moves.steps.taken),
            self.moves.seen,
            frozenset(self.moves.struck),
        )

    def sample(self, seeds: Sequence[int], steps: int) -> Counter[str]:
        """For each seed a random way of `steps` moves, its faults at places drawn from all of them.

        Judges as `run`. Returns the faults that struck. For models too large to be explored to their end.
        """
        chance = [Random(seed) for seed in seeds]
        places = [set(rng.sample(range(steps), self.model.faults)) for rng in chance]
        ways = [self._start().tolist() for _ in seeds]
        names = [""] * self.model.workers
        struck: Counter[str] = Counter()
        for step in range(steps):
            states = np.array([way[-1] for way in ways], np.int64)
            try:
                self._can_be_finished(states, self.model.workers)
                reached, origins = self._next(states)
            except (Violated, InvariantBroken) as error:
                at = states.tolist().index(self._guilty(states))
                self._tell(error, ways[at])
                error.add_note(f"seed {seeds[at]}")
                raise
            options: list[tuple[list[int], list[int]]] = [([], []) for _ in seeds]
            for one, at in zip(reached.tolist(), origins.tolist(), strict=True):
                options[at][self._faults(one) < self._faults(ways[at][-1])].append(one)
            for way, rng, strikes, (calm, strike) in zip(ways, chance, places, options, strict=True):
                way.append(rng.choice(strike if step in strikes and strike else calm))
                if way[-1] in strike:
                    struck[self._line(way[-2], way[-1], names)[0].split(": ", 1)[-1]] += 1
        return struck

    # --- one step, from many states at a time ----------------------------------------------------

    def _start(self) -> Numbers:
        workers = np.full((self.model.workers, 1), self.moves.worker(IDLE))
        return self._pack(np.array([self._shared(self.moves.first())]), workers)

    def _next(self, states: Numbers) -> tuple[Numbers, Numbers]:
        """The states that one move leads to, and for each where in `states` it comes from."""
        shared, workers = self._unpack(states, self.model.workers)
        claims = np.array(self.moves.claims)
        reached: list[Numbers] = []
        origins: list[Numbers] = []
        for which, mine, rest, held in self._one_by_one(workers):
            taken = np.where(claims[mine], held, 0)
            key = (taken << self.bits | shared[which]) << self.bits | mine
            at, shared2, how, mine2 = self._look_up(self._outcomes, self._outcomes_of, key)
            reached.append(self._pack(shared2, np.vstack([mine2, self._moved(rest[:, at], how)])))
            origins.append(which[at])
        at, shared2, how, _ = self._look_up(self._others, self._others_of, shared)
        reached.append(self._pack(shared2, self._moved(workers[:, at], how)))
        origins.append(at)
        return np.concatenate(reached), np.concatenate(origins)

    def _can_be_finished(self, states: Numbers, count: int) -> None:
        """Faults have stopped: the `count` workers end their runs in any order; every way must end well."""
        shared, workers = self._unpack(states, count)
        at, shared, how, _ = self._look_up(self._quiet, self._quieted, shared)
        calm = self._judged[count].lacks(self._pack(shared, self._moved(workers[:, at], how)))
        if not count:
            for one in calm.tolist():
                self._last_run(one)
        elif len(calm):
            shared, workers = self._unpack(calm, count)
            ended: list[Numbers] = []
            for which, mine, rest, held in self._one_by_one(workers):
                key = (held << self.bits | shared[which]) << self.bits | mine
                at, after, how, _ = self._look_up(self._runs, self._run_to_end, key)
                ended.append(self._pack(after, self._moved(rest[:, at], how)))
            self._can_be_finished(_distinct(np.concatenate(ended)), count - 1)
        self._judged[count].add(calm)

    def _one_by_one(self, workers: Numbers) -> Iterator[tuple[Numbers, Numbers, Numbers, Numbers]]:
        """Each worker: which states, its numbers, the others' numbers, the shards that others hold.

        Of two workers in the same state only the first: the moves of both lead to the same states.
        """
        held = np.array(self.moves.held)
        for at, mine in enumerate(workers):
            which = np.flatnonzero(mine != workers[at - 1]) if at else np.arange(len(mine))
            rest = np.delete(workers, at, axis=0)[:, which]
            yield which, mine[which], rest, np.bitwise_or.reduce(held[rest], axis=0)

    def _look_up(
        self, known: dict[int, Rows], rows_of: Callable[[int], Rows], keys: Numbers
    ) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """All rows of all keys: for each the place of its key, shared number, how, worker's number."""
        distinct, place = np.unique(keys, return_inverse=True)
        found = [known.get(key) or rows_of(key) for key in distinct.tolist()]
        counts = np.fromiter(map(len, found), np.int64, len(found))
        rows = np.fromiter(chain.from_iterable(found), np.int64, counts.sum())
        many = counts[place]
        at = np.repeat(np.arange(len(keys)), many)
        first = (np.cumsum(counts) - counts)[place] - (np.cumsum(many) - many)
        rows = rows[first[at] + np.arange(len(at))]
        return at, rows >> self.bits & self.mask, rows >> 2 * self.bits, rows & self.mask

    def _moved(self, workers: Numbers, how: Numbers) -> Numbers:
        """The workers after somebody moved the table as `how` says, each column its own way."""
        for number, name in enumerate(HOW[1:], 1):
            at = np.flatnonzero(how == number)
            if len(at):
                distinct, place = np.unique(workers[:, at], return_inverse=True)
                behind = [self.moves.behind(worker, name) for worker in distinct.tolist()]
                workers[:, at] = np.array(behind, np.int64)[place].reshape(-1, len(at))
        return workers

    # --- numbers ---------------------------------------------------------------------------------

    def _pack(self, shared: Numbers, workers: Numbers) -> Numbers:
        for end in range(len(workers) - 1, 0, -1):
            for at in range(end):
                one, two = workers[at], workers[at + 1]
                workers[at], workers[at + 1] = np.minimum(one, two), np.maximum(one, two)
        for worker in workers:
            shared = shared << self.bits | worker
        if max(len(self._parts), len(self.moves.workers)) > self.mask:
            raise OverflowError(f"{self.model.name}: {self.bits} bits are too few for its numbers")
        return shared

    def _unpack(self, states: Numbers, count: int) -> tuple[Numbers, Numbers]:
        """What is shared, and a row of numbers for each of `count` workers."""
        places = np.arange(count - 1, -1, -1)[:, np.newaxis]
        return states >> count * self.bits, states >> places * self.bits & self.mask

    def _row(self, shared: int, how: str, worker: int = 0) -> int:
        return (HOW.index(how) << self.bits | shared) << self.bits | worker

    def _shared(self, parts: Parts) -> int:
        number = self._numbers.get(parts)
        if number is None:
            number = self._numbers[parts] = len(self._parts)
            self._parts.append(parts)
        return number

    # --- what is worked out once -----------------------------------------------------------------

    def _outcomes_of(self, key: int) -> Rows:
        """A worker's moves; the key is what others hold, if that matters, the shared and its own number."""
        known = self._outcomes.get(key)
        if known is None:
            parts = self._parts[key >> self.bits & self.mask]
            known = self._outcomes[key] = tuple(
                dict.fromkeys(
                    self._row(self._shared(self.moves.after(parts, move)), move.others, worker)
                    for worker, move in self.moves.of(key & self.mask, parts, key >> 2 * self.bits)
                )
            )
        return known

    def _others_of(self, shared: int) -> Rows:
        """What the service and other people do."""
        known = self._others.get(shared)
        if known is None:
            options = self.moves.others.of(self._parts[shared])
            known = self._others[shared] = tuple(self._row(self._shared(p), how) for _, p, how in options)
        return known

    def _quieted(self, shared: int) -> Rows:
        """The story is told to its end, a person settles, each lost request arrives or never does."""
        known = self._quiet.get(shared)
        if known is None:
            found = set(self._calm(self._parts[shared]._replace(faults=0), ""))
            known = self._quiet[shared] = tuple(self._row(self._shared(parts), how) for parts, how in found)
        return known

    def _calm(self, parts: Parts, how: str) -> Iterable[tuple[Parts, str]]:
        options = list(self.moves.others.of(parts))
        must = next((o for o in options if o[0] in ("the service goes on", "a person settles")), None)
        if must is not None:
            return self._calm(must[1], must[2] or how)
        found = [(parts._replace(lost=()), how)]
        for _, after, what in options:
            found += self._calm(after, what)
        return found

    def _run_to_end(self, key: int, steps: int = 0) -> Rows:
        """Every way a worker's run can end when nobody else does anything and nothing goes wrong.

        The key is as that of `_outcomes_of`.
        """
        known = self._runs.get(key)
        if known is not None:
            return known
        bits, mask = self.bits, self.mask
        taken, shared, worker = key >> 2 * bits, key >> bits & mask, key & mask
        if worker == self.idle:
            self._runs[key] = (self._row(shared, ""),)
            return self._runs[key]
        if steps > RUN_STEPS_MAX:
            raise Violated("a run goes round in circles")
        ends: set[int] = set()
        for row in self._outcomes_of(key if self.moves.claims[worker] else key & (1 << 2 * bits) - 1):
            how = row >> 2 * bits
            for end in self._run_to_end(taken << 2 * bits | row & (1 << 2 * bits) - 1, steps + 1):
                ends.add(end if end >> 2 * bits else how << 2 * bits | end)
        found = self._runs[key] = tuple(ends)
        return found

    def _last_run(self, shared: int) -> None:
        """A worker alone runs until a run changes nothing; then everything must be there."""
        for _ in range(RUN_STEPS_MAX):
            begun = self._outcomes_of(shared << self.bits | self.idle)[0]
            ends = {end >> self.bits & self.mask for end in self._run_to_end(begun)} - {shared}
            if not ends:
                self.moves.judge.end(self._parts[shared])
                return
            shared = min(ends)
        raise Violated("runs go on landing although nothing new was written")

    # --- what went wrong, and how it came to that ------------------------------------------------

    def _guilty(self, states: Numbers) -> int:
        """One of the states: the first from which something leads on that must not."""
        while len(states) > 1:
            half = states[: len(states) // 2]
            try:
                self._next(half)
                self._can_be_finished(half, self.model.workers)
            except (Violated, InvariantBroken):
                states = half
            else:
                states = states[len(half) :]
        return int(states[0])

    def _way_to(self, state: int) -> list[int]:
        """The states from the start to `state`, which is of the newest level."""
        way = [state]
        for level in reversed(self._levels[:-1]):
            reached, origins = self._next(level)
            way.append(int(level[origins[np.argmax(reached == way[-1])]]))
        return way[::-1]

    def _tell(self, error: Exception, way: list[int]) -> None:
        names = [f"worker {name}" for name in "ABC"[: self.model.workers]]
        for before, after in pairwise(way):
            line, names = self._line(before, after, names)
            error.add_note(line)
        try:
            self._next(np.array(way[-1:]))
        except (Violated, InvariantBroken):
            error.add_note("and then the next move")
        else:
            error.add_note("then faults stop, runs are ended one by one")

    def _line(self, before: int, after: int, names: list[str]) -> tuple[str, list[str]]:
        """What the move between two states is called, and whose numbers stand where after it."""
        shared, among = self._unpack(np.array([before]), self.model.workers)
        parts, workers = self._parts[shared[0]], among[:, 0].tolist()
        options = [
            (label, made, [self.moves.behind(w, how) for w in workers], names)
            for label, made, how in self.moves.others.of(parts)
        ]
        for at, worker in enumerate(workers):
            rest = workers[:at] + workers[at + 1 :]
            order = [names[at], *names[:at], *names[at + 1 :]]
            taken = reduce(or_, (self.moves.held[w] for w in rest), 0)
            for number, move in self.moves.of(worker, parts, taken):
                left = [self.moves.behind(w, move.others) for w in rest]
                options.append(
                    (f"{names[at]}: {move.label}", self.moves.after(parts, move), [number, *left], order)
                )
        for label, made, numbers, order in options:
            packed = self._pack(np.array([self._shared(made)]), np.array([numbers]).T)
            if packed[0] == after:
                return label, [name for _, name in sorted(zip(numbers, order, strict=True))]
        raise LookupError("no move leads there")

    def _faults(self, state: int) -> int:
        return self._parts[state >> self.model.workers * self.bits].faults
