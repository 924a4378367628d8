"""What the newest event of a check says, and what is said after it where nobody can look.

The age of not being able to look stands in the event itself: sensor, runs and a person's *Execute* go on with
the same one, and nothing else has to be remembered.
"""

from typing import Any

import dagster as dg

from pipelines.components.logstore.dagster_private import COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
from pipelines.landing.bounds import TroubleSettings
from pipelines.landing.watch.troubles import Finding, Level, settled

_SINCE = "nobody could look since"


def last_said(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> dg.AssetCheckEvaluation | None:
    """The newest evaluation of a check; None where there is none."""
    history = instance.event_log_storage.get_asset_check_execution_history(
        key, limit=1, status=COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
    )
    return history[0].evaluation if history else None


def after_last(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, found: Finding, bounds: TroubleSettings, now_s: float
) -> Finding:
    """`settled` after what the check said last."""
    said = last_said(instance, key) if found.unseen else None
    if said is None:
        return settled(found, None, bounds, now_s)
    bad = Level.FAIL if said.severity is dg.AssetCheckSeverity.ERROR else Level.WARN
    since = said.metadata.get(_SINCE)
    since_s = since.value if isinstance(since, dg.TimestampMetadataValue) else None
    level = Level.OK if said.passed else bad
    told = Finding(found.kind, level, said.description or "", unseen=since_s is not None, since_s=since_s)
    return settled(found, told, bounds, now_s)


def verdict(key: dg.AssetCheckKey, found: Finding) -> dict[str, Any]:
    """What a check says, for the result of a run and the event of a sensor: Dagster has a type for each."""
    return {
        "asset_key": key.asset_key,
        "check_name": key.name,
        "passed": found.level is Level.OK,
        "severity": dg.AssetCheckSeverity.ERROR if found.level is Level.FAIL else dg.AssetCheckSeverity.WARN,
        "description": found.text,
        "metadata": {
            **{n: dg.MetadataValue.float(round(value, 2)) for n, value in found.numbers.items()},
            **({} if found.since_s is None else {_SINCE: dg.MetadataValue.timestamp(found.since_s)}),
        },
    }
