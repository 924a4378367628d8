"""Calls that are made side by side: in order, a bounded number ahead, within the deadline of who asks."""

import threading
from collections.abc import Iterator
from itertools import count, islice

import pytest

from sls_io.values.deadline import Deadline, current
from sls_io.values.side_by_side import AT_ONCE_MAX, answers, side_by_side


def test_so_many_are_asked_at_once_and_the_answers_come_in_order() -> None:
    meeting = threading.Barrier(AT_ONCE_MAX, timeout=60.0)

    def call(number: int) -> int:
        if number < AT_ONCE_MAX:
            meeting.wait()  # passes only when all of the first are being asked at once
        return -number

    assert list(side_by_side(call, range(40))) == [-number for number in range(40)]


def test_no_more_are_ahead_of_what_is_taken() -> None:
    asked = list[int]()

    def questions() -> Iterator[int]:
        for number in count():
            asked.append(number)
            yield number

    taken = side_by_side(str, questions())
    assert list(islice(taken, 3)) == ["0", "1", "2"]
    assert len(asked) == AT_ONCE_MAX + 2
    taken.close()


def test_the_first_that_fails_is_raised_after_the_answers_before_it() -> None:
    def call(number: int) -> int:
        if number >= 2:
            raise OSError(number)
        return number

    taken = side_by_side(call, range(40))
    assert list(islice(taken, 2)) == [0, 1]
    with pytest.raises(OSError, match=r"^2$"):
        next(taken)


def test_a_call_keeps_to_the_deadline_of_who_asks() -> None:
    with Deadline.after(1e6).kept():
        assert set(side_by_side(lambda _: current().until_s, range(40))) == {current().until_s}


def test_what_is_asked_comes_with_its_answer_and_is_gone_over_once() -> None:
    questions = iter(range(40))
    assert list(answers(str, questions)) == [(number, str(number)) for number in range(40)]
