"""A table in the catalog that Spark knows, and what Spark itself does with it."""

from pipelines.landing.table.lake import Lake
from tests.worlds.one_logstore import World


def in_spark(world: World, lake: Lake, name: str) -> World:
    """The same logstore, landed from its begin into the table `bronze.<name>` by a group of that name."""
    own = world.changed(table=f"bronze.{name}", group=world.logstore.group.model_dump() | {"name": name})
    return World(world.emulator, lake, own, world.engine, world.counter)


def counted(world: World, where: str = "true") -> int:
    """The rows of the table that Spark sees."""
    query = f"SELECT count(*) AS n FROM lake.{world.logstore.table} WHERE {where}"
    return int(world.engine.session.sql(query).collect()[0]["n"])


def expire(world: World) -> None:
    """Spark deletes every snapshot that the table does not stand on."""
    world.engine.session.sql(
        f"CALL lake.system.expire_snapshots(table => '{world.logstore.table}', retain_last => 1, "
        "older_than => TIMESTAMP '2100-01-01 00:00:00')"
    ).collect()


def rewrite(world: World, more: str = "") -> int:
    """Spark's own compaction of all files; how many it rewrote."""
    call = (
        f"rewrite_data_files(table => '{world.logstore.table}', options => map('rewrite-all', 'true'){more})"
    )
    rows = world.engine.session.sql(f"CALL lake.system.{call}").collect()
    return int(rows[0]["rewritten_data_files_count"])
