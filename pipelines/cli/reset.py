"""`sls-lake checkpoints reset`: a reader's positions put elsewhere, where that has a meaning.

The table decides where landings begin. So the checkpoints of a group that feeds one are never moved away
from it: that would change nothing and show people a lie. Of such a group the table is moved (`seek.py`), and
its checkpoints follow.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.cursor_file import export_to, imported
from pipelines.cli.deciding import execute_option
from pipelines.cli.land import own_holder
from pipelines.cli.logstores import known, load_named, logstore_option, project_root, resolve
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, verb
from pipelines.cli.seek import seek
from pipelines.cli.stores import (
    PLACES,
    WHERE,
    GroupName,
    Moment,
    Shards,
    Span,
    fate_text,
    not_done,
    reader_option,
    store_of,
)
from pipelines.landing.inspection.describe import read_ledger
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints import moving, store
from sls_io.checkpoints.moving import Aim, Move
from sls_io.checkpoints.policy import OUTSIDE_POLICIES, OutsidePolicy
from sls_io.checkpoints.store import CheckpointStore, Written
from sls_io.client import SlsClient
from sls_io.errors import CheckpointOutside, ConfigError
from sls_io.window import Cursor


@click.command("reset")
@click.option("--to-earliest", is_flag=True, help="To the oldest log that the service still has.")
@click.option("--to-latest", is_flag=True, help="To the end: what is there is skipped.")
@click.option("--to-current", is_flag=True, help="Where they are; for --export.")
@click.option(
    "--to-datetime", type=Moment(), metavar="TIME", help="To the first log received at TIME or later."
)
@click.option("--by-duration", type=Span(), metavar="SPAN", help="To the time SPAN before now, like 6h.")
@click.option(
    "--shift-by", type=Span(signed=True), metavar="[+-]SPAN", help="By a time of receiving, like -30m."
)
@click.option(
    "--from-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="To the cursors of a file that --export wrote.",
)
@click.option("--to-ledger", is_flag=True, help="To where the table has got.")
@click.option("--shards", type=Shards(), default=frozenset(), metavar="A,B", help="Only these.")
@click.option(
    "--group", type=GroupName(), metavar="NAME", help="Another consumer group than the logstore's own."
)
@click.option("--store", "where", metavar="WHERE", help=f"A checkpoint store instead of a group: {WHERE}.")
@reader_option
@click.option(
    "--out-of-range",
    "policy",
    type=click.Choice(OUTSIDE_POLICIES),
    default="stop",
    show_default=True,
    help="What becomes of a cursor that does not lie in its shard.",
)
@click.option(
    "--export",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the new cursors as CSV; a new file.",
)
@logstore_option
@execute_option
@verb
def reset(
    output: Output,
    *,
    shards: frozenset[int],
    group: str | None,
    where: str | None,
    reader: str | None,
    policy: OutsidePolicy,
    export: Path | None,
    name: str | None,
    execute: bool,
    **ways: Any,
) -> None:
    """Put the checkpoints of a consumer group, or of a store, elsewhere.

    Of the group that feeds the table, the table is moved, and the checkpoints follow it: back lands whole
    receive hours again in one commit, with all shards and --execute in this process; forward leaves what
    lies between to a backfill that runs and verify go on to name. --to-ledger publishes the frontiers only.
    Refused while somebody reads with the group.
    """
    way = _way(ways)
    if where and group:
        raise click.UsageError("--store and --group are two places: name one")
    logstore = own_holder(resolve(name))
    with SlsClient(logstore.service) as client:
        chosen = group or logstore.group.name
        if _means_the_table(logstore, where, chosen, client, way):
            aim = partial(_aim, logstore, client, way, ways)
            seek(
                output,
                logstore,
                client,
                aim,
                way,
                shards=shards,
                policy=policy,
                export=export,
                execute=execute,
            )
            return
        target = store_of(where or f"group:{chosen}", logstore, client, reader=reader)
        is_group = where is None or where.partition(":")[0] == "group"
        if is_group:
            chosen = (where or "").partition(":")[2] or chosen
            refuse_fed(logstore, chosen, client, way)
        moves = _planned(logstore, client, target, way, ways, shards=shards, policy=policy)
        readers = _readers(target, logstore) if is_group else []
        if export:
            export_to(export, {m.shard: m.after for m in moves})
        written: tuple[Written, ...] = ()
        if execute and any(move.moves for move in moves):
            written = _executed(logstore, client, target, moves, chosen if is_group else "")
    show(output, target, moves, written)
    if not execute:
        if readers:
            names = escape(", ".join(readers))
            output.say(f"[yellow]it is read by {names}[/]: --execute is refused until that has ended")
        output.say_dry(without="--export")
    elif any(one.fate == "sent" for one in written):
        _say_done(output, logstore, is_group=is_group)
    output.result(document(target, moves, written) | {"executed": execute, "way": way, "readers": readers})
    if not_done(written):
        click.get_current_context().exit(EXIT_FAILED)


def _readers(target: CheckpointStore, logstore: Logstore) -> list[str]:
    """Who else holds shards of the group now."""
    return sorted({kept.holder for kept in target.read().values()} - {"", logstore.group.holder})


def _means_the_table(logstore: Logstore, where: str | None, group: str, client: SlsClient, way: str) -> bool:
    """Whether the group's checkpoints follow this logstore's own table, and `way` leads away from it."""
    kind, _, named = (where or f"group:{group}").partition(":")
    fed = _fed(logstore, named or logstore.group.name, client, way) if kind == "group" else {}
    return fed.keys() == {""}


def refuse_fed(logstore: Logstore, group: str, client: SlsClient, way: str) -> None:
    """Raises ConfigError where `group` feeds a table and `way` leads away from it."""
    for name, fed in _fed(logstore, group, client, way).items():
        move, publish = "`sls-lake checkpoints reset`", "`sls-lake checkpoints repair`"
        if name:
            move = f"`sls-lake checkpoints reset -l {name}`"
            publish = f"`sls-lake checkpoints repair -l {name}`"
        raise ConfigError(
            f"group {group!r} feeds the table {fed.table}, and landings begin where the table has got: "
            f"a checkpoint that is moved would change nothing. To move that table, the same way of {move}; "
            f"to publish what it has, {publish}"
        )


def _fed(logstore: Logstore, group: str, client: SlsClient, way: str) -> dict[str, Logstore]:
    """The settings whose table the group feeds, by name; none for a `way` that leads to the table."""
    if way in ("to_ledger", "to_current"):
        return {}
    lake, all_ = Lake.default(), _of_service(logstore)
    return {n: x for n, x in all_.items() if x.group.name == group and read_ledger(x, lake, client).started}


def _of_service(logstore: Logstore) -> dict[str, Logstore]:
    """This logstore's settings, "" by name, and all others of the project about the same logstore of the
    service."""
    found = {"": logstore}
    for name in known(project_root()):
        # One that cannot be read says so when it is named.
        with suppress(ConfigError):
            other = resolve_quietly(name)
            if _place(other) == _place(logstore) and other.table != logstore.table:
                found[name] = other
    return found


def resolve_quietly(name: str) -> Logstore:
    """The settings under that name, without making it the logstore of this call."""
    return load_named(name, project_root())


def _place(logstore: Logstore) -> tuple[str, str, str]:
    service = logstore.service
    return service.region_name, service.project, service.logstore


def _way(ways: Mapping[str, Any]) -> str:
    given = [name for name, value in ways.items() if value is not None and value is not False]
    if len(given) != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in ways)
        raise click.UsageError(f"say where to, in one way: {options}")
    return given[0]


def _planned(
    logstore: Logstore,
    client: SlsClient,
    target: CheckpointStore,
    way: str,
    ways: Mapping[str, Any],
    *,
    shards: frozenset[int],
    policy: OutsidePolicy,
) -> tuple[Move, ...]:
    aim = _aim(logstore, client, way, ways)
    try:
        return moving.aimed(client, target.read(), aim, shards=shards, policy=policy)
    except CheckpointOutside as error:
        raise ConfigError(f"{error}: --out-of-range begin, or end. Nothing was moved") from error


def _aim(logstore: Logstore, client: SlsClient, way: str, ways: Mapping[str, Any]) -> Aim:
    kinds = {"to_earliest": "earliest", "to_latest": "latest", "to_current": "current"}
    if way in kinds:
        return Aim(kinds[way])  # type: ignore[arg-type]
    if way == "to_datetime":
        return Aim("time", time_s=ways[way])
    if way == "by_duration":
        return Aim("time", time_s=max(0, int(client.now_s()) - ways[way]))
    if way == "shift_by":
        return Aim("shift", shift_s=ways[way])
    if way == "from_file":
        return Aim("cursors", cursors=imported(ways[way]))
    return Aim("cursors", cursors=_frontiers(logstore, client))


def _frontiers(logstore: Logstore, client: SlsClient) -> dict[int, Cursor]:
    """Of the listed shards: the service has no checkpoint of others."""
    ledger = read_ledger(logstore, Lake.default(), client)
    if not ledger.started:
        raise ConfigError(f"nothing has landed in {logstore.table} yet, so no checkpoint follows from it")
    listed = {shard.id for shard in client.shards()}
    return {shard: entry.frontier for shard, entry in ledger.shards.items() if shard in listed}


def _executed(
    logstore: Logstore, client: SlsClient, target: CheckpointStore, moves: tuple[Move, ...], group: str
) -> tuple[Written, ...]:
    if group:
        settings = logstore.group.model_copy(update={"name": group})
        return moving.moved(client, settings, moves)
    return store.reset(target, {m.shard: m.after for m in moves if m.moves and m.after is not None})


def _say_done(output: Output, logstore: Logstore, *, is_group: bool) -> None:
    if is_group:
        output.say(
            f"the group's shards stay with {logstore.group.holder} for one group timeout; a reader that "
            "begins sooner waits for them"
        )
    else:
        output.say("these shards are frozen: a reader that still runs moves none; the next one begins there")


def show(
    output: Output, target: CheckpointStore, moves: tuple[Move, ...], written: tuple[Written, ...]
) -> None:
    """The plan for people, and what became of it."""
    became = {one.shard: fate_text(one) for one in written}
    output.say(escape(target.name))
    output.table(
        ["shard", ">checkpoint", ">to", ""],
        [
            (
                str(move.shard),
                "" if move.before is None else str(move.before),
                "=" if move.after == move.before else "" if move.after is None else str(move.after),
                became.get(move.shard) or escape(_meaning(move)),
            )
            for move in moves
        ],
    )
    for move in moves:
        if move.reopens:
            children = ", ".join(map(str, move.children)) or "none"
            output.say(
                f"[yellow]shard {move.shard} was finished[/]: it is read again, after its children "
                f"({children}) were begun; a reader that needs the order moves them, too"
            )


def _meaning(move: Move) -> str:
    if move.after is None:
        return "nothing is said of it: it stays"
    if not move.moves:
        return "stays"
    text = "begins there" if move.before is None else "back: read again" if move.back else "forward: skipped"
    return f"{text}; {PLACES[move.place]}" if PLACES[move.place] else text


def document(
    target: CheckpointStore, moves: tuple[Move, ...], written: tuple[Written, ...]
) -> dict[str, Any]:
    """The same as JSON; `cursor` is where a shard goes."""
    became = {one.shard: one for one in written}
    return {
        "store": target.name,
        "shards": [
            {
                "shard": m.shard,
                "checkpoint": m.before,
                "cursor": m.after,
                "moves": m.moves,
                "place": m.place,
                "reopens": m.reopens,
                "children": list(m.children),
                "outcome": became[m.shard].fate if m.shard in became else None,
                "why": became[m.shard].why if m.shard in became else "",
            }
            for m in moves
        ],
    }
