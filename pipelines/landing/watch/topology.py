"""What became of a logstore's shards since the last look: split, merged, read-only, deleted.

The service says none of it: a look lists the shards, lineage is inferred from ids and key ranges, and
what changed is the difference from what was seen before. `Seen` is that memory, small enough to be kept
between two looks.

A shard that is not listed any more is deleted only when it says so itself, too: a list that is cut short
must not look like retention.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipelines.landing.watch.look import Look
from sls_io.values.errors import ShardGone
from sls_io.values.shard import Shard, parents
from sls_io.values.side_by_side import answers
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient


class Lineage(StrEnum):
    """What happened to shards."""

    APPEARED = "appeared"
    SPLIT = "split"
    MERGED = "merged"
    READONLY = "readonly"
    DELETED = "deleted"
    MADE_ANEW = "made anew"


@dataclass(frozen=True, slots=True)
class Event:
    """One change: the shards it happened to, and those that came of it."""

    change: Lineage
    shards: tuple[int, ...] = ()
    children: tuple[int, ...] = ()

    def __str__(self) -> str:
        one, many = _named(self.shards), _named(self.children)
        return {
            Lineage.APPEARED: f"{one} appeared",
            Lineage.SPLIT: f"{one} was split into {many}",
            Lineage.MERGED: f"{one} were merged into {many}",
            Lineage.READONLY: f"{one} is read-only",
            Lineage.DELETED: f"{one} is gone: retention took it",
            Lineage.MADE_ANEW: "the logstore was made anew: these are other shards",
        }[self.change]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look leaves for the next one: shards by id, whether read-only; those of them that have landed
    whole; and the end cursor of each shard whose drain was asked for.

    Worked example of the text: `{"origin": "o", "readwrite": [1], "readonly": [0], "landed": [0], "asked":
    {"0": "120"}}`. Cursors are texts in it: one of 19 digits would not survive a reader of JSON that has
    doubles.
    """

    origin: str
    shards: Mapping[int, bool] = field(default_factory=dict)
    landed: frozenset[int] = frozenset()
    asked: Mapping[int, int] = field(default_factory=dict)

    def still(self, look: Look) -> bool:
        """Whether the shards are listed as they were, and no other one has landed whole."""
        listed = {s.id: s.readonly for s in look.shards}
        now = look.ledger.origin, listed, _landed(look, listed)
        return (self.origin, self.shards, self.landed) == now

    def text(self) -> str:
        """As it is kept. Holds ids and cursors, nothing of a log."""
        return json.dumps(
            {
                "origin": self.origin,
                "readwrite": [s for s, readonly in sorted(self.shards.items()) if not readonly],
                "readonly": [s for s, readonly in sorted(self.shards.items()) if readonly],
                "landed": sorted(self.landed),
                "asked": {str(shard): str(end) for shard, end in sorted(self.asked.items())},
            }
        )

    @staticmethod
    def of(text: str | None) -> "Seen | None":
        """What was kept; None for nothing, or for what another release kept: all is seen anew then."""
        try:
            kept = json.loads(text or "")
            readwrite, readonly = kept["readwrite"], kept["readonly"]
            shards = {**{int(s): False for s in readwrite}, **{int(s): True for s in readonly}}
            landed, asked = frozenset(map(int, kept["landed"])), kept["asked"].items()
            return Seen(str(kept["origin"]), shards, landed, {int(s): int(end) for s, end in asked})
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


@dataclass(frozen=True)
class Topology:
    """The shards now.

    parents  of each listed shard, nearest ancestors
    ends     end cursor of the shards that are read-only and not closed in the table: they want a drain
    deleted  known shards that the service has no more, by two kinds of answers
    hidden   known shards that are not listed, and answer all the same: whether read-only as far as is known

    `hidden` shards stay in `seen`. Story: a node lists the shards of yesterday for a minute. Were the others
    taken out, they would appear again a minute later, and somebody would be told of a split that was long
    ago.
    """

    look: Look
    parents: Mapping[int, frozenset[int]]
    ends: Mapping[int, Cursor] = field(default_factory=dict)
    deleted: frozenset[int] = frozenset()
    hidden: Mapping[int, bool] = field(default_factory=dict)

    @property
    def seen(self) -> dict[int, bool]:
        """The shards that are there, whether read-only."""
        return {**self.hidden, **{s.id: s.readonly for s in self.look.shards}}

    @property
    def landed(self) -> frozenset[int]:
        """Those of `seen` that take no more logs, and all of them are in the table."""
        return _landed(self.look, self.seen)

    def standing(self, shard: Shard) -> str:
        """How far the table is with a listed shard, for people.

        What is done comes first, then what a person decided, then what it waits for.
        """
        entry = self.look.ledger.shards.get(shard.id)
        if entry is not None and entry.closed:
            return "closed: all of it has landed"
        waits = [p for p in sorted(self.parents[shard.id]) if not self.look.ledger.closed([p])]
        if shard.id in self.look.paused:
            return "paused"
        if not self.look.logstore.reads(shard.id):
            return "nobody reads it" if shard.id in self.look.unread else "left to others"
        if waits and entry is None:
            return f"waits for {_named(waits)}"
        if shard.id in self.ends:
            return "read-only, not yet read to its end"
        return "open" if entry is not None else "not landed yet"


def topology(client: SlsClient, look: Look, known: Mapping[int, bool]) -> Topology:
    """The shards now; one call more for each that closes, and for each of the `known` (whether read-only)
    that is not listed.

    A shard that is missing from the list is asked for itself. Two kinds of answers agree: it is gone. It
    answers: the list was cut short, and it counts as there.
    """
    missing = sorted({*known} - {s.id for s in look.shards})
    closing = [s.id for s in look.shards if s.readonly and _open(look, s.id)]

    def end(shard: int) -> Cursor | None:
        try:
            return client.cursor_at(shard, "end")
        except ShardGone:
            return None

    lost = dict(answers(end, missing))
    ends = dict(answers(end, closing))
    left = {shard for shard, at in lost.items() if at is None}
    return Topology(
        look,
        parents(look.shards),
        {shard: at for shard, at in ends.items() if at is not None},
        frozenset(left),
        {shard: known[shard] for shard in missing if shard not in left},
    )


def events(before: Seen | None, now: Topology) -> tuple[Event, ...]:
    """What changed since `before`, oldest shards first; nothing at the first look.

    Worked example: 0 was seen. Now 0 is read-only, and 1 and 2 are there with 0 as their parent: one event
    says that 0 was split into 1 and 2, and that it is read-only is not said beside it.
    """
    if before is None:
        return ()
    if before.origin != now.look.ledger.origin:
        return (Event(Lineage.MADE_ANEW),)
    found: list[Event] = []
    new = [s.id for s in now.look.shards if s.id not in before.shards]
    explained: set[int] = set()
    for above, children in _families(new, now.parents).items():
        explained.update(above)
        if not above:
            found.extend(Event(Lineage.APPEARED, (child,)) for child in children)
        else:
            found.append(Event(Lineage.SPLIT if len(above) == 1 else Lineage.MERGED, above, children))
    turned = (s for s, readonly in now.seen.items() if readonly and before.shards.get(s) is False)
    found.extend(Event(Lineage.READONLY, (shard,)) for shard in sorted(turned) if shard not in explained)
    found.extend(Event(Lineage.DELETED, (shard,)) for shard in sorted(now.deleted & before.shards.keys()))
    return tuple(found)


def due(before: Seen | None, now: Topology) -> dict[int, Cursor]:
    """The closing shards whose drain nobody asked for yet, with their end. A paused shard is not drained, and
    one that the settings do not name is somebody else's.

    Worked example: shard 0 is read-only, its end is 120, and its drain was asked for: nothing is due. At the
    next look its end is 130, so the first answer was an old one: its drain is due once more.
    """
    asked = before.asked if before is not None and before.origin == now.look.ledger.origin else {}
    reads, paused = now.look.logstore.reads, now.look.paused
    return {s: end for s, end in now.ends.items() if asked.get(s) != end and s not in paused and reads(s)}


def remembered(before: Seen | None, now: Topology, asked: Iterable[int]) -> Seen:
    """What the next look has to know, after the drain of the shards `asked` was asked for.

    What was asked for a shard that is not closing any more need not be known.
    """
    same = before is not None and before.origin == now.look.ledger.origin
    old = {s: end for s, end in before.asked.items() if s in now.ends} if same and before else {}
    return replace(
        Seen(now.look.ledger.origin, now.seen, now.landed),
        asked={**old, **{shard: int(now.ends[shard]) for shard in asked}},
    )


def _landed(look: Look, shards: Iterable[int]) -> frozenset[int]:
    return frozenset(shard for shard in shards if look.ledger.closed([shard]))


def _open(look: Look, shard: int) -> bool:
    entry = look.ledger.shards.get(shard)
    return entry is not None and not entry.closed


def _families(
    new: Iterable[int], above: Mapping[int, frozenset[int]]
) -> Mapping[tuple[int, ...], tuple[int, ...]]:
    """New shards by their parents.

    Worked example: 1 and 2 came of 0, and 3 of nobody: `{(0,): (1, 2), (): (3,)}`. One key is one split or
    one merge, however many shards it made.
    """
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for child in new:
        key = tuple(sorted(above[child]))
        found[key] = (*found.get(key, ()), child)
    return found


def _named(shards: Iterable[int]) -> str:
    names = [str(shard) for shard in shards]
    return f"shard{'s' * (len(names) > 1)} {', '.join(names)}"
