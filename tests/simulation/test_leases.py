"""Two workers share leases: every order, every place for a fault, every state judged.

What acts is production's `SqlLease`; its statements are a dictionary's, and the contract suite holds both to
the same. The landing is searched on its own (`test_exhaustive.py`), with claims of which a part or all may go
at any moment: more than leases do, as long as what is judged here is true.
"""

from collections import Counter

import pytest

from tests.simulation.checks import Violated
from tests.simulation.lease_models import BUGS, QUICK
from tests.simulation.lease_search import LeaseSearch
from tests.simulation.mutants import Mutant, alive

RARE = (
    "a lease was taken, begun at once",
    "a lease was taken, from one that lives",
    "handed over",
    "a checkpoint was saved",
    "an answer was lost, or a process stopped",
    "two work",
)


def test_no_state_is_wrong_and_in_the_end_the_shards_are_shared() -> None:
    seen: Counter[str] = Counter()
    states = 0
    for model in QUICK:
        found = LeaseSearch(model).run()
        states += found.states
        seen += found.seen
    assert states > 50_000
    assert not [what for what in RARE if seen[what] < 3]


@pytest.mark.parametrize("name", BUGS)
def test_the_search_finds(name: str) -> None:
    model, slip = BUGS[name]
    with alive(Mutant(name, (slip,))), pytest.raises(Violated) as caught:
        LeaseSearch(model).run()
    assert caught.value.__notes__
