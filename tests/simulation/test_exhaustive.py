"""Small worlds explored to their end: every order, every place for a fault, every state judged.

These are about a million states; `make simulate` explores the full models. A failure prints the
shortest way to it, move by move.
"""

from collections import Counter
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import pytest

from pipelines.landing.ledger.values import Landed
from pipelines.landing.run import protocol
from pipelines.landing.run.protocol import Phase
from sls_io.planning.values import Plan
from sls_io.planning.waits import HELD
from sls_io.values.claim import Claim, Ledger
from sls_io.values.errors import InvariantBroken, SlsError
from sls_io.values.window import Cursor, Window
from tests.simulation.checks import Violated
from tests.simulation.exhaustive import Exhaustive, Explored
from tests.simulation.model import (
    ANSWER_LOST,
    CLAIM_LOST,
    CRASH,
    FENCED,
    IDLE,
    LATE,
    LIE,
    LIES,
    PAGE,
    PUT_OFF,
    REQUEST_LOST,
    SWEEP,
    TAKEN,
    UNREADABLE,
    Model,
    essence,
)
from tests.simulation.models import FULL, HUNTING, QUICK
from tests.simulation.moves import Moves
from tests.simulation.mutants import MUTANTS, Mutant, alive
from tests.simulation.worker import Habits

RARE = (
    "a late request landed",
    "a try was refused",
    "an answer was lost",
    "child after parent",
    "closed with zero rows",
    "files too old",
    "fill landed",
    "gap",
    "retention overtook a window",
    "rolled back by hand",
    "run ended: ClaimLost",
    "run ended: LandingConflict",
    "run ended: LandingUnknown",
    "run ended: LedgerBroken",
    "schema or spec moved",
    "shard written off",
    "some windows were lost, the others sent again",
    "the same files were sent again",
    "unknown was landed",
    "unknown was not landed",
)
"""Situations that the search must have been in: one that never gets there proves nothing."""

EFFECTS = {
    *("ClaimShards", "ReadLedger", "ResolveStart", "SurveyShards", "WriteWindows"),
    *("Publish", "Reload", "Reconcile", "PublishCheckpoints", "Release"),
}
STRIKES = {
    CRASH: EFFECTS,
    CLAIM_LOST: EFFECTS - {"ClaimShards"},
    PAGE: {"WriteWindows"},
    REQUEST_LOST: {"Publish"},
    ANSWER_LOST: {"Publish"},
    LATE: {"Publish"},
    SWEEP: {"Publish", "Reload"},
    UNREADABLE: {"Reload"},
    FENCED: {"ReadLedger", "Reload"},
    PUT_OFF: {"PublishCheckpoints"},
    LIE: {"SurveyShards"},
    LIES: {"SurveyShards"},
    TAKEN: EFFECTS - {"ClaimShards"},
}
"""At which effects of a worker each fault can strike; the other kinds strike between any two moves."""

SMALL = (HUNTING[0], HUNTING[2], replace(QUICK[3], hours=1, kinds=frozenset({CRASH, LATE})))
"""Small enough to be explored twice, with one, two and three workers."""

TRIPLES = 300


@pytest.fixture(scope="module")
def explored() -> dict[str, Explored]:
    """The quick models, each explored until its queue was empty."""
    return {model.name: Exhaustive(model).run() for model in QUICK}


@pytest.mark.parametrize("model", QUICK, ids=lambda m: m.name)
def test_no_state_is_wrong_and_from_each_the_job_can_be_finished(
    explored: dict[str, Explored], model: Model
) -> None:
    assert explored[model.name].states >= 10_000


def test_about_a_million_states_are_judged(explored: dict[str, Explored]) -> None:
    assert sum(found.states for found in explored.values()) >= 1_000_000


@pytest.mark.parametrize("situation", RARE)
def test_the_search_was_in_the_rare_situation(explored: dict[str, Explored], situation: str) -> None:
    seen: Counter[str] = Counter()
    for found in explored.values():
        seen += found.seen
    assert seen[situation] >= 3


@pytest.mark.parametrize("kind", sorted(STRIKES))
def test_the_fault_struck_at_every_effect_it_can_strike_at(explored: dict[str, Explored], kind: str) -> None:
    struck = {where for found in explored.values() for what, where in found.struck if what == kind}
    assert struck >= STRIKES[kind]


def test_three_faults_at_places_drawn_by_chance_break_nothing_either() -> None:
    search = Exhaustive(Model("sampled triples", faults=3, fills=True))
    struck = search.sample(range(TRIPLES), steps=90)
    assert struck.total() > 2 * TRIPLES
    assert len(struck) >= 14  # all kinds


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_search_finds(mutant: Mutant) -> None:
    seen: Counter[str] = Counter()
    with alive(mutant):
        for model in HUNTING:
            try:
                seen += Exhaustive(model, mutant.habits).run().seen
            except (Violated, InvariantBroken) as error:
                assert error.__notes__
                return
    if mutant.never and not seen[mutant.never]:
        return
    pytest.fail(f"survived every state of {len(HUNTING)} models: {mutant.name}", pytrace=False)


def test_the_way_to_a_bug_is_told_move_by_move() -> None:
    mutant = next(m for m in MUTANTS if m.name == "files of a refused try are deleted")
    with alive(mutant), pytest.raises(Violated, match="its file was deleted") as caught:
        Exhaustive(HUNTING[0], mutant.habits).run()
    way = caught.value.__notes__
    assert way[0] == "worker A: begin"
    assert any("publish" in line for line in way)


def test_a_model_says_what_it_is() -> None:
    assert str(FULL[0]) == (
        "all faults: 2 workers, live runs, 2 shards and a split, 2 windows in the first, 2 faults of 14 kinds"
    )


def test_a_state_is_one_of_a_few_numbers_whoever_is_in_it() -> None:
    one, two = Exhaustive(QUICK[4]).run(), Exhaustive(QUICK[4]).run()
    assert (one.states, one.moves, one.depth) == (two.states, two.moves, two.depth)


@pytest.mark.parametrize("model", SMALL, ids=lambda m: m.name)
def test_the_search_by_arrays_finds_what_a_plain_walk_finds(model: Model) -> None:
    moves = Moves(model, Habits())
    edges, queue = 0, [(moves.first(), (moves.worker(IDLE),) * model.workers)]
    known = set(queue)
    for parts, workers in queue:
        reached = [(made, [moves.behind(w, how) for w in workers]) for _, made, how in moves.others.of(parts)]
        for worker in set(workers):
            rest = list(workers)
            rest.remove(worker)
            taken = reduce(or_, (moves.held[w] for w in rest), 0)
            for mine, made, how in {
                (mine, moves.after(parts, move), move.others) for mine, move in moves.of(worker, parts, taken)
            }:
                reached.append((made, [mine, *(moves.behind(w, how) for w in rest)]))
        edges += len(reached)
        for made, numbers in reached:
            state = made, tuple(sorted(numbers))
            if state not in known:
                known.add(state)
                queue.append(state)
    found = Exhaustive(model).run()
    assert (found.states, found.moves) == (len(known), edges)


def test_steps_do_not_look_at_what_the_search_leaves_out() -> None:
    search = Exhaustive(HUNTING[0])
    search.run()
    taken = search.moves.steps.taken
    assert len(taken) > 1000
    for state, event in taken:
        assert _said(state, event) == _said(_littered(state), event)


def _said(state: protocol.State, event: protocol.Event) -> Any:
    try:
        after, effects = protocol.step(state, event)
    except SlsError as error:
        return type(error)
    return essence(after), effects


def _littered(state: protocol.State) -> protocol.State:
    """The state with other values where `essence` has none."""
    junk = Landed(Window(99, Cursor(1), Cursor(2), 3), 4, 5)
    state = replace(state, landed=(junk,), snapshot_id=77, waits={9: HELD}, problems=("?",), conflicts=9)
    if state.phase is not Phase.WRITING:
        state = replace(state, plan=Plan("junk", live=True, until_s=0))
    if state.phase in (Phase.CLAIMING, Phase.READING, Phase.CHECKPOINTING, Phase.RELEASING):
        state = replace(state, ledger=Ledger("junk"))
    if state.phase in (Phase.CLAIMING, Phase.CHECKPOINTING, Phase.RELEASING):
        state = replace(state, claim=Claim("junk", frozenset({99})))
    if state.phase in (Phase.RECONCILING, Phase.CHECKPOINTING, Phase.RELEASING):
        state = replace(state, replans=9)
    return state
