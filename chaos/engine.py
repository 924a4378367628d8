"""An engine without Spark: the tasks of a landing, run in this process, one after the other or side by side.

It stands where `Engine` stands and gives `write_windows` the few calls of a session it makes, so the
writing task is the production one, closure and all. As in `local[2,3]` a task has three attempts, and
what the last one raised arrives as a traceback in text.
"""

import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from pipelines.landing.spark.session import Engine
from sls_io.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
ATTEMPTS = 3


class InProcess(Engine):
    """Runs tasks here, `at_once` of them in threads, by `clock`. `tell` hears `task` before and `task.done`
    after each of them."""

    def __init__(
        self,
        tell: Callable[[str], None] = lambda name: None,
        *,
        at_once: int = 1,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__()
        self.task_clock = clock
        self._here = _Session(tell, at_once)

    @property
    def started(self) -> bool:
        return True

    @property
    def session(self) -> "SparkSession":
        return cast("SparkSession", self._here)

    def require(self) -> None:
        """Nothing is needed."""

    def cancel(self, tag: str) -> None:
        self._here.cancelled.add(tag)

    def stop(self) -> None:
        """Nothing to stop."""


class _Session:
    """What `write_windows` asks of a Spark session, under Spark's names."""

    def __init__(self, tell: Callable[[str], None], at_once: int) -> None:
        self.tell, self.at_once = tell, at_once
        self.tags: set[str] = set()
        self.cancelled: set[str] = set()

    def addTag(self, tag: str) -> None:
        self.tags.add(tag)

    def removeTag(self, tag: str) -> None:
        self.tags.discard(tag)
        self.cancelled.discard(tag)

    def range(self, start: int, end: int, step: int, partitions: int) -> "_Frame":
        return _Frame(self, range(start, end, step))


class _Frame:
    def __init__(self, session: _Session, ids: range, task: Task | None = None) -> None:
        self._session, self._ids, self._task = session, ids, task

    def mapInArrow(self, task: Task, schema: str) -> "_Frame":
        return _Frame(self._session, self._ids, task)

    def collect(self) -> list[dict[str, str]]:
        if self._session.at_once == 1:
            # In this thread: a worker of chaos is killed and forked as a whole.
            found = [self._done(number) for number in self._ids]
        else:
            with ThreadPoolExecutor(self._session.at_once) as pool:
                found = list(pool.map(self._done, self._ids))
        return [row for rows in found for row in rows]

    def _done(self, number: int) -> list[dict[str, str]]:
        if self._session.tags & self._session.cancelled:
            raise RuntimeError("the job was cancelled")
        self._session.tell("task")
        rows = [row for batch in self._attempt(number) for row in batch.to_pylist()]
        self._session.tell("task.done")
        return rows

    def _attempt(self, number: int) -> list[pa.RecordBatch]:
        partition = pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], names=["id"])
        failure = ""
        for _ in range(ATTEMPTS):
            try:
                return list(self._task([partition])) if self._task else []
            except Exception:  # whatever a task raises is told as text, as a Spark worker does
                failure = traceback.format_exc()
        raise RuntimeError(failure)
