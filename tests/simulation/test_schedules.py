"""Random schedules over the production protocol: no fault of theirs may break an invariant.

A failing schedule prints its seed; `simulate(SEED)` plays it again, event by event.
"""

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.simulation.schedule import simulate
from tests.simulation.share import chunks, play

SCHEDULES = int(os.environ.get("SCHEDULES", "4000"))
"""Each rare situation comes up in so many. More of them: `make simulate N=100000`."""


RARE = (
    "a late request landed",
    "a try was refused",
    "an answer was lost",
    "child after parent",
    "closed with zero rows",
    "files too old",
    "fenced",
    "fill landed",
    "gap",
    "kill",
    "retention overtook a window",
    "rolled back by hand",
    "run ended: LandingUnknown",
    "run ended: LedgerBroken",
    "schema or spec moved",
    "shard written off",
    "some windows were lost, the others sent again",
    "the same files were sent again",
    "unknown was landed",
    "unknown was not landed",
)
"""Situations that the schedules must have been in: a test that never gets there proves nothing."""


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    """What all schedules together saw."""
    total: Counter[str] = Counter()
    broken: list[str] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for part, problems in pool.map(play, chunks(0, SCHEDULES)):
            total += part
            broken += problems
    if broken:
        pytest.fail("\n".join(broken), pytrace=False)
    return total


@pytest.mark.parametrize("seed", [21602, 202203, 263984])
def test_a_schedule_that_once_broke_an_invariant_does_so_no_more(seed: int) -> None:
    """A child before its parent: one that no list had shown, two that were closed and then taken back."""
    assert simulate(seed)


@pytest.mark.parametrize("situation", RARE)
def test_no_schedule_breaks_an_invariant_and_each_rare_situation_came_up(
    seen: Counter[str], situation: str
) -> None:
    assert seen[situation] >= 5


def test_a_schedule_follows_from_its_seed_alone() -> None:
    assert simulate(7) == simulate(7)
    assert len({tuple(sorted(simulate(seed).items())) for seed in range(20)}) > 10


@pytest.mark.parametrize("seed", range(5))
def test_long_schedules_hold_too(seed: int) -> None:
    simulate(10_000_000 + seed, events=5_000)


@pytest.mark.parametrize("seed", [6268, 9558, 18306])
def test_rows_of_a_backfill_do_not_let_a_child_go_before_a_parent_that_one_list_lacks(seed: int) -> None:
    assert simulate(seed)
