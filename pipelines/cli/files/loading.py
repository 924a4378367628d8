"""What a load sends, for people and for programs: how much, and all that a log does not carry as
its file has it.

Each way in which a log is not its line is counted and said: a line kept whole, a key left out, a time that
was not taken. The same sentences stand in a dry run, behind a load and in the demo's proof, so they come from
one function. A file that is as usual has none of them, and then nothing is said.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from pipelines.cli.files.log_files import KEYED, LogFile
from pipelines.cli.files.packing import Counts
from pipelines.landing.commit.effect import Effect, Note
from sls_io.values.settings import Service


@dataclass(frozen=True)
class Loading(Effect):
    """What a load sends, or has sent. `time_keys` are where the time of a log was looked for, none where its
    format has no key for it. `rows` before it has begun: about how many, 0 where nobody knows."""

    WHAT = "{project}/{logstore}: logs are sent"
    QUIET: ClassVar[frozenset[str]] = frozenset(
        {
            *("odd_lines", "blank_lines", "valueless", "late_rows", "future_rows"),
            *("odd_times", "timeless", "time_keys"),
        }
    )

    project: str
    logstore: str
    created: tuple[str, ...]
    file: str
    format: str | None
    rows: int
    groups: int
    raw_bytes: int
    odd_lines: int
    blank_lines: int
    valueless: int
    odd_times: int
    timeless: int
    time_keys: tuple[str, ...]
    late_rows: int
    future_rows: int
    seconds: float

    @classmethod
    def of(cls, service: Service, counts: Counts, created: Iterable[str], file: LogFile | None) -> Self:
        """What these counts say."""
        return cls(
            project=service.project,
            logstore=service.logstore,
            created=tuple(created),
            file="" if file is None else file.path.name,
            format=None if file is None else file.format_name,
            rows=counts.rows,
            groups=counts.groups,
            raw_bytes=counts.bytes,
            odd_lines=counts.odd_lines,
            blank_lines=counts.blank_lines,
            valueless=counts.valueless,
            odd_times=counts.odd_times,
            timeless=counts.timeless,
            time_keys=tuple(file.time_keys) if file is not None and file.format_name in KEYED else (),
            late_rows=counts.late_rows,
            future_rows=counts.future_rows,
            seconds=round(counts.seconds, 3),
        )

    def said(self) -> Iterable[Note]:
        if self.format:
            yield Note(f"read {self.file} as {self.format}")
        yield from map(Note, oddities(self, self.time_keys))


def timeless_text(time_keys: Sequence[str]) -> str:
    """What is said of logs that have no time where it is looked for."""
    keys = ", ".join(f"`{key}`" for key in time_keys)
    return (
        f"have no time under {keys}: they get the time of loading as log time; --time-key names another key"
    )


def oddities(counts: Counts | Loading, time_keys: Sequence[str]) -> list[str]:
    """What of a load was not as usual, and how often: all that a log does not carry as its file has it, and
    where no time was found under `time_keys`."""
    null = "values are null, or `-` in the place of one, and are not sent: their keys are left out"
    time = "they got the time of loading as log time, their own stays in its key"
    ahead = "rows are further ahead of the service's clock than the 15 minutes it takes"
    found = {
        "lines did not have the format: kept whole under the key `line`": counts.odd_lines,
        "blank lines left out": counts.blank_lines,
        null: counts.valueless,
        f"rows have a time that cannot be read: {time}": counts.odd_times,
        f"of {counts.rows:,} rows {timeless_text(time_keys)}": counts.timeless,
        f"rows are older than the 7 days the service takes: {time}": counts.late_rows,
        f"{ahead}: {time}": counts.future_rows,
    }
    return [f"{count:,} {what}" for what, count in found.items() if count]
