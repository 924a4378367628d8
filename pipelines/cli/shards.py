"""`sls-lake shards`: the shards of a logstore as the service has them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, moment, verb
from sls_io.client import SlsClient
from sls_io.errors import CursorExpired, ShardGone
from sls_io.shard import Shard, parents

_AT_ONCE = 8
_KEY_CHARS = 8
"""Of 32: enough to see which range it is."""


@click.group("shards")
def shards() -> None:
    """Shards: list. Takes --json and --debug."""


@shards.command("list")
@logstore_option
@verb
def listed(output: Output, *, name: str | None) -> None:
    """Show every listed shard: state, keys, parents and children, and what the service still keeps of it."""
    logstore = resolve(name)
    with SlsClient(logstore.service) as client, ThreadPoolExecutor(_AT_ONCE) as pool:
        found = client.shards()
        edges = list(pool.map(lambda shard: _edges(client, shard), found))
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
    output.table(
        ["shard", "state", "keys", "parents", "children", "made (UTC)", "oldest log (UTC)", ">begin", ">end"],
        [
            (
                str(row["shard"]),
                "read-only" if row["status"] == "readonly" else "open",
                "..".join(key[:_KEY_CHARS] for key in row["keys"].split("..")),
                ", ".join(map(str, row["parents"])),
                ", ".join(map(str, row["children"])),
                moment(row["created_s"]),
                moment(row["oldest_s"]),
                "" if row["begin"] is None else str(row["begin"]),
                "" if row["end"] is None else str(row["end"]),
            )
            for row in rows
        ],
        less=("begin", "end", "made (UTC)", "keys"),
    )
    output.result({"logstore": logstore.name, "shards": rows})


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
