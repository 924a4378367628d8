"""A small part of `make fuzz` in every test run: the same lanes, fixed seeds, a few rounds."""

from hashlib import sha256
from pathlib import Path

import pytest

from fuzz.__main__ import play
from fuzz.reread import OWN, differences, expected
from fuzz.values import KINDS

ROUNDS = {"values": len(KINDS), "groups": 3, "answers": 3, "verbs": 2, "reread": 6}
SEED = 20_261_122_000_000


@pytest.mark.parametrize("lane", sorted(ROUNDS))
def test_the_rounds_of_a_lane_come_out_as_they_must(lane: str, tmp_path: Path) -> None:
    account = play(lane, tmp_path, first=SEED, rounds_max=ROUNDS[lane])
    assert account.rounds == ROUNDS[lane]
    assert not account.failures, account.failures[0]


HEAD = dict.fromkeys(OWN, 1)
FRESH = {
    **dict.fromkeys(OWN, 9),
    "a": 5,
    "b": "x",
    "__rest__": {"c": "y"},
    "__error__": None,
    "__raw__": None,
}


def test_a_row_with_an_error_must_be_as_if_it_had_landed_today_under_its_own_identity() -> None:
    old = {
        **HEAD,
        "a": None,
        "gone": 3,
        "__rest__": {"b": "x"},
        "__error__": "a is not int",
        "__raw__": b"1",
    }
    must = expected(old, FRESH, [{"a": "int", "gone": "long"}], {"a": "long", "b": "string"})
    assert must == {**FRESH, **HEAD, "gone": 3}
    assert differences({**must, "a": 6}, must) == [("a", 6, 5)]
    assert differences({**must, "__raw__": b""}, must) == [("__raw__", b"", None)]


def test_a_row_without_an_error_must_keep_its_columns_and_gain_those_of_later() -> None:
    old = {**HEAD, "a": 4, "__rest__": {"b": "x", "c": "y"}, "__error__": None, "__raw__": None}
    fresh = {
        **FRESH,
        "a": None,
        "__rest__": {"a": "4 ", "c": "y"},
        "__error__": "a is not int",
        "__raw__": b"1",
    }
    must = expected(old, fresh, [{"a": "int"}], {"a": "int", "b": "string"})
    assert must == {**HEAD, "a": 4, "b": "x", "__rest__": {"c": "y"}, "__error__": None, "__raw__": None}
    assert differences(must | {"a": float("nan")}, must | {"a": float("nan")}) == []


def test_a_row_without_an_error_must_have_no_plain_value_of_personal_data() -> None:
    old = {**HEAD, "a": "x", "b": "y", "c": "d" * 64, "__rest__": None, "__error__": None, "__raw__": None}
    before, after = {"a": "string", "b": "string", "c": "hash"}, {"a": "hash", "b": "drop", "c": "hash"}
    must = expected(old, FRESH | {"__rest__": None}, [before], after)
    assert (must["a"], must["b"], must["c"]) == (sha256(b"x").hexdigest(), None, "d" * 64)


def test_a_row_that_was_read_again_twice_must_keep_beside_its_column_what_is_not_the_same() -> None:
    """Of an older contract's column, whose key was not declared in between."""
    old = {**HEAD, "a": 4, "b": 5, "__rest__": {"a": "4", "b": "7"}, "__error__": None, "__raw__": None}
    fresh = {**FRESH, "a": 4, "b": 7, "__rest__": None}
    must = expected(old, fresh, [{"a": "int", "b": "int"}, {}], {"a": "int", "b": "int"})
    assert (must["a"], must["b"], must["__rest__"]) == (4, 5, {"b": "7"})
