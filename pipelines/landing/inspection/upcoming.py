"""What the next live run would plan: for those who only look, in the very words of the run."""

from collections.abc import Iterable, Mapping
from functools import partial

from pyiceberg.table import Table

from pipelines.landing.ledger.left import left_alone, rates_of
from pipelines.landing.ledger.start import begins, check_ends
from pipelines.landing.ledger.state import facts
from pipelines.landing.logstore import Logstore
from sls_io.planning.plan import Patience, plan_live
from sls_io.planning.survey import look_at
from sls_io.planning.values import Plan
from sls_io.planning.waits import Wait
from sls_io.values.claim import Ledger
from sls_io.values.shard import Shard
from sls_io.wire.client import SlsClient


def upcoming(
    logstore: Logstore,
    client: SlsClient,
    table: Table | None,
    ledger: Ledger,
    shards: Iterable[Shard],
    mine: Iterable[Shard],
    *,
    until_s: int,
) -> Plan:
    """The plan of a live run that got `mine` of the listed `shards`. Changes nothing. Raises LedgerBroken
    where a shard ends before its frontier, and what the service's calls raise."""
    state = facts(table) if table is not None else None
    paused = state.paused_of(ledger.origin) if state is not None else frozenset[int]()
    listed, asked = list(shards), [s for s in mine if s.id not in paused]
    surveys = look_at(
        client,
        listed,
        asked,
        ledger,
        until_s=until_s,
        windows_max=logstore.budget.windows_max * max(1, len(asked)),
        pieces=logstore.splits_per_hour,
        spare=True,
        begins=begins(client, logstore, state, ledger.origin) if state is not None else None,
    )
    check_ends(surveys, ledger, logstore.table)
    left: Mapping[int, Wait] = {}
    if table is not None and state is not None:
        rates = partial(rates_of, table, ledger)
        left = left_alone(
            state,
            ledger,
            surveys,
            logstore.budget,
            until_s=until_s,
            rates=rates,
            received_s=client.cursor_time_s,
        )
    suspected = {s: e.suspect_s for s, e in ledger.shards.items() if e.suspect_s}
    return plan_live(
        shards=listed,
        surveys=surveys,
        ledger=ledger,
        budget=logstore.budget,
        until_s=until_s,
        ordered=logstore.group.order,
        patience=Patience(int(client.now_s()), logstore.group.timeout_s, suspected),
        left=left,
        name_gaps=logstore.expired == "gap",
    )
