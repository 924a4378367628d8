"""A logstore whose landings are carried out in this process: no JVM, and runs that wait for little."""

from pathlib import Path

from chaos.engine import InProcess
from sls_io.emulator import Emulator
from tests.worlds.one_logstore import PROJECT, World, logstore_settings, make_lake


def quick_world(emulator: Emulator, lake: Path, name: str = "access_logs", *, read_s: float = 60.0) -> World:
    """A new logstore of two shards and an empty lake; a call is given up after `read_s`."""
    logstore = logstore_settings(emulator, name)
    service = logstore.service.model_copy(update={"read_timeout_s": read_s})
    world = World(emulator, make_lake(lake), logstore, InProcess())
    world.logstore = world.changed(
        service=service.model_dump(), group={**logstore.group.model_dump(), "patience_s": 1}
    )
    with world.client as client:
        if PROJECT not in {x["name"] for x in emulator.admin.state()["projects"]}:
            client.transport.create_project(PROJECT, "")
        client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=2)
    return world
