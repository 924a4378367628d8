"""Receive hours as people write and read them: whole hours since 1970, always UTC.

2026-11-20-07:00                        one hour
2026-11-20-07:00..2026-11-20-09:00      three, both ends included
"""

from collections.abc import Collection
from datetime import UTC, datetime

from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError, printable
from sls_io.values.window import HOUR_S, IntervalSet

HOURS_MAX = 24 * 366
_HOURS_END = int(datetime(9999, 12, 31, 23, tzinfo=UTC).timestamp()) // HOUR_S
"""The calendar's last hour has no end that anybody could write."""
HOUR_FORM = "%Y-%m-%d-%H:%M"
"""Also of the keys of partitions: Dagster's own, to the minute."""
_FORMS = (HOUR_FORM, "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H", "%Y-%m-%d %H:%M", "%Y-%m-%d-%H")


def hour_of(text: str) -> int:
    """The hour since 1970 that `text` names, also as `2026-11-20T07` or `2026-11-20 07:00`.

    Raises ConfigError for what is no whole hour.
    """
    for form in _FORMS:
        try:
            at = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        if at.minute:
            raise ConfigError(f"{text} is not a whole hour")
        hour = int(at.timestamp()) // HOUR_S
        if not 0 <= hour < _HOURS_END:
            raise ConfigError(f"{text} is no receive hour: they go from 1970-01-01-00:00 to 9999-12-31-22:00")
        return hour
    raise ConfigError(f"{printable(text, 60)!r} is no hour; write it like 2026-11-20-07:00 (UTC)")


def minute_of(text: str) -> int:
    """Unix seconds of `2026-11-20-07:20`, UTC. Raises ConfigError for anything else."""
    try:
        return int(datetime.strptime(text, HOUR_FORM).replace(tzinfo=UTC).timestamp())
    except ValueError:
        wrong = printable(text, 60)
        raise ConfigError(f"{wrong!r} is no minute; write it like 2026-11-20-07:20 (UTC)") from None


def hours_of(text: str) -> range:
    """The hours since 1970 of `A` or `A..B`. Raises ConfigError for anything else."""
    first, dots, last = text.partition("..")
    begin = hour_of(first)
    end = hour_of(last) if dots else begin
    if not begin <= end < begin + HOURS_MAX:
        raise ConfigError(f"{printable(text, 60)!r}: the last hour is before the first, or a year after it")
    return range(begin, end + 1)


def hour_text(hour: int) -> str:
    """`2026-11-20-07:00` for an hour since 1970; Dagster's key of its partition, too."""
    return moment_text(hour * HOUR_S)


def hours_text(hours: range) -> str:
    """`2026-11-20-07:00` for one receive hour, the first and the last with `..` between for more."""
    return "..".join(map(hour_text, sorted({hours.start, hours.stop - 1})))


def check_begun(hours: range, now_s: float, mode: str) -> None:
    """Raise ConfigError for hours that have not begun at `now_s`, the machine's time: Dagster, which has no
    other clock, knows no such partition, and would call it landed when a run of it has found nothing."""
    running = int(now_s) // HOUR_S
    if hours[-1] > running:
        first, last = hour_text(hours[0]), hour_text(hours[-1])
        ahead = hours_text(range(max(hours.start, running + 1), hours.stop))
        raise ConfigError(
            f"{ahead} has not begun by this machine's clock ({moment_text(int(now_s))} UTC), and Dagster "
            f"goes by that: ask for hours up to {hour_text(running)}, or wait. Where the service's clock is "
            "ahead of this one, land it without Dagster",
            cures=(Call(("backfill", "--local", "--mode", mode, "--from", first, "--to", last)),),
        )


def moment_text(time_s: int) -> str:
    """Unix seconds as `2026-11-20-07:00`, UTC."""
    return datetime.fromtimestamp(time_s, UTC).strftime(HOUR_FORM)


def spans(hours: Collection[int]) -> list[str]:
    """Receive hours as options of `sls-lake backfill`: one text for hours that follow one another."""
    return [
        f"--from {hour_text(begin)}" + (f" --to {hour_text(end - 1)}" if end - begin > 1 else "")
        for begin, end in IntervalSet.of((hour, hour + 1) for hour in hours)
    ]
