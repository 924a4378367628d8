"""What a copy of positions would do, shard by shard: one planner for every place there is."""

from collections.abc import Mapping

import pytest

from sls_io.checkpoints.copying import Difference, Move, copy
from sls_io.checkpoints.policy import OutsidePolicy, Place
from sls_io.checkpoints.store import Kept
from sls_io.values.errors import CheckpointOutside
from sls_io.values.shard import Head, Shard
from sls_io.values.window import Cursor

HALF = "8" + "0" * 31


def head(shard: int, *, readonly: bool = False, begin_key: str = "0" * 32, end_key: str = "f" * 32) -> Head:
    """The service has [40, 100)."""
    keys = Shard(shard, readonly=readonly, begin_key=begin_key, end_key=end_key)
    return Head(keys, Cursor(40), Cursor(100))


def only(
    source: Mapping[int, Cursor | None],
    kept: Kept | None,
    heads: Mapping[int, Head] | None = None,
    *,
    forward_only: bool = False,
    outside: OutsidePolicy | None = None,
) -> Move:
    """What becomes of the one shard 0."""
    target = {0: kept} if kept else {}
    (move,) = copy(source, target, heads or {}, forward_only=forward_only, outside=outside)
    return move


def at(cursor: int | None, *, frozen: bool = False) -> Kept:
    """What a target keeps."""
    return Kept(None if cursor is None else Cursor(cursor), frozen=frozen)


@pytest.mark.parametrize(
    ("source", "kept", "forward", "any_way"),
    [
        ({0: Cursor(50)}, None, "behind", "behind"),
        ({0: Cursor(50)}, at(None), "behind", "behind"),
        ({0: Cursor(50)}, at(49), "behind", "behind"),
        ({0: Cursor(50)}, at(50), "equal", "equal"),
        ({0: Cursor(50)}, at(50, frozen=True), "equal", "equal"),
        ({0: Cursor(50)}, at(51), "ahead", "back"),
        ({0: Cursor(50)}, at(49, frozen=True), "frozen", "behind"),
        ({0: Cursor(50)}, at(51, frozen=True), "frozen", "back"),
        ({0: Cursor(50)}, at(None, frozen=True), "frozen", "behind"),
        ({0: None}, at(50), "empty", "empty"),
        ({0: None}, None, "empty", "empty"),
        ({}, at(50), "extra", "extra"),
        ({}, at(None), "extra", "extra"),
    ],
)
def test_every_difference_has_its_name_and_forward_only_nothing_goes_back(
    source: Mapping[int, Cursor | None], kept: Kept | None, forward: Difference, any_way: Difference
) -> None:
    for forward_only, expected in ((True, forward), (False, any_way)):
        move = only(source, kept, forward_only=forward_only)
        assert (move.difference, move.moves) == (expected, expected in ("behind", "back"))
        assert (move.checkpoint, move.cursor) == (kept.cursor if kept else None, source.get(0))


@pytest.mark.parametrize(
    ("cursor", "outside", "to", "place"),
    [
        (39, None, 39, "inside"),
        (101, None, 101, "inside"),
        (100, "stop", 100, "inside"),
        (39, "begin", 40, "expired"),
        (101, "end", 100, "beyond"),
    ],
)
def test_a_source_outside_of_its_shard_goes_where_the_policy_says_or_as_it_stands(
    cursor: int, outside: OutsidePolicy | None, to: int, place: Place
) -> None:
    move = only({0: Cursor(cursor)}, None, {0: head(0)}, outside=outside)
    assert (move.cursor, move.place, move.difference) == (to, place, "behind")


def test_a_source_outside_of_its_shard_stops_and_names_it() -> None:
    with pytest.raises(CheckpointOutside, match="shard 0: the checkpoint 39"):
        only({0: Cursor(39)}, None, {0: head(0)}, outside="stop")


def test_only_what_was_named_is_copied_and_a_shard_that_the_service_has_no_more_stays() -> None:
    heads = {0: head(0), 1: head(1)}
    source = {0: Cursor(50), 1: Cursor(50), 2: Cursor(50)}
    assert [move.difference for move in copy(source, {}, heads)] == ["behind", "behind", "gone"]
    assert [move.difference for move in copy(source, {}, {})] == ["behind"] * 3
    assert [move.shard for move in copy(source, {3: at(1)}, heads, shards=[1, 3, 9])] == [1, 3]
    assert [move.difference for move in copy({}, {}, heads)] == ["empty", "empty"]
    assert copy({}, {}, {}) == ()


def test_a_finished_shard_that_is_read_again_names_its_children() -> None:
    heads = {
        0: head(0, readonly=True),
        1: head(1, end_key=HALF),
        2: head(2, begin_key=HALF),
        3: head(3, readonly=True),
    }
    said = {
        before: copy({0: Cursor(60)}, {0: at(before)}, heads, shards=[0])[0] for before in (70, 99, 100, 120)
    }
    assert {before: move.reopens for before, move in said.items()} == {
        70: False,
        99: False,
        100: True,
        120: True,
    }
    assert said[100].children == (1, 2, 3) and said[99].children == ()
    (stays,) = copy({0: Cursor(60)}, {0: at(100)}, heads, shards=[0], forward_only=True)
    assert not stays.reopens and stays.children == ()
