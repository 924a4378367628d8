"""A folder under var/ where everything of a demo or a development run lives, and its environment.

The catalog, the state folder, Dagster's home, the key pair and the endpoint are all set here, over
whatever the shell has: a demo must never write into a catalog or sign with a key that is meant.
"""

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pipelines.cli.demo import follower
from pipelines.cli.init import TEMPLATE
from pipelines.cli.logstores import project_root
from pipelines.dagster_client import URL_VARIABLE
from pipelines.landing.spark.remote import REMOTE_VARIABLE
from pipelines.landing.spark.session import JARS_VARIABLE
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.errors import ConfigError

STOP_S = 20.0
_MARK = ".sls-lake-sandbox"
_CATALOG_PREFIX = "PYICEBERG_CATALOG__LAKE__"
_DROPPED = (
    "ALIBABA_CLOUD_SECURITY_TOKEN", "DAGSTER_RUN_JOB_NAME", "SPARK_REMOTE", REMOTE_VARIABLE, URL_VARIABLE
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sandbox:
    """`home` is absolute; `port` is the emulator's, `spark_remote` the address of a Spark server, if any,
    `dagster_url` that of Dagster's page, if there is one. `jars` is where Spark's jars lie, "" where each
    process looks by itself."""

    home: Path
    port: int = 0
    spark_remote: str = ""
    dagster_url: str = ""
    jars: str = ""

    @property
    def endpoint(self) -> str:
        """Where the emulator answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def dagster_home(self) -> Path:
        """Runs, events and schedules of the sandbox's Dagster."""
        return self.home / "dagster"

    def variables(self) -> dict[str, str]:
        """What the environment must say, for this process and every child."""
        lake = self.home / "lake"
        said = {REMOTE_VARIABLE: self.spark_remote, URL_VARIABLE: self.dagster_url, JARS_VARIABLE: self.jars}
        return {
            **{name: value for name, value in said.items() if value},
            "SLS_LAKE_HOME": str(self.home),
            "SLS_ENDPOINT": self.endpoint,
            "DAGSTER_HOME": str(self.dagster_home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "DBT_TARGET_PATH": str(self.home / "dbt" / "target"),
            "DBT_LOG_PATH": str(self.home / "dbt" / "logs"),
            "ALIBABA_CLOUD_ACCESS_KEY_ID": FAKE_ID,
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET": FAKE_SECRET,
            f"{_CATALOG_PREFIX}TYPE": "sql",
            f"{_CATALOG_PREFIX}URI": f"sqlite:///{lake}/catalog.sqlite?timeout=30",
            f"{_CATALOG_PREFIX}WAREHOUSE": f"file://{lake}/warehouse",
        }

    def enter(self) -> None:
        """Make this process live in the sandbox."""
        for name in [n for n in os.environ if n.startswith(_CATALOG_PREFIX) or n in _DROPPED]:
            del os.environ[name]
        os.environ.update(self.variables())

    @contextmanager
    def owned(self) -> Iterator[None]:
        """The folder is this process's for the time of the block; call it before anything is written there.

        Raises ConfigError while another process has it. The lock lies beside the folder, which may be removed
        as a whole, and the system lets it go with the process, however that ends.
        """
        self.home.parent.mkdir(parents=True, exist_ok=True)
        with (self.home.parent / f".{self.home.name}.lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                owner = lock.read().strip() or "unknown"
                raise ConfigError(
                    f"{self.home} is in use by another demo or dev (process {owner}): end that one first"
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def prepare(self, *, fresh: bool) -> None:
        """Make the folders and Dagster's settings; with `fresh`, remove what an earlier run left.

        Only a folder that carries our mark is ever removed.
        """
        mark = self.home / _MARK
        if self.home.exists() and any(self.home.iterdir()):
            if not mark.is_file():
                raise ConfigError(f"{self.home} holds something else: name an empty or a new folder")
            if fresh:
                # Not the folder itself, which may be a mount; the mark stays, for whoever is stopped here.
                for part in self.home.iterdir():
                    if part.is_dir() and not part.is_symlink():
                        shutil.rmtree(part)
                    elif part != mark:
                        part.unlink()
        for folder in (self.dagster_home, self.home / "lake", self.home / "dbt"):
            folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
        shutil.copyfile(TEMPLATE / "deploy" / "dagster.yaml", self.dagster_home / "dagster.yaml")

    def exports(self) -> str:
        """The environment as lines for a shell."""
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in sorted(self.variables().items())]
        # Where the program lies: `sls-lake` is there for whoever takes these lines.
        programs = shlex.quote(str(Path(sys.executable).parent))
        return "".join([*lines, f'export PATH={programs}:"$PATH"\n'])

    def write_opener(self, path: Path, port: int) -> None:
        """A script that shows the sandbox's runs in Dagster's page."""
        root, python = project_root(), sys.executable
        path.write_text(
            f"#!/bin/sh\n# Shows this folder in Dagster's page on http://127.0.0.1:{port}; Ctrl-C ends it.\n"
            f"{self.exports()}cd {shlex.quote(str(root))} || exit 1\n"
            f"exec {shlex.quote(python)} -m dagster_webserver -h 127.0.0.1 -p {port} -w workspace.yaml\n"
        )
        path.chmod(0o755)


def at(name: str, port: int = 0) -> Sandbox:
    """The sandbox var/NAME of the project."""
    return Sandbox(project_root() / "var" / name, port)


@contextmanager
def started(
    command: Sequence[str], log: Path, added: Mapping[str, str] = MappingProxyType({}), *, gently: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """A child that writes into `log`, ended with the block.

    It leads a session of its own: the terminal's Ctrl-C does not reach it, so that children end in
    our order, and what it started can be ended with it. `added` goes to its environment. What is not ended
    `gently` is killed: it has nothing to put in order. It ends in the same way when we are killed ourselves.
    """
    number = signal.SIGINT if gently else signal.SIGKILL
    become = [sys.executable, "-I", follower.__file__, str(int(number)), str(os.getpid())]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*become, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=project_root(),
            env={**os.environ, **added},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        stop(process, gently=gently)


def stop(process: subprocess.Popen[bytes], *, gently: bool = True) -> None:
    """End one of our own children, as Ctrl-C would, then what is left of its session.

    Dagster's runs are grandchildren: ending the child alone would leave them at work, on a table that the
    next `dev --fresh` removes. So the whole group is killed, also where the child ended by itself before.
    """
    if gently and process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
