"""`<name>_maintenance_sensor`: the maintenance when the table's counts ask for it, beside its schedule."""

import json

import dagster as dg

from pipelines.components.logstore.maintenance import maintaining
from pipelines.components.logstore.sensors.ticks import Answer, Job, sensor_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.wear import Wear, wear

_MORE = 1.25
"""What a maintenance could not lower is tried again once it has grown by so much."""


def maintenance_sensor(logstore: Logstore, job: Job) -> dg.SensorDefinition:
    """The sensor. It asks the catalog alone, never the service."""
    bounds = logstore.sensors.maintenance

    def evaluate(context: dg.SensorEvaluationContext) -> Answer:
        found, before = wear(Lake.default().load(logstore.table)), _asked(context.cursor)
        over = found.over(bounds)
        counts = f"{found.files:,} files since the newest compaction, {found.snapshots:,} snapshots, "
        counts += f"{found.manifests:,} manifests"
        if not over:
            # Below the bounds again: the next time they are passed is a new one.
            return dg.SensorResult(skip_reason=f"no bound is passed: {counts}", cursor="")
        due = [name for name in over if getattr(found, name) > _MORE * before.get(name, 0)]
        if not due:
            return dg.SkipReason(
                f"{counts}: a maintenance was asked for, and could not lower that; it is "
                "asked for again when there are a quarter more"
            )
        busy = maintaining(context.instance, logstore)
        if busy is not None:
            return dg.SkipReason(
                f"{counts}; run {busy.run_id} ({busy.status.value}) maintains {logstore.table}"
            )
        context.log.info(counts)
        return dg.SensorResult(run_requests=[dg.RunRequest()], cursor=_kept(found, over))

    return sensor_of(
        logstore,
        "maintenance",
        evaluate,
        job=job,
        every_s=bounds.every_s,
        running=bounds.running,
        description="Asks for a maintenance when files, snapshots or manifests are too many.",
    )


def _kept(found: Wear, over: tuple[str, ...]) -> str:
    return json.dumps({name: getattr(found, name) for name in over})


def _asked(cursor: str | None) -> dict[str, int]:
    """The counts for which a maintenance was asked for last."""
    try:
        return {str(name): int(count) for name, count in json.loads(cursor or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}
