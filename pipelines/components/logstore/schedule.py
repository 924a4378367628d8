"""The tick: asks for one live run, or says why not.

It plans no work. It names the hours that the run will probably touch, from the hour of the oldest
receive time reached in the table to the hour of now - settle, so that the partition bar shows what is in
progress. What to land the run finds out itself, by the service's clock. Now is when the tick is
evaluated: the page previews ticks of days ago, and these ask for the same run.

Before a run begins Dagster writes an event for each hour that it names, and it ends runs that do not begin.
So a tick names a week of hours at most: the oldest that the service may still hold, where a run begins.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial

import dagster as dg

from pipelines.components.logstore.dagster_private import NOT_FINISHED_STATUSES, UnresolvedAssetJobDefinition
from pipelines.landing.inspection.brought import oldest_reached_s
from pipelines.landing.ledger.state import origins_named, read_state
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.holding import work_max_s
from pipelines.landing.table.lake import Lake
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import LedgerBroken, SlsError
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

Job = UnresolvedAssetJobDefinition | dg.JobDefinition

KEY_FORMAT = "%Y-%m-%d-%H:%M"

MODE_TAG = "sls/mode"
CLAIMS_TAG = "sls/claims"
BACKFILL_TAG = "dagster/backfill"
RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"
PRIORITY_TAG = "dagster/priority"
MAX_RUNTIME_TAG = "dagster/max_runtime"

LIVE, FILL, REPLACE, ERRORS, REST, REWORK = "live", "fill", "replace", "errors", "rest", "rework"
REWORKS = (REPLACE, ERRORS, REST)
"""What does hours again that are there."""
MODES = (LIVE, FILL, *REWORKS, REWORK)
"""What the tag `sls/mode` may say; without it a run fills, and of `rework` the config names one."""
LIVE_PRIORITY = "10"
HOURS_NAMED_MAX = 7 * 24
"""Of one tick. Story: `start` is five years ago, each tick's run names 40,000 hours, is ended by the monitor
before all of them are written down, and the next tick asks for the same."""
_ASK_S = 5.0
"""Seconds for the one question that a tick may ask the service."""


def hour_key(hour: int) -> str:
    """Partition key of an hour since 1970-01-01 00:00 UTC."""
    return datetime.fromtimestamp(hour * HOUR_S, UTC).strftime(KEY_FORMAT)


def hour_of_key(key: str) -> int:
    """The hour since 1970-01-01 00:00 UTC that a partition key names."""
    return int(datetime.strptime(key, KEY_FORMAT).replace(tzinfo=UTC).timestamp()) // HOUR_S


def live_tags(logstore: Logstore, first_hour: int, last_hour: int) -> dict[str, str]:
    """Run tags of a live micro-batch that shows the hours first..last, both included, as in progress."""
    return {
        RANGE_START_TAG: hour_key(first_hour),
        RANGE_END_TAG: hour_key(last_hour),
        **claiming_tags(logstore),
    }


def claiming_tags(logstore: Logstore) -> dict[str, str]:
    """Run tags of any live run: it claims shards, comes first, and is ended when it hangs."""
    return {
        MODE_TAG: LIVE,
        CLAIMS_TAG: logstore.name,
        PRIORITY_TAG: LIVE_PRIORITY,
        MAX_RUNTIME_TAG: str(work_max_s(logstore.budget)),
    }


def busy_run(instance: dg.DagsterInstance, logstore: str, *, but: str = "") -> dg.DagsterRun | None:
    """An unfinished run that claims shards of `logstore`, queued ones included; `but` is not one."""
    busy = dg.RunsFilter(tags={CLAIMS_TAG: logstore}, statuses=list(NOT_FINISHED_STATUSES))
    return next((r for r in instance.get_runs(filters=busy, limit=2) if r.run_id != but), None)


def decide(
    logstore: Logstore,
    *,
    now_s: float,
    reached_s: int | None,
    busy: dg.DagsterRun | None,
    held_s: float | None = None,
) -> dg.RunRequest | dg.SkipReason:
    """One live run over the hours that lie between the table and now, or why not.

    `reached_s` is the oldest receive time reached over all open shards, None before first start; `held_s` the
    oldest that the service may hold, None where nobody asked. Where neither is known, the newest are named.
    """
    if busy is not None:
        return dg.SkipReason(
            f"run {busy.run_id} ({busy.job_name}, {busy.status.value}) holds the claim on {logstore.name}"
        )
    start = logstore.start_hour
    last = int(now_s - logstore.budget.settle_s) // HOUR_S
    if last < start:
        return dg.SkipReason(f"{logstore.name} starts at {logstore.start} UTC, which is still to come")
    known = max(reached_s or 0, held_s or 0)
    first = max(start, int(known) // HOUR_S if known else last - HOURS_NAMED_MAX + 1)
    first = min(last, first)
    return dg.RunRequest(tags=live_tags(logstore, first, min(last, first + HOURS_NAMED_MAX - 1)))


def live_request(
    instance: dg.DagsterInstance,
    logstore: Logstore,
    *,
    run_key: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.RunRequest | dg.SkipReason:
    """What anybody who wants a live run now asks for: schedule, drain and backlog; or why not.

    `run_key`: asked for once. `tags` come beside those of a live run.
    """
    now_s = SYSTEM_CLOCK.now()
    busy = busy_run(instance, logstore.name)
    try:
        reached = None if busy else reached_s(logstore)
    except LedgerBroken:
        # The run meets the same and says so on the check, where people look; a tick could not.
        reached = int(now_s)
    behind = now_s - max(reached or 0, logstore.start_hour * HOUR_S)
    held_s = _held_since_s(logstore, now_s) if not busy and behind > HOURS_NAMED_MAX * HOUR_S else None
    asked = decide(logstore, now_s=now_s, reached_s=reached, busy=busy, held_s=held_s)
    if isinstance(asked, dg.SkipReason):
        return asked
    return dg.RunRequest(run_key=run_key, tags={**asked.tags, **(tags or {})})


def _held_since_s(logstore: Logstore, now_s: float) -> float | None:
    """The oldest receive time of which the service may hold logs, unix seconds: its retention ago, or when
    the logstore was made. None where it does not say."""
    try:
        with SlsClient(logstore.service, deadline_s=_ASK_S) as client:
            retention_s, made_s = client.retention_s(), client.origin().created_s
    except SlsError:
        return None
    return max(float(made_s), 0.0 if retention_s is None else now_s - retention_s)


def unset_text(logstore: Logstore, unset: str) -> str:
    """Why nothing is done while the environment variable of the endpoint is not set."""
    return f"set the environment variable {unset} to the endpoint of {logstore.name}"


def reached_s(logstore: Logstore) -> int | None:
    """`oldest_reached_s` as the table has it now. Milliseconds, no JVM, no call to the service."""
    table = Lake.default().load(logstore.table)
    if table is None:
        return None
    state = read_state(table)
    mine = origins_named(state, logstore.service.project, logstore.service.logstore)
    return oldest_reached_s(map(state.ledger, mine))


def schedule_of(
    logstore: Logstore,
    job: Job,
    cron: str,
    ask: Callable[[dg.DagsterInstance], dg.RunRequest | dg.SkipReason],
    what: str,
    *,
    of: str = "",
    unset: str = "",
) -> dg.ScheduleDefinition:
    """`<logstore>_<of>_schedule`, stopped until somebody turns it on. `unset` names the environment variable
    of the endpoint when it is not set: every tick is skipped then."""

    @dg.schedule(
        name="_".join(filter(None, (logstore.name, of, "schedule"))),
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=what,
    )
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return dg.SkipReason(unset_text(logstore, unset)) if unset else ask(context.instance)

    return tick


def microbatch_schedule(logstore: Logstore, job: Job, *, unset: str = "") -> dg.ScheduleDefinition:
    """`<logstore>_schedule`."""
    what = "Requests one live micro-batch when no other run holds the claim."
    ask = partial(live_request, logstore=logstore)
    return schedule_of(logstore, job, logstore.schedule, ask, what, unset=unset)


def proof_schedule(logstore: Logstore, job: Job, *, unset: str = "") -> dg.ScheduleDefinition:
    """`<logstore>_proof_schedule`."""

    def ask(instance: dg.DagsterInstance) -> dg.RunRequest:
        return dg.RunRequest()

    return schedule_of(logstore, job, logstore.proof, ask, "Proves the whole table.", of="proof", unset=unset)
