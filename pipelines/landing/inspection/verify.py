"""Proves a table: the ledger against itself, against the rows, and against the service.

Questions, each answered for every shard:
- is the ledger free of holes from its start, apart from named gaps and withdrawn intervals;
- do the rows in the table add up to the ledger's rows and identity sums, at any age;
- is every row there once, and inside an interval that the ledger calls landed;
- does each window hold the rows that its landing brought, as far back as snapshots are kept;
- on demand, does the service tell the same when it is asked again, as far as retention allows;
- how far is the frontier from the service's end;
- does the service show anything that the ledger gave up: a shard, what is in a gap, logs from before a begin;
- do the rows of the table's other origins add up to their ledgers: from the table alone.
Only the columns that tell which rows there are are read, unless other ones are asked for (`whole.py`). The
answer names what is wrong and where, never a row's content.
"""

from dataclasses import replace

from pyiceberg.table import Table

from pipelines.landing.hours import hours_text
from pipelines.landing.inspection import cures
from pipelines.landing.inspection.evidence import Evidence, Scope, gather
from pipelines.landing.inspection.proof import Proof
from pipelines.landing.inspection.proving import prove
from pipelines.landing.inspection.whole import Chosen, no_file
from pipelines.landing.ledger.reading import Misread
from pipelines.landing.ledger.start import check_origin, find_table
from pipelines.landing.ledger.state import TableState, check_before_loss, facts, read_state
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations import reach
from pipelines.landing.table.former import uuid_of
from pipelines.landing.table.lake import Lake
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import Breach, LedgerBroken
from sls_io.values.window import HOUR_S
from sls_io.wire.client import Origin, SlsClient

_EMPTY = "the service has no log of the hours asked for, and the table no row: nothing is missing"


def verify(
    logstore: Logstore,
    lake: Lake,
    client: SlsClient,
    *,
    pull: bool = False,
    hours: range | None = None,
    sums_of_others: bool = True,
    rows: Chosen = no_file,
) -> Proof:
    """Prove the logstore's part of its table. With `pull`, what has landed is pulled again and
    compared: of these receive hours (since 1970), or of all that retention holds. Of files that `rows` takes
    every column is read.

    Rows of the table's other origins are held against their ledgers, without their services. Without
    `sums_of_others` only their number, by the manifests: where each of them is proven by itself, nobody has
    to read the whole table for each.

    Raises only when there is nothing to prove yet, or the service or catalog cannot be reached, and where
    files left the table while it was read (`check_kept`); everything else is a problem in the `Proof`.
    """
    uuid = ""
    try:
        opened = _opened(logstore, lake, client)
        if isinstance(opened, Proof):
            return opened
        uuid = uuid_of(opened[0])
        proof = _verified(logstore, lake, client, *opened, Scope(pull, hours, sums_of_others, rows))
    except Misread as error:
        # Nothing is known to be wrong with the table, so nothing is said that would take rows from it.
        proof = Proof(logstore.table, client.origin().id, problems=(str(error),))
    return replace(proof, uuid=uuid)


def _verified(
    logstore: Logstore,
    lake: Lake,
    client: SlsClient,
    table: Table,
    state: TableState,
    origin: Origin,
    asked: Scope,
) -> Proof:
    evidence = gather(logstore, client, table, state, origin, asked)
    try:
        if any(answer.lost for answer in evidence.answers.values()):
            check_before_loss(table, SYSTEM_CLOCK.now())
    except LedgerBroken as error:
        return Proof(logstore.table, origin.id, problems=(str(error),), cures=error.cures)
    proof, wrong = prove(evidence)
    proof = _with_why_none(lake, logstore, client, evidence, proof)
    case = cures.Case(lake, logstore, client, table, state, evidence.there.counted.files)
    # Of files that cannot be read nobody knows yet that rows are missing: what is said of them comes first.
    if evidence.lost:
        return replace(proof, cures=cures.of_lost_files(case, evidence.lost))
    named = cures.of_other_origins(case, wrong)
    if not (proof.short or proof.strange):
        return replace(proof, cures=named)
    every = asked.pull and asked.hours is None
    found = cures.of_other_rows(case, _trouble(proof), pulled=every)
    return replace(proof, cures=cures.each_once((*found, *named)))


def _opened(logstore: Logstore, lake: Lake, client: SlsClient) -> tuple[Table, TableState, Origin] | Proof:
    """The table, or a proof that says why nothing can be looked at."""
    origin = client.origin()
    try:
        table = find_table(lake, logstore, client)
    except LedgerBroken as error:
        return Proof(logstore.table, origin.id, problems=(str(error),), cures=error.cures)
    if table is None:
        return Proof(logstore.table, origin.id, problems=("there is no table yet: nothing has landed",))
    try:
        state = read_state(table)
        return table, state, check_origin(state, origin, logstore.table)
    except LedgerBroken as error:
        case = cures.Case(lake, logstore, client, table, facts(table, damaged_too=True))
        named = cures.with_options(case, error.cures)
        if error.kind is Breach.FOREIGN:
            named = cures.of_other_rows(case, cures.Trouble((), missing=False, strange=True), pulled=True)
        return Proof(logstore.table, origin.id, problems=(str(error),), cures=named, uuid=uuid_of(table))


def _trouble(proof: Proof) -> cures.Trouble:
    wrong = {hour for shard in proof.shards for hour in (*shard.hours_short, *shard.hours_over)}
    rows_missing = sum(max(0, s.rows_ledger + s.rows_adopted - s.rows_table) for s in proof.shards)
    return cures.Trouble(wrong, proof.short, proof.strange, rows_missing)


def _with_why_none(
    lake: Lake, logstore: Logstore, client: SlsClient, evidence: Evidence, proof: Proof
) -> Proof:
    """The proof; where a second pull compared nothing, it says why."""
    if evidence.pulled is None or any(shard.windows_pulled for shard in proof.shards):
        return proof
    why, compared = _why_none(lake, logstore, client, evidence)
    if compared or evidence.asked.hours is None:
        return replace(proof, notes=(*proof.notes, why))
    return replace(proof, problems=(*proof.problems, why))


def _why_none(lake: Lake, logstore: Logstore, client: SlsClient, evidence: Evidence) -> tuple[str, bool]:
    """Why; and whether an hour was compared in which nothing is, here and there."""
    hours, pulled = evidence.asked.hours, evidence.told
    if hours is None:
        why = "of all that has landed it holds nothing any more"
        if pulled.missed:
            why = "what it holds could not be pulled to its end"
        elif pulled.windows:
            why = "it holds hours only that were left out"
        return f"nothing was compared with the service: {why}", False
    if pulled.windows:
        why = "rows of them were removed by decision, so both sides differ"
    elif pulled.missed:
        why = "they could not be pulled to their end"
    else:
        lacks = reach.lacking(lake, logstore, client, hours)
        reached = [e.reached_s for e in evidence.ledger.shards.values() if not e.closed]
        kept = reach.oldest(client).values()
        if lacks:
            why = "; ".join(lack.text for lack in lacks)
        elif min(reached, default=hours.stop * HOUR_S) < hours.stop * HOUR_S:
            why = "not landed to their end yet"
        elif any(x.at_s is None or x.at_s >= hours.start * HOUR_S for x in kept):
            why = "the service no longer has them"
        else:
            return _EMPTY, True
    return f"nothing of {hours_text(hours)} was compared with the service: {why}", False
