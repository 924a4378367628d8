"""The emulator's edge over real sockets: targets, pages, faults, quotas, admin path."""

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sls_io.emulator import Emulator, Limits, start
from sls_io.emulator.limits import QUOTAS_OFF
from sls_io.emulator.server import project_of
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ServiceError
from sls_io.wire.loggroup import decompress, groups
from tests.unit.signed_calls import FROM, GROUP, LOGSTORE, Caller, sign


@pytest.fixture(scope="module")
def shared() -> Iterator[Emulator]:
    """One emulator for the tests that only look."""
    with start(limits=Limits(put_bytes_max=1 << 20)) as running:
        yield running


@pytest.fixture
def caller(shared: Emulator) -> Iterator[Caller]:
    """A fresh project with a logstore of one shard, and no faults."""
    found = Caller(shared)
    shared.admin.remove()
    if found.call("GET", "/")[0] == 200:
        found.call("DELETE", "/")
    assert found.call("POST", "/", b'{"projectName": "demo"}')[0] == 200
    assert found.call("POST", "/logstores", b'{"logstoreName": "logs", "shardCount": 1, "ttl": 1}')[0] == 200
    yield found
    found.connection.close()
    shared.admin.remove()


@pytest.mark.parametrize(
    ("target", "host", "project"),
    [
        (b"/logstores", "demo.127.0.0.1:80", "demo"),
        (b"/logstores", "demo.127.0.0.1", "demo"),
        (b"/logstores", "demo.sls.emu", "demo"),
        (b"http://demo.sls.emu:80/logstores", "other.sls.emu", "demo"),
        (b"http://demo.sls.emu?x=1", "", "demo"),
        (b"http://Demo.SLS.emu/", "", "demo"),
        (b"/", "127.0.0.1:8080", ""),
        (b"/", "localhost:8080", ""),
        (b"/", "[::1]:8080", ""),
        (b"/", "", ""),
    ],
)
def test_the_project_is_the_first_label(target: bytes, host: str, project: str) -> None:
    assert project_of(target, host) == project


@pytest.mark.parametrize("prefix", ["", "http://demo.sls.emu", "http://demo.sls.emu:80"])
def test_both_forms_of_target_are_served(caller: Caller, prefix: str) -> None:
    headers = sign("GET", "/logstores", {}, {}, b"")
    caller.connection.request("GET", prefix + "/logstores", headers=headers)
    assert json.loads(caller.connection.getresponse().read())["logstores"] == ["logs"]


def test_a_host_that_can_name_no_project_is_refused(caller: Caller) -> None:
    for host in ("odd-.sls.emu", "a b.sls.emu", f"{'x' * 64}.sls.emu"):
        assert caller.code(caller.call("GET", "/", headers={"host": host})) == (400, "InvalidHost")


@pytest.mark.parametrize("kind", ["", "lz4", "zstd", "deflate"])
def test_every_compression_goes_in_and_out(caller: Caller, kind: str) -> None:
    assert caller.put(kind=kind) == (200, "")
    status, headers, body = caller.pull(kind)
    assert status == 200
    assert headers.get("x-log-compresstype", "") == kind
    raw = decompress(body, kind, int(headers["x-log-bodyrawsize"]))
    assert [raw[b:e] for b, e in groups(raw)] == [GROUP]


def test_every_answer_says_its_request_and_the_moved_time(caller: Caller, shared: Emulator) -> None:
    shared.admin.freeze()
    try:
        shared.admin.set_clock(1_800_000_000)
        for status, headers, body in (caller.call("GET", "/"), caller.call("GET", "/nothing")):
            assert headers["date"] == "Fri, 15 Jan 2027 08:00:00 GMT"
            assert len(headers["x-log-requestid"]) == 24
            assert int(headers["content-length"]) == len(body)
            assert "content-encoding" not in headers
            assert status in (200, 404)
        body = b'{"consumerGroup": "g", "timeout": 10, "order": false}'
        empty = caller.call("POST", LOGSTORE + "/consumergroups", body)
        assert (empty[0], empty[1]["content-length"], empty[2]) == (200, "0", b"")
    finally:
        shared.admin.freeze(False)
        shared.admin.set_clock(SYSTEM_CLOCK.now())


def test_a_page_has_every_header(caller: Caller) -> None:
    for _ in range(3):
        caller.put()
    _, headers, _ = caller.pull(count=2)
    assert headers["x-log-count"] == "2"
    assert int(headers["x-log-bodyrawsize"]) == 2 * (len(GROUP) + 2)
    assert headers["x-log-end-of-cursor"] == "0"
    assert int(headers["x-log-read-last-cursor"]) > 0
    assert abs(int(headers["x-log-cursor-time"]) - SYSTEM_CLOCK.now()) < 60
    at_end = caller.call("GET", LOGSTORE + "/shards/0", type="log", cursor=caller.cursor("end"), count="1")
    assert [at_end[1][h] for h in ("x-log-count", "x-log-bodyrawsize", "x-log-cursor")] == [
        "0",
        "0",
        caller.cursor("end"),
    ]


@pytest.mark.parametrize(
    ("raw", "kind", "size", "code"),
    [
        (b"no protobuf", "", None, "PostBodyInvalid"),
        (b"\x0a\x02\x10\x01", "", None, "PostBodyInvalid"),
        (GROUP, "lz4", 5, "PostBodyUncompressError"),
        (GROUP, "zstd", 500, "PostBodyUncompressError"),
        (GROUP, "deflate", 5, "PostBodyUncompressError"),
        (GROUP, "", 5, "InvalidBodyRawSize"),
        (GROUP, "", 1 << 30, "PostBodyTooLarge"),
        (GROUP, "", -1, "InvalidBodyRawSize"),
    ],
)
def test_a_bad_body_is_refused_and_nothing_is_kept(
    caller: Caller, raw: bytes, kind: str, size: int | None, code: str
) -> None:
    assert caller.put(raw, kind, size) == (400, code)
    assert caller.cursor("begin") == caller.cursor("end")


def test_an_empty_group_and_one_that_is_not_utf8_are_kept(caller: Caller) -> None:
    odd = bytes.fromhex("0a0b08e8071206" + "0a016b1201ff")
    assert caller.put(b"") == caller.put(odd) == (200, "")
    _, headers, body = caller.pull("")
    raw = decompress(body, "", int(headers["x-log-bodyrawsize"]))
    assert [raw[b:e] for b, e in groups(raw)] == [b"", odd]


def test_an_error_answer_comes_so_often_and_only_there(caller: Caller, shared: Emulator) -> None:
    fault = shared.admin.fault("error", call="put_logs", status=403, code="WriteQuotaExceed", times=2)
    assert [caller.put()[1] for _ in range(3)] == ["WriteQuotaExceed", "WriteQuotaExceed", ""]
    assert shared.admin.faults()[0]["hits"] == 2
    shared.admin.remove(fault)


def test_a_dropped_request_is_not_done_and_a_dropped_reply_is(caller: Caller, shared: Emulator) -> None:
    begin = caller.cursor()
    for do, done in (("drop_request", 0), ("drop_reply", 1)):
        shared.admin.fault(do, call="put_logs")
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            caller.put()
        caller.connection.close()
        stored = len(list(shared.admin.dump("demo", "logs")))
        assert stored == done
    assert caller.cursor() == begin


def test_a_duplicated_put_is_stored_twice(caller: Caller, shared: Emulator) -> None:
    shared.admin.fault("duplicate", call="put_logs")
    assert caller.put() == (200, "")
    assert len(list(shared.admin.dump("demo", "logs"))) == 2


def test_a_held_request_waits_until_it_is_released(caller: Caller, shared: Emulator) -> None:
    hold = shared.admin.fault("hold", call="put_logs")
    with ThreadPoolExecutor(1) as pool:
        put = pool.submit(caller.put)
        assert shared.admin.wait(hold)["hits"] == 1
        assert list(shared.admin.dump("demo", "logs")) == []
        shared.admin.release(hold)
        assert put.result(timeout=120) == (200, "")
    with pytest.raises(ServiceError, match="Timeout"):
        shared.admin.wait(hold, hits=2, timeout_s=0.05)


def test_a_truncated_body_breaks_the_connection_inside_it(caller: Caller, shared: Emulator) -> None:
    for _ in range(5):
        caller.put()
    shared.admin.fault("truncate", call="pull_logs", bytes=7)
    with pytest.raises(http.client.IncompleteRead) as cut:
        caller.pull()
    assert len(cut.value.partial) == 7
    caller.connection.close()
    assert caller.pull()[0] == 200


def test_a_field_of_one_entry_of_an_answer_is_changed(caller: Caller, shared: Emulator) -> None:
    def shards() -> list[dict[str, Any]]:
        return list(json.loads(caller.call("GET", "/logstores/logs/shards")[2]))

    caller.call("POST", "/logstores/logs/shards/0", action="split")
    true = shards()
    shared.admin.fault("answer", call="list_shards", item=1, field="status", value="readonly")
    assert shards() == [e if e["shardID"] != 1 else {**e, "status": "readonly"} for e in true]
    shared.admin.fault("answer", call="list_shards", item=0, drop=True)
    assert shards() == [e for e in true if e["shardID"] != 0]
    shared.admin.fault("answer", call="list_shards", field="createTime", drop=True)
    assert shards() == [{k: v for k, v in e.items() if k != "createTime"} for e in true]
    shared.admin.fault("answer", call="list_shards", value={"no": "list"})
    assert caller.call("GET", "/logstores/logs/shards")[2] == b'{"no": "list"}'
    assert shards() == true


def test_a_fault_is_aimed_by_what_is_asked_and_the_date_may_lie(caller: Caller, shared: Emulator) -> None:
    fault: dict[str, Any] = {"call": "get_cursor", "query": {"from": "[0-9]+"}, "times": None}
    shared.admin.fault("headers", **fault, headers={"Date": "never", "x-log-requestid": None})
    query: dict[str, Any] = {"type": "cursor", "from": "begin"}
    _, headers, _ = caller.call("GET", "/logstores/logs/shards/0", **query)
    assert headers["date"] != "never"
    _, headers, _ = caller.call("GET", "/logstores/logs/shards/0", **{**query, "from": "17"})
    assert (headers["date"], "x-log-requestid" in headers) == ("never", False)


def test_a_short_page_still_speaks_of_all(caller: Caller, shared: Emulator) -> None:
    for _ in range(5):
        caller.put()
    shared.admin.fault("short", call="pull_logs", groups=2)
    _, headers, body = caller.pull()
    raw = decompress(body, "lz4", int(headers["x-log-bodyrawsize"]))
    assert (headers["x-log-count"], len(list(groups(raw)))) == ("5", 3)
    assert len(list(groups(decompress(*_page(caller))))) == 5


def test_a_page_that_is_refused_cannot_be_short_too(caller: Caller, shared: Emulator) -> None:
    caller.put()
    shared.admin.fault("error", call="pull_logs", status=503, code="ServerBusy")
    shared.admin.fault("short", call="pull_logs")
    status, _, body = caller.pull()
    assert (status, json.loads(body)["errorCode"]) == (503, "ServerBusy")


def _page(caller: Caller) -> tuple[bytes, str, int]:
    _, headers, body = caller.pull()
    return body, "lz4", int(headers["x-log-bodyrawsize"])


def test_headers_can_be_made_to_lie(caller: Caller, shared: Emulator) -> None:
    caller.put()
    shared.admin.fault("headers", call="pull_logs", headers={"x-log-count": "9"})
    assert caller.pull()[1]["x-log-count"] == "9"
    assert caller.pull()[1]["x-log-count"] == "1"


def test_faults_are_seen_with_what_they_met(caller: Caller, shared: Emulator) -> None:
    shared.admin.fault("observe", call="get_cursor", shard=0, times=None)
    caller.cursor()
    seen = shared.admin.faults()[0]["seen"]
    assert [(s["call"], s["shard"], s["query"]["from"]) for s in seen] == [("get_cursor", 0, "begin")]


def test_forced_retention_takes_groups_and_shards(caller: Caller, shared: Emulator) -> None:
    old = caller.cursor()
    caller.put()
    caller.put()
    shared.admin.retain("demo", "logs", before_s=int(shared.admin.now()) + 5)
    expired = caller.call("GET", LOGSTORE + "/shards/0", type="log", cursor=old, count="1")
    assert caller.code(expired) == (400, "InvalidCursor")
    assert [s["shardID"] for s in shared.admin.split("demo", "logs", 0)] == [0, 1, 2]
    shared.admin.retain("demo", "logs", shard=0, drop=True)
    assert caller.code(caller.call("GET", LOGSTORE + "/shards/0", type="cursor", **FROM["end"])) == (
        400,
        "ShardNotExist",
    )
    assert [s["shardID"] for s in shared.admin.merge("demo", "logs", 1)] == [3, 1, 2]


def test_retention_follows_the_clock(caller: Caller, shared: Emulator) -> None:
    old = caller.cursor()
    caller.put()
    shared.admin.advance(86_400 + 10)
    try:
        expired = caller.call("GET", LOGSTORE + "/shards/0", type="log", cursor=old, count="1")
        assert caller.code(expired) == (400, "InvalidCursor")
    finally:
        shared.admin.set_clock(SYSTEM_CLOCK.now())


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 403), ({"Content-Type": "text/plain"}, 415), ({}, 200)],
)
def test_the_admin_path_keeps_browsers_out(shared: Emulator, headers: dict[str, str], status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=120)
    connection.request("POST", "/_admin/clock", "{}", {"Content-Type": "application/json", **headers})
    reply = connection.getresponse()
    assert (reply.status, bool(reply.read())) == (status, True)
    connection.close()


def test_the_admin_path_says_what_is_wrong(shared: Emulator) -> None:
    with pytest.raises(ServiceError, match="ParameterInvalid"):
        shared.admin.fault("explode")
    with pytest.raises(ServiceError, match="ProjectNotExist"):
        shared.admin.retain("nothing", "here")


def test_concurrent_writers_and_readers_lose_nothing(caller: Caller, shared: Emulator) -> None:
    barrier = threading.Barrier(8)

    def write() -> None:
        mine = Caller(shared)
        barrier.wait()
        for _ in range(50):
            assert mine.put(kind="lz4") == (200, "")
        mine.connection.close()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(write) for _ in range(8)]:
            done.result(timeout=120)
    entries = list(shared.admin.dump("demo", "logs"))
    assert len(entries) == len({e["cursor"] for e in entries}) == 400


def test_quotas_are_the_documented_ones_unless_told_otherwise(shared: Emulator) -> None:
    found = shared.admin.limits()
    assert {name: found[name] for name in QUOTAS_OFF} == {
        "shard_write_bytes_per_s": 5_000_000,
        "shard_write_calls_per_s": 500,
        "shard_read_bytes_per_s": 10_000_000,
        "shard_read_calls_per_s": 100,
        "project_write_bytes_per_min": 100_000_000_000,
        "project_write_calls_per_min": 600_000,
        "project_read_calls_per_min": 600_000,
    }


@pytest.mark.parametrize("frozen", [False, True])
def test_a_quota_that_is_used_up_is_there_again_when_time_has_passed(
    caller: Caller, shared: Emulator, frozen: bool
) -> None:
    """What a call takes beyond the quota is owed; the owed seconds pass when the clock is moved on."""
    shared.admin.freeze(frozen)
    try:
        shared.admin.limits(shard_write_bytes_per_s=1)
        assert [caller.put() for _ in range(2)] == [(200, ""), (403, "ShardWriteQuotaExceed")]
        shared.admin.advance(len(GROUP) + 1)
        assert caller.put() == (200, "")
        shared.admin.limits(shard_write_bytes_per_s=0, project_write_bytes_per_min=1)
        assert [caller.put()[1] for _ in range(2)] == ["", "WriteQuotaExceed"]
        shared.admin.limits(project_write_bytes_per_min=0, shard_read_bytes_per_s=1)
        assert [caller.pull()[0] for _ in range(2)] == [200, 403]
        shared.admin.set_clock(shared.admin.now() + 3600)
        assert caller.pull()[0] == 200
        refused = shared.admin.state()["throttled"]
        assert set(refused) == {"ShardWriteQuotaExceed", "WriteQuotaExceed", "ShardReadQuotaExceed"}
    finally:
        shared.admin.limits(**Limits().model_dump(include=set(QUOTAS_OFF)))
        shared.admin.freeze(False)
        shared.admin.set_clock(SYSTEM_CLOCK.now())


def test_a_logstore_has_thirty_groups_and_a_project_so_many_logstores(
    caller: Caller, shared: Emulator
) -> None:
    path = LOGSTORE + "/consumergroups"
    codes = [
        caller.code(caller.call("POST", path, b'{"consumerGroup": "g%d", "timeout": 10, "order": false}' % i))
        for i in range(31)
    ]
    assert codes == [(200, "")] * 30 + [(400, "ConsumerGroupQuotaExceed")]
    shared.admin.limits(logstores_max=1)
    try:
        refused = caller.call("POST", "/logstores", b'{"logstoreName": "more"}')
        assert caller.code(refused) == (400, "ProjectQuotaExceed")
    finally:
        shared.admin.limits(logstores_max=200)


def test_debug_writes_a_line_for_each_request() -> None:
    command = [sys.executable, "-m", "sls_io.emulator", "--debug", "--with-stdin"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        port = int(process.stdout.readline().rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for target in ("/logstores/x/shards", "/nothing"):
            connection.request("GET", target)
            connection.getresponse().read()
        connection.close()
        process.stdin.close()
        lines = [line for line in process.stderr if " DEBUG " in line]
    assert [line.split(" DEBUG ")[1].strip() for line in lines] == [
        "GET /logstores/x/shards list_shards 400",
        "GET /nothing - 404",
    ]


def test_log_times_are_checked_only_when_asked(caller: Caller, shared: Emulator) -> None:
    assert caller.put() == (200, "")
    shared.admin.limits(check_log_times=True)
    try:
        assert caller.put() == (400, "PostBodyInvalid")
    finally:
        shared.admin.limits(check_log_times=False)


def test_another_key_pair_can_be_let_in(caller: Caller, shared: Emulator) -> None:
    shared.admin.add_key("temporary", FAKE_SECRET, token="t", lasts_s=100)
    headers = sign("GET", "/logstores", {}, {"x-acs-security-token": "t"}, b"")
    for key_id, status in (("temporary", 200), (FAKE_ID, 401)):
        sent = {**headers, "authorization": headers["authorization"].replace(FAKE_ID, key_id)}
        caller.connection.request("GET", "/logstores", headers=sent)
        reply = caller.connection.getresponse()
        assert (reply.status, bool(reply.read())) == (status, True)


def test_the_status_page_shows_shards_holders_and_checkpoints_and_runs_nothing(
    caller: Caller, shared: Emulator
) -> None:
    groups_path = LOGSTORE + "/consumergroups"
    caller.call("POST", groups_path, b'{"consumerGroup": "g", "timeout": 10, "order": true}')
    caller.call("POST", groups_path + "/g", b"[]", type="heartbeat", consumer="<script>alert(1)</script>")
    reply = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=120)
    reply.request("GET", "/_admin/")
    page = reply.getresponse().read().decode()
    reply.close()
    assert "demo / logs" in page
    assert "already_alloc" in page
    assert "&lt;script&gt;" in page
    assert "<script" not in page
