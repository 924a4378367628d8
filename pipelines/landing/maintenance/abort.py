"""A landing that a person aborts: its run can publish it no more, and its files are left to the sweep.

The commit names the landing in a property of the table, and moves `main`. Whatever its run sends was checked
against the `main` before: it is refused, the run loads the table, finds itself named, and ends. So nothing
that is paused, or on its way, can pass. No row and no ledger changes; the next run lands what this one had
pulled.

Worked example: a driver was suspended between its last file and its commit. `landings hanging` shows run
3f9c01aa, no sign of life for two hours. `landings abort 3f9c01aa --execute`; the driver wakes, its try is
refused, and its run ends with LandingConflict. The sweep deletes the files once they are a day old.
"""

from dataclasses import dataclass

from pyiceberg.table import Table

from pipelines.landing.commit import authored
from pipelines.landing.inspection.landings import OneLanding, Stage, landings_in
from pipelines.landing.ledger import epochs
from pipelines.landing.ledger.state import TableState, read_state
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import SWEEP_FLOOR_S, Lake
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import ConfigError, LandingConflict

_TRIES_MAX = 5
_KEPT_S = int(2 * SWEEP_FLOOR_S)
"""How long a landing stays named: its files are published by nobody once half the sweep's floor is over, and
no two clocks are wrong by the rest."""


@dataclass(frozen=True)
class PlannedAbort:
    """A landing that is to be aborted, and the table it was looked up in; `needed` is False where nothing of
    it can be published as it is."""

    landing: OneLanding
    needed: bool
    table: Table
    state: TableState


def plan_abort(lake: Lake, logstore: Logstore, run: str, *, clock: Clock = SYSTEM_CLOCK) -> PlannedAbort:
    """What aborting the landing `run` means now. Changes nothing, and asks no service.

    Raises ConfigError when there is no such landing or it is committed, LedgerBroken when the table cannot
    be trusted, else as `landings_of`.
    """
    table = lake.load(logstore.table)
    if table is None or table.current_snapshot() is None:
        raise ConfigError(f"nothing has landed in {logstore.table} yet, so nothing is on its way to it")
    state = read_state(table)
    landing = landings_in(table, logstore, clock=clock).one(run)
    if landing.state is Stage.COMMITTED:
        raise ConfigError(
            f"landing {landing.run} is committed (snapshot {landing.snapshot_id}): nothing is to be aborted. "
            "`sls-lake table rollback` and `sls-lake table undo` take rows back"
        )
    return PlannedAbort(landing, landing.state is not Stage.ABORTED, table, state)


def execute_abort(
    lake: Lake, logstore: Logstore, planned: PlannedAbort, *, clock: Clock = SYSTEM_CLOCK
) -> int:
    """Commit it; the new snapshot. Others may commit meanwhile, then it is looked up again.

    Raises as `plan_abort`, so also when the landing was committed meanwhile, and as `authored.commit`.
    """
    for _ in range(_TRIES_MAX):
        state, head, now_s = planned.state, planned.table.current_snapshot(), int(clock.now())
        if head is None:
            raise ConfigError(f"nothing has landed in {logstore.table} yet")
        aborted = epochs.with_aborted(state.aborted, planned.landing.run, now_s=now_s, kept_s=_KEPT_S)
        change = authored.Change(
            head,
            state.ledgers,
            state.adopted,
            Deed(Operation.ABORT, planned.landing.run),
            forgotten=state.forgotten,
            same_rows=True,
            properties={epochs.ABORTED_PROPERTY: epochs.encode_aborted(aborted)},
        )
        try:
            return authored.commit(lake, planned.table, state, change, now_ms=now_s * 1000)
        except LandingConflict:
            planned = plan_abort(lake, logstore, planned.landing.run, clock=clock)
    raise LandingConflict(
        f"others committed to {logstore.table} before each try, so nothing was aborted; run it again"
    )
