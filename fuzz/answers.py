"""Wrong answers of the service: what is landed meanwhile, and whether all is there once they stop.

A round puts logs over some hours, reshapes shards, lets retention take something, and in between lands
while one to three answers are wrong. Then the answers are right again, and every stored log must be in
the table once; what retention took before it landed must be a named gap and nothing else may be one.
While answers are wrong a run may end with one of our errors, or say what it suspects; it gives nothing up.
"""

import base64
import random
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aliyun.log import log_logs_raw_pb2 as pb

from chaos.engine import InProcess
from fuzz.ground import new_lake, serving
from fuzz.lane import Broken, drawn
from fuzz.lies import DAY_S, Facts, Lie, all_lies
from pipelines.landing.hours import hour_of
from pipelines.landing.inspection.verify import verify
from pipelines.landing.ledger.state import read_state
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.run.report import LandingReport
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator
from sls_io.values.claim import ShardLedger
from sls_io.values.errors import InvariantBroken, SlsError
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

PROJECT = "fuzz"
NOW_S = 1_790_000_000 // HOUR_S * HOUR_S + 60
TTL_DAYS = 3
TIMEOUT_S = 30
GOOD_RUNS_MAX = 12
Identity = tuple[int, int, int]


@dataclass
class Scene:
    """One logstore of its own and the table it lands in."""

    emulator: Emulator
    logstore: Logstore
    lake: Lake
    counts: Counter[str] = field(default_factory=Counter)
    stored: int = 0
    told: list[str] = field(default_factory=list)
    ever: set[Identity] = field(default_factory=set)
    due: set[Identity] = field(default_factory=set)
    said: bool = False

    @property
    def name(self) -> str:
        return self.logstore.service.logstore

    def make(self, shards: int) -> None:
        """The logstore in the service."""
        with SlsClient(self.logstore.service) as client:
            client.transport.create_logstore(PROJECT, self.name, ttl=TTL_DAYS, shard_count=shards)

    def drop(self) -> None:
        """The logstore is deleted: a project has room for a few hundred only."""
        with SlsClient(self.logstore.service) as client:
            client.transport.delete_logstore(PROJECT, self.name)

    def put(self, rng: random.Random, groups: int) -> None:
        """That many groups of one to three logs at places all over the keys."""
        with SlsClient(self.logstore.service) as client:
            for _ in range(groups):
                message = pb.LogGroupRaw()
                for _ in range(rng.randrange(1, 4)):
                    log = message.Logs.add()
                    log.Time = NOW_S
                    content = log.Contents.add()
                    content.Key, content.Value = "n", str(self.stored).encode()
                    self.stored += 1
                client.put_raw(bytes(message.SerializeToString()), key=f"{rng.getrandbits(128):032x}")

    def advance(self, seconds: float) -> None:
        """The service's time goes on."""
        self.emulator.admin.advance(seconds)

    def facts(self) -> Facts:
        """What is true now."""
        state = self.emulator.admin.state()
        mine = next(x for x in state["logstores"] if x["logstore"] == self.name)
        shards = {s["shardID"]: (s["begin"], s["end"]) for s in mine["shards"]}
        with SlsClient(self.logstore.service) as client:
            return Facts(shards, int(client.now_s()), client.origin().created_s)

    def lie(self, lie: Lie, *, after: int = 0, times: int = 1) -> None:
        """From here on an answer is wrong, the first of its kind or a later one, so many times."""
        # A time of creation is asked for twice, and told wrong twice it names another logstore: nobody could
        # know better, and the runs after it are refused until a person adopts what has landed.
        times = 1 if lie.call == "get_logstore" else times
        for fault in lie.faults:
            wanted = dict(fault)
            self.emulator.admin.fault(
                wanted.pop("do"), logstore=self.name, after=after, times=times, **wanted
            )
        self.counts[lie.call] += 1
        self.told.append(f"{lie.name}, after {after}, {times} times")

    def land(self, **options: Any) -> LandingReport | None:
        """A live run; None when it ended with an error of ours. Any other one is a finding."""
        try:
            with Run(self.logstore, InProcess(), lake=self.lake, **options) as run:
                report = run.land()
                verdict = run.reconcile()
                if not verdict.ok:
                    raise Broken(f"not reconciled: {verdict.problems}")
                run.checkpoint()
        except InvariantBroken:
            raise
        except SlsError:
            self.counts["runs red"] += 1
            return None
        self.counts["runs suspicious"] += bool(report.suspects)
        self.said |= bool(report.readable)
        return report

    def settle(self) -> None:
        """The answers are right again: runs until two have nothing to do and nothing to say.

        Two, since a checkpoint that was put off is sent by the first, and lets children go to the next.
        """
        self.emulator.admin.remove()
        idle = 0
        for _ in range(GOOD_RUNS_MAX):
            self.advance(TIMEOUT_S + 31)
            report = self.land()
            if report is None:
                raise Broken(f"a run is red although every answer is right; told: {self.told}")
            idle = idle + 1 if report.snapshot_id is None and not report.suspects else 0
            if idle == 2:
                return
        raise Broken(f"runs do not come to an end: {report}; told: {self.told}")

    def cure(self) -> None:
        """Carry out the fills that `verify` names."""
        with SlsClient(self.logstore.service) as client:
            shards = verify(self.logstore, self.lake, client).shards
        for problem in (p for shard in shards for p in shard.problems if "`sls-lake backfill" in p):
            words = shlex.split(problem.split("`")[-2])
            first, last = (words[words.index(option) + 1] for option in ("--from", "--to"))
            if self.land(mode="fill", hours=(hour_of(first), hour_of(last) + 1)) is None:
                raise Broken(f"{problem}: that fill is refused; told: {self.told}")
            self.counts["fills that verify named"] += 1

    def look(self) -> None:
        """Take note of what is stored; from when the history has begun on, all of it is due."""
        table = self.lake.load(self.logstore.table)
        kept = self.kept()
        self.ever |= kept
        if table is not None and read_state(table).ledgers:
            self.due |= kept

    def gaps(self) -> dict[int, list[tuple[int, int]]]:
        """The named gaps of each shard that has some."""
        return {shard: gaps for shard, gaps in self.known().items() if gaps}

    def known(self) -> dict[int, list[tuple[int, int]]]:
        """The named gaps of each shard that the ledger knows."""
        return {s: [(int(g.begin), int(g.end)) for g in e.gaps] for s, e in self.entries().items()}

    def entries(self) -> Mapping[int, ShardLedger]:
        """What the ledger says of each shard it knows."""
        table = self.lake.load(self.logstore.table)
        if table is None:
            return {}
        with SlsClient(self.logstore.service) as client:
            return read_state(table).ledger(client.origin().id).shards

    def rows(self) -> Counter[Identity]:
        """How often each identity is in the table."""
        table = self.lake.load(self.logstore.table)
        rows = table.scan().to_arrow().to_pylist() if table is not None else []
        return Counter((r["__shard__"], r["__cursor__"], r["__index__"]) for r in rows)

    def kept(self) -> set[Identity]:
        """What the service has stored now."""
        found = set()
        for entry in self.emulator.admin.dump(PROJECT, self.name):
            message = pb.LogGroupRaw()
            message.ParseFromString(base64.b64decode(entry["raw"]))
            found |= {(int(entry["shard"]), int(entry["cursor"]), i) for i in range(len(message.Logs))}
        return found

    def judge(self) -> None:
        """Every log that was ever stored is in the table once, or retention took it and a gap says so."""
        self.settle()
        self.cure()
        kept, rows, gaps, entries = self.kept(), self.rows(), self.known(), self.entries()
        twice = [identity for identity, times in rows.items() if times > 1]
        if twice:
            raise Broken(f"twice in the table: {twice[:3]}; told: {self.told}")
        if lost := kept - rows.keys():
            raise Broken(f"{len(lost)} logs are not in the table: {sorted(lost)[:3]}; told: {self.told}")
        if invented := rows.keys() - self.ever - kept:
            raise Broken(f"rows of no log: {sorted(invented)[:3]}; told: {self.told}")
        for shard, cursor, _ in self.due - kept - rows.keys():
            if shard not in gaps:
                # A child that was made and removed with all its logs before any landing had it in its
                # ledger: only the list could have told of it.
                self.counts["logs of shards never seen"] += 1
            elif cursor < entries[shard].start and self.said:
                # Each answer told the first run a begin that is too high. The runs after it said that more
                # can be read and how it lands; nobody did it before retention took it.
                self.counts["logs told of until retention took them"] += 1
            elif not any(begin <= cursor < end for begin, end in gaps[shard]):
                raise Broken(f"log {cursor} of shard {shard} was lost without a gap; told: {self.told}")
        for shard, cursor, _ in kept:
            if any(begin <= cursor < end for begin, end in gaps.get(shard, [])):
                raise Broken(f"log {cursor} of shard {shard} is there and in a gap; told: {self.told}")
        with SlsClient(self.logstore.service) as client:
            proof = verify(self.logstore, self.lake, client)
        if not proof.ok:
            raise Broken(f"not proven: {proof}; told: {self.told}")
        self.counts["rows"] += len(rows)


@dataclass
class Answers:
    """The lane: one emulator for all rounds."""

    emulator: Emulator
    folder: Path
    rounds_min: int = 20
    counts: Counter[str] = field(default_factory=Counter)

    def scene(self, name: str, **changes: Any) -> Scene:
        """A logstore of that name, not made yet."""
        return Scene(
            self.emulator, settings(self.emulator, name, **changes), new_lake(self.folder / name), self.counts
        )

    def play(self, seed: int) -> None:
        """One history. Raises Broken."""
        rng = drawn(seed)
        scene = self.scene(f"answers-{seed}")
        scene.make(rng.choice((1, 2, 3)))
        for _ in range(rng.randrange(2, 5)):
            self._happen(scene, rng)
            scene.look()
            for lie in rng.sample(list(all_lies(scene.facts())), rng.choice((1, 1, 2, 3))):
                scene.lie(lie, after=rng.choice((0, 0, 1, 2, 5)), times=rng.choice((1, 1, 2, 9)))
            for _ in range(rng.choice((1, 1, 2))):
                scene.land()
                scene.look()
                scene.advance(rng.choice((1, TIMEOUT_S + 1, HOUR_S)))
            scene.emulator.admin.remove()
            if rng.random() < 0.5:
                scene.land()
        scene.judge()
        scene.drop()

    def _happen(self, scene: Scene, rng: random.Random) -> None:
        """Logs come, hours pass, shards split and merge, retention takes what is old."""
        scene.put(rng, rng.randrange(1, 6))
        shards = [s for s in self._shards(scene) if s["status"] == "readwrite"]
        if rng.random() < 0.3 and len(shards) < 6:
            self.emulator.admin.split(PROJECT, scene.name, rng.choice(shards)["shardID"])
            scene.put(rng, rng.randrange(4))
        elif rng.random() < 0.15 and len(shards) > 1:
            first = min(shards, key=lambda s: str(s["inclusiveBeginKey"]))
            self.emulator.admin.merge(PROJECT, scene.name, first["shardID"])
        scene.advance(rng.choice((60, 60, HOUR_S, 2 * HOUR_S + 60)))
        if rng.random() < 0.15:
            scene.advance((TTL_DAYS + 1) * DAY_S)
            self.counts["retention"] += 1
            scene.put(rng, rng.randrange(3))
            scene.advance(60)

    def _shards(self, scene: Scene) -> list[dict[str, Any]]:
        state = self.emulator.admin.state()
        found: list[dict[str, Any]] = next(
            x["shards"] for x in state["logstores"] if x["logstore"] == scene.name
        )
        return found


def settings(emulator: Emulator, name: str, **changes: Any) -> Logstore:
    """Settings of a logstore in the emulator, with short timings."""
    return Logstore.model_validate(
        {
            "service": {
                "endpoint": emulator.endpoint,
                "project": PROJECT,
                "logstore": name,
                "tries_max": 2,
                "read_timeout_s": 2.0,
            },
            "group": {
                "name": "lake",
                "timeout_s": TIMEOUT_S,
                "heartbeat_s": 1,
                "patience_s": 1,
            },
            "table": f"fuzz.{name.replace('-', '_')}",
            "start": "2026-01-01-00:00",
            "columns": {"n": "long"},
            **changes,
        }
    )


@contextmanager
def open_lane(folder: Path) -> Iterator[Answers]:
    """The lane with an emulator in `folder`."""
    with serving(folder / "emulator", now=float(NOW_S)) as emulator:
        lane = Answers(emulator, folder / "lakes")
        with SlsClient(settings(emulator, "none").service) as client:
            client.transport.create_project(PROJECT, "")
        yield lane
