"""Hostile input over real sockets: an error each time, never a crash, a leak or an answer that is late."""

import http.client
import json
import os
import resource
import selectors
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sls_io.emulator import Emulator, Limits, start
from sls_io.emulator.api import ROUTES
from sls_io.wire.loggroup import compress
from tests.unit.signed_calls import LOGSTORE, Caller

PUT_BYTES_MAX = 1 << 20
IDLE = 10_000
OWN_FILES = 500
"""Files that this process and the emulator may have open besides connections."""


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    """One emulator for all; what a test leaves behind must not hurt the next."""
    with start(limits=Limits(put_bytes_max=PUT_BYTES_MAX)) as running:
        first = Caller(running)
        for path, body in (
            ("/", b'{"projectName": "demo"}'),
            ("/logstores", b'{"logstoreName": "logs", "shardCount": 1, "ttl": 1}'),
            (LOGSTORE + "/consumergroups", b'{"consumerGroup": "g", "timeout": 10, "order": false}'),
        ):
            assert first.call("POST", path, body)[0] == 200
        first.connection.close()
        yield running


@pytest.fixture
def caller(emulator: Emulator) -> Iterator[Caller]:
    """Signed calls over a connection of their own."""
    found = Caller(emulator)
    yield found
    found.connection.close()


def peak_kb(emulator: Emulator) -> int:
    """The most memory the emulator has had."""
    return _status(emulator, "VmHWM")


def _status(emulator: Emulator, name: str) -> int:
    with open(f"/proc/{emulator.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


def open_files(emulator: Emulator) -> int:
    return len(os.listdir(f"/proc/{emulator.pid}/fd"))


NASTY: tuple[Any, ...] = (
    None, True, 0, -1, 1 << 63, 10**30, 1.5, 1e308, "", "-1", "0", "logs", "g", "../..", "a" * 300, "%00",
    "\x00", "\ud800", "١", "nan", "1e9", "MQ==", "MTc=", "=", "ff" * 16, "begin", "<b>", [], [0], [0] * 1000,
    [[]], ["0"], {}, {"a": {}},
)  # fmt: skip
TEXTS = st.sampled_from([v for v in NASTY if isinstance(v, str) and v != "\ud800"] + [str(10**30), "5"])
NAMES = st.sampled_from([
    "projectName", "description", "logstoreName", "ttl", "shardCount", "consumerGroup", "timeout", "order",
    "shard", "checkpoint", "maxSplitShard", "telemetryType",
])  # fmt: skip
QUERY = st.dictionaries(
    st.sampled_from([
        "key", "shardCount", "from", "cursor", "end_cursor", "count", "consumer", "size", "offset", "shard",
        "forceSuccess", "projectName", "logstoreName", "query",
    ]),
    TEXTS,
    max_size=5,
)  # fmt: skip
BODIES = st.one_of(
    st.builds(lambda v: json.dumps(v).encode(), st.sampled_from(NASTY)),
    st.builds(lambda v: json.dumps(v).encode(), st.dictionaries(NAMES, st.sampled_from(NASTY), max_size=4)),
    st.binary(max_size=40),
    st.sampled_from([
        b"[" * 100_000, b'{"a":' * 50_000, b"9" * 10_000, b"\xff\xfe{", b"\x0a\xff\xff\xff\xff\x7f",
    ]),
)  # fmt: skip
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "content-type": st.sampled_from(["application/x-protobuf", "application/json", "\xff", ""]),
        "x-log-bodyrawsize": st.sampled_from(["0", "5", "-1", "²", "1e3", "9" * 30, "", "1048576"]),
        "x-log-compresstype": st.sampled_from(["lz4", "zstd", "deflate", "gzip", "\xff", "LZ4"]),
        "accept-encoding": st.sampled_from(["lz4", "", ",,,", "\xff", "zstd;q=0", "deflate"]),
    },
)


@st.composite
def targets(draw: st.DrawFn) -> tuple[str, str, dict[str, str]]:
    """Method, path and query of a supported call; names and values are right or nonsense."""
    route = draw(st.sampled_from([r for r in ROUTES if r.method != "DELETE" or r.name == "delete_shard"]))
    right = {"logstore": "logs", "shard": "0", "group": "g"}
    names = {k: draw(st.one_of(st.just(v), st.just(v), TEXTS)) for k, v in right.items()}
    return (
        route.method, route.path.format(**names),
        draw(QUERY) | {k: v[0] for k, v in route.query.items() if v != ("",)},
    )  # fmt: skip


@settings(
    max_examples=400, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(target=targets(), body=BODIES, headers=HEADERS)
def test_signed_nonsense_is_refused_by_name(
    caller: Caller, target: tuple[str, str, dict[str, str]], body: bytes, headers: dict[str, str]
) -> None:
    """Values of every kind in every place of every call: an answer of the protocol, never a failure."""
    method, path, query = target
    status, told, answer = caller.call(method, path, body, headers, **query)
    assert status < 500, (status, answer)
    assert told["x-log-requestid"]
    if status >= 400:
        assert set(json.loads(answer)) == {"errorCode", "errorMessage"}


def bomb(kind: str, size: int) -> bytes:
    """`size` bytes of LogGroup in a body as small as the kind allows: nothing but empty logs."""
    if kind == "zstd":
        return zstandard.ZstdCompressor(level=19).compress(b"\x0a\x00" * (size // 2))
    return zlib.compress(b"\x0a\x00" * (size // 2), 9) if kind == "deflate" else compress(bytes(size), kind)


@pytest.mark.parametrize("kind", ["lz4", "zstd", "deflate"])
@pytest.mark.parametrize("claim", [0, 1000, PUT_BYTES_MAX, 100 << 20, 10**12])
def test_a_decompression_bomb_is_refused_by_its_claim_and_by_its_content(
    caller: Caller, kind: str, claim: int
) -> None:
    """100 MiB in at most 400 KiB, whatever the header says of it: memory stays where it was."""
    headers = {"content-type": "application/x-protobuf", "x-log-compresstype": kind}
    body = bomb(kind, 100 << 20)
    before_kb = peak_kb(caller.emulator)
    answer = caller.call("POST", LOGSTORE + "/shards/lb", body, {**headers, "x-log-bodyrawsize": str(claim)})
    assert caller.code(answer) in ((400, "PostBodyTooLarge"), (400, "PostBodyUncompressError"))
    assert peak_kb(caller.emulator) - before_kb < 16_000


def test_a_group_of_nothing_but_empty_logs_costs_little_and_for_a_moment(caller: Caller) -> None:
    """Protobuf makes an object of every two bytes: the worst that fits into one put."""
    sent = {"content-type": "application/x-protobuf", "x-log-compresstype": "deflate"}
    body = bomb("deflate", PUT_BYTES_MAX)
    before_kb = peak_kb(caller.emulator)
    for _ in range(3):
        answer = caller.call(
            "POST", LOGSTORE + "/shards/lb", body, {**sent, "x-log-bodyrawsize": str(PUT_BYTES_MAX)}
        )
        assert caller.code(answer) == (400, "PostBodyInvalid")
    assert peak_kb(caller.emulator) - before_kb < 100_000


@pytest.mark.parametrize(
    "request_text",
    [
        b"GARBAGE\r\n\r\n",
        b"GET http:// HTTP/1.1\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT demo.sls.emu:443 HTTP/1.1\r\nHost: demo.sls.emu:443\r\n\r\n",
        b"GET /logstores HTTP/1.1\r\nHost: demo.sls.emu\r\nContent-Length: nonsense\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-A: " + b"b" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % i for i in range(20_000)) + b"\r\n",
        b"POST /logstores/logs HTTP/1.1\r\nHost: demo.a.b\r\nContent-Length: 99999999999\r\n\r\nabc",
        b"POST /logstores/logs HTTP/1.1\r\nHost: demo.a.b\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"GET / HTTP/1.1\r\nHost: \xc3\xa4.b\r\nAuthorization: LOG \xff:\xff\r\nx-log-apiversion: 9\r\n\r\n",
    ],
    ids=range(11),
)
def test_a_hostile_request_gets_an_error_and_the_next_one_an_answer(
    caller: Caller, request_text: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", caller.emulator.port), timeout=120) as raw:
        try:
            raw.sendall(request_text)
            raw.shutdown(socket.SHUT_WR)
            answer = raw.recv(100)
        except OSError:  # closed by now, and the answer with it: a shutdown then finds no connection
            answer = b"HTTP/1.1 4"
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert caller.call("GET", "/")[0] == 200


def test_a_body_that_never_ends_does_not_hold_up_others(caller: Caller) -> None:
    with socket.create_connection(("127.0.0.1", caller.emulator.port)) as slow:
        slow.sendall(b"POST /logstores/logs HTTP/1.1\r\nHost: demo.a.b\r\nContent-Length: 1000\r\n\r\nabc")
        assert caller.put() == (200, "")


@settings(
    max_examples=150, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    parts=st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from([
                b"GET / HTTP/1.1\r\n", b"POST /logstores/logs HTTP/1.1\r\n", b"PUT http://demo.sls.emu ",
                b"Host: demo.sls.emu\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n",
                b"Content-Length: -1\r\n", b"Expect: 100-continue\r\n", b"Upgrade: websocket\r\n", b"\r\n",
                b"Connection: Upgrade\r\n", b"PRI * HTTP/2.0\r\n", b"HTTP/9.9\r\n", b"OPTIONS * ",
                b"\r\n\r\n", b"FFFFFFFF\r\n", b"0\r\n\r\n",
            ]),
        ),
        max_size=8,
    )
)  # fmt: skip
def test_broken_http_never_gets_more_than_an_error(caller: Caller, parts: list[bytes]) -> None:
    with socket.create_connection(("127.0.0.1", caller.emulator.port), timeout=120) as raw:
        said = b""
        with suppress(ConnectionError):
            raw.sendall(b"".join(parts))
            raw.shutdown(socket.SHUT_WR)
            while chunk := raw.recv(65_536):
                said += chunk
    assert b"HTTP/1.1 2" not in said
    assert b"HTTP/1.1 5" not in said
    assert caller.call("GET", "/")[0] == 200


def test_half_sent_bodies_of_many_do_not_fill_the_memory() -> None:
    """Each is within the limit of one put; together they are refused before they are too many."""
    with start(limits=Limits(bodies_bytes_max=64 << 20)) as emulator, ExitStack() as opened:
        caller = Caller(emulator)
        assert caller.call("POST", "/", b'{"projectName": "demo"}')[0] == 200
        memory_kb, part = peak_kb(emulator), bytes(8 << 20)
        head = b"POST /logstores/logs HTTP/1.1\r\nHost: demo.a.b\r\nContent-Length: %d\r\n\r\n"
        senders = []
        for _ in range(16):
            sender = opened.enter_context(socket.create_connection(("127.0.0.1", emulator.port), timeout=120))
            senders.append(sender)
            with suppress(ConnectionError):
                sender.sendall(head % (len(part) + 1) + part)
        selector = opened.enter_context(selectors.DefaultSelector())
        for sender in senders:
            selector.register(sender, selectors.EVENT_READ)
        answered = 0
        while answered < 8:
            ready = selector.select(30)
            assert ready, f"{answered} refused"
            answered += len(ready)
            for key, _ in ready:
                selector.unregister(key.fileobj)
        body = b'{"logstoreName": "logs", "shardCount": 2, "ttl": 30}'
        assert caller.call("POST", "/logstores", body)[0] == 200
        assert peak_kb(emulator) - memory_kb < 130_000
        caller.connection.close()


def idle_connections(emulator: Emulator, count: int) -> list[socket.socket]:
    """Open ones that say nothing; closed, they leave no port behind that waits."""
    found = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", emulator.port), timeout=120)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        found.append(connection)
    return found


def test_ten_thousand_idle_connections_do_not_keep_others_out_and_leave_nothing() -> None:
    """As many as one process may have open here; the emulator raises its own limit likewise."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(IDLE, hard - OWN_FILES)
    assert count >= 2000, f"ulimit -n allows {hard} open files only"
    idle: list[socket.socket] = []
    try:
        with start() as emulator:
            caller = Caller(emulator)
            assert caller.call("POST", "/", b'{"projectName": "demo"}')[0] == 200
            files, memory_kb = open_files(emulator), _status(emulator, "VmRSS")
            for _ in range(2):
                idle = idle_connections(emulator, count)
                assert caller.call("GET", "/")[0] == 200
                assert open_files(emulator) >= files + count
                for connection in idle:
                    connection.close()
                # Each call is a turn of its loop, in which it sees more of them gone.
                for _ in range(10_000):
                    assert caller.call("GET", "/")[0] == 200
                    if open_files(emulator) <= files + 1:
                        break
                assert open_files(emulator) <= files + 1
            assert peak_kb(emulator) - memory_kb < 20 * count
            caller.connection.close()
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_out_of_files_it_waits_and_goes_on() -> None:
    """More connections than it may have files: those it has are served, and later the others."""
    program = f"ulimit -n 100 && exec {sys.executable} -m sls_io.emulator --with-stdin"
    with subprocess.Popen(
        ["/bin/sh", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        port = int(process.stdout.readline().rpartition(b":")[2])
        first = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        first.request("GET", "/_admin/state")
        assert first.getresponse().read()
        idle = [socket.create_connection(("127.0.0.1", port), timeout=120) for _ in range(200)]
        first.request("GET", "/_admin/state")
        assert first.getresponse().read()
        for connection in idle:
            connection.close()
        later = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        later.request("GET", "/_admin/state")
        assert later.getresponse().status == 200
        for each in (first, later):
            each.close()
        process.stdin.close()
        assert process.wait(timeout=120) == 0
