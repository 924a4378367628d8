"""A table whose newest metadata file goes, and one that nobody registered."""

from pathlib import Path

from pipelines.landing.table.contract import Contract
from tests.worlds.one_logstore import World

CONTRACT = Contract.from_columns({"n": "long"})


def newest_metadata(world: World) -> Path:
    return Path(world.table.metadata_location.removeprefix("file://"))
