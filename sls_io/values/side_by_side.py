"""Calls that wait for somebody else, some of them at once.

An answer of the service or of an object store is a wait of some 20 ms, and no work. Worked example: whether
the files of a landing from 1,024 shards are there takes 20 s one after another; 16 at once take 1.3 s. No
more, for what they bring is held until it is taken, and as many connections are kept open to one service.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import tee
from typing import TypeVar

AT_ONCE_MAX = 16

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def side_by_side(call: Callable[[Asked], Answer], asked: Iterable[Asked]) -> Generator[Answer, None, None]:
    """The answers in the order of what is asked, some calls ahead of the one that is taken.

    A call keeps to the deadline of whoever asks. What one raises is raised in its turn, and then no further
    call begins.
    """
    with ThreadPoolExecutor(AT_ONCE_MAX) as pool:
        ahead = deque[Future[Answer]]()
        for each in asked:
            ahead.append(pool.submit(copy_context().run, call, each))
            if len(ahead) == AT_ONCE_MAX:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def answers(
    call: Callable[[Asked], Answer], asked: Iterable[Asked]
) -> Generator[tuple[Asked, Answer], None, None]:
    """What is asked, and its answer, as `side_by_side` gives it. `asked` is gone over once."""
    begun, pairs = tee(asked)
    yield from zip(pairs, side_by_side(call, begun), strict=True)
