"""A second consumer group of the logstore, whose checkpoints a test sets."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from sls_io.values.settings import Group
from sls_io.values.window import cursor_to_wire
from tests.worlds.one_logstore import HOUR0_S, PROJECT, World

OTHER = "report"
"""A group that feeds no table."""


@pytest.fixture
def filled(world: World) -> World:
    """Two shards with five LogGroups of each of three hours, the last one ten minutes old; no table."""
    for hour in range(3):
        world.at(HOUR0_S + 3600 * hour + 60)
        for key in ("0", "8"):
            world.put(25, key=key.ljust(32, "0"))
    world.at(HOUR0_S + 3600 * 2 + 660)
    with world.client as client:
        client.create_group(Group(name=OTHER, timeout_s=30, heartbeat_s=5))
    return world


def cursors_of(world: World, shard: int) -> list[int]:
    """Of the LogGroups that are stored, by the emulator's own dump."""
    stored = world.emulator.admin.dump(PROJECT, world.logstore.service.logstore)
    return sorted(int(entry["cursor"]) for entry in stored if int(entry["shard"]) == shard)


def copy_to(target: str, source: str, *more: str) -> tuple[str, ...]:
    """The call that copies positions; `--from` comes last, so that a span is no option."""
    return ("checkpoints", "set", *more, "--to", target, "--from", source)


REPORT = f"group:{OTHER}"
"""How a call names it."""


def by_shard(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The shards of a document, or of the one place that it shows."""
    assert document["code"] == 0, document["error"]
    shown = document["places"][0] if "places" in document else document
    return {entry["shard"]: entry for entry in shown["shards"]}


def force(world: World, cursors: Mapping[int, int], group: str = OTHER) -> None:
    """Checkpoints of a group that nobody reads."""
    with world.client as client:
        for shard, cursor in cursors.items():
            path = f"/logstores/{world.logstore.service.logstore}/consumergroups/{group}"
            body = json.dumps({"shard": shard, "checkpoint": cursor_to_wire(cursor)}).encode()
            params = {"type": "checkpoint", "forceSuccess": "true"}
            client.transport.exchange("POST", path, params=params, body=body)
