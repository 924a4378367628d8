"""`sls-lake cursor`: between cursors and receive times, for one shard."""

import click

from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, moment, verb
from pipelines.cli.stores import CURSOR, time_or
from sls_io.values.errors import ConfigError
from sls_io.values.shard import Head
from sls_io.values.window import Cursor, cursor_to_wire
from sls_io.wire.client import SlsClient


@click.command("cursor")
@click.argument("shard", type=click.IntRange(min=0))
@click.option(
    "--at",
    "when",
    type=time_or("begin", "end"),
    metavar="TIME",
    help="A receive time, begin or end: the cursor of the first log received then or later.",
)
@click.option(
    "--cursor", type=CURSOR, metavar="CURSOR", help="A number, or base64: when its log was received."
)
@logstore_option
@verb
def cursor(
    output: Output, *, shard: int, when: int | str | None, cursor: int | None, name: str | None
) -> None:
    """Tell the cursor of a time in SHARD, or the time of a cursor, UTC."""
    if (when is None) == (cursor is None):
        raise click.UsageError("name a time with --at, or a cursor with --cursor")
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        head = head_of(client, shard)
        if cursor is None:
            found = client.cursor_at(shard, when)  # type: ignore[arg-type]
        else:
            found = _inside(head, cursor)
        received_s = client.cursor_time_s(shard, found) if head.begin <= found < head.end else None
    output.say(str(found) if cursor is None else moment(received_s))
    if cursor is None:
        none = "the end: no log was received then or later"
        output.say(none if received_s is None else f"received {moment(received_s)}")
    wire = cursor_to_wire(found)
    output.result({"shard": shard, "cursor": found, "wire": wire, "received_s": received_s})


def _inside(head: Head, place: int) -> Cursor:
    if head.begin <= place < head.end:
        return Cursor(place)
    where = "is the end: no log is there yet" if place == head.end else "is not in the shard"
    raise ConfigError(f"cursor {place} {where}; shard {head.shard.id} has [{head.begin}, {head.end})")


def head_of(client: SlsClient, shard: int) -> Head:
    """Of a listed shard. Raises ConfigError for another one."""
    listed = {one.id: one for one in client.shards()}
    if shard not in listed:
        raise ConfigError(f"the logstore lists no shard {shard}: there is {', '.join(map(str, listed))}")
    return client.head(listed[shard])
