"""Receive hours as options of the command line, and how old a file has to be."""

from collections.abc import Callable
from typing import Any

import click

from pipelines.cli.typed import Typed
from pipelines.landing.hours import hour_of, hours_of


def older_than_option(*, least: int, says: str) -> Callable[[Any], Any]:
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


HOUR = Typed("hour", hour_of)
"""A whole receive hour, UTC: `2026-11-20-07:00`, `2026-11-20T07` or `2026-11-20 07:00`; hours since 1970."""
HOURS = Typed("hours", hours_of)
"""`A` or `A..B`: whole receive hours, UTC, both included."""
