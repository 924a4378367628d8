"""The one job that a run's process needs, so that it builds no other definitions.

A run's process loads the code again. All definitions of a thousand logstores take eight seconds of CPU, and a
run needs those of one. So while a job is wanted, a component builds what belongs to the logstore of that job,
and nothing else; the rest of the loading is Dagster's, as ever.

Worked example: `orders_now` is wanted. The component of `orders` builds its definitions, the one of `clicks`
builds none. `shop_logstores_microbatch` lands all logstores of a project, and belongs to none: nobody builds
it, so whoever wants it has all definitions built.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

OF_LOGSTORE = frozenset({"microbatch", "now", "rework", "proof", "health", "maintenance"})
"""The jobs of a logstore are called <name>_<one of these>."""


_WANTED: ContextVar[str] = ContextVar("wanted", default="")
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
def wanting(job: str) -> Iterator[None]:
    """Components that load in the block build what belongs to the job of this name."""
    token = _WANTED.set(job)
    try:
        yield
    finally:
        _WANTED.reset(token)


def is_wanted(logstore: str) -> bool:
    """Whether the definitions of the logstore with this name are to be built."""
    name, _, what = _WANTED.get().rpartition("_")
    return all_are_wanted() or (name == logstore and what in OF_LOGSTORE)


def all_are_wanted() -> bool:
    """Whether what belongs to no single logstore is to be built."""
    return not _WANTED.get()
