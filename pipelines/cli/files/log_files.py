"""Files of log lines -> logs: what the file is, unpacked where it is gzip or zstd, line by line.

The format is recognised from the first lines, or named. A file of no known format is no error: each line
is kept whole, and `LogFile.recognised` says so.

A file is read twice, once to its end before anything is sent. Story: a file of 10 GB has a line of 3 MB in
its last tenth, which the service refuses. Found on the way, 9 GB are stored, and a second load stores them a
second time: no later look tells a log that was sent twice from one that came twice. What can be read only
once, a pipe, is taken as it comes; its first lines, which were looked at, are put before the others again.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, cast

from pipelines.cli.files import csv_records
from pipelines.cli.files.lines import TIME_KEYS, Log, Parser, body, combined, json_line, syslog, text
from pipelines.cli.files.packing import Counts
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError

FORMATS = ("combined", "json", "csv", "syslog", "text")
KEYED = ("json", "csv")
"""Of these the time of a log stands under a key; the others have a place for it, or none."""
AUTO = "auto"
SAMPLE_LINES = 20
LINE_BYTES_MAX = 2_500_000
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_NO_LINES = {
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"PK\x03\x04": "a zip file",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "a SQLite database",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
"""What begins like this has no lines; landed, it would be rows of noise."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file whose format is known. `recognised` is False where nothing fits, and text is what is left."""

    path: Path
    format_name: str
    recognised: bool = True
    once: Iterator[tuple[int, bytes]] | None = None
    """The lines of what can be read only once, such as a pipe, where its format was looked at."""
    time_key: str = ""
    """The key that the time of a log stands under, "" for the usual ones."""

    @property
    def time_keys(self) -> Sequence[str]:
        """Where the time of a log is looked for."""
        return (self.time_key,) if self.time_key else TIME_KEYS

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(number, line with its end) from the first line on."""
        return _numbered(self.path) if self.once is None else self.once

    @property
    def delimiter(self) -> bytes:
        """What stands between the fields of a CSV file, b"" for any other. Reads its first line."""
        if self.format_name != "csv":
            return b""
        head = next((line for _, line in self.lines() if body(line)), b"")
        return csv_records.delimiter_of(body(head))

    @property
    def doubt(self) -> str:
        """What to tell a person of a file that was not recognised, "" for any other."""
        if self.recognised:
            return ""
        known = ", ".join(name for name in FORMATS if name != "text")
        return (
            f"the first lines of {self.path.name} have none of the formats {known}: each line is kept whole "
            "under the key `line`; --format names one of them"
        )


def recognise(path: Path, format_name: str = AUTO, time_key: str = "") -> LogFile:
    """The file with its format: the named one, or what its first lines have. Reads only these lines. Raises
    ConfigError for a `time_key` where no key has the time."""
    file = _of_format(path, format_name)
    if time_key and file.format_name not in KEYED:
        raise ConfigError(
            f"--time-key goes with {' and '.join(KEYED)}: {path.name} is read as {file.format_name}, whose "
            "lines have no key for their time; leave it out, or name the format with --format"
        )
    return replace(file, time_key=time_key)


def _of_format(path: Path, format_name: str) -> LogFile:
    if format_name != AUTO:
        return LogFile(path, format_name)
    lines = _numbered(path)
    sample = list(_sampled(lines))
    once = None if path.is_file() else chain(sample, lines)
    found = detect([line for _, line in _without_blank(sample, Counts())])
    return LogFile(path, found or "text", found is not None or not sample, once)


def detect(sample: list[bytes]) -> str | None:
    """The format that most of these lines (without their ends) have, at least half of them; None for none.

    Worked example: two JSON objects and one other line are JSON, one of three is not. CSV is asked last: its
    header and records are lines of any kind with commas, and a line of JSON has commas, too.
    """
    if not sample:
        return None
    parsers = {name: _parser_of(name) for name in ("combined", "json", "syslog")}
    scores = {name: sum(parser(line).whole for line in sample) for name, parser in parsers.items()}
    best = max(scores, key=lambda name: scores[name])
    if scores[best] and 2 * scores[best] >= len(sample):
        return best
    return "csv" if csv_records.fits(sample) else None


def parse_file(file: LogFile, counts: Counts, *, first_line: int = 1) -> Iterator[Log]:
    """The logs of a file from its line `first_line` on. Raises ConfigError where there are none."""
    return _parse(file, counts, first_line, lambda parser, line: parser(line))


def count_records(file: LogFile, *, first_line: int = 1) -> int:
    """How many logs the file has from its line `first_line` on, without reading what they say."""
    return sum(1 for _ in _parse(file, Counts(), first_line, lambda parser, line: text(line)))


def check_file(file: LogFile, *, first_line: int = 1) -> int | None:
    """Read a file to its end before anything of it is sent; how many logs it has from `first_line` on.

    Raises ConfigError for what would stop the load in its middle. None for what can be read only once: that
    is taken as it comes.
    """
    if not file.path.is_file():
        return None
    return count_records(file, first_line=first_line)


def _parse(
    file: LogFile, counts: Counts, first_line: int, log_of: Callable[[Parser, bytes], Log]
) -> Iterator[Log]:
    parser, records = _records(file)
    records = _without_blank((entry for entry in records if entry[0] >= first_line), counts)
    first = next(records, None)
    if first is None:
        behind = " behind its header" if file.format_name == "csv" else ""
        where = f" from line {first_line} on" if first_line > 1 else behind
        raise ConfigError(f"{file.path.name} has no lines{where}: nothing to load")
    return (log_of(parser, line)._replace(line=number) for number, line in chain([first], records))


def _records(file: LogFile) -> tuple[Parser, Iterator[tuple[int, bytes]]]:
    """The parser of the file, and its records, each with the number of its last line and with its end."""
    lines = file.lines()
    if file.format_name != "csv":
        return _parser_of(file.format_name, file.time_keys), lines
    number, head = next(((number, line) for number, line in lines if body(line)), (0, b""))
    head = head.removeprefix(csv_records.BOM)
    delimiter = csv_records.delimiter_of(body(head))
    records = csv_records.joined(chain([(number, head)], lines), delimiter)
    _, header = next(records)
    try:
        return csv_records.parser(body(header), delimiter, file.time_keys), records
    except ValueError:
        raise ConfigError(
            f"{file.path.name}: a name in its header is not UTF-8, and no key of a log can be so; "
            "write the header in UTF-8"
        ) from None


def _parser_of(format_name: str, time_keys: Sequence[str] = TIME_KEYS) -> Parser:
    """The parser of a format whose lines need no header."""
    keyed = partial(json_line, time_keys=time_keys)
    parsers: dict[str, Parser] = {"combined": combined, "json": keyed, "text": text}
    return parsers[format_name] if format_name in parsers else syslog(SYSTEM_CLOCK.now())


def _without_blank(records: Iterable[tuple[int, bytes]], counts: Counts) -> Iterator[tuple[int, bytes]]:
    """The records without their ends; empty ones are counted and left out."""
    for number, record in records:
        if found := body(record):
            yield number, found
        else:
            counts.blank_lines += 1


def _sampled(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Lines up to the SAMPLE_LINES-th that is not blank; what is broken after the first is not met here."""
    count = 0
    for number, line in lines:
        yield number, line
        count += bool(body(line))
        if count == SAMPLE_LINES:
            return


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, line with its end), empty ones, too. Raises ConfigError that names the line from which on the
    file cannot be loaded."""
    with _opened(path) as (stream, packed):
        number = 0
        try:
            while line := stream.readline(LINE_BYTES_MAX + 1):
                number += 1
                if len(line) > LINE_BYTES_MAX:
                    raise ConfigError(
                        f"{path.name}, line {number}: longer than {LINE_BYTES_MAX:,} bytes; "
                        "the service would refuse it, so split the line or take it out"
                    )
                yield number, line
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise _broken(path, packed, number) from error
        except OSError as error:
            if packed and not error.strerror:
                raise _broken(path, packed, number) from error
            raise ConfigError(
                f"{path.name} cannot be read after line {number}: {error.strerror}; get a whole copy of it"
            ) from error


def _broken(path: Path, packed: str, number: int) -> ConfigError:
    return ConfigError(
        f"{path.name}: the {packed} stream is broken after line {number}; get a whole copy of the file"
    )


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """(the file's lines as bytes, how they are packed)."""
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; check the path") from error
    with stream:
        try:
            head = stream.peek(16)
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}; name a file of log lines") from error
        for magic, kind in _NO_LINES.items():
            if head.startswith(magic):
                raise ConfigError(f"{path.name} is {kind}: make a file of log lines of it first")
        if head.startswith(_GZIP):
            with gzip.GzipFile(fileobj=stream) as unzipped:
                yield cast(IO[bytes], unzipped), "gzip"
        elif head.startswith(_ZSTD):
            import pyarrow as pa

            with io.BufferedReader(pa.CompressedInputStream(stream, "zstd")) as unpacked:
                yield cast(IO[bytes], unpacked), "zstd"
        else:
            yield stream, ""
