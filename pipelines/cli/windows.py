"""`sls-lake windows`: what landed when, by which run, what is missing, and files nobody refers to."""

from dataclasses import asdict
from typing import Any

import click

from pipelines.cli import session
from pipelines.cli.hours import older_than_option
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, megabytes, moment, verb
from pipelines.landing.commit.effect import record
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.history import Entry, History, history
from pipelines.landing.ledger.epochs import RUN_CHARS
from pipelines.landing.ledger.state import others_text
from pipelines.landing.ledger.values import Landed
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.window import HOUR_S

_ORPHANS_SHOWN = 10
_HOURS_SHOWN = 24


@click.command("windows")
@logstore_option
@click.option(
    "--last", type=click.IntRange(min=1), default=10, show_default=True, help="How many landings to show."
)
@click.option(
    "--orphans/--no-orphans", default=True, show_default=True, help="Look for files no snapshot refers to."
)
@older_than_option(least=0, says="Younger files are no orphans: a landing may be about to publish them.")
@verb
def windows(output: Output, *, name: str | None, last: int, orphans: bool, floor_hours: float) -> None:
    """Show the landings and their windows, files per hour, gaps, withdrawn intervals and orphan files."""
    found = history(resolve(name), Lake.default(), orphans=orphans, floor_s=floor_hours * HOUR_S)
    shown = found.entries[-last:]
    show(output, found, shown, floor_hours)
    cures = commands.documents(found.cures, session.logstore())
    document = {**asdict(found), "entries": [_plain(e) for e in shown], "cures": cures}
    output.result(document, fails=bool(found.unreadable))


def _plain(entry: Entry) -> dict[str, Any]:
    """The landing for a program. A snapshot keeps no sum of a window: the ledger's is one of the shard."""
    plain = asdict(entry) | {"rows": entry.rows}
    for window in plain["windows"]:
        del window["sum"], window["barred"]
    return plain


def show(output: Output, found: History, entries: tuple[Entry, ...], floor_hours: float) -> None:
    """The history for people: a line a landing, then a line a window, newest last. `floor_hours`: the age of
    an orphan at least."""
    kept = moment((found.kept_from or 0) / 1000) or "never"
    output.say(
        f"{found.table}: {len(entries)} of {len(found.entries)} landings, snapshots kept since {kept} UTC"
    )
    output.records([_of_landing(e) for e in entries], less=("windows", "run"))
    output.records([_of_window(e, x) for e in entries for x in e.windows], less=("run", "end"))
    output.records([record(hour) for hour in found.files[-_HOURS_SHOWN:]])
    for gone in found.missing:
        end = "?" if gone.end is None else gone.end
        output.say(f"shard {gone.shard}: \\[{gone.begin}, {end}) {gone.cause}")
    if found.adopted:
        output.say(f"{found.adopted:,} rows of the table were adopted: no landing brought them")
    _show_orphans(output, found, floor_hours)
    if found.others:
        output.say(f"[red]orphan files cannot be told from others[/]: {others_text(found.others)}")
    if found.unreadable:
        output.say(f"[red]the table cannot be read as a whole[/]: {found.unreadable}")
    if found.trouble:
        output.say(f"[red]landings are refused[/]: {found.trouble}")
    output.say_cures(*found.cures)


def _of_landing(entry: Entry) -> dict[str, object]:
    """A landing's line."""
    return {
        "landed_ms": entry.at_ms,
        "snapshot": entry.snapshot_id,
        "run": entry.run[:RUN_CHARS],
        "windows": len(entry.windows),
        "rows": entry.rows,
        "hours": _hours(entry),
        "": ", ".join(part for part in (entry.verb, _left(entry)) if part),
    }


def _of_window(entry: Entry, landed: Landed) -> dict[str, object]:
    """The line of a window that the landing brought."""
    withdrawn = entry.in_table and landed.window in entry.withdrawn
    return {
        "run": entry.run[:RUN_CHARS],
        **record(landed.window),
        "rows": landed.rows,
        "": "withdrawn" if withdrawn else landed.flags,
    }


def _left(entry: Entry) -> str:
    """Which part of the landing is no longer in the table, in words."""
    if not entry.in_table:
        return "taken back"
    if not entry.withdrawn:
        return ""
    return "withdrawn" if len(entry.withdrawn) == len(entry.windows) else "partly withdrawn"


def _hours(entry: Entry) -> str:
    """The first receive hour, and how many more."""
    hours = sorted({x.window.hour for x in entry.windows})
    more = f" +{len(hours) - 1}" if len(hours) > 1 else ""
    return f"{hour_text(hours[0])}{more}" if hours else ""


def _show_orphans(output: Output, found: History, floor_hours: float) -> None:
    if found.orphans is None:
        return
    if not found.orphans:
        output.say(f"no orphan files older than {floor_hours:g} hours")
        return
    size = megabytes(sum(orphan.size for orphan in found.orphans))
    output.say(f"{len(found.orphans)} orphan files, {size}: no snapshot refers to them")
    for orphan in found.orphans[:_ORPHANS_SHOWN]:
        output.say(f"  {orphan.path}, {megabytes(orphan.size)}, {moment(orphan.modified_s)} UTC")
