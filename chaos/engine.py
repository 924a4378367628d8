"""An engine without Spark: the tasks of a landing, run in this process, one after the other or side by side.

It stands where `Engine` stands, so the writing task is the production one, closure and all. As in
`local[2,3]` a task has three attempts, and what the last one raised arrives as a traceback in text.
"""

import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pipelines.landing.spark.session import Engine, Task
from sls_io.values.clock import SYSTEM_CLOCK, Clock

ATTEMPTS = 3


class InProcess(Engine):
    """Runs tasks here, `at_once` of them in threads, by `clock`. `tell` hears `task` before and `task.done`
    after each of them."""

    here_bytes_max = 0
    """What is done with files is packed and sent as to Spark, however little it is."""

    def __init__(
        self,
        tell: Callable[[str], None] = lambda name: None,
        *,
        at_once: int = 1,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__()
        self.task_clock = clock
        self._tell, self._at_once = tell, at_once
        self._cancelled: set[str] = set()

    @property
    def started(self) -> bool:
        return True

    def require(self) -> None:
        """Nothing is needed."""

    def ready(self) -> None:
        """Nothing is waited for."""

    def run(self, count: int, task: Task, *, tag: str, within_s: float | None = None) -> list[str]:
        try:
            if self._at_once == 1:
                # In this thread: a worker of chaos is killed and forked as a whole.
                found = [self._done(number, task, tag) for number in range(count)]
            else:
                with ThreadPoolExecutor(self._at_once) as pool:
                    found = list(pool.map(lambda number: self._done(number, task, tag), range(count)))
        finally:
            self._cancelled.discard(tag)
        return [line for lines in found for line in lines]

    def cancel(self, tag: str) -> None:
        self._cancelled.add(tag)

    def stop(self, *, wait: bool = False) -> None:
        """Nothing to stop."""

    def _done(self, number: int, task: Task, tag: str) -> list[str]:
        if tag in self._cancelled:
            raise RuntimeError("the job was cancelled")
        self._tell("task")
        lines = self._attempt(number, task)
        self._tell("task.done")
        return lines

    def _attempt(self, number: int, task: Task) -> list[str]:
        failure = ""
        for _ in range(ATTEMPTS):
            try:
                return list(task([number]))
            except Exception:  # whatever a task raises is told as text, as a Spark worker does
                failure = traceback.format_exc()
        raise RuntimeError(failure)
