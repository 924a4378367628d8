"""Times as people write them -> unix seconds, in which the service keeps receive times."""

from datetime import UTC, datetime
from math import isfinite
from typing import Literal

from sls_io.values.errors import ConfigError, printable

Moment = int | float | str | datetime
"""Unix seconds, an ISO text, or a datetime; without a zone it is UTC."""
_TEXT_CHARS_MAX = 40
WRITTEN = (
    "%Y/%m/%d %T", "%y/%m/%d %T",
    *(f"{day}{clock}" for clock in (" %T", " %H:%M", "")
      for day in ("%d.%m.%Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y")),
    "%d.%m.%y %T", "%d.%m.%y %H:%M",
)  # fmt: skip
"""Texts that are no ISO and mean one moment all the same, in UTC, as formats of strptime. Where a day comes
before its month, points or the month's name say so: `03/04/2026` may be either."""
END_S = 7_258_118_400
"""The first second of 2200: no time is as late. What is later was meant as milliseconds."""


class TooLate(ConfigError):
    """A time after 2199."""


def unix_s(moment: Moment) -> int:
    """Whole unix seconds; what is finer is cut off. Raises ConfigError for a text or number that is no time,
    and TooLate, which is one, for a time after 2199."""
    if isinstance(moment, str):
        moment = _time(moment)
    if isinstance(moment, datetime):
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(moment, float) and not isfinite(moment):
        raise ConfigError("a time is a number of seconds: not infinite, and not nan")
    if moment >= END_S:
        raise TooLate("a time after 2199: write unix seconds, not milliseconds, or 2026-11-20T08:00:00")
    return int(moment)


def place_of(first: Literal["begin", "end"] | Moment) -> Literal["begin", "end"] | int:
    """A shard's edge as it is, a time in unix seconds. Raises ConfigError for a text that is neither."""
    match first:
        case "begin" | "end":
            return first
        case _:
            return unix_s(first)


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{printable(text, _TEXT_CHARS_MAX)!r} is no time: write it as 2026-11-20T08:00:00, which is "
            "UTC, or with an offset"
        ) from None
