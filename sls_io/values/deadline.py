"""A call that may never be answered, and a caller that waits only so long.

Drivers of databases and HTTP clients wait for ever by default, and nobody can tell a thread to stop. So the
call gets a thread of its own, which is left behind when its time is over: what it does then is unknown.

    with Deadline.after(300, tell=warn).kept():     # a run
        answered(load, deadline_s=60)               # waits at most 60 s, and never past the 300

Story: a catalog is locked by another process. Each call waits for its own minute, each loop tries so many
times, and the constants add up to hours in which a run holds its shards. So whatever waits inside of a
deadline that is kept is cut by it, also in the thread of a call, and one line says what is waited for.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sls_io.values.clock import SYSTEM_CLOCK

Answer = TypeVar("Answer")

PATIENCE_S = 5.0
"""After so long a wait says what it is for."""


class NoAnswer(Exception):
    """The call was not answered in time; it may still be carried out."""


@dataclass(frozen=True)
class Deadline:
    """Until when work waits for others, by the monotonic clock; `tell` hears the first wait of over
    `patience_s` seconds."""

    until_s: float = math.inf
    tell: Callable[[str], None] | None = None
    patience_s: float = PATIENCE_S
    _told: threading.Event = field(default_factory=threading.Event)
    _whole_until_s: float | None = None
    """Until when the whole work waits that this was cut from; None where it was not cut."""

    @classmethod
    def after(cls, seconds: float, *, tell: Callable[[str], None] | None = None) -> "Deadline":
        """So many seconds from now. Whom the deadline around it tells is told still, before `tell`."""
        return cls(SYSTEM_CLOCK.monotonic() + seconds, current().tell or tell, current().patience_s)

    @property
    def left_s(self) -> float:
        """Seconds that are left, not below 0."""
        return max(0.0, self.until_s - SYSTEM_CLOCK.monotonic())

    def at_least(self, seconds: float) -> "Deadline":
        """The same, with so many seconds left."""
        return replace(self, until_s=max(self.until_s, SYSTEM_CLOCK.monotonic() + seconds))

    def within(self, seconds: float) -> "Deadline":
        """The same, with at most so many seconds left: for one call of many."""
        until_s = min(self.until_s, SYSTEM_CLOCK.monotonic() + seconds)
        return replace(self, until_s=until_s, _whole_until_s=self._whole_s)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """For the time of the block all calls of this thread keep it, and those that they make."""
        before = _current.set(self)
        try:
            yield
        finally:
            _current.reset(before)

    def said(self, waits_for: str, waited_s: float | None = None) -> None:
        """Tell, once, what is waited for, how long it has been (`patience_s` where that is not said), and how
        long at most the whole work waits.

        Story: a try is cut to a minute, and a database that is locked refuses it after five seconds. Told as
        the minute of that try it is not true: the run tries it twenty times, within a time of its own.
        """
        if waits_for and self.tell is not None and not self._told.is_set():
            self._told.set()
            left_s = max(0.0, self._whole_s - SYSTEM_CLOCK.monotonic())
            most = f", for at most {left_s:.0f} s more" if math.isfinite(left_s) else ""
            been_s = self.patience_s if waited_s is None else waited_s
            self.tell(f"waiting for {waits_for}: no answer for {been_s:g} s{most}")

    @property
    def _whole_s(self) -> float:
        return self.until_s if self._whole_until_s is None else self._whole_until_s


_current: ContextVar[Deadline] = ContextVar("_current")


def current() -> Deadline:
    """The deadline that this thread keeps; an endless one where it keeps none."""
    return _current.get(_ENDLESS)


_ENDLESS = Deadline()


def answered(call: Callable[[], Answer], *, deadline_s: float, waits_for: str = "") -> Answer:
    """What `call` returns or raises. Raises NoAnswer when that takes longer than `deadline_s`, or than the
    deadline that is kept; `waits_for` names who answers, for who is told of a long wait.

    A call for which no time is left is not begun: that it was not made is known then, and what a call that
    was left behind does is not. Whatever it raises is raised here, an exit, too.

    Worked example: a run has 20 s left, and asks for 60. It waits for 20; after 5 it says what for, and that
    it is for at most 15 s more.
    """
    longest_s = min(deadline_s, current().left_s)
    bound = current().within(deadline_s)
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with bound.kept():
                answers.append(call())
        except BaseException as error:
            errors.append(error)

    limit_s = bound.left_s
    thread = threading.Thread(target=copy_context().run, args=(work,), name="waiting", daemon=True)
    if limit_s > 0:
        thread.start()
        thread.join(min(limit_s, bound.patience_s))
        if thread.is_alive() and limit_s > bound.patience_s:
            bound.said(waits_for)
            thread.join(bound.left_s)
    if errors:
        raise errors[0]
    if not answers:
        raise NoAnswer(f"no answer within {round(longest_s, 2):g} s")
    return answers[0]
