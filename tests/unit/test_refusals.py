"""How long a run goes on with tries that the catalog did not take."""

import sqlite3

import pytest

from pipelines.landing.commit.publish import Refusal
from pipelines.landing.run.refusals import Refusals
from pipelines.landing.table.trouble import not_taken
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import TransportError


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


@pytest.mark.parametrize(
    ("code", "tries", "cure"),
    [
        (sqlite3.SQLITE_FULL, 3, r"disk is full\)\. .*Make room"),
        (
            sqlite3.SQLITE_BUSY,
            20,
            r"another process holds it\)\. .*Look who has that file open \(lsof, fuser\)",
        ),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, 20, r"another process holds it\)"),
        (sqlite3.SQLITE_LOCKED, 20, r"another process holds it\)"),
    ],
)
def test_a_lock_is_tried_as_often_as_what_nobody_knows_and_its_holder_is_to_be_looked_for(
    code: int, tries: int, cure: str
) -> None:
    """By the code that SQLite gave, whatever its sentence says."""
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = code
    refusals = Refusals("SQLite file /lake/catalog.sqlite", "bronze.logs", SYSTEM_CLOCK)
    for _ in range(tries - 1):
        refusals.hear(Refusal("OperationalError", not_taken(error)))
        refusals.check(moved=False)
    refusals.hear(Refusal("OperationalError", not_taken(error)))
    with pytest.raises(TransportError, match=f"{tries} tries were refused .OperationalError: .*{cure}"):
        refusals.check(moved=False)
