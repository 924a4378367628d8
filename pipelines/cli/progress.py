"""What a verb is doing now, on stderr: in a terminal one line that is written anew and gone at the end,
elsewhere a line each ten seconds, so that the log of a long landing says how far it is.

Written to a descriptor of its own: while Spark works, everything else of this process goes to a log file.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import IO, TYPE_CHECKING, Protocol

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pipelines.landing import json_log
from pipelines.landing.run.tally import told
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import amount

if TYPE_CHECKING:
    from pipelines.landing.spark.session import Engine

REFRESH_HZ = 4.0
PIPED_S = 10.0
"""Seconds from one line to the next where no terminal is."""
PHASES = {
    "claim": "claiming shards",
    "read_ledger": "reading the ledger",
    "resolve_start": "asking where the history begins",
    "survey": "asking the shards what is new",
    "write": "reading the shards and writing files",
    "publish": "committing",
    "reload": "asking the table what became of the commit",
    "reconcile": "counting the files again",
    "checkpoint": "publishing checkpoints",
    "release": "letting the shards go",
}
"""The names of a run's effects, in words."""

Look = Callable[[], tuple[int, int] | None]
"""(done, of how many) of what is under way; None while nobody knows."""


class _Shower(Protocol):
    """Shows a description, how much of how many is done, and an amount in words; asks `ask` before."""

    ask: Callable[[], None] | None

    def describe(self, description: str) -> None: ...
    def count(self, completed: int, total: int | None, amount: str) -> None: ...
    def stop(self) -> None: ...


class Line:
    """The line. `what` is the verb and its logstore; where nothing is shown every method does nothing."""

    def __init__(self, what: str, progress: _Shower | None) -> None:
        self._what, self._progress, self._asking = what, progress, Lock()
        if progress is not None:
            progress.describe(what)

    def phase(self, name: str) -> None:
        """What is done now: a run's effect, or words. The end of an effect says nothing."""
        if not name.endswith(".done"):
            json_log.say(logging.INFO, f"{self._what}: {PHASES.get(name, name)}")
        if self._progress is not None and not name.endswith(".done"):
            self._progress.describe(f"{self._what}: {PHASES.get(name, name)}")
            self._progress.count(0, None, "")  # what was counted was of the step before

    def counted(self, done: int, total: int | None, amount: str) -> None:
        """So much of `total` is done; `amount` says it in words."""
        if self._progress is not None:
            self._progress.count(done, total, amount)

    @property
    def shown(self) -> bool:
        """Whether it is in a terminal, where somebody sees each change."""
        return isinstance(self._progress, _Live)

    @contextmanager
    def landing(self, engine: "Engine") -> Iterator[None]:
        """Show how far the tasks of a landing are, for the time of the block: tasks, and where Spark runs on
        this machine pages, rows and MB/s."""
        if self._progress is None or engine.remote or not engine.master.startswith("local"):
            with self.watching(_tasks_of(engine), "tasks"):
                yield
            return
        with TemporaryDirectory(prefix="sls-lake-") as folder:
            engine.tally = folder
            try:
                with self.watching(_tasks_of(engine), "tasks", _read_since(Path(folder))):
                    yield
            finally:
                engine.tally = ""

    @contextmanager
    def watching(self, look: Look, unit: str, more: Callable[[], str] = lambda: "") -> Iterator[None]:
        """Ask `look` each time the line is written, for the time of the block and never after it; `more` is
        said behind it.

        Never after: the thread that draws may be inside `look` when the block ends, and behind the block
        Spark's context or the folder is gone. So a look holds a lock, the end of the block waits for it, and
        a look that comes late finds that nobody asks any more.
        """
        if self._progress is None:
            yield
            return
        self._progress.ask = lambda: self._look(look, unit, more)
        try:
            yield
        finally:
            with self._asking:
                self._progress.ask = None

    def end(self) -> None:
        """Take the line away, before something else is said."""
        if self._progress is not None:
            self._progress.stop()

    def _look(self, look: Look, unit: str, more: Callable[[], str]) -> None:
        # From the thread that draws: what it cannot know it leaves out, and the verb goes on.
        with self._asking, suppress(Exception):
            if self._progress is None or self._progress.ask is None:
                return
            if (found := look()) is not None:
                self.counted(*found, f"{found[0]:,} of {found[1]:,} {unit}{more()}")


class _Live(Progress):
    """rich's, with a question before each drawing."""

    ask: Callable[[], None] | None = None
    _only = TaskID(0)

    def describe(self, description: str) -> None:
        if not self.task_ids:
            self._only = self.add_task(description, total=None, amount="")
        self.update(self._only, description=description)

    def count(self, completed: int, total: int | None, amount: str) -> None:
        self.update(self._only, completed=completed, total=total, amount=amount)

    def get_renderables(self) -> Iterable[RenderableType]:
        if (ask := self.ask) is not None:
            ask()
        yield from super().get_renderables()


class Piped:
    """A line into `file` each `every_s` seconds, from the first `every_s` on and until `stop`: a verb that is
    done by then says nothing."""

    ask: Callable[[], None] | None = None

    def __init__(self, file: IO[str], every_s: float = PIPED_S) -> None:
        self._file, self._every_s = file, every_s
        self._description = self._amount = ""
        self._begun_s, self._over = SYSTEM_CLOCK.monotonic(), Event()
        self._thread = Thread(target=self._go_on, name="progress", daemon=True)
        self._thread.start()

    def describe(self, description: str) -> None:
        self._description = description

    def count(self, completed: int, total: int | None, amount: str) -> None:
        self._amount = amount

    def stop(self) -> None:
        """Say nothing more."""
        self._over.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._over.wait(self._every_s):
            if (ask := self.ask) is not None:
                ask()
            if not self._description:
                continue
            so_far = f", {self._amount}" if self._amount else ""
            since_s = SYSTEM_CLOCK.monotonic() - self._begun_s
            said = f"sls-lake: {self._description}{so_far} ({since_s:.0f} s)\n"
            # Unbuffered: whoever reads it may have gone away, and then nothing is left to be written.
            with suppress(OSError):
                os.write(self._file.fileno(), said.encode())


@contextmanager
def line(what: str, *, quiet: bool = False) -> Iterator[Line]:
    """A line for the time of the block; none with `quiet`, and none where stderr is no file."""
    try:
        stderr = None if quiet else os.dup(sys.stderr.fileno())
    except (OSError, ValueError):
        stderr = None
    if stderr is None:
        yield Line(what, None)
        return
    with (
        os.fdopen(stderr, "w", encoding="utf-8") as own,
        _in_terminal(own) if own.isatty() else _in_pipe(own) as progress,
    ):
        yield Line(what, progress)


@contextmanager
def _in_pipe(own: IO[str]) -> Iterator[Piped]:
    piped = Piped(own)
    try:
        yield piped
    finally:
        piped.stop()


def _in_terminal(own: IO[str]) -> _Live:
    columns: list[ProgressColumn] = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[amount]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    ]
    return _Live(
        *columns,
        console=Console(file=own, emoji=False),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        refresh_per_second=REFRESH_HZ,
    )


def _read_since(folder: Path) -> Callable[[], str]:
    """What tasks tell in `folder`, in words, with the speed since the first of it was seen."""
    begun_s: float | None = None

    def said() -> str:
        nonlocal begun_s
        done = told(folder)
        if not done.pages:
            return ""
        now_s, mb = SYSTEM_CLOCK.monotonic(), done.raw_bytes / 1e6
        begun_s = now_s if begun_s is None else begun_s
        speed = f", {mb / (now_s - begun_s):,.1f} MB/s" if now_s - begun_s >= 1 else ""
        return f", {amount(done.pages, 'page')}, {amount(done.rows, 'row')}, {mb:,.1f} MB{speed}"

    return said


def _tasks_of(engine: "Engine") -> Look:
    """How many of the Spark tasks of the running stages are done, where Spark runs in this process."""

    def look() -> tuple[int, int] | None:
        # Asking for a context starts one.
        if engine.remote or not engine.started:
            return None
        tracker = engine.context.statusTracker()
        stages = filter(None, map(tracker.getStageInfo, tracker.getActiveStageIds()))
        counts = [(stage.numCompletedTasks, stage.numTasks) for stage in stages]
        return (sum(done for done, _ in counts), sum(total for _, total in counts)) if counts else None

    return look
