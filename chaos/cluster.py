"""A standalone Spark on loopback: a master and two workers, processes of their own, and what befalls them.

    an executor  the Java process of one driver's tasks at one worker: killed, or stopped for a while
    a worker     the daemon that starts executors: killed, and another one begins
    the master   killed, and begun again at its port: it finds its drivers in its recovery folder
    its Python   a process that runs a task below an executor: killed

Whatever runs below the cluster's work folder is the cluster's: Spark starts each executor in a folder of its
own there, and Python below it inherits that. A killed worker leaves its executor without a parent, so parents
would not tell.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from chaos.site import free_port

CORES = 2
_HOST = "127.0.0.1"
_HOSTS = {"master": _HOST, "worker-0": "127.0.0.2", "worker-1": "127.0.0.3"}
"""Workers have hosts of their own, as machines have: Spark begins a second attempt of a task only on another
host than the first."""
_LOST_S = 10
"""After so long a master that began again gives up drivers and workers that do not answer; theirs is 60."""

DRIVER = {
    # One core at each worker, so that two drivers fit and each has two executors.
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.host": _HOST,
    "spark.driver.bindAddress": _HOST,
    # A second attempt of a task beside the first: their files have names of their own, and one of both lines
    # is taken.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.25",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "8",
}
"""Settings of a driver on such a cluster."""


@dataclass
class Cluster:
    """A master and workers below `folder`, which have `env`; `with` starts and ends them."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    master: str = ""
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.port = free_port()
        self.master = f"spark://{_HOST}:{self.port}"
        for name in _HOSTS:
            self._begin(name)
        return self

    def __exit__(self, *raised: object) -> None:
        for daemon in self.daemons.values():
            daemon.kill()
        for daemon in self.daemons.values():
            daemon.wait()
        for pid in self._ours():
            _send(pid, signal.SIGKILL)

    @property
    def work(self) -> Path:
        """Each worker has a folder of its name there, and gives each executor one of its own in it."""
        return self.folder / "work"

    @property
    def workers(self) -> list[str]:
        """The daemons that start executors."""
        return [name for name in _HOSTS if name != "master"]

    def executors(self) -> list[int]:
        """Java processes that run tasks."""
        return [pid for pid in self._ours() if _is_java(pid)]

    def pythons(self) -> list[int]:
        """Processes below executors that run a task, and the daemons that fork them."""
        return [pid for pid in self._ours() if not _is_java(pid)]

    def restart(self, name: str) -> None:
        """Kill the daemon of that name, and begin it again at once."""
        daemon = self.daemons.pop(name)
        daemon.kill()
        daemon.wait()
        self._begin(name)

    def strike(self, dice: random.Random) -> tuple[str, int]:
        """Something befalls the cluster. What it was, and the process that waits for SIGCONT; else 0."""
        draw = dice.random()
        if draw < 0.1:
            self.restart("master")
            return "the master", 0
        if draw < 0.3:
            self.restart(dice.choice(self.workers))
            return "a worker of the cluster", 0
        python = draw < 0.5
        pids = self.pythons() if python else self.executors()
        if not pids:
            return "", 0
        pid, slow = dice.choice(pids), draw > 0.8
        _send(pid, signal.SIGSTOP if slow else signal.SIGKILL)
        what = "Python below an executor" if python else "an executor"
        return what, pid if slow else 0

    def wake(self, pid: int) -> None:
        """Let a stopped process go on, if it is still the cluster's."""
        if pid in self._ours():
            _send(pid, signal.SIGCONT)

    def _begin(self, name: str) -> None:
        host = _HOSTS[name]
        recovery = f"-Dspark.deploy.recoveryDirectory={self.folder / 'recovery'}"
        # Executors have their worker's environment: that is where their Python and the keys are named.
        env = {
            **self.env,
            "SPARK_MASTER_OPTS": f"-Dspark.deploy.recoveryMode=FILESYSTEM {recovery}",
            # Workers beat four times in it, so they have to know of it, too.
            "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.worker.timeout={_LOST_S}",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": sys.executable,
        }
        if name == "master":
            words = ["master.Master", "--port", str(self.port)]
        else:
            words = ["worker.Worker", "--cores", str(CORES), "--memory", "2g"]
            words += ["--work-dir", str(self.work / name), self.master]
        command = [
            str(Path(sys.executable).with_name("spark-class")), f"org.apache.spark.deploy.{words[0]}",
            "--host", host, "--webui-port", "0", *words[1:],
        ]  # fmt: skip
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _ours(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(self.work):
                    found.append(int(entry.name))
        return found


def _is_java(pid: int) -> bool:
    with suppress(OSError):
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
