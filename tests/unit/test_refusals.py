"""How long a run goes on with tries that the catalog did not take."""

import pytest

from pipelines.landing.commit.publish import Refusal
from pipelines.landing.run.refusals import Refusals
from sls_io.clock import SYSTEM_CLOCK
from sls_io.errors import TransportError


def refused(refusals: Refusals, times: int, *, moved: bool) -> None:
    for _ in range(times):
        refusals.hear(Refusal("CommitFailedException"))
        refusals.check(moved=moved)


def test_races_that_others_won_end_no_run() -> None:
    refused(Refusals("sqlite:///here", "bronze.logs", SYSTEM_CLOCK), 100, moved=True)


def test_a_race_that_somebody_won_begins_the_count_of_the_others_anew() -> None:
    refusals = Refusals("sqlite:///here", "bronze.logs", SYSTEM_CLOCK)
    refused(refusals, 19, moved=False)
    refused(refusals, 1, moved=True)
    refused(refusals, 19, moved=False)
    with pytest.raises(TransportError, match=r"sqlite:///here.*bronze\.logs.*CommitFailedException"):
        refused(refusals, 1, moved=False)
