"""`<name>_demand_sensor`: one live run where the schedule's next would come late.

Two halves look at the same shards. `topology.py` wants a run when a shard closes, so that its children can
land. The backlog wants one when too much waits, under the rule of the schedule: not while another run holds
the claim. One run serves both. A run that could not help is not followed by the next at once: until the table
has changed, or some time has passed, nothing is asked for again.

The cursor is that of each half by its name. Where either half raises, the tick is red, and both stay.
"""

import json
from typing import Final

import dagster as dg

from pipelines.components.logstore.schedule import checkpoint_of, live_request
from pipelines.components.logstore.sensors.ticks import Job, Lookout, Sighting, client_of
from pipelines.components.logstore.sensors.topology import drains
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.look import Look, look
from pipelines.landing.watch.waiting import Demand, waiting
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.wire.client import SlsClient

AGAIN_S: Final = 900
"""Seconds after which a run is asked for once more although the table is as it was."""
_EVERY_S = 60
_HALVES = ("topology", "backlog")


def demand_lookout(
    logstore: Logstore, job: Job, origin: dg.AssetKey, *, unset: str = "", clock: Clock = SYSTEM_CLOCK
) -> Lookout:
    """What the sensor does; `job` is the micro-batch, `origin` the asset that is observed."""

    def demand(instance: dg.DagsterInstance, cursor: str) -> Sighting:
        before = _cursors(cursor)
        with client_of(logstore) as client:
            seen = look(logstore, Lake.default(), client)
            shards = drains(instance, logstore, origin, client, seen, before["topology"])
            backlog = _backlog(instance, logstore, client, seen, before["backlog"], shards, clock.now())
        return Sighting(
            f"{shards.said}; {backlog.said}",
            json.dumps({"topology": shards.cursor, "backlog": backlog.cursor}),
            (*shards.requests, *backlog.requests),
            shards.events,
            shards.partitions,
        )

    return Lookout(
        logstore,
        "demand",
        demand,
        _EVERY_S,
        "Sees shards split, merge, close and go; asks for one run when one closes, or when logs wait for too "
        "long, or too many of them wait.",
        jobs=(job,),
        unset=unset,
    )


def _backlog(
    instance: dg.DagsterInstance,
    logstore: Logstore,
    client: SlsClient,
    seen: Look,
    cursor: str,
    shards: Sighting,
    now_s: float,
) -> Sighting:
    """The half that looks at what waits; `shards` is what the other half asks for."""
    bounds = Demand.of(logstore)
    found = waiting(client, seen, bounds, settle_s=logstore.budget.settle_s)
    over = found.over(bounds)
    if not over:
        quiet = f"no bound is passed: at most {found.lag_s:,.0f} s and about {found.mb:,.0f} MB wait"
        return Sighting(quiet, cursor)
    why, head = "; ".join(over), str(seen.table.metadata.current_snapshot_id) if seen.table else ""
    if shards.requests:
        return Sighting(f"{why}; the drain lands that, too", cursor)
    if _asked(cursor, head, now_s):
        newest = f"see the newest run of {checkpoint_of(logstore.name).to_user_string()}"
        return Sighting(f"{why}; a run was asked for, and the table has not changed since: {newest}", cursor)
    asked = live_request(instance, logstore)
    if isinstance(asked, dg.SkipReason):
        return Sighting(f"{why}; {asked.skip_message}", cursor)
    return Sighting(why, json.dumps({"head": head, "at_s": int(now_s)}), (asked,))


def _cursors(cursor: str | None) -> dict[str, str]:
    """The cursor of each half; none where it is another's or an earlier release's: all is seen anew then."""
    try:
        kept = json.loads(cursor or "{}")
        return {half: str(kept.get(half, "")) for half in _HALVES}
    except (ValueError, AttributeError):
        return dict.fromkeys(_HALVES, "")


def _asked(cursor: str, head: str, now_s: float) -> bool:
    """Whether a run was asked for on this very table, lately; not at a time that is still to come, which a
    wrong clock has left.

    Story: the service refuses a key, each run fails, and logs wait. Without this each tick asks for the next
    run as soon as one has failed: up to 1,440 red runs a day. Worked example, asked at second 1000 on
    snapshot 7: at 1500 it was asked for if main is still at 7; with main at 8 something landed, so what waits
    is new; at 1900 (`AGAIN_S`) it is tried once more.
    """
    try:
        kept = json.loads(cursor or "{}")
        return bool(kept.get("head") == head and 0 <= now_s - float(kept["at_s"]) < AGAIN_S)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
