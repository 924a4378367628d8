"""What a file of log lines is: recognised or named, packed or plain, and what each format's lines become."""

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from pipelines.cli.demo.program import file_rows
from pipelines.cli.files.lines import Log, month_time_s, syslog
from pipelines.cli.files.log_files import LogFile, count_records, detect, parse_file, recognise
from pipelines.cli.files.packing import Counts
from sls_io.values.errors import ConfigError
from tests.worlds.projects import LINE

REAL = Path("/work", "shared", "data") / "apache_access.log.gz"
NOW_S = 1_795_345_141.0
"""2026-11-22 10:59:01 UTC."""
AUTH = (
    b"Nov 22 10:59:01 web1 sshd[812]: Accepted publickey for ann from 10.0.0.1 port 4022 ssh2",
    b"Nov  2 00:00:09 web1 CRON[9]: pam_unix(cron:session): session opened for user root(uid=0)",
    b"Nov 22 10:59:02 web1 last message repeated 2 times",
)
NEW_AUTH = b"2026-11-22T10:59:01.250000+01:00 web1 sudo: ann : TTY=pts/0 ; COMMAND=/bin/ls"
RFC5424 = b'<34>1 2026-11-22T10:59:01Z web1 su - ID47 [ex@1 a="b]"][x y="z"] failed for ann'


def said(log: Log) -> dict[str, str]:
    return {key: value.decode() for key, value in log.contents}


def logs_of(path: Path, body: bytes, format_name: str = "auto") -> tuple[LogFile, list[Log]]:
    path.write_bytes(body)
    file = recognise(path, format_name)
    return file, list(parse_file(file, Counts()))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b"# header", LINE.strip().encode()], "combined"),
        ([b'{"a":1}', b"{"], "json"),
        (list(AUTH), "syslog"),
        ([NEW_AUTH, RFC5424], "syslog"),
        ([b"time,user,rows", b"1,ann,2", b'3,"b, c",4'], "csv"),
        ([b"time;user", b"1;ann"], "csv"),
        ([b"time\tuser name", b"1\tann"], "csv"),
        ([b"plain words"], None),
        ([b"plain words, and more", b"others, too, and more"], None),
        ([b"2026-11-22T10:59:01Z INFO main: began", b"2026-11-22T10:59:02Z WARN main: slow"], None),
        ([b'{"a":1}', b"one", b"two"], None),
    ],
)
def test_the_format_is_told_from_the_first_lines(lines: list[bytes], expected: str | None) -> None:
    assert detect(lines) == expected


def test_a_file_of_no_known_format_is_text_and_says_so(tmp_path: Path) -> None:
    file, logs = logs_of(tmp_path / "app.log", b"something happened\nand again\n")
    assert (file.format_name, [said(log) for log in logs]) == (
        "text",
        [{"line": "something happened"}, {"line": "and again"}],
    )
    assert all(log.whole for log in logs)
    assert "app.log" in file.doubt and "--format" in file.doubt
    assert recognise(tmp_path / "app.log", "text").doubt == ""


def test_a_syslog_line_has_its_parts_and_its_time() -> None:
    parse = syslog(NOW_S)
    assert said(parse(AUTH[0])) == {
        "time": "Nov 22 10:59:01",
        "hostname": "web1",
        "program": "sshd",
        "pid": "812",
        "message": "Accepted publickey for ann from 10.0.0.1 port 4022 ssh2",
    }
    assert parse(AUTH[0]).time_s == NOW_S
    assert said(parse(AUTH[2]))["message"] == "last message repeated 2 times"
    assert parse(NEW_AUTH).time_s == NOW_S - 3600 + 0.25
    assert said(parse(RFC5424)) == {
        "facility": "4",
        "severity": "2",
        "time": "2026-11-22T10:59:01Z",
        "hostname": "web1",
        "program": "su",
        "msgid": "ID47",
        "structured_data": '[ex@1 a="b]"][x y="z"]',
        "message": "failed for ann",
    }
    assert not parse(b"no syslog").whole


def test_a_time_without_a_year_is_the_last_one_before_now() -> None:
    assert month_time_s("Nov 22 10:59:01", NOW_S) == NOW_S
    assert month_time_s("Nov 23 10:00:00", NOW_S) == NOW_S + 86_400 - 3541, "of a zone ahead of UTC"
    assert month_time_s("Nov 24 10:59:01", NOW_S) == NOW_S - 363 * 86_400
    assert month_time_s("Feb 29 00:00:00", NOW_S) == 1_709_164_800.0
    assert month_time_s("Feb 30 00:00:00", NOW_S) is None


def test_a_csv_record_has_the_names_of_the_header_and_may_go_over_lines(tmp_path: Path) -> None:
    body = (
        b"\xef\xbb\xbftime,user name,note\r\n"
        b'1795345141,ann,"said ""no"",\r\n\r\nthen yes"\r\n'
        b"\r\n"
        b"2026-11-22T10:59:01Z,,\xff\r\n"
        b"too,many,fields,here\r\n"
        b'4,"never closed,x\r\n'
        b"5,bob,last"
    )
    file, logs = logs_of(tmp_path / "a.csv", body, "csv")
    assert [dict(log.contents) for log in logs] == [
        {"time": b"1795345141", "user name": b"ann", "note": b'said "no",\r\n\r\nthen yes'},
        {"time": b"2026-11-22T10:59:01Z", "user name": b"", "note": b"\xff"},
        {"line": b"too,many,fields,here"},
        {"line": b'4,"never closed,x'},
        {"time": b"5", "user name": b"bob", "note": b"last"},
    ]
    assert [log.time_s for log in logs[:2]] == [NOW_S, NOW_S]
    assert [log.line for log in logs] == [4, 6, 7, 8, 9]
    assert count_records(file) == 5
    again = list(parse_file(file, Counts(), first_line=7))
    assert again == logs[2:], "going on needs the header, which stands before"


def test_a_quote_that_closes_in_the_middle_of_a_field_costs_its_own_line_alone(tmp_path: Path) -> None:
    stray = b'2,"never meant'
    body = b"n,note\n" + stray + b"\n3,plain\n" + b'4,"a\nb"\n' + b"5,last\n"
    _, logs = logs_of(tmp_path / "a.csv", body, "csv")
    assert [dict(log.contents) for log in logs] == [
        {"line": stray},
        {"n": b"3", "note": b"plain"},
        {"n": b"4", "note": b"a\nb"},
        {"n": b"5", "note": b"last"},
    ]
    assert [log.whole for log in logs] == [False, True, True, True]


def test_a_header_may_go_over_lines_and_names_may_stand_twice(tmp_path: Path) -> None:
    _, logs = logs_of(tmp_path / "a.csv", b'n,"first\r\nname",n,\r\n1,ann,2,3\r\n', "csv")
    assert [log.contents for log in logs] == [
        (("n", b"1"), ("first\r\nname", b"ann"), ("n", b"2"), ("column_4", b"3"))
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"n,\xff\n1,2\n", "a name in its header is not UTF-8"),
        (b"n,note\r\n", "no lines behind its header"),
        ("n,note\n1,2\n".encode("utf-16"), "text in UTF-16"),
    ],
)
def test_a_csv_file_that_no_log_can_carry_is_refused(body: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        logs_of(tmp_path / "a.csv", body, "csv")


def test_only_one_end_is_taken_from_a_line(tmp_path: Path) -> None:
    _, logs = logs_of(tmp_path / "a.log", b"one \r\r\n\rtwo\nthree\rfour\r\n five\t", "text")
    lines = [b"one \r", b"\rtwo", b"three\rfour", b" five\t"]
    assert [log.contents for log in logs] == [(("line", line),) for line in lines]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, bytes])
def test_a_packed_file_is_unpacked(pack: object, tmp_path: Path) -> None:
    packed = pack(b"\n".join(AUTH))  # type: ignore[operator]
    file, logs = logs_of(tmp_path / "auth.log.packed", packed)
    assert file.format_name == "syslog"
    assert [log.line for log in logs] == [1, 2, 3]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (zstandard.compress(b"\n".join(AUTH) * 1000)[:-9], "the zstd stream is broken"),
        (b"PK\x03\x04 and so on", "zip file"),
        (b"\xfd7zXZ\0", "xz file"),
    ],
)
def test_a_file_that_cannot_be_unpacked_says_why(body: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        logs_of(tmp_path / "a.log", body)


def test_the_demo_takes_every_record_of_a_file_once(tmp_path: Path) -> None:
    path = tmp_path / "auth.log"
    path.write_bytes(b"\n".join(AUTH * 4))
    rows = file_rows(path)
    assert (rows.first, rows.second) == (10, 2)
    taken = [*rows.logs(range(10), NOW_S), *rows.logs(range(10, 12), NOW_S)]
    assert [log.line for log in taken] == list(range(1, 13))
    assert all("hostname" in said(log) for log in taken)
    assert {tuple(said(log)) for log in file_rows(path, "text").logs(range(10), NOW_S)} == {("line",)}


@pytest.mark.skipif(not REAL.exists(), reason="needs real log lines: no access log on this machine")
def test_real_lines_keep_what_they_say_in_each_format(tmp_path: Path) -> None:
    file = recognise(REAL)
    logs = list(parse_file(file, Counts()))
    assert file.format_name == "combined" and count_records(file) == len(logs) > 1000
    assert sum(log.whole for log in logs) > 0.99 * len(logs)
    whole = [said(log) for log in logs if log.whole and len(log.contents) == 9]
    keys = list(whole[0])
    rows = [",".join(keys)]
    rows += [",".join('"' + row[key].replace('"', '""') + '"' for key in keys) for row in whole]
    _, by_csv = logs_of(tmp_path / "a.csv.zst", zstandard.compress("\n".join(rows).encode()))
    _, by_json = logs_of(tmp_path / "a.json", "\n".join(map(json.dumps, whole)).encode())
    assert [said(log) for log in by_csv] == [said(log) for log in by_json] == whole
