"""A second logstore whose settings name the first one's table."""

from pipelines.landing.logstore import Logstore
from tests.worlds.one_logstore import PROJECT, World, logstore_settings


def second_logstore(world: World, *, rows: int = 25, shared: bool = True) -> Logstore:
    """A logstore `other_logs` of one shard with `rows` logs, whose settings name the same table."""
    settings = logstore_settings(world.emulator, "other_logs", table=world.logstore.table, shared=shared)
    with world.client as client:
        client.transport.create_logstore(PROJECT, "other_logs", ttl=30, shard_count=1)
    other = World(world.emulator, world.lake, settings, world.engine)
    other.put(rows)
    world.emulator.admin.advance(60)
    return settings
