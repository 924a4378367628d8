"""A table that is given another region of its logstore, and settings that say it."""

from pipelines.landing.commit.planned import execute
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.relabel import plan_relabel
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient
from tests.worlds.one_logstore import World


def with_service(world: World, **changes: str) -> Logstore:
    """The world's logstore with other settings of its service."""
    service = Service.model_validate({**world.logstore.service.model_dump(), **changes})
    return world.logstore.model_copy(update={"service": service})


def world_label(world: World, logstore: Logstore) -> None:
    """Relabel by the functions that the verb calls."""
    with SlsClient(logstore.service) as client:
        execute(world.lake, plan_relabel(world.lake, logstore, client))


def relabel(world: World, region: str = "cn-hangzhou") -> str:
    """Table and settings of the world name this region from now on; the id that the table keeps."""
    kept = world.origin
    world_label(world, labelled := with_service(world, region=region))
    world.logstore = labelled
    assert world.origin != kept, "today's parts make another id"
    return kept
