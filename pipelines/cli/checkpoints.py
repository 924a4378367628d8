"""`sls-lake checkpoints`: what a group or a checkpoint store has, beside the service and the table."""

from dataclasses import asdict
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.deciding import execute_option
from pipelines.cli.land import own_holder
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, moment, span, verb
from pipelines.cli.reset import refuse_fed, reset
from pipelines.cli.stores import PLACES, WHERE, GroupName, fate_text, not_done, reader_option, store_of
from pipelines.landing.maintenance.repair import execute_repair, plan_repair
from pipelines.landing.run.report import CheckpointOutcome
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints.lag import ShardLag, lags
from sls_io.checkpoints.mirror import Difference, compared, mirror
from sls_io.checkpoints.store import Kept
from sls_io.client import SlsClient

_OPEN = {CheckpointOutcome.NOT_HELD, CheckpointOutcome.PUT_OFF}
"""Of these a frontier was not published."""


@click.group("checkpoints")
def checkpoints() -> None:
    """Positions: show, repair, reset, mirror. A dry run until --execute; take --json and --debug."""


checkpoints.add_command(reset)
_DIFFERENCES: dict[Difference, str] = {
    "behind": "is copied",
    "equal": "",
    "ahead": "stays: it is further already",
    "frozen": "stays: frozen",
    "empty": "stays: the source has none",
    "extra": "stays: the source does not know it",
}


@checkpoints.command("show")
@click.option(
    "--group", type=GroupName(), metavar="NAME", help="Another consumer group than the logstore's own."
)
@click.option("--store", "where", metavar="WHERE", help=f"A checkpoint store instead: {WHERE}.")
@reader_option
@logstore_option
@verb
def show(
    output: Output, *, group: str | None, where: str | None, reader: str | None, name: str | None
) -> None:
    """Show where a group or a store stands: checkpoint, receive time, lag, who reads, when it was kept."""
    if where and group:
        raise click.UsageError("--store and --group are two places: name one")
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        chosen = where or (f"group:{group}" if group else "group")
        store = store_of(chosen, logstore, client, reader=reader)
        kept = store.read()
        found = {one.shard: one for one in lags(client, {s: k.cursor for s, k in kept.items()})}
    output.say(escape(store.name))
    shards = sorted({*kept, *found})
    output.table(
        ["shard", ">checkpoint", "received (UTC)", ">lag", "holder", "kept (UTC)", ""],
        [_shown(shard, kept.get(shard), found.get(shard)) for shard in shards],
        less=("kept (UTC)", "received (UTC)"),
    )
    if not kept:
        own = "" if chosen.startswith("group") else f" for reader {reader or logstore.group.name}"
        output.say(f"no position is kept there{escape(own)}: nobody has begun, or it is another one")
    output.result({"store": store.name, "shards": [_entry(s, kept.get(s), found.get(s)) for s in shards]})


def _shown(shard: int, kept: Kept | None, lag: ShardLag | None) -> tuple[str, ...]:
    cursor = kept.cursor if kept else None
    notes = [
        "gone from the service" if lag is None else PLACES[lag.place],
        "frozen" if kept and kept.frozen else "",
        "drained" if lag and lag.drained else "",
    ]
    return (
        str(shard),
        "" if cursor is None else str(cursor),
        moment(lag.received_s) if lag else "",
        span(lag.lag_s) if lag else "",
        kept.holder if kept else "",
        moment(kept.saved_s) if kept else "",
        ", ".join(filter(None, notes)),
    )


def _entry(shard: int, kept: Kept | None, lag: ShardLag | None) -> dict[str, Any]:
    return {
        "shard": shard,
        "checkpoint": kept.cursor if kept else None,
        "saved_s": kept.saved_s if kept else 0.0,
        "frozen": bool(kept and kept.frozen),
        "holder": kept.holder if kept else "",
        "listed": lag is not None,
        "place": lag.place if lag else None,
        "begin": lag.begin if lag else None,
        "end": lag.end if lag else None,
        "received_s": lag.received_s if lag else None,
        "lag_s": lag.lag_s if lag else None,
        "groups_max": lag.groups_max if lag else None,
    }


@checkpoints.command("mirror")
@click.option("--from", "source", default="group", show_default=True, metavar="WHERE", help=f"{WHERE}.")
@click.option("--to", "target", required=True, metavar="WHERE", help="The same words.")
@click.option("--drop", is_flag=True, help="Forget shards that the source does not have.")
@reader_option
@logstore_option
@execute_option
@verb
def mirrored(
    output: Output,
    *,
    source: str,
    target: str,
    drop: bool,
    reader: str | None,
    name: str | None,
    execute: bool,
) -> None:
    """Copy the positions of one store into another, forwards only. Made to be run on a schedule.

    What is ahead in the target stays. A group is written by force, so one that is read, or that feeds a
    table, is refused; for going back there is `sls-lake checkpoints reset`.
    """
    logstore = own_holder(resolve(name))
    with SlsClient(logstore.service) as client:
        kind, _, group = target.partition(":")
        if kind == "group":
            refuse_fed(logstore, group or logstore.group.name, client, "mirror")
        had = store_of(source, logstore, client, reader=reader)
        gets = store_of(target, logstore, client, reader=reader, forced=execute)
        if execute:
            found, written = mirror(had, gets, drop=drop)
        else:
            found, written = compared(had.read(), gets.read()), ()
    became = {one.shard: one for one in written}
    output.say(escape(f"{had.name} into {gets.name}"))
    output.table(
        ["shard", ">from", ">to", ""],
        [
            (
                str(one.shard),
                "" if one.source is None else str(one.source),
                "" if one.target is None else str(one.target),
                fate_text(became[one.shard])
                if one.shard in became
                else "is forgotten"
                if drop and one.difference == "extra"
                else _DIFFERENCES[one.difference],
            )
            for one in found
        ],
    )
    if not execute:
        output.say_dry()
    output.result(
        {
            "executed": execute,
            "from": had.name,
            "to": gets.name,
            "shards": [
                {
                    "shard": one.shard,
                    "checkpoint": one.source,
                    "cursor": one.target,
                    "difference": one.difference,
                    "outcome": became[one.shard].fate if one.shard in became else None,
                    "why": became[one.shard].why if one.shard in became else "",
                }
                for one in found
            ],
        }
    )
    if not_done(written):
        click.get_current_context().exit(EXIT_FAILED)


@checkpoints.command("repair")
@logstore_option
@execute_option
@verb
def repair(output: Output, *, name: str | None, execute: bool) -> None:
    """Publish the table's frontiers as checkpoints; none moves back, none is forced."""
    logstore = own_holder(resolve(name))
    with SlsClient(logstore.service) as client:
        points = plan_repair(logstore, Lake.default(), client)
        if execute:
            points = execute_repair(logstore, client, points)
    output.table(
        ["shard", ">checkpoint", ">frontier", ""],
        [
            (str(p.shard), "" if p.checkpoint is None else str(p.checkpoint), str(p.frontier), str(p.report))
            for p in points
        ],
    )
    if any(point.outcome is CheckpointOutcome.AHEAD for point in points):
        output.say("a checkpoint ahead of the table stays: landings begin at the frontier, and pass it")
    if not execute:
        output.say_dry()
    output.result({"executed": execute, "shards": [asdict(point) for point in points]})
    if execute and any(point.outcome in _OPEN for point in points):
        click.get_current_context().exit(EXIT_FAILED)
