"""Calls that are made side by side: in order, a bounded number ahead, within the deadline of who asks."""

import threading
from collections.abc import Iterator
from itertools import count, islice

import pytest

from sls_io.values.deadline import Deadline, current
from sls_io.values.side_by_side import AT_ONCE_MAX, side_by_side


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

    answers = side_by_side(str, questions())
    assert list(islice(answers, 3)) == ["0", "1", "2"]
    assert len(asked) == AT_ONCE_MAX + 2
    answers.close()


def test_the_first_that_fails_is_raised_after_the_answers_before_it() -> None:
    def call(number: int) -> int:
        if number >= 2:
            raise OSError(number)
        return number

    answers = side_by_side(call, range(40))
    assert list(islice(answers, 2)) == [0, 1]
    with pytest.raises(OSError, match=r"^2$"):
        next(answers)


def test_a_call_keeps_to_the_deadline_of_who_asks() -> None:
    with Deadline.after(1e6).kept():
        assert set(side_by_side(lambda _: current().until_s, range(40))) == {current().until_s}
