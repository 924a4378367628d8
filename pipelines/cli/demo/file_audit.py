"""The first word of the proof: the file itself against the logs that the service has of it.

The file is read anew, with nothing of the loader: CSV by Python's `csv` over the whole file, JSON lines by
Python's `json`. For the other formats nobody parses again: the line is put together from the keys of the log,
and must stand in the file byte for byte. Both sides are bags: shards have no order among each other.

Rules that both readers keep, since somebody has to say them: a line ends with LF or CRLF; an empty line is
no record; a record that does not have the format is the key `line` with its bytes; a quote that never closes
ends with its line; JSON null is no value. JSON inside a JSON value is compared by what it says, not by its
blanks.

Why lines are put together again and not parsed: a second parser would be written by the same people, with the
same idea of what a syslog line is. The way back needs no such idea. It is not always one line: an access log
without referer and agent was written short, or with two `-`; each of these is a mark that the log may have,
and the first that is still in the bag is taken. Worked example: {"c": {"d": 1}} in the file is the same as
c = { "d" : 1 } in the service; 1.50 and 1.5 are not the same.
"""

import csv
import io
import json
from codecs import BOM_UTF8
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import pyarrow as pa

from pipelines.cli.emulator_admin import Stored
from pipelines.cli.files.packing import unpack

EXAMPLES_MAX = 5
_OPEN_BYTES_MAX = 1_000_000
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}

Contents = Sequence[tuple[str, bytes]]
Numbered = tuple[int, bytes]
"""(number of the last line, what stands there)."""


@dataclass(slots=True)
class FileAudit:
    """What the comparison found, in records. `extra` are logs of the service that the file does not have."""

    records: int = 0
    same: int = 0
    missing: int = 0
    extra: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every record of the file is in the service once, and nothing else is."""
        return self.same == self.records and not self.extra


def compare_file(path: Path, format_name: str, delimiter: bytes, stored: Iterable[Stored]) -> FileAudit:
    """Every record of the file at `path` against every stored log. `delimiter` is that of a CSV file.

    The bag holds a mark of 16 bytes a record, how many records of it are left, and no line: a file of
    any size is compared. Which lines are missing is found by reading it once more, only where some are.
    """
    left = Counter(mark for _, mark in _marks(path, format_name, delimiter))
    audit = FileAudit(records=left.total())
    of_log = _OF_LOG.get(format_name, _alone)
    for entry in stored:
        for log in unpack(entry.body).Logs:
            possible = of_log([(content.Key, content.Value) for content in log.Contents])
            found = next((mark for mark in possible if left[mark] > 0), None)
            if found is None:
                audit.extra += 1
            else:
                left[found] -= 1
                audit.same += 1
    audit.missing = left.total()
    missing = _marks(path, format_name, delimiter) if audit.missing else iter(())
    for number, mark in missing:
        if left[mark] > 0 and len(audit.examples) < EXAMPLES_MAX:
            audit.examples.append(f"line {number} of {path.name}: not in the service as it stands there")
    return audit


def _marks(path: Path, format_name: str, delimiter: bytes) -> Iterator[Numbered]:
    """(number of the last line, mark) of each record of the file."""
    with path.open("rb") as file:
        packed = _PACKED.get(file.peek(2)[:2])
        lines = io.BufferedReader(pa.CompressedInputStream(file, packed)) if packed else file
        numbered = enumerate(lines, 1)
        if format_name == "csv":
            yield from ((number, _mark(contents)) for number, contents in _csv(numbered, delimiter.decode()))
        else:
            of_line = _json if format_name == "json" else _line
            for number, line in numbered:
                if said := _without_end(line):
                    yield number, _mark(of_line(said))


def _mark(contents: Contents) -> bytes:
    return blake2b(repr(list(contents)).encode(), digest_size=16).digest()


def _without_end(line: bytes) -> bytes:
    line = line[:-1] if line.endswith(b"\n") else line
    return line[:-1] if line.endswith(b"\r") else line


def _line(said: bytes) -> Contents:
    return [("line", said)]


def _alone(contents: Contents) -> list[bytes]:
    return [_mark(contents)]


# --- CSV --------------------------------------------------------------------------------------


def _csv(lines: Iterator[Numbered], delimiter: str) -> Iterator[tuple[int, Contents]]:
    names: list[str] = []
    first = next(lines, (0, b""))
    bare = (first[0], first[1].removeprefix(BOM_UTF8))
    for number, raw, row in _rows(chain([bare], lines), delimiter):
        if not names:
            header = [name.encode("latin-1") for name in row] if row else [raw]
            names = [name.decode().strip() or f"column_{place}" for place, name in enumerate(header, 1)]
        elif row is None or len(row) != len(names):
            yield number, _line(raw)
        else:
            yield number, [(key, value.encode("latin-1")) for key, value in zip(names, row, strict=True)]


def _rows(lines: Iterator[Numbered], delimiter: str) -> Iterator[tuple[int, bytes, list[str] | None]]:
    """(number of the last line, bytes, fields) of each record; no fields where the quotes are wrong.

    A quote that never closes would take the rest of the file into its field. Then its first line alone is a
    record, and the others that were taken are read again. Worked example: behind a header a,b the lines
    `1,"x` and `2,y` are the whole line `1,"x`, and the record 2, y.
    """
    csv.field_size_limit(2**31 - 1)
    again = deque[Numbered]()
    while True:
        taken: list[Numbered] = []
        reader = csv.reader(_fed(lines, again, taken), delimiter=delimiter, strict=True)
        try:
            row: list[str] | None = next(reader, None)
        except csv.Error:
            row = None
            again.extendleft(reversed(taken[1:]))
            del taken[1:]
        if not taken:
            return
        raw = _without_end(b"".join(line for _, line in taken))
        if raw:
            yield taken[-1][0], raw, None if raw.endswith(b"\r") else row


def _fed(lines: Iterator[Numbered], again: "deque[Numbered]", taken: list[Numbered]) -> Iterator[str]:
    """The lines as the text that `csv` takes, a character for each byte; `taken` notes them."""
    size = 0
    while size < _OPEN_BYTES_MAX and (line := again.popleft() if again else next(lines, None)):
        taken.append(line)
        size += len(line[1])
        yield line[1].decode("latin-1")


# --- JSON -------------------------------------------------------------------------------------


class _Written(str):
    """A number, or a word like NaN, as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self!s}>"


class _Members(list[tuple[str, object]]):
    """The members of an object, a key that stands twice twice."""

    def __repr__(self) -> str:
        return f"<{super().__repr__()}>"


def _read(text: str | bytes) -> object:
    return json.loads(
        text, object_pairs_hook=_Members, parse_int=_Written, parse_float=_Written, parse_constant=_Written
    )


def _json(said: bytes) -> Contents:
    try:
        members = _read(said)
        if not isinstance(members, _Members):
            return _line(said)
        # A key that no wire format can carry raises here.
        return [(key.encode().decode(), _value(value)) for key, value in members if value is not None]
    except (ValueError, RecursionError):
        return _line(said)


def _value(value: object) -> bytes:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return _meaning(value.encode()) if isinstance(value, str) else repr(value).encode()


def _meaning(sent: bytes) -> bytes:
    """What a text that is an object or an array says, any other text itself."""
    if sent[:1] not in (b"{", b"["):
        return sent
    try:
        return repr(_read(sent.decode())).encode()
    except (ValueError, RecursionError):
        return sent


def _of_json(contents: Contents) -> list[bytes]:
    as_line = [_mark(contents)] if [key for key, _ in contents] == ["line"] else []
    return [*as_line, _mark([(key, _meaning(value)) for key, value in contents])]


# --- lines that are put together again --------------------------------------------------------


def _of_combined(contents: Contents) -> list[bytes]:
    said = dict(contents)
    if said.keys() == {"line"}:
        return _alone(contents)

    def of(key: str) -> bytes:
        return said.get(key, b"-")

    parts = ("request_method", "request_uri", "server_protocol")
    request = b" ".join(map(of, parts)) if parts[0] in said else of("request")
    short = b'%s %s %s [%s] "%s" %s %s' % (
        *(of(key) for key in ("remote_addr", "remote_ident", "remote_user", "time_local")),
        request,
        of("status"),
        of("body_bytes_sent"),
    )
    long = b'%s "%s" "%s"' % (short, of("http_referer"), of("http_user_agent"))
    bare = not said.keys() & {"http_referer", "http_user_agent"}
    return [_mark(_line(line)) for line in ([long, short] if bare else [long])]


def _of_syslog(contents: Contents) -> list[bytes]:
    said = dict(contents)
    if said.keys() == {"line"}:
        return _alone(contents)

    def of(*keys: str) -> bytes:
        return b" ".join(said.get(key, b"-") for key in keys)

    message = said.get("message", b"")
    numbers = (said.get("facility"), said.get("severity"))
    priority = b"".join(b"<%d>" % (int(a) * 8 + int(b)) for a, b in [numbers] if a and b)
    head = priority + of("time", "hostname") + b" "
    lines = [] if said.keys() & {"program", "pid"} else [head + message]
    for pid in [b"[%s]" % said["pid"]] if "pid" in said else [b"", b"[-]"]:
        tagged = head + of("program") + pid + b":"
        lines += [tagged + b" " + message] + ([] if message else [tagged])
    newer = priority + b"1 " + of("time", "hostname", "program", "pid", "msgid", "structured_data")
    lines.append(newer + b" " + message if "message" in said else newer)
    return [_mark(_line(line)) for line in lines]


_OF_LOG: dict[str, Callable[[Contents], list[bytes]]] = {
    "json": _of_json,
    "combined": _of_combined,
    "syslog": _of_syslog,
}
