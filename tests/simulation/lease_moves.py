"""All moves of two workers that share leases, each worked out once for whoever makes it and what is shared.

A state is three numbers: of what is shared and of the two processes. What a process does leaves the other one
as it is, but for what that one remembers of rows: a row's id may be another now.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from tests.simulation.lease_world import (
    AGE_MAX,
    KILLED,
    OTHER,
    OVERTAKEN,
    SAME,
    SLEEPS,
    TICK_S,
    TIMEOUT_S,
    Killed,
    Model,
    Process,
    Scene,
    Shared,
)

TWO = (0, 1)
_TIMEOUT_TICKS = TIMEOUT_S // TICK_S
_JOINT = (SLEEPS, OVERTAKEN)
State = tuple[int, int, int]
Act = Callable[[Scene], None]


class Changed(NamedTuple):
    """The shards whose row has another id now, and the instances that gave a sign of life or are gone."""

    shards: frozenset[int]
    instances: frozenset[str]


class Moves:
    """All moves of a model; `watch` hears what both work on where two may look at the same moment."""

    def __init__(self, model: Model, watch: Callable[[Sequence[frozenset[int]]], None]) -> None:
        self.model, self.scene = model, Scene(model, watch)
        self.all_shared: list[Shared] = []
        self.processes: list[Process | None] = []
        self._shared_numbers: dict[Shared, int] = {}
        self._process_numbers: dict[Process | None, int] = {}
        self._own: dict[tuple[int, int, int], tuple[tuple[str, int, int, Changed], ...]] = {}
        self._again: dict[tuple[int, int, int], tuple[str, int, int, Changed]] = {}
        self._ticked: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._behind: dict[tuple[int, Changed], int] = {}
        self.nobody = self._process_number(None)

    def first(self) -> State:
        """Nobody has begun."""
        shared = Shared((), (), (), (0,) * self.model.shards, self.model.faults)
        return self._shared_number(shared), self.nobody, self.nobody

    def of(self, state: State) -> Iterator[tuple[str, State]]:
        """Every move from `state`: what it is called, and what there is afterwards."""
        shared = self.all_shared[state[0]]
        yield "half a timeout passes", self.tick(state)
        for number, sent in enumerate(shared.late):
            yield f"the late {sent.verb} of {sent.me} arrives", self.arrived(state, number)
        for at in TWO:
            for label, made, mine, changed in self._own_moves(state[0], at, state[1 + at]):
                yield label, self._put_together(at, made, mine, state, changed)
            yield from self._joint_moves(state, at)

    def run_again(self, state: State, at: int) -> State:
        """The next run of a process, when nothing goes wrong."""
        key = (state[0], at, state[1 + at])
        found = self._again.get(key)
        if found is None:
            one: list[Process | None] = [None, None]
            one[at] = self.processes[state[1 + at]]
            shared = self.all_shared[state[0]]
            found = self._own_move("", shared, one, at, partial(Scene.run_again, at=at), shared.faults)
            self._again[key] = found
        _, made, mine, changed = found
        return self._put_together(at, made, mine, state, changed)

    def tick(self, state: State) -> State:
        """Half a timeout passes."""
        shared = self._ticked.get(state[0])
        if shared is None:
            known = self.all_shared[state[0]]
            self.scene.put(known, ())
            self.scene.tick()
            shared = self._ticked[state[0]] = self._shared_number(self.scene.shared(known.faults))
        return shared, self._grown(state[1]), self._grown(state[2])

    def arrived(self, state: State, number: int) -> State:
        """A change that was late is carried out."""
        return self._both(state, lambda scene: scene.arrive(number))

    def without_faults(self, state: State, *, late: bool) -> State:
        """Faults have stopped; without `late`, what is on its way never arrives."""
        shared = self.all_shared[state[0]]._replace(faults=0)
        if late or not shared.late:
            return self._shared_number(shared), state[1], state[2]
        mine = [self._process_number(self._without_late(self.processes[n])) for n in state[1:]]
        return self._shared_number(shared._replace(late=())), mine[0], mine[1]

    def working(self, state: State) -> list[frozenset[int]]:
        """What each works on."""
        found = [self.processes[n] for n in state[1:]]
        return [p.working if p is not None else frozenset() for p in found]

    # --- worked out once -------------------------------------------------------------------------

    def _own_moves(self, shared: int, at: int, mine: int) -> tuple[tuple[str, int, int, Changed], ...]:
        """The moves that ask nothing of the other process."""
        key = (shared, at, mine)
        found = self._own.get(key)
        if found is None:
            found = self._own[key] = tuple(dict.fromkeys(self._work_out(self.all_shared[shared], at, mine)))
        return found

    def _work_out(self, shared: Shared, at: int, mine: int) -> Iterator[tuple[str, int, int, Changed]]:
        name = self.model.names[at]
        one: list[Process | None] = [None, None]
        one[at] = self.processes[mine]
        kinds = [k for k in self.model.kinds if k not in _JOINT] if shared.faults else []
        for label, act in self._acts(shared, at, one[at]):
            yield self._own_move(f"{name} {label}", shared, one, at, act, shared.faults)
            for number, verb in self._places(at):
                for kind in kinds:
                    struck = partial(self._struck, act=act, at=at, number=number, kind=kind)
                    what = f"{name} {label}, {kind} at its {verb}"
                    yield self._own_move(what, shared, one, at, struck, shared.faults - 1)
        if one[at] is not None and KILLED in kinds:
            act = partial(Scene.kill, at=at)
            yield self._own_move(f"{name} {KILLED}", shared, one, at, act, shared.faults - 1)

    def _own_move(
        self, label: str, shared: Shared, one: Sequence[Process | None], at: int, act: Act, faults: int
    ) -> tuple[str, int, int, Changed]:
        scene = self.scene
        scene.put(shared, one)
        ids = {s: lease.lease_id for s, lease in scene.store.leases.items()}
        signs = dict(scene.store.instances)
        self._do(act, at)
        changed = Changed(
            frozenset(s for s, lease_id in ids.items() if scene.store.leases[s].lease_id != lease_id),
            frozenset(n for n, sign in signs.items() if not scene.shows(scene.store.instances.get(n), sign)),
        )
        made, mine = self._shared_number(scene.shared(faults)), self._process_number(scene.process(at))
        return label, made, mine, changed

    def _joint_moves(self, state: State, at: int) -> tuple[tuple[str, State], ...]:
        """The moves in which the other process acts in between."""
        shared = self.all_shared[state[0]]
        kinds = [k for k in self.model.kinds if k in _JOINT] if shared.faults else []
        found: list[tuple[str, State]] = []
        if not kinds:
            return ()
        for label, act in self._acts(shared, at, self.processes[state[1 + at]]):
            self._both(state, act)
            for number, verb in self._places(at):
                for kind in kinds:
                    struck = partial(self._struck, act=act, at=at, number=number, kind=kind)
                    what = f"{self.model.names[at]} {label}, {kind} at its {verb}"
                    found.append((what, self._both(state, struck, shared.faults - 1)))
        return tuple(found)

    def _places(self, at: int) -> list[tuple[int, str]]:
        """The changes that the process has just sent, as far as faults may strike there."""
        sent = enumerate(self.scene.wires[at].changes, 1)
        return [(number, verb) for number, verb in sent if verb in self.model.verbs or not self.model.verbs]

    def _both(self, state: State, act: Act, faults: int | None = None) -> State:
        shared = self.all_shared[state[0]]
        self.scene.put(shared, [self.processes[n] for n in state[1:]])
        self._do(act, 0)
        mine = [self._process_number(self.scene.process(at)) for at in TWO]
        made = self.scene.shared(shared.faults if faults is None else faults)
        return self._shared_number(made), mine[0], mine[1]

    def _do(self, act: Act, at: int) -> None:
        try:
            act(self.scene)
        except Killed:
            self.scene.kill(at)

    def _struck(self, scene: Scene, act: Act, at: int, number: int, kind: str) -> None:
        scene.wires[at].strike = (number, lambda: scene.strikes(at, kind))
        act(scene)

    def _acts(self, shared: Shared, at: int, process: Process | None) -> Iterator[tuple[str, Act]]:
        label = "begins" if process is None else "renews" if process.claimed else "goes on claiming"
        yield label, partial(Scene.step, at=at)
        if process is None:
            return
        yield "ends", partial(Scene.end, at=at)
        for shard in sorted(process.working) if self.model.landings else ():
            if shared.frontiers[shard] < self.model.landings:
                yield f"lands of shard {shard}", partial(Scene.land, at=at, shard=shard)
        for shard, _ in process.unsaved:
            yield f"saves shard {shard}", partial(Scene.save, at=at, shard=shard)

    # --- the other one, and time -----------------------------------------------------------------

    def _put_together(self, at: int, made: int, mine: int, state: State, changed: Changed) -> State:
        theirs = self._after_change(state[2 - at], changed)
        return (made, mine, theirs) if at == 0 else (made, theirs, mine)

    def _after_change(self, number: int, changed: Changed) -> int:
        found = self._behind.get((number, changed))
        if found is None:
            process = self.processes[number]
            made = process if process is None else _behind(process, changed)
            found = self._behind[number, changed] = self._process_number(made)
        return found

    def _grown(self, number: int) -> int:
        found = self._older.get(number)
        if found is None:
            process = self.processes[number]
            found = self._process_number(process if process is None else _older(process))
            self._older[number] = found
        return found

    @staticmethod
    def _without_late(process: Process | None) -> Process | None:
        if process is None:
            return None
        ids = tuple(one for one in process.ids if one[0] >= 0)
        return process._replace(ids=ids, lost=tuple(one for one in process.lost if one[0] >= 0))

    def _shared_number(self, shared: Shared) -> int:
        number = self._shared_numbers.setdefault(shared, len(self.all_shared))
        if number == len(self.all_shared):
            self.all_shared.append(shared)
        return number

    def _process_number(self, process: Process | None) -> int:
        number = self._process_numbers.setdefault(process, len(self.processes))
        if number == len(self.processes):
            self.processes.append(process)
        return number


def _behind(process: Process, changed: Changed) -> Process:
    """What a process knows after others changed rows."""
    return process._replace(
        leases=tuple(
            (s, OTHER if what == SAME and s in changed.shards else what, age)
            for s, what, age in process.leases
        ),
        instances=tuple((n, same and n not in changed.instances, age) for n, same, age in process.instances),
        ids=tuple(one for one in process.ids if one[0] not in changed.shards),
        lost=tuple(one for one in process.lost if one[0] not in changed.shards),
        owned=tuple((s, same and s not in changed.shards) for s, same in process.owned),
    )


def _older(process: Process) -> Process:
    """The same half a timeout later."""

    def grown(age: int, most: int = _TIMEOUT_TICKS) -> int:
        return min(most, age + 1)

    return process._replace(
        leases=tuple((s, what, grown(age)) for s, what, age in process.leases),
        instances=tuple((n, same, grown(age)) for n, same, age in process.instances),
        read=grown(process.read),
        ids=tuple((place, grown(age)) for place, age in process.ids),
        lost=tuple((place, grown(age)) for place, age in process.lost),
        until=tuple((s, left - 1) for s, left in process.until if left > 1),
        waiting=tuple((s, grown(age)) for s, age in process.waiting),
        took=grown(process.took, AGE_MAX),
    )
