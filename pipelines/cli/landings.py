"""`sls-lake landings`: what is on its way to the table, what hangs, and a landing aborted."""

from typing import Any

import click

from pipelines.cli.deciding import decision, show
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, megabytes, moment, span, verb
from pipelines.landing.commit.operation import Decision
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.landings import (
    Landings,
    OneLanding,
    Stage,
    described,
    landings_of,
)
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.abort import plan_abort
from pipelines.landing.table import calls
from pipelines.landing.table.lake import Lake
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.cures import Call
from sls_io.wire.client import SlsClient

_RUN = click.argument("run", metavar="RUN")
_SHOWN = 10


@click.group("landings")
def landings() -> None:
    """What is on its way: list, describe, abort. A dry run until --execute; --json, --debug."""


@landings.command("list")
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
def listed(output: Output, *, only: tuple[str, ...], last: int, name: str | None) -> None:
    """Show the landings: committed, open (a run may be at work), hanging (nothing was written for longer than
    the time-out), aborted.

    A landing is known by the first digits of its id, which the names of its files have and sls-lake windows
    prints. Nothing that is not committed is seen by any reader.
    """
    found = landings_of(resolve(name), Lake.default())
    chosen = [x for x in found.found if not only or x.state in only][-last:]
    _show(output, found, chosen)


@landings.command("describe")
@_RUN
@logstore_option
@verb
def describe(output: Output, *, run: str, name: str | None) -> None:
    """Show one landing: state, age, its files, and what each whole file holds."""
    logstore, lake = resolve(name), Lake.default()
    found = landings_of(logstore, lake)
    table = lake.load(logstore.table)
    one = found.one(run)
    one = described(one, table) if table is not None else one
    show(output, one)
    output.result({"timeout_s": found.timeout_s, **one.document()})


@decision(landings, "abort", _RUN)
def abort(lake: Lake, logstore: Logstore, client: SlsClient, run: str) -> Decision[Any]:
    """Make sure that the landing RUN is never committed; its files are left to the sweep.

    Whatever its run has sent or will send is refused, also when the run was paused and wakes later. It ends
    with an error, and the next one lands what it had pulled.
    """
    return plan_abort(lake, logstore, run)


def _show(output: Output, found: Landings, chosen: list[OneLanding]) -> None:
    now_s = SYSTEM_CLOCK.now()
    output.table(
        [
            "run",
            "state",
            "landed (UTC)",
            ">windows",
            ">rows",
            ">files",
            ">size",
            ">age",
            ">silent for",
            "receive hours",
            "",
        ],
        [
            (
                x.run,
                str(x.state),
                moment(x.at_s),
                x.windows or None,
                x.rows if x.snapshot_id is not None else None,
                len(x.files) or None,
                megabytes(x.size) if x.files else "",
                span(_since(now_s, x.first_s)),
                span(_since(now_s, x.last_s)),
                _hours(x),
                x.why,
            )
            for x in chosen
        ],
        less=("size", "windows", "receive hours"),
    )
    output.say(f"{len(chosen)} of {len(found.found)} landings; the time-out is {span(found.timeout_s)}")
    if found.others:
        output.say(f"{found.others} other files that no snapshot has:")
        output.say_cures(calls.WINDOWS.plus(does="lists them"))
    for x in chosen:
        if x.state is Stage.HANGING:
            output.say_cures(Call(("landings", "abort", x.run), does="makes sure that it is never committed"))
    documents = [x.document() for x in chosen]
    output.result(
        {"table": found.table, "timeout_s": found.timeout_s, "others": found.others, "landings": documents}
    )


def _since(now_s: float, then_s: float | None) -> float | None:
    return None if then_s is None else max(0.0, now_s - then_s)


def _hours(one: OneLanding) -> str:
    """The first receive hour of its files, and how many more."""
    hours = sorted({f.hour for f in one.files})
    more = f" +{len(hours) - 1}" if len(hours) > 1 else ""
    return f"{hour_text(hours[0])}{more}" if hours else ""
