"""The typed calls, against scripted answers: the protocol's own, and ones that are not."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sls_io.values.clock import ManualClock
from sls_io.values.errors import ClaimLost, ConfigError, CursorExpired, DecodeError, ServiceError, ShardGone
from sls_io.values.settings import Group
from sls_io.values.shard import Shard
from sls_io.values.window import Cursor, cursor_to_wire
from sls_io.wire.client import Origin, SlsClient
from tests.unit.scripted_service import Reply, Script, error, talking

CANARY = "canary-4711-secret"
GROUP = "/logstores/logs/consumergroups/g"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "unit-key-id")
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "unit-key-secret")


def says(value: object, **headers: str) -> Reply:
    return Reply(body=json.dumps(value).encode(), headers=headers)


@contextmanager
def client(*replies: Reply, **settings: Any) -> Iterator[tuple[SlsClient, Script]]:
    with talking(*replies, **settings) as (transport, server):
        yield SlsClient(transport.service, clock=ManualClock(), transport=transport), server


ENTRY = {
    "shardID": 3,
    "status": "readonly",
    "inclusiveBeginKey": "0" * 32,
    "exclusiveEndKey": "8" * 32,
    "createTime": 17,
}


def test_shards_come_by_id() -> None:
    entries = [ENTRY, {**ENTRY, "shardID": 1, "status": "readwrite"}]
    with client(says(entries)) as (c, _):
        assert c.shards() == [
            Shard(1, False, "0" * 32, "8" * 32, 17),
            Shard(3, True, "0" * 32, "8" * 32, 17),
        ]


def test_a_head_reads_the_end_after_the_begin() -> None:
    answers = [says({"cursor": cursor_to_wire(5)}), says({"cursor": cursor_to_wire(9)})]
    with client(*answers) as (c, server):
        head = c.head(Shard(3, True))
    assert (head.begin, head.end, head.readonly) == (5, 9, True)
    assert [s.path.rpartition("=")[2] for s in server.seen] == ["begin", "end"]


def test_a_cursor_is_asked_for_by_receive_time() -> None:
    with client(says({"cursor": cursor_to_wire(7)})) as (c, server):
        assert c.cursor_at(2, 1_700_000_000) == 7
    assert server.seen[0].path == "/logstores/logs/shards/2?type=cursor&from=1700000000"


def test_cursor_time_is_in_seconds_and_expiry_has_its_own_error() -> None:
    with client(says({"cursor_time": 1_700_000_001}), error(400, "InvalidCursor")) as (c, _):
        assert c.cursor_time_s(2, Cursor(7)) == 1_700_000_001
        with pytest.raises(CursorExpired):
            c.cursor_time_s(2, Cursor(7))


PAGE_HEADERS = {
    "x-log-cursor": cursor_to_wire(12),
    "X-Log-Count": "2",
    "x-log-bodyrawsize": "40",
    "x-log-compresstype": "lz4",
    "x-log-read-last-cursor": "11",
}


def test_a_page_is_the_body_as_it_came_and_what_its_headers_say() -> None:
    with client(Reply(body=b"\x01\x02", headers=PAGE_HEADERS)) as (c, server):
        page = c.pull(4, Cursor(10), end=Cursor(12), groups_max=7)
    assert (page.shard, page.cursor, page.next, page.last) == (4, 10, 12, 11)
    assert (page.count, page.raw_bytes, page.compression, page.body) == (2, 40, "lz4", b"\x01\x02")
    seen = server.seen[0]
    assert "count=7" in seen.path and "end_cursor=MTI%3D" in seen.path
    assert seen.headers["accept-encoding"] == "lz4"


def test_an_empty_page_needs_its_headers_too() -> None:
    headers = {"x-log-cursor": cursor_to_wire(10), "x-log-count": "0", "x-log-bodyrawsize": "0"}
    with client(Reply(body=b"", headers=headers)) as (c, _):
        page = c.pull(4, Cursor(10))
    assert (page.next, page.count, page.last, page.compression) == (10, 0, None, "")


@pytest.mark.parametrize("name", ["x-log-cursor", "X-Log-Count", "x-log-bodyrawsize"])
@pytest.mark.parametrize("value", [None, "", "x y"])
def test_a_page_without_what_it_must_say_is_to_be_pulled_again(name: str, value: str | None) -> None:
    headers = {k: v for k, v in PAGE_HEADERS.items() if k != name}
    if value is not None:
        headers[name] = value
    with client(Reply(body=CANARY.encode(), headers=headers)) as (c, _), pytest.raises(DecodeError) as caught:
        c.pull(4, Cursor(10))
    assert caught.value.retryable and (caught.value.shard, caught.value.cursor) == (4, 10)
    assert CANARY not in str(caught.value)


CONTRADICTIONS = {
    "empty, with a last group inside": {"x-log-count": "0", "x-log-bodyrawsize": "0", "body": ""},
    "groups without bytes": {"x-log-bodyrawsize": "0"},
    "bytes without groups": {"x-log-count": "0"},
    "no body": {"body": ""},
    "fewer than none": {"x-log-count": "-2"},
    "a size below nothing": {"x-log-bodyrawsize": "-1"},
    "more groups than cursors": {"x-log-count": "3"},
    "the last group before the page": {"x-log-read-last-cursor": "9"},
    "the last group is the next one": {"x-log-read-last-cursor": "12"},
    "the first group before the page": {"x-log-read-last-cursor": "10", "x-log-cursor": cursor_to_wire(99)},
    "full, and the last group is not the last": {"x-log-read-last-cursor": "10"},
    "no cursor of the service": {"x-log-cursor": cursor_to_wire(2**63)},
}


@pytest.mark.fault("4b.lying.pull")
@pytest.mark.parametrize("changes", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_page_whose_headers_contradict_one_another_is_to_be_pulled_again(changes: dict[str, str]) -> None:
    named = {name.lower(): value for name, value in PAGE_HEADERS.items()}
    headers = {**named, **{k: v for k, v in changes.items() if k != "body"}}
    body = changes.get("body", "groups").encode()
    with client(Reply(body=body, headers=headers)) as (c, _), pytest.raises(DecodeError):
        c.pull(4, Cursor(10))


def test_a_list_that_names_one_shard_twice_leaves_another_out() -> None:
    with client(says([ENTRY, {**ENTRY, "createTime": 18}])) as (c, _), pytest.raises(ServiceError):
        c.shards()


def test_a_group_of_logs_goes_to_the_shard_of_its_key() -> None:
    with client(Reply(body=b"")) as (c, server):
        c.put_raw(b"group")
        c.put_raw(b"group", key="8" * 32, compression="")
    first, second = server.seen
    assert first.path == "/logstores/logs/shards/lb"
    assert (first.headers["x-log-compresstype"], first.headers["x-log-bodyrawsize"]) == ("lz4", "5")
    assert second.path == "/logstores/logs/shards/route?key=" + "8" * 32
    assert second.body == b"group" and "x-log-compresstype" not in second.headers


def test_the_origin_is_asked_once_and_another_creation_is_another_origin() -> None:
    with client(says({"logstoreName": "logs", "createTime": 99}), region="cn-x") as (c, server):
        assert c.origin() == Origin("cn-x", "demo", "logs", 99)
        assert c.origin().id == c.origin().id
    assert len(server.seen) == 1
    known = Origin("cn-x", "demo", "logs", 99)
    assert known.id == "logs-" + known.id[-8:] and len(known.id) == 13
    assert known.id != Origin("cn-x", "demo", "logs", 100).id


@pytest.mark.parametrize(
    ("days", "seconds"), [(1, 86_400.0), (30, 2_592_000.0), (3649, 3649 * 86_400.0), (3650, None), (-1, None)]
)
def test_retention_is_days_and_3650_of_them_are_for_ever(days: int, seconds: float | None) -> None:
    with client(says({"logstoreName": "logs", "createTime": 99, "ttl": days})) as (c, _):
        assert c.retention_s() == seconds


def test_a_logstore_without_a_retention_is_an_error_and_not_for_ever() -> None:
    with client(says({"logstoreName": "logs", "createTime": 99})) as (c, _), pytest.raises(ServiceError):
        c.retention_s()


def test_the_services_time_is_asked_for_when_no_answer_came_yet() -> None:
    with client(says([], Date="Wed, 21 Oct 2026 07:28:00 GMT")) as (c, server):
        assert c.now_s() == c.now_s() == 1792567680
    assert len(server.seen) == 1


def test_a_service_without_a_date_is_an_error_not_our_own_clock() -> None:
    with client(says([])) as (c, _), pytest.raises(ServiceError, match="NoDate"):
        c.now_s()


# --- groups


def test_a_group_is_made_and_one_that_is_there_is_left_alone() -> None:
    group = Group(name="g", timeout_s=30, order=False)
    with client(Reply(body=b""), error(400, "ConsumerGroupAlreadyExist")) as (c, server):
        assert c.create_group(group) is True
        assert c.create_group(group) is False
    assert json.loads(server.seen[0].body) == {"consumerGroup": "g", "timeout": 30, "order": False}
    assert {s.method for s in server.seen} == {"POST"}


def test_other_refusals_of_a_group_are_errors() -> None:
    with client(error(400, "ConsumerGroupQuotaExceed")) as (c, _), pytest.raises(ServiceError):
        c.create_group(Group(name="g"))


def test_groups_are_listed() -> None:
    with client(says([{"name": "g", "timeout": 60, "order": True}])) as (c, _):
        (info,) = c.groups()
    assert (info.name, info.timeout_s, info.order) == ("g", 60, True)


def test_a_heartbeat_lists_what_is_held_and_answers_what_is_granted() -> None:
    with client(says([2, 0])) as (c, server):
        assert c.heartbeat("g", "me", {3, 1}) == {0, 2}
    seen = server.seen[0]
    assert seen.path == GROUP + "?type=heartbeat&consumer=me"
    assert json.loads(seen.body) == [1, 3]


def test_a_holder_that_the_service_dropped_lost_its_claim() -> None:
    with (
        client(error(400, "NotExistConsumerWithBody")) as (c, server),
        pytest.raises(ClaimLost, match="'me'"),
    ):
        c.heartbeat("g", "me", {1})
    assert len(server.seen) == 1


@pytest.mark.parametrize("body", [b"", b'{"shards": [1]}', b'["1"]', b"[true]", b"null", CANARY.encode()])
def test_a_heartbeat_answer_that_is_no_list_of_shards_grants_nothing(body: bytes) -> None:
    with client(Reply(body=body)) as (c, _), pytest.raises(ServiceError) as caught:
        c.heartbeat("g", "me", ())
    assert CANARY not in str(caught.value)


def test_checkpoints_tell_none_from_a_cursor_and_seconds_from_microseconds() -> None:
    entries = [
        {"shard": 0, "checkpoint": "", "updateTime": 0, "consumer": ""},
        {"shard": 1, "checkpoint": cursor_to_wire(5), "updateTime": 1_700_000_000_000_000, "consumer": "a"},
        {"shard": 2, "checkpoint": cursor_to_wire(6), "updateTime": 1_700_000_000, "consumer": "b"},
    ]
    with client(says(entries)) as (c, _):
        found = c.checkpoints("g")
    assert (found[0].cursor, found[1].cursor, found[2].cursor) == (None, 5, 6)
    assert found[1].updated_us == found[2].updated_us == 1_700_000_000_000_000
    assert (found[0].holder, found[2].holder) == ("", "b")


def test_a_checkpoint_that_is_no_cursor_is_not_taken_for_none() -> None:
    entries = [{"shard": 4, "checkpoint": "###", "updateTime": 0, "consumer": ""}]
    with client(says(entries)) as (c, _), pytest.raises(ServiceError, match="shard 4"):
        c.checkpoints("g")


def test_a_checkpoint_is_saved_as_its_holder_and_never_by_force() -> None:
    with client(Reply(body=b"")) as (c, server):
        c.save_checkpoint("g", "me", 3, Cursor(8))
    seen = server.seen[0]
    assert seen.path == GROUP + "?type=checkpoint&consumer=me&forceSuccess=false"
    assert json.loads(seen.body) == {"shard": 3, "checkpoint": cursor_to_wire(8)}


@pytest.mark.parametrize("code", ["ConsumerNotMatch", "ConsumerNotExist", "ConsumerNotExsit"])
def test_a_checkpoint_of_somebody_elses_shard_is_a_lost_claim(code: str) -> None:
    with client(error(400, code)) as (c, _), pytest.raises(ClaimLost, match="shard 3"):
        c.save_checkpoint("g", "me", 3, Cursor(8))


def test_a_checkpoint_of_a_removed_shard_says_so() -> None:
    with client(error(404, "ShardNotExist")) as (c, _), pytest.raises(ShardGone):
        c.save_checkpoint("g", "me", 3, Cursor(8))


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.shards(),
        lambda c: c.cursor_at(1, "end"),
        lambda c: c.cursor_time_s(1, Cursor(1)),
        lambda c: c.groups(),
        lambda c: c.checkpoints("g"),
        lambda c: c.origin(),
    ],
)
@pytest.mark.parametrize(
    "body", [b"", b"null", b"7", b"{}", b"[7]", b'[{"shard": 1}]', b"\xff", b'{"cursor": 1}']
)
def test_a_success_that_is_not_the_protocols_raises(call: Callable[[SlsClient], object], body: bytes) -> None:
    with client(Reply(body=body)) as (c, _), pytest.raises(ServiceError, match="BadResponse"):
        call(c)


def test_an_unknown_compression_is_refused_before_anything_is_sent() -> None:
    with client(Reply()) as (c, server):
        with pytest.raises(ConfigError):
            c.put_raw(b"group", compression="rar")
        assert server.seen == []
