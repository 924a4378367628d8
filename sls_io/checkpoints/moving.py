"""Checkpoints of a consumer group moved by a person: where to, what that means, and that nobody is there.

`aimed` asks the service for cursors and changes nothing. `moved` does it: it looks whether somebody is
listed as a holder, joins the group, and looks again: a member without a shard has got one by then. Then
the cursors are placed, by force where no member can have the shard: a finished one, or a child that waits.
Story: a person resets a group while a consumer holds shard 3. Its next checkpoint would undo the reset, so
nothing is moved, and the holder is named.

Distances are times: cursors are compared, never subtracted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sls_io.checkpoints.group import GroupCheckpoints
from sls_io.checkpoints.policy import OutsidePolicy, Place, settled
from sls_io.checkpoints.store import Kept, Written, reset
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.coordination.server_group import ServerGroup
from sls_io.errors import ClaimLost, ConfigError
from sls_io.settings import Group
from sls_io.shard import Head, Shard, ancestors
from sls_io.window import Cursor

AimKind = Literal["earliest", "latest", "current", "time", "shift", "cursors"]


@dataclass(frozen=True, slots=True)
class Aim:
    """Where checkpoints go: an edge, where they are, the first log received at `time_s` (unix seconds) or
    later, `shift_s` seconds of receive time forth (back when below 0), or these `cursors`."""

    kind: AimKind
    time_s: int = 0
    shift_s: int = 0
    cursors: Mapping[int, Cursor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Move:
    """One shard. `after` is None where there is nothing to move; `place` is where the aim lay before a
    policy was asked; `reopens`: the group had finished it, and its children `children` are read already."""

    shard: int
    before: Cursor | None
    after: Cursor | None
    place: Place = "inside"
    reopens: bool = False
    children: tuple[int, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether the checkpoint changes."""
        return self.after is not None and self.after != self.before

    @property
    def back(self) -> bool:
        """Whether logs are read again."""
        return self.after is not None and self.before is not None and self.after < self.before


def aimed(
    client: SlsClient,
    kept: Mapping[int, Kept],
    aim: Aim,
    *,
    shards: Iterable[int] = (),
    policy: OutsidePolicy = "stop",
) -> tuple[Move, ...]:
    """What would become of each listed shard, or of these `shards`. Raises CheckpointOutside as `policy`
    says, ConfigError for a shard that is not listed."""
    listed = {shard.id: shard for shard in client.shards()}
    chosen = sorted(frozenset(shards) or listed.keys())
    wanted = frozenset(chosen) | (aim.cursors.keys() if not shards else frozenset())
    if unknown := sorted(wanted - listed.keys()):
        names = ", ".join(map(str, unknown))
        raise ConfigError(f"the logstore lists no shard {names}: there is {', '.join(map(str, listed))}")
    now_s = int(client.now_s())
    moves = []
    for shard in chosen:
        head = client.head(listed[shard])
        entry = kept.get(shard)
        before = entry.cursor if entry else None
        to = _cursor(client, head, before, aim, now_s)
        if to is None:
            moves.append(Move(shard, before, None))
            continue
        start = settled(shard, to, begin=head.begin, end=head.end, policy=policy)
        moves.append(_move(head, before, start.cursor, start.place, listed.values()))
    return tuple(moves)


def moved(
    client: SlsClient, group: Group, moves: Iterable[Move], *, clock: Clock = SYSTEM_CLOCK
) -> tuple[Written, ...]:
    """Place the cursors of `moves` in `group`, as its only member; what became of each.

    Raises ClaimLost, naming who is there, before anything was moved.
    """
    store = GroupCheckpoints(client, group.name, forced=True, own=group.holder)
    refuse_holders(group, store.read())
    member = ServerGroup(client, group, clock=clock)
    member.claim()
    try:
        refuse_holders(group, store.read())
        return reset(store, {m.shard: m.after for m in moves if m.moves and m.after is not None})
    finally:
        member.release()


def refuse_holders(
    group: Group,
    kept: Mapping[int, Kept],
    why: str = "No checkpoint was moved: its next one would undo it",
) -> None:
    """Raises ClaimLost, with `why` it matters, where another than the group's holder has shards."""
    held: dict[str, list[str]] = {}
    for shard, entry in sorted(kept.items()):
        if entry.holder not in ("", group.holder):
            held.setdefault(entry.holder, []).append(str(shard))
    if held:
        who = "; ".join(f"{holder!r} holds {', '.join(shards)}" for holder, shards in sorted(held.items()))
        raise ClaimLost(
            f"group {group.name!r} is read: {who}. {why}. "
            f"End the reader, then ask again: its shards are free {group.timeout_s} s after its last sign of "
            "life, or what the group's own timeout is"
        )


def _cursor(client: SlsClient, head: Head, before: Cursor | None, aim: Aim, now_s: int) -> Cursor | None:
    """Where `aim` puts the shard; None where it says nothing of it."""
    if aim.kind == "earliest":
        return head.begin
    if aim.kind == "latest":
        return head.end
    if aim.kind == "time":
        return client.cursor_at(head.shard.id, aim.time_s)
    if aim.kind == "cursors":
        return aim.cursors.get(head.shard.id)
    if aim.kind == "current" or before is None or not head.begin <= before <= head.end:
        return before
    return client.cursor_at(head.shard.id, _time_s(client, head, before, now_s) + aim.shift_s)


def _time_s(client: SlsClient, head: Head, at: Cursor, now_s: int) -> int:
    """Receive time of the log at `at`; now where none is there yet."""
    if at >= head.end:
        return now_s
    since_s = client.waits_since_s(head.shard.id, at)
    return now_s if since_s is None else since_s


def _move(head: Head, before: Cursor | None, after: Cursor, place: Place, listed: Iterable[Shard]) -> Move:
    shard = head.shard
    reopens = shard.readonly and before is not None and before >= head.end > after
    below = ancestors(listed) if reopens else {}
    children = tuple(sorted(other for other, above in below.items() if shard.id in above))
    return Move(shard.id, before, after, place, reopens, children)
