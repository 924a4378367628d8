"""`<folder>_logstores_sensor`: new logstores that the patterns of an `SlsProject` name, with nobody's hand.

A tick asks the service, keeps what is new in the list beside the settings, and has the code location loaded
again: a process that has loaded its definitions never sees others. What is waited for is worked out anew each
time, from the list and from what this process has loaded. So a refresh by hand is followed, too, and a tick
that is cut short by its own reload needs no memory.

Only a page can load the code again, so `DAGSTER_WEBSERVER_URL` names it. Without it, or where the page
refuses, the tick says which button to press. The cursor tells for which logstores that was done: a code
server that goes on with its old definitions, since others start it, is not asked again with each tick.

A tick never takes a logstore away: an outage makes it red, and what the service lists no more stays.

Worked example: a pattern names orders_*, and orders_eu is made. The tick keeps it, finds that this process
has not loaded it, and has the page load the code again. The server begins a new process, which has it, and
the tick of that one says "none is new". Where the old process goes on, its next tick finds the same hash in
its cursor: it asks no page a second time, and says how such a server is loaded again.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import dagster as dg

from pipelines import dagster_client
from pipelines.components.logstore.health import CALL_S
from pipelines.components.logstore.sensors.ticks import default_status
from pipelines.landing.bounds import sensor_name, turned_on
from pipelines.landing.project_file import read_kept, read_project
from pipelines.landing.projects import Refreshed, keep, name_of_all, refreshed
from sls_io.values.errors import ServiceError, TransportError, amount, some_of

_EVERY_S: Final = 300
_NAMED_MAX = 5
_STILL = (
    "still not loaded, as was said. A code server that `dagster api grpc` started loads its code when it is "
    "started again, one of `dagster code-server start` by Reload"
)


def following_sensor(
    file: Path, root: Path, loaded: frozenset[str], *, running: bool = False
) -> dg.SensorDefinition:
    """The sensor of a project's settings `file`. `root` is the folder that has them all, `loaded` the
    logstores of the service whose definitions this process has."""

    def tick(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        found = refreshed(file, root, deadline_s=CALL_S)
        keep(found)
        if found.new:
            context.log.info(f"kept: {', '.join(found.new)}")
        waiting = _waiting(file, loaded)
        told = _of_service(found)
        cursor = hashlib.sha256(" ".join(waiting).encode("utf-8")).hexdigest()[:16]
        if not waiting:
            return dg.SensorResult(
                skip_reason=f"{amount(len(loaded), 'logstore')}, none is new{told}", cursor=cursor
            )
        if context.cursor == cursor:
            said = f"{_named(waiting)}: {_STILL}"
        else:
            said = _loaded_again(context, waiting)
            context.log.info(said)
        return dg.SensorResult(skip_reason=f"{said}{told}", cursor=cursor)

    return dg.SensorDefinition(
        name=sensor_name(name_of_all(file)),
        evaluation_fn=tick,
        minimum_interval_seconds=_EVERY_S,
        default_status=default_status(running or turned_on()),
        description=(
            "Asks the service for new logstores that the patterns name, keeps them, and has the code "
            "location loaded again. Takes none away."
        ),
    )


def _waiting(file: Path, loaded: frozenset[str]) -> list[str]:
    """Kept logstores that the patterns name and this process has no definitions of."""
    project = read_project(file)
    return [name for name in read_kept(file.parent) if project.wants(name) and name not in loaded]


def _loaded_again(context: dg.SensorEvaluationContext, waiting: Iterable[str]) -> str:
    """What came of it. Raises TransportError where the page does not answer: the next tick asks again."""
    origin = context.code_location_origin
    location = origin.location_name if origin is not None else dagster_client.LOCATION
    button = f"press Reload beside {location}, in Dagster's page under Deployment"
    url = os.environ.get(dagster_client.URL_VARIABLE, "")
    if not url:
        return f"{_named(waiting)}: {button}, or name the page in {dagster_client.URL_VARIABLE}"
    try:
        dagster_client.reload(url, location)
    except TransportError as error:
        raise TransportError(
            f"{_named(waiting)}, and no page answers at {url}, which {dagster_client.URL_VARIABLE} names, to "
            f"load the code location {location} again"
        ) from error
    except ServiceError as error:
        return f"{_named(waiting)}: the page did not load the code location again ({error}); {button}"
    return f"{_named(waiting)}: the code location {location} was told to load its code again"


def _of_service(found: Refreshed) -> str:
    """What is to be told of the others."""
    said = [f"not kept, since it would not load: {why}" for why in found.refused.values()]
    if found.gone:
        said.append(f"not listed by the service any more, and they stay: {', '.join(found.gone)}")
    return "".join(f"; {each}" for each in said[:_NAMED_MAX])


def _named(waiting: Iterable[str]) -> str:
    names = [*waiting]
    return f"{len(names)} new: {some_of(names, _NAMED_MAX)}"
