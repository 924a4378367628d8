"""A logstore's findings for people: what is wrong, how wrong, and what shows or mends it."""

from collections.abc import Iterable

from rich.markup import escape

from pipelines.cli.output import Output
from pipelines.landing.watch.health import Finding, Kind, Level
from sls_io.values.cures import Cure

_MARKS = {
    Level.OK: "{}",
    Level.WARN: "[yellow]{} warns[/]",
    Level.FAIL: "[red]{} fails[/]",
    Level.UNKNOWN: "[yellow]{} is unknown[/]",
}


def say_findings(output: Output, found: Iterable[Finding]) -> None:
    """A line for each kind that is not well, with what has no room in it below, and what settles it, once.
    The runway always has a line."""
    told = set[Cure]()
    for each in found:
        if each.level is Level.OK and each.kind is not Kind.RUNWAY:
            continue
        output.say(f"{_MARKS[each.level].format(each.kind.value)}: {escape(each.text)}")
        for line in each.more:
            output.say(f"  {escape(line)}")
        output.say_cures(*(cure for cure in each.cures if cure not in told))
        told.update(each.cures)
