"""One worker: a forked process in which production runs follow one another until it is killed.

Everything it does it tells over a pipe, one line each; a line is in the pipe before the act it names,
so what a killed worker had begun is known. Besides `Run`'s own events (`publish`, `publish.done`):

    task, task.done          a writing task (engine.py)
    adds ID, commit WHAT     a request to the catalog (catalog.py)
    fill, live               what the next run is
    jvm PID                  with a Spark of its own: its JVM
    masterless               with a Spark of its own: its master is gone, and so is this worker
    landed ROWS REPLANS      a landing was reported, before its check and checkpoint
    failed KIND              a run ended with an error of ours that a fault explains
    stopping                 the very next act is SIGSTOP to itself; who reads this sends SIGCONT
    drained                  with `landings_max`: a run found nothing left to do
    bug TEXT                 anything else
"""

import gc
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.engine import InProcess
from chaos.troubles.catalog import ChaosCatalog, chaotic
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.lake import Lake
from sls_io.planning.waits import Why
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.cures import Do
from sls_io.values.errors import (
    ConfigError,
    ConnectFailed,
    DecodeError,
    InvariantBroken,
    LedgerBroken,
    SlsError,
)
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

POINTS = (
    "claim", "claim.done", "read_ledger", "resolve_start", "survey", "survey.done", "write", "task",
    "task.done", "write.done", "publish", "publish.built", "publish.done", "commit", "reload", "reload.done",
    "reconcile", "checkpoint", "checkpoint.done", "release",
)  # fmt: skip
"""Where a worker may be killed or stop itself: `Run`'s events, the tasks, and the moment a commit is over."""
PUBLISH_DEADLINE_S = 1.5
RELOAD_DEADLINE_S = 10.0
_PAUSE_S = 0.05
_BUG_CHARS_MAX = 400


@dataclass(frozen=True)
class Fate:
    """What a worker does to itself: `kill` or `stop` at the `nth` time it comes to `point`."""

    act: str = ""
    point: str = ""
    nth: int = 0


@dataclass(frozen=True)
class Task:
    """All a worker is told. `fill` is the share of its runs that are backfills of a recent hour; `master`
    and `conf` are those of a Spark of its own; none where `master` is empty."""

    logstore: Logstore
    lake: Lake
    spool: Path
    seed: int
    master: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    fate: Fate = Fate()
    lossy: float = 0.0
    fill: float = 0.0
    landings_max: int = 0
    fence: bool = True


class Pipe:
    """The worker's voice, and where its fate meets it."""

    def __init__(self, fd: int, fate: Fate) -> None:
        self._fd, self._fate, self._left = fd, fate, fate.nth

    def __call__(self, line: str) -> None:
        self._write(line)
        # A point of several words ("commit accepted") is named by its first.
        if self._fate.act and line.partition(" ")[0] == self._fate.point:
            self._left -= 1
            if self._left == 0:
                if self._fate.act == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                self._write("stopping")
                os.kill(os.getpid(), signal.SIGSTOP)

    def _write(self, line: str) -> None:
        try:
            os.write(self._fd, line.encode() + b"\n")
        except BrokenPipeError:
            os._exit(1)  # nobody counts any more


def fork(act: Callable[[int], None], log: Path) -> tuple[int, int]:
    """Run `act` with the writing end of a pipe in a child; returns its pid and the reading end.

    The parent must have no thread. The child keeps the pipe and the standard streams and nothing else,
    so that what the parent holds open (the emulator's input, other pipes) ends with the parent.
    """
    reading, writing = os.pipe()
    gc.freeze()  # the collector would touch, and so copy, every page the child shares with us
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.closerange(3, writing)
        os.closerange(writing + 1, 4096)
        act(writing)
        status = 0
    except BaseException as error:
        traceback.print_exc()
        text = " ".join(f"{type(error).__name__}: {error}".split())[:_BUG_CHARS_MAX]
        os.write(writing, f"bug {text}\n".encode())
    finally:
        sys.stdout.flush()
        os._exit(status)


def work(task: Task, fd: int) -> None:
    """Runs in a loop; returns after `landings_max` of them, never when that is 0."""
    tell, dice = Pipe(fd, task.fate), random.Random(task.seed)
    lake = armed(task, tell)
    engine = Engine(lake=task.lake, master=task.master, conf=task.conf) if task.master else InProcess(tell)
    if not _has_spark(engine, tell):
        return
    tell("ready")
    landings = 0
    while not task.landings_max or landings < task.landings_max:
        landings += 1
        fill = dice.random() < task.fill
        tell("fill" if fill else "live")
        try:
            done = _land(task, lake, engine, tell, fill=fill, dice=dice)
        except (InvariantBroken, LedgerBroken, DecodeError, ConfigError):
            raise  # no fault explains these
        except SlsError as error:
            tell(f"failed {type(error).__name__}")
            traceback.print_exc()
            done = False
            if not _has_spark(engine, tell):
                return
        if task.landings_max and done:
            tell("drained")
            return
        SYSTEM_CLOCK.sleep(_PAUSE_S)


def armed(task: Task, tell: Callable[[str], None]) -> Lake:
    """The lake behind a catalog that begins to lose answers."""
    random.seed(task.seed)  # the waits between tries: forked twins would march in step
    lake = chaotic(task.lake, fence=task.fence)
    catalog = lake.catalog()
    if not isinstance(catalog, ChaosCatalog):
        raise TypeError("the catalog is another's")
    catalog.arm(task.seed, task.lossy, task.spool, tell)
    return lake


def _has_spark(engine: Engine, tell: Callable[[str], None]) -> bool:
    """Whether there is one to go on with, begun anew where it has ended. Its JVM ends when this process does,
    or is killed apart from it. Not where the master was struck: the next worker finds the new one."""
    if isinstance(engine, InProcess):
        return True
    try:
        gateway = engine.context._gateway
    except ConnectFailed:
        tell("masterless")
        return False
    if gateway is not None:
        tell(f"jvm {gateway.proc.pid}")
    return True


def _land(
    task: Task, lake: Lake, engine: Engine, tell: Callable[[str], None], *, fill: bool, dice: random.Random
) -> bool:
    """One run; whether it found nothing left to do."""
    hours = _an_hour(task, dice) if fill else None
    with Run(
        task.logstore,
        engine,
        lake=lake,
        mode="fill" if fill else "live",
        hours=hours,
        on_event=tell,
        publish_deadline_s=PUBLISH_DEADLINE_S,
        reload_deadline_s=RELOAD_DEADLINE_S,
    ) as run:
        report = run.land()
        tell(f"landed {report.rows} {report.replans}")
        verdict = run.reconcile()
        if not verdict.ok:
            raise LedgerBroken("; ".join(verdict.problems), cures=(Do("look at the log"),))
        run.checkpoint()
    waiting = [w for w in report.waits.values() if w.kind not in (Why.CLOSED, Why.DRAINED)]
    return not report.rows and not report.closed and not waiting


def _an_hour(task: Task, dice: random.Random) -> tuple[int, int]:
    """This receive hour or one of the two before it."""
    with SlsClient(task.logstore.service) as client:
        hour = int(client.now_s()) // HOUR_S - dice.randrange(3)
    return hour, hour + 1
