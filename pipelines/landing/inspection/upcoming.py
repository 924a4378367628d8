"""What the next live run would plan: for those who only look, in the very words of the run.

A rule of its own here would be a second opinion: it would call logs lost that a run only suspects, since the
run asks for a second kind of answer first. So there is one surveyor and one planner. Who looks differs from
who lands in what is held: all shards that are asked for. Suspicions of the ledger count as found at the
begin, as a new run finds them.
"""

from collections.abc import Iterable, Mapping

from pyiceberg.table import Table

from pipelines.landing.ledger.state import facts
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.surveyor import Surveyor
from sls_io.planning.draft import Patience
from sls_io.planning.values import Plan
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import Ledger
from sls_io.values.shard import Shard
from sls_io.wire.client import SlsClient

TAKEN = "retention took logs that had not landed"


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
    """The plan of a live run that got `mine` of the listed `shards`, as far as the settings name them.

    Changes nothing. Raises LedgerBroken where a shard ends before its frontier, and what the service's calls
    raise.
    """
    state = facts(table) if table is not None else None
    surveyor = Surveyor(client, logstore, table, state, ledger, tuple(shards), until_s)
    asked = [s for s in mine if s.id not in surveyor.paused and logstore.reads(s.id)]
    surveys = surveyor.of(asked, windows_max=logstore.budget.windows_max * max(1, len(asked)))
    suspected = {s: e.suspect_s for s, e in ledger.shards.items() if e.suspect_s}
    return surveyor.plan(surveys, Patience(int(client.now_s()), logstore.group.timeout_s, suspected))


def left_alone(
    logstore: Logstore,
    client: SlsClient,
    table: Table | None,
    ledger: Ledger,
    listed: Mapping[int, Shard],
    lost: Iterable[int],
) -> dict[int, Wait]:
    """Of shards of which one answer says that logs are lost that had not landed: those that the next run
    would leave as they are, and why. It does not believe it yet (`suspect`), or the settings leave what
    becomes of them to a person (`lost`), or no run reads the shard (`paused`, `unnamed`). Raises as
    `upcoming`.

    One answer proves nothing: a begin that is told wrong, once, looks as retention does. Whether a run
    believes it only its plan can say, so that is made here, too.
    """
    until_s = int(client.now_s()) - logstore.budget.settle_s
    mine = [listed[shard] for shard in lost if shard in listed]
    plan = upcoming(logstore, client, table, ledger, listed.values(), mine, until_s=until_s)
    found = dict[int, Wait]()
    for shard in lost:
        wait = plan.waits.get(shard)
        if shard in plan.suspects:
            settled = wait is not None and wait.kind is Why.LOST
            found[shard] = Wait(Why.LOST if settled else Why.SUSPECT, plan.suspects[shard])
        elif wait is not None and wait.kind in (Why.PAUSED, Why.UNNAMED):
            found[shard] = Wait(wait.kind, f"{TAKEN}; {wait}")
    return found
