"""Take whole receive hours back: their files leave, their intervals count as withdrawn. One commit.

The frontiers stay where they are, so no live run lands the hours again; a backfill that names them
does, and so does `replace.py`, in one commit. Only hours that every frontier has passed are taken
back: of an hour that is still being landed nobody could say what is missing of it.

What is withdrawn of a shard is all that has landed of the hour: from the service's own edges of the
hour as far as retention still has it, and in any case from the first cursor of its rows to the last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyiceberg.table import FileScanTask

from pipelines.landing import settle, slices
from pipelines.landing.hours import hours_text
from pipelines.landing.ledger import withdrawn
from pipelines.landing.logstore import Logstore
from pipelines.landing.slices import Part, Place
from pipelines.landing.table import Lake
from sls_io.claim import Ledger
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import ConfigError, ShardGone
from sls_io.window import HOUR_S, IntervalSet


@dataclass(frozen=True)
class ShardUndone:
    """One shard: rows that leave, rows its ledger keeps, and the cursor intervals withdrawn."""

    shard: int
    rows: int
    rows_after: int
    withdrawn: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Undo:
    """What `table undo` would do. `hours` are receive hours (since 1970) with their rows."""

    table: str
    origin: str
    hours: Mapping[int, int]
    rows: int
    files: int
    file_bytes: int
    shards: tuple[ShardUndone, ...]


@dataclass(frozen=True)
class Planned:
    """An undo with the exact table it was looked at; `execute` commits on that one or not at all."""

    view: Undo
    place: Place
    ledger: Ledger
    taken: Mapping[int, IntervalSet]
    tasks: tuple[FileScanTask, ...]
    change: settle.Change


def plan(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    hours: range,
    *,
    verb: str = "undo",
    counted: bool = True,
) -> Planned:
    """Look at what taking these receive hours back would do. Changes nothing.

    `counted`: the rows that are there must be as many as the ledger says.

    Raises ConfigError when there is nothing to take back, a frontier has not passed all of the hours,
    or rows of them were removed by decision; LedgerBroken when the table cannot be trusted.
    """
    place = slices.look(lake, logstore, client)
    slices.check_passed(place, client, hours.stop)
    slices.check_not_forgotten(place, hours)
    if counted:
        slices.check_counted(place)
    tasks = slices.whole_files(place, hours)
    parts = slices.parts_of(place, tasks)
    if not tasks:
        raise ConfigError(f"{place.name} has no rows of these hours: there is nothing to take back")
    slices.check_explained(place, parts, adopted_too=False)
    taken = _taken(client, place.ledger, parts)
    ledger = place.ledger.with_shards(
        {
            shard: withdrawn(
                place.ledger.shards[shard],
                intervals,
                rows=sum(p.rows for p in parts if p.shard == shard),
                total=sum(p.sum for p in parts if p.shard == shard),
            )
            for shard, intervals in taken.items()
        }
    )
    state = place.state
    return Planned(
        view=_view(place, ledger, parts, tasks),
        place=place,
        ledger=ledger,
        taken=taken,
        tasks=tuple(tasks),
        change=settle.Change(
            content=place.head,
            ledgers={**state.ledgers, ledger.origin: ledger},
            adopted=state.adopted,
            verb=f"{verb} {hours_text(hours)}",
            forgotten=state.forgotten,
            dropped=frozenset(task.file.file_path for task in tasks),
        ),
    )


def execute(lake: Lake, planned: Planned, *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Commit a planned undo; the new snapshot. Raises what `settle.commit` does."""
    place = planned.place
    return settle.commit(lake, place.table, place.state, planned.change, now_ms=int(clock.now() * 1000))


def _taken(client: SlsClient, ledger: Ledger, parts: Iterable[Part]) -> dict[int, IntervalSet]:
    """What is landed of the parts' hours, per shard."""
    found: dict[int, IntervalSet] = {}
    for part in parts:
        among = IntervalSet.of([(part.first, part.last + 1), *_edges(client, part)])
        found[part.shard] = found.get(part.shard, IntervalSet()).union(among)
    landed = {shard: ledger.shards[shard].landed for shard in found}
    return {shard: landed[shard].minus(landed[shard].minus(among)) for shard, among in found.items()}


def _edges(client: SlsClient, part: Part) -> list[tuple[int, int]]:
    """The hour's cursors as the service has them; nothing once retention took all of it."""
    try:
        begin, end = (client.cursor_at(part.shard, (part.hour + more) * HOUR_S) for more in (0, 1))
    except ShardGone:
        return []
    return [(int(begin), int(end))] if begin < end else []


def _view(place: Place, ledger: Ledger, parts: tuple[Part, ...], tasks: list[FileScanTask]) -> Undo:
    hours = sorted({p.hour for p in parts})
    shards = sorted({p.shard for p in parts})
    before = place.ledger
    return Undo(
        table=place.name,
        origin=ledger.origin,
        hours={hour: sum(p.rows for p in parts if p.hour == hour) for hour in hours},
        rows=sum(p.rows for p in parts),
        files=len(tasks),
        file_bytes=sum(task.file.file_size_in_bytes for task in tasks),
        shards=tuple(
            ShardUndone(
                shard=shard,
                rows=before.shards[shard].rows - ledger.shards[shard].rows,
                rows_after=ledger.shards[shard].rows,
                withdrawn=ledger.shards[shard].withdrawn.minus(before.shards[shard].withdrawn).pairs,
            )
            for shard in shards
        ),
    )
