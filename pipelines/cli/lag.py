"""`sls-lake lag`: how far a reader is behind, in seconds, in LogGroups at most, and in bytes where known."""

from collections.abc import Mapping
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, megabytes, moment, span, verb
from pipelines.cli.stores import PLACES, WHERE, GroupName, reader_option, store_of
from pipelines.landing.inspection.describe import describe
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints.lag import ShardLag, lags
from sls_io.client import Heads, SlsClient
from sls_io.clock import SYSTEM_CLOCK
from sls_io.errors import ServiceError, TransportError
from sls_io.window import Cursor


@click.command("lag")
@click.option("--group", type=GroupName(), metavar="NAME", help="A consumer group instead of the table.")
@click.option("--store", "where", metavar="WHERE", help=f"A checkpoint store instead of the table: {WHERE}.")
@reader_option
@click.option(
    "--watch",
    "every_s",
    type=click.FloatRange(min=0.1, max=86_400),
    metavar="SECONDS",
    help="Ask again and again, until Ctrl-C.",
)
@logstore_option
@verb
def lag(
    output: Output,
    *,
    group: str | None,
    where: str | None,
    reader: str | None,
    every_s: float | None,
    name: str | None,
) -> None:
    """Show how far the table is behind, or a group, or a store; shard by shard, and the slowest.

    LogGroups are the most that can wait: cursors may jump. Bytes are what landed lately would make of it.
    """
    if where and group:
        raise click.UsageError("--store and --group are two places: name one")
    if every_s and output.as_json:
        raise click.UsageError("--json is one document: leave --watch out, and ask again")
    logstore = resolve(name)
    place = where or (f"group:{group}" if group else "")
    with SlsClient(logstore.service) as client:
        while True:
            try:
                title, found, waiting = _looked(logstore, client, place, reader)
                output.say(f"{escape(title)}, {moment(client.now_s())} UTC")
                _show(output, found, waiting)
                output.result(_document(title, found, waiting))
            except (TransportError, ServiceError) as error:
                # What the service refuses it will refuse again; its own failures pass.
                if not every_s or (isinstance(error, ServiceError) and error.status < 500):
                    raise
                output.say(f"[yellow]could not be asked[/]: {escape(str(error))}")
            if not every_s:
                return
            SYSTEM_CLOCK.sleep(every_s)


def _looked(
    logstore: Logstore, client: SlsClient, place: str, reader: str | None
) -> tuple[str, tuple[ShardLag, ...], Mapping[int, int]]:
    """What was looked at, each shard, and the raw bytes that wait where they are known."""
    if not place:
        heads = Heads(client)
        places, waiting = _of_the_table(logstore, client, heads)
        return f"table {logstore.table}", lags(client, places, heads=heads), waiting
    store = store_of(place, logstore, client, reader=reader)
    return store.name, lags(client, {s: k.cursor for s, k in store.read().items()}), {}


def _document(title: str, found: tuple[ShardLag, ...], waiting: Mapping[int, int]) -> dict[str, Any]:
    return {
        "of": title,
        "lag_s": max((one.lag_s for one in found), default=0.0),
        "groups_max": sum(one.groups_max for one in found),
        "raw_bytes": sum(waiting.values()) if waiting else None,
        "shards": [
            {
                "shard": one.shard,
                "cursor": one.at,
                "end": one.end,
                "place": one.place,
                "lag_s": one.lag_s,
                "groups_max": one.groups_max,
                "raw_bytes": waiting.get(one.shard),
            }
            for one in found
        ],
    }


def _of_the_table(
    logstore: Logstore, client: SlsClient, heads: Heads
) -> tuple[dict[int, Cursor | None], dict[int, int]]:
    """The frontiers, and about how many raw bytes wait of each shard, as the ledger's rates tell."""
    views = describe(logstore, Lake.default(), client, heads=heads)
    waiting = {v.shard: v.backlog.raw_bytes for v in views if v.backlog is not None}
    return {v.shard: v.frontier for v in views}, {s: int(size) for s, size in waiting.items()}


def _show(output: Output, found: tuple[ShardLag, ...], waiting: Mapping[int, int]) -> None:
    output.table(
        ["shard", ">at", ">end", ">lag", ">groups at most", ">about", ""],
        [
            (
                str(one.shard),
                "" if one.at is None else str(one.at),
                "=" if one.at == one.end else str(one.end),
                span(one.lag_s),
                one.groups_max,
                megabytes(waiting[one.shard]) if one.shard in waiting else "",
                "has not begun" if one.at is None else PLACES[one.place],
            )
            for one in found
        ],
        less=("end", "at"),
    )
    slowest = max(found, key=lambda one: one.lag_s, default=None)
    if slowest is None or not slowest.groups_max:
        output.say("nothing waits")
    else:
        output.say(
            f"the slowest is shard {slowest.shard}: its oldest log that waits was received "
            f"{span(slowest.lag_s)} ago"
        )
