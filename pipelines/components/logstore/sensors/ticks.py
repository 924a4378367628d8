"""What all sensors of a logstore share: how one is made, and what a tick may not do.

A tick claims nothing, starts no engine, waits for the catalog no longer than `CATALOG_S` in all, and asks the
service for at most some seconds a call, since Dagster ends a tick after a minute without a word of ours.

Story: a catalog takes the connection and never answers. Each look waits for its own minute, Dagster ends the
tick in the first of them, and the sensor that should tell of it tells nothing, for as long as it lasts.

What a kind of sensor does for a logstore is a `Lookout`. It says what it found and leaves it to the sensor to
have that stored: one of a single logstore (`sensor_of`), or one of many (`shared_sensors.py`).

What goes wrong is raised: the tick is red on the sensor's page with the cause, its cursor stays as it was,
and the next tick does all of it.

Cursors, tags and events hold ids, cursors and numbers; nothing of a log, and no key.
"""

from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg

from pipelines.components.logstore.dagster_private import UnresolvedAssetJobDefinition, instance_kept_open
from pipelines.components.logstore.health import CALL_S
from pipelines.components.logstore.schedule import unset_text
from pipelines.landing.bounds import Sensor, sensor_name, turned_on
from pipelines.landing.logstore import Logstore
from sls_io.values.deadline import current
from sls_io.wire.client import SlsClient

CATALOG_S = 20.0

Job = UnresolvedAssetJobDefinition | dg.JobDefinition
Event = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation
Partitions = dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest


@dataclass(frozen=True)
class Sighting:
    """What a look has found: the runs that it asks for, or why none; what it tells; and what the next look
    has to know."""

    said: str
    cursor: str
    requests: tuple[dg.RunRequest, ...] = ()
    events: tuple[Event, ...] = ()
    partitions: tuple[Partitions, ...] = ()


@dataclass(frozen=True)
class Lookout:
    """What one kind of sensor does for one logstore, every `every_s` seconds.

    look   (instance, cursor that its last look left, or "") -> what it found; raises what it could not ask
    jobs   what it may ask for; a request that names none is for the first
    unset  the environment variable of the endpoint, where that is not set and a look would make no sense
    """

    logstore: Logstore
    what: Sensor
    look: Callable[[dg.DagsterInstance, str], Sighting]
    every_s: int
    description: str
    jobs: tuple[Job, ...] = ()
    unset: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the logstore's own settings name it."""
        return self.logstore.sensors >= {self.what}

    def looked(self, instance: dg.DagsterInstance, cursor: str) -> Sighting:
        """A look that waits for no catalog for ever, or why there is none."""
        if self.unset:
            return Sighting(unset_text(self.logstore, self.unset), cursor)
        with current().within(CATALOG_S).kept():
            return self.look(instance, cursor)


def default_status(running: bool) -> dg.DefaultSensorStatus:
    """Of a sensor that nobody has turned on or off on the page."""
    return dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED


def sensor_of(lookout: Lookout) -> dg.SensorDefinition:
    """`<logstore>_<what>_sensor`: the sensor of one logstore."""

    def tick(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        instance_kept_open(context)
        return result_of(context, lookout.looked(context.instance, context.cursor or ""))

    name = lookout.logstore.name
    return dg.SensorDefinition(
        name=sensor_name(name, lookout.what),
        evaluation_fn=tick,
        jobs=lookout.jobs or None,
        minimum_interval_seconds=lookout.every_s,
        default_status=default_status(lookout.is_own or turned_on(name)),
        description=lookout.description,
    )


def result_of(context: dg.SensorEvaluationContext, found: Sighting) -> dg.SensorResult:
    """What a tick answers. Dagster shows a reason only where nothing is asked for; else the log has it."""
    if found.requests:
        context.log.info(found.said)
    return dg.SensorResult(
        run_requests=[*found.requests],
        skip_reason=None if found.requests else found.said,
        asset_events=[*found.events],
        dynamic_partitions_requests=[*found.partitions],
        cursor=found.cursor,
    )


def client_of(logstore: Logstore) -> SlsClient:
    """A client whose every call ends in time."""
    return SlsClient(logstore.service, deadline_s=CALL_S)
