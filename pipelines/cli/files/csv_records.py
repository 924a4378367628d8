"""Records of a CSV file -> logs: one key for each column of the header. Pure.

A record may go over lines inside quotes. Values stay bytes: the text is read as Latin-1, which has a
character for each byte, and written back the same way. An empty field is absent, because CSV has no
other way to say so. A record that does not have the header's number of fields is kept whole.
"""

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator

from pipelines.cli.files.lines import Log, Parser, kept, written_time_s

DELIMITERS = b",\t;|"
RECORD_LINES_MAX = 200
RECORD_BYTES_MAX = 1_000_000
"""A quote that is still open after so much was never meant as one."""
_BOM = b"\xef\xbb\xbf"
_NAME = re.compile(r"[^\W\d][^\"<>{}=,;|\t]{0,63}|[@][\w.]{1,63}")

Numbered = tuple[int, bytes]


def fields(record: bytes, delimiter: bytes) -> list[bytes] | None:
    """The fields of one record; None when its quotes are not those of CSV."""
    text = record.decode("latin-1")
    try:
        rows = list(csv.reader([text], delimiter=delimiter.decode(), strict=True))
    except csv.Error:
        return None
    return [value.encode("latin-1") for value in rows[0]] if len(rows) == 1 else None


def header_of(line: bytes) -> tuple[bytes, list[bytes]] | None:
    """(delimiter, names) of a line that can be the header of a CSV file: at least two names, none twice."""
    line = line.removeprefix(_BOM)
    for code in DELIMITERS:
        delimiter = bytes([code])
        names = [name.strip() for name in fields(line, delimiter) or ()]
        if len(names) > 1 and len(set(names)) == len(names) and all(map(_is_name, names)):
            return delimiter, names
    return None


def fits(sample: list[bytes]) -> bool:
    """Whether the first line names columns and each record after it has so many.

    The last record may be cut off.
    """
    header = header_of(sample[0]) if sample else None
    if header is None:
        return False
    delimiter, names = header
    after = list(joined(enumerate(sample[1:]), delimiter))
    if after and is_open(after[-1][1], delimiter):
        after.pop()
    return bool(after) and all(len(fields(body, delimiter) or ()) == len(names) for _, body in after)


def parser(header: bytes) -> tuple[bytes, Parser]:
    """(delimiter, parser) of the records after this header, whatever its names are.

    A column without a name gets the key `column_N`, counted from 1.
    """
    found = header_of(header)
    delimiter = found[0] if found is not None else _most_often(header)
    names = fields(header.removeprefix(_BOM), delimiter) or [header]
    keys = [
        name.strip().decode("utf-8", "replace") or f"column_{place}" for place, name in enumerate(names, 1)
    ]

    def parsed(record: bytes) -> Log:
        values = fields(record, delimiter)
        if values is None or len(values) != len(keys):
            return kept(record)
        contents = tuple((key, value) for key, value in zip(keys, values, strict=True) if value)
        return Log(written_time_s(dict(contents)), contents) if contents else kept(record)

    return delimiter, parsed


def joined(lines: Iterable[Numbered], delimiter: bytes) -> Iterator[Numbered]:
    """Lines of (number, bytes without the end) -> records, each with the number of its last line.

    Where a quote never closes, its line is a record by itself, and what follows is read anew.
    """
    source, waiting = iter(lines), deque[Numbered]()
    while first := (waiting.popleft() if waiting else next(source, None)):
        number, record = first
        taken: list[Numbered] = []
        while len(taken) < RECORD_LINES_MAX and len(record) < RECORD_BYTES_MAX and is_open(record, delimiter):
            more = waiting.popleft() if waiting else next(source, None)
            if more is None:
                break
            taken.append(more)
            number, record = more[0], record + b"\n" + more[1]
        if taken and is_open(record, delimiter):
            waiting.extendleft(reversed(taken))
            number, record = first
        yield number, record


def is_open(record: bytes, delimiter: bytes) -> bool:
    """Whether the record ends inside quotes."""
    if b'"' not in record:
        return False
    d = re.escape(delimiter)
    whole = rb'(?:"(?:[^"]|"")*+"|[^"' + d + rb"][^" + d + rb"]*+|)" + d
    return re.fullmatch(rb"(?:" + whole + rb')*+"(?:[^"]|"")*+', record) is not None


def _is_name(name: bytes) -> bool:
    return _NAME.fullmatch(name.decode("utf-8", "replace")) is not None


def _most_often(header: bytes) -> bytes:
    return max((bytes([code]) for code in DELIMITERS), key=header.count)
