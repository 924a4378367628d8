"""A worker of a small world hands an event to production's `protocol.step`, and goes on as that says.

Each pair of a state and an event is stepped once; `taken` has them all, for those who ask what the search
has seen the protocol do.
"""

from collections import Counter

from pipelines.landing.run import protocol
from pipelines.landing.run.protocol import Phase
from sls_io.values.errors import InvariantBroken, SlsError
from tests.simulation.model import IDLE, Local, Move, Names, essence

Step = tuple[int, int, Phase]
"""Numbers of the state and of the effect afterwards, -1 for none; and the state's phase."""
_NO_BASE = (Phase.CLAIMING, Phase.READING, Phase.RECONCILING, Phase.CHECKPOINTING, Phase.RELEASING)


class Steps:
    """The protocol's steps as moves. `seen` counts the errors that runs ended with."""

    def __init__(self, names: Names, seen: Counter[str]) -> None:
        self.names, self.seen = names, seen
        self.taken: list[tuple[protocol.State, protocol.Event]] = []
        self._known: dict[tuple[int, int], Step | None] = {}

    def feed(self, local: Local, event: protocol.Event, label: str, fault: str = "") -> Move:
        """The move in which the worker hands `event` to the protocol. Raises InvariantBroken."""
        found = self._step(local.state, self.names.of(event))
        if found is None:
            return Move(f"{label}, run ends", IDLE, fault=fault, lost=local.flying)
        state, effect, phase = found
        if effect < 0:
            return Move(f"{label}, run ends", IDLE, fault=fault, lost=local.flying)
        local = local._replace(state=state, effect=effect, listed=None)
        if phase not in _NO_BASE:
            return Move(label, local, fault=fault)
        # The attempt is over: no later question of this worker is about its tries.
        lost = local.flying
        local = local._replace(fresh=False, schema=0, files=(), swept=False, landed=0, flying=())
        return Move(label, local, fault=fault, lost=lost)

    def ended(self, local: Local, error: str, fault: str = "") -> Move:
        """The move in which the worker's driver raises `error`."""
        self.seen[f"run ended: {error}"] += 1
        return Move(f"run ends: {error}", IDLE, fault=fault, lost=local.flying)

    def _step(self, state: int, event: int) -> Step | None:
        key = (state, event)
        if key in self._known:
            return self._known[key]
        before, what = self.names.values[state], self.names.values[event]
        self.taken.append((before, what))
        result: Step | None = None
        try:
            after, effects = protocol.step(before, what)
        except InvariantBroken:
            raise
        except SlsError as error:
            self.seen[f"run ended: {type(error).__name__}"] += 1
        else:
            effect = self.names.of(effects[0]) if effects else -1
            result = (self.names.of(essence(after)), effect, after.phase)
        self._known[key] = result
        return result
