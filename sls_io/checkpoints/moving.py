"""Checkpoints of a consumer group moved by a person: that nobody is there; and where edges and times are.

`moved` looks whether somebody is listed as a holder, joins the group, and looks again: a member without a
shard has got one by then. Then the cursors are placed, by force where no member can have the shard: a
finished one, or a child that waits. Story: a person resets a group while a consumer holds shard 3. Its next
checkpoint would undo the reset, so nothing is moved, and the holder is named.

Distances are times: cursors are compared, never subtracted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from sls_io.checkpoints.copying import Move, Positions, written
from sls_io.checkpoints.group import GroupCheckpoints
from sls_io.checkpoints.store import Kept, Written
from sls_io.coordination.server_group import ServerGroup
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ClaimLost
from sls_io.values.settings import Group
from sls_io.values.shard import Head
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient


@dataclass(frozen=True, slots=True)
class Aim:
    """A place of each shard: an edge, the first log received at `seconds` (unix) or later, or `seconds` of
    receive time from where a reader is, back when below 0."""

    kind: Literal["earliest", "latest", "time", "shift"]
    seconds: int = 0


def aimed(client: SlsClient, aim: Aim, heads: Mapping[int, Head], kept: Mapping[int, Kept]) -> Positions:
    """The cursors of `aim` in these shards, of which a reader has `kept`. Asks the service."""
    now_s = int(client.now_s())
    places = {shard: entry.cursor for shard, entry in kept.items()}
    return {shard: _cursor(client, head, places.get(shard), aim, now_s) for shard, head in heads.items()}


def moved(
    client: SlsClient, group: Group, moves: Iterable[Move], *, clock: Clock = SYSTEM_CLOCK
) -> tuple[Written, ...]:
    """Place the cursors of `moves` in `group`, as its only member; what became of each.

    Raises ClaimLost, naming who is there, before anything was moved.

    Asked before the claim and after it: the claim may take a while, and a reader that came meanwhile would be
    overwritten.
    """
    store = GroupCheckpoints(client, group.name, forced=True, own=group.holder)
    refuse_holders(group, store.read())
    member = ServerGroup(client, group, clock=clock)
    member.claim()
    try:
        refuse_holders(group, store.read())
        return written(store, moves)
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


def _cursor(client: SlsClient, head: Head, at: Cursor | None, aim: Aim, now_s: int) -> Cursor | None:
    """Where `aim` puts the shard; None where it says nothing of it.

    A shift is one of time: the log at the place of the reader was received then, and so many seconds from
    there is another cursor. Outside of the shard there is no such log, and the place stays.
    """
    if aim.kind == "earliest":
        return head.begin
    if aim.kind == "latest":
        return head.end
    if aim.kind == "time":
        return client.cursor_at(head.shard.id, aim.seconds)
    if at is None or not head.begin <= at <= head.end:
        return at
    return client.cursor_at(head.shard.id, _time_s(client, head, at, now_s) + aim.seconds)


def _time_s(client: SlsClient, head: Head, at: Cursor, now_s: int) -> int:
    """Receive time of the log at `at`; now where none is there yet."""
    if at >= head.end:
        return now_s
    since_s = client.waits_since_s(head.shard.id, at)
    return now_s if since_s is None else since_s
