"""Every deliberate bug must be found by the checkers; one that survives fails the run."""

import pytest

from pipelines.landing import ledger
from sls_io.errors import InvariantBroken
from tests.simulation.checks import Violated
from tests.simulation.mutants import MUTANTS, Mutant, Slip, alive
from tests.simulation.schedule import simulate

SCHEDULES_MAX = 4000
"""Most are found by the first fifty schedules; those that need two accidents in a row take longer."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_checkers_find(mutant: Mutant) -> None:
    with alive(mutant):
        for seed in range(SCHEDULES_MAX):
            try:
                simulate(seed, habits=mutant.habits)
            except (Violated, InvariantBroken):
                return
    pytest.fail(f"survived {SCHEDULES_MAX} schedules: {mutant.name}", pytrace=False)


def test_a_dead_mutant_leaves_production_code_as_it_was() -> None:
    before = ledger._fits.__code__
    with alive(MUTANTS[0]):
        assert ledger._fits.__code__ is not before
    assert ledger._fits.__code__ is before


def test_a_slip_whose_line_is_no_longer_there_is_an_error() -> None:
    stale = Mutant("stale", (Slip(ledger._fits, "a line that was changed", ""),))
    with pytest.raises(LookupError, match="0 times, not once"), alive(stale):
        pass
