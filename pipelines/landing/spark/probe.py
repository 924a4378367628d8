"""Why Spark's workers could not even begin: another Python than ours, or packages that they lack.

Asked when a task has failed and none of our errors says why, so a run that works pays nothing for it. The
look is one task, carried there by value: it needs nothing of ours where it runs.
"""

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator

from pipelines.landing.spark.session import PYTHON_VARIABLE, Engine, Task
from sls_io.values.errors import ConfigError, SlsError, TransportError, printable

_OTHER_PYTHON = re.compile(r"\[PYTHON_VERSION_MISMATCH\]")
"""Spark's own kind of this error, which it hands on as text; it runs no task then."""
_WHERE_CHARS_MAX = 200


def task_failed(engine: Engine, error: Exception, needed: str, own: str = "") -> SlsError:
    """A failure of Spark's with no error of ours in it, as one of ours; `needed` is the module that its tasks
    run, `own` what else may be the cause."""
    if problem := workers_problem(engine, str(error), needed):
        return ConfigError(problem)
    return TransportError(
        f"a task of Spark at {engine.place} failed ({type(error).__name__}), its log says why: look whether "
        f"its master answers, and whether a worker was ended for its memory{own}"
    )


def workers_problem(engine: Engine, said: str, needed: str) -> str:
    """A sentence with the cure when the workers of `engine` cannot run the module `needed`; "" when they can,
    or nobody knows. `said` is what Spark handed on.

    Another Python is told by Spark's own word for it, and nothing runs then. Else one task imports `needed`
    and gives back the name of what it lacks. Where that task fails, too, a Python that a person named is the
    likeliest cause; over Connect, and with our own Python, nobody knows, and Spark's own error stays.
    """
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    told = os.environ.get(PYTHON_VARIABLE, "")
    if engine.remote:
        place = f"the Spark Connect server {engine.place}"
        cure = f"start it with {PYTHON_VARIABLE} set to a Python {ours} that has our packages"
    else:
        place = f"Spark ({PYTHON_VARIABLE}={printable(told, _WHERE_CHARS_MAX)})"
        cure = f"unset {PYTHON_VARIABLE}, or name a Python {ours} that has our packages"
    if _OTHER_PYTHON.search(said):
        return f"the workers of {place} run another Python than this run, which has {ours}: {cure}"
    try:
        (lacks,) = engine.run(1, _look(needed), tag="sls-lake-probe")
    except Exception:
        if engine.remote or told == sys.executable:
            return ""
        return f"the workers of {place} run no task at all: {cure}"
    return f"the workers of {place} cannot import {printable(lacks, 80)}: {cure}" if lacks else ""


def _look(needed: str) -> Task:
    """A task whose line is the name of what cannot be imported there, "" when all can."""

    def look(numbers: Iterable[int]) -> Iterator[str]:
        for _ in numbers:
            try:
                importlib.import_module(needed)
            except ImportError as error:
                yield error.name or needed
            else:
                yield ""

    return look
