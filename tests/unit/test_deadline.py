"""A call that is never answered costs its caller a deadline."""

import threading

import pytest

from sls_io.deadline import NoAnswer, answered


def test_an_answer_and_an_error_arrive_as_they_are() -> None:
    def fail() -> None:
        raise KeyError("x")

    assert answered(lambda: None, deadline_s=10) is None
    with pytest.raises(KeyError, match="x"):
        answered(fail, deadline_s=10)


def test_a_call_that_is_not_answered_is_left_behind() -> None:
    held, done = threading.Event(), threading.Event()

    def late() -> None:
        held.wait()
        done.set()

    with pytest.raises(NoAnswer, match=r"within 0\.05 s"):
        answered(late, deadline_s=0.05)
    held.set()
    assert done.wait(10), "it is carried out nevertheless"
