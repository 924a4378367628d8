"""A call that is never answered costs its caller a deadline."""

import threading
from dataclasses import replace

import pytest

from sls_io.values.deadline import Deadline, NoAnswer, answered, current


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


def test_a_wait_is_cut_by_the_deadline_around_it_also_in_the_thread_of_a_call() -> None:
    """Each loop inside has a minute of its own; together they have what is left."""
    held, found = threading.Event(), list[float]()

    def inner() -> None:
        found.append(current().left_s)
        answered(held.wait, deadline_s=60)

    with Deadline.after(0.05).kept(), pytest.raises(NoAnswer, match="no answer within 0"):
        answered(inner, deadline_s=60)
    held.set()
    assert found == [] or found[0] <= 0.05
    with Deadline.after(-1).kept(), pytest.raises(NoAnswer, match="within 0 s"):
        answered(lambda: found.append(1), deadline_s=60)
    assert 1 not in found, "who has no time left asks nobody"
    assert current().left_s == float("inf"), "and around it nothing is kept"


def test_a_long_wait_is_said_once_with_whom_it_is_for() -> None:
    held, said = threading.Event(), list[str]()

    def tell(text: str) -> None:
        said.append(text)
        held.set()

    with Deadline(tell=tell, patience_s=0.01).kept():
        for _ in range(2):
            assert answered(held.wait, deadline_s=60, waits_for="the catalog")
            held.clear()
            threading.Timer(0.1, held.set).start()
    (line,) = said
    assert line.startswith("waiting for the catalog: no answer for 0.01 s")


def test_a_long_wait_is_said_with_the_bound_of_the_whole_work_and_with_none_where_it_has_none() -> None:
    """One call of many is cut shorter, and the next one waits again."""
    for around, most in ((Deadline.after(900), ", for at most 900 s more"), (Deadline(), "")):
        said, held = list[str](), threading.Event()
        bound = replace(around, tell=said.append, patience_s=0.01)
        with bound.kept(), current().within(60).kept(), pytest.raises(NoAnswer, match=r"within 0\.05 s"):
            answered(held.wait, deadline_s=0.05, waits_for="the catalog")
        held.set()
        assert said == [f"waiting for the catalog: no answer for 0.01 s{most}"]


def test_who_is_told_around_a_run_is_told_by_the_run_too() -> None:
    outer, inner = list[str](), list[str]()
    with Deadline(tell=outer.append).kept():
        Deadline.after(9, tell=inner.append).said("the catalog")
    Deadline.after(9, tell=inner.append).said("a database")
    assert (len(outer), len(inner)) == (1, 1) and "for at most 9 s more" in inner[0]
