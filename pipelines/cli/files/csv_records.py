"""Records of a CSV file -> logs: one key for each column of the header. Pure.

A record may go over lines inside quotes, whose ends are part of the value. Values stay bytes from the file
to the wire. An empty field, quoted or not, is a value, and is sent as one. A record that does not have the
header's number of fields, or whose quotes are not those of CSV, is kept whole.

Names of the header lose the blanks around them: `time, user` names `time` and `user`. Two columns of one
name are one key that is sent twice.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from pipelines.cli.files.lines import TIME_KEYS, Log, Parser, body, kept, written_time_s

DELIMITERS = b",\t;|"
RECORD_BYTES_MAX = 1_000_000
"""A quote that is still open after so much was never meant as one: the service takes no longer value."""
BOM = b"\xef\xbb\xbf"
"""What some programs write before the first name."""
_NAME = re.compile(r"[^\W\d][^\"<>{}=,;|\t]{0,63}|[@][\w.]{1,63}")

Numbered = tuple[int, bytes]


def fields(record: bytes, delimiter: bytes) -> list[bytes] | None:
    """The fields of one record, without its end; None when its quotes are not those of CSV."""
    one, values, at = _field(delimiter), list[bytes](), 0
    while match := one.match(record, at):
        quoted, plain, more = match.groups()
        values.append(plain if quoted is None else quoted.replace(b'""', b'"'))
        at = match.end()
        if not more:
            return values if at == len(record) else None
    return None


def header_of(line: bytes) -> tuple[bytes, list[bytes]] | None:
    """(delimiter, names) of a line that can be the header of a CSV file: at least two names, none twice."""
    line = line.removeprefix(BOM)
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
    after = [record for _, record in joined(enumerate(line + b"\n" for line in sample[1:]), delimiter)]
    whole = [len(fields(body(record), delimiter) or ()) == len(names) for record in after]
    odd = whole.index(False) if False in whole else len(whole)
    return odd > 0 and (odd == len(whole) or is_open(b"".join(after[odd:]), delimiter))


def delimiter_of(header: bytes) -> bytes:
    """What stands between the fields of a file whose first line this is, whatever its names are."""
    found = header_of(header)
    return found[0] if found is not None else max((bytes([code]) for code in DELIMITERS), key=header.count)


def parser(header: bytes, delimiter: bytes, time_keys: Sequence[str] = TIME_KEYS) -> Parser:
    """The parser of the records after this header. A column without a name gets the key `column_N`, counted
    from 1. A log's time is under the first of `time_keys` that there is. Raises ValueError for a name that is
    not UTF-8: no key can be."""
    names = fields(header, delimiter) or [header]
    keys = [name.strip().decode() or f"column_{place}" for place, name in enumerate(names, 1)]

    def parsed(record: bytes) -> Log:
        values = fields(record, delimiter)
        if values is None or len(values) != len(keys):
            return kept(record)
        contents = tuple(zip(keys, values, strict=True))
        time_s, odd_time = written_time_s(dict(contents), time_keys)
        return Log(time_s, contents, odd_time=odd_time, timeless=time_s is None and not odd_time)

    return parsed


def joined(lines: Iterable[Numbered], delimiter: bytes) -> Iterator[Numbered]:
    """Lines of (number, bytes with their end) -> records, each with the number of its last line.

    Story: a quote stands alone in line 4, and the next one opens a field of line 90. Joined, the lines
    between would be one value. So where a quote never closes, or closes in the middle of a field, its line
    is a record by itself, and what follows is read anew.
    """
    source, waiting = iter(lines), deque[Numbered]()

    def following() -> Numbered | None:
        return waiting.popleft() if waiting else next(source, None)

    while first := following():
        taken, size, more = [first], len(first[1]), is_open(first[1], delimiter)
        while more and size < RECORD_BYTES_MAX and (line := following()):
            taken.append(line)
            size += len(line[1])
            # From inside a quoted field on, a line reads as if it began with the quote.
            more = is_open(b'"' + line[1], delimiter)
        record = b"".join(line for _, line in taken)
        if len(taken) > 1 and (more or fields(body(record), delimiter) is None):
            waiting.extendleft(reversed(taken[1:]))
            yield first
        else:
            yield taken[-1][0], record


def is_open(record: bytes, delimiter: bytes) -> bool:
    """Whether the record ends inside quotes: so of `1,"x` and not of `1,"x""y"`. A quote in the middle of a
    plain field opens nothing."""
    return b'"' in record and _unclosed(delimiter).fullmatch(record) is not None


@lru_cache(maxsize=len(DELIMITERS))
def _field(delimiter: bytes) -> re.Pattern[bytes]:
    """(between quotes, without quotes, delimiter) of one field; no delimiter behind the last."""
    d = re.escape(delimiter)
    plain = rb'((?:[^"\r\n' + d + rb"][^\r\n" + d + rb"]*+)?)"
    return re.compile(rb'(?:"((?:[^"]|"")*+)"|' + plain + rb")(" + d + rb"|\Z)")


@lru_cache(maxsize=len(DELIMITERS))
def _unclosed(delimiter: bytes) -> re.Pattern[bytes]:
    """A record that ends inside quotes."""
    d = re.escape(delimiter)
    whole = rb'(?:"(?:[^"]|"")*+"|[^"' + d + rb"][^" + d + rb"]*+|)" + d
    return re.compile(rb"(?:" + whole + rb')*+"(?:[^"]|"")*+')


def _is_name(name: bytes) -> bool:
    return _NAME.fullmatch(name.decode("utf-8", "replace")) is not None
