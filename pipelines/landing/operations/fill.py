"""What a fill of receive hours would land: what the ledger lacks of them and the service still has.

Planned in the words of the run that does it, on the table as it is, or on the one that its first run would
make. Changes nothing; the run itself looks again.

Why the run's own planner, and not a simpler count: what a fill lands depends on budget, on edges of the
service and on what others landed. A second planner would be right until the first one changes. So the survey,
`plan_fill` and the check for rows in other hours are the run's own, and only the commit is left out.

Before the first landing there is no ledger. It is made as the first run would make it, so that a dry run
names windows, and no table is made for it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pipelines.landing.commit.decision import Decision
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.ledger.fence import commit_due
from pipelines.landing.ledger.start import begun, find_table
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.reach import Lack
from pipelines.landing.run.attempt import Attempt
from pipelines.landing.run.report import FIRST_RUN, gap_lines, notes_of_waits
from pipelines.landing.run.surveyor import Surveyor
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import Lake
from sls_io.planning.plan import plan_fill
from sls_io.planning.values import Plan
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import Ledger
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.window import Window
from sls_io.wire.client import SlsClient


@dataclass(frozen=True)
class Filling(Effect):
    """What `backfill` would land. `first_start`: nothing has landed yet; `waits`: why a shard has none."""

    WHAT = "{table}: what these hours lack lands; nothing leaves, and no checkpoint moves"
    QUIET = frozenset({"gaps"})

    table: str
    origin: str
    first_start: bool
    windows: int = 0
    coming: tuple[Window, ...] = ()
    gaps: tuple[str, ...] = ()
    waits: Mapping[int, Wait] = field(default_factory=dict)

    def said(self) -> Iterable[Note]:
        if self.first_start:
            yield Note(FIRST_RUN.format(table=self.table))
        yield from (Note(f"gap, {text}") for text in self.gaps)
        yield from notes_of_waits(self.waits)


@dataclass(frozen=True, kw_only=True)
class PlannedFilling(Decision[Filling]):
    """The same with whether anything is to be committed: windows, or that a history begins."""

    due: bool

    @property
    def needed(self) -> bool:
        """Whether there is something to do."""
        return self.due


def plan_filling(
    lake: Lake, logstore: Logstore, client: SlsClient, hours: range, lacks: Collection[Lack] = ()
) -> PlannedFilling:
    """What filling these receive hours (since 1970) would land, as far as one run's budget goes. `lacks`:
    what of them cannot come; while there is any, nobody is told that nothing is missing.

    Raises as the run would: for a table that cannot be landed in, and for rows that lie in other hours.
    """
    origin, table = client.origin(), find_table(lake, logstore, client)
    contract, fresh = Contract.from_columns(logstore.columns), Freshness(SYSTEM_CLOCK)
    attempt = Attempt.begun(table, logstore, origin, contract, fresh) if table is not None else None
    ledger = attempt.ledger if attempt is not None else Ledger(origin.id)
    first = not ledger.started
    if first and (to_come := logstore.ahead(client.now_s())):
        view = Filling(logstore.table, ledger.origin, first)
        return PlannedFilling(view=view, nothing=to_come, due=False)
    ledger = begun(client, logstore, ledger) if first else ledger
    until_s, shards = int(client.now_s()) - logstore.budget.settle_s, tuple(client.shards())
    base = attempt.base if attempt is not None else None
    surveys = Surveyor(client, logstore, table, base, ledger, shards, until_s).of_hours(hours)
    plan = plan_fill(surveys=surveys, ledger=ledger, budget=logstore.budget, until_s=until_s)
    if attempt is not None:
        attempt.check_not_there(logstore, plan)
    due = first or bool(plan.windows) or commit_due(plan.change, ledger)
    # Story: retention took half of an hour. The plan has no window for it, since the service shows nothing
    # more, and calls it complete; beside "100 rows cannot come back" that would read as a proof of the
    # contrary.
    waits = {s: why for s, why in plan.waits.items() if not (lacks and why.kind is Why.NOTHING_MISSING)}
    nothing = "nothing more of these hours can land" if lacks else "nothing of these hours is missing"
    return PlannedFilling(view=_view(logstore, plan, waits, first=first), nothing=nothing, due=due)


def _view(logstore: Logstore, plan: Plan, waits: Mapping[int, Wait], *, first: bool) -> Filling:
    windows = tuple(planned.window for planned in plan.windows)
    return Filling(
        table=logstore.table,
        origin=plan.origin,
        first_start=first,
        windows=len(windows),
        coming=windows,
        gaps=gap_lines(plan.change.gaps),
        waits=dict(sorted(waits.items())),
    )
