"""A logstore's findings for people: what is wrong, how wrong, and what shows or mends it."""

from collections.abc import Iterable

from rich.markup import escape

from pipelines.cli.output import Output
from pipelines.landing.watch.health import Finding, Kind, Level

_MARKS = {
    Level.OK: "{}",
    Level.WARN: "[yellow]{} warns[/]",
    Level.FAIL: "[red]{} fails[/]",
    Level.UNKNOWN: "[yellow]{} is unknown[/]",
}


def say_findings(output: Output, found: Iterable[Finding]) -> None:
    """A line for each kind that is not well, with what has no room in it below; the runway always has one."""
    for each in found:
        if each.level is Level.OK and each.kind is not Kind.RUNWAY:
            continue
        output.say(f"{_MARKS[each.level].format(each.kind.value)}: {escape(each.text)}")
        for line in each.more:
            output.say(f"  {escape(line)}")
        for name, text in each.cures.items():
            output.say(f"  {name}: {escape(text)}")
