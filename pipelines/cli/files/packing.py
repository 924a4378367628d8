"""Logs -> serialised LogGroups. No network here.

LogGroups are built with the vendor SDK's own protobuf classes, the ones with bytes as values: what is loaded
stands as the other side of a proof, so it shares no code with what decodes it.

The service refuses a whole group for one log whose time is 7 days behind its clock or 15 minutes ahead. Such
a log, and one without a time, gets the service's time, and is counted: a row of an archived file would else
keep 999 others from being loaded. Worked example at second 1,000,000,000, groups of 2: logs of now, of 8 days
ago, without a time and 901 s ahead are two groups, all four with that time, one counted late, one as future.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from aliyun.log.log_logs_raw_pb2 import LogGroupRaw, LogRaw

from pipelines.cli.files.lines import Log
from sls_io.values.window import HOUR_S

GROUP_ROWS = 1000
GROUP_ROWS_MAX = 4096
GROUP_BYTES_MAX = 2_000_000
"""A group is closed at this size: the service refuses a PutLogs body over 3 MB."""
LOG_AGE_MAX_S = 7 * 24 * HOUR_S
LOG_AHEAD_MAX_S = 15 * 60
TOPIC = "access"


@dataclass(slots=True)
class Counts:
    """What a load did. `bytes` are raw LogGroup bytes before compression.

    `rows`, `groups` and `bytes` count what was packed, `stored` and `stored_line` what the service has
    taken of it: rows, and the number of the last one's line in the file. `valueless` counts the keys of the
    file without a value, which cannot be sent; `odd_times` the rows whose own time nobody can read,
    `timeless` those of a format with a key for it that have none.
    """

    rows: int = 0
    groups: int = 0
    bytes: int = 0
    odd_lines: int = 0
    blank_lines: int = 0
    valueless: int = 0
    odd_times: int = 0
    timeless: int = 0
    late_rows: int = 0
    future_rows: int = 0
    stored: int = 0
    stored_line: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Packed:
    """One serialised LogGroup, how many logs are in it, and the line of the last (0: of no file)."""

    body: bytes
    rows: int
    line: int


@dataclass(slots=True)
class Packer:
    """Logs -> LogGroups of at most `group_rows` rows and about 2 MB.

    `now_s` is the service's time: logs without a time of their own, and those it would refuse, get it.
    """

    source: str
    tags: tuple[tuple[str, str], ...] = ()
    group_rows: int = GROUP_ROWS
    counts: Counts = field(default_factory=Counts)

    def pack(self, logs: Iterable[Log], now_s: float) -> Iterator[Packed]:
        """The logs in their order, packed; counts rows as they pass."""
        group, size, line = self._group(), 0, 0
        for log in logs:
            weight = sum(len(key) + len(value) + 8 for key, value in log.contents)
            if group.Logs and (len(group.Logs) >= self.group_rows or size + weight > GROUP_BYTES_MAX):
                yield self._closed(group, line)
                group, size = self._group(), 0
            self._add(group, log, now_s)
            size, line = size + weight, log.line
        if group.Logs:
            yield self._closed(group, line)

    def _group(self) -> LogGroupRaw:
        group = LogGroupRaw(Topic=TOPIC, Source=self.source)
        for key, value in self.tags:
            group.LogTags.add(Key=key, Value=value)
        return group

    def _add(self, group: LogGroupRaw, log: Log, now_s: float) -> None:
        time_s = now_s if log.time_s is None else log.time_s
        late, future = time_s < now_s - LOG_AGE_MAX_S, time_s > now_s + LOG_AHEAD_MAX_S
        if late or future:
            time_s = now_s
            self.counts.late_rows += late
            self.counts.future_rows += future
        record = group.Logs.add(Time=int(time_s))
        for key, value in log.contents:
            record.Contents.add(Key=key, Value=value)
        self.counts.odd_lines += not log.whole
        self.counts.valueless += log.valueless
        self.counts.odd_times += log.odd_time
        self.counts.timeless += log.timeless

    def _closed(self, group: LogGroupRaw, line: int) -> Packed:
        body = group.SerializeToString()
        self.counts.rows += len(group.Logs)
        self.counts.groups += 1
        self.counts.bytes += len(body)
        return Packed(body, len(group.Logs), line)


def unpack(body: bytes) -> Any:
    """A serialised LogGroup as the vendor's protobuf object, values as bytes."""
    return LogGroupRaw.FromString(body)


def unpack_log(body: bytes) -> Any:
    """The bytes of one log as the vendor's protobuf object."""
    return LogRaw.FromString(body)


def slices(total: int, pieces: int) -> list[range]:
    """Row numbers 0..total in `pieces` runs of nearly equal length, none empty. Worked example: 10 rows in 4
    pieces are 0-1, 2-4, 5-6 and 7-9; 2 rows in 4 pieces are two."""
    edges = [total * i // pieces for i in range(pieces + 1)]
    return [range(a, b) for a, b in pairwise(edges) if a < b]
