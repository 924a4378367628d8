"""A client program as a process: commands in, one JSON object a line out.

The programs of all languages take the same flags. `consume` needs no commands. `talk` obeys these, one a
line, with the vendor's client, and answers each with `done`, or `error` with status, code and message:

    project NAME                       create it
    store NAME SHARDS                  create a logstore
    put STORE PREFIX COUNT COMPRESSION COUNT logs for each of eight keys PREFIX-0 .. PREFIX-7, by hash key
    read STORE FROM COMPRESSION        tell all logs of all shards from `begin`, `end` or unix seconds on
    split STORE SHARD KEY              at that key
    merge STORE SHARD                  with its right neighbour
    delete STORE                       all its logs, softly
    group STORE GROUP                  by calls alone: make it, hold all shards as `me`, tell their logs,
                                       save each end unforced, tell `kept`: whether the service has them so
"""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

DEADLINE_S = 90.0
LEAVE_S = 40.0

changed = threading.Condition()
"""Notified whenever any program has told something."""


class Failed(Exception):
    """A client did not do what the scenario expects; the text says which and what."""


class Program:
    """`told` fills as the program tells; its log lines stand in `logs` too."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.told: list[dict[str, Any]] = []
        self.logs: list[dict[str, Any]] = []
        self._answers = 0
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
            )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def ask(self, command: str) -> None:
        """Send a command without waiting for its answer."""
        stream = self._process.stdin
        if stream is None or stream.closed:
            raise Failed(f"{self.name} has been told to leave")
        try:
            stream.write(command.encode() + b"\n")
            stream.flush()
        except OSError:
            raise Failed(f"{self.name} has ended") from None

    def answer(self) -> dict[str, Any]:
        """The answer to the oldest command that has none yet: `done` or `error` with code and status."""
        seen = self._answers
        self.wait(lambda: len(self._replies()) > seen, "an answer")
        self._answers += 1
        return self._replies()[seen]

    def do(self, command: str) -> list[dict[str, Any]]:
        """Send a command, wait, and return the logs told meanwhile. Failed when it was refused."""
        before = len(self.logs)
        self.ask(command)
        reply = self.answer()
        if reply["event"] == "error":
            raise Failed(f"{self.name}: {command}: {reply}")
        return self.logs[before:]

    def wait(self, ready: Callable[[], bool], what: str, limit_s: float = DEADLINE_S) -> None:
        """Block until it is so. Failed when it ended or the time is over."""
        with changed:
            changed.wait_for(lambda: ready() or not self.alive(), limit_s)
        if not ready():
            state = "still runs" if self.alive() else f"ended with {self._process.poll()}"
            raise Failed(f"{self.name} {state} without {what}")

    def says(self, event: str) -> bool:
        """Whether it has told this event."""
        return any(line["event"] == event for line in self.told)

    def alive(self) -> bool:
        """Whether more may be told."""
        return self._reader.is_alive()

    def leave(self, *, by_signal: bool = False) -> None:
        """Ask it to leave, by SIGTERM or by the end of its input, and wait until it has said so."""
        if by_signal:
            self._process.send_signal(signal.SIGTERM)
        elif self._process.stdin is not None:
            self._process.stdin.close()
        self.wait(lambda: self.says("left"), "saying that it left", LEAVE_S)

    def kill(self) -> None:
        """SIGKILL; what it told before is kept."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _replies(self) -> list[dict[str, Any]]:
        return [line for line in self.told if line["event"] in ("done", "error")]

    def _listen(self) -> None:
        output = self._process.stdout
        for text in output or ():
            try:
                line = json.loads(text)
            except ValueError:
                line = {"event": "noise"}
            with changed:
                (self.logs if line["event"] == "log" else self.told).append(line)
                changed.notify_all()
        with changed:
            changed.notify_all()


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment with no proxy but those named, and UTF-8 arguments for a JVM."""
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return {**kept, "LC_ALL": "C.UTF-8", **more}
