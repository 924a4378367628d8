"""A server as a process of its own that ends with whoever started it.

It is one of the programs beside this file. Its first line of output says in JSON what a caller must
know; from then on each line of input is a command in JSON and is answered with a line. The end of its
input is the end of the program, so nothing stays behind when a test run is killed.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_END_TIMEOUT_S = 20


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


def serve(said: Mapping[str, Any], answer: Callable[[dict[str, Any]], object] = lambda command: None) -> None:
    """The program's side: say `said`, then answer each command until the input ends."""
    _tell(said)
    for line in sys.stdin:
        _tell({"answer": answer(json.loads(line))})


def _tell(words: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()
