"""Memory is bounded: with a data folder by nothing that was put, without one by `memory_bytes_max`."""

from pathlib import Path

from sls_io.emulator import Emulator, Limits, start
from sls_io.emulator.limits import QUOTAS_OFF
from sls_io.wire.loggroup import varint
from tests.unit.signed_calls import FROM, LOGSTORE, Caller

MIB = 1024 * 1024


def log_group(size: int) -> bytes:
    """One log of about `size` bytes that compresses well."""
    value = b"value " * (size // 6)
    content = b"\x0a\x01k\x12" + varint(len(value)) + value
    log = b"\x08\x80\x80\x80\x80\x06\x12" + varint(len(content)) + content
    return b"\x0a" + varint(len(log)) + log


def caller(emulator: Emulator) -> Caller:
    """Signed calls, with a logstore of one shard."""
    found = Caller(emulator)
    assert found.call("POST", "/", b'{"projectName": "demo"}')[0] == 200
    assert found.call("POST", "/logstores", b'{"logstoreName": "logs", "shardCount": 1, "ttl": 1}')[0] == 200
    return found


def memory_bytes(emulator: Emulator, which: str) -> int:
    """VmRSS or VmHWM of the emulator."""
    with open(f"/proc/{emulator.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(which)) * 1024


def test_what_is_in_the_data_folder_is_not_in_memory(tmp_path: Path) -> None:
    with start(tmp_path, limits=Limits.model_validate(QUOTAS_OFF)) as emulator:
        calls = caller(emulator)
        before = memory_bytes(emulator, "VmRSS")
        for _ in range(128):
            assert calls.put(log_group(MIB), "lz4") == (200, "")
        assert sum(path.stat().st_size for path in tmp_path.glob("*.seg")) > 127 * MIB
        assert memory_bytes(emulator, "VmHWM") - before < 24 * MIB
        calls.connection.close()


def test_without_a_folder_writes_are_refused_when_memory_is_full_and_retention_frees_it() -> None:
    sizes = {"memory_bytes_max": 16 * MIB, "cache_bytes_max": 0}
    with start(limits=Limits.model_validate(QUOTAS_OFF | sizes)) as emulator:
        calls = caller(emulator)
        for _ in range(3):  # the sixteenth is over it by its frame
            done = 0
            while (answer := calls.put(log_group(MIB), "lz4")) == (200, ""):
                done += 1
            assert (done, answer) == (15, (403, "WriteQuotaExceed"))
            assert calls.call("GET", LOGSTORE + "/shards/0", type="cursor", **FROM["end"])[0] == 200
            emulator.admin.retain("demo", "logs", before_s=int(emulator.admin.now()) + 5)
        assert memory_bytes(emulator, "VmHWM") < 128 * MIB
        calls.connection.close()
