"""`sls-lake landings`: what landed when and by which run, what is on its way or hangs, what is missing, files
that nobody refers to; and a landing aborted."""

from typing import Any

import click
from pyiceberg.table import Table
from rich.markup import escape

from pipelines.cli import session
from pipelines.cli.deciding import decision, show_effect
from pipelines.cli.hours import older_than_option
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, megabytes, moment, span, verb
from pipelines.landing.commit.effect import Row, record
from pipelines.landing.commit.planned import Decision
from pipelines.landing.inspection.landings import (
    Landings,
    OneLanding,
    Stage,
    described,
    landings_of,
    one_of,
)
from pipelines.landing.ledger.state import others_text
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.abort import plan_abort
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError, amount
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

_SHOWN = 10
_ORPHANS_SHOWN = 10
_HOURS_SHOWN = 24


@click.group("landings")
def landings() -> None:
    """What landed, and what is on its way: show, abort. A dry run until --execute; --json, --debug."""


@landings.command("show")
@click.argument("run", metavar="[RUN]", required=False)
@click.option(
    "--state",
    "only",
    type=click.Choice([str(s) for s in Stage]),
    multiple=True,
    help="Only landings in this state; may be given again.",
)
@click.option(
    "--last", type=click.IntRange(min=1), default=_SHOWN, show_default=True, help="How many to show."
)
@click.option(
    "--orphans/--no-orphans",
    default=True,
    show_default=True,
    help="Look for files that no snapshot refers to, and so for what is on its way.",
)
@older_than_option(least=0, says="Younger files are no orphans: a landing may be about to publish them.")
@logstore_option
@verb
def show(
    output: Output,
    *,
    run: str | None,
    only: tuple[str, ...],
    last: int,
    orphans: bool,
    floor_hours: float,
    name: str | None,
) -> None:
    """Show the landings: committed, open (a run may be at work), hanging (nothing was written for longer than
    the time-out), aborted; and files per hour, gaps, withdrawn intervals, orphan files. Of RUN its windows
    and its files, and what each whole file holds.

    A landing is known by the first digits of its id, which the names of its files have. Nothing that is not
    committed is seen by any reader. Reads the table alone, also one that landings refuse.
    """
    logstore, lake = resolve(name), Lake.default().one_look()
    found = landings_of(logstore, lake, orphans=orphans, floor_s=floor_hours * HOUR_S)
    if run is not None:
        _show_one(output, found, run, lake.load(logstore.table))
        return
    chosen = [x for x in found.found if not only or x.state in only][-last:]
    show_all(output, found, chosen, floor_hours)
    documents = [x.document() for x in chosen]
    cures = commands.documents(found.cures, session.logstore())
    output.result(
        {**found.document(), "landings": documents, "cures": cures}, fails=found.unreadable is not None
    )


@decision(landings, "abort", click.argument("run", metavar="RUN"))
def abort(lake: Lake, logstore: Logstore, client: SlsClient, run: str) -> Decision[Any]:
    """Make sure that the landing RUN is never committed; its files are left to the sweep.

    Whatever its run has sent or will send is refused, also when the run was paused and wakes later. It ends
    with an error, and the next one lands what it had pulled.
    """
    return plan_abort(lake, logstore, run)


def show_all(output: Output, found: Landings, chosen: list[OneLanding], floor_hours: float) -> None:
    """The landings for people, a line each, newest last, and what lies beside them. `floor_hours`: the age of
    an orphan at least."""
    output.say(
        f"{found.table}: {len(chosen)} of {amount(len(found.found), 'landing')}, snapshots kept since "
        f"{moment(found.kept_from_s) or 'never'} UTC; the time-out is {span(found.timeout_s)}"
    )
    output.records([_row(one) for one in chosen], less=("size", "windows", "first_s"))
    output.records([record(hour) for hour in found.files[-_HOURS_SHOWN:]])
    for gone in found.missing:
        end = "?" if gone.end is None else gone.end
        output.say(f"shard {gone.shard}: \\[{gone.begin}, {end}) {gone.cause}")
    if found.adopted:
        output.say(f"{found.adopted:,} rows of the table were adopted: no landing brought them")
    _show_orphans(output, found, floor_hours)
    if found.others:
        output.say(f"[red]orphan files cannot be told from others[/]: {escape(others_text(found.others))}")
    if found.unreadable:
        output.say(f"[red]the table cannot be read as a whole[/]: {escape(str(found.unreadable))}")
    if found.trouble:
        output.say(f"[red]landings are refused[/]: {escape(str(found.trouble))}")
    output.say_cures(*found.cures)
    for x in chosen:
        if x.state is Stage.HANGING:
            output.say_cures(Call(("landings", "abort", x.run), does="makes sure that it is never committed"))


def _show_one(output: Output, found: Landings, run: str, table: Table | None) -> None:
    try:
        one = one_of(found.found, run)
    except ConfigError as error:
        if found.unreadable is not None:  # whether there is one nobody knows
            raise found.unreadable from error
        raise
    one = described(one, table) if table is not None else one
    show_effect(output, one)
    output.result({"timeout_s": found.timeout_s, **one.document()})


def _row(one: OneLanding) -> Row:
    """A landing's line. Of one that was not committed the files are read where it is asked for."""
    hours = sorted({x.window.hour for x in one.windows})
    return {
        "run": one.run,
        "state": one.state,
        "at_s": one.at_s,
        "snapshot": one.snapshot_id,
        "windows": len(one.windows) or None,
        "rows": one.rows,
        "hours": range(hours[0], hours[-1] + 1) if hours else None,
        "size": one.size or None,
        "first_s": one.first_s,
        "last_s": one.last_s,
        "": ", ".join(part for part in (one.verb, one.left, one.why) if part),
    }


def _show_orphans(output: Output, found: Landings, floor_hours: float) -> None:
    if found.orphans is None:
        return
    if not found.orphans:
        output.say(f"no orphan files older than {floor_hours:g} hours")
        return
    size = megabytes(sum(orphan.size for orphan in found.orphans))
    output.say(f"{len(found.orphans)} orphan files, {size}: no snapshot refers to them")
    for orphan in found.orphans[:_ORPHANS_SHOWN]:
        output.say(f"  {escape(orphan.path)}, {megabytes(orphan.size)}, {moment(orphan.modified_s)} UTC")
