"""The region of a logstore in the table, put right.

A table keeps each origin as an id, which stands in every row, and a readable identity
`region/project/logstore@created`, by which settings and table find each other. Only that text is
changed, in one commit beside the rows: the id stays what the rows say, whatever it was made of once.

Worked example: a logstore was landed through an address whose first label was taken for its region,
so the table knows `logs-1a2b3c4d` as `ep-bp1abc/shop/logs@17`. The settings say `cn-hangzhou` now.
Afterwards the text is `cn-hangzhou/shop/logs@17`, the id is `logs-1a2b3c4d` still, and a landing
through any address of that region goes on where the last one ended.
"""

from dataclasses import dataclass

from pipelines.landing.commit import authored, publish
from pipelines.landing.ledger.start import check_origin, find_table, known, mislabelled, origin_text
from pipelines.landing.ledger.state import TableState, read_state
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import ConfigError


@dataclass(frozen=True)
class Relabelling:
    """What is changed: the origin's id, which stays, and its text before and after."""

    table: str
    origin: str
    before: str
    after: str


def plan_relabel(lake: Lake, logstore: Logstore, client: SlsClient) -> tuple[Relabelling, TableState]:
    """What a relabelling would do. Changes nothing.

    Raises ConfigError when nothing has landed or the label is right, LedgerBroken when another verb is
    the cure.
    """
    origin, table = client.origin(), find_table(lake, logstore, client)
    if table is None or table.current_snapshot() is None:
        raise ConfigError(f"nothing has landed in {logstore.table} yet")
    state = read_state(table)
    name = mislabelled(state, origin)
    if name is None:
        check_origin(state, origin, logstore.table)
        label = "is right" if known(state, origin).known_as else "is made by its first landing"
        raise ConfigError(f"the label of {origin.logstore} in {logstore.table} {label}: nothing to change")
    return Relabelling(logstore.table, name, state.origins[name], origin_text(origin)), state


def execute_relabel(
    lake: Lake, planned: tuple[Relabelling, TableState], *, clock: Clock = SYSTEM_CLOCK
) -> int:
    """Commit it; the new snapshot. Raises what `authored.commit` does."""
    view, state = planned
    table = lake.load(view.table)
    head = table.current_snapshot() if table is not None else None
    if table is None or head is None:
        raise ConfigError(f"{view.table} is not there any more")
    change = authored.Change(
        head,
        state.ledgers,
        state.adopted,
        Deed(Operation.RELABEL),
        publish.RegisteredOrigin(view.origin, view.after),
        forgotten=state.forgotten,
        same_rows=True,
    )
    return authored.commit(lake, table, state, change, now_ms=int(clock.now() * 1000))
