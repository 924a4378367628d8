"""What one process does of a run that several share: seeds of random schedules, or a whole model."""

import os
from collections import Counter

from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import InvariantBroken
from tests.simulation.checks import Violated
from tests.simulation.exhaustive import Exhaustive
from tests.simulation.lease_search import LeaseSearch
from tests.simulation.lease_world import Model as LeaseModel
from tests.simulation.model import Model
from tests.simulation.schedule import simulate

CHUNK = 250


def chunks(first: int, last: int) -> list[tuple[int, int]]:
    """The seeds [first, last) in parts small enough to be shared evenly."""
    return [(seed, min(seed + CHUNK, last)) for seed in range(first, last, CHUNK)]


def play(seeds: tuple[int, int]) -> tuple[Counter[str], list[str]]:
    """Schedules of the seeds [first, last); what they saw, and what broke."""
    seen, broken = Counter[str](), []
    for seed in range(*seeds):
        try:
            seen += simulate(seed)
        except (Violated, InvariantBroken) as error:
            broken.append(f"BROKEN by seed {seed}: {error}")
    return seen, broken


def explore(model: Model) -> tuple[int, list[str], list[str]]:
    """(states, lines to print, what broke) of one model. Rates are per second of processor time."""
    begun_s, begun = SYSTEM_CLOCK.monotonic(), os.times()
    try:
        found = Exhaustive(model).run()
    except (Violated, InvariantBroken) as error:
        return 0, [str(model)], [f"BROKEN in {model.name}: {error}", *(f"    {n}" for n in error.__notes__)]
    ended = os.times()
    worked_s = ended.user + ended.system - begun.user - begun.system
    lines = [
        str(model),
        f"    complete: {found.states:,} states, {found.moves:,} moves, depth {found.depth}; "
        f"{worked_s:.0f} s of one core ({SYSTEM_CLOCK.monotonic() - begun_s:.0f} s by the clock), "
        f"{found.states / max(worked_s, 1e-9):,.0f} states a second",
        f"    {found.locals:,} states of a worker, {found.shared:,} of what is shared, "
        f"{found.steps:,} different steps of the protocol",
    ]
    return found.states, lines, []


def explore_any(model: Model | LeaseModel) -> tuple[int, list[str], list[str]]:
    """As `explore`; also two workers that share leases."""
    if isinstance(model, Model):
        return explore(model)
    try:
        found = LeaseSearch(model).run()
    except Violated as error:
        return 0, [str(model)], [f"BROKEN in {model.name}: {error}", *(f"    {n}" for n in error.__notes__)]
    return found.states, [str(model), f"    complete: {found.states:,} states, {found.moves:,} moves"], []
