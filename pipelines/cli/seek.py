"""`sls-lake checkpoints set --to table`: the table is moved, and the group that it feeds follows."""

from dataclasses import asdict, replace
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.land import landing_line
from pipelines.cli.leaving import show_leaving
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, moment
from pipelines.cli.positions import REFUSED, CopyRequest, heads_of, say_dry, show_moves, source_of
from pipelines.cli.stores import PLACES
from pipelines.landing.commit.operation import Tools, execute
from pipelines.landing.commit.standing import commits
from pipelines.landing.hours import hours_text
from pipelines.landing.inspection.describe import read_ledger
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.repair import execute_repair, plan_repair
from pipelines.landing.operations.seek import (
    PlannedSeek,
    Sought,
    Way,
    check_unread,
    plan_seek,
    readers_of,
    unreached,
)
from pipelines.landing.run.report import CheckpointOutcome, CheckpointReport
from pipelines.landing.spark.session import engine_here
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints.copying import Move, copy
from sls_io.checkpoints.store import Kept
from sls_io.values.errors import ConfigError

_MEANS: dict[Way, str] = {
    "again": "back: whole hours from there are landed again",
    "skip": "forward: what lies between is owed",
    "stays": "stays",
}
_TOLD = (CheckpointOutcome.MOVED, CheckpointOutcome.UNCHANGED)


def seek(output: Output, asked: CopyRequest) -> None:
    """Put the table's shards where the source is, and publish; a dry run without `execute`.

    Forward only it is a commit that every landing is fenced against, so nobody has to end, and the next live
    run publishes.
    """
    lake, logstore, client = Lake.default(), asked.logstore, asked.client
    title, moves = _moves(lake, asked)
    goes = {move.shard: move.cursor for move in moves}
    planned = plan_seek(lake, logstore, client, goes, forward_only=asked.forward_only)
    readers = [] if asked.forward_only else readers_of(logstore, client)
    _show(output, planned, moves)
    committed, points = None, list[CheckpointReport]()
    if asked.execute and planned.decided.needed:
        if not asked.forward_only:
            check_unread(logstore, client)
        with commits(logstore.table) as made:
            committed = _executed(output, lake, logstore, planned)
            made.snapshot(committed)
            if not asked.forward_only:
                points = execute_repair(logstore, client, plan_repair(logstore, lake, client))
        output.say(f"done: snapshot {committed}; {_done(asked, planned)}")
    elif not planned.decided.needed:
        output.say("every shard is there already: nothing to change")
    else:
        say_dry(output, readers, REFUSED)
    for point in points:
        if point.outcome not in _TOLD:
            output.say(f"checkpoint of shard {point.shard}: {escape(str(point))}")
    output.result(
        {"executed": asked.execute, "committed": committed, "from": title, "to": f"table {logstore.table}"}
        | {"readers": readers, **_document(planned, moves, points)}
    )
    if any(point.outcome in (CheckpointOutcome.NOT_HELD, CheckpointOutcome.PUT_OFF) for point in points):
        click.get_current_context().exit(EXIT_FAILED)


def _moves(lake: Lake, asked: CopyRequest) -> tuple[str, tuple[Move, ...]]:
    """The source's name, and where it puts each listed shard, whose place is its frontier."""
    logstore, client = asked.logstore, asked.client
    latest_s = int(client.now_s()) - logstore.budget.settle_s
    if isinstance(asked.source, int) and asked.source > latest_s:
        raise ConfigError("that time is to come: live runs can go on from now (`latest`) at the latest")
    ledger = read_ledger(logstore, lake, client)
    kept = {shard: Kept(entry.frontier) for shard, entry in ledger.shards.items()}
    heads = heads_of(client, asked.shards)
    title, positions = source_of(asked, heads, kept)
    moves = copy(
        positions,
        kept,
        heads,
        forward_only=asked.forward_only,
        outside=asked.outside or "stop",
        shards=asked.shards or heads,
    )
    return title, moves


def _executed(output: Output, lake: Lake, logstore: Logstore, planned: PlannedSeek) -> int:
    if planned.again is None:
        return execute(lake, planned.decided).snapshot
    engine = engine_here()
    with landing_line(output, f"replace {logstore.name}", engine) as line:
        return execute(lake, planned.decided, Tools(on_event=line.phase, engine=engine)).snapshot


def _done(asked: CopyRequest, planned: PlannedSeek) -> str:
    if asked.forward_only:
        return f"live runs go on from {moment(planned.skip.view.time_s)} UTC"
    return "the group's checkpoints follow the table"


def _show(output: Output, planned: PlannedSeek, moves: tuple[Move, ...]) -> None:
    notes = {move.shard: PLACES[move.place] for move in moves}
    output.say(f"table {planned.table}")
    texts = {one.shard: "; ".join(filter(None, (_means(one), notes[one.shard]))) for one in planned.shards}
    goes = {one.shard: one.cursor for one in planned.shards}
    show_moves(output, [replace(move, cursor=goes[move.shard]) for move in moves], texts)
    if planned.again is not None:
        output.say(f"{hours_text(planned.hours)} would be landed again, with all shards:")
        show_leaving(output, planned.again.view, again=True)
        output.say(
            f"{len(planned.again.coming.windows)} windows are pulled and landed instead, in the same commit"
        )
    for one in planned.skip.view.shards:
        owed = _hours(one.hours) or "what retention has not taken"
        output.say(f"shard {one.shard}: {owed} is owed then; runs and verify name the backfill")
    for sentence in unreached(planned):
        output.say(f"[yellow]not again[/]: {sentence}")


def _means(one: Sought) -> str:
    return "nothing of it has landed: it stays" if one.frontier is None else _MEANS[one.way]


def _document(
    planned: PlannedSeek, moves: tuple[Move, ...], points: list[CheckpointReport]
) -> dict[str, Any]:
    """`cursor` is where a shard goes, `outcome` what became of its checkpoint."""
    places = {move.shard: move.place for move in moves}
    outcomes = {point.shard: point.outcome for point in points}
    return {
        "table": planned.table,
        "origin": planned.skip.view.origin,
        "shards": [
            asdict(one) | {"place": places[one.shard], "outcome": outcomes.get(one.shard)}
            for one in planned.shards
        ],
        "again": {**asdict(planned.again.view), "hours": _hours(planned.hours)} if planned.again else None,
        "owed": [asdict(one) | {"hours": _hours(one.hours)} for one in planned.skip.view.shards],
        "not_yet": _hours(planned.not_yet),
        "gone": _hours(planned.gone),
        "time_s": planned.skip.view.time_s,
    }


def _hours(hours: range) -> str:
    return hours_text(hours) if hours else ""
