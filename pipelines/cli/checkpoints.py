"""`sls-lake checkpoints`: where positions are, and positions copied from one place to another.

The table decides where landings begin. So the checkpoints of a group that feeds one are never moved away
from it: they get what its ledger has, and who wants landings elsewhere copies to the table (`seek.py`).
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import click
from rich.markup import escape

from pipelines.cli.deciding import execute_option
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, moment, span, verb
from pipelines.cli.positions import (
    TABLE,
    CopyRequest,
    PlaceView,
    aim_of,
    check_listed,
    document,
    group_info,
    group_of,
    heads_of,
    look,
    refuse_fed,
    show_places,
    source_of,
)
from pipelines.cli.seek import seek
from pipelines.cli.stores import (
    DONE,
    PLACES,
    SHARDS,
    SOURCE,
    STORES,
    check_reader,
    fate_text,
    reader_option,
    store_of,
)
from pipelines.landing.maintenance.repair import execute_repair, plan_repair
from pipelines.landing.run.holder_name import of_command, with_own_name
from pipelines.landing.run.report import CheckpointOutcome
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints import moving
from sls_io.checkpoints.copying import Difference, Move, copy, written
from sls_io.checkpoints.policy import OUTSIDE_POLICIES
from sls_io.checkpoints.store import CheckpointStore, Written
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import CheckpointOutside, ConfigError, ServiceError, TransportError
from sls_io.wire.client import GroupInfo, SlsClient
from sls_io.wire.heads import Heads

_OPEN = {CheckpointOutcome.NOT_HELD, CheckpointOutcome.PUT_OFF}
"""Of these a frontier was not published."""
_MEANS: dict[Difference, str] = {
    "behind": "forward",
    "back": "back: read again",
    "ahead": "stays: it is further already",
    "equal": "stays",
    "frozen": "stays: frozen until a reader begins from it",
    "empty": "stays: the source has none",
    "extra": "stays: the source does not know it",
    "gone": "stays: the service has no such shard any more",
}


class Became(NamedTuple):
    """What became of one shard: in a word, why, and for people."""

    outcome: str
    why: str
    text: str


class Copied(NamedTuple):
    """A copy, done or not. `made`: the target's group is a new one; `readers` are others who read with it;
    `failed`: a shard is not where it was asked to be; `note` is for people."""

    source: str
    target: str
    moves: tuple[Move, ...]
    became: Mapping[int, Became]
    failed: bool = False
    made: bool = False
    readers: tuple[str, ...] = ()
    note: str = ""


@click.group("checkpoints")
def checkpoints() -> None:
    """Positions: show, set. A dry run until --execute; take --json and --debug."""


@checkpoints.command("set")
@click.option("--from", "source", required=True, type=SOURCE, metavar="WHERE", help="See above.")
@click.option("--to", "target", required=True, metavar="WHERE", help=f"table, {STORES}.")
@click.option("--forward-only", is_flag=True, help="What is further stays; made to be run on a schedule.")
@click.option("--shards", type=SHARDS, default=frozenset(), metavar="A,B", help="Only these.")
@click.option(
    "--out-of-range",
    "outside",
    type=click.Choice(OUTSIDE_POLICIES),
    help="What becomes of a cursor that does not lie in its shard.  [default: stop; to other places than the "
    "table, forward only, as it is]",
)
@click.option("--drop", is_flag=True, help="Forget shards that only the target knows.")
@reader_option
@logstore_option
@execute_option
@verb
def set_(output: Output, *, name: str | None, **options: Any) -> None:
    """Copy positions. WHERE is ledger, group[:NAME], file:PATH, csv:PATH, sql:ADDRESS or sql:env:VARIABLE.

    --from also takes earliest, latest, a time, -6h (before now) and shift:-30m (by receive time, from where
    the target is). --to also takes the table: back lands receive hours again, with all shards, in one
    commit and in this process, and the group follows; forward leaves what lies between owed. With
    --forward-only no hour is landed again, and readers need not end.

    The group that feeds the table gets its ledger alone; forward only as its holder, and nothing is forced.
    Any other group is refused while it is read. A store's shards are frozen until a reader begins there; the
    ledger in its own mirror is not, and runs move it on.
    """
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        asked = CopyRequest(with_own_name(logstore), client, **options)
        kind = asked.target.partition(":")[0]
        if asked.drop and kind not in ("file", "sql"):
            raise click.UsageError("--drop is for a file and a database: elsewhere no shard stays for ever")
        if kind == "csv" and str(asked.source)[:6] == "shift:":
            raise click.UsageError("shift goes from where the target is, and a new file is nowhere yet")
        check_reader(asked.reader, asked.target, str(asked.source))
        if asked.target == "ledger":
            raise click.UsageError(
                "a ledger follows landings: --to table moves the table, and its ledger too"
            )
        publishes = asked.source in TABLE and asked.forward_only and asked.group == logstore.group.name
        try:
            if asked.target == "table" or publishes:
                with of_command(logstore, Lake.default()) as (named, _):
                    asked = replace(asked, logstore=named)
                    if asked.target == "table":
                        seek(output, asked)
                        return
                    copied = _published(asked)
            else:
                copied = _copied(asked)
        except CheckpointOutside as error:
            raise ConfigError(f"{error}: --out-of-range begin, or end. Nothing was changed") from error
    _show(output, asked, copied)


def _published(asked: CopyRequest) -> Copied:
    """The ledger to the group that it feeds, as the holder."""
    lake = Lake.default()
    moves = plan_repair(asked.logstore, lake, asked.client, shards=asked.shards)
    check_listed(asked.shards, [move.shard for move in moves])
    reports = execute_repair(asked.logstore, lake, asked.client, moves) if asked.execute else []
    ahead = any(move.difference == "ahead" for move in moves)
    return Copied(
        f"ledger of {asked.logstore.table}",
        f"group {asked.group}",
        moves,
        {one.shard: Became(one.outcome, one.why, escape(str(one))) for one in reports},
        failed=any(one.outcome in _OPEN for one in reports),
        note="a checkpoint ahead of the table stays: landings begin at the frontier, and pass it" * ahead,
    )


def _copied(asked: CopyRequest) -> Copied:
    """Anything to a group, a store or a CSV file."""
    refuse_fed(asked)
    store = store_of(asked.target, asked.logstore, asked.client, reader=asked.reader, written=True)
    new = _made_like(asked)
    kept = {} if new else store.read()
    outside = asked.outside or (None if asked.as_it_stands else "stop")
    needed = outside or aim_of(asked.source, 0) is not None
    heads = heads_of(asked.client, asked.shards) if needed else {}
    title, positions = source_of(asked, heads, kept)
    if title == store.name:
        raise click.UsageError(f"{title} is both: name another group or place for the copy")
    if asked.drop and not positions:
        raise ConfigError(f"{title} keeps no position, so --drop would forget all of {store.name}")
    moves = copy(
        positions, kept, heads, forward_only=asked.forward_only, outside=outside, shards=asked.shards
    )
    check_listed(asked.shards, [move.shard for move in moves])
    done = _executed(asked, store, moves, new) if asked.execute else ()
    return Copied(
        title,
        store.name,
        moves,
        {one.shard: Became(one.fate, one.why, fate_text(one)) for one in done},
        failed=any(one.fate not in DONE for one in done),
        made=new is not None,
        readers=tuple(sorted({entry.holder for entry in kept.values()} - {"", asked.logstore.group.holder})),
        note="" if new else _note(asked, done),
    )


def _made_like(asked: CopyRequest) -> GroupInfo | None:
    """The settings of a group that is not there and is made: those of the group that is copied, else of the
    logstore's own. None for a group that is there. Raises ConfigError for one that a schedule would make."""
    if not asked.group:
        return None
    source, ours = group_of(asked.source, asked.logstore), asked.logstore.group
    like = group_info(asked.client, source) if source else GroupInfo(ours.name, ours.timeout_s, ours.order)
    if any(other.name == asked.group for other in asked.client.groups()):
        return None
    if asked.forward_only:
        raise ConfigError(
            f"the logstore has no consumer group {asked.group!r}, and --forward-only makes none",
            cures=(commands.made_group(asked.group),),
        )
    return replace(like, name=asked.group)


def _executed(
    asked: CopyRequest, store: CheckpointStore, moves: tuple[Move, ...], new: GroupInfo | None
) -> tuple[Written, ...]:
    """Carry it out. Back in a group is as its only member, unless nobody can be in it yet."""
    made = new is not None and asked.client.create_group(new)
    if asked.group and not asked.forward_only and not made:
        its = asked.logstore.group.model_copy(update={"name": asked.group})
        return moving.moved(asked.client, its, moves) if any(move.moves for move in moves) else ()
    done = written(store, moves, forward_only=asked.forward_only, drop=asked.drop)
    if asked.follows:
        store.thaw({move.shard: move.cursor for move in moves if move.cursor is not None})
    return done


def _note(asked: CopyRequest, done: tuple[Written, ...]) -> str:
    """What a person knows after a copy that was done."""
    if asked.follows and not asked.group:
        return "it is the table's mirror: each live run moves it on from there"
    if asked.as_it_stands or not any(one.fate == "sent" for one in done):
        return ""
    if asked.group:
        return (
            f"the group's shards stay with {asked.logstore.group.holder} for one group timeout; a reader "
            "that begins sooner waits for them"
        )
    return "these shards are frozen: a reader that still runs moves none; the next one begins there"


def _show(output: Output, asked: CopyRequest, copied: Copied) -> None:
    """For people, and as JSON."""
    output.say(escape(f"{copied.source} to {copied.target}{', which is made' if copied.made else ''}"))
    plan = {move.shard: _meaning(asked, move) for move in copied.moves}
    plan |= {shard: one.text for shard, one in copied.became.items()}
    output.records(
        [
            {
                "shard": move.shard,
                "checkpoint": move.checkpoint,
                "cursor": "=" if None is not move.cursor == move.checkpoint else move.cursor,
                "": plan[move.shard],
            }
            for move in copied.moves
        ]
    )
    for move in copied.moves:
        if move.reopens:
            children = ", ".join(map(str, move.children)) or "none"
            output.say(
                f"[yellow]shard {move.shard} was finished[/]: it is read again, after its children "
                f"({children}) were begun; a reader that needs the order moves them, too"
            )
    if copied.note:
        output.say(copied.note)
    if not asked.execute:
        if copied.readers:
            until = "their shards stay" if asked.forward_only else "--execute is refused until that has ended"
            output.say(f"[yellow]it is read by {escape(', '.join(copied.readers))}[/]: {until}")
        output.say_dry()
    became = {shard: {"outcome": one.outcome, "why": one.why} for shard, one in copied.became.items()}
    nothing = {"outcome": None, "why": ""}
    output.result(
        {
            "executed": asked.execute,
            "from": copied.source,
            "to": copied.target,
            "made": copied.made,
            "readers": copied.readers,
            "shards": [
                {**asdict(move), "moves": move.moves, **became.get(move.shard, nothing)}
                for move in copied.moves
            ],
        },
        fails=copied.failed,
    )


def _meaning(asked: CopyRequest, move: Move) -> str:
    if move.difference == "extra" and asked.drop:
        return "is forgotten"
    text = "begins there" if move.moves and move.checkpoint is None else _MEANS[move.difference]
    return f"{text}; {PLACES[move.place]}" if PLACES[move.place] else text


@checkpoints.command("show")
@click.argument("places", nargs=-1, metavar="[WHERE]...")
@reader_option
@click.option(
    "--watch",
    "every_s",
    type=click.FloatRange(min=0.1, max=86_400),
    metavar="SECONDS",
    help="Ask again and again, until Ctrl-C.",
)
@logstore_option
@verb
def show(
    output: Output, *, places: tuple[str, ...], reader: str | None, every_s: float | None, name: str | None
) -> None:
    """Show where a group, a store or the table is, and how far behind; several beside one another.

    WHERE is ledger, group[:NAME], file:PATH, csv:PATH, sql:ADDRESS or sql:env:VARIABLE; the logstore's own
    group unless it is said. LogGroups are the most that can wait: cursors may jump. Bytes are what landed
    lately would make of it.
    """
    if every_s and output.as_json:
        raise click.UsageError("--json is one document: leave --watch out, and ask again")
    check_reader(reader, *places)
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        while True:
            try:
                heads = Heads(client)
                views = [look(word, logstore, client, heads, reader=reader) for word in places or ("group",)]
                _show_places(output, views, moment(client.now_s()), reader or logstore.group.name)
            except (TransportError, ServiceError) as error:
                # What the service refuses it will refuse again; its own failures pass.
                if not every_s or (isinstance(error, ServiceError) and error.status < 500):
                    raise
                output.say(f"[yellow]could not be asked[/]: {escape(str(error))}")
            if not every_s:
                return
            SYSTEM_CLOCK.sleep(every_s)


def _show_places(output: Output, views: list[PlaceView], now: str, reader: str) -> None:
    output.say(f"{escape(', '.join(view.name for view in views))}, {now} UTC")
    show_places(output, views)
    for view in views:
        its = f"{view.word}: " if len(views) > 1 else ""
        if not view.kept:
            own = "" if view.states else f" for reader {reader}"
            said = f"no position is kept there{own}: nobody has begun, or it is another one"
        elif (slowest := view.slowest) is None:
            said = "nothing waits"
        else:
            said = (
                f"the slowest is shard {slowest.shard}: its oldest log that waits was received "
                f"{span(slowest.lag_s)} ago"
            )
        output.say(escape(f"{its}{said}"))
    output.result({"places": [document(view) for view in views]})
