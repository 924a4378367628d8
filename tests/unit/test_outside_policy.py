"""Where a reader begins when its checkpoint does not lie in the shard."""

import pytest

from sls_io.checkpoints.policy import OutsidePolicy, Place, settled
from sls_io.values.errors import CheckpointOutside
from sls_io.values.window import Cursor

BEGIN, END = Cursor(40), Cursor(100)


@pytest.mark.parametrize("cursor", [40, 41, 99, 100])
@pytest.mark.parametrize("policy", ["stop", "begin", "end"])
def test_a_checkpoint_in_its_shard_is_taken_whatever_the_policy(cursor: int, policy: OutsidePolicy) -> None:
    start = settled(3, Cursor(cursor), begin=BEGIN, end=END, policy=policy)
    assert (start.cursor, start.place, start.moved_from) == (cursor, "inside", None)


@pytest.mark.parametrize(
    ("cursor", "policy", "at", "place"),
    [
        (39, "begin", BEGIN, "expired"),
        (39, "end", END, "expired"),
        (101, "begin", BEGIN, "beyond"),
        (101, "end", END, "beyond"),
    ],
)
def test_a_policy_says_where_to_go_on_and_what_was_not_taken(
    cursor: int, policy: OutsidePolicy, at: int, place: Place
) -> None:
    start = settled(3, Cursor(cursor), begin=BEGIN, end=END, policy=policy)
    assert (start.cursor, start.place, start.moved_from) == (at, place, cursor)


@pytest.mark.parametrize(("cursor", "says"), [(39, "before its begin 40"), (101, "behind its end 100")])
def test_without_a_policy_it_stops_and_names_shard_and_place(cursor: int, says: str) -> None:
    with pytest.raises(CheckpointOutside, match=f"shard 3: the checkpoint {cursor} lies {says}") as caught:
        settled(3, Cursor(cursor), begin=BEGIN, end=END)
    assert caught.value.shard == 3


def test_an_empty_shard_has_one_place() -> None:
    assert settled(0, Cursor(7), begin=Cursor(7), end=Cursor(7)).place == "inside"
    with pytest.raises(CheckpointOutside):
        settled(0, Cursor(8), begin=Cursor(7), end=Cursor(7))
