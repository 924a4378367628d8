"""`sls-lake landings`: what is on its way to the table, what hangs, and a landing aborted."""

from typing import Any

import click
from pyiceberg.table import Table

from pipelines.cli.deciding import decision, show_effect
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, span, verb
from pipelines.landing.commit.operation import Decision
from pipelines.landing.inspection.landings import (
    Landings,
    OneLanding,
    Stage,
    described,
    landings_of,
)
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.abort import plan_abort
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.cures import Call
from sls_io.wire.client import SlsClient

_SHOWN = 10
_COLUMNS = ("run", "state", "at_s", "windows", "rows", "size", "first_s", "last_s", "why")


@click.group("landings")
def landings() -> None:
    """What is on its way: show, abort. A dry run until --execute; --json, --debug."""


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
@logstore_option
@verb
def show(output: Output, *, run: str | None, only: tuple[str, ...], last: int, name: str | None) -> None:
    """Show the landings: committed, open (a run may be at work), hanging (nothing was written for longer than
    the time-out), aborted; of RUN its files, too, and what each whole file holds.

    A landing is known by the first digits of its id, which the names of its files have and sls-lake windows
    prints. Nothing that is not committed is seen by any reader.
    """
    logstore, lake = resolve(name), Lake.default()
    found = landings_of(logstore, lake)
    if run is not None:
        _show_one(output, found, found.one(run), lake.load(logstore.table))
    else:
        _show(output, found, [x for x in found.found if not only or x.state in only][-last:])


def _show_one(output: Output, found: Landings, one: OneLanding, table: Table | None) -> None:
    one = described(one, table) if table is not None else one
    show_effect(output, one)
    output.result({"timeout_s": found.timeout_s, **one.document()})


@decision(landings, "abort", click.argument("run", metavar="RUN"))
def abort(lake: Lake, logstore: Logstore, client: SlsClient, run: str) -> Decision[Any]:
    """Make sure that the landing RUN is never committed; its files are left to the sweep.

    Whatever its run has sent or will send is refused, also when the run was paused and wakes later. It ends
    with an error, and the next one lands what it had pulled.
    """
    return plan_abort(lake, logstore, run)


def _show(output: Output, found: Landings, chosen: list[OneLanding]) -> None:
    documents = [x.document() for x in chosen]
    # Of one that was not committed nobody has counted them: its files are read where it is asked for.
    unread = {"windows": None, "rows": None}
    rows = [one if one["state"] == Stage.COMMITTED else one | unread for one in documents]
    output.records([{name: one[name] for name in _COLUMNS} for one in rows], less=("size", "windows"))
    output.say(f"{len(chosen)} of {len(found.found)} landings; the time-out is {span(found.timeout_s)}")
    if found.others:
        output.say(f"{found.others} other files that no snapshot has:")
        output.say_cures(commands.WINDOWS.plus(does="lists them"))
    for x in chosen:
        if x.state is Stage.HANGING:
            output.say_cures(Call(("landings", "abort", x.run), does="makes sure that it is never committed"))
    output.result(
        {"table": found.table, "timeout_s": found.timeout_s, "others": found.others, "landings": documents}
    )
