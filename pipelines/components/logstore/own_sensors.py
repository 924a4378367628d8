"""What a sensor or schedule of your own asks for: a landing, or hours.

    @dg.sensor(job_name="access_logs_now")
    def a_file_came(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return landing_request(context, "access_logs")

Both ask for what the page would launch, so whatever holds there holds here: one claim at a time, and a
backfill that can never move a checkpoint.
"""

from datetime import datetime

import dagster as dg

from pipelines.components.logstore.assets import HOURS_PER_RUN_MAX
from pipelines.components.logstore.schedule import (
    FILL,
    MODE_TAG,
    RANGE_END_TAG,
    RANGE_START_TAG,
    busy_run,
    held_by,
)
from pipelines.landing.hours import hour_text, minute_of
from sls_io.values.errors import ConfigError, amount
from sls_io.values.window import HOUR_S

FILLS_TAG = "sls/fills"
"""Names the logstore of a run that was asked for by `backfill_request`; the instance limits them."""
HOURS_MAX = 24 * 31


def landing_request(
    context: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext, name: str, *, key: str | None = None
) -> dg.RunRequest | dg.SkipReason:
    """One live run of the logstore `name`, by its job `<name>_now`; or why not, while another one holds the
    claim. With `key` it is asked for once: another tick with the same key launches nothing."""
    busy = busy_run(context.instance, name)
    if busy is not None:
        return held_by(busy, name)
    return dg.RunRequest(job_name=f"{name}_now", run_key=key)


def backfill_request(
    name: str, start: str | datetime, end: str | datetime, *, key: str = ""
) -> list[dg.RunRequest]:
    """Runs that land what the table lacks of the receive hours from `start` to before `end`, six hours each.

    By the job `<name>_microbatch`. Hours are `2026-11-20-07:00` (UTC) or datetimes with a zone; a time inside
    of an hour means all of it. With `key` each run is asked for once. Raises ConfigError for hours that make
    no sense.
    """
    first, stop = _hour(start, up=False), _hour(end, up=True)
    if not first < stop <= first + HOURS_MAX:
        raise ConfigError(
            f"backfill_request for {name}: from {hour_text(first)} to before {hour_text(stop)} are "
            f"{amount(stop - first, 'hour')}; expected 1 to {HOURS_MAX}"
        )
    return [
        dg.RunRequest(
            job_name=f"{name}_microbatch",
            run_key=f"{key}-{hour_text(at)}" if key else None,
            asset_selection=[dg.AssetKey(["bronze", name])],
            tags={
                RANGE_START_TAG: hour_text(at),
                RANGE_END_TAG: hour_text(min(at + HOURS_PER_RUN_MAX, stop) - 1),
                MODE_TAG: FILL,
                FILLS_TAG: name,
            },
        )
        for at in range(first, stop, HOURS_PER_RUN_MAX)
    ]


def _hour(moment: str | datetime, *, up: bool) -> int:
    """Hours since 1970; a time inside of an hour is its begin, or with `up` its end."""
    if isinstance(moment, str):
        seconds = minute_of(moment)
    elif moment.tzinfo is None:
        raise ConfigError("backfill_request: a datetime without a zone may mean any hour; give it one")
    else:
        seconds = int(moment.timestamp())
    return -(-seconds // HOUR_S) if up else seconds // HOUR_S
