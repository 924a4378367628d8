"""`sls-lake shards`: the shards, and which ones live runs leave alone."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from pipelines.cli.deciding import decision, execute_option
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, verb
from pipelines.landing.commit.planned import Decision
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.pause import plan_pause, plan_resume
from pipelines.landing.table.lake import Lake
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError, CursorExpired, ShardGone, TransportError, printable
from sls_io.values.shard import Shard, parents
from sls_io.values.side_by_side import side_by_side
from sls_io.wire.client import SlsClient

_SHARDS = click.argument("numbers", metavar="SHARD...", type=click.IntRange(min=0), nargs=-1, required=True)
_KEY_DIGITS, _KEY_CHARS = 32, 8
"""Of a key, and how many of them are enough to see which range it is."""


@click.group("shards")
def shards() -> None:
    """List, split, merge, pause, resume shards. Dry runs until --execute; --json, --debug."""


@shards.command("list")
@logstore_option
@verb
def listed(output: Output, *, name: str | None) -> None:
    """Show every listed shard: state, keys, parents and children, and what the service still keeps of it."""
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        found = client.shards()
        edges = list(side_by_side(partial(_edges, client), found))
    above = parents(found)
    rows = [
        {
            "shard": shard.id,
            "status": "readonly" if shard.readonly else "readwrite",
            "keys": f"{shard.begin_key}..{shard.end_key}",
            "created_s": shard.created_s,
            "parents": sorted(above[shard.id]),
            "children": sorted(other for other, its in above.items() if shard.id in its),
            **edge,
        }
        for shard, edge in zip(found, edges, strict=True)
    ]
    shown = [row | {"keys": _range(shard)} for row, shard in zip(rows, found, strict=True)]
    output.records(shown, less=("begin", "end", "created (UTC)", "keys"))
    output.result({"logstore": logstore.name, "shards": rows})


@shards.command("split")
@click.argument("number", metavar="SHARD", type=click.IntRange(min=0))
@click.option("--at", "key", metavar="KEY", help="First key of the right half, hex.  [default: the middle]")
@logstore_option
@execute_option
@verb
def split(output: Output, *, number: int, key: str | None, name: str | None, execute: bool) -> None:
    """Split an open shard in two, so that twice as much can be written and read.

    The shard becomes read-only; landings drain it and go on with the two new ones. Cannot be undone, only
    merged again.
    """
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        shard = _open_one(client, number)
        at = _key_within(shard, key)
        output.say(
            f"shard {shard.id} ({_range(shard)}) becomes read-only; of two new ones the second begins at "
            f"{at[:_KEY_CHARS]}"
        )
        new = _resharded(output, client, lambda: client.split(shard.id, at), execute)
    into = [f"{shard.begin_key}..{at}", f"{at}..{shard.end_key}"]
    output.result({"executed": execute, "shard": shard.id, "into": into, "new": new})


@shards.command("merge")
@click.argument("number", metavar="SHARD", type=click.IntRange(min=0))
@logstore_option
@execute_option
@verb
def merge(output: Output, *, number: int, name: str | None, execute: bool) -> None:
    """Merge an open shard with its right neighbour into a new one, which saves the rent of one.

    Both become read-only; landings drain them and go on with the new one.
    """
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        shard = _open_one(client, number)
        beside = [s for s in client.shards() if not s.readonly and s.begin_key == shard.end_key]
        if not beside:
            raise ConfigError(f"shard {shard.id} is the last one by its keys: name its left neighbour")
        output.say(
            f"shards {shard.id} ({_range(shard)}) and {beside[0].id} ({_range(beside[0])}) become read-only; "
            "one new shard takes the keys of both"
        )
        new = _resharded(output, client, lambda: client.merge(shard.id), execute)
    output.result({"executed": execute, "shard": shard.id, "with": beside[0].id, "new": new})


def _open_one(client: SlsClient, number: int) -> Shard:
    there = {shard.id: shard for shard in client.shards() if not shard.readonly}
    if number not in there:
        raise ConfigError(f"no open shard {number}; open are {', '.join(map(str, sorted(there)))}")
    return there[number]


def _range(shard: Shard) -> str:
    return f"{shard.begin_key[:_KEY_CHARS]}..{shard.end_key[:_KEY_CHARS]}"


def _key_within(shard: Shard, text: str | None) -> str:
    """A whole key, 32 hex digits, strictly inside of the shard. Raises ConfigError."""
    begin, end = int(shard.begin_key, 16), int(shard.end_key, 16)
    if text is None:
        at = (begin + end + 1) // 2
    elif not re.fullmatch(r"[0-9a-fA-F]{1,32}", text):
        raise ConfigError(f"--at {printable(text)!r}: a key is up to 32 hex digits, zeros are added behind")
    else:
        at = int(text.ljust(_KEY_DIGITS, "0"), 16)
    if not begin < at < end:
        raise ConfigError(
            f"shard {shard.id} has the keys {shard.begin_key}..{shard.end_key}: split it inside"
        )
    return f"{at:0{_KEY_DIGITS}x}"


def _resharded(
    output: Output, client: SlsClient, change: Callable[[], None], execute: bool
) -> list[int] | None:
    """Do it, and say which shards are new; None for a dry run."""
    if not execute:
        output.say_dry()
        return None
    before = {shard.id for shard in client.shards()}
    try:
        change()
        new = sorted({shard.id for shard in client.shards()} - before)
    except TransportError as error:
        raise TransportError(
            f"{error}; it may have been done", cures=(Call(("shards", "list"), does="says whether it was"),)
        ) from error
    output.say(f"done: new {'shard' if len(new) == 1 else 'shards'} {', '.join(map(str, new))}")
    return new


@decision(shards, "pause", _SHARDS)
def pause(lake: Lake, logstore: Logstore, client: SlsClient, numbers: tuple[int, ...]) -> Decision[Any]:
    """Leave these shards alone: no live run lands them, until they are resumed.

    It is kept with the table: other deployments and later runs keep to it. Retention goes on: logs that it
    takes meanwhile are lost, and `sls-lake describe` says how long is left. Children wait for a paused
    parent. A backfill that names hours lands them all the same.
    """
    return plan_pause(lake, logstore, client, numbers)


@decision(shards, "resume", _SHARDS)
def resume(lake: Lake, logstore: Logstore, client: SlsClient, numbers: tuple[int, ...]) -> Decision[Any]:
    """Let live runs land these shards again, from where they stood."""
    return plan_resume(lake, logstore, client, numbers)


def _edges(client: SlsClient, shard: Shard) -> dict[str, Any]:
    """Begin and end, and when the oldest log was received; None where there is none."""
    try:
        head = client.head(shard)
        empty = head.begin >= head.end
        oldest_s = None if empty else client.cursor_time_s(shard.id, head.begin)
    except ShardGone:
        return {"begin": None, "end": None, "oldest_s": None}
    except CursorExpired:
        oldest_s = None
    return {"begin": head.begin, "end": head.end, "oldest_s": oldest_s}
