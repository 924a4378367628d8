"""What processes cost, sampled from /proc: CPU by kind, at moments of the wall clock, and memory.

A parent's account is not enough. A Python worker of Spark is reaped by Spark's daemon, so its time never
shows in the account of who started it all. So each process is looked at while it lives, and who loses its
parent goes on to count. What a process spends after the last look at it is not seen.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sls_io.values.clock import SYSTEM_CLOCK

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SAMPLE_S, MEMORY_EVERY = 0.02, 10
"""Seconds between two looks; memory is asked for at one look of so many."""
ENDING_S, LONGEST_S = 60.0, 1800.0
_SHELLS = ("bash", "sh", "spark-submit", "spark-class")


@dataclass(frozen=True)
class Spent:
    """What a command cost, with all that it started.

    cpu_s       kind of process (`command`, `Java`, `Python`, `shell`) -> CPU seconds
    wall_s      until the command itself ended
    peak_bytes  most memory of all together at a time, shared pages counted once
    said        its standard output
    """

    cpu_s: Mapping[str, float]
    wall_s: float
    peak_bytes: int
    said: str = field(repr=False)

    @property
    def all_cpu_s(self) -> float:
        """CPU seconds of all."""
        return sum(self.cpu_s.values())


class Watch:
    """Processes that descend from `oldest`, itself included, without `but`. Looking costs this process some
    milliseconds of CPU, so who counts itself looks seldom: `every_s`."""

    def __init__(self, oldest: int, *, but: Sequence[int] = (), every_s: float = SAMPLE_S) -> None:
        self._but, self._mine, self._every_s = set(but), {oldest}, every_s
        self._ended = threading.Event()
        self._parents: dict[int, int] = {}
        self._kinds: dict[int, str] = {}
        self._spent_s: dict[int, float] = {}
        self._samples: list[tuple[float, dict[int, float]]] = []
        self.alive = 0
        self.peak_bytes = 0

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Look beside the block, again and again."""
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _work(self) -> None:
        while not self._ended.is_set():
            self.look()
            self._ended.wait(self._every_s)

    def look(self) -> None:
        """One sample: CPU of each that lives, now and then memory, too."""
        found: dict[int, tuple[str, float]] = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    head, _, tail = file.read().rpartition(")")
            except OSError:  # it ended between the listing and the look
                continue
            fields = tail.split()
            if fields[0] != "Z" and int(entry) not in self._but:
                self._parents.setdefault(int(entry), int(fields[1]))
                spent_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
                found[int(entry)] = head.partition("(")[2], spent_s
        self._mine = self._grown(self._mine)
        alive = self._mine & found.keys()
        for pid in alive:
            name, self._spent_s[pid] = found[pid]
            self._kinds[pid] = name  # the last one counts: a fork has its parent's until it is its own
        if len(self._samples) % MEMORY_EVERY == 0:
            self.peak_bytes = max(self.peak_bytes, sum(map(_memory_bytes, alive)))
        self._samples.append((SYSTEM_CLOCK.now(), dict(self._spent_s)))
        self.alive = len(alive)

    def _grown(self, mine: set[int]) -> set[int]:
        while more := {pid for pid, parent in self._parents.items() if parent in mine and pid not in mine}:
            mine = mine | more
        return mine

    def cpu_s(self) -> float:
        """CPU seconds of all, now."""
        self.look()
        return sum(self._spent_s.values())

    def family(self, oldest: int) -> set[int]:
        """A process and all that it started."""
        return self._grown({oldest})

    def by_kind(self, command: int) -> dict[str, float]:
        """Kind of process -> CPU seconds so far; `command` is the process that a person started."""
        total: dict[str, float] = {}
        for pid, spent_s in self._spent_s.items():
            name = self._kinds[pid]
            kind = "shell" if name in _SHELLS else "Java" if "java" in name else "Python"
            kind = "command" if pid == command else kind
            total[kind] = total.get(kind, 0.0) + spent_s
        return total

    def between(self, begin_s: float, end_s: float, family: set[int]) -> float:
        """CPU seconds of these processes from one moment to another."""
        first, last = self._at(begin_s), self._at(end_s)
        return sum(spent_s - first.get(pid, 0.0) for pid, spent_s in last.items() if pid in family)

    def _at(self, moment_s: float) -> dict[int, float]:
        """The newest sample that is not younger."""
        return self._samples[max(0, sum(at_s <= moment_s for at_s, _ in self._samples) - 1)][1]


def _memory_bytes(pid: int) -> int:
    """Memory of a process, its part of what it shares with others; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def measured(command: Sequence[str], **variables: str) -> Spent:
    """Run a command to its end, and see the end of all that it started. SystemExit when it fails."""
    begun_s = SYSTEM_CLOCK.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(process.communicate()[0]))
    reader.start()
    watch, wall_s = Watch(process.pid), 0.0
    while SYSTEM_CLOCK.monotonic() - begun_s < LONGEST_S:
        watch.look()
        if not reader.is_alive() and not wall_s:
            wall_s = SYSTEM_CLOCK.monotonic() - begun_s
        if wall_s and (not watch.alive or SYSTEM_CLOCK.monotonic() - begun_s - wall_s > ENDING_S):
            break
        SYSTEM_CLOCK.sleep(SAMPLE_S)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {''.join(said)[-500:]}")
    return Spent(watch.by_kind(process.pid), wall_s, watch.peak_bytes, "".join(said))


def program(name: str) -> str:
    """A program of this virtual environment."""
    return str(Path(sys.executable).with_name(name))
