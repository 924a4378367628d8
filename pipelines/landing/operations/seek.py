"""A table's shards put at other cursors: hours landed again behind a frontier, logs skipped before it.

A seek both ways. No frontier moves back, since what has landed would land twice then.

    below the frontier   the receive hours from that cursor on are landed again (`replace.py`), the last one
                         up to the frontier, in one commit in which the ledger stays what it is, so that
                         `verify` proves the same rows
    above it             live runs go on there, and what lies between is owed (`skip.py`)

Shards of both kinds are one commit, too. An hour is landed again with all its shards, also those that were
not named: an hour's rows are proven together. One part of what was asked for cannot be done, and is named: an
hour at the begin of which retention has taken a part.

Worked example: shards 0 and 1 have landed up to 09:20, and are put at 07:30. Hours 07 and 08 are landed
again, and of hour 09 what came before 09:20.

Why one commit for both kinds, and not two: the second one may be refused when the first one stands, and then
a person has half of what was asked for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from pipelines.landing.commit.effect import Effect, Note, Row
from pipelines.landing.commit.planned import Planned
from pipelines.landing.contents.holdings import Asking
from pipelines.landing.coordinators import coordinator_of, holders
from pipelines.landing.hours import hour_text, hours_text, moment_text
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.start import known, leased_as
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.reach import first_hour_of
from pipelines.landing.operations.replace import PlannedReplace, plan_replace
from pipelines.landing.operations.skip import Skip, plan_skip
from pipelines.landing.operations.undo import kept_whole
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints.moving import refuse_holders
from sls_io.checkpoints.store import Kept
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.errors import ConfigError
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.client import SlsClient

Way = Literal["again", "skip", "stays", "unsettled"]


@dataclass(frozen=True)
class Sought:
    """One shard: its frontier, the cursor it is put at, and what that means; how its place was found, and
    what became of its checkpoint. `cursor` is never beyond what live runs may read by now; None where nothing
    is said of the shard, or nothing of it has landed. `unsettled`: all that lies between frontier and place
    is too young for a live run, so there is nothing to pass over yet."""

    shard: int
    frontier: Cursor | None
    cursor: Cursor | None
    way: Way
    place: str = ""
    outcome: str | None = None


@dataclass(frozen=True)
class PlannedSeek(Effect):
    """What a seek does, with the exact table it was looked at.

    source   what the shards are put at, in words, and `readers` who is in the way of that
    hours    receive hours (since 1970) that are landed again
    gone     hours that were asked for and of which retention has taken a part
    """

    WHAT = "{source} to table {table}"
    QUIET = frozenset({"readers"})

    table: str
    shards: tuple[Sought, ...]
    skip: Planned[Skip]
    again: PlannedReplace | None = None
    hours: range = range(0)
    gone: range = range(0)
    source: str = ""
    readers: tuple[str, ...] = ()
    follows: bool = True
    settle_s: int = 0

    def said(self) -> Iterable[Note]:
        if self.again is not None:
            yield Note(
                f"landed again, with all shards: {hours_text(self.hours)}; {self.again.view.rows:,} rows "
                f"in {self.again.view.files} files leave, and {self.again.view.windows} windows are "
                "pulled and landed instead, in the same commit"
            )
            yield from self.again.view.said()
        for one in self.skip.view.shards:
            owed = _text(one.hours) or "what retention has not taken"
            yield Note(f"shard {one.shard}: {owed} is owed then; runs and verify name the backfill")
        if self.gone:
            yield Note(f"not again: {self.lost}", "warn")
        if young := [one.shard for one in self.shards if one.way == "unsettled"]:
            settle_s = self.settle_s
            yield Note(
                f"shard {', '.join(map(str, young))}: logs are there, and none has settled: they came in the "
                f"last {settle_s} s. Live runs land them; to pass over them, ask again {settle_s} s later",
                "warn",
            )
        if self.follows:
            yield Note("the group's checkpoints follow the table")
        else:
            yield Note(f"live runs go on from {moment_text(self.skip.view.time_s)} UTC")
        if self.readers:
            yield Note(
                f"it is read by {', '.join(self.readers)}: --execute is refused until that has ended", "warn"
            )

    def tables(self) -> dict[str, list[Row]]:
        again = self.again.view.tables() if self.again else {}
        return super().tables() | {f"again, {name}": rows for name, rows in again.items()}

    def document(self) -> Row:
        """`cursor` is where a shard goes, `outcome` what became of its checkpoint."""
        skip, again = self.skip.view, self.again
        return {
            "from": self.source,
            "to": f"table {self.table}",
            "readers": self.readers,
            "table": self.table,
            "origin": skip.origin,
            "shards": [asdict(one) for one in self.shards],
            "again": {**again.view.document(), "hours": _text(self.hours)} if again else None,
            "owed": [asdict(one) | {"hours": _text(one.hours)} for one in skip.shards],
            "gone": _text(self.gone),
            "time_s": skip.time_s,
        }

    @property
    def lost(self) -> str:
        """A sentence about the hours that were asked for and are not landed again; "" where all are."""
        taken = f"retention has taken a part of {_text(self.gone)}, so what is there stays"
        return taken if self.gone else ""

    @property
    def decided(self) -> Planned[Any]:
        """What is committed; its engine is asked only where hours are landed again."""
        return self.again or self.skip


def plan_seek(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    cursors: Mapping[int, Cursor | None],
    *,
    forward_only: bool = False,
) -> PlannedSeek:
    """Look at what putting shards at these `cursors` would do (None: not this one). Changes nothing.
    `forward_only`: a shard that is further stays, whoever landed there since the cursors were chosen.

    Raises what `plan_replace` does, and ConfigError when nothing has landed yet, or none of the hours that
    were asked for can be landed again now and nothing is skipped.
    """
    wanted = {shard: cursor for shard, cursor in cursors.items() if cursor is not None}
    skip = plan_skip(lake, logstore, client, wanted)
    ledger = skip.place.state.ledger(skip.view.origin)
    later = {one.shard: one.target for one in skip.view.shards}
    shards = tuple(
        _sought(s, c, ledger.shards.get(s), later.get(s), forward_only=forward_only)
        for s, c in sorted(cursors.items())
    )
    settle_s = logstore.budget.settle_s
    planned = PlannedSeek(logstore.table, shards, skip, follows=not forward_only, settle_s=settle_s)
    back = {one.shard: wanted[one.shard] for one in shards if one.way == "again"}
    if not back:
        return planned
    looked, origin = skip.place, known(skip.place.state, client.origin())
    place = Place(looked.table, looked.state, looked.head, logstore, origin)
    asked = hours = _asked(place, client, ledger, back)
    asking = Asking(place, client)
    # Retention takes the oldest hours first, so hours are dropped from the front until the rest is whole. All
    # that is dropped is named as `gone`, and its rows stay in the table: a replace of them would lose what it
    # cannot pull.
    while hours and not asking.decide(partial(kept_whole, hours=hours)):
        hours = range(hours.start + 1, hours.stop)
    planned = replace(planned, hours=hours, gone=range(asked.start, hours.start))
    if not hours:
        if not skip.view.shards:
            why = planned.lost or f"{logstore.name} starts at {hour_text(asked.start)}"
            raise ConfigError(f"nothing can be landed again now: {why}")
        return planned
    again = plan_replace(lake, logstore, client, hours, skip=skip.view)
    return replace(planned, again=again)


def _text(hours: range) -> str:
    return hours_text(hours) if hours else ""


def check_unread(logstore: Logstore, lake: Lake, client: SlsClient) -> None:
    """Raises ClaimLost, naming who is there, while somebody else reads with the logstore's group.

    It joins for a moment and looks again: a member without a shard has got one by then.
    """
    known_as = leased_as(lake, logstore, client)
    refuse_holders(logstore.group, _holders(logstore, client, known_as), "Nothing was changed")
    group = coordinator_of(logstore, client, known_as=known_as)
    group.claim()
    try:
        refuse_holders(logstore.group, _holders(logstore, client, known_as), "Nothing was changed")
    finally:
        group.release()


def readers_of(logstore: Logstore, lake: Lake, client: SlsClient) -> list[str]:
    """Who else holds shards of the logstore's group now."""
    there = _holders(logstore, client, leased_as(lake, logstore, client)).values()
    return sorted({kept.holder for kept in there} - {"", logstore.group.holder})


def _sought(
    shard: int,
    cursor: Cursor | None,
    entry: ShardLedger | None,
    later: Cursor | None,
    *,
    forward_only: bool,
) -> Sought:
    """What a shard is to do; `later`: where a skip puts it, None where it does none.

    Worked example, with the frontier at 500: cursor 300 is `again`, or `stays` with `forward_only`. Cursor
    9000 with `later` 9000 is `skip`. Cursor 510 without `later` is `unsettled`: the skip was bounded by the
    settle time, which lies at 500 still. Cursor 500, a closed shard, one that was not named and one that
    nothing has landed of: `stays`.
    """
    if entry is None or cursor is None:
        return Sought(shard, entry.frontier if entry else None, None, "stays")
    if later is not None:
        return Sought(shard, entry.frontier, later, "skip")
    if cursor < entry.frontier and not forward_only:
        return Sought(shard, entry.frontier, cursor, "again")
    if cursor > entry.frontier and not entry.closed:
        return Sought(shard, entry.frontier, entry.frontier, "unsettled")
    return Sought(shard, entry.frontier, entry.frontier, "stays")


def _asked(place: Place, client: SlsClient, ledger: Ledger, back: Mapping[int, Cursor]) -> range:
    """The receive hours between these cursors and their shards' frontiers, none before the history begins.

    Where a log lies at the frontier its receive hour counts, too, as far as it has landed. Worked example:
    cursor 100 was received at 07:30 and the frontier is in hour 09: 07, 08 and 09. With the frontier at the
    shard's end, reached at 09:00, it is 07 and 08: the second 09:00:00 itself is of the next hour, which is
    why one is taken off. With a history that starts at 08:00 it is 08 alone.
    """
    begins_s = [_received_s(client, shard, cursor) for shard, cursor in back.items()]
    ends_s = []
    for shard in back:
        entry = ledger.shards[shard]
        open_ = entry.frontier < client.cursor_at(shard, "end")
        ends_s.append(max(entry.reached_s, _received_s(client, shard, entry.frontier) if open_ else 0))
    first = min(begins_s) // HOUR_S
    if first < place.logstore.start_hour:
        first = max(first, first_hour_of(place.logstore, place.table, place.state, place.origin.id))
    return range(first, max(first, (max(ends_s) - 1) // HOUR_S + 1))


def _received_s(client: SlsClient, shard: int, cursor: Cursor) -> int:
    """Receive time of the log at `cursor`, or of the oldest that is left."""
    return client.cursor_time_s(shard, max(cursor, client.cursor_at(shard, "begin")))


def _holders(logstore: Logstore, client: SlsClient, known_as: str) -> Mapping[int, Kept]:
    """Who else has each shard."""
    others = {
        shard: [name for name in names if name != logstore.group.holder]
        for shard, names in holders(logstore, client, known_as=known_as).items()
    }
    return {shard: Kept(None, holder=names[0]) for shard, names in others.items() if names}
