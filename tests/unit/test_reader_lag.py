"""What shows of a group from outside, and what a write comes to: values in, values out."""

import pytest

from sls_io.checkpoints.lag import ShardLag, group_state, states
from sls_io.checkpoints.store import CURSOR_MAX, Fate, Kept, fate_of
from sls_io.values.shard import Shard, ShardState
from sls_io.values.window import Cursor

HALF, FULL = "8" + "0" * 31, "f" * 32
FAMILY = (
    Shard(0, readonly=True),
    Shard(1, readonly=True, end_key=HALF),
    Shard(2, readonly=False, begin_key=HALF),
    Shard(3, readonly=False, end_key=HALF),
)
"""0 was split into 1 and 2, and 1 became 3."""


def lag(shard: int, at: int | None, *, readonly: bool = False) -> ShardLag:
    """A shard of which the service has [0, 9]."""
    place = None if at is None else Cursor(at)
    return ShardLag(shard, readonly, Cursor(0), Cursor(9), place, "inside", None, 0.0, 0)


def seen(
    at: tuple[int | None, int | None], holders: dict[int, str], *, order: bool = True
) -> dict[int, ShardState]:
    """States of the family; `at` is where the read-only ones stand."""
    found = [lag(n, at[n] if n < 2 else None, readonly=n < 2) for n in range(4)]
    return dict(states(found, FAMILY, holders, order=order))


W, N, A, O = ShardState.WAIT, ShardState.NOT_ALLOC, ShardState.ALREADY_ALLOC, ShardState.OVER  # noqa: E741


@pytest.mark.parametrize(
    ("at", "holders", "order", "expected", "kafka"),
    [
        ((None, None), {}, True, (N, W, W, W), "Empty"),
        ((8, None), {0: "a"}, True, (A, W, W, W), "Stable"),
        ((9, None), {0: "a"}, True, (A, W, W, W), "Stable"),
        ((9, None), {}, True, (O, N, N, W), "Empty"),
        ((9, 9), {2: "b"}, True, (O, O, A, N), "PreparingRebalance"),
        ((9, 9), {2: "b", 3: "a"}, True, (O, O, A, A), "Stable"),
        ((8, 9), {}, True, (N, O, W, W), "Empty"),
        ((None, None), {}, False, (N, N, N, N), "Empty"),
        ((9, 9), {3: "a"}, False, (O, O, N, A), "PreparingRebalance"),
    ],
)
def test_the_state_of_a_shard_and_of_the_group_follow_from_holders_checkpoints_and_ancestors(
    at: tuple[int | None, int | None],
    holders: dict[int, str],
    order: bool,
    expected: tuple[ShardState, ...],
    kafka: str,
) -> None:
    found = seen(at, holders, order=order)
    assert found == dict(enumerate(expected)) and group_state(found) == kafka


@pytest.mark.parametrize(
    ("kept", "cursor", "fate"),
    [
        (None, 0, "sent"),
        (Kept(None), 5, "sent"),
        (Kept(Cursor(5)), 5, "sent"),
        (Kept(Cursor(5)), 4, "ahead"),
        (Kept(Cursor(5), frozen=True), 9, "frozen"),
        (Kept(None, frozen=True), 9, "frozen"),
        (None, CURSOR_MAX + 1, "failed"),
        (Kept(Cursor(5)), -1, "failed"),
    ],
)
def test_a_write_comes_to_one_thing(kept: Kept | None, cursor: int, fate: Fate) -> None:
    assert fate_of(kept, Cursor(cursor)) == fate
