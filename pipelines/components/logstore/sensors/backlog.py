"""`<name>_backlog_sensor`: one more run when too much waits, between the ticks of the schedule.

It asks for what the schedule asks for, under the same rule: not while another run holds the claim. A run
that could not help is not followed by the next at once: until the table has changed, or some time has
passed, nothing is asked for again.
"""

import json
from typing import Final

import dagster as dg

from pipelines.components.logstore.schedule import live_request
from pipelines.components.logstore.sensors.ticks import Answer, Job, client_of, sensor_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.look import look
from pipelines.landing.watch.waiting import waiting
from sls_io.clock import SYSTEM_CLOCK, Clock

AGAIN_S: Final = 900
"""Seconds after which a run is asked for once more although the table is as it was."""


def backlog_sensor(
    logstore: Logstore, job: Job, *, unset: str = "", clock: Clock = SYSTEM_CLOCK
) -> dg.SensorDefinition:
    """The sensor; `job` is the micro-batch."""
    settings = logstore.sensors.backlog

    def evaluate(context: dg.SensorEvaluationContext) -> Answer:
        with client_of(logstore) as client:
            seen = look(logstore, Lake.default(), client)
            found = waiting(client, seen, settings, settle_s=logstore.budget.settle_s)
        over = found.over(settings)
        if not over:
            return dg.SkipReason(
                f"no bound is passed: at most {found.lag_s:,.0f} s and about {found.mb:,.0f} MB wait"
            )
        why, head = "; ".join(over), str(seen.table.metadata.current_snapshot_id) if seen.table else ""
        if _asked(context.cursor, head, clock.now()):
            return dg.SkipReason(
                f"{why}; a run was asked for, and the table has not changed since: see the newest run of "
                f"{logstore.name}_microbatch"
            )
        asked = live_request(context.instance, logstore)
        if isinstance(asked, dg.SkipReason):
            return dg.SkipReason(f"{why}; {asked.skip_message}")
        context.log.info(why)
        return dg.SensorResult(
            run_requests=[asked], cursor=json.dumps({"head": head, "at_s": int(clock.now())})
        )

    return sensor_of(
        logstore,
        "backlog",
        evaluate,
        job=job,
        every_s=settings.every_s,
        running=settings.running,
        unset=unset,
        description="Asks for a run when logs wait for too long, or too many of them wait.",
    )


def _asked(cursor: str | None, head: str, now_s: float) -> bool:
    """Whether a run was asked for on this very table, lately."""
    try:
        kept = json.loads(cursor or "{}")
        return bool(kept.get("head") == head and now_s - float(kept["at_s"]) < AGAIN_S)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
