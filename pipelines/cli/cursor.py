"""`sls-lake cursor`: between cursors and receive times, for one shard."""

import click

from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, moment, verb
from pipelines.cli.stores import CursorParam, PlaceParam
from sls_io.values.errors import ConfigError
from sls_io.values.shard import Head
from sls_io.values.window import Cursor, cursor_to_wire
from sls_io.wire.client import SlsClient


@click.group("cursor")
def cursor() -> None:
    """Cursors and times of one shard: time, at. Take --json and --debug."""


@cursor.command("time")
@click.argument("shard", type=click.IntRange(min=0))
@click.argument("place", type=CursorParam(), metavar="CURSOR")
@logstore_option
@verb
def time(output: Output, *, shard: int, place: int, name: str | None) -> None:
    """Tell when the log at CURSOR of SHARD was received, UTC. CURSOR is a number, or base64."""
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        head = _head(client, shard)
        if not head.begin <= place < head.end:
            where = "is the end: no log is there yet" if place == head.end else "is not in the shard"
            raise ConfigError(f"cursor {place} {where}; shard {shard} has [{head.begin}, {head.end})")
        received_s = client.cursor_time_s(shard, Cursor(place))
    output.say(moment(received_s))
    output.result({"shard": shard, "cursor": place, "wire": cursor_to_wire(place), "received_s": received_s})


@cursor.command("at")
@click.argument("shard", type=click.IntRange(min=0))
@click.argument("when", type=PlaceParam(edges=("begin", "end")), metavar="TIME")
@logstore_option
@verb
def at(output: Output, *, shard: int, when: int | str, name: str | None) -> None:
    """Tell the cursor of the first log of SHARD received at TIME or later; or of its begin, or end."""
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        head = _head(client, shard)
        found = client.cursor_at(shard, when)  # type: ignore[arg-type]
        received_s = client.cursor_time_s(shard, found) if head.begin <= found < head.end else None
    output.say(f"{found}")
    if received_s is None:
        output.say("the end: no log was received then or later")
    else:
        output.say(f"received {moment(received_s)}")
    wire = cursor_to_wire(found)
    output.result({"shard": shard, "cursor": found, "wire": wire, "received_s": received_s})


def _head(client: SlsClient, shard: int) -> Head:
    listed = {one.id: one for one in client.shards()}
    if shard not in listed:
        raise ConfigError(f"the logstore lists no shard {shard}: there is {', '.join(map(str, listed))}")
    return client.head(listed[shard])
