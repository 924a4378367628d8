"""Starts an emulator as a process of its own and drives it: the Python face of the admin path."""

import http.client
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlencode

from sls_io.emulator.limits import Limits
from sls_io.errors import ConfigError, ServiceError

_READY_TIMEOUT_S = 60.0
_ADMIN_TIMEOUT_S = 60.0
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

    def wait(self, fault: int, hits: int = 1, timeout_s: float = 10.0) -> dict[str, Any]:
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

    def limits(self, **changed: Any) -> dict[str, Any]:
        """Change limits by name (see `Limits`); returns all of them."""
        return cast("dict[str, Any]", self._ask("POST", "/limits", changed))

    def add_key(self, access_id: str, secret: str, *, token: str = "", lasts_s: float | None = None) -> None:
        """Let another key pair sign; with a token it is temporary, as from STS."""
        self._ask("POST", "/keys", {"id": access_id, "secret": secret, "token": token, "lasts_s": lasts_s})

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

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
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
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

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
    """
    command = [sys.executable, "-m", "sls_io.emulator", "--port", str(port), "--with-stdin"]
    command += ["--data", str(data)] if data is not None else []
    command += ["--now", repr(now)] if now is not None else []
    command += ["--limits", limits.model_dump_json(exclude_defaults=True)] if limits is not None else []
    environment = dict(os.environ)
    if key_pair is not None:
        environment["ALIBABA_CLOUD_ACCESS_KEY_ID"], environment["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = key_pair
        environment.pop("ALIBABA_CLOUD_SECURITY_TOKEN", None)
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,
    )
    line = _ready_line(process)
    if not line.startswith(_READY):
        process.kill()
        process.wait()
        raise ConfigError(
            f"the emulator did not start (exit status {process.returncode}); its own words are on stderr"
        )
    return Emulator(process, int(line.rstrip().rpartition(":")[2]))


def _ready_line(process: subprocess.Popen[str]) -> str:
    output = process.stdout
    if output is None:
        return ""
    # select() refuses descriptors from 1024 on, and whoever embeds this may have more.
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        return output.readline() if selector.select(_READY_TIMEOUT_S) else ""
