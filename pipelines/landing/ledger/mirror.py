"""A table's positions, kept a second time: in a file, a database or another consumer group.

The table is the truth, and its group follows it. A mirror is for other readers, that go on where the table is
when its group is lost, or nobody reaches the catalog. After its checkpoints each live run copies what the
ledger says by then of every shard that the service lists, forwards only (`sls_io/checkpoints/copying.py`).

Where the table goes back, by a rollback or a decision, the mirror is ahead of it: a reader that begins there
would skip what lands again. No run takes it back, since somebody may read there; that is said, with the
command that does. So is a shard that a person put elsewhere, which stays until the ledger is put there again.

A mirror never costs a landing anything. It is written when the shards have been let go of, waited for only so
long, and what goes wrong is told. The next run copies again, whether it lands something or not.

How far it is behind is counted in receive time, from the log at the mirror's place to what the table has
reached: as much would a reader that begins there read a second time, and no clock of the store is asked.

Worked example: the table has reached 10:00 in shards 0 and 1. The mirror is at the frontier of shard 0, and
in shard 1 at a log of 08:30: one shard is behind, by 5,400 s; at 2,000 raw bytes a second about 10.8 MB.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from pyiceberg.table import Table

from pipelines.landing.coordinators import kept_in
from pipelines.landing.ledger.left import rates_of
from pipelines.landing.ledger.start import table_and_ledger
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints.copying import Move, copy, written
from sls_io.checkpoints.store import Fate, Kept, Written
from sls_io.values.claim import CURSOR_UNKNOWN, Ledger
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.deadline import NoAnswer, answered
from sls_io.values.errors import NO_GROUP_CODE, ServiceError, ShardGone, SlsError
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient

WAIT_S = 30.0
"""How long a run waits for its mirror."""


@dataclass(frozen=True)
class Mirrored:
    """Where a mirror stands.

    place      the store, for people
    shards     how many the table has, of those that the service lists; 0 where the mirror cannot be read
    moved      how many of them have just been copied
    behind     how many of them the mirror has not, or not as far
    lag_s      by how many receive seconds the worst of these is behind
    raw_bytes  how much all of them are behind together, about; None where nobody can tell
    trouble    why it could not be written or read, "" for no reason
    ahead      how many shards the mirror has further than the table
    frozen     how many shards a person put elsewhere: no run moves them
    no_group   whether the trouble is that the consumer group is not there
    """

    place: str
    shards: int = 0
    moved: int = 0
    behind: int = 0
    lag_s: float = 0.0
    raw_bytes: int | None = 0
    trouble: str = ""
    ahead: int = 0
    frozen: int = 0
    no_group: bool = False

    def __str__(self) -> str:
        if self.trouble:
            return f"{self.place}: {self.trouble}"
        if not self.shards:
            return f"{self.place}: nothing has landed yet"
        there = self.shards - self.behind - self.ahead
        further = f"; {self.ahead} further: who begins there skips logs" if self.ahead else ""
        return f"{self.place}: {there} of {self.shards} shards are where the table is{further}"


def mirrored(
    logstore: Logstore, lake: Lake, *, clock: Clock = SYSTEM_CLOCK, wait_s: float = WAIT_S
) -> Mirrored | None:
    """Copy what the table has now; None where no mirror is set. Raises nothing that a store, the service or
    the catalog say."""
    if not logstore.mirror:
        return None

    def copied() -> Mirrored:
        with closing(SlsClient(logstore.service, clock=clock)) as client:
            return standing(logstore, lake, client, write=True)

    try:
        return answered(copied, deadline_s=wait_s)
    except NoAnswer:
        return Mirrored(logstore.mirror, trouble=f"no answer within {wait_s:g} s")
    except (SlsError, OSError) as error:
        return Mirrored(logstore.mirror, trouble=str(error))


def standing(logstore: Logstore, lake: Lake, client: SlsClient, *, write: bool = False) -> Mirrored:
    """Where the mirror stands; `write`: after copying what the table has.

    Raises LedgerBroken and ConfigError for a table that cannot be trusted, TransportError and ServiceError.
    """
    landed = _landed(logstore, lake, client)
    if landed is None or not landed.frontiers:
        return Mirrored(logstore.mirror)
    done = dict[int, Written]()
    try:
        store = kept_in(logstore.mirror, logstore, client, written=write, known_as=landed.ledger.origin)
        kept = store.read()
        moves = copy(landed.frontiers, kept, {}, forward_only=True, shards=landed.frontiers)
        if write:
            done = {one.shard: one for one in written(store, moves, forward_only=True)}
    except SlsError as error:
        no_group = isinstance(error, ServiceError) and error.code == NO_GROUP_CODE
        return Mirrored(logstore.mirror, trouble=str(error), no_group=no_group)
    ahead = _ahead(moves, kept, landed.frontiers)
    # A run that landed since the look has its mirror further: only what the table has by now can tell.
    now = _landed(logstore, lake.anew(), client) if ahead else None
    ahead = _ahead(moves, kept, now.frontiers) if now is not None else ahead
    late = [m for m in moves if m.difference in ("behind", "frozen") and m.shard not in _there(done) | ahead]
    seconds = {move.shard: _behind_s(landed.ledger, client, move) for move in late}
    return Mirrored(
        store.name,
        shards=len(moves),
        moved=[one.fate for one in done.values()].count("sent"),
        behind=len(late),
        lag_s=max(seconds.values(), default=0.0),
        raw_bytes=_bytes(rates_of(landed.table, landed.ledger), seconds) if late else 0,
        trouble="; ".join(_troubles(moves, done)[:_SAID_MAX]),
        ahead=len(ahead),
        frozen=sum(move.difference == "frozen" for move in moves),
    )


def _troubles(moves: Iterable[Move], done: Mapping[int, Written]) -> list[str]:
    """Why shards are not where the table is, a line each."""
    frozen = {move.shard: _WHY["frozen"] for move in moves if move.difference == "frozen"}
    refused = {s: one.why or _WHY[one.fate] for s, one in done.items() if one.fate in _WHY}
    return [f"shard {shard}: {why}" for shard, why in (frozen | refused).items()]


def _there(done: Mapping[int, Written]) -> frozenset[int]:
    """Shards of which the mirror has by now what was to be written. Story: A reads the mirror, B lands and
    copies, and A's copy is behind that: the mirror is further than A has read, and not behind the table."""
    return frozenset(shard for shard, one in done.items() if one.fate in ("sent", "ahead"))


def _ahead(
    moves: Iterable[Move], kept: Mapping[int, Kept], frontiers: Mapping[int, Cursor]
) -> frozenset[int]:
    """Shards that the mirror has further. Who reads there now is further by what it has read: no trouble of
    the mirror. Of a shard that is not listed any more nobody can tell."""
    return frozenset(
        shard
        for shard in (move.shard for move in moves)
        if shard in kept
        and not kept[shard].holder
        and (kept[shard].cursor or 0) > frontiers.get(shard, CURSOR_UNKNOWN)
    )


_WHY: Mapping[Fate, str] = {
    "failed": "it could not be written",
    "held": "somebody reads there",
    "frozen": "a person put it elsewhere, and no run moves it on",
}
_SAID_MAX = 3


class _Landed(NamedTuple):
    """A table's ledger of this logstore, and the frontiers of the listed shards."""

    table: Table
    ledger: Ledger
    frontiers: Mapping[int, Cursor]


def _landed(logstore: Logstore, lake: Lake, client: SlsClient) -> _Landed | None:
    """What the table has now; None where there is no table. Raises as `standing`."""
    table, ledger, _ = table_and_ledger(lake, logstore, client)
    return None if table is None else _Landed(table, ledger, _frontiers(ledger, client))


def _frontiers(ledger: Ledger, client: SlsClient) -> dict[int, Cursor]:
    """Of the listed shards: the service has no place for a reader in others."""
    listed = {shard.id for shard in client.shards()}
    entries = ledger.shards.items()
    return {s: e.frontier for s, e in entries if s in listed and e.frontier != CURSOR_UNKNOWN}


def _behind_s(ledger: Ledger, client: SlsClient, move: Move) -> float:
    """Where the mirror has nothing of a shard, its reader would begin where the table did."""
    entry = ledger.shards[move.shard]
    begins = entry.start if move.checkpoint is None else move.checkpoint
    try:
        since_s = client.waits_since_s(move.shard, begins)
    except ShardGone:
        return 0.0
    return 0.0 if since_s is None else max(0.0, entry.reached_s - since_s)


def _bytes(rates: Mapping[int, float], seconds: Mapping[int, float]) -> int | None:
    known = [rates[shard] * behind_s for shard, behind_s in seconds.items() if shard in rates]
    return int(sum(known)) if len(known) == len(seconds) else None
