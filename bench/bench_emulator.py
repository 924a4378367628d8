"""`python -m bench.bench_emulator`: puts, bare pulls and heartbeats of one emulator process.

Raw MB are uncompressed LogGroup bytes, 10**6 a MB. The client is this process, over plain HTTP
connections with the signature v1; its own share of the time is in the figures. Quotas are off: they
would be what is measured.
"""

import base64
import hashlib
import hmac
import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

from sls_io.emulator import Emulator, Limits, start
from sls_io.emulator.limits import QUOTAS_OFF
from sls_io.emulator.signing import SignedRequest, v1_text
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.wire.loggroup import compress, varint

PAIR = ("bench-key", "bench-secret")
HOST = "demo.sls.emu"
SHARDS, GROUPS, MEMBERS = 256, 30, 2
MB = 1_000_000


class Line:
    """One signed keep-alive connection."""

    def __init__(self, emulator: Emulator) -> None:
        self.connection = HTTPConnection("127.0.0.1", emulator.port, timeout=60)

    def call(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> tuple[dict[str, str], bytes]:
        """Headers and body of a 200; anything else ends the bench."""
        sent = {"host": HOST, "date": formatdate(SYSTEM_CLOCK.now(), usegmt=True),
                "x-log-apiversion": "0.6.0", "x-log-signaturemethod": "hmac-sha1",
                **(headers or {})}  # fmt: skip
        text = v1_text(SignedRequest(method, path, query, sent, body)).encode()
        digest = base64.b64encode(hmac.new(PAIR[1].encode(), text, hashlib.sha1).digest()).decode()
        sent["authorization"] = f"LOG {PAIR[0]}:{digest}"
        self.connection.request(method, path + ("?" + urlencode(query) if query else ""), body, sent)
        reply = self.connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise SystemExit(f"{method} {path}: {reply.status} {content[:200]!r}")
        return {k.lower(): v for k, v in reply.getheaders()}, content


def log_group(logs: int) -> bytes:
    """A LogGroup of access-log-like text with numbers that differ."""

    def field(number: int, content: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(content)) + content

    parts = []
    for i in range(logs):
        pairs = {
            b"ip": b"10.1.%d.%d" % (i % 251, i * 7 % 253),
            b"path": b"/catalog/item/%d?page=%d" % (i * 7919, i % 40),
            b"status": b"200", b"bytes": b"%d" % (i * 104729 % 99991),
            b"agent": b"Mozilla/5.0 (X11; Linux x86_64)",
            b"request": hashlib.md5(b"%d" % i, usedforsecurity=False).hexdigest().encode(),
        }  # fmt: skip
        contents = b"".join(field(2, field(1, k) + field(2, v)) for k, v in pairs.items())
        parts.append(field(1, b"\x08" + varint(1_790_000_000 + i) + contents))
    return b"".join(parts) + field(3, b"bench")


def cpu_s(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(name: str, emulator: Emulator, raw_bytes: int, began: tuple[float, float]) -> None:
    """One line of the report."""
    wall, cpu = SYSTEM_CLOCK.monotonic() - began[0], cpu_s(emulator.pid) - began[1]
    rate, by_cpu = raw_bytes / MB / wall, raw_bytes / MB / max(cpu, 0.01)
    print(f"{name:34} {raw_bytes / MB:7.0f} MB {rate:7.0f} MB/s  {by_cpu:7.0f} MB per emulator CPU second")


def began(emulator: Emulator) -> tuple[float, float]:
    """Where wall and emulator CPU time stand."""
    return SYSTEM_CLOCK.monotonic(), cpu_s(emulator.pid)


def puts(emulator: Emulator, raw_mb: int) -> None:
    """LogGroups of 1,000 logs, lz4, by two connections."""
    raw = log_group(1000)
    body, count = compress(raw, "lz4"), raw_mb * MB // len(raw)
    headers = {
        "content-type": "application/x-protobuf",
        "x-log-bodyrawsize": str(len(raw)),
        "x-log-compresstype": "lz4",
    }
    start_at = began(emulator)

    def put(times: int) -> None:
        line = Line(emulator)
        for _ in range(times):
            line.call("POST", "/logstores/logs/shards/lb", {}, body, headers)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(put, count // 2) for _ in range(2)]:
            done.result()
    measured(f"puts, {len(raw) // 1000} KB LogGroups", emulator, count // 2 * 2 * len(raw), start_at)


def pulls(emulator: Emulator, name: str, accept: str) -> None:
    """All pages of all shards by one connection."""
    line, total, start_at = Line(emulator), 0, began(emulator)
    shards = json.loads(line.call("GET", "/logstores/logs/shards", {})[1])
    for shard in shards:
        path = f"/logstores/logs/shards/{shard['shardID']}"
        cursor = json.loads(line.call("GET", path, {"type": "cursor", "from": "begin"})[1])["cursor"]
        while True:
            query = {"type": "log", "cursor": cursor, "count": "1000"}
            headers, _ = line.call("GET", path, query, headers={"accept-encoding": accept})
            total += int(headers["x-log-bodyrawsize"])
            if headers["x-log-cursor"] == cursor:
                break
            cursor = headers["x-log-cursor"]
    measured(name, emulator, total, start_at)


def heartbeats(emulator: Emulator) -> None:
    """GROUPS groups of MEMBERS members over SHARDS shards, round after round."""
    line = Line(emulator)
    line.call(
        "POST",
        "/logstores",
        {},
        json.dumps({"logstoreName": "wide", "shardCount": SHARDS, "ttl": 1}).encode(),
    )
    held: dict[tuple[int, int], bytes] = {}
    for group in range(GROUPS):
        body = json.dumps({"consumerGroup": f"g{group}", "timeout": 600, "order": True}).encode()
        line.call("POST", "/logstores/wide/consumergroups", {}, body)
    times, start_s = list[float](), 0.0
    for turn in range(12):
        start_s = cpu_s(emulator.pid) if turn == 3 else start_s
        for group in range(GROUPS):
            for member in range(MEMBERS):
                query = {"type": "heartbeat", "consumer": f"c{member}"}
                at = SYSTEM_CLOCK.monotonic()
                path = f"/logstores/wide/consumergroups/g{group}"
                _, held[group, member] = line.call("POST", path, query, held.get((group, member), b"[]"))
                if turn >= 3:
                    times.append(SYSTEM_CLOCK.monotonic() - at)
    each_ms = (cpu_s(emulator.pid) - start_s) / len(times) * 1000
    times.sort()
    p50, p99 = times[len(times) // 2] * 1000, times[len(times) * 99 // 100] * 1000
    spread = f"p50 {p50:.1f} ms  p99 {p99:.1f} ms"
    print(f"heartbeats, {SHARDS} shards x {GROUPS} groups     {spread}  emulator CPU {each_ms:.1f} ms each")


def main(raw_mb: int = 400) -> None:
    """Run all, on a data folder that is removed afterwards."""
    limits = Limits.model_validate(QUOTAS_OFF)
    with (
        tempfile.TemporaryDirectory() as folder,
        start(Path(folder), key_pair=PAIR, limits=limits) as emulator,
    ):
        line = Line(emulator)
        line.call("POST", "/", {}, b'{"projectName": "demo"}')
        line.call("POST", "/logstores", {}, b'{"logstoreName": "logs", "shardCount": 2, "ttl": 1}')
        puts(emulator, raw_mb)
        pulls(emulator, "pulls, lz4, first time", "lz4")
        pulls(emulator, "pulls, lz4, again", "lz4")
        pulls(emulator, "pulls, not compressed", "")
        heartbeats(emulator)
        status = Path(f"/proc/{emulator.pid}/status").read_text()
        peak_kb = int(status.partition("VmHWM:")[2].split()[0])
        print(f"peak memory of the emulator        {peak_kb / 1000:7.0f} MB")


if __name__ == "__main__":
    main()
