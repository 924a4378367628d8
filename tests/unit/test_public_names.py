"""The public surface of sls_io is a list, and this test closes it."""

import subprocess
import sys
from types import ModuleType

import sls_io

CLIENT = {"SlsClient", "Transport", "Page", "Origin", "GroupInfo", "GroupCheckpoint"}
READING = {
    "open_logstore",
    "Reader",
    "ShardStatus",
    "Extent",
    "Rows",
    "Declared",
    "Held",
    "Processor",
    "Broadcast",
}
SETTINGS = {"Service", "Credentials", "Group", "Budget"}
VALUES = {"Cursor", "cursor_from_wire", "cursor_to_wire", "Window", "IntervalSet", "Shard", "Head"}
LEDGER = {"Claim", "Ledger", "ShardLedger", "Gap"}
HOLDING = {"Coordinator", "ServerGroup", "SqlLease", "Static"}
KEEPING = {"CheckpointStore", "LocalFile", "SqlTable", "GroupCheckpoints"}
TIME = {"Clock", "SystemClock", "ManualClock", "SYSTEM_CLOCK"}
ERRORS = {
    *("SlsError", "ConfigError", "TransportError", "TransportTimeout", "ConnectFailed", "Throttled"),
    *("ServiceError", "CursorExpired", "ShardGone", "ClaimLost", "DecodeError", "LandingConflict"),
    *("LandingUnknown", "LedgerBroken", "Breach", "InvariantBroken", "StoreError", "StoreBroken"),
    "CheckpointOutside",
    "CommitStands",
}
PUBLIC = READING | CLIENT | SETTINGS | VALUES | LEDGER | HOLDING | KEEPING | TIME | ERRORS


def test_the_public_names_are_exactly_these() -> None:
    assert set(sls_io.__all__) == PUBLIC
    assert len(sls_io.__all__) == len(PUBLIC)


def test_every_public_name_is_there_and_documented() -> None:
    for name in PUBLIC:
        found = getattr(sls_io, name)
        assert found is not None
        if isinstance(found, type):
            assert found.__doc__, name


def test_nothing_else_looks_public() -> None:
    others = {
        name
        for name, value in vars(sls_io).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert others - PUBLIC <= {"TYPE_CHECKING", "import_module"}


def test_importing_the_package_does_not_load_the_vendor_sdk() -> None:
    code = "import sys, sls_io; sls_io.Service; sls_io.ConfigError; print('aliyun.log' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout.strip() == "False"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(sls_io, "Offset")
