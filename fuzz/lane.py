"""What a lane of the fuzzer is: rounds, each decided by its seed alone.

A round makes an input, hands it to the production code, works out what must come of it by code that
shares nothing with ours, and compares. The seed of a round is all that is needed to play it again:

    python -m fuzz --lane values --round 491306000017
"""

import random
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

SEEDS_A_RUN = 10**6
"""Rounds of a run have the seeds from `seed * SEEDS_A_RUN` on."""


class Broken(AssertionError):
    """What came is not what must come. The text says both; the data is generated, so it may be shown."""


class Lane(Protocol):
    """One kind of trouble.

    rounds_min  rounds that a run of `make fuzz` plays at least, however little time it has
    counts      what was played so far, by name, for the account: texts, rows, landings ...
    """

    rounds_min: int
    counts: Counter[str]

    def play(self, seed: int) -> None:
        """One round. Raises Broken when the outcome is wrong; any other exception is as bad."""
        ...


class Opener(Protocol):
    """`open_lane` of each lane's module: whatever the lane needs lives in `folder` until it is left."""

    def __call__(self, folder: Path) -> AbstractContextManager[Lane]: ...


def drawn(seed: int) -> random.Random:
    """The only source of chance in a round."""
    return random.Random(seed)
