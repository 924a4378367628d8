"""Dagster components of sls-lake (`dg list components` shows them), and what definitions of your own need."""

from pipelines.components.logstore.component import SlsLogstore
from pipelines.components.logstore.requests import backfill_request, landing_request
from pipelines.components.logstore.sensors.sealed import sealed_condition, sealed_key

__all__ = ["SlsLogstore", "backfill_request", "landing_request", "sealed_condition", "sealed_key"]
