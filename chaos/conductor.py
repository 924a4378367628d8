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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos import evidence, history, house
from chaos.account import ABSENT, LANDED, LATE, Account
from chaos.house import Keeping, keep_house
from chaos.producer import COLUMNS, Producing, produce
from chaos.proof import files_of
from chaos.troubles.retention import Retaining, retain
from chaos.troubles.shaker import LOGSTORE, PROJECT, Shaker
from chaos.watch import Watching, arrive, audit, waiting, watch
from chaos.worker import POINTS, Fate, Task, fork, work
from pipelines.landing.inspection.verify import verify
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient

TABLE = "bronze.numbered"
SERVICE_FOLDER = "service"
_DRAIN_LANDINGS, _DRAIN_LANDINGS_A_MINUTE = 80, 20
_DRAIN_S, _DRAIN_S_A_MINUTE = 300.0, 15.0
"""Liveness: with the faults off, so many landings must be enough (a chain of splits takes one each), and for
each minute of the run so many: what producers sent meanwhile may all be left, and a landing takes a part."""
_WAKE_AGAIN_S = 2.0
_SPARED = 0.7
_RESOLVED = {
    "landed": "found in the table",
    "reconcile": "found in the table",
    "read_ledger": "planned again",
    "claim": "planned again, claim first",
    "publish": "sent again with the same files",
}


@dataclass(frozen=True)
class Wish:
    """What to do. `kills_per_s` are strikes at random moments; what single workers do to themselves comes
    on top. `master` and `conf` give every worker a Spark of its own.

    An act whose `_every_s` is 0 is left out. `aged_s`: how old a file must be to be taken for days old.
    `undo`: the share of the housekeeper's rounds. `run_s`: most seconds of a run, a Spark's start included.
    Without `fence` workers send no requirements.
    """

    seconds: float
    seed: int
    folder: Path
    commit: str
    workers: int = 5
    rows_per_s: float = 4000.0
    kills_per_s: float = 2.5
    fated: float = 0.8
    lossy: float = 0.3
    master: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    fence: bool = True
    restart_every_s: float = 15.0
    reshape_every_s: float = 4.0
    jump_every_s: float = 8.0
    jump_s: tuple[float, float] = (1200.0, 4200.0)
    retention_every_s: float = 8.0
    house_every_s: float = 0.7
    undo: float = 0.15
    aged_s: float = 60.0
    start: str = "2026-01-01-00:00"
    run_s: int = 10
    claim_s: int = 3


@dataclass
class Child:
    """A process and what it told last. `slot` is the place it is replaced in; none for the others."""

    pid: int
    slot: int | None
    text: bytes = b""
    last: str = "fork"
    stopped: bool = False
    jvm: int = 0
    unknown: str = ""
    reloaded: bool = False
    fill: bool = False


@dataclass
class Conductor:
    """One run of chaos against `emulator`, whose data lies in the folder's `service`."""

    wish: Wish
    emulator: Emulator
    lake: Lake
    account: Account
    children: dict[int, Child] = field(default_factory=dict)  # by the reading end of its pipe
    told_of: evidence.Told = field(default_factory=evidence.Told)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.wish.seed)
        self.seeds = itertools.count(self.wish.seed * 1_000_000)
        self.spool = self.wish.folder / "spool"
        self.spool.mkdir(parents=True)
        self.selector = selectors.DefaultSelector()
        self.due: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.busy = True
        data = self.wish.folder / SERVICE_FOLDER
        self.shaker = Shaker(self.emulator, data, self.account, self.dice, self._later)

    # --- the run ---------------------------------------------------------------------------------

    def run(self) -> Account:
        """Chaos for `seconds`, then a quiet end, then the proof."""
        try:
            began_s = SYSTEM_CLOCK.monotonic()
            self._create()
            self.shaker.begin()
            self._start(None, self._producer, "producer")
            self._start(None, self._watch, "watch")
            if self.wish.retention_every_s:
                self._start(None, self._retention, "retention")
            self._begin_work()
            for every_s, act in self._acts():
                if every_s:
                    # Each of them at least once, however short the run is.
                    self._again(every_s, act, first_s=min(every_s, self.wish.seconds / 2))
            self._loop(SYSTEM_CLOCK.monotonic() + self.wish.seconds)
            self.busy = False
            self._still()
            self.account.seconds = SYSTEM_CLOCK.monotonic() - began_s
            self._drain()
            self._prove()
        finally:
            self.shaker.emulator.stop()  # it may be another one than we were given
        return self.account

    def _create(self) -> None:
        with SlsClient(self._service()) as client:
            client.transport.create_project(PROJECT, "")
            client.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=3)
            # Somebody made the second group without order: children are granted at once, and only our
            # own plan and fence hold them back.
            group = self._task("nobody", group="lake-b").logstore.group
            client.create_group(group.model_copy(update={"order": False}))

    def _begin_work(self) -> None:
        for slot in range(self.wish.workers):
            self._respawn(slot)
        if self.wish.house_every_s:
            self._respawn(self.wish.workers)

    def _acts(self) -> list[tuple[float, Callable[[], None]]]:
        """What is done again and again, with the seconds in between, on average."""
        wish = self.wish
        return [
            (1 / wish.kills_per_s if wish.kills_per_s else 0.0, self._strike),
            (2.0, self.shaker.burst),
            (wish.reshape_every_s, self.shaker.reshape),
            (wish.jump_every_s, self._jump),
            (wish.restart_every_s, self.shaker.restart),
        ]

    def _jump(self) -> None:
        self.shaker.jump(*self.wish.jump_s)

    def _still(self) -> None:
        """Faults off; everybody is killed, those who are stopped too."""
        self.due.clear()
        self.shaker.end()
        for child in list(self.children.values()):
            if child.slot is None:
                os.kill(child.pid, signal.SIGKILL)
            else:
                self._kill(child)
        self._loop(SYSTEM_CLOCK.monotonic() + 30, until_empty=True)

    def _drain(self) -> None:
        """Half of what is still on its way arrives, a last worker lands the rest, then all of it arrives."""
        began_s = SYSTEM_CLOCK.monotonic()
        self.shaker.admin.advance(3600)
        late = waiting(self.spool)
        self._deliver(late[: len(late) // 2])
        before = self.account.told["landed"]
        minutes = self.wish.seconds / 60
        landings_max = max(_DRAIN_LANDINGS, round(_DRAIN_LANDINGS_A_MINUTE * minutes))
        drain_s = max(_DRAIN_S, _DRAIN_S_A_MINUTE * minutes)
        task = replace(self._task("drain"), landings_max=landings_max)
        self._start(None, lambda fd: work(task, fd), "drain")
        child = next(c for c in self.children.values() if c.pid)
        self._loop(began_s + drain_s, until_empty=True)
        self.account.drain_landings = self.account.told["landed"] - before
        self.account.drain_seconds = SYSTEM_CLOCK.monotonic() - began_s
        if self.children:
            os.kill(child.pid, signal.SIGKILL)
            self._loop(SYSTEM_CLOCK.monotonic() + 10, until_empty=True)
            self.account.problems.append(f"not drained after {drain_s:.0f} s")
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
        self.shaker.count_throttled()
        account, folder = self.account, self.wish.folder
        table = self.lake.load(TABLE)
        if table is None or not files_of(table).num_rows:
            account.problems.append("nothing is in the table")
            return
        listed = self.shaker.listed()
        checkpoints = {
            (str(group["name"]), int(slot["shard"])): int(slot["checkpoint"])
            for group in listed["groups"]
            for slot in group["shards"]
            if slot["checkpoint"] is not None
        }
        account.problems += audit(table, {}, checkpoints, history.cut_before(folder))[1]
        dump = self.shaker.admin.dump(PROJECT, LOGSTORE)
        account.found = evidence.weigh(table, listed["shards"], dump, folder, self.told_of)
        account.cut_landed, account.cut_past = self.told_of.cut_landed, self.told_of.cut_past
        if account.found.untold:
            account.problems.append(f"{account.found.untold} rows came with a file that nobody saw land")
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
                    "timeout_s": self.wish.claim_s,
                    "heartbeat_s": self.wish.claim_s / 3,
                    "patience_s": self.wish.claim_s * 2 / 3,
                },
                "table": TABLE,
                "start": self.wish.start,
                "columns": COLUMNS,
                "splits_per_hour": 2,
                "budget": {
                    "settle_s": 0,
                    "seconds_max": self.wish.run_s,
                    "page_groups_max": 20,
                    "windows_max": 60,
                },
            }
        )
        wish = self.wish
        return Task(
            logstore, self.lake, self.spool, next(self.seeds), wish.master, wish.conf, fence=wish.fence
        )

    def _respawn(self, slot: int) -> None:
        """A worker for `slot`: two holders of one group, a second deployment with a group of its own, a
        twin under the name of the first (as in a blue-green change), and one that mostly backfills.
        After the workers comes the housekeeper."""
        if slot == self.wish.workers:
            self._respawn_house(slot)
            return
        # Two workers with a Spark each are not enough for all roles: the second one takes them in turn.
        role = slot if not (self.wish.master and slot) else self.dice.randint(1, 4)
        holder, group, fill = (
            ("w0", "lake-a", 0.0),
            ("w1", "lake-a", 0.0),
            ("w2", "lake-b", 0.0),
            ("w0", "lake-a", 0.1),
            ("w4", "lake-b", 0.7),
        )[role % 5]
        task = replace(
            self._task(holder, group=group), fate=self._fate(POINTS), lossy=self.wish.lossy, fill=fill
        )
        self._start(slot, lambda fd: work(task, fd), f"worker-{slot}")

    def _respawn_house(self, slot: int) -> None:
        wish = self.wish
        task = replace(self._task("house"), fate=self._fate(house.POINTS), lossy=wish.lossy)
        keeping = Keeping(task, aged_s=wish.aged_s, every_s=wish.house_every_s, undo=wish.undo)
        self._start(slot, lambda fd: keep_house(keeping, fd), "house")

    def _fate(self, points: tuple[str, ...]) -> Fate:
        if self.dice.random() >= self.wish.fated:
            return Fate()
        act = "kill" if self.dice.random() < 0.8 else "stop"
        return Fate(act, self.dice.choice(points), self.dice.randint(1, 3))

    def _retention(self, fd: int) -> None:
        task, wish = self._task("retention"), self.wish
        port, every_s = self.shaker.emulator.port, wish.retention_every_s
        retain(Retaining(task.logstore, self.lake, wish.folder, port, task.seed, every_s), fd)

    def _producer(self, fd: int) -> None:
        produce(Producing(self._service(), next(self.seeds), self.wish.rows_per_s), fd)

    def _watch(self, fd: int) -> None:
        task = self._task("watch")
        port, folder = self.shaker.emulator.port, self.wish.folder
        watch(Watching(task.logstore, self.lake, folder, self.spool, port, task.seed), fd)

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

    def _again(self, every_s: float, act: Callable[[], None], *, first_s: float = 0.0) -> None:
        def once() -> None:
            act()
            self._again(every_s, act)

        self._later(first_s * self.dice.random() or every_s * self.dice.uniform(0.1, 1.9), once)

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
        elif self.busy and child.last != "masterless":
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
        if word in ("live", "fill"):
            child.fill = word == "fill"
        elif self.told_of.hear(word, rest, fill=child.fill):
            told["fill commit"] += child.fill
        elif word == "maintained":
            hours, _, swept, _ = map(int, rest.split())
            self.account.hours_compacted += hours
            self.account.swept += swept
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
        jvm, child.jvm = child.jvm, 0
        with contextlib.suppress(ProcessLookupError):
            os.kill(jvm, signal.SIGKILL)

    def _strike(self) -> None:
        """Kill or stop a worker wherever it is; one that is stopped may be killed before it wakes."""
        awake = [c for c in self.children.values() if c.slot is not None and c.last != "fork"]
        if not awake:
            return
        child = self.dice.choice(awake)
        if child.slot == self.wish.workers and self.dice.random() < _SPARED:
            return  # what the housekeeper begins takes longer than a landing
        if child.jvm and self.dice.random() < 0.2:
            self.account.kills["its JVM alone"] += 1
            self._kill_jvm(child)
        elif self.dice.random() < 0.75:
            self._kill(child)
        elif not child.stopped:
            os.kill(child.pid, signal.SIGSTOP)
            self._stopped(child)

    def _stopped(self, child: Child, go_on: Callable[[], None] | None = None) -> None:
        child.stopped = True
        self.account.stops[child.last] += 1
        longer_than_the_claim = self.dice.random() < 0.3
        for_s = (
            self.dice.uniform(1.2, 1.7) * self.wish.claim_s
            if longer_than_the_claim
            else self.dice.uniform(0.05, 1.0)
        )

        def wake() -> None:
            if child in self.children.values():  # by then it may be gone, and the pid somebody else's
                child.stopped = False
                if go_on is None:
                    os.kill(child.pid, signal.SIGCONT)
                else:
                    go_on()

        self._later(for_s, wake)
        # A worker that stops itself tells so first, and may be slower than the first SIGCONT.
        self._later(for_s + _WAKE_AGAIN_S, wake)
