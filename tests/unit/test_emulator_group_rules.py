"""Random lives of a consumer group against the written rules.

Consumers behave as the vendor's do: they list what they were given and have not put down yet, put
down what a reply leaves out, and start what it adds. Each trusts its shards until its own clock says
that the time-out, counted from its last accepted heartbeat, is over. Whatever happens, no shard is
ever read by two of them, no child before its ancestors, and members stay in balance.
"""

import json
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sls_io.coordination.assignors import ASSIGNORS, assigned
from sls_io.emulator.storage.groups import ConsumerGroup
from sls_io.emulator.storage.refusal import Refused
from sls_io.emulator.storage.store import Store
from sls_io.values.shard import ShardState

NOW = 1_790_000_000.0
TIMEOUT_S = 10
NAMES = st.sampled_from("abcd")
TAKEN = (ShardState.ALREADY_ALLOC, ShardState.TRANSFER)


@dataclass
class Consumer:
    """What a consumer believes. `reading` is what it works on; `claimed` what it lists."""

    sent: float = 0.0
    reading: set[int] = field(default_factory=set)
    stopping: set[int] = field(default_factory=set)

    def alive(self, now: float) -> bool:
        return now - self.sent <= TIMEOUT_S


class Life(RuleBasedStateMachine):
    """One logstore, one group, four consumers, a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.store = Store()
        self.store.create_project("demo", {}, self.now)
        self.logstore = self.store.create_logstore("demo", "logs", 30, 2, {}, self.now)
        self.consumers: dict[str, Consumer] = {}
        self.saved: dict[int, int] = {}

    @initialize(order=st.booleans(), assignor=st.sampled_from(["", *ASSIGNORS]))
    def create(self, order: bool, assignor: str) -> None:
        self.group = ConsumerGroup("g", TIMEOUT_S, order, assignor=assignor)
        self.always_ordered = order
        self.group.look(self.now, self.logstore.shape())

    @rule(name=NAMES)
    def heartbeat(self, name: str) -> None:
        consumer = self.consumers.setdefault(name, Consumer(self.now))
        if not consumer.alive(self.now):
            consumer.reading.clear()
            consumer.stopping.clear()
        claimed = consumer.reading | consumer.stopping
        try:
            given = set(self.group.heartbeat(name, claimed, self.now, self.logstore.shape()))
        except Refused as refused:
            assert refused.code == "NotExistConsumerWithBody"
            assert name not in self.group.members
            del self.consumers[name]
            return
        consumer.sent = self.now
        consumer.stopping |= consumer.reading - given
        consumer.reading = given - consumer.stopping

    @rule(name=NAMES)
    def put_down(self, name: str) -> None:
        if name in self.consumers:
            self.consumers[name].stopping.clear()

    @rule(name=NAMES)
    def crash(self, name: str) -> None:
        self.consumers.pop(name, None)

    @rule(name=NAMES, to_end=st.booleans(), data=st.data())
    def checkpoint(self, name: str, to_end: bool, data: st.DataObject) -> None:
        consumer = self.consumers.get(name)
        held = sorted(consumer.reading | consumer.stopping) if consumer else []
        if not held or consumer is None:
            return
        shard = data.draw(st.sampled_from(held))
        log = self.logstore.shards[shard]
        cursor = log.next if to_end else log.begin
        try:
            self.group.save(shard, cursor, name, forced=False, now=self.now, shape=self.logstore.shape())
            self.saved[shard] = cursor
        except Refused as refused:
            assert refused.code in ("ConsumerNotExist", "ConsumerNotMatch")
            assert not consumer.alive(self.now) or self.group.slots[shard].state is ShardState.OVER

    @rule(shard=st.integers(0, 12))
    def write(self, shard: int) -> None:
        if shard in self.logstore.shards and not self.logstore.shards[shard].readonly:
            self.logstore.shards[shard].append(b"", 1, self.now)

    @precondition(lambda self: len(self.logstore.shards) < 12)
    @rule(data=st.data())
    def split(self, data: st.DataObject) -> None:
        self.store.split(
            self.logstore, data.draw(st.sampled_from([s.id for s in self.logstore.writable()])), self.now
        )

    @precondition(lambda self: len(self.logstore.writable()) > 1 and len(self.logstore.shards) < 12)
    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        self.store.merge(
            self.logstore, data.draw(st.sampled_from([s.id for s in self.logstore.writable()][:-1])), self.now
        )

    @rule(duration_s=st.sampled_from([0.5, 1, 3, 6, 11]))
    def wait(self, duration_s: float) -> None:
        self.now += duration_s

    @rule()
    def restart(self) -> None:
        """Members count as seen now, so nobody loses shards by a restart of the service."""
        self.group = ConsumerGroup.from_doc(json.loads(json.dumps(self.group.doc())), self.now)

    @rule(order=st.booleans())
    def reorder(self, order: bool) -> None:
        self.always_ordered &= order
        self.group.configure(timeout_s=None, order=order, now=self.now, shape=self.logstore.shape())

    @invariant()
    def no_shard_has_two_readers(self) -> None:
        at_work = [
            shard
            for consumer in self.consumers.values()
            if consumer.alive(self.now)
            for shard in consumer.reading | consumer.stopping
            if shard in self.group.slots and self.group.slots[shard].state is not ShardState.OVER
        ]
        assert len(at_work) == len(set(at_work))

    @invariant()
    def slots_make_sense(self) -> None:
        for slot in self.group.slots.values():
            assert bool(slot.holder) == (slot.state in TAKEN)
            assert bool(slot.taker) == (slot.state is ShardState.TRANSFER)
            assert slot.holder in self.group.members or not slot.holder
            assert slot.taker in self.group.members or not slot.taker
            assert slot.taker != slot.holder or not slot.holder

    @invariant()
    def waiting_ends_only_with_all_ancestors(self) -> None:
        shape = self.logstore.shape()
        for shard, slot in self.group.slots.items():
            done = all(self.group.slots[a].state is ShardState.OVER for a in shape.ancestors.get(shard, ()))
            if slot.state is ShardState.WAIT:
                assert self.group.order
                assert not done or self.group.version != shape.version
            elif self.always_ordered:
                assert done

    @invariant()
    def nothing_saved_is_lost(self) -> None:
        for shard, cursor in self.saved.items():
            assert self.group.slots[shard].checkpoint == cursor

    @rule(name=NAMES)
    def settled_members_are_in_balance(self, name: str) -> None:
        """After a heartbeat, unless a richer member has nothing left that is not on its way."""
        self.heartbeat(name)
        counts = self.group.counts()
        if not counts:
            return
        if self.group.assignor:
            ours = {s: x for s, x in self.group.slots.items() if x.holder}
            owners = {s: x.taker or x.holder for s, x in ours.items()}
            wanted = assigned(ASSIGNORS[self.group.assignor], list(counts), dict.fromkeys(ours, 1), owners)
            settled = {s for s, x in ours.items() if x.state is ShardState.ALREADY_ALLOC}
            assert all(s in wanted[ours[s].holder] for s in settled)
            assert not [s for s in self.group.slots.values() if s.state is ShardState.NOT_ALLOC]
            return
        richest = max(counts, key=lambda n: counts[n])
        movable = [
            s
            for s in self.group.slots.values()
            if s.state is ShardState.ALREADY_ALLOC and s.holder == richest
        ]
        assert counts[richest] - min(counts.values()) <= 1 or not movable
        assert (
            not [s for s in self.group.slots.values() if s.state is ShardState.NOT_ALLOC]
            or not self.group.members
        )


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_the_machine_of_random_lives_is_collected() -> None:
    """The class above is a unittest case that pytest runs; this names it for readers of the report."""
    assert TestLife.settings.max_examples == 60
