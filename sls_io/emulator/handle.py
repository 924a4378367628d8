"""Starts an emulator as a process of its own and drives it: the Python face of the admin path.

Each verb has a connection of its own, since a test may kill the emulator between two of them.
`Emulator.kill` loses nothing that was acknowledged to a data folder; that is what it is for.
"""

import http.client
import json
import os
import runpy
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast
from urllib.parse import urlencode

from sls_io.emulator.limits import Limits
from sls_io.values.errors import ConfigError, ServiceError

_READY_TIMEOUT_S = 60.0
_ADMIN_TIMEOUT_S = 120.0
_READY = "sls-lake emulator ready on "


class Admin:
    """The admin path's verbs. Each opens a connection of its own, so threads may share it."""

    def __init__(self, port: int) -> None:
        self._port = port

    def now(self) -> float:
        """The emulator's clock, unix seconds."""
        return float(self._ask("GET", "/clock")["now"])

    def set_clock(self, now: float) -> float:
        """Make it `now`; returns the time it is."""
        return float(self._ask("POST", "/clock", {"now": now})["now"])

    def advance(self, duration_s: float) -> float:
        """Move the clock on; returns the time it is."""
        return float(self._ask("POST", "/clock", {"advance": duration_s})["now"])

    def freeze(self, frozen: bool = True) -> float:
        """Stop the clock, or let it run on; returns the time it is."""
        return float(self._ask("POST", "/clock", {"freeze": frozen})["now"])

    def fault(self, do: str, **wanted: Any) -> int:
        """Ask for a fault (see `faults.Wanted`); returns its id. `times=None` keeps it in force."""
        return int(self._ask("POST", "/faults", {"do": do, **wanted})["id"])

    def faults(self) -> list[dict[str, Any]]:
        """All faults with their hits and what they have seen."""
        return cast("list[dict[str, Any]]", self._ask("GET", "/faults"))

    def remove(self, fault: int | None = None) -> None:
        """Take one fault out of force, or all; what it held goes on."""
        self._ask("DELETE", "/faults" if fault is None else f"/faults/{fault}")

    def release(self, fault: int) -> None:
        """Let the requests that a hold fault stopped go on."""
        self._ask("POST", f"/faults/{fault}/release", {})

    def wait(self, fault: int, hits: int = 1, timeout_s: float = 60.0) -> dict[str, Any]:
        """Return once the fault has acted `hits` times. ServiceError `Timeout` when it has not."""
        query = urlencode({"hits": hits, "timeout_s": timeout_s})
        return cast("dict[str, Any]", self._ask("GET", f"/faults/{fault}/wait?{query}"))

    def retain(
        self, project: str, logstore: str, *, shard: int | None = None, before_s: int | None = None,
        before_cursor: int | None = None, drop: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Do what retention does: remove groups before a time or cursor, or whole (readonly) shards."""
        body = {"project": project, "logstore": logstore, "shard": shard, "before_s": before_s,
                "before_cursor": before_cursor, "drop": drop}  # fmt: skip
        return cast("dict[str, Any]", self._ask("POST", "/retain", body))

    def split(
        self, project: str, logstore: str, shard: int, *, key: str = "", count: int = 2
    ) -> list[dict[str, Any]]:
        """Split a shard; parent first, then the children."""
        body = {"project": project, "logstore": logstore, "shard": shard, "key": key, "count": count}
        return cast("list[dict[str, Any]]", self._ask("POST", "/split", body))

    def merge(self, project: str, logstore: str, shard: int) -> list[dict[str, Any]]:
        """Merge a shard with its right neighbour; the new one first."""
        body = {"project": project, "logstore": logstore, "shard": shard}
        return cast("list[dict[str, Any]]", self._ask("POST", "/merge", body))

    def jump(self, project: str, logstore: str, shard: int, step: int) -> None:
        """Widen the distance to the next cursor, as a change of machine does in the real service."""
        self._ask("POST", "/jump", {"project": project, "logstore": logstore, "shard": shard, "step": step})

    def forget_members(self, project: str, logstore: str) -> None:
        """Let go every claim on the logstore's shards, in all groups, as their timeouts would."""
        self._ask("POST", "/forget_members", {"project": project, "logstore": logstore})

    def assignor(self, project: str, logstore: str, group: str, assignor: str) -> None:
        """Let a group share its shards by `range`, `round_robin`, `sticky` or `weighted`, every shard
        weighing the same; "" is the service's own way again."""
        names = {"project": project, "logstore": logstore, "group": group}
        self._ask("POST", "/assignor", {**names, "assignor": assignor})

    def disable(self, project: str, disabled: bool = True) -> None:
        """Disable a project, as the service does with one whose account is overdue: all calls but GetProject
        are 403 ProjectForbidden. Or take that back."""
        self._ask("POST", "/project", {"project": project, "status": "Disable" if disabled else "Normal"})

    def limits(self, **changed: Any) -> dict[str, Any]:
        """Change limits by name (see `Limits`); returns all of them."""
        return cast("dict[str, Any]", self._ask("POST", "/limits", changed))

    def add_key(
        self, access_id: str, secret: str, *, token: str = "", lasts_s: float | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Let another key pair sign; with a token it is temporary, as from STS. With a RAM `policy`, a
        document of {Version, Statement}, it may do what that allows; a pair that is there is replaced."""
        key = {"id": access_id, "secret": secret, "token": token, "lasts_s": lasts_s, "policy": policy}
        self._ask("POST", "/keys", key)

    def state(self) -> dict[str, Any]:
        """Projects, logstores, shards, groups, members and checkpoints (cursors as integers)."""
        return cast("dict[str, Any]", self._ask("GET", "/state"))

    def dump(self, project: str, logstore: str) -> Iterator[dict[str, Any]]:
        """Each stored LogGroup: shard, cursor, time (receive second), raw (base64), as a stream."""
        connection, reply = self._send(
            "GET", "/dump?" + urlencode({"project": project, "logstore": logstore})
        )
        try:
            for line in reply:
                yield json.loads(line)
        finally:
            connection.close()

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        connection, reply = self._send(method, path, body)
        try:
            return json.loads(reply.read())
        finally:
            connection.close()

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ADMIN_TIMEOUT_S)
        content = None if body is None else json.dumps(body)
        connection.request(
            method, "/_admin" + path, content, {"Content-Type": "application/json"} if content else {}
        )
        reply = connection.getresponse()
        if reply.status != 200:
            error = json.loads(reply.read() or b"{}")
            connection.close()
            raise ServiceError(error.get("errorCode", ""), error.get("errorMessage", ""), status=reply.status)
        return connection, reply


class Emulator:
    """A running emulator. As a context manager it is stopped at the end."""

    def __init__(self, process: "subprocess.Popen[str] | Forked", port: int) -> None:
        self._process = process
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}"
        self.pid = process.pid
        self.admin = Admin(port)

    @property
    def exit_status(self) -> int | None:
        """How the process ended, negative for a signal; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait until it is gone; SIGKILL after ten seconds."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _close(self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    data: Path | None = None, *, port: int = 0, now: float | None = None,
    key_pair: tuple[str, str] | None = None, limits: Limits | None = None,
) -> Emulator:  # fmt: skip
    """Run an emulator as its own process and wait until it is ready.

    `key_pair` (id, secret) replaces the one of the environment. It ends with this process.
    Raises ConfigError with the emulator's own sentence when it does not come up.

    It ends with this process, whichever way that ends: it reads an input that nobody writes to, and that
    closes with us.
    """
    command = ["--port", str(port), "--with-stdin"]
    command += ["--data", str(data)] if data is not None else []
    command += ["--now", repr(now)] if now is not None else []
    command += ["--limits", limits.model_dump_json(exclude_defaults=True)] if limits is not None else []
    environment = dict(os.environ)
    if key_pair is not None:
        environment["ALIBABA_CLOUD_ACCESS_KEY_ID"], environment["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = key_pair
        environment.pop("ALIBABA_CLOUD_SECURITY_TOKEN", None)
    process = _forked(command, environment) if _prepared else _spawned(command, environment)
    line = _ready_line(process)
    if not line.startswith(_READY):
        process.kill()
        process.wait()
        _close(process)
        raise ConfigError(
            f"the emulator did not start (exit status {process.returncode}); its own words are on stderr"
        )
    return Emulator(process, int(line.rstrip().rpartition(":")[2]))


def _close(process: "subprocess.Popen[str] | Forked") -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _spawned(arguments: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sls_io.emulator", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,
    )


@contextmanager
def prepared() -> Iterator[None]:
    """Inside, `start` forks a process that has loaded the emulator: milliseconds, not half a second.

    It is Python's own fork server, which begins with the first of them. So a program of yours that starts
    them does that behind `if __name__ == "__main__":`, as with all of multiprocessing.
    """
    _prepared.append(True)
    try:
        yield
    finally:
        _prepared.pop()


class Forked:
    """What `Popen` is for a process of our own: one that the fork server has forked and waits for."""

    stdin = None

    def __init__(self, process: BaseProcess, stdout: IO[str]) -> None:
        self._process, self.stdout, self.pid = process, stdout, process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, as soon as there is one. TimeoutExpired when that takes longer."""
        self._process.join(timeout)
        status = self.returncode
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Nothing is sent to one that has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may end between the two
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _forked(arguments: list[str], environment: Mapping[str, str]) -> Forked:
    """An emulator with these arguments and variables, in this process's working directory."""
    context = get_context("forkserver")
    # A `pytest` by its path is loaded anew in each process, unless the server has it.
    context.set_forkserver_preload(["sls_io.emulator.program", "pytest"])
    stdout, theirs = os.pipe()
    # These close what is ours of them; our standard error may be another one each time.
    with Connection(theirs, readable=False) as output, Connection(os.dup(2), readable=False) as errors:
        given = arguments, dict(environment), os.getcwd(), output, errors
        process = context.Process(target=_be, args=given, daemon=True)
        process.start()
    return Forked(process, os.fdopen(stdout))


def _be(
    arguments: list[str], environment: Mapping[str, str], folder: str, output: Connection, errors: Connection
) -> None:
    """Become an emulator of its own: session, files, variables, folder. Its input ends with our parent."""
    os.setsid()
    asker = parent_process()
    for place, file in enumerate((asker.sentinel if asker else -1, output.fileno(), errors.fileno())):
        os.dup2(file, place)
    output.close()
    errors.close()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[1:] = arguments
    runpy.run_module("sls_io.emulator", run_name="__main__")


_prepared: list[bool] = []


def _ready_line(process: "subprocess.Popen[str] | Forked") -> str:
    output = process.stdout
    if output is None:
        return ""
    # select() refuses descriptors from 1024 on, and whoever embeds this may have more.
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        return output.readline() if selector.select(_READY_TIMEOUT_S) else ""
