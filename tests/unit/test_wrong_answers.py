"""Every call of the client against every wrong answer: an error of the tree with a true sentence, or none.

The answers are bytes on a raw socket: what no HTTP server of a library would send.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from sls_io.values.errors import ConfigError, DecodeError, ServiceError, SlsError, TransportError
from sls_io.values.settings import Group, Service
from sls_io.values.shard import Shard
from sls_io.values.window import Cursor, cursor_to_wire
from sls_io.wire.client import SlsClient
from sls_io.wire.transport import Transport
from tests.unit.scripted_service import Reply, raw_server, script

CALLS: dict[str, Callable[[SlsClient], object]] = {
    "shards": lambda c: c.shards(),
    "head": lambda c: c.head(Shard(0, False)),
    "cursor_at": lambda c: c.cursor_at(0, 1_790_000_000),
    "cursor_time_s": lambda c: c.cursor_time_s(0, Cursor(7)),
    "pull": lambda c: c.pull(0, Cursor(7)),
    "put_raw": lambda c: c.put_raw(b"group"),
    "now_s": lambda c: c.now_s(),
    "origin": lambda c: c.origin(),
    "retention_s": lambda c: c.retention_s(),
    "groups": lambda c: c.groups(),
    "create_group": lambda c: c.create_group(Group(name="g")),
    "heartbeat": lambda c: c.heartbeat("g", "h", [1]),
    "checkpoints": lambda c: c.checkpoints("g"),
    "save_checkpoint": lambda c: c.save_checkpoint("g", "h", 0, Cursor(7)),
    "create_project": lambda c: c.transport.create_project("demo", ""),
    "create_logstore": lambda c: c.transport.create_logstore("demo", "logs", 30, 2),
}
READS = frozenset(CALLS) - {"put_raw", "create_group", "save_checkpoint", "create_project", "create_logstore"}
"""Calls that need something from the answer: none of them may take a wrong one for one."""

DEEP = b"[" * 100_000
DEEP_OBJECT = b'{"a":' * 100_000


def http(body: bytes = b"", *lines: bytes, status: bytes = b"HTTP/1.1 200 OK", length: bytes = b"") -> bytes:
    size = length or b"Content-Length: %d" % len(body)
    return b"\r\n".join([status, size, b"Connection: close", *lines, b"", body])


def chunked(*chunks: bytes) -> bytes:
    return http(b"".join(chunks), length=b"Transfer-Encoding: chunked")


BODIES = {
    "empty": b"",
    "deep list": DEEP,
    "deep object": DEEP_OBJECT,
    "html": b"<!doctype html><html><body>sign in</body></html>",
    "latin-1": '{"cursor": "ä"}'.encode("latin-1"),
    "utf-16": '{"cursor": "MQ=="}'.encode("utf-16"),
    "gzip": bytes.fromhex("1f8b08000000000002ffab562a2d4e2d02000000ffff"),
    "cut": b'{"cursor": "MT',
    "two documents": b"[][]",
    "a text": b'"x"',
    "null": b"null",
    "a number": b"1e999",
    "half a character": b'{"cursor": "\\ud800"}',
}
"""Bodies that no call may take for an answer."""

FRAMES = {
    "nothing": b"",
    "http 0.9": b"hello\n",
    "garbage": b"\x00\xff\x16\x03\x01" * 50,
    "another protocol": b"SSH-2.0-OpenSSH_9.9\r\n",
    "http/9": http(b"[]", status=b"HTTP/9.0 200 OK"),
    "status 000": http(b"[]", status=b"HTTP/1.1 000 No"),
    "status -1": http(b"[]", status=b"HTTP/1.1 -1 No"),
    "status 999": http(b"[]", status=b"HTTP/1.1 999 No"),
    "status 10^20": http(b"[]", status=b"HTTP/1.1 100000000000000000000 No"),
    "status word": http(b"[]", status=b"HTTP/1.1 fine OK"),
    "early hints and no more": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
    "switching": http(b"", status=b"HTTP/1.1 101 Switching Protocols"),
    "a storm of 100": b"HTTP/1.1 100 Continue\r\n\r\n" * 2000,
    "chunk size -5": chunked(b"-5\r\nhello\r\n0\r\n\r\n"),
    "chunk size +2": chunked(b"+2\r\n[]\r\n0\r\n\r\n"),
    "chunk size 1_0": chunked(b"1_0\r\n" + b" " * 16 + b"\r\n0\r\n\r\n"),
    "chunk size zz": chunked(b"zz\r\n[]\r\n0\r\n\r\n"),
    "chunk size huge": chunked(b"FFFFFFFFFFFFFFFFFFFF\r\n[]\r\n0\r\n\r\n"),
    "chunk size over the rest": chunked(b"FFFFFFF\r\n[]\r\n"),
    "chunks without an end": chunked(b"2\r\n[]\r\n"),
    "chunk line without an end": chunked(b"2" * 100_000),
    "gzip as a transfer": http(b"[]", length=b"Transfer-Encoding: gzip, chunked"),
    "length -1": http(b"[]", length=b"Content-Length: -1"),
    "length two": http(b"[]", length=b"Content-Length: two"),
    "length 0x2": http(b"[]", length=b"Content-Length: 0x2"),
    "length +2": http(b"[]", length=b"Content-Length: +2"),
    "length too long": http(b"[]", length=b"Content-Length: 5000"),
    "length 10^30": http(b"[]", length=b"Content-Length: 1" + b"0" * 30),
    "two lengths": http(b"[]", length=b"Content-Length: 2\r\nContent-Length: 1"),
    "a header over all bounds": http(b"[]", b"X: " + b"a" * 70_000),
    "500 headers": http(b"[]", *[b"X%d: 1" % i for i in range(500)]),
}
"""Answers that are no HTTP, or no whole one."""

STATUSES = (b"300", b"301", b"302", b"307", b"308", b"400", b"401", b"403", b"404", b"418", b"429", b"500",
            b"502", b"503", b"504", b"599", b"600", b"201", b"202", b"204", b"206", b"304")  # fmt: skip


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that reads a request and says `answer`, each time."""

    def talk(connection: socket.socket, over: threading.Event) -> None:
        connection.settimeout(5)
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass

    with raw_server(talk) as endpoint:
        yield endpoint


def ask(endpoint: str, name: str, clock: Any = None) -> SlsError | None:
    """What the call raises; anything but an error of the tree fails the test."""
    service = Service(endpoint=endpoint, project="demo", logstore="logs", tries_max=2)
    transport = Transport(service, deadline_s=20.0, clock=clock or ManualClock())
    client = SlsClient(service, clock=clock or ManualClock(), transport=transport)
    try:
        CALLS[name](client)
    except SlsError as error:
        assert not isinstance(error, ConfigError), f"{name}: blames the configuration: {error}"
        return error
    finally:
        client.close()
    return None


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("frame", FRAMES)
def test_what_is_no_whole_http_answer_is_an_error_of_the_tree(name: str, frame: str) -> None:
    with answering(FRAMES[frame]) as endpoint:
        error = ask(endpoint, name)
    assert isinstance(error, TransportError | ServiceError), f"{name}: taken for an answer"
    assert "header of the request" not in str(error)


@pytest.mark.parametrize("name", sorted(READS))
@pytest.mark.parametrize("body", BODIES)
def test_a_success_that_says_nothing_is_an_error_of_the_tree(name: str, body: str) -> None:
    with answering(http(BODIES[body])) as endpoint:
        error = ask(endpoint, name)
    assert isinstance(error, ServiceError | DecodeError), f"{name}: {error!r}"


@pytest.mark.parametrize("name", sorted(set(CALLS) - READS))
@pytest.mark.parametrize("body", sorted(set(BODIES) - {"empty", "null", "two documents"}))
def test_a_gateway_s_page_is_not_taken_for_a_write_that_was_done(name: str, body: str) -> None:
    with answering(http(BODIES[body])) as endpoint:
        error = ask(endpoint, name)
    no_json = body in ("html", "latin-1", "gzip", "cut", "deep list", "deep object", "a number")
    assert error is None or isinstance(error, ServiceError)
    assert isinstance(error, ServiceError) or not no_json, f"{name}: taken for done"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("status", STATUSES)
def test_every_status_with_a_hostile_body_is_an_error_of_the_tree(name: str, status: bytes) -> None:
    for body in (
        b"",
        DEEP,
        DEEP_OBJECT,
        b"<html>",
        b'{"errorCode": 1e999}',
        b'{"errorCode": "A", "errorMessage": 1}',
    ):
        with answering(http(body, status=b"HTTP/1.1 " + status + b" No")) as endpoint:
            error = ask(endpoint, name)
        assert isinstance(error, ServiceError | TransportError)


NUMBERS = (
    *'1e999 -1e999 NaN Infinity -1 1.5 true "1e3" "١" "1_0" [] {}'.split(),
    '" 1"',
    "1" + "0" * 30,
    "1" + "0" * 5000,
    '"' + "1" * 5000 + '"',
)
SHARD = {"shardID": 0, "status": "readwrite", "inclusiveBeginKey": "0" * 32, "exclusiveEndKey": "f" * 32,
         "createTime": 1}  # fmt: skip
NUMBER_FIELDS: dict[str, tuple[str, dict[str, object], bool]] = {
    "shards shardID": ("shards", SHARD, True),
    "shards createTime": ("shards", SHARD, True),
    "cursor_time_s cursor_time": ("cursor_time_s", {"cursor_time": 1}, False),
    "origin createTime": ("origin", {"createTime": 1}, False),
    "retention_s ttl": ("retention_s", {"ttl": 1}, False),
    "groups timeout": ("groups", {"name": "g", "timeout": 1, "order": True}, True),
    "checkpoints shard": ("checkpoints", {"shard": 0, "checkpoint": "", "updateTime": 0}, True),
    "checkpoints updateTime": ("checkpoints", {"shard": 0, "checkpoint": "", "updateTime": 1}, True),
}


@pytest.mark.parametrize("field", NUMBER_FIELDS)
def test_a_number_that_is_none_is_refused_in_every_field(field: str) -> None:
    name, right, listed = NUMBER_FIELDS[field]
    for number in NUMBERS:
        text = json.dumps({**right, field.split()[1]: "HERE"}).replace('"HERE"', number)
        body = (f"[{text}]" if listed else text).encode()
        if number in ("[]", "{}") and field.endswith(("createTime", "updateTime")) and listed:
            continue  # as good as absent
        if number == "-1" and field == "retention_s ttl":
            continue  # keeps all
        with answering(http(body)) as endpoint:
            error = ask(endpoint, name)
        assert isinstance(error, ServiceError), f"{field}: {number[:40]} was taken"


PAGE = {"x-log-cursor": cursor_to_wire(8), "x-log-count": "1", "x-log-bodyrawsize": "5"}


@pytest.mark.parametrize("field", [*PAGE, "x-log-read-last-cursor"])
@pytest.mark.parametrize(
    "value", [b"-1", b"1e999", b"+1", b" 1 2", b"1_0", b"\xb2", b"1\x002", b"0x1", b"1" * 30, b"9" * 5000]
)
def test_a_page_header_that_is_none_is_a_page_to_pull_again(field: str, value: bytes) -> None:
    lines = [f"{k}: {v}".encode() for k, v in PAGE.items() if k != field]
    with answering(http(b"hello", *lines, field.encode() + b": " + value)) as endpoint:
        error = ask(endpoint, "pull")
    assert isinstance(error, DecodeError | TransportError)


def test_a_page_header_that_comes_twice_with_two_values_is_not_believed() -> None:
    lines = [f"{k}: {v}".encode() for k, v in PAGE.items()]
    with answering(http(b"hello", *lines, b"x-log-cursor: " + cursor_to_wire(9).encode())) as endpoint:
        assert isinstance(ask(endpoint, "pull"), DecodeError)
    with answering(http(b"hello", *lines, lines[0])) as endpoint:
        assert ask(endpoint, "pull") is None


@pytest.mark.parametrize(
    "date",
    [
        "Mon, 01 Jan 10000000000000000000 00:00:00 GMT", "Mon, 01 Jan 9999 00:00:00 GMT",
        "Mon, 01 Jan 1969 00:00:00 GMT", "Mon, 99 Foo 2026 99:99:99 GMT", "yesterday", "", "1e999", "\x00",
        "Sun, 22 Nov 2026 03:00:00 +9999", "Sun, 22 Nov 2026 03:00:00 +99999999999999", ", , ,", "1",
    ],
)  # fmt: skip
def test_a_date_that_nobody_can_mean_is_no_date(date: str) -> None:
    with answering(http(b"[]", b"Date: " + date.encode("latin-1"))) as endpoint:
        error = ask(endpoint, "now_s")
    assert isinstance(error, ServiceError) and error.code == "NoDate"


def test_a_date_without_a_zone_is_utc() -> None:
    with script(Reply(headers={"Date": "Sun, 22 Nov 2026 03:00:00 -0000"})) as server:
        service = Service(endpoint=server.endpoint, project="demo", logstore="logs")
        transport = Transport(service, clock=ManualClock())
        transport.exchange("GET", "/logstores/logs/shards")
        assert transport.service_now() == 1_795_316_400.0
        transport.close()


def test_what_is_behind_an_answer_is_not_the_next_answer() -> None:
    """Bytes behind the end of an answer on a connection that stays: the next call is not answered by them."""
    asked: list[bytes] = []

    def talk(connection: socket.socket, over: threading.Event) -> None:
        connection.settimeout(5)
        while head := connection.recv(65536):
            asked.append(head)
            wrong = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n["not for you"]'
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]" + wrong)

    with raw_server(talk) as endpoint:
        service = Service(endpoint=endpoint, project="demo", logstore="logs", tries_max=2)
        with SlsClient(service, clock=SYSTEM_CLOCK, deadline_s=10) as client:
            for _ in range(3):
                assert client.shards() == []
    assert len(asked) == 3
