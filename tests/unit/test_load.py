"""Parsers, generator and packer of `sls-lake load`: values in, values out."""

import gzip
import json
from pathlib import Path

import pytest
from aliyun.log.log_logs_raw_pb2 import LogGroupRaw
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.cli.files.accesslog import KEYS, ODD_EVERY, generated
from pipelines.cli.files.csv_records import parser as csv_parser
from pipelines.cli.files.lines import Log, combined, epoch_s, json_line, local_time_s, text
from pipelines.cli.files.log_files import LINE_BYTES_MAX, LogFile, parse_file, recognise
from pipelines.cli.files.packing import GROUP_BYTES_MAX, LOG_AGE_MAX_S, Counts, Packer, slices
from sls_io.values.errors import ConfigError

NOW_S = 1_763_700_000.0
LINE = (
    b'83.149.9.216 - frank [17/May/2015:10:05:03 +0200] "GET /a.png?x=1 HTTP/1.1" 200 203023 '
    b'"http://example.com/" "Mozilla/5.0 (X11)"'
)


def test_the_keys_of_generated_rows_are_those_that_are_told() -> None:
    assert {key for number in range(50) for key, _ in generated(1, number, NOW_S).contents} == KEYS


def test_a_combined_line_gets_the_keys_nginx_uses() -> None:
    log = combined(LINE)
    assert log.whole
    assert dict(log.contents) == {
        "remote_addr": b"83.149.9.216",
        "remote_user": b"frank",
        "time_local": b"17/May/2015:10:05:03 +0200",
        "request_method": b"GET",
        "request_uri": b"/a.png?x=1",
        "server_protocol": b"HTTP/1.1",
        "status": b"200",
        "body_bytes_sent": b"203023",
        "http_referer": b"http://example.com/",
        "http_user_agent": b"Mozilla/5.0 (X11)",
    }
    assert log.time_s == 1431849903 + 0


def test_a_common_line_has_no_referer_and_a_dash_is_an_absent_field() -> None:
    log = combined(b'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 304 -')
    assert log.whole
    assert {k for k, _ in log.contents} == {
        "remote_addr", "time_local", "request_method", "request_uri", "server_protocol", "status"
    }  # fmt: skip
    assert log.valueless == 3
    named = combined(b'h ann - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 304 -')
    assert dict(named.contents)["remote_ident"] == b"ann"


def test_a_request_that_is_no_request_stays_whole_under_one_key() -> None:
    log = combined(rb'h - - [17/May/2015:10:05:03 +0000] "\x16\x03\"" 400 226 "-" "-"')
    assert log.whole
    assert dict(log.contents)["request"] == rb"\x16\x03\""


@pytest.mark.parametrize("line", [LINE[:-1], b"", b"not a log line", LINE + b" more", b"\xff\xfe"])
def test_a_line_of_another_shape_is_kept_under_the_key_line(line: bytes) -> None:
    assert combined(line) == Log(None, (("line", line),), whole=False)


def test_bytes_that_are_not_utf8_pass_unchanged() -> None:
    log = combined(LINE.replace(b"a.png", b"\xff\xfe"))
    assert dict(log.contents)["request_uri"] == b"/\xff\xfe?x=1"


def test_a_json_line_keeps_text_repeated_keys_and_other_values_as_json_and_leaves_null_out() -> None:
    log = json_line('{"a":"é","n":5,"b":true,"z":null,"o":{"x":[1,"y"]},"a":"2"}'.encode())
    assert log.contents == (
        ("a", "é".encode()), ("n", b"5"), ("b", b"true"), ("o", b'{"x":[1,"y"]}'), ("a", b"2")
    )  # fmt: skip
    assert log.whole and log.valueless == 1


@pytest.mark.parametrize(
    "written",
    [
        *("1.10", "1e400", "-0", "-0.0", "1E+2", "12345678901234567890123", "9" * 5000),
        *("0.1000000000000000055511", "[ ]", "NaN", "-Infinity", '{ "x" : [1.10, 1e400, "\\u00e9\\ud800"] }'),
    ],
)
@pytest.mark.parametrize("line", ['{"a":%s}', ' { "a" : %s , "b" : "x" } \t'])
def test_what_is_no_text_in_a_json_line_is_sent_as_it_is_written(line: str, written: str) -> None:
    log = json_line((line % written).encode())
    assert log.whole
    assert log.contents[0] == ("a", written.encode())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON.map(json.dumps), st.integers(0, 60), st.text(max_size=2))
@example('{"a": 1}', 8, "")
@example('{"a": 1}', 60, " x")
def test_a_line_is_an_object_exactly_where_python_reads_one(text: str, cut: int, more: str) -> None:
    line = (text[:cut] + more).encode("utf-8", "replace")
    try:
        read = json.loads(line)
    except ValueError:
        read = None
    sendable = isinstance(read, dict) and not any(
        0xD800 <= ord(c) < 0xE000 for pair in read.items() for part in pair for c in str(part)
    )
    if sendable or not isinstance(read, dict):
        assert json_line(line).whole is sendable


@pytest.mark.parametrize(
    "line", [b"[1]", b"5", b"{", b"\xff", b'{"\\ud800":1}', b'{"a":"\\ud800"}', b"[" * 9999]
)
def test_json_that_is_no_object_we_can_send_is_kept_under_the_key_line(line: bytes) -> None:
    assert json_line(line) == Log(None, (("line", line),), whole=False)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_every_json_object_of_texts_comes_through_as_it_is(value: dict[str, str]) -> None:
    log = json_line(json.dumps(value).encode())
    assert log.whole
    assert {k: v.decode() for k, v in log.contents} == value


@given(st.binary(max_size=200))
def test_no_line_is_ever_lost_or_an_error(line: bytes) -> None:
    for parser in (combined, json_line, text):
        log = parser(line)
        assert log.whole or log.contents == (("line", line),)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1_763_700_000, 1_763_700_000.0),
        (1_763_700_000_123, 1_763_700_000.123),
        (1_763_700_000_000_000, 1_763_700_000.0),
        (1_763_700_000_000_000_000, 1_763_700_000.0),
        ("2025/11/21 04:40:00", 1_763_700_000.0),
        ("25/11/21 04:40:00", 1_763_700_000.0),
        ("21.11.2025 04:40:00", 1_763_700_000.0),
        ("21.11.2025 04:40", 1_763_700_000.0),
        ("21.11.25 04:40:00", 1_763_700_000.0),
        ("21-Nov-25 04:40:00", 1_763_700_000.0),
        ("21-NOV-2025 04:40", 1_763_700_000.0),
        ("21 Nov 2025 04:40:00", 1_763_700_000.0),
        ("21/Nov/2025:05:40:00 +0100", 1_763_700_000.0),
        ("21-11-25 04:40:00", None),
        ("21/11/2025 04:40:00", None),
        ("2025-11-21T04:40:00Z", 1_763_700_000.0),
        ("2025-11-21T05:40:00+01:00", 1_763_700_000.0),
        ("yesterday", None),
        (True, None),
        (-1, None),
        (10**40, None),
    ],
)
def test_the_time_of_a_json_line_is_a_number_of_1970_or_a_text_that_means_one_moment(
    value: object, seconds: float | None
) -> None:
    assert epoch_s(value) == seconds
    assert json_line(json.dumps({"time": value}).encode()).time_s == seconds


@pytest.mark.parametrize(
    ("day", "clock", "seconds"),
    [
        ("2025-11-21", "04:40:00", 1_763_700_000.0),
        ("2025-11-21", "04:40", 1_763_700_000.0),
        ("2025-11-21", "05:40:00.500+01:00", 1_763_700_000.5),
        ("2025-11-20", "2025-11-21T04:40:00Z", 1_763_700_000.0),
        ("", "04:40:00", None),
        ("yesterday", "04:40:00", None),
    ],
)
def test_a_time_of_day_is_of_the_day_in_the_column_date(day: str, clock: str, seconds: float | None) -> None:
    record = json_line(json.dumps({"date": day, "time": clock}).encode())
    assert record.time_s == seconds
    assert csv_parser(b"date,time", b",")(f"{day},{clock}".encode()).time_s == seconds
    assert record.odd_time == (seconds is None)


def test_a_time_that_does_not_exist_is_no_time() -> None:
    assert local_time_s("31/Feb/2025:10:00:00 +0000") is None
    assert local_time_s("01/Foo/2025:10:00:00 +0000") is None
    assert local_time_s("2025-01-01") is None


def test_a_generated_row_follows_from_seed_and_number_alone() -> None:
    first = [generated(7, n, NOW_S) for n in range(1000)]
    assert first == [generated(7, n, NOW_S) for n in range(1000)]
    assert len({log.contents for log in first}) == 1000
    assert first != [generated(8, n, NOW_S) for n in range(1000)]
    assert [dict(log.contents)["request_id"] for log in first] == [b"7-%d" % n for n in range(1000)]


def test_one_generated_row_in_twenty_thousand_has_a_latency_that_is_no_number() -> None:
    assert dict(generated(1, ODD_EVERY - 1, NOW_S).contents)["latency_ms"] == b"-"
    for number in range(2000):
        float(dict(generated(1, number, NOW_S).contents)["latency_ms"])


def _read(bodies: list[bytes]) -> list[LogGroupRaw]:
    return [LogGroupRaw.FromString(body) for body in bodies]


def test_packing_keeps_every_row_in_order_and_the_groups_in_size() -> None:
    packer = Packer("host", (("k", "v"),), group_rows=300)
    packed = list(packer.pack((generated(1, n, NOW_S) for n in range(1000)), NOW_S))
    assert [p.rows for p in packed] == [300, 300, 300, 100]
    assert (packer.counts.rows, packer.counts.groups) == (1000, 4)
    assert packer.counts.bytes == sum(len(p.body) for p in packed)
    groups = _read([p.body for p in packed])
    assert {(g.Source, g.LogTags[0].Key) for g in groups} == {("host", "k")}
    ids = [log.Contents[0].Value.decode() for g in groups for log in g.Logs]
    assert ids == [f"1-{n}" for n in range(1000)]


def test_a_group_is_closed_before_the_service_would_refuse_its_size() -> None:
    logs = [Log(None, (("line", b"x" * 900_000),)) for _ in range(5)]
    packed = list(Packer("host").pack(logs, NOW_S))
    assert [p.rows for p in packed] == [2, 2, 1]
    assert all(len(p.body) <= GROUP_BYTES_MAX for p in packed)


def test_a_time_the_service_would_refuse_becomes_its_own_time_and_is_counted() -> None:
    packer = Packer("host")
    times = [NOW_S - LOG_AGE_MAX_S - 1, NOW_S - LOG_AGE_MAX_S, NOW_S + 60, NOW_S + 3600, None]
    (packed,) = packer.pack([Log(t, (("a", b"1"),)) for t in times], NOW_S)
    (group,) = _read([packed.body])
    assert [log.Time for log in group.Logs] == [NOW_S, NOW_S - LOG_AGE_MAX_S, NOW_S + 60, NOW_S, NOW_S]
    assert (packer.counts.late_rows, packer.counts.future_rows) == (1, 1)


def test_plain_and_gzip_files_give_the_same_rows(tmp_path: Path) -> None:
    body = b"\n".join([LINE, b"", LINE[:-1], b"\xff\xfe"]) + b"\r\n"
    plain, zipped = tmp_path / "a.log", tmp_path / "a.log.gz"
    plain.write_bytes(body)
    zipped.write_bytes(gzip.compress(body))
    counts = Counts()
    logs = list(parse_file(recognise(plain, "combined"), counts))
    assert logs == list(parse_file(recognise(zipped, "combined"), Counts()))
    assert [log.whole for log in logs] == [True, False, False]
    assert counts.blank_lines == 1


def test_a_file_we_cannot_load_is_said_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="no lines"):
        list(parse_file(recognise(path), Counts()))
    path.write_bytes(LINE + b"\n\n")
    with pytest.raises(ConfigError, match="no lines from line 2 on"):
        list(parse_file(recognise(path), Counts(), first_line=2))
    path.write_bytes(b"x" * (LINE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="line 1"):
        list(LogFile(path, "text").lines())
    path.write_bytes(gzip.compress(LINE * 1000)[:-20])
    with pytest.raises(ConfigError, match="gzip"):
        list(LogFile(path, "text").lines())
    with pytest.raises(ConfigError, match="cannot read"):
        list(LogFile(tmp_path / "none", "text").lines())


@given(st.integers(0, 10_000), st.integers(1, 200))
def test_slices_cover_all_rows_once(total: int, pieces: int) -> None:
    assert [n for piece in slices(total, pieces) for n in piece] == list(range(total))
