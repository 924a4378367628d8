"""`sls-lake checkpoints reset` of a group that feeds a table: the table is moved, and the group follows."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.cursor_file import export_to
from pipelines.cli.land import landing_line
from pipelines.cli.leaving import show_leaving
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output
from pipelines.cli.stores import PLACES
from pipelines.landing.commit.operation import Tools
from pipelines.landing.commit.standing import commits
from pipelines.landing.hours import hours_text
from pipelines.landing.inspection.describe import read_ledger
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.repair import Point, execute_repair, plan_repair
from pipelines.landing.operations.seek import (
    PlannedSeek,
    Sought,
    Way,
    check_unread,
    execute_seek,
    plan_seek,
    readers_of,
    unreached,
)
from pipelines.landing.run.report import CheckpointOutcome
from pipelines.landing.spark.session import engine_here
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints import moving
from sls_io.checkpoints.moving import Aim, Move
from sls_io.checkpoints.policy import OutsidePolicy
from sls_io.checkpoints.store import Kept
from sls_io.client import SlsClient
from sls_io.errors import CheckpointOutside, ConfigError

_MEANS: dict[Way, str] = {
    "again": "back: whole hours from there are landed again",
    "skip": "forward: what lies between is owed",
    "stays": "stays",
}


def seek(
    output: Output,
    logstore: Logstore,
    client: SlsClient,
    aim: Callable[[], Aim],
    way: str,
    *,
    shards: frozenset[int],
    policy: OutsidePolicy,
    export: Path | None,
    execute: bool,
) -> None:
    """Put the table's shards where `aim` says, and publish; a dry run without `execute`."""
    lake = Lake.default()
    moves = _moves(lake, logstore, client, aim(), shards, policy)
    planned = plan_seek(lake, logstore, client, {move.shard: move.after for move in moves})
    readers = readers_of(logstore, client)
    if export:
        export_to(export, {one.shard: one.cursor for one in planned.shards})
    _show(output, planned, moves)
    committed, points = None, []
    if execute and planned.moves:
        check_unread(logstore, client)
        with commits(logstore.table) as made:
            committed = _executed(output, lake, logstore, client, planned)
            made.snapshot(committed)
            points = execute_repair(logstore, client, plan_repair(logstore, lake, client))
        output.say(f"done: snapshot {committed}; the group's checkpoints follow the table")
    elif not planned.moves:
        output.say("every shard is there already: nothing to change")
    else:
        if readers:
            names = escape(", ".join(readers))
            output.say(f"[yellow]it is read by {names}[/]: --execute is refused until that has ended")
        output.say_dry(without="--export")
    for point in points:
        if point.outcome not in (CheckpointOutcome.MOVED, CheckpointOutcome.UNCHANGED):
            output.say(f"checkpoint of shard {point.shard}: {escape(str(point.report))}")
    output.result(
        _document(planned, moves, points)
        | {"executed": execute, "committed": committed, "way": way, "readers": readers}
    )
    if any(point.outcome in (CheckpointOutcome.NOT_HELD, CheckpointOutcome.PUT_OFF) for point in points):
        click.get_current_context().exit(EXIT_FAILED)


def _moves(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    aim: Aim,
    shards: frozenset[int],
    policy: OutsidePolicy,
) -> tuple[Move, ...]:
    """Where the aim puts each shard; a way that begins at a position begins at the frontier."""
    ledger = read_ledger(logstore, lake, client)
    kept = {shard: Kept(entry.frontier) for shard, entry in ledger.shards.items()}
    try:
        return moving.aimed(client, kept, aim, shards=shards, policy=policy)
    except CheckpointOutside as error:
        raise ConfigError(f"{error}: --out-of-range begin, or end. Nothing was changed") from error


def _executed(output: Output, lake: Lake, logstore: Logstore, client: SlsClient, planned: PlannedSeek) -> int:
    engine = engine_here()
    if planned.again is None:
        return execute_seek(lake, planned, Tools())
    with landing_line(output, f"replace {logstore.name}", engine) as line:
        return execute_seek(lake, planned, Tools(on_event=line.phase, engine=engine))


def _show(output: Output, planned: PlannedSeek, moves: tuple[Move, ...]) -> None:
    notes = {move.shard: PLACES[move.place] for move in moves}
    output.say(f"table {planned.table}")
    output.table(
        ["shard", ">frontier", ">to", ""],
        [
            (
                str(one.shard),
                "" if one.frontier is None else str(one.frontier),
                "" if one.cursor is None else "=" if one.cursor == one.frontier else str(one.cursor),
                "; ".join(filter(None, (_means(one), notes[one.shard]))),
            )
            for one in planned.shards
        ],
    )
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


def _document(planned: PlannedSeek, moves: tuple[Move, ...], points: list[Point]) -> dict[str, Any]:
    """`cursor` is where a shard goes, `outcome` what became of its checkpoint."""
    places = {move.shard: move.place for move in moves}
    outcomes = {point.shard: point.outcome for point in points}
    return {
        "table": planned.table,
        "shards": [
            asdict(one) | {"place": places[one.shard], "outcome": outcomes.get(one.shard)}
            for one in planned.shards
        ],
        "again": {**asdict(planned.again.view), "hours": _hours(planned.hours)} if planned.again else None,
        "owed": [asdict(one) | {"hours": _hours(one.hours)} for one in planned.skip.view.shards],
        "not_yet": _hours(planned.not_yet),
        "gone": _hours(planned.gone),
    }


def _hours(hours: range) -> str:
    return hours_text(hours) if hours else ""
