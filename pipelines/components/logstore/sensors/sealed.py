"""`<name>_sealed_sensor`: an event for each receive hour that every shard has passed.

`bronze/<name>_sealed` has the hours of the table. An hour is materialized there once, in order, when
nothing of it can come any more, so an hourly model that depends on it runs on complete hours, with
`sealed_condition` for declarative automation. `bronze/<name>` itself is materialized by each micro-batch.

Once: events are stored before the sensor's cursor is, and a daemon may die in between. So the storage is
asked which of the next hours have an event already. That holds for any number of deployments over the same
storage, too.

Why in order: a model that depends on "all hours up to this one" may look at the newest event alone. So an
hour waits for those before it, and an empty hour is told as well. Worked example: shard 0 has reached 09:40,
shard 1 08:10. 07:00 is sealed, 08:00 is not, since shard 1 may still bring something of it. After a rollback
shards have reached less than was told: nothing is taken back, and the next hour is told when all have passed
it again.
"""

import json
from contextlib import suppress

import dagster as dg

from pipelines.components.logstore import metadata
from pipelines.components.logstore.sensors.ticks import Lookout, Sighting, client_of
from pipelines.landing.hours import hour_of, hour_text
from pipelines.landing.inspection.describe import hour_rows
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.look import look
from pipelines.landing.watch.sealed import Sealing, sealing
from sls_io.values.errors import ConfigError

_EVERY_S = 300
_HOURS_MAX = 24
"""Of one tick: after an outage of a week the bar is full in half an hour."""


def sealed_key(name: str) -> dg.AssetKey:
    """The complete hours of the logstore `name`: what an hourly model depends on."""
    return dg.AssetKey(["bronze", f"{name}_sealed"])


def sealed_condition() -> dg.AutomationCondition[dg.AssetKey]:
    """For an hourly asset that depends on `sealed_key(name)`: each hour once, when it is sealed, also those
    that are sealed late."""
    latest = dg.AutomationCondition.in_latest_time_window()
    missing = ~dg.AutomationCondition.any_deps_missing()
    return dg.AutomationCondition.eager().without(latest).without(missing)


def sealed_spec(
    logstore: Logstore, bronze: dg.AssetKey, hours: dg.HourlyPartitionsDefinition
) -> dg.AssetSpec:
    """The external asset of complete hours."""
    return dg.AssetSpec(
        sealed_key(logstore.name),
        deps=[bronze],
        partitions_def=hours,
        description="Receive hours that every shard has passed: complete, told once by the sealed sensor.",
        group_name=logstore.name,
        tags=metadata.tags(logstore),
        kinds={"iceberg"},
    )


def sealed_lookout(logstore: Logstore, *, unset: str = "") -> Lookout:
    """What the sensor does. It launches nothing."""
    key = sealed_key(logstore.name)

    def sealed(instance: dg.DagsterInstance, cursor: str) -> Sighting:
        lake = Lake.default()
        with client_of(logstore) as client:
            seen = look(logstore, lake, client)
        found = sealing(
            seen,
            _next(cursor, seen.ledger.origin),
            hours_max=_HOURS_MAX,
            start=logstore.start_hour,
            told=lambda: _all_told(instance, key),
        )
        if not found.hours:
            return Sighting(_waits(found), cursor)
        told = {hour for hour in found.hours if _told(instance, key, hour)}
        rows = hour_rows(logstore, lake, seen.ledger.origin, found.hours)
        snapshot = str(seen.table.metadata.current_snapshot_id) if seen.table is not None else ""
        events = (
            dg.AssetMaterialization(key, partition=hour_text(hour), metadata=_shown(rows.get(hour), snapshot))
            for hour in found.hours
            if hour not in told
        )
        left = f"; {found.more} more at the next ticks" if found.more else ""
        return Sighting(
            f"sealed {hour_text(found.hours[0])}..{hour_text(found.hours[-1])}{left}",
            json.dumps({"origin": seen.ledger.origin, "next": hour_text(found.hours.stop)}),
            events=(*events,),
        )

    return Lookout(
        logstore,
        "sealed",
        sealed,
        _EVERY_S,
        "Tells once of each receive hour that every shard has passed.",
        unset=unset,
    )


def _next(cursor: str, origin: str) -> int | None:
    """The first hour that was not told yet; None at the first look at this origin."""
    try:
        kept = json.loads(cursor or "{}")
        return hour_of(kept["next"]) if kept.get("origin") == origin else None
    except (ValueError, ConfigError, KeyError, TypeError, AttributeError):
        return None


def _told(instance: dg.DagsterInstance, key: dg.AssetKey, hour: int) -> bool:
    only = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[hour_text(hour)])
    return bool(instance.fetch_materializations(only, limit=1).records)


def _all_told(instance: dg.DagsterInstance, key: dg.AssetKey) -> frozenset[int]:
    """Every hour that has an event."""
    found = set()
    for partition in instance.get_materialized_partitions(key):
        with suppress(ConfigError):  # whoever reports events may name what is no hour
            found.add(hour_of(partition))
    return frozenset(found)


def _shown(rows: int | None, snapshot: str) -> dict[str, dg.MetadataValue]:
    """`rows` is None where the table's partitioning no longer tells hours apart."""
    if rows is None:
        return {"snapshot": dg.MetadataValue.text(snapshot)}
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(rows),
        "rows": dg.MetadataValue.int(rows),
        "snapshot": dg.MetadataValue.text(snapshot),
    }


def _waits(found: Sealing) -> str:
    if found.short:
        return "no hour is complete: the service's list of shards lacks an open one"
    if found.shard is None or found.passed_s is None:
        return "nothing has landed yet"
    reached = f"is in {hour_text(found.passed_s // 3600)}" if found.passed_s else "has passed no hour yet"
    return f"no further hour is complete: shard {found.shard} {reached}"
