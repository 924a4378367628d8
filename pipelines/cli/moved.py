"""`sls-lake table adopt --moved`: a logstore that goes on under another name, in the same table."""

from collections.abc import Mapping

from rich.markup import escape

from pipelines.cli.deciding import decide
from pipelines.cli.output import Output, moment
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.fresh_starts import At
from pipelines.landing.operations.relabel import Moved, plan_moved
from pipelines.landing.table.lake import Lake
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient


def adopt_moved(
    output: Output,
    logstore: Logstore,
    old: str,
    *,
    at: At | None,
    cursors: Mapping[int, Cursor],
    without_missing: bool,
    execute: bool,
) -> None:
    """Let the table go on with the logstore of the settings; a dry run without `execute`."""
    lake = Lake.default()
    with SlsClient(logstore.service) as client:
        planned = plan_moved(
            lake, logstore, client, old, at=at, cursors=cursors, without_missing=without_missing
        )
    view = planned.view
    _show(output, view)
    starts = [{"shard": shard, "cursor": cursor} for shard, cursor in view.starts.items()]
    then = f" of {view.table} goes on with {view.new}; land"
    decide(output, lake, planned, now=execute, then=then, more={"starts": starts})


def _show(output: Output, view: Moved) -> None:
    reached = f", landed up to {moment(view.reached_s)} UTC" if view.reached_s else ""
    output.say(f"{escape(view.before)} ({view.old}): its {view.rows:,} rows and its ledger stay{reached}")
    output.say(f"{escape(view.after)} ({view.new}): goes on in {view.table}, from these cursors")
    output.table(["shard", ">start"], [(str(shard), str(at)) for shard, at in view.starts.items()])
    for shard, at_s in sorted(view.before_s.items()):
        output.say(
            f"[yellow]logs of shard {shard} lie before its start and are not landed[/]: the oldest was "
            f"received {moment(at_s)} UTC"
        )
    if view.unasked:
        output.say(
            f"[yellow]whether all of the old logstore has landed is not known[/]: {escape(view.unasked)}"
        )
    elif view.left is None:
        output.say(
            "the service says that the old logstore is gone: what of it had not landed cannot land any more"
        )
    elif view.left:
        shards = ", ".join(map(str, view.left))
        output.say(f"[yellow]the old logstore still has logs that have not landed[/]: shard {shards}")
    output.say("that no log is in both cannot be proven: who copied logs over begins behind the copies")
