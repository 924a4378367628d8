"""`sls-lake describe`: each shard as the service, the group and the table see it, how long until
retention deletes what has not landed, and the table's files per hour."""

from dataclasses import asdict

import click
from rich.markup import escape

from pipelines.cli.backlog import say_backlog
from pipelines.cli.findings import say_findings
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, megabytes, span, verb
from pipelines.landing.commit.effect import record
from pipelines.landing.inspection.describe import ShardView, kept_out, refusal
from pipelines.landing.inspection.describe import describe as look_at_shards
from pipelines.landing.inspection.runway import Runway, ShardRunway, days
from pipelines.landing.inspection.table_files import HourFiles, hours_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.health import TimeLeft, Vitals, findings
from pipelines.landing.watch.vitals import vitals
from sls_io.values.errors import amount
from sls_io.wire.client import SlsClient
from sls_io.wire.heads import Heads

HOURS_SHOWN = 24


@click.command("describe")
@logstore_option
@verb
def describe(output: Output, *, name: str | None) -> None:
    """Show every shard: state, holder, checkpoint, frontier, end, lag, runway; what is wrong; files per hour.

    Ends with 1 where each landing is refused, because the table is another logstore's.
    """
    logstore, lake = resolve(name), Lake.default().one_look()
    with SlsClient(logstore.service) as client:
        heads = Heads(client)
        views = look_at_shards(logstore, lake, client, heads=heads)
        facts = vitals(logstore, lambda: lake, lambda: client, heads=heads, whole=True)
        refused = refusal(logstore, lake, client)
        barred = kept_out(logstore, lake, client)
    files = hours_of(logstore, lake)
    show(output, logstore, views, facts)
    show_files(output, files)
    if refused:
        output.say(f"[red]landings are refused[/]: {escape(refused)}")
    if logstore.coordinator.leases and not any(view.consumers for view in views):
        output.say(
            "[yellow]the database of leases has none of this logstore[/]: its first live run makes them; "
            "where one has run, look at the database's address"
        )
    if logstore.transform:
        output.say(f"rows are transformed by {escape(logstore.transform)}")
    for column, values in barred.items():
        output.say(f"rows with {values:,} values of {escape(column)} are kept out, by decision")
    output.result(
        {
            "logstore": logstore.name,
            "barred": barred,
            "transform": logstore.transform,
            "shards": [asdict(view) for view in views],
            "ahead": [view.shard for view in views if view.ahead],
            "runway": asdict(left) | {"shortest_s": left.shortest_s} if (left := _runway(facts)) else None,
            "health": [found.document(logstore.option) for found in findings(facts, logstore)],
            "files": [asdict(hour) for hour in files],
            "refused": refused,
        },
        fails=bool(refused),
    )


def show(output: Output, logstore: Logstore, views: list[ShardView], facts: Vitals) -> None:
    """The table for people, and what is wrong. A checkpoint or end that is the frontier itself is a `=`."""
    service, group = logstore.service, f"group {logstore.group.name}"
    if logstore.shards is not None:
        group = f"shards {', '.join(map(str, logstore.shards))} by name"
    left = _runway(facts)
    runways = {s.shard: s for s in (left.shards if left else ())}
    output.say(f"{service.full_name}, {group}, table {logstore.table}; = is the frontier")
    rows = [
        {
            "shard": view.shard,
            "state": _state(view),
            "holder": ", ".join(f"{name} {state}" for name, state in view.consumers.items()) or view.holder,
            "frontier": view.frontier,
            "checkpoint": _beside(view.checkpoint, view.frontier),
            "end": _beside(view.end, view.frontier),
            "rows": view.rows,
            "reached_s": view.reached_s,
            "lag": span(view.lag_s),
            "behind_bytes": view.behind_bytes,
            "runway": _left(runways.get(view.shard)),
            "snapshot": view.snapshot_id,
        }
        for view in views
    ]
    output.records(rows, less=("snapshot", "frontier", "end", "checkpoint", "holder", "reached (UTC)"))
    for view in views:
        say_backlog(output, view.shard, view.backlog)
    if ahead := [str(view.shard) for view in views if view.ahead]:
        output.say(
            f"[yellow]the table has been further[/]: published checkpoints of shards {', '.join(ahead)} are "
            "ahead of it. An older copy was restored, a person took landings back, or another table is fed "
            "with the same group. Live runs go on from "
            "the table, so nothing lands twice; what retention has taken by then they name as a gap"
        )
    say_findings(output, findings(facts, logstore))


def show_files(output: Output, files: tuple[HourFiles, ...]) -> None:
    """The newest hours first; of the others how many there are."""
    newest = files[::-1]
    if not newest:
        return
    output.records([record(hour) for hour in newest[:HOURS_SHOWN]])
    rest = newest[HOURS_SHOWN:]
    if rest:
        output.say(
            f"and {len(rest):,} older hours: {amount(sum(f.files for f in rest), 'file')}, "
            f"{amount(sum(f.rows for f in rest), 'row')}, {megabytes(sum(f.size for f in rest))}"
        )


def _runway(facts: Vitals) -> Runway | None:
    """Where it is known."""
    found = facts.runway.runway if isinstance(facts.runway, TimeLeft) else None
    return found if isinstance(found, Runway) else None


def _state(view: ShardView) -> str:
    return view.state + ", and open in the service" * (view.closed and view.status == "readwrite")


def _left(one: ShardRunway | None) -> str:
    if one is not None and one.suspect:
        return "suspect"
    if one is None or (one.left_s is None and not one.lost):
        return ""
    return "lost" if one.lost else days(one.left_s)


def _beside(cursor: int | None, frontier: int | None) -> str:
    """Cursors are names, not amounts: no thousands separators."""
    if cursor is None:
        return ""
    return "=" if cursor == frontier else str(cursor)
