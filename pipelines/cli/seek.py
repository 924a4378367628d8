"""`sls-lake checkpoints set --to table`: the table is moved, and the group that it feeds follows."""

from dataclasses import replace

from rich.markup import escape

from pipelines.cli.deciding import decide
from pipelines.cli.output import Output
from pipelines.cli.positions import CopyRequest, heads_of, source_of
from pipelines.cli.working import landing_line
from pipelines.landing.commit.after_commit import commits
from pipelines.landing.commit.planned import Finished, Tools, execute
from pipelines.landing.inspection.describe import read_ledger
from pipelines.landing.maintenance.repair import execute_repair, plan_repair
from pipelines.landing.operations.seek import PlannedSeek, check_unread, plan_seek, readers_of
from pipelines.landing.run.report import CheckpointOutcome, CheckpointReport
from pipelines.landing.spark.session import engine_here
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints.copying import Move, copy
from sls_io.checkpoints.store import Kept
from sls_io.values.errors import ConfigError

_TOLD = (CheckpointOutcome.MOVED, CheckpointOutcome.UNCHANGED)
_FAILS = (CheckpointOutcome.NOT_HELD, CheckpointOutcome.PUT_OFF)


def seek(output: Output, asked: CopyRequest) -> None:
    """Put the table's shards where the source is, and publish; a dry run without `execute`.

    Forward only it is a commit that every landing is fenced against, so nobody has to end, and the next live
    run publishes.
    """
    lake, logstore, client = Lake.default(), asked.logstore, asked.client
    title, moves = _moves(lake, asked)
    goes = {move.shard: move.cursor for move in moves}
    found = plan_seek(lake, logstore, client, goes, forward_only=asked.forward_only)
    places = {move.shard: move.place for move in moves}
    planned = replace(
        found,
        source=title,
        readers=() if asked.forward_only else tuple(readers_of(logstore, lake, client)),
        shards=tuple(replace(one, place=places[one.shard]) for one in found.shards),
    )
    young = any(one.way == "unsettled" for one in planned.shards)
    nothing = "nothing to change yet" if young else "every shard is there already: nothing to change"
    decided = replace(planned.decided, view=planned, nothing=nothing)
    decide(output, decided, lambda: _carried_out(output, lake, asked, planned), now=asked.execute)


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


def _carried_out(output: Output, lake: Lake, asked: CopyRequest, planned: PlannedSeek) -> Finished:
    logstore, client, points = asked.logstore, asked.client, list[CheckpointReport]()
    if not asked.forward_only:
        check_unread(logstore, lake, client)
    with commits(logstore.table) as made:
        committed = _committed(output, lake, asked, planned)
        made.snapshot(committed)
        if not asked.forward_only:
            points = execute_repair(logstore, lake, client, plan_repair(logstore, lake, client))
    for point in points:
        if point.outcome not in _TOLD:
            output.say(f"checkpoint of shard {point.shard}: {escape(str(point))}")
    outcomes = {point.shard: point.outcome for point in points}
    shards = tuple(replace(one, outcome=outcomes.get(one.shard)) for one in planned.shards)
    fails = any(point.outcome in _FAILS for point in points)
    return Finished(committed, replace(planned, shards=shards), fails)


def _committed(output: Output, lake: Lake, asked: CopyRequest, planned: PlannedSeek) -> int:
    if planned.again is None:
        return execute(lake, planned.decided).snapshot
    engine = engine_here()
    with landing_line(output, f"replace {asked.logstore.name}", engine) as line:
        return execute(lake, planned.decided, Tools(on_event=line.phase, engine=engine)).snapshot
