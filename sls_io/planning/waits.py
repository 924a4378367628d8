"""Why a shard has no window in a landing, or ends before its planned end.

Code decides by `kind`; `text` is for people, and may say it in other words tomorrow.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """The kinds of waiting. `stopped`: a window was begun and ended early; a report says how."""

    CLOSED = "closed"
    CLOSING = "closing"
    DRAINED = "drained"
    NOTHING_MISSING = "nothing_missing"
    FIRST_START = "first_start"
    AHEAD = "ahead"
    HELD = "held"
    UNNAMED = "unnamed"
    PARENTS = "parents"
    WINDOWS = "windows"
    UNASKED = "unasked"
    PAUSED = "paused"
    GATHERING = "gathering"
    SUSPECT = "suspect"
    LOST = "lost"
    GONE = "gone"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Wait:
    """What a shard waits for: its kind, and a sentence."""

    kind: Why
    text: str

    def __str__(self) -> str:
        return self.text


CLOSED = Wait(Why.CLOSED, "closed: read-only and drained")
CLOSING = Wait(Why.CLOSING, "read-only and drained: closed by this landing")
DRAINED = Wait(Why.DRAINED, "drained: nothing new before the settle time")
NOTHING_MISSING = Wait(Why.NOTHING_MISSING, "nothing missing in these hours")
FIRST_START = Wait(Why.FIRST_START, "first start: its begin is fixed by the first run")
HELD = Wait(Why.HELD, "held by another holder")
WINDOWS = Wait(Why.WINDOWS, "the run's window budget is used up")
GONE = Wait(Why.GONE, "removed by retention")
GONE_NOW = Wait(Why.GONE, "removed by retention: the rest of it is a named gap")
"""By this very landing; `GONE` is a shard that was closed before."""


def paused(shard: int) -> Wait:
    """A shard that a person paused."""
    return Wait(Why.PAUSED, "paused: nothing of it lands before somebody resumes it")


def unnamed(shards: Iterable[int], *, nobodys: bool = False) -> Wait:
    """A shard that is not among those that the settings name, these; `nobodys`: nothing of it has landed."""
    names = ", ".join(map(str, shards))
    landed = "; nothing of it has landed" * nobodys
    return Wait(Why.UNNAMED, f"left to others, `shards` names {names}{landed}")


def for_parents(shards: Iterable[int]) -> Wait:
    """A child of an ordered group whose parents, these, are not closed in the ledger."""
    return Wait(Why.PARENTS, f"parents not closed yet: {', '.join(map(str, shards))}")
