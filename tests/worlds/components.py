"""The definitions of one logstore, made without a service."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines.components import SlsLogstore
from pipelines.landing.logstore import Logstore

START = "2026-11-20-00:00"


ATTRIBUTES: dict[str, Any] = {
    "service": {"endpoint": "http://127.0.0.1:9", "project": "demo", "logstore": "access_logs"},
    "group": "lake",
    "table": "bronze.access_logs",
    "start": START,
    "columns": {"status": "int"},
}


def logstore(**changed: Any) -> Logstore:
    return Logstore.model_validate({**ATTRIBUTES, **changed})


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.fixture
def lake_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path))
    yield tmp_path


def definitions(attributes: dict[str, Any]) -> dg.Definitions:
    component = SlsLogstore.from_attributes_dict(attributes=attributes)
    return component.build_defs(dg.ComponentTree.for_test().load_context)
