"""The contract of everything that keeps positions without owners, and what is the same for all of them.

    read    what is kept, per shard     -> a shard without an entry has none; a failed read raises
    write   monotone, per shard         -> sent, ahead (kept as it was) or frozen; one failure stops no other
    place   the only way back           -> whatever was kept; and frozen: no later write moves it
    thaw    writes move it again        -> where it is still what was read
    forget  what is not held any more   -> forgets these shards

A coordinator says who reads which shard, and publishes checkpoints as the holder. A store asks for no
claim: it serves readers that nobody coordinates, a mirror, a person's tool. What has landed stands in the
table's ledger, whatever a store keeps. One contract suite runs over all stores.

Why a reset freezes. Story: a reader stands at 100, a person resets its shard to 50. The reader still runs
and writes 101: without the freeze the reset is gone, and nobody is told. Frozen, that write is refused and
says so, and the next reader begins at 50: `begin` thaws what it hands out.

Why `thaw` and `forget` name what they mean, and not what shall be left. Story: a reader reads 50, a person
resets the shard once more, to 20, and the reader thaws it: its next write would undo a reset that it never
saw. Or a copy reads that a shard is too many, a reader keeps its first position of another one, and the copy
forgets all but what it had read.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from sls_io.coordination.coordinator import Published
from sls_io.values.window import Cursor

Fate = Published | Literal["frozen", "held", "failed"]
"""What became of one shard: sent; ahead: what is kept is further, and stays; frozen: no write moves it; held:
somebody reads it; failed, with its reason."""

CURSOR_MAX = 2**63 - 2
"""The largest cursor; the next number stands for an end that nobody knows."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store has of one shard. `cursor` is None before the first one; `saved_s` is unix seconds, 0
    where unknown; `holder` is who the service says reads it."""

    cursor: Cursor | None
    saved_s: float = 0.0
    frozen: bool = False
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one shard's write; `kept` is the cursor that the store has now, where that is known."""

    shard: int
    fate: Fate
    kept: Cursor | None = None
    why: str = ""


class CheckpointStore(Protocol):
    """Positions of one reader in one logstore. Two processes may use one store at a time."""

    @property
    def name(self) -> str:
        """Where it is, for people; never a password."""
        ...

    def read(self) -> Mapping[int, Kept]:
        """All that is kept. Raises StoreError, TransportError or ServiceError; never "none" instead."""
        ...

    def write(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        """Keep these, by shard, in order of shard. An equal cursor is sent again, a lower one is not.

        Raises as `read` does where the store as a whole cannot be written; then nothing counts as sent.
        """
        ...

    def thaw(self, at: Mapping[int, Cursor | None]) -> None:
        """Let `write` move these again, where they are still at this cursor: one that was placed since stays
        frozen."""
        ...

    def place(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        """Keep these, also lower ones, and freeze them in the same change: from now on no `write` moves them,
        whoever asks. Raises as `write` does; then nothing is placed and nothing frozen."""
        ...

    def forget(self, shards: Collection[int]) -> frozenset[int]:
        """Forget these shards; those that were forgotten."""
        ...


Change = Callable[[dict[int, Kept], Mapping[int, Cursor], float], list[Written]]
"""What cursors, at a time, come to in a store that has these shards; they become what it has then."""


def keep_further(shards: dict[int, Kept], cursors: Mapping[int, Cursor], now_s: float) -> list[Written]:
    """The rule of `write`."""
    written = []
    for shard, cursor in sorted(cursors.items()):
        kept = shards.get(shard)
        fate = fate_of(kept, cursor)
        if fate == "sent":
            kept = shards[shard] = Kept(cursor, now_s)
        after = kept.cursor if kept else None
        written.append(impossible(shard) if fate == "failed" else Written(shard, fate, after))
    return written


def put_back(shards: dict[int, Kept], cursors: Mapping[int, Cursor], now_s: float) -> list[Written]:
    """The rule of `place`."""
    written = []
    for shard, cursor in sorted(cursors.items()):
        if not possible(cursor):
            written.append(impossible(shard))
        else:
            shards[shard] = Kept(cursor, now_s, frozen=True)
            written.append(Written(shard, "sent", cursor))
    return written


def thawed(shards: dict[int, Kept], at: Mapping[int, Cursor | None]) -> None:
    """The rule of `thaw`: `shards` become what the store has then."""
    for shard in shards.keys() & at.keys():
        if shards[shard].cursor == at[shard]:
            shards[shard] = replace(shards[shard], frozen=False)


def forgotten(shards: dict[int, Kept], chosen: Collection[int]) -> frozenset[int]:
    """The rule of `forget`: `shards` become what the store has then."""
    gone = frozenset(shards).intersection(chosen)
    for shard in gone:
        del shards[shard]
    return gone


def fate_of(kept: Kept | None, cursor: Cursor) -> Fate:
    """What a monotone write of `cursor` comes to, where `kept` is there.

    Worked example: 80 is kept. 90 is sent, 80 too, since a repeated one may be what makes the service look;
    70 stays behind (`ahead`).
    """
    if not possible(cursor):
        return "failed"
    if kept is None:
        return "sent"
    if kept.frozen:
        return "frozen"
    return "ahead" if kept.cursor is not None and kept.cursor > cursor else "sent"


def possible(cursor: int) -> bool:
    """Whether the service can have such a cursor."""
    return 0 <= cursor <= CURSOR_MAX


def filling(command: str) -> str:
    """What a person does about a store that is lost; `command` does it, "" where nobody has all its words."""
    how = f"({command})" if command else "as `checkpoints set` does"
    return f"fill a new one from another store {how}"


def impossible(shard: int) -> Written:
    """The answer to a cursor that is none."""
    return Written(shard, "failed", why="not a cursor: the service's are whole numbers of 63 bits")
