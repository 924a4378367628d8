"""The tree of errors: what it promises about retries, and what a message may hold."""

import inspect
import re
from collections.abc import Iterator
from enum import Enum

import pytest

from sls_io.values import errors
from sls_io.values.cures import Call
from sls_io.values.errors import (
    Breach,
    CursorExpired,
    DecodeError,
    LedgerBroken,
    ServiceError,
    SlsError,
    Throttled,
    TransportError,
    amount,
    printable,
    some_of,
)


def tree(of: type[SlsError]) -> Iterator[type[SlsError]]:
    """`of` and everything below it."""
    yield of
    for kind in of.__subclasses__():
        yield from tree(kind)


def defined() -> set[type[BaseException]]:
    """The classes of errors.py."""
    found = (value for _, value in inspect.getmembers(errors, inspect.isclass))
    here = {value for value in found if value.__module__ == errors.__name__}
    return {value for value in here if not issubclass(value, Enum)}


def test_every_error_is_in_the_one_tree_and_in_its_picture() -> None:
    assert all(issubclass(kind, SlsError) for kind in defined())
    drawn = set(re.findall(r"[+|] +(\w+) {2,}", errors.__doc__ or "")) | {"SlsError"}
    assert drawn == {kind.__name__ for kind in defined()}


def test_the_picture_shows_who_is_below_whom() -> None:
    above = {"": "SlsError"}
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"    ((?:\|  )*)\+ (\w+)", line):
            depth, name = found[1], found[2]
            kind = getattr(errors, name)
            assert kind.__base__.__name__ == above[depth], f"{name} is drawn in the wrong place"
            above[depth + "|  "] = name


def test_only_answers_that_may_come_next_time_are_retried() -> None:
    retried = {kind for kind in tree(SlsError) if kind.retryable}
    assert retried == {*tree(TransportError), DecodeError}


@pytest.mark.parametrize("kind", [ServiceError, CursorExpired, Throttled])
def test_an_answer_of_the_service_carries_code_status_and_request(kind: type[ServiceError]) -> None:
    error = kind("SomeCode", "what happened", status=400, request_id="5F")
    assert (error.code, error.status, error.request_id) == ("SomeCode", 400, "5F")
    assert str(error) == "SomeCode: what happened (HTTP 400, request 5F)"


def test_a_hint_is_the_last_sentence() -> None:
    assert str(ServiceError("C", "m", status=500, hint="do this")) == "C: m (HTTP 500, request -). do this"
    assert str(ServiceError("C", "m", hint="do this")) == "C: m. do this"


def test_what_the_service_echoes_is_cut_and_has_no_control_characters() -> None:
    error = ServiceError("C", "\x1b[31mred\r\nnext\x00" + "k" * 5000)
    assert len(str(error)) < 260
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines", "two lines"),
        ("right\u202eleft", "right left"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "..."),
    ],
)
def test_printable_is_one_short_line(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_one_thing_is_no_plural() -> None:
    assert [amount(n, "row") for n in (0, 1, 2, 1234)] == ["0 rows", "1 row", "2 rows", "1,234 rows"]


def test_a_broken_page_is_named_by_its_place() -> None:
    error = DecodeError("two sizes differ", shard=3, cursor=17)
    assert str(error) == "shard 3, cursor 17, log -1: two sizes differ"
    assert (error.shard, error.cursor, error.index, error.cause) == (3, 17, -1, "two sizes differ")


def test_a_broken_ledger_names_the_verb_that_settles_it() -> None:
    error = LedgerBroken("main went back", cures=(Call(("table", "rollback", "7")),))
    assert error.cures == (Call(("table", "rollback", "7")),)
    assert (str(error), error.kind) == ("main went back", Breach.OTHER)


def test_a_list_that_is_cut_says_how_many_are_left() -> None:
    assert some_of("abcde") == "a, b, c, d, e" and some_of("abcdefg") == "a, b, c, d, e and 2 more"
    assert some_of("ab", 1, "; ") == "a; and 1 more" and some_of(()) == ""
