"""One thing tried: what was sent, what came, how good that is, and what to change.

A trial is a function that gives what came, or raises. Our own errors carry their cure already, so a trial
adds nothing to them. What another library raises is said by its kind and its masked text.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from pipelines.landing.table.trouble import masked
from sls_io.values.cures import Cure
from sls_io.values.errors import SlsError


class Grade(StrEnum):
    """`note`: a landing works, and a person should know this. `skipped`: an earlier trial has to be well
    first."""

    FINE = "fine"
    NOTE = "note"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Came:
    """What came of a trial, and what to change where that is not right."""

    text: str
    grade: Grade = Grade.FINE
    changes: tuple[Cure, ...] = ()


@dataclass(frozen=True)
class Trial:
    """`name` is a word that stays the same; `sent` and `came` are for people."""

    name: str
    sent: str
    came: str
    grade: Grade
    changes: tuple[Cure, ...] = ()


@dataclass(frozen=True)
class Question:
    """A trial to be made: `ask` gives what came, or raises. Where it goes wrong and is `needed`, those behind
    it in the list are skipped: they would only say the same in other words."""

    name: str
    sent: str
    ask: Callable[[], Came | str]
    needed: bool = False


def made(questions: Iterable[Question]) -> Iterator[Trial]:
    """The trials, one after the other, as they end.

    Each is made when the one before it was taken: questions may be made on the way, from what came. Worked
    example: keys (needed) are fine, name (needed) is wrong, identity and all behind it are skipped with "name
    has to be well first". Had identity, which nothing needs, been wrong, those behind it would be asked.
    """
    broken = ""
    for question in questions:
        came = (
            _came(question)
            if not broken
            else Came(f"not asked: {broken} has to be well first", Grade.SKIPPED)
        )
        yield Trial(question.name, question.sent, came.text, came.grade, came.changes)
        if question.needed and came.grade is Grade.WRONG:
            broken = question.name


def _came(question: Question) -> Came:
    try:
        came = question.ask()
    except SlsError as error:
        return Came(str(error), Grade.WRONG, error.cures)
    except Exception as error:  # a catalog, a store, Spark and Dagster have their own trees of errors
        return Came(f"{type(error).__name__}: {masked(error)}", Grade.WRONG)
    return Came(came) if isinstance(came, str) else came
