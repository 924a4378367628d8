"""The one job that a run's process needs, so that it builds no other definitions.

A run's process loads the code again. All definitions of a thousand logstores take eight seconds of CPU, and a
run needs those of one. So while a job is wanted, a component builds what belongs to the logstore of that job,
and nothing else; the rest of the loading is Dagster's, as ever.

Worked example: `orders_now` is wanted. The component of `orders` builds its definitions and says that they
are found; the one of `clicks` builds none. `shop_logstores_microbatch` lands all logstores of a project, and
belongs to none: nobody finds it, and all definitions are built.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

OF_LOGSTORE = frozenset({"microbatch", "now", "rework", "proof", "health", "maintenance"})
"""The jobs of a logstore are called <name>_<one of these>."""


@dataclass
class WantedJob:
    """A job by name, and whether a component has built it."""

    job: str
    found: bool = False

    def is_of(self, logstore: str) -> bool:
        """Whether it is a job of the logstore with this name."""
        name, _, what = self.job.rpartition("_")
        return name == logstore and what in OF_LOGSTORE


_WANTED: ContextVar[WantedJob | None] = ContextVar("wanted", default=None)
_ALONE: ContextVar[bool] = ContextVar("alone", default=False)


@contextmanager
def alone() -> Iterator[None]:
    """In the block only logstores are loaded, all of them: no job has to do with anything but its own."""
    token = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(token)


def are_alone() -> bool:
    """Whether a job of a logstore may be looked up among what belongs to that logstore."""
    return _ALONE.get()


@contextmanager
def wanting(job: str) -> Iterator[WantedJob]:
    """Components that load in the block build what belongs to this job."""
    wanted = WantedJob(job)
    token = _WANTED.set(wanted)
    try:
        yield wanted
    finally:
        _WANTED.reset(token)


def is_wanted(logstore: str) -> bool:
    """Whether the definitions of the logstore with this name are to be built."""
    wanted = _WANTED.get()
    if wanted is None:
        return True
    own = wanted.is_of(logstore)
    wanted.found = wanted.found or own
    return own


def all_are_wanted() -> bool:
    """Whether what belongs to no single logstore is to be built."""
    return _WANTED.get() is None
