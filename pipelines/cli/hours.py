"""Receive hours as options of the command line, and how old a file has to be."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pipelines.landing.hours import hour_of, hours_of
from sls_io.values.errors import ConfigError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def older_than_option(*, least: int, says: str) -> Callable[[_Command], _Command]:
    """`--older-than HOURS` as the argument `floor_hours`: at least `least`, a day unless said otherwise."""
    return click.option(
        "--older-than",
        "floor_hours",
        type=click.FloatRange(min=least),
        default=24,
        show_default=True,
        metavar="HOURS",
        help=says,
    )


class HourParam(click.ParamType[int]):
    """A whole receive hour, UTC: `2026-11-20-07:00`, `2026-11-20T07` or `2026-11-20 07:00`."""

    name = "hour"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:  # hours since 1970
        """Hours since 1970-01-01 00:00 UTC."""
        if isinstance(value, int):
            return value
        try:
            return hour_of(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class Hours(click.ParamType[range]):
    """`A` or `A..B`: whole receive hours, UTC, both included."""

    name = "hours"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Hours since 1970."""
        try:
            return hours_of(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)
