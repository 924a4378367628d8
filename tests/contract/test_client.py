"""Our client and the SDK's management calls through it, against the emulator over real sockets."""

import threading
from collections.abc import Iterator

import pytest
from aliyun.log import LogItem, PutLogsRequest

from sls_io.emulator import Emulator, start
from sls_io.values.errors import (
    ConnectFailed,
    CursorExpired,
    ServiceError,
    ShardGone,
    TransportError,
    TransportTimeout,
)
from sls_io.values.settings import Group, Service
from sls_io.values.window import Cursor
from sls_io.wire import loggroup
from sls_io.wire.client import SlsClient
from tests.worlds.one_log import LOGSTORE, ONE_LOG, PROJECT


@pytest.fixture(params=["", "cn-hangzhou"], ids=["v1", "v4"])
def client(request: pytest.FixtureRequest, emulator: Emulator) -> Iterator[SlsClient]:
    region = str(request.param)
    service = Service(
        endpoint=emulator.endpoint, project=PROJECT, logstore=LOGSTORE, region=region, tries_max=3
    )
    with SlsClient(service) as made:
        made.transport.create_project(PROJECT, "")
        made.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=2)
        yield made


def test_what_is_put_is_pulled_with_both_signatures(client: SlsClient) -> None:
    for compression in ("", "lz4", "zstd"):
        client.put_raw(ONE_LOG, key="0" * 32, compression=compression)
    shard = client.shards()[0]
    head = client.head(shard)
    page = client.pull(0, head.begin, end=head.end)
    assert page.count == 3 and page.next == head.end
    raw = loggroup.decompress(page.body, page.compression, page.raw_bytes)
    assert raw == loggroup.frame(ONE_LOG) * 3
    assert abs(client.cursor_time_s(0, head.begin) - client.now_s()) < 30
    assert client.cursor_at(0, 0) == head.begin
    first = client.pull(0, head.begin, groups_max=1)
    assert first.count == 1 and head.begin < first.next < head.end


def test_the_sdks_own_calls_work(client: SlsClient, emulator: Emulator) -> None:
    sdk = client.transport
    assert sdk.list_project().get_count() == 1
    assert sdk.get_project(PROJECT).get_projectname() == PROJECT
    assert sdk.list_logstore(PROJECT).get_logstores() == [LOGSTORE]
    sdk.update_logstore(PROJECT, LOGSTORE, ttl=7)
    assert sdk.get_logstore(PROJECT, LOGSTORE).get_ttl() == 7
    assert len(sdk.list_shards(PROJECT, LOGSTORE).get_shards_info()) == 2
    sdk.put_logs(PutLogsRequest(PROJECT, LOGSTORE, "t", "s", [LogItem(contents=[("k", "v")])]))
    sdk.split_shard(PROJECT, LOGSTORE, 0, "4" + "0" * 31)
    assert [s.readonly for s in client.shards()] == [True, False, False, False]
    sdk.create_consumer_group(PROJECT, LOGSTORE, "g", 30, True)
    assert client.create_group(Group(name="g")) is False
    assert sdk.heart_beat(PROJECT, LOGSTORE, "g", "me", []).get_shards()
    sdk.update_consumer_group(PROJECT, LOGSTORE, "g", timeout=40)
    assert client.groups()[0].timeout_s == 40
    cursor = sdk.get_begin_cursor(PROJECT, LOGSTORE, 0).get_cursor()
    sdk.update_check_point(PROJECT, LOGSTORE, "g", 0, cursor, consumer="me", force_success=True)
    assert client.checkpoints("g")[0].cursor is not None
    sdk.delete_consumer_group(PROJECT, LOGSTORE, "g")
    sdk.delete_logstore(PROJECT, LOGSTORE)
    sdk.delete_project(PROJECT)


def test_the_origin_changes_when_the_logstore_is_made_again(client: SlsClient, emulator: Emulator) -> None:
    before = client.origin()
    assert before.project == PROJECT and before.id.startswith("logs-")
    emulator.admin.advance(5)
    client.transport.delete_logstore(PROJECT, LOGSTORE)
    client.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=2)
    again = SlsClient(client.service, transport=client.transport).origin()
    assert again.id != before.id


@pytest.fixture
def plain(emulator: Emulator) -> Iterator[SlsClient]:
    service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=LOGSTORE, tries_max=3)
    with SlsClient(service) as made:
        made.transport.create_project(PROJECT, "")
        made.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=2)
        yield made


def test_expired_cursors_and_removed_shards_have_their_own_errors(
    plain: SlsClient, emulator: Emulator
) -> None:
    for _ in range(3):
        plain.put_raw(ONE_LOG, key="0" * 32)
    head = plain.head(plain.shards()[0])
    emulator.admin.retain(PROJECT, LOGSTORE, shard=0, before_cursor=head.end)
    with pytest.raises(CursorExpired):
        plain.pull(0, head.begin)
    with pytest.raises(ShardGone):
        plain.cursor_at(17, "end")


def test_unknown_names_say_which_setting_is_wrong(plain: SlsClient) -> None:
    for name, setting in (("project", "service.project"), ("logstore", "service.logstore")):
        wrong = SlsClient(plain.service.model_copy(update={name: "not-there"}))
        with wrong, pytest.raises(ServiceError, match=f"{setting} .not-there."):
            wrong.shards()


def test_the_wrong_key_says_where_keys_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "canary-4711-secret"
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", secret)
    with start(key_pair=("other-id", "other-secret")) as other:
        service = Service(endpoint=other.endpoint, project=PROJECT, logstore=LOGSTORE)
        with SlsClient(service) as client, pytest.raises(ServiceError, match="ACCESS_KEY_SECRET") as caught:
            client.shards()
    assert secret not in str(caught.value)


@pytest.mark.fault("4a.3.reply_lost", "4a.3.refused", "4b.corrupt.pull")
def test_pages_that_break_on_the_way_are_pulled_again(plain: SlsClient, emulator: Emulator) -> None:
    plain.put_raw(ONE_LOG, key="0" * 32)
    head = plain.head(plain.shards()[0])
    emulator.admin.fault("truncate", call="pull_logs", bytes=1)
    assert plain.pull(0, head.begin).count == 1
    emulator.admin.fault("drop_reply", call="pull_logs")
    assert plain.pull(0, head.begin).count == 1
    emulator.admin.fault("error", call="pull_logs", status=403, code="ReadQuotaExceed")
    assert plain.pull(0, head.begin).count == 1
    assert plain.transport.retries == {"ConnectFailed": 2, "ReadQuotaExceed": 1}


def test_a_put_whose_answer_is_lost_is_stored_once(plain: SlsClient, emulator: Emulator) -> None:
    emulator.admin.fault("drop_reply", call="put_logs_by_key")
    with pytest.raises(ConnectFailed, match="not known"):
        plain.put_raw(ONE_LOG, key="0" * 32)
    assert len(list(emulator.admin.dump(PROJECT, LOGSTORE))) == 1


@pytest.mark.fault("4a.2.late")
def test_a_held_answer_is_left_at_the_deadline_and_the_connection_is_not_used_again(
    plain: SlsClient, emulator: Emulator
) -> None:
    fault = emulator.admin.fault("hold_reply", call="list_shards")
    with pytest.raises(TransportTimeout):
        plain.with_deadline(0.3).shards()
    emulator.admin.release(fault)
    assert len(plain.shards()) == 2


def test_a_service_that_is_gone_is_an_error_of_the_network(plain: SlsClient, emulator: Emulator) -> None:
    plain.shards()
    emulator.kill()
    with pytest.raises(TransportError):
        plain.shards()


def test_one_client_serves_many_threads(plain: SlsClient) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                plain.put_raw(ONE_LOG, key=f"{number:x}" + "0" * 31)
                plain.cursor_at(0, "end")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    total = 0
    for shard in plain.shards():
        head = plain.head(shard)
        total += plain.pull(shard.id, head.begin).count if head.begin != head.end else 0
    assert total == 160
    with pytest.raises(ServiceError):
        plain.pull(0, Cursor(1))
