"""Receive hours as people write them on the command line, always UTC."""

from datetime import UTC, datetime

import click

from sls_io.window import HOUR_S

HOURS_MAX = 24 * 366


class Hour(click.ParamType[int]):
    """A whole receive hour, UTC: `2026-11-20-07:00`, `2026-11-20T07` or `2026-11-20 07:00`."""

    name = "hour"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:  # hours since 1970
        """Hours since 1970-01-01 00:00 UTC."""
        if isinstance(value, int):
            return value
        text = str(value)
        for form in ("%Y-%m-%d-%H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H", "%Y-%m-%d %H:%M", "%Y-%m-%d-%H"):
            try:
                at = datetime.strptime(text, form).replace(tzinfo=UTC)
            except ValueError:
                continue
            if at.minute:
                self.fail(f"{text} is not a whole hour", param, ctx)
            return int(at.timestamp()) // HOUR_S
        self.fail(f"{text!r} is no hour; write it like 2026-11-20-07:00 (UTC)", param, ctx)


class Hours(click.ParamType[range]):
    """`A` or `A..B`: whole receive hours, UTC, both included."""

    name = "hours"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Hours since 1970."""
        first, dots, last = str(value).partition("..")
        begin = Hour().convert(first, param, ctx)
        end = Hour().convert(last, param, ctx) if dots else begin
        if not begin <= end < begin + HOURS_MAX:
            self.fail(f"{value!r}: the last hour is before the first, or a year after it", param, ctx)
        return range(begin, end + 1)
