"""A call that may never be answered, and a caller that waits only so long.

Drivers of databases and HTTP clients wait for ever by default, and nobody can tell a thread to stop. So the
call gets a thread of its own, which is left behind when its time is over: what it does then is unknown.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


class NoAnswer(Exception):
    """The call was not answered in time; it may still be carried out."""


def answered(call: Callable[[], Answer], *, deadline_s: float) -> Answer:
    """What `call` returns or raises. Raises NoAnswer when that takes longer than `deadline_s`."""
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="waiting", daemon=True)
    thread.start()
    thread.join(deadline_s)
    if errors:
        raise errors[0]
    if not answers:
        raise NoAnswer(f"no answer within {deadline_s:g} s")
    return answers[0]
