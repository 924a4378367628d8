"""Dagster components of sls-lake; `dg list components` shows them."""

from pipelines.components.logstore.component import SlsLogstore
from pipelines.components.project import SlsProject

__all__ = ["SlsLogstore", "SlsProject"]
