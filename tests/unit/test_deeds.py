"""What was done to a table, as its snapshots say it."""

import pytest

from pipelines.landing.ledger.codec import decode_deed
from pipelines.landing.ledger.values import Deed, Operation


@pytest.mark.parametrize(
    ("text", "deed"),
    [
        ("rollback 123", Deed(Operation.ROLLBACK, snapshot=123)),
        ("adopt", Deed(Operation.ADOPT)),
        ("undo 2026-11-20-07:00", Deed(Operation.UNDO, "2026-11-20-07:00")),
        ("give-up", Deed(Operation.GIVE_UP)),
        ("forget --where on n: rollback 5", Deed(Operation.FORGET, "--where on n: rollback 5")),
        ("rollback to where it was", Deed(Operation.OTHER, "rollback to where it was")),
        ("rollback", Deed(Operation.OTHER, "rollback")),
        ("rollbacks 5", Deed(Operation.OTHER, "rollbacks 5")),
        ("of a later release", Deed(Operation.OTHER, "of a later release")),
    ],
)
def test_what_a_table_says_was_done_is_read_and_said_the_same(text: str, deed: Deed) -> None:
    assert decode_deed(text) == deed
    assert str(deed) == text


def test_a_landing_says_nothing_of_a_deed() -> None:
    assert decode_deed("") is None
