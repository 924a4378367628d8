"""Forks the processes, ends and pauses them, shakes the service, and reads what all of them tell.

One thread, one loop: it sleeps in `select` until somebody tells something or the next act is due. The
conductor never opens the catalog while it forks, and has no thread then, so a forked worker is as good
as a fresh one and costs some 30 ms instead of seconds of imports.
"""

import contextlib
import gc
import heapq
import itertools
import os
import random
import selectors
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos import weather
from chaos.account import ABSENT, LANDED, LATE, Account
from chaos.producer import COLUMNS, Producing, produce
from chaos.proof import files_of, prove, shards_of, truth_of
from chaos.watch import Watching, arrive, audit, waiting, watch
from chaos.worker import POINTS, Fate, Task, fork, work
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import Lake
from pipelines.landing.verify import verify
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK
from sls_io.emulator import Emulator
from sls_io.errors import ServiceError
from sls_io.settings import Service

PROJECT, LOGSTORE, TABLE = "chaos", "numbered", "bronze.numbered"
DRAIN_LANDINGS_MAX = 80
"""Liveness: with the faults off, so many landings must be enough (a chain of splits takes one each)."""
_DRAIN_S = 300.0
_SHARDS_LIVE_MAX = 8
_WAKE_AGAIN_S = 2.0
_BURST_S = 1.0
_RESOLVED = {
    "landed": "found in the table",
    "read_ledger": "planned again",
    "claim": "planned again, claim first",
    "publish": "sent again with the same files",
}


@dataclass(frozen=True)
class Wish:
    """What to do. `kills_per_s` are strikes at random moments; what single workers do to themselves comes
    on top. `spark` gives every worker a Spark of its own."""

    seconds: float
    seed: int
    folder: Path
    commit: str
    workers: int = 5
    rows_per_s: float = 4000.0
    kills_per_s: float = 2.5
    fated: float = 0.8
    lossy: float = 0.3
    spark: bool = False


@dataclass
class Child:
    """A process and what it told last. `slot` is the place it is replaced in; none for the others."""

    pid: int
    slot: int | None
    text: bytes = b""
    last: str = "fork"
    stopped: bool = False
    jvm: int = 0
    jvm_killed: bool = False
    unknown: str = ""
    reloaded: bool = False


@dataclass
class Conductor:
    """One run of chaos against `emulator`."""

    wish: Wish
    emulator: Emulator
    lake: Lake
    account: Account
    children: dict[int, Child] = field(default_factory=dict)  # by the reading end of its pipe
    fills: set[int] = field(default_factory=set)
    acked: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.wish.seed)
        self.seeds = itertools.count(self.wish.seed * 1_000_000)
        self.spool = self.wish.folder / "spool"
        self.spool.mkdir(parents=True)
        self.selector = selectors.DefaultSelector()
        self.due: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.busy = True

    # --- the run ---------------------------------------------------------------------------------

    def run(self) -> Account:
        """Chaos for `seconds`, then a quiet end, then the proof."""
        began_s = SYSTEM_CLOCK.monotonic()
        with SlsClient(self._service()) as client:
            client.transport.create_project(PROJECT, "")
            client.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=3)
            # Somebody made the second group without order: children are granted at once, and only our
            # own plan and fence hold them back.
            group = self._task("nobody", group="lake-b").logstore.group
            client.create_group(group.model_copy(update={"order": False}))
        weather.begin(self.emulator.admin, self.wish.seed)
        self._start(None, self._producer, "producer")
        self._start(None, self._watch, "watch")
        for slot in range(self.wish.workers):
            self._respawn(slot)
        for every_s, act in (
            (1 / self.wish.kills_per_s, self._strike),
            (2.0, self._burst),
            (4.0, self._reshape),
            (10.0, self._jump),
        ):
            self._again(every_s, act)
        self._loop(began_s + self.wish.seconds)
        self.busy = False
        self._still()
        self.account.seconds = SYSTEM_CLOCK.monotonic() - began_s
        self._drain()
        self._prove()
        return self.account

    def _still(self) -> None:
        """Faults off; everybody is killed, those who are stopped too."""
        self.due.clear()
        self.account.faults = weather.end(self.emulator.admin)
        for child in list(self.children.values()):
            if child.slot is None:
                os.kill(child.pid, signal.SIGKILL)
            else:
                self._kill(child)
        self._loop(SYSTEM_CLOCK.monotonic() + 30, until_empty=True)

    def _drain(self) -> None:
        """Half of what is still on its way arrives, a last worker lands the rest, then all of it arrives."""
        began_s = SYSTEM_CLOCK.monotonic()
        self.emulator.admin.advance(3600)
        late = waiting(self.spool)
        self._deliver(late[: len(late) // 2])
        before = self.account.told["landed"]
        task = replace(self._task("drain"), landings_max=DRAIN_LANDINGS_MAX)
        self._start(None, lambda fd: work(task, fd), "drain")
        child = next(iter(self.children.values()))
        self._loop(began_s + _DRAIN_S, until_empty=True)
        self.account.drain_landings = self.account.told["landed"] - before
        self.account.drain_seconds = SYSTEM_CLOCK.monotonic() - began_s
        if self.children:
            os.kill(child.pid, signal.SIGKILL)
            self._loop(SYSTEM_CLOCK.monotonic() + 10, until_empty=True)
            self.account.problems.append(f"not drained after {_DRAIN_S:.0f} s")
        elif child.last != "drained":
            self.account.problems.append(f"not drained after {self.account.drain_landings} landings")
        self._deliver(waiting(self.spool))

    def _deliver(self, requests: list[Path]) -> None:
        def act(fd: int) -> None:
            for request in requests:
                arrive(self.lake, request, fd)

        self._start(None, act, "late")
        self._loop(SYSTEM_CLOCK.monotonic() + 60, until_empty=True)

    def _prove(self) -> None:
        """Count, and ask the product's own proof too."""
        gc.unfreeze()  # nothing is forked any more
        account, admin = self.account, self.emulator.admin
        table = self.lake.load(TABLE)
        if table is None:
            account.problems.append("there is no table")
            return
        listed = next(x for x in admin.state()["logstores"] if x["logstore"] == LOGSTORE)
        checkpoints = {
            (group["name"], int(slot["shard"])): int(slot["checkpoint"])
            for group in listed["groups"]
            for slot in group["shards"]
            if slot["checkpoint"] is not None
        }
        account.problems += audit(table, {}, checkpoints)[1]
        account.found = prove(
            files_of(table, self.fills), shards_of(listed["shards"]), truth_of(admin.dump(PROJECT, LOGSTORE))
        )
        account.acked_rows = sum(self.acked.values())
        if account.found.stored < account.acked_rows:
            account.problems.append(f"the service lost rows: {account.acked_rows} acknowledged")
        with SlsClient(self._service()) as client:
            own = verify(self._task("proof").logstore, self.lake, client)
        if not own.ok:
            account.problems.append(f"the product's own verify disagrees: {own}"[:500])

    # --- processes -------------------------------------------------------------------------------

    def _service(self) -> Service:
        return Service(
            endpoint=self.emulator.endpoint,
            project=PROJECT,
            logstore=LOGSTORE,
            tries_max=3,
            read_timeout_s=3.0,
        )

    def _task(self, holder: str, *, group: str = "lake-a") -> Task:
        logstore = Logstore.model_validate(
            {
                "service": self._service(),
                "group": {
                    "name": group,
                    "holder": holder,
                    "timeout_s": 3,
                    "heartbeat_s": 1.0,
                    "heartbeat_deadline_s": 0.8,
                    "patience_s": 2.0,
                },
                "table": TABLE,
                "start": "2026-01-01-00:00",
                "columns": COLUMNS,
                "splits_per_hour": 2,
                "budget": {"settle_s": 0, "seconds_max": 10, "page_groups_max": 20, "windows_max": 60},
            }
        )
        return Task(logstore, self.lake, self.spool, next(self.seeds), spark=self.wish.spark)

    def _respawn(self, slot: int) -> None:
        """A worker for `slot`: two holders of one group, a second deployment with a group of its own, a
        twin under the name of the first (as in a blue-green change), and one that mostly backfills."""
        holder, group, fill = (
            ("w0", "lake-a", 0.0),
            ("w1", "lake-a", 0.0),
            ("w2", "lake-b", 0.0),
            ("w0", "lake-a", 0.1),
            ("w4", "lake-b", 0.7),
        )[slot * (2 if self.wish.spark else 1) % 5]
        fate = Fate()
        if self.dice.random() < self.wish.fated:
            act = "kill" if self.dice.random() < 0.8 else "stop"
            fate = Fate(act, self.dice.choice(POINTS), self.dice.randint(1, 3))
        task = replace(self._task(holder, group=group), fate=fate, lossy=self.wish.lossy, fill=fill)
        self._start(slot, lambda fd: work(task, fd), f"worker-{slot}")

    def _producer(self, fd: int) -> None:
        produce(Producing(self._service(), next(self.seeds), self.wish.rows_per_s), fd)

    def _watch(self, fd: int) -> None:
        task = self._task("watch")
        watch(Watching(task.logstore, self.lake, self.spool, self.emulator.port, task.seed), fd)

    def _start(self, slot: int | None, act: Callable[[int], None], name: str) -> None:
        pid, reading = fork(act, self.wish.folder / f"{name}.log")
        self.children[reading] = Child(pid, slot)
        self.selector.register(reading, selectors.EVENT_READ)

    # --- the loop --------------------------------------------------------------------------------

    def _loop(self, until_s: float, *, until_empty: bool = False) -> None:
        """Hear and act until then, or until the last process is gone."""
        while (now := SYSTEM_CLOCK.monotonic()) < until_s and not (until_empty and not self.children):
            while self.due and self.due[0][0] <= now:
                heapq.heappop(self.due)[2]()
            next_s = min(until_s, self.due[0][0]) if self.due else until_s
            for key, _ in self.selector.select(max(0.0, next_s - SYSTEM_CLOCK.monotonic())):
                self._hear(key.fd)

    def _later(self, in_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.due, (SYSTEM_CLOCK.monotonic() + in_s, next(self.order), act))

    def _again(self, every_s: float, act: Callable[[], None]) -> None:
        def once() -> None:
            act()
            self._again(every_s, act)

        self._later(every_s * self.dice.uniform(0.1, 1.9), once)

    def _hear(self, fd: int) -> None:
        child = self.children[fd]
        read = os.read(fd, 1 << 16)
        *lines, child.text = (child.text + read).split(b"\n")
        for line in lines:
            self._told(child, line.decode())
        if not read:
            self._gone(fd, child)

    def _gone(self, fd: int, child: Child) -> None:
        self.selector.unregister(fd)
        os.close(fd)
        del self.children[fd]
        _, status = os.waitpid(child.pid, 0)
        if child.unknown:
            self.account.unknown[child.unknown, "left to the next run by a kill"] += 1
        if child.slot is None:
            return
        if os.WIFSIGNALED(status):
            self.account.kills[child.last] += 1
        elif self.busy and not child.jvm_killed:
            self.account.problems.append(f"a worker ended by itself after {child.last!r}")
        if self.busy:
            self._respawn(child.slot)

    def _told(self, child: Child, line: str) -> None:
        word, _, rest = line.partition(" ")
        told = self.account.told
        told[word] += 1
        if word == "stopping":
            self._stopped(child)
            return
        if word == "put":
            k, q = rest.split()
            self.acked[int(k)] = int(q)
        elif word == "fill":
            self.fills.add(int(rest))
        elif word == "landed":
            rows, replans = map(int, rest.split())
            told["landed with rows"] += rows > 0
            told["planned again"] += replans > 0
        elif word == "commit":
            what = rest.split()[0]
            told[f"commit {what}"] += 1
            if what in (LANDED, ABSENT, LATE):
                child.unknown, child.reloaded = what, False
        elif word == "jvm":
            child.jvm = int(rest)
        elif word in ("breach", "bug"):
            self.account.problems.append(line)
        elif word == "failed":
            self.account.failed[rest] += 1
        self._resolve(child, word)
        child.last = word

    def _resolve(self, child: Child, word: str) -> None:
        """After a commit whose answer said nothing: what the run concluded from the reloaded table."""
        if not child.unknown or word == "claim.lost":  # that one comes from another thread
            return
        if word == "reload.done":
            child.reloaded = True
        elif child.reloaded or word == "failed":
            then = _RESOLVED.get(word, f"ended the run ({word})")
            self.account.unknown[child.unknown, then] += 1
            child.unknown, child.reloaded = "", False

    # --- acts ------------------------------------------------------------------------------------

    def _kill(self, child: Child) -> None:
        os.kill(child.pid, signal.SIGKILL)

    def _kill_jvm(self, child: Child) -> None:
        """Once: what has that pid afterwards is not ours."""
        jvm, child.jvm, child.jvm_killed = child.jvm, 0, True
        with contextlib.suppress(ProcessLookupError):
            os.kill(jvm, signal.SIGKILL)

    def _strike(self) -> None:
        """Kill or stop a worker wherever it is; one that is stopped may be killed before it wakes."""
        awake = [c for c in self.children.values() if c.slot is not None and c.last != "fork"]
        if not awake:
            return
        child = self.dice.choice(awake)
        if child.jvm and self.dice.random() < 0.2:
            self.account.kills["its JVM alone"] += 1
            self._kill_jvm(child)
        elif self.dice.random() < 0.75:
            self._kill(child)
        elif not child.stopped:
            os.kill(child.pid, signal.SIGSTOP)
            self._stopped(child)

    def _stopped(self, child: Child) -> None:
        child.stopped = True
        self.account.stops[child.last] += 1
        longer_than_the_claim = self.dice.random() < 0.3
        for_s = self.dice.uniform(3.5, 5.0) if longer_than_the_claim else self.dice.uniform(0.05, 1.0)

        def wake() -> None:
            if child in self.children.values():  # by then it may be gone, and the pid somebody else's
                child.stopped = False
                os.kill(child.pid, signal.SIGCONT)

        self._later(for_s, wake)
        # A worker that stops itself tells so first, and may be slower than the first SIGCONT.
        self._later(for_s + _WAKE_AGAIN_S, wake)

    def _burst(self) -> None:
        fault = weather.burst(self.emulator.admin, self.dice)
        self.account.bursts += 1
        # Else those that nobody met would add up to a service that never answers.
        self._later(_BURST_S, lambda: self.emulator.admin.remove(fault))

    def _jump(self) -> None:
        """The service's clock moves on by most of an hour: all claims are over, a receive hour ends."""
        self.emulator.admin.advance(self.dice.uniform(600, 3000))
        self.account.jumps += 1

    def _reshape(self) -> None:
        """Split or merge a shard that is written to."""
        admin = self.emulator.admin
        shards = next(x for x in admin.state()["logstores"] if x["logstore"] == LOGSTORE)["shards"]
        live = [s for s in shards if s["status"] == "readwrite"]
        shard = self.dice.choice(live)["shardID"]
        try:
            if len(live) < 2 or (len(live) < _SHARDS_LIVE_MAX and self.dice.random() < 0.5):
                admin.split(PROJECT, LOGSTORE, shard, count=self.dice.choice((2, 2, 3)))
                self.account.splits += 1
            else:
                admin.merge(PROJECT, LOGSTORE, shard)
                self.account.merges += 1
        except ServiceError:
            return  # the last in the key range has no right neighbour
