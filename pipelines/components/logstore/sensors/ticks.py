"""What all sensors of a logstore share: how one is made, and what a tick may not do.

A tick claims nothing, starts no engine, waits for the catalog no longer than `CATALOG_S` in all, and asks the
service for at most some seconds a call, since Dagster ends a tick after a minute without a word of ours.

Story: a catalog takes the connection and never answers. Each look waits for its own minute, Dagster ends the
tick in the first of them, and the sensor that should tell of it tells nothing, for as long as it lasts.

What goes wrong is raised: the tick is red on the
sensor's page with the cause, its cursor stays as it was, and the next tick does all of it.

Cursors, tags and events hold ids, cursors and numbers; nothing of a log, and no key.
"""

from collections.abc import Callable, Sequence

import dagster as dg

from pipelines.components.logstore.dagster_private import UnresolvedAssetJobDefinition, instance_kept_open
from pipelines.components.logstore.health import CALL_S
from pipelines.components.logstore.schedule import unset_text
from pipelines.landing.bounds import Sensor
from pipelines.landing.logstore import Logstore
from sls_io.values.deadline import current
from sls_io.wire.client import SlsClient

CATALOG_S = 20.0

Answer = dg.SensorResult | dg.SkipReason
Job = UnresolvedAssetJobDefinition | dg.JobDefinition


def sensor_of(
    logstore: Logstore,
    what: Sensor,
    evaluate: Callable[[dg.SensorEvaluationContext], Answer],
    *,
    every_s: int,
    description: str,
    jobs: Sequence[Job] = (),
    unset: str = "",
) -> dg.SensorDefinition:
    """`<logstore>_<what>_sensor`. `unset` names the environment variable of the endpoint when it is not set:
    every tick is skipped then. The sensor that tells of it does not hand it on."""

    def tick(context: dg.SensorEvaluationContext) -> Answer:
        if unset:
            return dg.SkipReason(unset_text(logstore, unset))
        instance_kept_open(context)
        with current().within(CATALOG_S).kept():
            return evaluate(context)

    running = what in logstore.sensors
    status = dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED
    return dg.SensorDefinition(
        name=f"{logstore.name}_{what}_sensor",
        evaluation_fn=tick,
        jobs=jobs or None,
        minimum_interval_seconds=every_s,
        default_status=status,
        description=description,
    )


def client_of(logstore: Logstore) -> SlsClient:
    """A client whose every call ends in time."""
    return SlsClient(logstore.service, deadline_s=CALL_S)
