"""The models that are explored to their end, and what each is for."""

from tests.simulation.model import (
    CLAIM_LOST,
    FENCED,
    LATE,
    LIE,
    LIES,
    NETWORK,
    PUT_OFF,
    RETENTION,
    TAKEN,
    Model,
)

HEADLINE = Model("all faults")

FULL = (
    HEADLINE,
    Model("backfill meets live", shards=1, fills=True, faults=1),
    Model("three workers", workers=3, hours=1, faults=1, kinds=NETWORK),
    Model("three faults", workers=1, shards=1, faults=3),
    Model("shards granted one by one", singles=True, faults=0),
    Model("windows stopped half-way", pages=2, shards=1, split=False),
)
"""What `make simulate` explores, the largest first."""

QUICK = (
    Model("all faults, one at a time", faults=1),
    Model("one worker, two faults", workers=1),
    Model("backfill meets live", shards=1, split=False, fills=True, kinds=NETWORK | {RETENTION}),
    Model("three workers", workers=3, shards=1, split=False, faults=1, kinds=NETWORK),
    Model(
        "eviction, retention and a fence",
        shards=1,
        split=False,
        kinds=frozenset({CLAIM_LOST, RETENTION, FENCED}),
    ),
    Model("wrong answers of one kind", shards=1, kinds=frozenset({LIE, RETENTION})),
    Model("wrong answers of two kinds", shards=1, split=False, faults=4, kinds=frozenset({LIES, CLAIM_LOST})),
    Model("leases taken one by one", split=False, singles=True, kinds=frozenset({TAKEN, PUT_OFF})),
    Model("two runs of one name", shards=1, split=False, one_name=True, kinds=frozenset({CLAIM_LOST, LATE})),
)
"""What the tests explore each time: about a million states."""

HUNTING = (
    Model("one worker, one fault", workers=1, pages=2, faults=1),
    Model("a fill run", workers=1, shards=1, split=False, fills=True, faults=1),
    *QUICK[4:7],
    QUICK[-1],
)
"""Small ones, tried in turn until one finds a deliberate bug."""
