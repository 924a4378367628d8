"""Reading the log service: shards, cursors, pages, claims. Importable alone.

    from sls_io import open_logstore

    with open_logstore("https://cn-hangzhou.log.aliyuncs.com", "demo", "access_logs") as logs:
        for shard in logs.shards():
            print(shard)
        print(logs.peek(0))

`__all__` is the whole public surface and a test closes it. What talks to the service is loaded
when it is first asked for, since the vendor's SDK takes half a second to import and most
processes that need an error class or a setting need nothing else. Nothing here needs Dagster, Spark or
Iceberg, and none of them is ever imported by it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from sls_io.values.claim import Claim, Gap, Ledger, ShardLedger
from sls_io.values.clock import SYSTEM_CLOCK, Clock, ManualClock, SystemClock
from sls_io.values.errors import (
    Breach,
    CheckpointOutside,
    ClaimLost,
    CommitStands,
    ConfigError,
    ConnectFailed,
    CursorExpired,
    DecodeError,
    InvariantBroken,
    LandingConflict,
    LandingUnknown,
    LedgerBroken,
    ServiceError,
    ShardGone,
    SlsError,
    StoreBroken,
    StoreError,
    Throttled,
    TransportError,
    TransportTimeout,
)
from sls_io.values.settings import Budget, Credentials, Group, Service
from sls_io.values.shard import Head, Shard
from sls_io.values.window import Cursor, IntervalSet, Window, cursor_from_wire, cursor_to_wire

if TYPE_CHECKING:
    from sls_io.checkpoints.group import GroupCheckpoints
    from sls_io.checkpoints.local_file import LocalFile
    from sls_io.checkpoints.sql_table import SqlTable
    from sls_io.checkpoints.store import CheckpointStore
    from sls_io.coordination.coordinator import Coordinator
    from sls_io.coordination.server_group import ServerGroup
    from sls_io.coordination.sql_lease import SqlLease
    from sls_io.coordination.static import Static
    from sls_io.decoding.pairs import Declared
    from sls_io.reader.broadcast import Broadcast
    from sls_io.reader.consumer import Processor
    from sls_io.reader.held import Held
    from sls_io.reader.logstore import Reader, ShardStatus, open_logstore
    from sls_io.reader.rows import Extent, Rows
    from sls_io.wire.client import GroupCheckpoint, GroupInfo, Origin, SlsClient
    from sls_io.wire.page import Page
    from sls_io.wire.transport import Transport

__all__ = [
    # a logstore to read
    "open_logstore",
    "Reader",
    "ShardStatus",
    "Extent",
    "Rows",
    "Declared",
    "Held",
    "Processor",
    "Broadcast",
    # the client
    "SlsClient",
    "Transport",
    "Page",
    "Origin",
    "GroupInfo",
    "GroupCheckpoint",
    # settings
    "Service",
    "Credentials",
    "Group",
    "Budget",
    # values
    "Cursor",
    "cursor_from_wire",
    "cursor_to_wire",
    "Window",
    "IntervalSet",
    "Shard",
    "Head",
    "Claim",
    "Ledger",
    "ShardLedger",
    "Gap",
    # holding shards
    "Coordinator",
    "ServerGroup",
    "SqlLease",
    "Static",
    # keeping positions without owners
    "CheckpointStore",
    "LocalFile",
    "SqlTable",
    "GroupCheckpoints",
    # time
    "Clock",
    "SystemClock",
    "ManualClock",
    "SYSTEM_CLOCK",
    # errors
    "Breach",
    "SlsError",
    "ConfigError",
    "TransportError",
    "TransportTimeout",
    "ConnectFailed",
    "Throttled",
    "ServiceError",
    "CursorExpired",
    "ShardGone",
    "ClaimLost",
    "DecodeError",
    "LandingConflict",
    "LandingUnknown",
    "CommitStands",
    "LedgerBroken",
    "StoreError",
    "StoreBroken",
    "CheckpointOutside",
    "InvariantBroken",
]

_LATER = {
    "open_logstore": "sls_io.reader.logstore",
    "Reader": "sls_io.reader.logstore",
    "ShardStatus": "sls_io.reader.logstore",
    "Extent": "sls_io.reader.rows",
    "Rows": "sls_io.reader.rows",
    "Declared": "sls_io.decoding.pairs",
    "Held": "sls_io.reader.held",
    "Processor": "sls_io.reader.consumer",
    "Broadcast": "sls_io.reader.broadcast",
    "SlsClient": "sls_io.wire.client",
    "Page": "sls_io.wire.page",
    "Origin": "sls_io.wire.client",
    "GroupInfo": "sls_io.wire.client",
    "GroupCheckpoint": "sls_io.wire.client",
    "Transport": "sls_io.wire.transport",
    "Coordinator": "sls_io.coordination.coordinator",
    "ServerGroup": "sls_io.coordination.server_group",
    "SqlLease": "sls_io.coordination.sql_lease",
    "Static": "sls_io.coordination.static",
    "CheckpointStore": "sls_io.checkpoints.store",
    "LocalFile": "sls_io.checkpoints.local_file",
    "SqlTable": "sls_io.checkpoints.sql_table",
    "GroupCheckpoints": "sls_io.checkpoints.group",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
