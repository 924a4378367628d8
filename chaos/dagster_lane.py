"""The lane in which every landing is a Dagster run: a worker process with a Spark of its own.

The conductor puts runs into the queue and the daemon launches them, as for a schedule: two live runs, of
which the queue lets one through at a time, and one that backfills. A run that ended, well or not, is
followed by the next one. A run worker tells what it does over `line.py` and waits there, so a fate meets
it at a named point exactly; strikes meet it anywhere. Either hits the worker with all it started (the
JVM, Python under it), the worker alone, or its JVM alone.
"""

import os
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from chaos import site
from chaos.account import Account
from chaos.conductor import Child, Conductor
from chaos.line import VARIABLE
from chaos.site import ENDED, Site
from chaos.worker import Fate
from pipelines.cli.demo.sandbox import Sandbox
from pipelines.components.logstore.schedule import RANGE_END_TAG, RANGE_START_TAG, live_tags
from pipelines.landing.hours import hour_text
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError
from sls_io.values.window import HOUR_S

POINTS = (
    "begun", "claim", "read_ledger", "resolve_start", "survey", "write", "write.done", "publish",
    "publish.built", "adds", "commit", "publish.done", "reload", "reload.done", "reconcile", "checkpoint",
    "checkpoint.done", "release",
)  # fmt: skip
SLOTS = LIVE, LIVE_TOO, FILL = range(3)
_NOBODY = -1
_POLL_S = 1.0
_END_S = 180.0
_DRAIN_RUNS_MAX = 4


@dataclass
class Worker(Child):
    """A run worker that is on the line."""

    run: str = ""
    fate: Fate = field(default_factory=Fate)
    wrote: bool = False


@dataclass
class DagsterConductor(Conductor):
    """One run of chaos whose landings are runs of Dagster in the sandbox `box`."""

    box: Sandbox = field(default_factory=lambda: Sandbox(Path()))

    def run(self) -> Account:
        """As the other lanes do, inside a running instance."""
        with ExitStack() as stack:
            path = self.wish.folder / "line"
            self.listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            self.listener.bind(str(path))
            self.listener.listen()
            self.selector.register(self.listener, 1)
            self.lines: dict[int, socket.socket] = {}
            self.runs: dict[int, str] = {}
            self.slots: dict[str, int] = {}
            logstore, lossy = self._task("w0").logstore, self.wish.lossy
            self.dagster: Site = stack.enter_context(
                site.serve(self.box, logstore, line=path, spool=self.spool, lossy=lossy)
            )
            del os.environ[VARIABLE]
            return super().run()

    # --- runs ------------------------------------------------------------------------------------

    def _begin_work(self) -> None:
        for slot in SLOTS:
            self._launch(slot)
        if self.wish.house_every_s:
            self._respawn_house(self.wish.workers)

    def _acts(self) -> list[tuple[float, Callable[[], None]]]:
        return [*super()._acts(), (_POLL_S, self._poll)]

    def _launch(self, slot: int) -> None:
        last = int(self.shaker.admin.now()) // HOUR_S
        task = self._task("w0")
        if slot == FILL:
            first = max(task.logstore.start_hour, last - self.dice.randrange(3))
            tags = {RANGE_START_TAG: hour_text(first), RANGE_END_TAG: hour_text(first)}
        else:
            tags = live_tags(task.logstore, int(SYSTEM_CLOCK.now()) // HOUR_S)
        run = self.dagster.launch(f"{task.logstore.name}_microbatch", tags)
        self.runs[slot], self.slots[run] = run, slot
        self.account.runs["launched"] += 1

    def _poll(self) -> None:
        """Launch the next run where one ended. What a busy Dagster does not answer is asked again."""
        for slot in SLOTS:
            try:
                if slot in self.runs and (status := self.dagster.status(self.runs[slot])) in ENDED:
                    del self.runs[slot]
                    self.account.runs[status] += 1
                if slot not in self.runs and self.busy:
                    self._launch(slot)
            except (ConfigError, OSError):
                self.account.runs["not answered"] += 1

    def _jump(self) -> None:
        if self.shaker.admin.now() + self.wish.jump_s[1] < SYSTEM_CLOCK.now() - 2 * HOUR_S:
            super()._jump()

    # --- workers ---------------------------------------------------------------------------------

    def _hear(self, fd: int) -> None:
        if fd == self.listener.fileno():
            connection, _ = self.listener.accept()
            self.lines[connection.fileno()] = connection
            self.children[connection.fileno()] = Worker(0, _NOBODY)
            self.selector.register(connection.fileno(), 1)
        elif fd not in self.lines:
            super()._hear(fd)
        else:
            self._hear_worker(fd)

    def _hear_worker(self, fd: int) -> None:
        worker = self.children[fd]
        if not isinstance(worker, Worker):
            return
        try:
            read = self.lines[fd].recv(1 << 16)
        except OSError:
            read = b""
        *lines, worker.text = (worker.text + read).split(b"\n")
        for line in lines:
            self._worker_told(worker, line.decode())
            with suppress(OSError):
                self.lines[fd].send(b"\n")
        if not read:
            self._gone(fd, worker)

    def _worker_told(self, worker: Worker, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "run":
            worker.run, pid = rest.split()
            worker.pid, worker.slot = int(pid), self.slots.get(worker.run, _NOBODY)
            worker.fill = worker.slot == FILL
            worker.fate = self._fate(POINTS) if self.busy else Fate()
            return
        self._told(worker, line)
        if word == "write.done":
            worker.wrote = True
        elif word == "reconcile":
            self.account.told["landed"] += 1
            self.account.told["landed with rows"] += worker.wrote
        if word == worker.fate.point:
            act, worker.fate = worker.fate.act, Fate()
            self._hit(worker, kill=act == "kill")

    def _gone(self, fd: int, child: Child) -> None:
        if not isinstance(child, Worker):
            super()._gone(fd, child)
            return
        self.selector.unregister(fd)
        self.lines.pop(fd).close()
        del self.children[fd]
        if child.unknown:
            self.account.unknown[child.unknown, "left to the next run by a kill"] += 1

    def _strike(self) -> None:
        awake = [c for c in self.children.values() if c.slot is not None and c.last != "fork"]
        if not awake:
            return
        child = self.dice.choice(awake)
        if isinstance(child, Worker):
            self._hit(child, kill=self.dice.random() < 0.75)
        else:
            self._kill(child)

    def _kill(self, child: Child) -> None:
        if isinstance(child, Worker):
            self._hit(child, kill=True)
        else:
            super()._kill(child)

    def _hit(self, worker: Worker, *, kill: bool) -> None:
        """End or stop the worker with all it started, or alone, or only what it started."""
        if not worker.pid:
            return  # it has not said who it is, and 0 would be all of us
        below = started_by(worker.pid)
        draw = self.dice.random() if self.busy else 0.0
        what, pids = "whole", [worker.pid, *below]
        if draw > 0.85 and below:
            what, pids = "its JVM alone", below
        elif draw > 0.7:
            what, pids = "alone", [worker.pid]
        if not kill:
            _signal(pids, signal.SIGSTOP)
            self._stopped(worker, lambda: _signal(pids, signal.SIGCONT))
            return
        self.account.kills[f"{worker.last} ({what})" if what != "whole" else worker.last] += 1
        _signal(pids, signal.SIGKILL)

    # --- the end ---------------------------------------------------------------------------------

    def _still(self) -> None:
        super()._still()
        self._await_runs()

    def _drain(self) -> None:
        """Live runs of Dagster until one has nothing to write; what they left the last worker lands."""
        # Their catalog loses answers still; their service is well.
        for _ in range(_DRAIN_RUNS_MAX):
            written = self.account.told["write"]
            with suppress(ConfigError, OSError):
                self._launch(LIVE)
            self._await_runs()
            self.account.drain_runs += 1
            if self.account.told["write"] == written:
                break
        super()._drain()

    def _await_runs(self) -> None:
        until_s = SYSTEM_CLOCK.monotonic() + _END_S
        while self.runs and SYSTEM_CLOCK.monotonic() < until_s:
            self._loop(min(until_s, SYSTEM_CLOCK.monotonic() + _POLL_S))
            self._poll()
        if self.runs:
            self.account.problems.append(f"{len(self.runs)} runs did not end within {_END_S:.0f} s")


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def started_by(pid: int) -> list[int]:
    """What the process started, and what that started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The second field, a name in parentheses, may hold blanks.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found = [pid]
    for above in found:
        found += [child for child, parent in parents.items() if parent == above]
    return found[1:]
