"""Whatever is posted to the admin path: it is done, or refused with a sentence; the service goes on."""

import json
import random
import resource
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from sls_io.emulator import Emulator, Limits, start
from sls_io.emulator.service import LogService
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET, SigningKeys
from sls_io.emulator.storage.journal import SegmentJournal
from sls_io.emulator.storage.store import Store
from sls_io.values.errors import ConfigError, ServiceError, TransportError
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient
from tests.unit.signed_calls import GROUP

NOW = 1_790_000_000.0
POSTS = (
    "clock", "faults", "retain", "split", "merge", "jump", "limits", "keys",
    "faults/1/release", "faults/99999999999999999999/release",
)  # fmt: skip
FIELDS = {
    "clock": ("now", "advance", "freeze"),
    "faults": ("do", "shard", "times", "seed", "headers", "delay_s", "status", "code"),
    "retain": ("project", "logstore", "shard", "before_s", "before_cursor", "drop"),
    "split": ("project", "logstore", "shard", "key", "count"),
    "merge": ("project", "logstore", "shard"),
    "jump": ("project", "logstore", "shard", "step"),
    "keys": ("id", "secret", "token", "lasts_s"),
}
LIMITS = tuple(Limits.model_fields)
RIGHT = {"project": '"demo"', "logstore": '"logs"', "do": '"observe"', "call": '"none"', "shard": "0"}
NUMBERS = (
    *"0 1 -1 1e999 -1e999 NaN Infinity -Infinity 1e18 -1e18 1e308 5e-324 1.5 600.0001".split(),
    *"9223372036854775807 -9223372036854775808 2147483648 7258118400 253402300800".split(),
    "1" + "0" * 30,
    "1" + "0" * 5000,
)
OTHERS = (
    *'true false null "" "1" "nan" "\\ud800" "\\u0000" "a\\nb" [] {} [[1]] "observe" "headers"'.split(),
    '{"a": {"b": 1}}',
    '{"x-log-count": "1\\r\\nX: y"}',
    '{"\\u0100": "1"}',
    '{"transfer-encoding": "chunked"}',
    "[" * 3000 + "]" * 3000,
    '"' + "x" * 5000 + '"',
)
BODIES = (
    b"", b"null", b"[]", b"1", b'"x"', b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000,
    b'{"now":1,"now":NaN}',
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data folder of an emulator that has one logstore."""
    with run(tmp_path / "data") as emulator:
        api = connect(emulator)
        api.transport.create_project("demo", "")
        api.transport.create_logstore("demo", "logs", 30, 2)
        api.put_raw(GROUP)
        api.close()
    return tmp_path / "data"


def run(folder: Path) -> Emulator:
    return start(folder, limits=Limits(segment_bytes_max=64 * 1024))


def connect(emulator: Emulator) -> SlsClient:
    return SlsClient(Service(endpoint=emulator.endpoint, project="demo", logstore="logs", tries_max=1))


def post(emulator: Emulator, path: str, body: bytes, method: str = "POST") -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", emulator.port, timeout=120)
    try:
        connection.request(method, f"/_admin/{path}", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def still_answers(emulator: Emulator) -> None:
    """Faults that were asked for taken away, every call that a client makes works."""
    assert post(emulator, "faults", b"", "DELETE")[0] == 200
    emulator.admin.limits(**Limits().model_dump())
    for path in ("clock", "faults", "limits", "state", "dump?project=demo&logstore=logs", ""):
        status, body = post(emulator, path, b"", "GET")
        assert status == 200, (path, body[:300])
    api = connect(emulator)
    try:
        api.put_raw(GROUP)
        shards = api.shards()
        for shard in shards:
            head = api.head(shard)
            api.cursor_at(shard.id, 1)
            api.pull(shard.id, head.begin)
        assert api.now_s() >= 0
    finally:
        api.close()


def asks(dice: random.Random) -> Iterator[tuple[str, bytes]]:
    """(path, body) of one hostile request after another."""
    while True:
        path = dice.choice(POSTS)
        if dice.random() < 0.15:
            yield path, dice.choice(BODIES)
            continue
        fields = {
            name: dice.choice(NUMBERS if dice.random() < 0.7 else OTHERS) for name in FIELDS.get(path, LIMITS)
        }
        fields |= {name: value for name, value in RIGHT.items() if name in fields and dice.random() < 0.8}
        kept = [name for name in fields if dice.random() < 0.6 or name in RIGHT]
        if dice.random() < 0.05:
            kept.append(dice.choice(LIMITS))
        body = ", ".join(f'"{name}": {fields.get(name, "1")}' for name in kept)
        yield path, f"{{{body}}}".encode()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("clock", '{"now": 1e999}'),
        ("clock", '{"now": NaN}'),
        ("clock", '{"advance": 1e18}'),
        ("clock", '{"advance": -1e18}'),
        ("clock", '{"now": -1}'),
        ("clock", '{"now": true}'),
        ("clock", '{"now": "1"}'),
        ("clock", '{"now": [1]}'),
        ("clock", '{"freeze": true, "now": 1e17}'),
        ("clock", "[]"),
        ("clock", "[" * 50_000),
        ("limits", '["a"]'),
        ("limits", '{"groups_max": 1e999}'),
        ("limits", '{"groups_max": true}'),
        ("faults", '{"do": "observe", "seed": 1' + "0" * 4000 + "}"),
        ("faults", '{"do": "headers", "headers": {"\\u0100": "1"}}'),
        ("faults", '{"do": "headers", "headers": {"a": "1\\r\\nb: 2"}}'),
        ("jump", '{"project": "demo", "logstore": "logs", "shard": 0, "step": 8000000000000000000}'),
        ("jump", '{"project": "demo", "logstore": "logs", "shard": 0}'),
        ("keys", '{"id": "a", "secret": "b", "lasts_s": 1e999}'),
    ],
)
def test_a_number_out_of_range_is_refused_with_a_sentence_and_changes_nothing(
    folder: Path, path: str, body: str
) -> None:
    with run(folder) as emulator:
        emulator.admin.freeze()
        before = emulator.admin.state()
        status, said = post(emulator, path, body.encode())
        assert status == 400
        assert json.loads(said)["errorMessage"]
        assert emulator.admin.state() == before
        assert emulator.admin.faults() == []
        still_answers(emulator)


def test_whatever_the_admin_path_accepts_the_service_answers_also_after_a_restart(folder: Path) -> None:
    """400 requests of one seed; after each batch, and after a kill, every call works."""
    requests = asks(random.Random(9))
    for _ in range(4):
        emulator = run(folder)
        try:
            for _ in range(100):
                path, body = next(requests)
                status, said = post(emulator, path, body)
                assert status < 500, (path, body[:300], said[:300])
                assert status == 200 or json.loads(said)["errorMessage"], (path, body[:300])
            still_answers(emulator)
        finally:
            emulator.kill()
        with run(folder) as again:
            still_answers(again)


def test_a_wait_that_never_ends_is_refused(folder: Path) -> None:
    with run(folder) as emulator:
        fault = emulator.admin.fault("observe")
        for timeout in ("nan", "inf", "-1", "1e999", "601"):
            status, _ = post(emulator, f"faults/{fault}/wait?timeout_s={timeout}", b"", "GET")
            assert status == 400
        assert post(emulator, "faults/" + "9" * 5000 + "/wait", b"", "GET")[0] == 400


def test_a_full_disk_refuses_the_put_and_everything_acknowledged_is_there_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The limit of a file's size stands in for a full disk: a write that goes over it fails."""
    data = tmp_path / "data"
    emulator = start(data)
    api = connect(emulator)
    try:
        api.transport.create_project("demo", "")
        api.transport.create_logstore("demo", "logs", 30, 1)
        stored = 0
        size = (data / "00000001.seg").stat().st_size
        hard = resource.prlimit(emulator.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(emulator.pid, resource.RLIMIT_FSIZE, (size + 1000, hard))
        refused = 0
        for _ in range(60):
            try:
                api.put_raw(GROUP)
                stored += 1
            except (ServiceError, TransportError):
                refused += 1
        assert stored > 0 and refused > 0
        with pytest.raises((ServiceError, TransportError)):
            api.transport.create_logstore("demo", "later", 30, 200)
        resource.prlimit(emulator.pid, resource.RLIMIT_FSIZE, (hard, hard))
        api.put_raw(GROUP)
    finally:
        api.close()
        emulator.kill()
    told = capfd.readouterr().err
    assert "is not acknowledged: the data folder cannot be read or written: " in told
    assert "Traceback" not in told
    with start(data) as again:
        state = again.admin.state()
        assert state["notes"] == []
        kept = {s["logstore"]: sum(shard["groups"] for shard in s["shards"]) for s in state["logstores"]}
        assert kept["logs"] == stored + 1


def test_a_folder_whose_clock_cannot_be_names_the_cure(tmp_path: Path) -> None:

    journal = SegmentJournal(tmp_path, Store(numbered=True), NOW)
    journal.write([{"op": "clock", "doc": {"offset_s": float("inf"), "frozen_at": None}}])
    journal.close()
    with pytest.raises(ConfigError, match="--now"):
        LogService(tmp_path, keys=SigningKeys(FAKE_ID, FAKE_SECRET))
    service = LogService(tmp_path, keys=SigningKeys(FAKE_ID, FAKE_SECRET), now=NOW)
    assert service.now() >= NOW
    service.close()
    LogService(tmp_path, keys=SigningKeys(FAKE_ID, FAKE_SECRET)).close()
