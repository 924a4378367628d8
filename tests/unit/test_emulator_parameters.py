"""What calls take: declared once, checked alike; kinds of logstores; what a project and a logstore keep."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sls_io.emulator import Emulator, Limits, start
from sls_io.emulator.parameters import Parameter, taken
from sls_io.emulator.storage.refusal import Refused, parameter_invalid
from tests.unit.signed_calls import GROUP, LOGSTORE, Caller

ENCRYPTED = {
    "enable": True,
    "encrypt_type": "sm4",
    "user_cmk_info": {"cmk_key_id": "k", "arn": "acs:ram::1:role/r", "region_id": "cn-hangzhou"},
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Emulator]:
    """One emulator for all."""
    with start(limits=Limits()) as running:
        yield running


@pytest.fixture
def caller(shared: Emulator) -> Iterator[Caller]:
    """A fresh project."""
    found = Caller(shared)
    if found.call("GET", "/")[0] == 200:
        found.call("DELETE", "/")
    assert found.call("POST", "/", b'{"projectName": "demo", "description": "d"}')[0] == 200
    yield found
    found.connection.close()


def make(caller: Caller, **body: Any) -> tuple[int, str]:
    whole = {"logstoreName": "logs", "shardCount": 1, "ttl": 30, **body}
    return caller.code(caller.call("POST", "/logstores", json.dumps(whole).encode()))


def got(caller: Caller, path: str, **query: Any) -> dict[str, Any]:
    status, _, body = caller.call("GET", path, **query)
    assert status == 200
    return dict(json.loads(body))


@pytest.mark.parametrize(
    ("parameter", "given", "value"),
    [
        (Parameter("n", int, least=1, most=5), "5", 5),
        (Parameter("n", int, least=1, most=5), 1, 1),
        (Parameter("n", int, least=1, most=5), 6, None),
        (Parameter("n", int, least=1, most=5), "x", None),
        (Parameter("n", int), True, None),
        (Parameter("n", int), 1.5, None),
        (Parameter("n", int, default=7), "", 7),
        (Parameter("n", int, required=True), "", None),
        (Parameter("b", bool), "True", True),
        (Parameter("b", bool), 1, None),
        (Parameter("s"), 1, None),
        (Parameter("s", values=("a", "b")), "c", None),
        (Parameter("d", dict), [], None),
    ],
)
def test_a_parameter_is_its_value_or_a_sentence_with_its_name(
    parameter: Parameter, given: object, value: object
) -> None:
    if value is not None:
        assert taken((parameter,), {parameter.name: given}, parameter_invalid) == {parameter.name: value}
        return
    with pytest.raises(Refused, match=f"ParameterInvalid: {parameter.name}"):
        parameter.read(given)


def test_logstores_are_listed_by_kind(caller: Caller) -> None:
    for name, more in (
        ("plain", {}),
        ("cheap", {"mode": "query"}),
        ("numbers", {"telemetryType": "Metrics"}),
    ):
        assert make(caller, logstoreName=name, **more) == (200, "")
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["cheap", "numbers", "plain"]),
        ({"mode": "query"}, ["cheap"]),
        ({"mode": "standard"}, ["numbers", "plain"]),
        ({"telemetryType": "Metrics"}, ["numbers"]),
        ({"telemetryType": "None"}, ["cheap", "plain"]),
        ({"telemetryType": "None", "mode": "standard", "logstoreName": "la"}, ["plain"]),
        ({"size": "1", "offset": "1"}, ["numbers"]),
    ]
    for query, names in cases:
        found = got(caller, "/logstores", **query)
        assert found["logstores"] == names and found["count"] == len(names)
    refused: list[dict[str, Any]] = [
        {"mode": "best"}, {"telemetryType": "Traces"}, {"size": "501"}, {"offset": "-1"},
    ]  # fmt: skip
    for wrong in refused:
        assert caller.code(caller.call("GET", "/logstores", **wrong)) == (400, "ParameterInvalid")


def test_a_logstore_keeps_what_it_was_given(caller: Caller) -> None:
    kept: dict[str, Any] = {
        "hot_ttl": 7, "infrequentAccessTTL": 20, "processorId": "p-1", "resourceGroupId": "rg-1",
        "encrypt_conf": ENCRYPTED, "shardingPolicy": {"queryActiveTime": 1}, "mode": "query",
        "telemetryType": "None", "enableModify": True, "autoSplit": True, "maxSplitShard": 256,
        "appendMeta": True, "enable_tracking": True, "productType": "arms",
    }  # fmt: skip
    assert make(caller, **kept) == (200, "")
    assert {name: got(caller, LOGSTORE)[name] for name in kept} == kept
    assert (
        caller.call(
            "PUT", LOGSTORE, b'{"logstoreName": "logs", "ttl": 30, "hot_ttl": 30, "mode": "standard"}'
        )[0]
        == 200
    )
    assert {name: got(caller, LOGSTORE)[name] for name in kept} == {**kept, "hot_ttl": 30, "mode": "standard"}
    for wrong in (b'{"logstoreName": "logs", "ttl": 29}', b'{"logstoreName": "logs"}', b'{"ttl": 30}'):
        assert caller.code(caller.call("PUT", LOGSTORE, wrong)) == (400, "LogStoreInfoInvalid")
    assert got(caller, LOGSTORE)["ttl"] == 30


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "best"}, {"telemetryType": "Traces"}, {"hot_ttl": 6}, {"hot_ttl": 31}, {"ttl": 0},
        {"ttl": 3651}, {"ttl": "x"}, {"shardCount": 0}, {"maxSplitShard": 257}, {"autoSplit": "perhaps"},
        {"encrypt_conf": {}}, {"encrypt_conf": {"enable": True}}, {"processorId": 5},
        {"encrypt_conf": {**ENCRYPTED, "encrypt_type": "rot13"}}, {"encrypt_conf": "default"},
        {"encrypt_conf": {**ENCRYPTED, "user_cmk_info": {"arn": "a"}}}, {"infrequentAccessTTL": -1},
    ],
    ids=str,
)  # fmt: skip
def test_a_logstore_that_cannot_be_is_refused(caller: Caller, wrong: dict[str, Any]) -> None:
    assert make(caller, **wrong) == (400, "LogStoreInfoInvalid")
    assert got(caller, "/logstores")["total"] == 0


@pytest.mark.parametrize("timeout", [0, -1, "soon", 1.5, True, 2**31, None])
def test_a_group_needs_a_timeout_that_can_be(caller: Caller, timeout: object) -> None:
    make(caller)
    body = json.dumps({"consumerGroup": "g", "timeout": timeout, "order": False}).encode()
    refused = caller.call("POST", LOGSTORE + "/consumergroups", body)
    assert caller.code(refused) == (400, "JsonInfoInvalid")


def test_a_project_says_its_region_and_endpoints(caller: Caller, shared: Emulator) -> None:
    found = got(caller, "/")
    assert (found["region"], found["status"], found["description"]) == ("emulator", "Normal", "d")
    assert found["internetEndpoint"] == found["internalEndpoint"] == "sls.emu"
    assert found["quota"]["logstore"] == 200 and found["recycleBinEnabled"] is False
    assert len(found["createTime"]) == len("2021-07-07 14:08:09")
    assert caller.call("PUT", "/", b'{"description": "e", "recycleBinEnabled": true}')[0] == 200
    assert (got(caller, "/")["description"], got(caller, "/")["recycleBinEnabled"]) == ("e", True)
    listed = got(caller, "/", size="10", description="e", fetchQuota="true")
    assert [(p["projectName"], "quota" in p) for p in listed["projects"]] == [("demo", True)]
    assert got(caller, "/", size="10", description="nothing")["projects"] == []
    refused = caller.call("POST", "/", b'{"projectName": "more", "dataRedundancyType": "RAID"}')
    assert caller.code(refused) == (400, "ParameterInvalid")


def test_deleted_logs_are_counted_once_and_kept(caller: Caller) -> None:
    make(caller)
    assert caller.put() == (200, "")
    path, when = LOGSTORE + "/deletelogs", {"from": 1000, "to": 1001}
    for body, code in (
        ({"to": 5, "query": "*"}, "ParameterInvalid"),
        ({"from": 5, "to": 5, "query": "*"}, "ParameterInvalid"),
        (when, "ParameterInvalid"),
        ({**when, "query": "status: 400"}, "NotSupported"),
        ({**when, "query": "*", "rowId": "0|1"}, "NotSupported"),
    ):
        assert caller.code(caller.call("POST", path, json.dumps(body).encode())) == (400, code)
    assert [deleted(caller), deleted(caller)] == [1, 0]
    assert GROUP in caller.pull("")[2]


def deleted(caller: Caller) -> int:
    """The rows that a deletion of everything was about."""
    answer = caller.call("POST", LOGSTORE + "/deletelogs", b'{"from": 0, "to": 4000000000, "query": "*"}')
    return int(json.loads(answer[2])["affectedRows"])


def test_what_is_deleted_disabled_and_kept_is_so_after_a_kill(tmp_path: Path) -> None:
    with start(tmp_path) as emulator:
        caller = Caller(emulator)
        assert caller.call("POST", "/", b'{"projectName": "demo", "resourceGroupId": "rg"}')[0] == 200
        make(caller, encrypt_conf=ENCRYPTED)
        assert caller.put() == (200, "") and deleted(caller) == 1
        emulator.admin.disable("demo")
        caller.connection.close()
        emulator.kill()
    with start(tmp_path) as emulator:
        caller = Caller(emulator)
        assert caller.code(caller.call("GET", LOGSTORE)) == (403, "ProjectForbidden")
        assert (got(caller, "/")["status"], got(caller, "/")["resourceGroupId"]) == ("Disable", "rg")
        emulator.admin.disable("demo", disabled=False)
        assert deleted(caller) == 0 and got(caller, LOGSTORE)["encrypt_conf"] == ENCRYPTED
        caller.connection.close()


@pytest.mark.parametrize("words", ["shard read qps exceed quota limits", "Read QPS Exceed"])
def test_throttling_says_what_is_used_up_and_when(caller: Caller, shared: Emulator, words: str) -> None:
    make(caller)
    name = "shard_read_calls_per_s" if words.startswith("shard") else "project_read_calls_per_min"
    shared.admin.freeze()
    try:
        shared.admin.limits(**{name: 1})
        answers = (caller.pull() for _ in range(20))  # an interval may end between two
        status, headers, body = next(answer for answer in answers if answer[0] != 200)
        assert status == 403 and json.loads(body)["errorMessage"].startswith(words)
        assert headers["x-log-requestid"] and headers["x-log-time"] == str(int(shared.admin.now()))
        assert "retry-after" not in headers
    finally:
        shared.admin.limits(**Limits().model_dump(include={name}))
        shared.admin.freeze(False)
