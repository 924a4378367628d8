"""Consumer groups as the service runs them: pure, time and the shards' shape are arguments.

One `Group` holds its members (name -> last heartbeat) and one `Slot` per shard: its state out of
`sls_io.values.shard.TRANSITIONS`, holder, taker and checkpoint. Every move goes through `next_state`.

Rules (vendor's consumer README, checked against three official clients):
- a reply names the shards `already_alloc` to the caller; one being taken away is left out, and is
  handed over only when its holder stops listing it or falls silent;
- a shard just granted may be missing from the next list, so absence revokes only a transfer;
- a member silent for longer than `timeout_s` is gone; it comes back with an empty list only;
- any two members differ by at most one shard over already_alloc and incoming transfers;
- a readonly shard whose checkpoint is its end is `over`; seen again whenever the shape changes.

A test may let a group share its shards by one of the assignors of `sls_io.coordination.assignors` instead.
Who gets a shard is decided by that one then, how it is handed over stays as it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sls_io.coordination.assignors import ASSIGNORS, assigned
from sls_io.emulator.storage.refusal import Refused, no_shard, parameter_invalid
from sls_io.values.shard import ShardEvent, ShardState, initial_state, next_state


@dataclass(frozen=True, slots=True)
class Shape:
    """The shards a group sees: all ancestors still listed, and the end cursor once readonly."""

    version: int
    ancestors: Mapping[int, frozenset[int]]
    ends: Mapping[int, int | None]


@dataclass(slots=True)
class Slot:
    """One shard in one group. `taker` is set only in `transfer`; `saver` sent the checkpoint."""

    state: ShardState
    holder: str = ""
    taker: str = ""
    checkpoint: int | None = None
    updated_us: int = 0
    saver: str = ""


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group. `changed` is set when something must be written down; `assignor` names who shares
    the shards out, "" for the service's own way."""

    name: str
    timeout_s: int
    order: bool
    members: dict[str, float] = field(default_factory=dict)
    slots: dict[int, Slot] = field(default_factory=dict)
    version: int = -1
    changed: bool = True
    assignor: str = ""

    def heartbeat(self, consumer: str, claimed: Iterable[int], now: float, shape: Shape) -> list[int]:
        """The shards `consumer` may read now, sorted.

        NotExistConsumerWithBody (400) when an unknown consumer claims shards.

        Worked example: a holds 0 and 1, b joins. Shard 1 is on its way to b: a's next answer leaves it out,
        and b's has nothing yet. Once a lists 0 alone, 1 is b's, and b's next answer has it.
        """
        held = frozenset(claimed)
        self.look(now, shape)
        if consumer not in self.members:
            if held:
                raise Refused(
                    400, "NotExistConsumerWithBody", f"consumer {consumer} does not exist but lists shards"
                )
            self.changed = True
        self.members[consumer] = now
        for shard, slot in self.slots.items():
            if slot.state is ShardState.TRANSFER and slot.holder == consumer and shard not in held:
                self._move(slot, ShardEvent.RELEASED)
        self._settle(shape)
        if self.assignor:
            self._share(shape)
        else:
            self._balance(shape)
        return sorted(
            s
            for s, slot in self.slots.items()
            if slot.holder == consumer and slot.state is ShardState.ALREADY_ALLOC
        )

    def look(self, now: float, shape: Shape) -> None:
        """Bring members and shards up to date: evict the silent, add and drop shards.

        Nothing runs by itself here: time passes by being asked about. A member that fell silent is evicted
        by the next call of anybody, and a test that moves the clock by an hour sees it at once.
        """
        self._evict(now)
        if shape.version != self.version:
            self._reshape(shape)

    def forget_members(self, now: float, shape: Shape) -> None:
        """Take every member for silent, as after a timeout: their shards are free at once."""
        self.members = dict.fromkeys(self.members, now - self.timeout_s - 1)
        self.look(now, shape)

    def save(self, shard: int, cursor: int, consumer: str, *, forced: bool, now: float, shape: Shape) -> None:
        """Store a checkpoint. Unless `forced`, only from the shard's present holder.

        Refusals: ShardNotExist 404, ConsumerNotExist 404, ConsumerNotMatch 400. The last saver may
        repeat its checkpoint of a shard that is over: a lost reply is no reason to refuse.

        Story: the last checkpoint of a shard makes it over, its holder has it no more, and the answer is
        lost. The client sends it again, and would hear ConsumerNotMatch: its last work would look lost.
        `saver` remembers who may say it again.

        Worked example: a read-only shard ends at 50. 49 from its holder is kept, 50 makes it over. A forced
        30 opens it again, and it is free for whoever asks next; a forced 60 leaves it over.
        """
        self.look(now, shape)
        slot = self.slots.get(shard)
        if slot is None:
            raise no_shard(shard, status=404)
        if not forced and not self._owns(slot, consumer, cursor):
            raise Refused(400, "ConsumerNotMatch", f"shard {shard} is not held by consumer {consumer}")
        slot.checkpoint, slot.updated_us, slot.saver = cursor, int(now * 1e6), consumer
        end = shape.ends[shard]
        if slot.state is ShardState.OVER and (end is None or cursor < end):
            self._move(slot, ShardEvent.FORCED)
        self._settle(shape)

    def configure(self, *, timeout_s: int | None, order: bool | None, now: float, shape: Shape) -> None:
        """Change settings; order true -> false releases the shards that wait."""
        self.look(now, shape)
        self.timeout_s = self.timeout_s if timeout_s is None else timeout_s
        self.order = self.order if order is None else order
        self.changed = True
        self._settle(shape)

    def counts(self) -> dict[str, int]:
        """Shards per member: held, or about to be."""
        load = dict.fromkeys(self.members, 0)
        for slot in self.slots.values():
            if slot.state is ShardState.ALREADY_ALLOC:
                load[slot.holder] += 1
            elif slot.state is ShardState.TRANSFER:
                load[slot.taker] += 1
        return load

    def doc(self) -> dict[str, Any]:
        """As plain values, for the segment log and the state dump."""
        return {
            "name": self.name,
            "timeout_s": self.timeout_s,
            "order": self.order,
            "version": self.version,
            "assignor": self.assignor,
            "members": self.members,
            "slots": {
                str(i): [s.state.value, s.holder, s.taker, s.checkpoint, s.updated_us, s.saver]
                for i, s in self.slots.items()
            },
        }

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any], now: float) -> Self:
        """The group as written down; every member counts as seen `now`, so a restart evicts nobody."""
        slots = {
            int(i): Slot(ShardState(state), holder, taker, checkpoint, updated_us, saver)
            for i, (state, holder, taker, checkpoint, updated_us, saver) in doc["slots"].items()
        }
        members = dict.fromkeys(doc["members"], now)
        assignor = doc.get("assignor", "")  # a folder of an earlier release has none
        return cls(
            doc["name"], doc["timeout_s"], doc["order"], members, slots, doc["version"], False, assignor
        )

    def restore_checkpoint(self, change: Mapping[str, Any]) -> None:
        """Repeat one stored checkpoint; states travel with the group's own document."""
        slot = self.slots.get(change["shard"])
        if slot is not None:
            slot.checkpoint, slot.updated_us, slot.saver = (
                change["cursor"],
                change["updated_us"],
                change["saver"],
            )

    def _owns(self, slot: Slot, consumer: str, cursor: int) -> bool:
        if not consumer:
            raise parameter_invalid("without a consumer, forceSuccess must be true")
        if consumer not in self.members:
            raise Refused(404, "ConsumerNotExist", f"consumer {consumer} does not exist")
        repeated = slot.state is ShardState.OVER and (slot.saver, slot.checkpoint) == (consumer, cursor)
        return slot.holder == consumer or repeated

    def _evict(self, now: float) -> None:
        """Who gets a shard on its way: its taker, where only the holder fell silent; its holder, where only
        the taker did; nobody, where both did. A member that was seen later than now counts as seen now:
        somebody put the clock back.

        Worked example: the time-out is 60 s, a was last heard 70 s ago, b 10 s ago. Shard 1 is on its way
        from a to b: b has it now, with b's next answer. On its way from b to a it would be b's again. Had
        both been silent it would be free.
        """
        dead = set()
        for name, seen in self.members.items():
            if now - seen > self.timeout_s:
                dead.add(name)
            elif seen > now:
                self.members[name] = now
        if not dead:
            return
        for slot in self.slots.values():
            holder_lost, taker_lost = slot.holder in dead, slot.taker in dead
            if slot.state is ShardState.TRANSFER and holder_lost and not taker_lost:
                self._move(slot, ShardEvent.RELEASED)
            elif slot.state is ShardState.TRANSFER and taker_lost and not holder_lost:
                self._move(slot, ShardEvent.TAKER_LOST)
            elif holder_lost:
                self._move(slot, ShardEvent.HOLDER_LOST)
        for name in dead:
            del self.members[name]
        self.changed = True

    def _reshape(self, shape: Shape) -> None:
        """Groups hear of a split with the next call, by the version of the shape. Shards are taken in order
        of number, so a parent has its slot, and its state, before a child asks whether it is over.
        """
        for gone in self.slots.keys() - shape.ends.keys():
            del self.slots[gone]
        for shard in sorted(shape.ends.keys() - self.slots.keys()):
            done = self._ancestors_over(shard, shape)
            self.slots[shard] = Slot(initial_state(ordered=self.order, ancestors_over=done))
        self.version, self.changed = shape.version, True
        self._settle(shape)

    def _settle(self, shape: Shape) -> None:
        """Finish drained readonly shards, then let go the shards that waited for them.

        In two rounds: all that is drained is over before anything that waits is asked whether its ancestors
        are.
        """
        for shard in self.slots:
            self._finish(shard, shape)
        for shard, slot in self.slots.items():
            if slot.state is ShardState.WAIT and (not self.order or self._ancestors_over(shard, shape)):
                self._move(slot, ShardEvent.ANCESTORS_OVER)

    def _ancestors_over(self, shard: int, shape: Shape) -> bool:
        """An ancestor that retention took is in no list, and so counts as over."""
        over = ShardState.OVER
        return all(a in self.slots and self.slots[a].state is over for a in shape.ancestors[shard])

    def _share(self, shape: Shape) -> None:
        """As the assignor says, each shard weighing the same. One on its way is handed over first: the next
        heartbeat asks again.

        A shard that is granted and drained is over at once, and may let children go: then all is shared anew.
        """
        done = True
        while done:
            ours = {s: x for s, x in self.slots.items() if x.state not in (ShardState.WAIT, ShardState.OVER)}
            owners = {s: x.taker or x.holder for s, x in ours.items() if x.holder}
            wanted = assigned(ASSIGNORS[self.assignor], list(self.members), dict.fromkeys(ours, 1), owners)
            done = False
            for member, shard in [(m, s) for m, shards in wanted.items() for s in shards]:
                slot = self.slots[shard]
                if slot.state is ShardState.NOT_ALLOC:
                    self._move(slot, ShardEvent.ASSIGNED, member)
                    done |= self._finish(shard, shape)
                elif slot.state is ShardState.ALREADY_ALLOC and slot.holder != member:
                    self._move(slot, ShardEvent.REBALANCED, member)
            self._settle(shape)

    def _balance(self, shape: Shape) -> None:
        """What is free goes to the poorest, shard by shard. Then the richest hands over to the poorest while
        they are more than one apart. A shard on its way counts for its taker, so each step brings them
        nearer, and it ends.

        Worked example: a has 0 to 3, b none: 3 is on its way, 3 to 1; then 2: 2 to 2.
        """
        load = self.counts()
        while free := sorted(s for s, slot in self.slots.items() if slot.state is ShardState.NOT_ALLOC):
            for shard in free:
                poorest = min(load, key=lambda name: (load[name], name))
                self._move(self.slots[shard], ShardEvent.ASSIGNED, poorest)
                if not self._finish(shard, shape):
                    load[poorest] += 1
            self._settle(shape)
        while True:
            poorest = min(load, key=lambda name: (load[name], name))
            movable = self._movable(load)
            if movable is None or load[self.slots[movable].holder] - load[poorest] <= 1:
                break
            slot = self.slots[movable]
            load[slot.holder] -= 1
            load[poorest] += 1
            self._move(slot, ShardEvent.REBALANCED, poorest)

    def _movable(self, load: Mapping[str, int]) -> int | None:
        """The highest shard of the member with most that is not already on its way."""
        granted = [s for s, slot in self.slots.items() if slot.state is ShardState.ALREADY_ALLOC]
        return max(granted, key=lambda s: (load[self.slots[s].holder], s), default=None)

    def _finish(self, shard: int, shape: Shape) -> bool:
        """Make a granted shard `over` once it is readonly and its checkpoint is its end."""
        slot, end = self.slots[shard], shape.ends[shard]
        drained = end is not None and slot.checkpoint is not None and slot.checkpoint >= end
        if drained and slot.state is ShardState.ALREADY_ALLOC:
            self._move(slot, ShardEvent.FINISHED)
            return True
        return False

    def _move(self, slot: Slot, event: ShardEvent, to: str = "") -> None:
        """Apply `event`; holder and taker follow from where the shard arrives.

        The table says where the shard arrives; who has it then follows from the event, here and nowhere else.
        """
        before, slot.state = slot.state, next_state(slot.state, event)
        if event is ShardEvent.ASSIGNED:
            slot.holder = to
        elif event is ShardEvent.REBALANCED:
            slot.taker = to
        elif event is ShardEvent.RELEASED:
            slot.holder, slot.taker = slot.taker, ""
        elif before is ShardState.TRANSFER and slot.state is ShardState.ALREADY_ALLOC:
            slot.taker = ""
        else:
            slot.holder = slot.taker = ""
        self.changed = True
