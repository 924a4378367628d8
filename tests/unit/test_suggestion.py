"""Types for the keys of some logs, and the file that `new` writes of them."""

import json
from pathlib import Path

import pytest
import yaml

from pipelines.cli.demo.own_project import name_of
from pipelines.cli.main import EXIT_USAGE, run
from pipelines.landing.logstore import load_logstore
from pipelines.landing.suggestion import Suggested, lines, suggested
from sls_io.emulator import Emulator
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient
from tests.worlds.pages import group
from tests.worlds.projects import make_project


def of(*values: str, key: str = "k") -> Suggested:
    """What is suggested for a key with these values, one a log."""
    (found,) = suggested([[(key, value.encode())] for value in values])
    return found


@pytest.mark.parametrize(
    ("values", "type_name"),
    [
        (["7", "-12", "0"], "int"),
        (["7", str(2**31)], "long"),
        (["7", str(2**63)], "string"),
        (["1", "0", "1"], "int"),
        (["true", "FALSE"], "boolean"),
        (["true", "1", "maybe"], "string"),
        (["0.5", "12"], "double"),
        (["007", "12"], "string"),
        (["-01"], "string"),
        (["+4917612345678", "1"], "string"),
        (["0.123456789012345678"], "string"),
        (["12345678901234567890"], "string"),
        (["2026-11-20"], "date"),
        (["2026-11-20T10:00:00Z", "2026-11-20T10:00:00+08:00"], "timestamp(iso)"),
        (["2026-11-20 10:00:00", "2026-11-20 10:00:01"], "timestamp(iso, UTC)"),
        (["2026/11/20 10:00:00"], "timestamp(%Y/%m/%d %T, UTC)"),
        (["26/11/20 10:00:00"], "timestamp(%y/%m/%d %T, UTC)"),
        (["20.11.2026 10:00:00"], "timestamp(%d.%m.%Y %T, UTC)"),
        (["20.11.2026"], "timestamp(%d.%m.%Y, UTC)"),
        (["20.11.2026 10:00"], "timestamp(%d.%m.%Y %H:%M, UTC)"),
        (["26.11.26 09:30:15"], "timestamp(%d.%m.%y %T, UTC)"),
        (["26.11.26 09:30"], "timestamp(%d.%m.%y %H:%M, UTC)"),
        (["26-Nov-26 09:30:15"], "timestamp(%d-%b-%y %T, UTC)"),
        (["26-NOV-2026 09:30:15"], "timestamp(%d-%b-%Y %T, UTC)"),
        (["26-Nov-2026 09:30", "27-Nov-2026 00:00"], "timestamp(%d-%b-%Y %H:%M, UTC)"),
        (["26-Nov-26"], "timestamp(%d-%b-%y, UTC)"),
        (["26 Nov 2026 09:30:15"], "timestamp(%d %b %Y %T, UTC)"),
        (["26.11.26"], "string"),
        (["1.2.3", "10.11.12"], "string"),
        (["26/11/2026"], "string"),
        (["26-11-26 09:30:15"], "string"),
        (["11/26/26 09:30:15"], "string"),
        (["20/11/2026 10:00:00"], "string"),
        (["17/May/2015:10:05:03 +0000"], "timestamp(%d/%b/%Y:%H:%M:%S %z)"),
        (["", "7"], "string"),
        ([""], "string"),
        ([" 7"], "string"),
        (["7", "-"], "string"),
        (["0.123456789012345", "123456.789012345"], "double"),
        (["0.30000000000000004"], "double"),
        (["0.1234567890123456789"], "string"),
        (["12345678901234567891"], "string"),
        (["1e400"], "string"),
        (["١٢"], "string"),
    ],
)
def test_a_type_is_the_narrowest_that_loses_nothing(values: list[str], type_name: str) -> None:
    assert of(*values).type == type_name
    assert of(*values).misfits == 0


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            ["03/04/2026 10:00:00"],
            "in which order: declare it timestamp(%d/%m/%Y %T, UTC) or timestamp(%m/%d/",
        ),
        (
            ["03/04/2026", "13/04/2026"],
            "looks like a time: declare it timestamp(%d/%m/%Y, UTC), with the zone",
        ),
        (["03/04/2026 10:00", "04/13/2026 10:00"], "looks like a time: declare it timestamp(%m/%d/%Y %H:%M,"),
        (["11/26/26"], "looks like a time: declare it timestamp(%m/%d/%y, UTC), with the zone"),
        (["26-11-26"], "declare it timestamp(%d-%m-%y, UTC) or timestamp(%y-%m-%d, UTC)"),
        (
            ["26-11-32", ""],
            "declare it timestamp(%d-%m-%y, UTC), with the zone that it was written in; 1 are em",
        ),
        (["11.26.2026 10:00:00"], "declare it timestamp(%m.%d.%Y %T, UTC), with"),
        (["26.11.26 09:30:15"], "years of two digits are 2000 to 2068, or 1969 to 1999"),
        (["26/11/20 10:00:00"], "year first, else declare it timestamp(%d/%m/%y %T, UTC); years of two"),
        (["26/11/20 10:00:00", "32/11/20 10:00:00"], "years of two digits"),
    ],
)
def test_a_time_that_may_be_read_in_two_ways_says_so_and_how_it_is_declared(
    values: list[str], why: str
) -> None:
    assert why in of(*values).why


@pytest.mark.parametrize("value", ["13/13/2026", "192.168.10.12", "26/11/2026x", "2026-11-26", "26.11.2026"])
def test_what_is_no_such_time_is_not_called_one(value: str) -> None:
    assert of(value).why == ""


def test_a_number_of_microseconds_stays_one_and_is_told() -> None:
    found = of("1763700000000000", "1763700000000001", key="ts")
    assert found.type == "long"
    assert found.why.startswith("micro- or nanoseconds since 1970")
    assert not of("1763700000000000", key="serial").why


def test_one_slip_in_a_hundred_is_counted_and_two_make_another_kind_of_value() -> None:
    hundred = [str(n) for n in range(99)]
    assert of(*hundred, "-") == Suggested("k", "int", 100, misfits=1)
    assert of(*hundred, "-", "-").type == "string"


@pytest.mark.parametrize(
    ("key", "value", "type_name"),
    [
        ("ts", "1790000000", "timestamp(epoch_s)"),
        ("event_time", "1790000000123", "timestamp(epoch_ms)"),
        ("created_at", "1790000000", "timestamp(epoch_s)"),
        ("amount", "1790000000", "int"),
        ("latency_time", "12", "int"),
    ],
)
def test_a_number_is_a_time_where_its_key_and_its_size_say_so(key: str, value: str, type_name: str) -> None:
    assert of(value, key=key).type == type_name


def test_keys_that_can_be_no_column_or_are_rare_are_left_out_with_the_reason() -> None:
    logs = [[("a", b"1"), ("A", b"2"), ("b c", b"3"), ("_file", b"4"), ("raw", b"\xff")]] * 200
    found = suggested([*logs, [("rare", b"x")]])
    assert {one.key: one.type for one in found} == {
        "a": "int", "A": "", "b c": "", "_file": "", "raw": "string", "rare": ""
    }  # fmt: skip
    assert next(one for one in found if one.key == "raw").misfits == 200
    assert "1 of 100" in next(one for one in found if one.key == "rare").why
    assert yaml.safe_load("\n".join(lines(found, 201))) == {"columns": {"a": "int", "raw": "string"}}


def test_what_a_person_may_want_to_know_of_values_stands_beside_them() -> None:
    twice = suggested([[("id", b"1"), ("id", b"2")], [("id", b"3")], [("id", b"x")]])[0]
    assert (twice.type, twice.misfits) == ("string", 1) and "1 logs have it twice" in twice.why
    assert of("1", "", "").why == "2 are empty"
    assert "string(ENCODING)" in suggested([[("name", b"caf\xe9")]])[0].why
    assert "differ only in case" in suggested([[("a", b""), ("A", b"")]])[1].why
    assert "not beginning with a digit" in suggested([[("1x", b"")]])[0].why


def test_what_yaml_reads_as_something_else_is_quoted() -> None:
    long = ["k" * 122, "m" * 123, "n" * 255]
    found = suggested([[(key, b"1") for key in ("on", "null", "y", "1e3", "a.b", *long)]])
    declared = yaml.safe_load("\n".join(lines(found, 1)))["columns"]
    assert declared == dict.fromkeys(["on", "null", "y", "a.b", *long], "int")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("Orders-2026.csv", "orders_2026"),
        ("a.log", "logs_a"),
        ("2026-11-25.log", "logs_2026_11_25"),
        ("日志.txt", "logs"),
        ("access.log.gz", "access"),
    ],
)
def test_a_logstore_is_called_like_its_file(file: str, name: str) -> None:
    assert name_of(Path(file)) == name


def test_new_writes_a_file_that_loads_and_later_shows_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(make_project(tmp_path))
    monkeypatch.delenv("SLS_ENDPOINT", raising=False)
    (tmp_path / "orders.csv").write_text("order_no,amount,when\nA-1,1.5,2026-11-20\nA-2,2,2026-11-21\n")
    chosen = ["--start", "2026-11-20-00:00", "--provider", "profile:lake", "--in", "shop/sold"]
    assert run(["new", "orders", "--from", "orders.csv", *chosen]) == 0
    assert "SLS_ENDPOINT" not in capsys.readouterr().err
    monkeypatch.setenv("SLS_ENDPOINT", "http://127.0.0.1:9")
    path = tmp_path / "pipelines" / "defs" / "orders" / "defs.yaml"
    logstore = load_logstore(path)
    assert dict(logstore.columns) == {"order_no": "string", "amount": "double", "when": "date"}
    service = logstore.service
    assert (service.project, service.logstore) == ("shop", "sold")
    assert (service.credentials.provider, service.credentials.name) == ("profile", "lake")
    assert (logstore.table, logstore.start) == ("bronze.orders", "2026-11-20-00:00")
    before = path.read_text()
    (tmp_path / "sales.csv").write_text("sku,sold_at\nA,26-Nov-26 09:30:15\nB,26-Nov-26 09:31:00\n")
    assert run(["new", "sales", "--from", "sales.csv", *chosen[:4]]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 of 2 logs have no time under `__time__`, `time`" in said
    assert "sls-lake load -l sales --file sales.csv --time-key sold_at --create" in said
    (tmp_path / "later.csv").write_text("order_no,qty\nA-1,7\n")
    capsys.readouterr()
    assert run(["new", "orders", "--from", "later.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert run(["new", "other", "--from", "later.csv", "--table", "silver.orders"]) == EXIT_USAGE
    assert "give one of them another" in capsys.readouterr().err
    assert run(["new", "lines", "--from", "orders.csv", "--format", "json"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "3 of them are no json" in said
    assert "sls-lake load -l lines --file orders.csv --format json --create" in said
    assert told["path"] is None and told["unseen"] == ["amount", "when"]
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["orders"], EXIT_USAGE, "SLS_ENDPOINT is not set"),
        (["orders", "--from", "none.csv"], EXIT_USAGE, "none.csv is not there"),
        (["orders", "--from", "pipelines"], EXIT_USAGE, "pipelines is a folder or a pipe"),
        (["or/ders", "--from", "orders.csv"], EXIT_USAGE, "no name of a folder"),
        (["orders", "--in", "demo/or/ders", "--from", "orders.csv"], EXIT_USAGE, "logstore: 3 to 63"),
        (
            ["orders", "--provider", "nobody", "--from", "orders.csv"],
            EXIT_USAGE,
            "service.credentials.provider",
        ),
        (["orders", "--in", "demo", "--from", "orders.csv"], EXIT_USAGE, "write PROJECT/LOGSTORE"),
        (["orders", "--from", "empty.csv"], EXIT_USAGE, "no lines"),
        (["orders", "--from", "orders.csv", "--start", "yesterday"], EXIT_USAGE, "start"),
    ],
)
def test_what_cannot_be_written_is_said_and_nothing_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(make_project(tmp_path))
    monkeypatch.delenv("SLS_ENDPOINT", raising=False)
    (tmp_path / "orders.csv").write_text("order_no,amount\nA-1,1.5\n")
    (tmp_path / "empty.csv").write_text("")
    assert run(["new", *words]) == code
    assert says in capsys.readouterr().err
    assert not [*(tmp_path / "pipelines" / "defs").rglob("defs.yaml")]


def test_the_newest_logs_of_a_logstore_say_what_its_columns_are(
    tmp_path: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(make_project(tmp_path))
    monkeypatch.setenv("SLS_ENDPOINT", emulator.endpoint)
    emulator.admin.set_clock(1_790_000_000 // 3600 * 3600 + 60.0)
    with SlsClient(Service(endpoint=emulator.endpoint, project="demo", logstore="orders")) as client:
        client.transport.create_project("demo", "")
        client.transport.create_logstore("demo", "orders", ttl=30, shard_count=2)
        for n in range(40):
            old = [("old", b"1")] if n < 3 else []
            logs = [("order_no", b"A-%d" % n), ("qty", b"%d" % n), *old]
            client.put_raw(group(logs).SerializeToString())
    emulator.admin.advance(7200)
    # Another reader has used up the shards' quota for a moment.
    refused = {"times": 2, "status": 403, "code": "ShardReadQuotaExceed"}
    emulator.admin.fault("error", call="pull_logs", **refused)
    assert run(["new", "orders", "--json"]) == 0
    assert [fault["hits"] for fault in emulator.admin.faults()] == [2]
    told = json.loads(capsys.readouterr().out)
    assert told["logs"] == 40 and told["shards"] == 2 and told["retention_s"] == 30 * 86_400
    assert {one["key"]: one["type"] for one in told["columns"]} == {
        "order_no": "string", "qty": "int", "old": "int"
    }  # fmt: skip
    assert told["start"] == load_logstore(Path(told["path"])).start
    assert run(["new", "nothing"]) == EXIT_USAGE
