"""The exchange with the service, against real HTTP servers on loopback that behave badly."""

import base64
import hashlib
import hmac
import json
import locale
import pickle
import socket
import threading
from importlib.metadata import version
from typing import Any

import pytest
from aliyun.log.logexception import LogException
from aliyun.log.version import USER_AGENT

from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from sls_io.values.deadline import Deadline
from sls_io.values.errors import (
    ConfigError,
    ConnectFailed,
    CursorExpired,
    ServiceError,
    ShardGone,
    SlsError,
    Throttled,
    TransportError,
    TransportTimeout,
)
from sls_io.wire.retries import rule_for
from tests.unit.scripted_service import Reply, error, raw_server, script, talking, transport

CANARY = "canary-4711-secret"
KEY_ID, KEY_SECRET = "unit-key-id", "unit-key-secret"
SHARDS = "/logstores/logs/shards"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", KEY_SECRET)
    monkeypatch.delenv("ALIBABA_CLOUD_SECURITY_TOKEN", raising=False)


# --- what is told


def test_whoever_waits_is_told_once_which_service_does_not_answer() -> None:
    said: list[str] = []

    def silent(connection: socket.socket, over: threading.Event) -> None:
        over.wait(30)

    with (
        raw_server(silent) as endpoint,
        transport(endpoint, clock=SYSTEM_CLOCK, read_timeout_s=0.2, tries_max=2) as t,
        Deadline(tell=said.append).kept(),
        pytest.raises(TransportTimeout),
    ):
        t.exchange("GET", SHARDS)
    (line,) = said
    assert line.startswith(f"waiting for the log service at {endpoint}: no answer for ")


# --- what is sent


def test_a_loopback_endpoint_is_connected_to_as_it_is_with_the_project_in_the_host_header() -> None:
    with talking(Reply()) as (t, server):
        body, headers = t.exchange("GET", SHARDS, params={"a": "x y"})
    assert body == b"[]" and headers["x-log-requestid"] == "rid-1"
    seen = server.seen[0]
    assert seen.headers["host"] == "demo.127.0.0.1"
    assert seen.path == SHARDS + "?a=x+y"


def test_a_call_says_which_program_asks_and_for_whom() -> None:
    with talking(Reply()) as (t, server):
        t.exchange("GET", SHARDS)
    said = server.seen[0].headers["user-agent"]
    assert said == f"sls-lake/{version('sls-lake')} (demo), {USER_AGENT}", "no deployment is known here"


def test_v1_signs_what_the_protocol_says() -> None:
    with talking(Reply()) as (t, server):
        t.exchange(
            "POST",
            SHARDS,
            params={"b": "2", "a": "1"},
            body=b"[1]",
            headers={"Content-Type": "application/json"},
        )
    h = server.seen[0].headers
    signed = "".join(f"{k}:{h[k]}\n" for k in sorted(h) if k.startswith("x-log-") and k != "x-log-date")
    md5 = hashlib.md5(b"[1]").hexdigest().upper()
    text = f"POST\n{md5}\napplication/json\n{h['date']}\n{signed}{SHARDS}?a=1&b=2"
    mac = base64.b64encode(hmac.new(KEY_SECRET.encode(), text.encode(), hashlib.sha1).digest()).decode()
    assert h["authorization"] == f"LOG {KEY_ID}:{mac}"
    assert h["content-md5"] == md5


def test_v4_is_used_when_a_region_is_set() -> None:
    with talking(Reply(), region="cn-hangzhou") as (t, server):
        t.exchange("GET", SHARDS)
    h = server.seen[0].headers
    assert h["authorization"].startswith(f"SLS4-HMAC-SHA256 Credential={KEY_ID}/20231114/cn-hangzhou/sls/")
    assert h["x-log-date"] == "20231114T221320Z"


def test_signing_leaves_the_locale_of_the_process_alone() -> None:
    before = locale.setlocale(locale.LC_TIME)
    try:
        locale.setlocale(locale.LC_TIME, "C.UTF-8")
    except locale.Error:
        pytest.skip("this system has no locale beside C")
    try:
        with talking(Reply()) as (t, server):
            t.exchange("GET", SHARDS)
        assert server.seen[0].headers["date"] == "Tue, 14 Nov 2023 22:13:20 GMT"
        assert locale.setlocale(locale.LC_TIME) == "C.UTF-8"
    finally:
        locale.setlocale(locale.LC_TIME, before)


def test_a_security_token_travels_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIBABA_CLOUD_SECURITY_TOKEN", "sts-1")
    with talking(Reply()) as (t, server):
        t.exchange("GET", SHARDS)
    assert server.seen[0].headers["x-acs-security-token"] == "sts-1"


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with talking(Reply()) as (t, _):
        assert t.exchange("GET", SHARDS)[0] == b"[]"


def test_connections_are_kept_and_used_again() -> None:
    peers: set[int] = set()

    def talk(connection: socket.socket, over: threading.Event) -> None:
        peers.add(connection.getpeername()[1])
        while connection.recv(65536):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")

    with raw_server(talk) as endpoint, transport(endpoint) as t:
        for _ in range(5):
            t.exchange("GET", SHARDS)
        t.with_deadline(3).exchange("GET", SHARDS)
    assert len(peers) == 1


# --- the vendor's methods


def test_management_calls_of_the_sdk_work_through_it() -> None:
    listing = json.dumps([{"shardID": 7, "status": "readwrite"}]).encode()
    with talking(Reply(body=listing)) as (t, server):
        assert t.list_shards("other", "logs").get_shards_info()[0]["shardID"] == 7
        t.split_shard("other", "logs", 7, "8" * 32)
    assert server.seen[0].headers["host"] == "other.127.0.0.1"
    assert (server.seen[1].method, server.seen[1].path) == (
        "POST",
        SHARDS + "/7?action=split&key=" + "8" * 32,
    )


def test_fallbacks_inside_the_sdk_still_see_its_own_exception() -> None:
    refused = error(400, "LogStoreInfoInvalid", "redundant key exist in json")
    with talking(refused, Reply(body=b"")) as (t, server):
        t.create_logstore("demo", "logs")
    assert len(server.seen) == 2
    assert "autoSplit" in json.loads(server.seen[0].body)
    assert "autoSplit" not in json.loads(server.seen[1].body)


def test_errors_of_the_sdks_calls_are_ours_and_hold_no_body() -> None:
    with talking(error(400, "ShardNotExist", CANARY)) as (t, _), pytest.raises(ShardGone) as caught:
        t.get_cursor("demo", "logs", 1, "begin")
    assert isinstance(caught.value, LogException)
    assert caught.value.get_error_code() == "ShardNotExist"
    assert caught.value.get_resp_body() == ""


def test_a_project_that_would_lead_elsewhere_is_refused() -> None:
    with talking(Reply()) as (t, server):
        for project in ("evil.example/", "a@b", "x:80", "a.b"):
            with pytest.raises(ConfigError):
                t.list_shards(project, "logs")
    assert server.seen == []


# --- answers that are refused


def test_redirects_are_never_followed() -> None:
    with script(Reply(body=b"stolen")) as other:
        for status in (301, 302, 303, 307, 308):
            moved = Reply(status, b"", {"Location": other.endpoint + "/x"})
            with talking(moved) as (t, server), pytest.raises(ServiceError, match="never followed") as caught:
                t.exchange("GET", SHARDS)
            assert caught.value.code == "Redirect" and len(server.seen) == 1
        assert other.seen == []


def test_a_garbage_error_body_is_an_error_without_its_text() -> None:
    page = Reply(400, f"<html>{CANARY}</html>".encode(), {"Content-Type": "text/html"})
    with talking(page) as (t, _), pytest.raises(ServiceError) as caught:
        t.exchange("GET", SHARDS)
    assert caught.value.code == "BadResponse" and caught.value.status == 400
    assert CANARY not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    "body", [b"{}", b"[1]", b'{"errorCode": 5, "errorMessage": "x"}', b"\xff\xfe", b"null"]
)
def test_error_bodies_that_are_not_the_protocols_are_told_apart(body: bytes) -> None:
    with talking(Reply(400, body)) as (t, _), pytest.raises(ServiceError, match="BadResponse"):
        t.exchange("GET", SHARDS)


def test_an_error_code_that_is_no_code_is_not_repeated() -> None:
    with talking(error(400, f"<{CANARY}>")) as (t, _), pytest.raises(ServiceError) as caught:
        t.exchange("GET", SHARDS)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("header", ["Accept", "Content-Type"])
def test_an_error_that_echoes_logs_does_not_repeat_them(header: str) -> None:
    with (
        talking(error(400, "PostBodyInvalid", f"cannot parse {CANARY}")) as (t, _),
        pytest.raises(ServiceError) as caught,
    ):
        t.exchange("POST", SHARDS, body=CANARY.encode(), headers={header: "application/x-protobuf"})
    assert caught.value.code == "PostBodyInvalid"
    assert CANARY not in str(caught.value) + repr(caught.value.args)


def test_an_error_that_echoes_a_key_does_not_repeat_it() -> None:
    with (
        talking(error(403, "Forbidden", f"{KEY_ID} and {KEY_SECRET}")) as (t, _),
        pytest.raises(ServiceError) as caught,
    ):
        t.exchange("GET", SHARDS)
    assert KEY_ID not in str(caught.value) and KEY_SECRET not in str(caught.value)


def test_a_200_that_is_not_json_is_an_error_without_its_text() -> None:
    with (
        talking(Reply(body=CANARY.encode())) as (t, _),
        pytest.raises(ServiceError, match="BadResponse") as caught,
    ):
        t.list_shards("demo", "logs")
    assert CANARY not in str(caught.value)


def test_the_wrong_key_says_where_keys_come_from_and_is_asked_once() -> None:
    refused = error(401, "SignatureNotMatch", f"signed {CANARY}")
    hint = "ALIBABA_CLOUD_ACCESS_KEY_SECRET"
    with talking(refused) as (t, server), pytest.raises(ServiceError, match=hint) as caught:
        t.exchange("GET", SHARDS)
    assert len(server.seen) == 1
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("ProjectNotExist", r"service\.project \(demo\)"),
        ("LogStoreNotExist", r"service\.logstore \(logs\)"),
    ],
)
def test_an_unknown_project_or_logstore_names_it_and_the_setting(code: str, hint: str) -> None:
    with talking(error(404, code)) as (t, _), pytest.raises(ServiceError, match=hint):
        t.exchange("GET", SHARDS)


def test_an_expired_cursor_is_its_own_error() -> None:
    with talking(error(400, "InvalidCursor")) as (t, _), pytest.raises(CursorExpired):
        t.exchange("GET", SHARDS)


# --- tries


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "WriteQuotaExceed"),
        (403, "ReadQuotaExceed"),
        (403, "ShardReadQuotaExceed"),
        (403, "ProjectReadQuotaExceed"),
        (429, "TooMany"),
        (503, "ServerBusy"),
        (503, "Whatever"),
    ],
)
def test_throttling_is_waited_out_and_counted(status: int, code: str) -> None:
    clock = ManualClock()
    busy = error(status, code)
    with talking(busy, busy, Reply(body=b"[1]"), clock=clock) as (t, server):
        assert t.exchange("POST", SHARDS)[0] == b"[1]"
        assert t.retries == {code: 2}
    assert len(server.seen) == 3
    assert 0.75 <= clock.monotonic() <= 1.5


def test_throttling_that_does_not_end_is_throttled_after_the_counted_tries() -> None:
    with (
        talking(error(403, "ReadQuotaExceed"), tries_max=4) as (t, server),
        pytest.raises(Throttled) as caught,
    ):
        t.exchange("GET", SHARDS)
    assert len(server.seen) == 4
    assert (caught.value.code, caught.value.status, caught.value.request_id) == (
        "ReadQuotaExceed",
        403,
        "rid-1",
    )


@pytest.mark.parametrize(
    "reply", [error(500, "InternalServerError"), Reply(502, b"<html>"), error(500, "Odd")]
)
def test_failures_of_the_service_are_tried_again(reply: Reply) -> None:
    with talking(reply, Reply()) as (t, server):
        t.exchange("GET", SHARDS)
        assert sum(t.retries.values()) == 1
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ParameterInvalid"),
        (401, "Unauthorized"),
        (403, "ProjectForbidden"),
        (403, "ConsumerGroupQuotaExceed"),
        (404, "LogStoreNotExist"),
        (501, "NotSupported"),
    ],
)
def test_what_asking_again_cannot_change_is_asked_once(status: int, code: str) -> None:
    with talking(error(status, code)) as (t, server):
        with pytest.raises(ServiceError):
            t.exchange("GET", SHARDS)
        assert t.retries == {}
    assert len(server.seen) == 1
    assert rule_for(status, code) is None


def test_waits_end_with_the_deadline_and_the_last_answer_is_what_is_raised() -> None:
    clock = ManualClock()
    busy = error(503, "ServerBusy")
    with talking(busy, clock=clock, deadline_s=1.2, tries_max=20) as (t, server), pytest.raises(Throttled):
        t.exchange("GET", SHARDS)
    assert clock.monotonic() < 1.2
    assert 2 <= len(server.seen) <= 4


@pytest.mark.fault("4a.3.clock")
@pytest.mark.parametrize("code", ["RequestTimeTooSkewed", "RequestTimeExpired"])
def test_a_clock_that_is_wrong_is_corrected_by_the_services_own(code: str) -> None:
    dated = error(400, code, Date="Wed, 21 Oct 2026 07:28:00 GMT")
    with talking(dated, Reply()) as (t, server):
        t.exchange("GET", SHARDS)
    assert server.seen[1].headers["date"] == "Wed, 21 Oct 2026 07:28:00 GMT"


def test_a_clock_is_corrected_at_whichever_try_and_once_by_what_the_service_says() -> None:
    dated = error(400, "RequestTimeTooSkewed", Date="Wed, 21 Oct 2026 07:28:00 GMT")
    with talking(error(503, "ServerBusy"), dated, Reply()) as (t, server):
        t.exchange("GET", SHARDS)
        assert len(server.seen) == 3
    with talking(dated, dated, Reply()) as (t, server):
        with pytest.raises(ServiceError, match="clock"):
            t.exchange("GET", SHARDS)
        assert len(server.seen) == 2


@pytest.mark.parametrize(("method", "raised"), [("GET", Throttled), ("POST", TransportTimeout)])
def test_a_last_try_cut_short_hides_no_answer_but_a_write_may_have_been_done(
    method: str, raised: type[SlsError]
) -> None:
    def talk(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        body = b'{"errorCode": "ServerBusy", "errorMessage": "busy"}'
        connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        connection.recv(65536)
        over.wait(30)

    with raw_server(talk) as endpoint, transport(endpoint, clock=SYSTEM_CLOCK, deadline_s=2.0) as t:
        with pytest.raises(raised):
            t.exchange(method, SHARDS)
        assert t.retries["ServerBusy"] == 1


# --- no answer


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("first", "bytes_max", "deadline_s"),
    [
        pytest.param(b"", 0, 0.4, id="hangs"),
        pytest.param(OK + b"X-Long: ", 10_000, 0.5, id="trickles a head"),
        pytest.param(OK + b"Content-Length: 100000\r\n\r\n", 10_000, 0.5, id="trickles a body"),
        pytest.param(OK + b"Content-Length: 100000\r\n\r\n", 16, 1.0, id="stops"),
    ],
)
def test_a_server_is_left_at_the_deadline_and_bytes_that_came_buy_no_time(
    first: bytes, bytes_max: int, deadline_s: float
) -> None:
    def talk(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(first)
        sent = 0
        while sent < bytes_max and not over.wait(0.05):
            connection.sendall(b"a")
            sent += 1
        over.wait(30)

    with raw_server(talk) as endpoint, transport(endpoint, clock=SYSTEM_CLOCK, deadline_s=deadline_s) as t:
        begun = SYSTEM_CLOCK.monotonic()
        with pytest.raises(TransportTimeout, match="in time"):
            t.exchange("GET", SHARDS)
        assert deadline_s - 0.1 < SYSTEM_CLOCK.monotonic() - begun < 20


def test_a_deadline_of_a_copy_leaves_the_first_alone() -> None:
    with talking(Reply()) as (t, _):
        short = t.with_deadline(0.0)
        with pytest.raises(TransportError):
            short.exchange("GET", SHARDS)
        t.exchange("GET", SHARDS)


def _cut_short(connection: socket.socket, over: threading.Event) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def _closed(connection: socket.socket, over: threading.Event) -> None:
    connection.recv(65536)


def _garbage(connection: socket.socket, over: threading.Event) -> None:
    connection.recv(65536)
    connection.sendall(b"\x00\x01 what is this\r\n\r\n")


@pytest.mark.parametrize("talk", [_cut_short, _closed, _garbage])
def test_a_connection_that_breaks_is_tried_again_and_then_named(talk: Any) -> None:
    count = 0

    def counted(connection: socket.socket, over: threading.Event) -> None:
        nonlocal count
        count += 1
        talk(connection, over)

    with (
        raw_server(counted) as endpoint,
        transport(endpoint, tries_max=3) as t,
        pytest.raises(ConnectFailed, match=r"GET /logstores/logs/shards of project demo"),
    ):
        t.exchange("GET", SHARDS)
    assert count == 3


def test_a_write_whose_answer_was_lost_is_not_sent_twice() -> None:
    count = 0

    def talk(connection: socket.socket, over: threading.Event) -> None:
        nonlocal count
        count += 1
        connection.recv(65536)

    with raw_server(talk) as endpoint, transport(endpoint) as t:
        with pytest.raises(ConnectFailed, match="not known"):
            t.exchange("POST", SHARDS + "/lb", body=b"x")
        assert count == 1
        with pytest.raises(ConnectFailed):
            t.exchange("POST", "/logstores/l/consumergroups/g", params={"type": "heartbeat"}, body=b"[]")
        assert count == 1 + t.service.tries_max


@pytest.mark.parametrize("reply", [Reply(504, b"<html>"), error(500, "InternalServerError")])
def test_a_put_is_not_sent_again_where_an_answer_leaves_open_whether_it_was_done(reply: Reply) -> None:
    """Story: a gateway gave up waiting and said 504. The service had stored the group, and got it twice."""
    with talking(error(503, "ServerBusy"), reply, Reply()) as (t, server):
        with pytest.raises(TransportError, match="not known"):
            t.exchange("POST", SHARDS + "/lb", body=b"x")
        assert len(server.seen) == 2, "what was refused is sent again"


def test_nobody_listening_is_said_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        transport(f"http://127.0.0.1:{port}", tries_max=2) as t,
        pytest.raises(ConnectFailed, match=str(port)),
    ):
        t.exchange("POST", SHARDS)
    assert t.retries == {"ConnectFailed": 1}


def test_a_header_that_would_split_the_request_is_refused() -> None:
    with talking(Reply()) as (t, _), pytest.raises(ConfigError):
        t.exchange("GET", SHARDS, headers={"X-A": "1\r\nX-B: 2"})


# --- time, keys, travel


def test_the_services_time_is_its_date_plus_what_passed_since() -> None:
    clock = ManualClock()
    with talking(Reply(headers={"Date": "Wed, 21 Oct 2026 07:28:00 GMT"}), clock=clock) as (t, _):
        assert t.service_now() is None
        t.exchange("GET", SHARDS)
        clock.advance(2.5)
        assert t.service_now() == 1792567680 + 2.5
        assert t.with_deadline(1).service_now() == t.service_now()


def test_a_transport_does_not_travel_and_says_nothing_of_its_keys() -> None:
    with transport("http://127.0.0.1:1") as t:
        with pytest.raises(TypeError, match="send its Service"):
            pickle.dumps(t)
        assert KEY_ID not in repr(t) and KEY_SECRET not in repr(t)
        assert KEY_SECRET not in repr(vars(t).get("_accessKey"))


def test_a_service_travels_without_keys() -> None:
    with transport("http://127.0.0.1:1") as t:
        packed = pickle.dumps(t.service)
    assert KEY_ID.encode() not in packed and KEY_SECRET.encode() not in packed
    assert pickle.loads(packed) == t.service
