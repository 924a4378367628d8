"""Dagster components of sls-lake; `dg list components` shows them."""

from pipelines.components.logstore.component import SlsLogstore

__all__ = ["SlsLogstore"]
