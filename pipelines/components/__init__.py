"""Dagster components of sls-lake (`dg list components` shows them), and what definitions of your own need."""

from pipelines.components.component import SlsLogstore
from pipelines.components.logstore.own_sensors import backfill_request, landing_request
from pipelines.components.logstore.sensors.sealed import sealed_condition, sealed_key
from pipelines.components.project import SlsProject

__all__ = [
    "SlsLogstore",
    "SlsProject",
    "backfill_request",
    "landing_request",
    "sealed_condition",
    "sealed_key",
]
