"""`sls-lake table repair-manifests`: the data files of lost manifests listed again."""

import click
from rich.markup import escape

from pipelines.cli.deciding import decide, execute_option, without_missing_option
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, verb
from pipelines.landing.operations.repair_manifests import plan_repair_manifests
from pipelines.landing.table import calls
from pipelines.landing.table.lake import Lake
from sls_io.wire.client import SlsClient


@click.command("repair-manifests")
@without_missing_option(
    "List what is there although rows are missing; sls-lake verify then names what brings those back."
)
@logstore_option
@execute_option
@verb
def repair_manifests(output: Output, *, without_missing: bool, name: str | None, execute: bool) -> None:
    """List the data files of lost or damaged manifests again, even when all manifests are lost.

    No row changes. Takes the files in the table's folder that together hold exactly the rows that the ledgers
    of its logstores know. Where no files do, nothing is changed.
    """
    logstore, lake = resolve(name), Lake.default()
    with SlsClient(logstore.service) as client:
        planned = plan_repair_manifests(lake, logstore, client, without_missing=without_missing)
    view = planned.view
    output.say(
        f"{view.table}: {escape(', '.join(view.lost))} cannot be read; {view.files:,} data files with "
        f"{view.rows:,} rows are listed again, {view.left:,} others stay unlisted"
    )
    output.table(
        ["origin", "shard", ">rows listed", ">rows listed again", ">rows in ledger"],
        [(x.origin, str(x.shard), x.rows_listed, x.rows_again, x.rows_known) for x in view.shards],
    )
    if view.missing:
        output.say(
            f"[red]{view.missing:,} rows are missing. Restore lost "
            " data files first if you can: this command lists them then, with what is left out for "
            "their sake[/]"
        )
    decide(output, lake, planned, now=execute, then=(calls.VERIFY.plus(does="proves it"),))
