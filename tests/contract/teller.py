"""A consumer in a process of its own that tells on stdout what it was given.

The program, in whatever language, prints `log SHARD KEY NUMBER` for each log, leaves gracefully when
its standard input closes, and then prints `left`.
"""

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

DEADLINE_S = 60.0


class Teller:
    """The running program; `seen` fills as it tells. Tellers that share `changed` wait together."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        changed: threading.Condition | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
        )
        self.seen: list[tuple[int, str, int]] = []
        self.words: list[str] = []
        self.changed = changed or threading.Condition()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        output = self._process.stdout
        assert output is not None
        for line in output:
            word, *rest = line.decode().split() or [""]
            with self.changed:
                if word == "log":
                    self.seen.append((int(rest[0]), rest[1], int(rest[2])))
                self.words.append(word)
                self.changed.notify_all()

    def numbers(self) -> set[int]:
        """The numbers it was given so far."""
        return {n for _, _, n in self.seen}

    def wait(self, ready: Callable[[], bool]) -> None:
        """Until `ready()`; it is asked whenever one of those who share `changed` said something."""
        with self.changed:
            assert self.changed.wait_for(ready, DEADLINE_S), (
                f"saw {len(self.seen)} logs, said {self.words[-3:]}"
            )

    def leave(self) -> None:
        """Ask it to go, and wait until it has gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.wait(lambda: "left" in self.words)

    def kill(self) -> None:
        """SIGKILL; nothing if it has gone already."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
