"""What a run made, and how it goes away. What stays is said with the command that removes it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.exceptions import NoSuchNamespaceError

from pipelines.landing.doctor.warehouse import emptied
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.trouble import masked
from real.asked import Asked
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import NO_PROJECT_CODES, ConfigError, ServiceError, SlsError
from sls_io.wire.client import SlsClient

_READY_S, _PAUSE_S = 120.0, 1.0


@dataclass(frozen=True)
class Thing:
    """`remove` raises where it stays, and is quiet where it was never there."""

    what: str
    remove: Callable[[], None]


def make(asked: Asked, logstores: dict[str, int]) -> None:
    """The project, and logstores of so many shards. Returns when they take calls: the vendor's pages speak of
    a minute."""
    with SlsClient(asked.service()) as client:
        client.transport.create_project(asked.name, "a run of make real of sls-lake; may be removed")
        for name, shards in logstores.items():
            client.transport.create_logstore(asked.name, name, ttl=1, shard_count=shards)
    for name in logstores:
        with SlsClient(asked.service(name)) as client:
            _wait_until_ready(client)


def _wait_until_ready(client: SlsClient) -> None:
    until_s = SYSTEM_CLOCK.monotonic() + _READY_S
    while True:
        try:
            for shard in client.shards():
                client.head(shard)
        except ServiceError:
            if SYSTEM_CLOCK.monotonic() > until_s:
                raise
            SYSTEM_CLOCK.sleep(_PAUSE_S)
        else:
            return


def things(asked: Asked) -> tuple[Thing, ...]:
    """All that a run of this name can have made, in the order in which it goes."""
    return (
        Thing(f"namespace {asked.namespace}, with its tables and their files", lambda: _tables(asked)),
        Thing(f"project {asked.name}", lambda: _project(asked)),
        Thing(
            f"folder {asked.folder}", lambda: shutil.rmtree(asked.folder) if asked.folder.exists() else None
        ),
    )


def removed(asked: Asked) -> Iterator[tuple[Thing, str]]:
    """Removes all of it: each thing with why it stays, "" where it is gone. Where a thing stays, so does the
    folder: the catalog may lie there."""
    stays = False
    for thing in things(asked):
        if stays and thing.what.startswith("folder"):
            yield thing, "the catalog of what stays may lie there"
            continue
        try:
            thing.remove()
        except Exception as error:  # whatever a catalog or a store raises: the others go all the same
            stays = True
            yield thing, str(error) if isinstance(error, SlsError) else masked(error)
        else:
            yield thing, ""


def _project(asked: Asked) -> None:
    with SlsClient(asked.service()) as client:
        try:
            for name in client.logstores():
                client.transport.delete_logstore(asked.name, name)
            client.transport.delete_project(asked.name)
        except ServiceError as error:
            if error.code not in NO_PROJECT_CODES:
                raise


def _tables(asked: Asked) -> None:
    if asked.own_catalog and not asked.folder.exists():
        return
    lake = Lake.default()
    catalog = lake.catalog()
    with suppress(NoSuchNamespaceError):
        for name in catalog.list_tables(asked.namespace):
            table = catalog.load_table(name)
            catalog.drop_table(name)
            if left := emptied(table.io, table.location()):
                raise ConfigError(f"{left} files stay at {table.location()}: delete that folder")
        catalog.drop_namespace(asked.namespace)
