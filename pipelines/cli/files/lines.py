"""Lines of a file -> logs: Apache/nginx combined, JSON lines, syslog, or plain text. Pure.

A line is never dropped: one that does not have the shape of its format becomes a log with the
single key `line`, and says so by `whole=False`. Values stay bytes from the file to the wire,
because a log line need not be UTF-8 and the log service does not require it of a value.

Keys of a combined line are the ones nginx and the vendor's own nginx mode use.

The service has no key without a value. A field that a server wrote as `-`, and a JSON value null, say that
there is none: the key is left out and counted. An empty text is a value, and is sent.

A syslog line is what RFC 3164 and RFC 5424 say, or what a syslog daemon writes to a file, with and without
`<priority>`. A time without a zone is taken as UTC, one without a year as the last such time before now.

Why JSON is taken apart here, member by member, and not by one call: what Python makes of it is another text.
1.50 would be sent as 1.5, 0.10000000000000000001 as 0.1, and of a key that stands twice the first value would
be lost. Worked example: {"a": 1.50, "b": null, "a": "x", "time": 1700000000} is the log
a = 1.50, a = x, time = 1700000000 of that second, with one key left out for its null.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple

from sls_io.values.moments import WRITTEN

LINE_KEY = "line"

_COMBINED = re.compile(
    rb"(?P<remote_addr>\S+) (?P<remote_ident>\S+) (?P<remote_user>\S+) \[(?P<time_local>[^\]]+)\] "
    rb'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?P<body_bytes_sent>\d+|-)'
    rb'(?: "(?P<http_referer>(?:[^"\\]|\\.)*)" "(?P<http_user_agent>(?:[^"\\]|\\.)*)")?'
)
_REQUEST = re.compile(rb"([A-Z]{3,16}) (\S+) (HTTP/[0-9.]+)")
_REQUEST_KEYS = ("request_method", "request_uri", "server_protocol")
_LOCAL_TIME = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_MONTHS = {
    name: number
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1)
}
_MONTH_TIME = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(\.\d+)?")
_PRIORITY = rb"(?:<(?P<priority>0|[1-9]\d{0,2})>)"
_ISO = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)"
_TAG = rb"(?P<program>[^\s:\[\]]{1,64})(?:\[(?P<pid>[^\]\s]{1,32})\])?:(?: |\Z)"
_SYSLOG = (
    re.compile(
        _PRIORITY + rb"1 (?P<time>-|" + _ISO + rb") (?P<hostname>\S+) (?P<program>\S+) (?P<pid>\S+) "
        rb"(?P<msgid>\S+) "
        rb'(?P<structured_data>-|(?:\[(?:[^\]"\\]|"(?:[^"\\]|\\.)*+"|\\.)*+\])++)(?: (?P<message>.*))?',
        re.DOTALL,
    ),
    re.compile(
        _PRIORITY + rb"?(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) (?P<hostname>\S+) "
        rb"(?:" + _TAG + rb")?(?P<message>.*)",
        re.DOTALL,
    ),
    # A word in the place of the host that is a level: an application's own lines, no syslog.
    re.compile(
        _PRIORITY + rb"?(?P<time>" + _ISO + rb") "
        rb"(?!(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL) )(?P<hostname>\S+) "
        + _TAG
        + rb"(?P<message>.*)",
        re.DOTALL,
    ),
)
_YEARS_BACK = 9
"""29 February is at most eight years before the next one."""
_AHEAD_S = 24 * 3600.0
"""A time without a zone may be that far ahead of UTC, and is not a year old for it."""
TIME_KEYS = ("__time__", "time", "timestamp", "@timestamp", "ts")
_EPOCH_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""(from, a second) of epoch numbers in nano-, micro- and milliseconds: as the next larger unit they would be
after the year 5000."""
_CLOCK = re.compile(r"\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")


class Log(NamedTuple):
    """One log on its way in. `time_s` is its own time (unix seconds, fraction kept) where it has one.
    `valueless` counts its keys that are left out, because the file says of them that there is no value.
    `line` is the number of its line in a file, 0 for one of no file. `odd_time`: it has a time of its own
    that nobody can read; an empty one, or a null, is none. `timeless`: it has none where its format has one
    under a key."""

    time_s: float | None
    contents: tuple[tuple[str, bytes], ...]
    whole: bool = True
    valueless: int = 0
    line: int = 0
    odd_time: bool = False
    timeless: bool = False


Parser = Callable[[bytes], Log]


def combined(line: bytes) -> Log:
    """One line of the Apache/nginx combined (or common) format."""
    match = _COMBINED.fullmatch(line)
    if match is None:
        return kept(line)
    contents: list[tuple[str, bytes]] = []
    valueless = 0
    for key, value in match.groupdict().items():
        if value is None or value == b"-":
            valueless += value is not None
            continue
        request = _REQUEST.fullmatch(value) if key == "request" else None
        if request is None:
            contents.append((key, value))
        else:
            contents.extend(zip(_REQUEST_KEYS, request.groups(), strict=True))
    time_s = local_time_s(match["time_local"].decode("ascii", "replace"))
    odd_time = time_s is None and match["time_local"] != b"-"
    return Log(time_s, tuple(contents), valueless=valueless, odd_time=odd_time)


def json_line(line: bytes, time_keys: Sequence[str] = TIME_KEYS) -> Log:
    """One JSON object: each key a content, a text as it is, everything else as it is written. Its time is
    under the first of `time_keys` that it has.

    A key that stands twice is sent twice: a log is a list of contents, not a map.
    """
    try:
        members = list(_members(line.decode(json.detect_encoding(line))))
        sent = [(_encodable(key), text.encode(), value is None) for key, text, value in members]
    except (ValueError, RecursionError):
        return kept(line)
    contents = tuple((key, text) for key, text, null in sent if not null)
    time_s, odd_time = _json_time_s({key: value for key, _, value in members}, time_keys)
    timeless = time_s is None and not odd_time
    valueless = len(sent) - len(contents)
    return Log(time_s, contents, valueless=valueless, odd_time=odd_time, timeless=timeless)


def body(line: bytes) -> bytes:
    """A line without its end, which is LF or CRLF: any other CR belongs to what the line says."""
    return line.removesuffix(b"\n").removesuffix(b"\r")


def text(line: bytes) -> Log:
    """The whole line under the key `line`: what plain text is, not a line in trouble."""
    return Log(None, ((LINE_KEY, line),))


def kept(line: bytes) -> Log:
    """A line that does not have the shape of its format: kept whole, and said so."""
    return Log(None, ((LINE_KEY, line),), whole=False)


def syslog(now_s: float) -> Parser:
    """The parser of syslog lines that were written before `now_s` (unix seconds), or within a day of it."""

    def parsed(line: bytes) -> Log:
        match = next(filter(None, (shape.fullmatch(line) for shape in _SYSLOG)), None)
        if match is None:
            return kept(line)
        contents: list[tuple[str, bytes]] = []
        valueless = 0
        for key, value in match.groupdict().items():
            if key == "priority" and value is not None:
                facility, severity = divmod(int(value), 8)
                contents += [("facility", b"%d" % facility), ("severity", b"%d" % severity)]
            elif value == b"-" and key != "message":
                valueless += 1
            elif value is not None:
                contents.append((key, value))
        time = match["time"].decode()
        time_s = epoch_s(time) if time[:1].isdigit() else month_time_s(time, now_s)
        odd_time = time_s is None and time != "-"
        return Log(time_s, tuple(contents), valueless=valueless, odd_time=odd_time)

    return parsed


def month_time_s(value: str, now_s: float) -> float | None:
    """`Nov 22 10:59:01` as unix seconds, the last one not over a day after `now_s`; None for no such time.

    Worked example, on 2026-01-02 00:00: Dec 31 10:00 is of 2025, Jan 2 20:00 of 2026 (a zone ahead of UTC may
    be there already), Jan 4 00:00 of 2025, and Feb 29 of 2024, the last year that had one.
    """
    match = _MONTH_TIME.fullmatch(value)
    if match is None or match[1] not in _MONTHS:
        return None
    day, hour, minute, second = (int(match[i]) for i in (2, 3, 4, 5))
    this_year = datetime.fromtimestamp(now_s + _AHEAD_S, UTC).year
    for year in range(this_year, this_year - _YEARS_BACK, -1):
        try:
            at = datetime(year, _MONTHS[match[1]], day, hour, minute, second, tzinfo=UTC).timestamp()
        except ValueError:
            continue
        if at <= now_s + _AHEAD_S:
            return at + float(match[6] or 0)
    return None


@lru_cache(maxsize=4096)
def local_time_s(value: str) -> float | None:
    """`17/May/2015:10:05:03 +0000` as unix seconds; None when it is no such time."""
    match = _LOCAL_TIME.fullmatch(value)
    if match is None or match[2] not in _MONTHS:
        return None
    offset = timedelta(hours=int(match[8]), minutes=int(match[9]))
    day, year, hour, minute, second = (int(match[i]) for i in (1, 3, 4, 5, 6))
    try:
        zone = timezone(-offset if match[7] == "-" else offset)
        return datetime(year, _MONTHS[match[2]], day, hour, minute, second, tzinfo=zone).timestamp()
    except ValueError:
        return None


def epoch_s(value: object) -> float | None:
    """Unix seconds of an epoch number (from seconds to nanoseconds), of an ISO text, one of `WRITTEN` or
    one as in an access log, else None. Worked example: 1700000000, 1700000000123 and 1700000000123456 are
    the same second, the unit told by the size; -1 and true are no time."""
    if isinstance(value, str):
        return _text_s(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = value / next((second for least, second in _EPOCH_UNITS if value >= least), 1.0)
    return seconds if 0 <= seconds < 2**32 else None


@lru_cache(maxsize=4096)
def _text_s(value: str) -> float | None:
    for form in ("", *_FORMS.get(_shape(value), ())):
        with suppress(ValueError):
            moment = datetime.strptime(value, form) if form else datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return local_time_s(value)


def _shape(value: str) -> str:
    """A text without what its numbers and words are, so that few forms are tried on it: `9.9.9 9:9`."""
    return _WORD.sub("a", _DIGITS.sub("9", value[:40]))


def _forms() -> dict[str, list[str]]:
    """Shape -> the forms of it."""
    found: dict[str, list[str]] = {}
    for form in (each.replace("%T", "%H:%M:%S") for each in WRITTEN):
        found.setdefault(re.sub(r"%[a-zA-Z]", "9", form.replace("%b", "a")), []).append(form)
    return found


_DIGITS, _WORD = re.compile(r"[0-9]+"), re.compile(r"[A-Za-z]+")
_FORMS = _forms()


def _on_its_day(value: str, day: object) -> str:
    """A time of day with the day that stands in a column of its own, `date`, as an ISO text; else `value`."""
    return f"{day}T{value}" if isinstance(day, str) and _CLOCK.fullmatch(value) else value


class _Number(str):
    """A JSON number as it is written: as a float or an int of ours it would be another text, or none."""


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number)
_BLANKS = re.compile(r"[ \t\n\r]*")


def _members(text: str) -> Iterator[tuple[str, str, object]]:
    """(key, value as it is sent, value) of each member. Raises ValueError when `text` is no JSON object."""
    at, mark = _next(text, 0, "{")
    if text[at : at + 1] == "}":
        at, mark = _next(text, at, "}")
    while mark != "}":
        if text[at : at + 1] != '"':
            raise ValueError("a key that is no text")
        key, at = _DECODER.raw_decode(text, at)
        begin, _ = _next(text, at, ":")
        value, at = _DECODER.raw_decode(text, begin)
        plain = isinstance(value, str) and not isinstance(value, _Number)
        yield key, value if plain else text[begin:at], value
        at, mark = _next(text, at, ",}")
    if at != len(text):
        raise ValueError("more than an object")


def _next(text: str, at: int, marks: str) -> tuple[int, str]:
    """The place after one of `marks` and the blanks around it, and which it is. Raises ValueError."""
    at = _end_of_blanks(text, at)
    mark = text[at : at + 1]
    if not mark or mark not in marks:
        raise ValueError(f"none of {marks}")
    return _end_of_blanks(text, at + 1), mark


def _end_of_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _encodable(key: str) -> str:
    """`key` itself; UnicodeEncodeError for half a surrogate pair, which no wire format can carry."""
    key.encode()
    return key


def _json_time_s(value: Mapping[str, object], time_keys: Sequence[str]) -> tuple[float | None, bool]:
    """The time of the log, and whether one is there that cannot be read."""
    found = next((value[key] for key in time_keys if key in value), None)
    if isinstance(found, str) and not isinstance(found, _Number):
        found = _on_its_day(found, value.get("date"))
    time_s = epoch_s(float(found) if isinstance(found, _Number) else found)
    return time_s, time_s is None and found is not None and found != ""


def written_time_s(values: Mapping[str, bytes], time_keys: Sequence[str]) -> tuple[float | None, bool]:
    """The time of a log whose values are all text: epoch numbers and times as texts under the first of
    `time_keys` that is there; and whether one is there that cannot be read."""
    found = next((values[key] for key in time_keys if key in values), b"").decode("utf-8", "replace").strip()
    try:
        time_s = epoch_s(float(found))
    except ValueError:
        time_s = epoch_s(_on_its_day(found, values.get("date", b"").decode("utf-8", "replace").strip()))
    return time_s, time_s is None and found != ""
