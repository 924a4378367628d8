"""`sls-lake table register` and `start-over`: a table that the catalog has lost."""

from dataclasses import asdict

import click
from rich.markup import escape

from pipelines.cli import session
from pipelines.cli.deciding import execute_option
from pipelines.cli.logstores import logstore_option, resolve_to_land
from pipelines.cli.output import Output, moment, verb
from pipelines.landing.operations import register as registering
from pipelines.landing.table import calls
from pipelines.landing.table.lake import Lake
from sls_io.wire.client import SlsClient


@click.command("register")
@click.option("--metadata", default="", metavar="FILE", help="Register this metadata file, not the newest.")
@logstore_option
@execute_option
@verb
def register(output: Output, *, metadata: str, name: str | None, execute: bool) -> None:
    """Register the newest metadata of a table that the catalog has lost, or has in an older state.

    Looks in the table's folder and checks what it finds: the ledger, the files of the newest landing, the
    logstore. Metadata that fails a check is registered only when --metadata names it. Deletes nothing.
    """
    logstore, lake = resolve_to_land(name), Lake.default()
    with SlsClient(logstore.service) as client:
        planned = registering.plan_register(lake, logstore, client, metadata=metadata)
    view = planned.view
    rows = "an unknown number of" if view.rows is None else f"{view.rows:,}"
    output.say(
        f"{view.table}: {escape(view.metadata)}, written {moment(view.updated_ms / 1000)} UTC, with "
        f"{view.snapshots:,} snapshots and {rows} rows"
    )
    output.say(f"table {view.uuid}; the catalog names {escape(view.named) or 'nothing'} now")
    for note in view.notes:
        output.say(escape(note))
    for trouble in view.trouble:
        output.say(f"[red]{escape(trouble)}[/]")
    table = registering.register(lake, planned) if execute else None
    if table is None:
        output.say("dry run: nothing was changed; this does it:")
        output.say_cures(registering.call_of(planned))
    else:
        output.say(f"done: the catalog names {escape(table.metadata_location)}")
        output.say_cures(calls.VERIFY.plus(does="proves it"))
    does_it = {} if execute else {"does_it": calls.shown(registering.call_of(planned), session.logstore())}
    output.result({"executed": execute, **does_it, **asdict(view)})


@click.command("start-over")
@logstore_option
@execute_option
@verb
def start_over(output: Output, *, name: str | None, execute: bool) -> None:
    """Give up a table that the catalog has lost, or whose metadata is gone: make a new, empty one in a folder
    of its own.

    The old files stay where they are, and no verb touches them any more. The next run begins where
    `reset` says. Not for a table that is in the catalog and can be read.
    """
    logstore, lake = resolve_to_land(name), Lake.default()
    with SlsClient(logstore.service) as client:
        planned = registering.plan_start_over(lake, logstore, client)
    for phrase in planned.found:
        output.say(escape(phrase))
    output.say(f"given up with it: a new table {planned.table} {_where(planned.location)}")
    table = registering.start_over(lake, logstore, planned) if execute else None
    if table is None:
        output.say_dry()
    else:
        output.say(f"done: {planned.table} is new and lies in {escape(table.location())}; land")
    location = table.location() if table else planned.location
    output.result({"executed": execute, **asdict(planned), "location": location})


def _where(location: str) -> str:
    return f"begins in {escape(location)}" if location else "begins where the catalog puts it"
