"""`sls-lake describe`: each shard as the service, the group and the table see it."""

from dataclasses import asdict

import click

from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, moment, span, verb
from pipelines.landing.logstore import Logstore
from pipelines.landing.look import ShardView
from pipelines.landing.look import describe as look_at_shards
from pipelines.landing.table import Lake
from sls_io.client import SlsClient

_STATES = {"readwrite": "open", "readonly": "read-only", "gone": "gone"}


@click.command("describe")
@logstore_option
@verb
def describe(output: Output, *, name: str | None) -> None:
    """Show every shard: state, holder, checkpoint, frontier, end, lag."""
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        views = look_at_shards(logstore, Lake.default(), client)
    show(output, logstore, views)
    output.result({"logstore": logstore.name, "shards": [asdict(view) for view in views]})


def show(output: Output, logstore: Logstore, views: list[ShardView]) -> None:
    """The table for people. A checkpoint or end that is the frontier itself shows as `=`."""
    service, group = logstore.service, logstore.group.name
    output.say(
        f"{service.project}/{service.logstore}, group {group}, table {logstore.table}; = is the frontier"
    )
    output.table(
        ["shard", "state", "holder", ">frontier", ">checkpoint", ">end", ">rows", "reached (UTC)", ">lag"],
        [
            (
                str(view.shard),
                "closed" if view.closed else _STATES.get(view.status, view.status),
                view.holder,
                "" if view.frontier is None else str(view.frontier),
                _beside(view.checkpoint, view.frontier),
                _beside(view.end, view.frontier),
                view.rows,
                moment(view.reached_s),
                span(view.lag_s),
            )
            for view in views
        ],
    )


def _beside(cursor: int | None, frontier: int | None) -> str:
    """Cursors are names, not amounts: no thousands separators."""
    if cursor is None:
        return ""
    return "=" if cursor == frontier else str(cursor)
