"""Shards that live runs leave alone until somebody says otherwise.

What is paused stands in a property of the table, beside the ledger and in a commit of its own: it outlives
runs, deployments and rollbacks, and the table's history says when it was asked for. Nothing of a paused shard
lands by itself, nothing of it is given up, and its children wait for it; a backfill that names hours lands
them. A run that has begun goes on with the shards it planned.

Worked example: shard 3 sends what breaks a downstream job. `shards pause 3`: the next run lands the others
and says that 3 is paused. `shards resume 3`: the next run goes on at the frontier of 3. What retention took
meanwhile is a named gap, as after any other standstill, and the runway warns before.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyiceberg.table import Table

from pipelines.landing.commit import authored
from pipelines.landing.ledger.start import check_origin, find_table
from pipelines.landing.ledger.state import TableState, check_adds_up, read_state
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import ConfigError


@dataclass(frozen=True)
class Pause:
    """What changes: the shards that are paused before and after, and those that somebody named."""

    table: str
    origin: str
    named: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class PlannedPause:
    """A pause, or the end of one, and the table it was planned on."""

    view: Pause
    operation: Operation
    table: Table
    state: TableState


def plan_pause(lake: Lake, logstore: Logstore, client: SlsClient, shards: Iterable[int]) -> PlannedPause:
    """What pausing these shards would change. Changes nothing.

    Raises ConfigError when nothing has landed yet, or a shard is closed, or nobody knows it.
    """
    return _planned(lake, logstore, client, shards, Operation.PAUSE)


def plan_resume(lake: Lake, logstore: Logstore, client: SlsClient, shards: Iterable[int]) -> PlannedPause:
    """What resuming these shards would change. Changes nothing. Raises ConfigError when nothing has landed
    yet."""
    return _planned(lake, logstore, client, shards, Operation.RESUME)


def execute_pause(lake: Lake, planned: PlannedPause, *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Commit it; the new snapshot. Raises what `authored.commit` does."""
    state, view = planned.state, planned.view
    head = planned.table.current_snapshot()
    if head is None:
        raise ConfigError(f"nothing has landed in {view.table} yet")
    change = authored.Change(
        head,
        state.ledgers,
        state.adopted,
        Deed(planned.operation, ",".join(map(str, view.named))),
        forgotten=state.forgotten,
        same_rows=True,
        paused={view.origin: frozenset(view.after)},
    )
    return authored.commit(lake, planned.table, state, change, now_ms=int(clock.now() * 1000))


def _planned(
    lake: Lake, logstore: Logstore, client: SlsClient, shards: Iterable[int], operation: Operation
) -> PlannedPause:
    origin, table = client.origin(), find_table(lake, logstore, client)
    if table is None or table.current_snapshot() is None:
        raise ConfigError(
            f"nothing has landed in {logstore.table} yet, and what is paused is kept with the table: run "
            "`sls-lake land` first"
        )
    state = read_state(table)
    check_adds_up(table, "nothing was changed")
    origin_id = check_origin(state, origin, logstore.table).id
    named, before = frozenset(shards), state.paused_of(origin_id)
    if operation is Operation.PAUSE:
        ledger = state.ledger(origin_id)
        there = {s.id for s in client.shards()} | ledger.shards.keys()
        if unknown := sorted(named - there):
            raise ConfigError(f"no such shard: {_list(unknown)}; there are {_list(sorted(there))}")
        if closed := sorted(s for s in named if s in ledger.shards and ledger.shards[s].closed):
            raise ConfigError(f"closed already, nothing more of it lands: shard {_list(closed)}")
        after = before | named
    else:
        after = before - named
    view = Pause(logstore.table, origin_id, tuple(sorted(named)), tuple(sorted(before)), tuple(sorted(after)))
    return PlannedPause(view, operation, table, state)


def _list(shards: Iterable[int]) -> str:
    return ", ".join(map(str, shards))
