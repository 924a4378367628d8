"""`sls-lake peek`: a few logs of a shard, as the table would show them; between cursors and receive times.
Nothing is claimed, nothing moves.

A key that is declared `drop` or `hash` is dropped or hashed here, too. Logs go to the output alone, never
into an error or a file of ours.
"""

from collections.abc import Mapping
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, moment, verb
from pipelines.cli.stores import CURSOR, time_or
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import Contract
from pipelines.landing.transform import Transform
from sls_io.decoding.decode import Decoder
from sls_io.values.errors import ConfigError, printable
from sls_io.values.shard import Head
from sls_io.values.window import HOUR_S, Cursor, cursor_to_wire
from sls_io.wire.client import SlsClient

LOGS_MAX = 1000
CHARS_SHOWN = 400
"""Of a log, for people; --json has all of it."""
_PAGES_MAX = 50
_NEWEST_S = (60, 600, 3600, 86_400)


@click.command("peek")
@click.argument("shard", type=click.IntRange(min=0))
@click.option(
    "--at",
    "when",
    type=time_or("begin", "newest", "end"),
    metavar="TIME",
    help="A receive time, begin, end, or newest: the last minute, hour or day in which there is a log.  "
    "[default: newest]",
)
@click.option(
    "--cursor", type=CURSOR, metavar="CURSOR", help="From this cursor, a number or base64, instead of a time."
)
@click.option(
    "--limit",
    type=click.IntRange(0, LOGS_MAX),
    default=10,
    show_default=True,
    help="At most so many logs; 0 tells the cursor and its receive time alone.",
)
@logstore_option
@verb
def peek(
    output: Output, *, shard: int, when: int | str | None, cursor: int | None, limit: int, name: str | None
) -> None:
    """Show some logs of SHARD as the table would show them, and the cursor and the receive time (UTC) of the
    first one. The payload goes to this terminal only."""
    if when is not None and cursor is not None:
        raise click.UsageError("name a time with --at, or a cursor with --cursor")
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        head = _head(client, shard)
        begin = _begin(client, head, "newest" if when is None else when, cursor)
        received_s = client.cursor_time_s(shard, begin) if head.begin <= begin < head.end else None
        rows = _rows(client, logstore, head, begin, limit) if limit and received_s is not None else []
    none = "the end: no log was received then or later"
    output.say(
        f"from cursor {begin}, {none if received_s is None else f'received {moment(received_s)} (UTC)'}"
    )
    for row in rows:
        output.say(f"[bold]{row['time'] or 'no time'}[/] {_place(row)}  {escape(_text(row))}")
    if limit and received_s is not None and not rows:
        output.say("no log is there")
    wire = cursor_to_wire(begin)
    output.result({"shard": shard, "cursor": begin, "wire": wire, "received_s": received_s, "logs": rows})


def _head(client: SlsClient, shard: int) -> Head:
    """Of a listed shard. Raises ConfigError for another one."""
    listed = {one.id: one for one in client.shards()}
    if shard not in listed:
        raise ConfigError(f"the logstore lists no shard {shard}: there is {', '.join(map(str, listed))}")
    return client.head(listed[shard])


def _begin(client: SlsClient, head: Head, when: int | str, cursor: int | None) -> Cursor:
    """Where to read from. Raises ConfigError for a cursor that is not in the shard."""
    shard = head.shard.id
    if cursor is not None:
        if not head.begin <= cursor <= head.end:
            raise ConfigError(
                f"cursor {cursor} is not in the shard; shard {shard} has [{head.begin}, {head.end})"
            )
        return Cursor(cursor)
    if isinstance(when, int):
        return client.cursor_at(shard, when)
    if when == "newest":
        now_s = int(client.now_s())
        for span_s in _NEWEST_S:
            if (found := client.cursor_at(shard, now_s - span_s)) < head.end:
                return found
    return head.end if when == "end" else head.begin


def _rows(
    client: SlsClient, logstore: Logstore, head: Head, begin: Cursor, limit: int
) -> list[dict[str, Any]]:
    decoder = Decoder(client.origin().id, Contract.from_columns(logstore.columns).declared)
    transform = Transform(logstore.transform)
    rows: list[dict[str, Any]] = []
    at = begin
    for _ in range(_PAGES_MAX):
        if at >= head.end or len(rows) >= limit:
            break
        page = client.pull(head.shard.id, at, end=head.end, groups_max=limit)
        hour = client.cursor_time_s(head.shard.id, at) // HOUR_S
        for part in decoder.open(page).parts(hour):
            batch = transform.of(part.batch, head.shard.id)
            rows += [_row(entry) for entry in batch.slice(0, limit - len(rows)).to_pylist()]
        at = page.next
    return rows


def _row(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One log: its place, its time, its columns and what else it holds; of the raw bytes nothing."""
    columns = {k: v for k, v in entry.items() if not (k.startswith("__") and k.endswith("__"))}
    moment = entry["__time__"]
    return {
        "cursor": entry["__cursor__"],
        "index": entry["__index__"],
        "time": None if moment is None else moment.isoformat(),
        "topic": entry["__topic__"],
        "source": entry["__source__"],
        "tags": dict(entry["__tags__"] or ()),
        "columns": columns,
        "rest": dict(entry["__rest__"] or ()),
        "error": entry["__error__"],
    }


def _place(row: Mapping[str, Any]) -> str:
    return f"[dim]{row['cursor']}.{row['index']}[/]"


def _text(row: Mapping[str, Any]) -> str:
    shown = {k: v for k, v in row["columns"].items() if v is not None} | row["rest"]
    pairs = " ".join(f"{key}={value}" for key, value in shown.items())
    return printable(f"{pairs}  ({row['error']})" if row["error"] else pairs, CHARS_SHOWN)
