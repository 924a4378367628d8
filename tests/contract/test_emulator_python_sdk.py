"""The emulator under the vendor's unmodified Python SDK: calls, signatures, consumers, restarts."""

import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aliyun.log import LogClient, LogException, LogItem, PutLogsRequest

from sls_io.emulator import Emulator, start
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.errors import ServiceError
from tests.contract import vendor_consumer
from tests.contract.teller import Teller

PROJECT, LOGSTORE = "demo", "access_logs"
KEYS = ("0" * 32, "5" + "0" * 31, "9" + "0" * 31, "d" + "0" * 31)
DEADLINE_S = 45.0


def put(client: LogClient, begin: int, end: int, key: str | None = None, *, compress: bool = True) -> None:
    """Numbered logs [begin, end), one LogGroup each."""
    for n in range(begin, end):
        item = LogItem(contents=[("key", key or "-"), ("n", str(n))])
        client.put_logs(PutLogsRequest(PROJECT, LOGSTORE, "t", "s", [item], key, compress))


def numbers(response: Any) -> list[int]:
    logs = (log for group in response.get_loggroup_list().LogGroups for log in group.Logs)
    return [int(next(c.Value for c in log.Contents if c.Key == "n")) for log in logs]


def refusal(call: Callable[..., object], *arguments: Any) -> tuple[int, str]:
    with pytest.raises(LogException) as refused:
        call(*arguments)
    return refused.value.get_resp_status(), refused.value.get_error_code()


@pytest.fixture
def logs(vendor: LogClient) -> LogClient:
    """The vendor's client with an empty logstore of two shards."""
    vendor.create_project(PROJECT, "for a test")
    vendor.create_logstore(PROJECT, LOGSTORE, ttl=3, shard_count=2)
    return vendor


def test_projects_and_logstores_come_and_go(logs: LogClient) -> None:
    assert logs.get_project(PROJECT).get_description() == "for a test"
    assert [p["projectName"] for p in logs.list_project().get_projects()] == [PROJECT]
    assert refusal(logs.create_project, PROJECT, "") == (400, "ProjectAlreadyExist")
    assert refusal(logs.create_logstore, PROJECT, LOGSTORE) == (400, "LogStoreAlreadyExist")
    logs.update_logstore(PROJECT, LOGSTORE, ttl=9)
    told = logs.get_logstore(PROJECT, LOGSTORE)
    assert (told.get_ttl(), told.get_shard_count()) == (9, 2)
    assert logs.list_logstore(PROJECT).get_logstores() == [LOGSTORE]
    logs.delete_logstore(PROJECT, LOGSTORE)
    assert refusal(logs.get_logstore, PROJECT, LOGSTORE) == (404, "LogStoreNotExist")
    logs.delete_project(PROJECT)
    assert refusal(logs.get_project, PROJECT) == (404, "ProjectNotExist")


@pytest.mark.parametrize("version", ["v1", "v4"])
def test_signatures_are_checked(logs: LogClient, version: str) -> None:
    def client(secret: str) -> LogClient:
        return LogClient("http://sls.emu", FAKE_ID, secret, auth_version=version, region="cn-x")

    assert client(FAKE_SECRET).list_shards(PROJECT, LOGSTORE).get_shards_info()
    put(client(FAKE_SECRET), 0, 1)
    assert refusal(client("wrong").list_shards, PROJECT, LOGSTORE) == (401, "SignatureNotMatch")


def test_what_is_put_is_pulled_in_order(logs: LogClient) -> None:
    put(logs, 0, 10, KEYS[0])
    put(logs, 10, 15, KEYS[0], compress=False)
    begin = logs.get_begin_cursor(PROJECT, LOGSTORE, 0).get_cursor()
    end = logs.get_end_cursor(PROJECT, LOGSTORE, 0).get_cursor()
    page = logs.pull_logs(PROJECT, LOGSTORE, 0, begin, 4)
    assert (numbers(page), page.get_loggroup_count()) == ([0, 1, 2, 3], 4)
    rest = logs.pull_logs(PROJECT, LOGSTORE, 0, page.get_next_cursor(), 1000)
    assert (numbers(rest), rest.get_next_cursor()) == (list(range(4, 15)), end)
    assert numbers(logs.pull_logs(PROJECT, LOGSTORE, 0, begin, 1000, page.get_next_cursor())) == [0, 1, 2, 3]
    empty = logs.pull_logs(PROJECT, LOGSTORE, 0, end)
    assert (empty.get_loggroup_count(), empty.get_next_cursor()) == (0, end)
    assert (
        logs.get_begin_cursor(PROJECT, LOGSTORE, 1).get_cursor()
        == logs.get_end_cursor(PROJECT, LOGSTORE, 1).get_cursor()
    )
    assert refusal(logs.get_cursor_time, PROJECT, LOGSTORE, 0, end) == (400, "InvalidCursor")
    assert refusal(logs.pull_logs, PROJECT, LOGSTORE, 7, begin) == (400, "ShardNotExist")
    assert refusal(logs.pull_logs, PROJECT, LOGSTORE, 0, "MQ==") == (400, "InvalidCursor")
    assert refusal(logs.pull_logs, PROJECT, LOGSTORE, 0, "?") == (400, "ParameterInvalid")


@pytest.mark.parametrize("kind", ["lz4", "deflate", "gzip;q=1"])
def test_pages_come_as_the_client_accepts_them(logs: LogClient, kind: str) -> None:
    put(logs, 0, 3, KEYS[0])
    begin = logs.get_begin_cursor(PROJECT, LOGSTORE, 0).get_cursor()
    page = logs.pull_logs(PROJECT, LOGSTORE, 0, begin, accept_compress_type=kind)
    assert numbers(page) == [0, 1, 2]


def test_times_follow_the_emulators_clock(logs: LogClient, emulator: Emulator) -> None:
    start_s = int(emulator.admin.freeze()) + 100
    for hour in range(3):
        emulator.admin.set_clock(start_s + 3600 * hour)
        put(logs, 10 * hour, 10 * hour + 2, KEYS[0])
    first = logs.get_cursor(PROJECT, LOGSTORE, 0, start_s + 3600).get_cursor()
    assert numbers(logs.pull_logs(PROJECT, LOGSTORE, 0, first)) == [10, 11, 20, 21]
    assert logs.get_cursor_time(PROJECT, LOGSTORE, 0, first).get_cursor_time() == start_s + 3600
    before = logs.get_previous_cursor_time(PROJECT, LOGSTORE, 0, first).get_cursor_time()
    assert before == start_s
    late = logs.get_cursor(PROJECT, LOGSTORE, 0, start_s + 9999).get_cursor()
    assert late == logs.get_end_cursor(PROJECT, LOGSTORE, 0).get_cursor()
    hours = [numbers(p) for p in logs.pull_log(PROJECT, LOGSTORE, 0, start_s + 3600, start_s + 7200)]
    assert hours == [[10, 11]]


def test_shards_split_and_merge(logs: LogClient) -> None:
    put(logs, 0, 2, KEYS[0])
    shards = logs.split_shard(PROJECT, LOGSTORE, 0, "4" + "0" * 31).get_shards_info()
    assert [(s["shardID"], s["status"]) for s in shards] == [
        (0, "readonly"),
        (2, "readwrite"),
        (3, "readwrite"),
    ]
    put(logs, 2, 4, KEYS[0])
    shards = logs.merge_shard(PROJECT, LOGSTORE, 3).get_shards_info()
    assert [(s["shardID"], s["status"]) for s in shards] == [
        (4, "readwrite"),
        (3, "readonly"),
        (1, "readonly"),
    ]
    put(logs, 4, 6, KEYS[3])
    found = {
        s: numbers(
            logs.pull_logs(PROJECT, LOGSTORE, s, logs.get_begin_cursor(PROJECT, LOGSTORE, s).get_cursor())
        )
        for s in range(5)
    }
    assert found == {0: [0, 1], 1: [], 2: [2, 3], 3: [], 4: [4, 5]}
    assert refusal(logs.split_shard, PROJECT, LOGSTORE, 0, KEYS[1]) == (400, "ParameterInvalid")
    assert refusal(logs.merge_shard, PROJECT, LOGSTORE, 4) == (400, "ParameterInvalid")


def test_consumer_groups_answer_as_documented(logs: LogClient) -> None:
    assert refusal(logs.heart_beat, PROJECT, LOGSTORE, "g", "c", []) == (404, "ConsumerGroupNotExist")
    logs.create_consumer_group(PROJECT, LOGSTORE, "g", 10, True)
    assert refusal(logs.create_consumer_group, PROJECT, LOGSTORE, "g", 10, True) == (
        400,
        "ConsumerGroupAlreadyExist",
    )
    logs.update_consumer_group(PROJECT, LOGSTORE, "g", 20, False)
    told = logs.list_consumer_group(PROJECT, LOGSTORE).get_consumer_groups()
    assert [(g.get_consumer_group_name(), g.get_timeout(), g.is_in_order()) for g in told] == [
        ("g", 20, False)
    ]
    assert refusal(logs.heart_beat, PROJECT, LOGSTORE, "g", "c", [0]) == (400, "NotExistConsumerWithBody")
    assert logs.heart_beat(PROJECT, LOGSTORE, "g", "c", []).get_shards() == [0, 1]
    entries = logs.get_check_point(PROJECT, LOGSTORE, "g").get_consumer_group_check_points()
    assert [(e["shard"], e["checkpoint"]) for e in entries] == [(0, ""), (1, "")]
    cursor = logs.get_begin_cursor(PROJECT, LOGSTORE, 0).get_cursor()
    save = logs.update_check_point
    save(PROJECT, LOGSTORE, "g", 0, cursor, "c", False)
    assert refusal(save, PROJECT, LOGSTORE, "g", 0, cursor, "d", False) == (404, "ConsumerNotExist")
    assert refusal(save, PROJECT, LOGSTORE, "g", 9, cursor, "c", False) == (404, "ShardNotExist")
    assert refusal(save, PROJECT, LOGSTORE, "g", 0, "?", "c", False) == (400, "InvalidShardCheckPoint")
    entry = logs.get_check_point(PROJECT, LOGSTORE, "g", 0).get_consumer_group_check_points()[0]
    assert (entry["checkpoint"], entry["consumer"]) == (cursor, "c")
    assert logs.get_check_point(PROJECT, LOGSTORE, "g", 9).get_consumer_group_check_points() == []
    logs.delete_consumer_group(PROJECT, LOGSTORE, "g")
    assert logs.list_consumer_group(PROJECT, LOGSTORE).get_consumer_groups() == []


def test_unsupported_calls_say_so(logs: LogClient) -> None:
    assert refusal(logs.get_index_config, PROJECT, LOGSTORE) == (400, "NotSupported")
    assert refusal(logs.get_log, PROJECT, LOGSTORE, 0, 1) == (400, "NotSupported")


def consumer(
    emulator: Emulator, group: str, name: str, changed: threading.Condition, *, order: bool = False,
    start_at: str = "begin",
) -> Teller:  # fmt: skip
    """A ConsumerWorker as a process of its own."""
    given = (PROJECT, LOGSTORE, group, name, str(int(order)), start_at)
    program = [sys.executable, "-m", vendor_consumer.__name__, *given]
    return Teller(program, {**os.environ, "http_proxy": emulator.endpoint, "no_proxy": ""}, changed)


@pytest.fixture
def consumers() -> Iterator[list[Teller]]:
    """Consumers that end with the test."""
    started: list[Teller] = []
    yield started
    for each in started:
        each.kill()


def test_consumer_workers_drain_share_and_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consumers: list[Teller]
) -> None:
    """One drains in order over a split and a merge; three share while one is killed, one leaves and
    the emulator itself is killed and started again: every log arrives, per key in order."""
    with start(tmp_path) as emulator:
        monkeypatch.setenv("http_proxy", emulator.endpoint)
        monkeypatch.setenv("no_proxy", "")
        client = LogClient("http://sls.emu", FAKE_ID, FAKE_SECRET)
        client.create_project(PROJECT, "")
        client.create_logstore(PROJECT, LOGSTORE, ttl=1, shard_count=4)
        total = 0

        def more(count: int) -> None:
            nonlocal total
            for key in KEYS:
                put(client, total, total + count, key)
                total += count

        def all_seen(*among: Teller) -> None:
            among[0].wait(lambda: set(range(total)) <= set().union(*(c.numbers() for c in among)))

        more(5)
        changed = threading.Condition()
        alone = consumer(emulator, "alone", "only", changed, order=True)
        consumers.append(alone)
        shared = [consumer(emulator, "shared", name, changed) for name in ("a", "b", "c")]
        consumers.extend(shared)
        all_seen(alone)
        all_seen(alone, *shared)
        client.split_shard(PROJECT, LOGSTORE, 0, "2" + "0" * 31)
        more(5)
        client.merge_shard(PROJECT, LOGSTORE, 1)
        more(5)
        shared[0].kill()
        all_seen(alone)
        emulator.kill()
        port = emulator.port
    with start(tmp_path, port=port):
        more(5)
        all_seen(alone)
        all_seen(alone, *shared)
        shared[1].leave()
        more(5)
        all_seen(shared[2], *shared)
    by_key: dict[str, list[int]] = defaultdict(list)
    for _, key, n in alone.seen:
        by_key[key].append(n)
    assert all(order == sorted(order) for order in by_key.values())


def test_consumer_workers_share_as_the_assignor_says_that_a_test_asked_for(
    emulator: Emulator, vendor: LogClient, consumers: list[Teller]
) -> None:
    """The service's own way would give the second one the shards 2 and 3."""
    vendor.create_project(PROJECT, "")
    vendor.create_logstore(PROJECT, LOGSTORE, ttl=1, shard_count=4)
    vendor.create_consumer_group(PROJECT, LOGSTORE, "dealt", 6)
    emulator.admin.assignor(PROJECT, LOGSTORE, "dealt", "round_robin")
    changed = threading.Condition()
    consumers.extend(consumer(emulator, "dealt", name, changed) for name in ("a", "b"))
    first, second = consumers
    total, shared = 0, {"a": {0, 2}, "b": {1, 3}}

    def all_seen(numbers: range) -> None:
        first.wait(lambda: set(numbers) <= first.numbers() | second.numbers())

    def held() -> dict[str, set[int]]:
        (group,) = emulator.admin.state()["logstores"][0]["groups"]
        return {m: {s["shard"] for s in group["shards"] if s["holder"] == m} for m in group["members"]}

    for _ in range(100):
        for key in KEYS:
            put(vendor, total, total + 1, key)
            total += 1
        all_seen(range(total))
        if held() == shared:
            break
    assert held() == shared
    with pytest.raises(ServiceError, match="does not exist"):
        emulator.admin.assignor(PROJECT, LOGSTORE, "nobody", "sticky")
    with pytest.raises(ServiceError, match="assignor"):
        emulator.admin.assignor(PROJECT, LOGSTORE, "dealt", "os:system")


def test_consumer_workers_start_where_they_are_told(
    logs: LogClient, emulator: Emulator, consumers: list[Teller]
) -> None:
    """At the begin, at the end and at a time; each is alone in its group on two shards."""
    moment = int(emulator.admin.freeze()) + 100

    def more(begin: int) -> None:
        put(logs, begin, begin + 2, KEYS[0])
        put(logs, begin + 2, begin + 4, KEYS[3])

    more(0)
    emulator.admin.set_clock(moment)
    more(4)
    asked = emulator.admin.fault("observe", call="get_cursor", times=None)
    changed, firsts = threading.Condition(), {"begin": 0, "end": 8, str(moment): 4}
    running = {
        first: consumer(emulator, f"from-{at}", "only", changed, start_at=at) for at, first in firsts.items()
    }
    consumers.extend(running.values())
    positions: list[str] = []
    while positions.count("end") < 2:
        seen = emulator.admin.wait(asked, len(positions) + 1, DEADLINE_S)["seen"]
        positions = [each["query"]["from"] for each in seen]
    more(8)
    wanted = {each: set(range(first, 12)) for first, each in running.items()}
    running[0].wait(lambda: all(numbers <= each.numbers() for each, numbers in wanted.items()))
    assert [each.numbers() for each in wanted] == list(wanted.values())


def test_a_consumer_worker_that_leaves_hands_on_all_it_has_done(
    logs: LogClient, emulator: Emulator, consumers: list[Teller]
) -> None:
    """It is asked to leave while it is fed: the other takes over, and no log is given twice."""
    changed = threading.Condition()
    leaver, stayer = (consumer(emulator, "shared", name, changed) for name in ("leaver", "stayer"))
    consumers.extend((leaver, stayer))

    def all_given(total: int) -> None:
        stayer.wait(lambda: len(leaver.seen) + len(stayer.seen) >= total)

    total = 0
    while not (leaver.seen and stayer.seen):
        put(logs, total, total + 1, KEYS[0])
        put(logs, total + 1, total + 2, KEYS[3])
        total += 2
        all_given(total)
    # A clock that stands still evicts nobody, however slow this machine: only leaving is looked at.
    emulator.admin.freeze()
    with ThreadPoolExecutor(1) as pool:
        fed = pool.submit(put, logs, total, total + 40, KEYS[0])
        put(logs, total + 40, total + 80, KEYS[3])
        leaver.leave()
        fed.result()
    emulator.admin.freeze(False)
    put(logs, total + 80, total + 82, KEYS[0])
    put(logs, total + 82, total + 84, KEYS[3])
    total += 84
    all_given(total)
    given = sorted(n for each in (leaver, stayer) for _, _, n in each.seen)
    assert given == list(range(total))
    assert stayer.numbers() >= set(range(total - 4, total))


def test_acknowledged_puts_survive_a_kill_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(tmp_path) as emulator:
        monkeypatch.setenv("http_proxy", emulator.endpoint)
        monkeypatch.setenv("no_proxy", "")
        client = LogClient("http://sls.emu", FAKE_ID, FAKE_SECRET)
        client.create_project(PROJECT, "")
        client.create_logstore(PROJECT, LOGSTORE, ttl=1, shard_count=1)
        acknowledged: list[int] = []
        ten = threading.Event()

        def produce() -> None:
            """Puts until the emulator is gone; a call that fails was not acknowledged."""
            n = 0
            session = LogClient("http://sls.emu", FAKE_ID, FAKE_SECRET)
            while True:
                item = LogItem(contents=[("n", str(n))])
                try:
                    session.put_logs(PutLogsRequest(PROJECT, LOGSTORE, "t", "s", [item]))
                except LogException:
                    return
                acknowledged.append(n)
                n += 1
                if n == 10:
                    ten.set()

        producer = threading.Thread(target=produce, daemon=True)
        producer.start()
        assert ten.wait(DEADLINE_S)
        emulator.kill()
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        port = emulator.port
    with start(tmp_path, port=port) as emulator:
        monkeypatch.setenv("http_proxy", emulator.endpoint)
        begin = client.get_begin_cursor(PROJECT, LOGSTORE, 0).get_cursor()
        stored = numbers(client.pull_logs(PROJECT, LOGSTORE, 0, begin, 1000))
        assert stored[: len(acknowledged)] == acknowledged
        assert len(stored) - len(acknowledged) in (0, 1)


def test_a_taken_port_is_one_sentence_and_status_2(emulator: Emulator) -> None:
    command = [sys.executable, "-m", "sls_io.emulator", "--port", str(emulator.port)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == (
        f"sls-lake emulator: port {emulator.port} is taken: "
        "stop what listens there or choose another with --port\n"
    )


def test_it_says_where_it_listens_and_ends_with_its_parent() -> None:
    command = [sys.executable, "-m", "sls_io.emulator", "--port", "0", "--with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline().startswith("sls-lake emulator ready on http://127.0.0.1:")
        process.stdin.close()
        assert process.wait(timeout=120) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--data", "/proc/nothing"], "data folder /proc/nothing: No such file or directory; name one"),
        (
            ["--limits", '{"put_bytes_max": 1}'],
            "put_bytes_max: Input should be greater than or equal to 1024",
        ),
        (["--port", "99999"], "cannot listen on port 99999: choose another"),
    ],
)
def test_what_cannot_start_says_why(options: list[str], words: str) -> None:
    command = [sys.executable, "-m", "sls_io.emulator", *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_it_ends_cleanly_when_it_is_told_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sls_io.emulator", "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("sls-lake emulator ready on ")
        process.terminate()
        assert process.wait(timeout=120) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
