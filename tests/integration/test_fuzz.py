"""A small part of `make fuzz` in every test run: the same lanes, fixed seeds, a few rounds."""

from pathlib import Path

import pytest

from fuzz.__main__ import play
from fuzz.values import KINDS

ROUNDS = {"values": len(KINDS), "groups": 3, "answers": 3, "verbs": 2}
SEED = 20_261_122_000_000


@pytest.mark.parametrize("lane", sorted(ROUNDS))
def test_the_rounds_of_a_lane_come_out_as_they_must(lane: str, tmp_path: Path) -> None:
    account = play(lane, tmp_path, first=SEED, rounds_max=ROUNDS[lane])
    assert account.rounds == ROUNDS[lane]
    assert not account.failures, account.failures[0]
