"""How a logstore's shards are held, and where its checkpoints are, as its setting `coordinator` says."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipelines.landing.logstore import Logstore
from sls_io.coordination.server_group import ServerGroup
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ConfigError
from sls_io.wire.client import GroupCheckpoint, SlsClient

if TYPE_CHECKING:
    from sls_io.coordination.sql_lease import SqlLease

_FILE = "sqlite:////"


def coordinator_of(
    logstore: Logstore, client: SlsClient, clock: Clock = SYSTEM_CLOCK
) -> "ServerGroup | SqlLease":
    """What holds shards for a live run. Nothing is asked before its first call.

    Raises ConfigError when the database of leases has no usable address.
    """
    if not logstore.coordinator.leases:
        return ServerGroup(client, logstore.group, clock=clock)
    return _leases(logstore, client, clock)


@dataclass(frozen=True)
class Standing:
    """What the coordinator says of the shards it knows, as of one look: their checkpoints, and who is how far
    with which shard, where leases say so; the service's group does not."""

    checkpoints: Mapping[int, GroupCheckpoint]
    consumers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


def standing(logstore: Logstore, client: SlsClient) -> Standing:
    """Look at what the coordinator knows, once; nothing is joined.

    Raises when it cannot be read: a ServiceError, also for a group that is not there, or what the database
    says. Tables of leases that nobody has made yet are no error and have none.
    """
    if not logstore.coordinator.leases:
        return Standing(client.checkpoints(logstore.group.name))
    with closing(_leases(logstore, client, SYSTEM_CLOCK)) as leases:
        rows = leases.look().leases
    return Standing(
        {
            shard: GroupCheckpoint(shard, one.checkpoint, one.stamp_ms * 1000, one.consumer or one.owner)
            for shard, one in rows.items()
        },
        {shard: {name: str(how) for name, how in one.states().items()} for shard, one in rows.items()},
    )


def published(logstore: Logstore, client: SlsClient) -> Mapping[int, GroupCheckpoint]:
    """The checkpoint of every shard that the coordinator knows; as `standing`."""
    return standing(logstore, client).checkpoints


def _leases(logstore: Logstore, client: SlsClient, clock: Clock) -> "SqlLease":
    from sls_io.coordination.sql_lease import SqlLease

    known = None if logstore.coordinator.weighs else 1
    return SqlLease.at(
        _address(logstore),
        logstore.group,
        lambda: {shard.id: known for shard in client.shards()},
        signature=client.origin().id,
        assignor=logstore.coordinator.assignor,
        clock=clock,
    )


def _address(logstore: Logstore) -> str:
    """Where the leases are; an address with a password comes from the environment and goes nowhere else."""
    setting = logstore.coordinator
    if not setting.variable:
        return setting.database
    address = os.environ.get(setting.variable, "")
    if not address:
        raise ConfigError(
            f"coordinator.database: the environment variable {setting.variable} is not set; export "
            "the address of the database of leases in it, wherever runs start"
        )
    if address.startswith("sqlite:") and not address.startswith(_FILE):
        raise ConfigError(
            f"{setting.variable}: name the file of leases from the root on ({_FILE}...); each process "
            "has a folder of its own"
        )
    return address
