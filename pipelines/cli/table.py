"""`sls-lake table`: what a person decides about a table. A dry run until `--execute`."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, hour_name, moment, verb
from pipelines.landing import rollback as rolling_back
from pipelines.landing.table import Lake

_DRY = "dry run: nothing was changed; add --execute to do it"


@click.group("table")
def table() -> None:
    """Settle a table: rollback, adopt. A dry run until --execute; each takes --json and --debug."""


def execute_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The `--execute` option of every verb that changes something."""
    return click.option("--execute", is_flag=True, help="Do it; without this it is a dry run.")(function)


@table.command("rollback")
@click.argument("snapshot", type=int)
@logstore_option
@execute_option
@verb
def rollback(output: Output, *, snapshot: int, name: str | None, execute: bool) -> None:
    """Give the table the rows and the ledger of the landing SNAPSHOT, as a new commit.

    What leaves is pulled again by the next runs as far as retention still has it; the rest becomes a
    named gap. `sls-lake windows` lists the landings.
    """
    logstore, lake = resolve(name), Lake.default()
    planned = rolling_back.plan(lake, logstore.table, snapshot)
    show_rollback(output, planned.view)
    committed = rolling_back.execute(lake, planned) if execute else None
    if committed is None:
        output.say(_DRY)
    else:
        output.say(f"done: snapshot {committed} of {logstore.table} is what {snapshot} was; land again")
    output.result({"executed": execute, "committed": committed, **asdict(planned.view)})


def show_rollback(output: Output, view: rolling_back.Rollback) -> None:
    """What would happen, for people."""
    output.say(
        f"{view.table} back to snapshot {view.snapshot_id}, landed {moment(view.landed_ms / 1000)} UTC"
    )
    for note in view.notes:
        output.say(note)
    output.say(
        f"rows of main: {_count(view.rows)} now, {_count(view.rows_then)} then "
        f"({view.rows_leaving:,} leave in {view.files_leaving} files, "
        f"{view.rows_returning:,} return in {view.files_returning})"
    )
    output.table(
        ["origin", "shard", ">frontier", ">then", ">rows in ledger", ">then", "given back", "had again"],
        [
            (
                shard.origin,
                str(shard.shard),
                str(shard.frontier),
                str(shard.frontier_then),
                shard.rows,
                shard.rows_then,
                _intervals(shard.withdrawn),
                _intervals(shard.regained),
            )
            for shard in view.shards
        ],
    )
    if view.hours:
        output.say(f"receive hours affected: {', '.join(hour_name(hour) for hour in view.hours)}")
    if any(shard.withdrawn for shard in view.shards):
        output.say("what is given back is pulled again by the next runs, or becomes a gap if it expired")


def _count(rows: int | None) -> str:
    return "unknown" if rows is None else f"{rows:,}"


def _intervals(pairs: tuple[tuple[int, int], ...]) -> str:
    return " ".join(f"\\[{begin}, {end})" for begin, end in pairs)
