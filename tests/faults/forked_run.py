"""Runs as processes of their own that kill, stop or starve themselves where they are told to.

    python -m tests.faults.forked_run     reads one JSON document a line, answers with lines

A document is {logstore, lake, point, act, environment}: a live run is forked, with more variables, that does
`act` to itself the first time it comes to `point`: `kill` (SIGKILL), `stop` (SIGSTOP), or `disk` (from there
to `POINT.done` no file may grow, by RLIMIT_FSIZE, which is how a full disk looks to a process). The points
are `Run`'s events, the writing tasks (`task`, `task.done`), and `commit` and `committed`: the catalog has the
request, and has carried it out while nobody has the answer yet. Without `act` the run is told from outside.

Forking one process that has imported everything costs milliseconds where a new one costs seconds. The
answers are `pid N`, `stopped` and `ended STATUS` (negative: the signal); the line `continue` wakes a
stopped run. Status 2 and a sentence on stderr mean an error of ours, 1 anything else.

Story: a test fails between its run's begin and end. The word of that end waits in the pipe, and the next
test takes it for its own run's. So a run that nobody waited for is ended, and its words are heard, before
the next one begins. Its process stays there, dead, until then: its number is nobody else's.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate

from chaos.engine import InProcess
from chaos.troubles.behind import behind
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import SlsError

ROOT = Path(__file__).resolve().parents[2]


class ToldCatalog(SqlCatalog):
    """A SQLite catalog that says when it has a request, and when it has carried it out."""

    tell: Callable[[str], None] = staticmethod(lambda name: None)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """As the catalog behind it."""
        self.tell("commit")
        answer = super().commit_table(table, requirements, updates)
        self.tell("committed")
        self.tell("committed.done")
        return answer


class Fate:
    """Does `act` to this process the first time it hears `point`."""

    def __init__(self, act: str, point: str) -> None:
        self._act, self._point = act, point

    def __call__(self, name: str) -> None:
        if name == f"{self._point}.done":
            disk(full=False)
        if name != self._point:
            return
        act, self._act = self._act, ""
        if act == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif act == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif act == "disk":
            disk(full=True)


def disk(*, full: bool) -> None:
    """Whether files of this process may still grow."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0 if full else hard, hard))


def run(asked: dict[str, Any]) -> int:
    """One live run; its exit status."""
    os.environ.update(asked.get("environment", {}))
    try:
        _land(asked)
    except SlsError as error:
        disk(full=False)
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        return 2
    except BaseException:
        disk(full=False)
        os.write(2, traceback.format_exc().encode())
        return 1
    return 0


def _land(asked: dict[str, Any]) -> None:
    fate = Fate(asked.get("act", ""), asked.get("point", ""))
    lake = behind(Lake(asked["lake"]), ToldCatalog)
    catalog = lake.catalog()
    if not isinstance(catalog, ToldCatalog):
        raise TypeError("the catalog is another's")
    catalog.tell = fate
    logstore = Logstore.model_validate(asked["logstore"])
    with Run(logstore, InProcess(fate), lake=lake, on_event=fate, reload_deadline_s=2.0) as landing:
        landing.land()
        landing.reconcile()
        landing.checkpoint()


def serve() -> None:
    """Fork a run for each line of stdin and tell what becomes of it."""
    print("ready", flush=True)  # noqa: T201
    dead: list[int] = []
    for line in sys.stdin:
        while dead:
            os.waitpid(dead.pop(), 0)
        pid = os.fork()
        if pid == 0:
            os.close(0)
            os._exit(run(json.loads(line)))
        print(f"pid {pid}", flush=True)  # noqa: T201
        while (seen := _changed(pid)).si_code == os.CLD_STOPPED:
            print("stopped", flush=True)  # noqa: T201
            sys.stdin.readline()
            os.kill(pid, signal.SIGCONT)
        status = seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status
        print(f"ended {status}", flush=True)  # noqa: T201
        dead.append(pid)


def _changed(pid: int) -> os.waitid_result:
    """What became of the run; one that has ended is still there."""
    seen = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    if seen is None:
        raise ChildProcessError
    if seen.si_code == os.CLD_STOPPED:
        # Taken, or the next look finds the same stop again. It may have been killed meanwhile.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
    return seen


@dataclass
class Forked:
    """A run in a process of its own."""

    forge: "Forge"
    pid: int
    last: str = ""
    """The last word that was heard of it."""

    def stopped(self) -> None:
        """Wait until it has stopped."""
        assert self._hear() == "stopped", self.last

    def wake(self) -> int:
        """Let it go on, and wait for its end."""
        self.forge.say("continue")
        self.last = "woken"
        return self.ended()

    def ended(self) -> int:
        """Wait for its end: the exit status, negative for a signal."""
        word, _, status = self._hear().partition(" ")
        assert word == "ended", word
        return int(status)

    def end(self) -> None:
        """End it, where nobody has heard of its end."""
        if self.last.startswith("ended"):
            return
        os.kill(self.pid, signal.SIGKILL)
        while not self.last.startswith("ended"):
            # A line too many would be the next run's.
            if self.last == "stopped":
                self.forge.say("continue")
            if not self._hear():
                return

    def _hear(self) -> str:
        self.last = self.forge.hear()
        return self.last


class Forge:
    """The forking process; one run at a time."""

    def __init__(self) -> None:
        self._run: Forked | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forked_run"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.hear() == "ready"

    def run(
        self,
        logstore: Logstore,
        lake: Lake,
        *,
        act: str = "",
        point: str = "",
        environment: dict[str, str] | None = None,
    ) -> Forked:
        """Fork a run, with these variables set; returns as soon as it has begun. The one before is over."""
        self.end_run()
        asked = {"logstore": logstore.model_dump(mode="json"), "lake": dict(lake.properties)}
        asked["environment"] = environment or {}
        self.say(json.dumps({**asked, "act": act, "point": point}))
        self._run = Forked(self, int(self.hear().removeprefix("pid ")))
        return self._run

    def end_run(self) -> None:
        """End the run that nobody waited for, if there is one."""
        if self._run is not None:
            self._run.end()

    def say(self, line: str) -> None:
        """One line to the forking process."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """The next line of the forking process."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_run()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(10)


if __name__ == "__main__":
    serve()
