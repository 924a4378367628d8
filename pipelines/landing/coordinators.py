"""How a logstore's shards are held, and where its checkpoints are, as its setting `coordinator` says."""

import os
from collections.abc import Mapping
from contextlib import closing

from pipelines.landing.logstore import Logstore
from sls_io.client import GroupCheckpoint, SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.coordination.lease import Lease
from sls_io.coordination.server_group import ServerGroup
from sls_io.coordination.sql_lease import SqlLease
from sls_io.errors import ConfigError

_FILE = "sqlite:////"


def coordinator_of(
    logstore: Logstore, client: SlsClient, clock: Clock = SYSTEM_CLOCK
) -> ServerGroup | SqlLease:
    """What holds shards for a live run. Nothing is asked before its first call.

    Raises ConfigError when the database of leases has no usable address.
    """
    if logstore.coordinator.kind == "server_group":
        return ServerGroup(client, logstore.group, clock=clock)
    return _leases(logstore, client, clock)


def published(logstore: Logstore, client: SlsClient) -> Mapping[int, GroupCheckpoint]:
    """The checkpoint of every shard that the coordinator knows; looks only, and joins nothing.

    Raises when they cannot be read: a ServiceError, also for a group that is not there, or what the database
    says. Tables of leases that nobody has made yet are no error and have none.
    """
    if logstore.coordinator.kind == "server_group":
        return client.checkpoints(logstore.group.name)
    return {
        shard: GroupCheckpoint(shard, lease.checkpoint, lease.stamp_ms * 1000, lease.consumer or lease.owner)
        for shard, lease in _rows(logstore, client).items()
    }


def consumers(logstore: Logstore, client: SlsClient) -> Mapping[int, Mapping[str, str]]:
    """Who is how far with which shard, where leases say so; empty for the service's group, which does not."""
    if logstore.coordinator.kind == "server_group":
        return {}
    rows = _rows(logstore, client)
    return {s: {name: str(state) for name, state in lease.states().items()} for s, lease in rows.items()}


def _rows(logstore: Logstore, client: SlsClient) -> Mapping[int, Lease]:
    """The rows of the table of leases, looked at once."""
    with closing(_leases(logstore, client, SYSTEM_CLOCK)) as leases:
        return leases.look().leases


def _leases(logstore: Logstore, client: SlsClient, clock: Clock) -> SqlLease:
    return SqlLease.at(
        _address(logstore),
        logstore.group,
        lambda: {shard.id: 1 for shard in client.shards()},
        signature=client.origin().id,
        assignor=logstore.coordinator.assignor,
        clock=clock,
    )


def _address(logstore: Logstore) -> str:
    """Where the leases are; an address with a password comes from the environment and goes nowhere else."""
    setting = logstore.coordinator
    if not setting.database_env:
        return setting.database
    address = os.environ.get(setting.database_env, "")
    if not address:
        raise ConfigError(
            f"coordinator.database_env: the environment variable {setting.database_env} is not set; export "
            "the address of the database of leases in it, wherever runs start"
        )
    if address.startswith("sqlite:") and not address.startswith(_FILE):
        raise ConfigError(
            f"{setting.database_env}: name the file of leases from the root on ({_FILE}...); each process "
            "has a folder of its own"
        )
    return address
