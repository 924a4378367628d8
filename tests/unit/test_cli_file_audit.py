"""The file against what the service has of it: two readers that share no code, and any bytes as a file."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.cli.demo.audit import Audit
from pipelines.cli.demo.file_audit import FileAudit, compare_file
from pipelines.cli.emulator_admin import Stored
from pipelines.cli.files.lines import Log
from pipelines.cli.files.log_files import FORMATS, LogFile, parse_file
from pipelines.cli.files.packing import Counts, Packer
from sls_io.values.errors import ConfigError

NOW_S = 1_763_700_000.0
TABLE = b'n,note\r\n1,"two\r\nlines"\r\n2,\r\n3,""\r\n3,""\r\n4,too,many\r\n'
BITS = {
    "csv": [b'"', b'""', b",", b"\r", b"a", b"\xff", b"\x00", b" ", b'"x"', b"a,b"],
    "json": [
        b'{"a":', b'"x"', b"null", b"}", b",", b'"a":1.0', b"[1e400]", b'"\\ud800"', b" ", b'{"z":{}}', b"\r",
        b'{"a":null}',
    ],
    "combined": [
        b'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 -', b' "-" "-"', b' "r" "-"', b"- ",
        b'h i u [x] "-" 404 7', b' "" ""', b"\xff", b"\r",
    ],
    "syslog": [
        b"Nov 22 10:59:01 web1 ", b"su[-]: ", b"sshd[8]:", b" text", b"-", b"<34>", b"<034>", b"-: x",
        b"1 2026-11-22T10:59:01Z web1 su - - -", b"2026-11-22T10:59:01Z web1 su: ",
        b'<9>1 - - - - - [a b="c"] m',
    ],
    "text": [b"a", b" ", b"\r", b"\xfe", b"\x00", b"\x85", b"\x0b"],
}  # fmt: skip


def sent(path: Path, format_name: str) -> tuple[LogFile, list[Stored], Counts]:
    """The file as the service has it after a load."""
    file, packer = LogFile(path, format_name), Packer("host", group_rows=3)
    packed = packer.pack(parse_file(file, packer.counts), NOW_S)
    return file, [Stored(0, n, int(NOW_S), each.body) for n, each in enumerate(packed)], packer.counts


def audited(path: Path, format_name: str) -> FileAudit:
    file, stored, _ = sent(path, format_name)
    return compare_file(path, format_name, file.delimiter, stored)


def lines(bits: list[bytes]) -> st.SearchStrategy[bytes]:
    line = st.lists(st.sampled_from(bits), max_size=7).map(b"".join)
    return st.lists(line, max_size=9).map(b"\n".join)


@pytest.mark.parametrize("format_name", FORMATS)
@given(data=st.data(), end=st.sampled_from([b"", b"\n", b"\r\n", b"\r"]))
def test_whatever_a_file_holds_the_service_has_all_of_it_once(
    format_name: str, data: st.DataObject, end: bytes
) -> None:
    head = b"n,note\n" if format_name == "csv" else b""
    body = data.draw(lines(BITS[format_name]))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(head + body + end)
        try:
            found = audited(path, format_name)
        except ConfigError as error:
            assert "no lines" in str(error)
        else:
            assert found.ok and found.records > 0, found


VALUE = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('",\r\n; \t'), max_size=12)
TABLES = st.lists(st.tuples(VALUE, VALUE, VALUE), min_size=1, max_size=8)


@given(TABLES, st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n"]), st.booleans())
@example([("", "", "")], ",", "\r\n", False)
@example([("a\r\nb", "\r", "\n")], ",", "\r\n", True)
@example([("x" * 200_000, "\n" * 300, '"' * 9)], ";", "\n", False)
def test_a_table_that_pythons_csv_writes_is_sent_cell_by_cell(
    table: list[tuple[str, ...]], delimiter: str, end: str, marked: bool
) -> None:
    written = io.StringIO(newline="")
    # Where its lines end with LF, Python's csv leaves a CR without quotes: nobody could read that back.
    kind: Literal[0, 1] = csv.QUOTE_ALL if end == "\n" else csv.QUOTE_MINIMAL
    writer = csv.writer(written, delimiter=delimiter, lineterminator=end, quoting=kind)
    writer.writerows([("a", "b c", "d"), *table])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(b"\xef\xbb\xbf" * marked + written.getvalue().encode())
        logs = list(parse_file(LogFile(path, "csv"), Counts()))
        assert [tuple(value.decode() for _, value in log.contents) for log in logs] == table
        assert all(log.whole and [key for key, _ in log.contents] == ["a", "b c", "d"] for log in logs)
        assert audited(path, "csv").ok


SCALAR = VALUE | st.none() | st.booleans() | st.integers() | st.floats()
NESTED = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(VALUE, inner, max_size=2)
)


@given(st.lists(st.dictionaries(VALUE, NESTED, max_size=4), min_size=1, max_size=5), st.booleans())
@example([{"a": None, "b": "", "c": "null"}], True)
@example([{"a": 1.0, "b": 10**30, "c": '{"x" : 1}'}], True)
def test_objects_that_pythons_json_writes_are_sent_value_by_value(
    objects: list[dict[str, object]], plain: bool
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "objects.json"
        path.write_text("".join(json.dumps(each, ensure_ascii=plain) + "\n" for each in objects))
        file, stored, counts = sent(path, "json")
        logs = list(parse_file(file, Counts()))
        for log, each in zip(logs, objects, strict=True):
            there = {key: value for key, value in each.items() if value is not None}
            texts = {key: value.decode() for key, value in log.contents}
            written = {
                k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=plain) for k, v in there.items()
            }
            assert texts == written
        assert counts.valueless == sum(value is None for each in objects for value in each.values())
        assert compare_file(path, "json", b"", stored).ok


def change(stored: list[Stored], how: Callable[[list[Log]], Iterable[Log]], path: Path) -> list[Stored]:
    """The logs of the file at `path` with a fault of the loader in them."""
    logs = list(how(list(parse_file(LogFile(path, "csv"), Counts()))))
    return [Stored(0, 0, int(NOW_S), each.body) for each in Packer("host").pack(logs, NOW_S)]


@pytest.mark.parametrize(
    ("fault", "missing", "extra"),
    [
        (lambda logs: logs[1:], 1, 0),
        (lambda logs: [*logs, logs[0]], 0, 1),
        (lambda logs: [*logs[:2], logs[0], *logs[3:]], 1, 1),
        # Empty cells dropped; the end of a line inside a value another one; a value of another key.
        (lambda logs: [g._replace(contents=tuple(c for c in g.contents if c[1])) for g in logs], 3, 3),
        (lambda logs: [logs[0]._replace(contents=(("n", b"1"), ("note", b"two\nlines"))), *logs[1:]], 1, 1),
        (lambda logs: [*logs[:1], logs[1]._replace(contents=(("note", b"2"), ("n", b""))), *logs[2:]], 1, 1),
        (lambda logs: [*logs[:4], Log(None, (("line", b"4,too"),))], 1, 1),
    ],
)
def test_a_fault_of_the_loader_is_seen(
    fault: Callable[[list[Log]], Iterable[Log]], missing: int, extra: int, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(TABLE)
    _, stored, _ = sent(path, "csv")
    assert compare_file(path, "csv", b",", stored).ok
    found = compare_file(path, "csv", b",", change(stored, fault, path))
    assert (found.records, found.missing, found.extra) == (5, missing, extra)
    assert not found.ok and not Audit(file=found).ok
    assert all("two" not in said and "line " in said for said in found.examples)
    assert bool(found.examples) == bool(missing)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, bytes])
def test_a_packed_file_is_compared_unpacked(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(pack(TABLE))
    assert audited(path, "csv") == FileAudit(5, 5)
