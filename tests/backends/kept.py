"""A server as a process of its own that ends with whoever started it.

It is one of the programs beside this file. Its first line of output says in JSON what a caller must
know; from then on each line of input is a command in JSON and is answered with a line. The end of its
input is the end of the program, so nothing stays behind when a test run is killed.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

_ROOT = Path(__file__).parents[2]
_END_TIMEOUT_S = 20
_TRIES = 5


class Kept:
    """The program `module`, started; `said` is its first line."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            text=True,
        )
        self.said = self._answer()

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command; its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """End it, and wait until it is gone."""
        end(self._process)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait(_END_TIMEOUT_S)}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def started(
    name: str, command: Callable[[int], Sequence[str]], *, ready: str, **options: Any
) -> tuple[subprocess.Popen[str], int]:
    """A server of the machine's own and its port, once it has said `ready`. It cannot be told to take any
    free one, so one that was free is tried."""
    said = ""
    for _ in range(_TRIES):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        server: subprocess.Popen[str] = subprocess.Popen(
            list(command(port)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        assert server.stderr is not None
        said = ""
        for line in server.stderr:
            said += line
            if ready in line:
                threading.Thread(target=_drain, args=(server.stderr,), daemon=True).start()
                return server, port
        server.wait()
    raise RuntimeError(f"{name} does not start: {said}")


def _drain(stream: IO[str]) -> None:
    for _ in stream:
        pass


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that ends with its input, and wait until it is gone."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """No thread of these processes runs. A signal is only sent when `kill` returns: on a busy machine a
    server of many threads answers for a while after it was told to stop."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        while any(state not in "TZ" for pid in pids for state in _states(pid)):
            os.sched_yield()
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _states(pid: int) -> Iterator[str]:
    """The state of each thread, as `proc_pid_stat(5)` has it: behind the name, which may hold brackets."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            yield stat.read_text().rpartition(")")[2].split()[0]


def serve(said: Mapping[str, Any], answer: Callable[[dict[str, Any]], object] = lambda command: None) -> None:
    """The program's side: say `said`, then answer each command until the input ends."""
    _tell(said)
    for line in sys.stdin:
        _tell({"answer": answer(json.loads(line))})


def _tell(words: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()
