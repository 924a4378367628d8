"""Every deliberate bug must be found by the checkers; one that survives fails the run."""

from collections import Counter

import pytest

from pipelines.landing.ledger import fence
from sls_io.values.errors import InvariantBroken
from tests.simulation.checks import Violated
from tests.simulation.mutants import MUTANTS, Mutant, Slip, alive
from tests.simulation.schedule import simulate

SCHEDULES_MAX = 4000
"""Most are found by the first fifty schedules; those that need two accidents in a row take longer."""

WASTE_SCHEDULES = 100
"""In so many, a situation that nothing prevents has come up many times."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_checkers_find(mutant: Mutant) -> None:
    seen: Counter[str] = Counter()
    with alive(mutant):
        for seed in range(WASTE_SCHEDULES if mutant.never else SCHEDULES_MAX):
            try:
                seen += simulate(seed, habits=mutant.habits)
            except (Violated, InvariantBroken):
                return
    if mutant.never and not seen[mutant.never]:
        return
    pytest.fail(f"survived {SCHEDULES_MAX} schedules: {mutant.name}", pytrace=False)


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.never], ids=lambda m: m.name)
def test_without_the_bug_the_situation_comes_up(mutant: Mutant) -> None:
    seen: Counter[str] = Counter()
    for seed in range(WASTE_SCHEDULES):
        seen += simulate(seed)
    assert seen[mutant.never] > 10


def test_a_dead_mutant_leaves_production_code_as_it_was() -> None:
    before = fence._fits.__code__
    with alive(MUTANTS[0]):
        assert fence._fits.__code__ is not before
    assert fence._fits.__code__ is before


def test_a_slip_whose_line_is_no_longer_there_is_an_error() -> None:
    stale = Mutant("stale", (Slip(fence._fits, "a line that was changed", ""),))
    with pytest.raises(LookupError, match="0 times, not once"), alive(stale):
        pass
