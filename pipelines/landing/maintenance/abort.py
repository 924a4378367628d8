"""A landing that a person aborts: its run can publish it no more, and its files are left to the sweep.

The commit names the landing in a property of the table, and moves `main`. Whatever its run sends was checked
against the `main` before: it is refused, the run loads the table, finds itself named, and ends. So nothing
that is paused, or on its way, can pass. No row and no ledger changes; the next run lands what this one had
pulled.

Worked example: a driver was suspended between its last file and its commit. `landings show --state hanging`
shows run 3f9c01aa, no sign of life for two hours. `landings abort 3f9c01aa --execute`; the driver wakes, its
try is refused, and its run ends with LandingConflict. The sweep deletes the files once they are a day old.
"""

from dataclasses import replace
from functools import partial

from pipelines.landing.commit import authored
from pipelines.landing.commit.planned import Planned
from pipelines.landing.inspection.landings import OneLanding, Stage, landings_in, one_of
from pipelines.landing.ledger import epochs
from pipelines.landing.ledger.place import Trust, look_at
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import SWEEP_FLOOR_S, Lake
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ConfigError

_KEPT_S = int(2 * SWEEP_FLOOR_S)
"""How long a landing stays named: its files are published by nobody once half the sweep's floor is over, and
no two clocks are wrong by the rest."""


def plan_abort(
    lake: Lake, logstore: Logstore, run: str, *, clock: Clock = SYSTEM_CLOCK
) -> Planned[OneLanding]:
    """What aborting the landing `run` means now. Changes nothing, and asks no service. Others may commit
    meanwhile, then it is looked up again.

    Raises ConfigError when there is no such landing or it is committed, LedgerBroken when the table cannot
    be trusted, else as `landings_of`.
    """
    place = look_at(lake, logstore.table, trust=Trust.SOUND)
    landing = one_of(landings_in(place.table, logstore, clock=clock), run)
    if landing.state is Stage.COMMITTED:
        raise ConfigError(
            f"landing {landing.run} is committed (snapshot {landing.snapshot_id}): nothing is to be aborted. "
            "A rollback or an undo takes rows back"
        )
    if landing.state is Stage.ABORTED:
        return Planned(landing, place, None, nothing=f"landing {landing.run} is aborted already")
    now_s = int(clock.now())
    aborted = epochs.with_aborted(place.state.aborted, landing.run, now_s=now_s, kept_s=_KEPT_S)
    change = authored.unchanged(place.head, place.state, Deed(Operation.ABORT, landing.run))
    change = replace(change, properties={epochs.ABORTED_PROPERTY: epochs.encode_aborted(aborted)})
    return Planned(landing, place, change, again=partial(plan_abort, lake, logstore, run, clock=clock))
