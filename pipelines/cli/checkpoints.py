"""`sls-lake checkpoints`: where positions are, and positions copied from one place to another.

The table decides where landings begin. So the checkpoints of a group that feeds one are never moved away
from it: they get what its ledger has, and who wants landings elsewhere copies to the table (`seek.py`).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import click
from rich.markup import escape

from pipelines.cli.groups import settings_for
from pipelines.cli.land import own_holder
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, moment, span, verb
from pipelines.cli.positions import (
    TABLE,
    PlaceView,
    document,
    group_info,
    group_of,
    heads_of,
    is_aim,
    look,
    refuse_fed,
    show_beside,
    show_one,
    source_of,
)
from pipelines.cli.seek import CopyRequest, seek
from pipelines.cli.stores import (
    PLACES,
    WHERE,
    Shards,
    Source,
    fate_text,
    not_done,
    reader_option,
    store_of,
)
from pipelines.cli.table import execute_option
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.repair import execute_repair, plan_repair
from pipelines.landing.run.report import CheckpointOutcome
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints import moving
from sls_io.checkpoints.copying import Difference, Move, copy, written
from sls_io.checkpoints.policy import OUTSIDE_POLICIES, OutsidePolicy
from sls_io.checkpoints.store import CheckpointStore, Written
from sls_io.client import Heads, SlsClient
from sls_io.clock import SYSTEM_CLOCK
from sls_io.errors import CheckpointOutside, ConfigError, ServiceError, TransportError
from sls_io.settings import Group

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
    `failed`: a shard is not where it was asked to be; `after` is said once it was done."""

    source: str
    target: str
    moves: tuple[Move, ...]
    became: Mapping[int, Became]
    failed: bool = False
    made: bool = False
    readers: tuple[str, ...] = ()
    after: str = ""


@click.group("checkpoints")
def checkpoints() -> None:
    """Positions: show, set. A dry run until --execute; take --json and --debug."""


@checkpoints.command("set")
@click.option("--from", "source", required=True, type=Source(), metavar="WHERE", help="See above.")
@click.option("--to", "target", required=True, metavar="WHERE", help=f"table, {WHERE}.")
@click.option("--forward-only", is_flag=True, help="What is further stays; made to be run on a schedule.")
@click.option("--shards", type=Shards(), default=frozenset(), metavar="A,B", help="Only these.")
@click.option(
    "--out-of-range",
    "outside",
    type=click.Choice(OUTSIDE_POLICIES),
    help="What becomes of a cursor that does not lie in its shard.  [default: stop; as it is, forward only]",
)
@click.option("--drop", is_flag=True, help="Forget shards that only the target knows.")
@reader_option
@logstore_option
@execute_option
@verb
def set_(
    output: Output,
    *,
    source: int | str,
    target: str,
    forward_only: bool,
    shards: frozenset[int],
    outside: OutsidePolicy | None,
    drop: bool,
    reader: str | None,
    name: str | None,
    execute: bool,
) -> None:
    """Copy positions. WHERE is ledger, group[:NAME], file:PATH, csv:PATH, sql:ADDRESS or sql:env:VARIABLE.

    --from also takes earliest, latest, a time, -6h (before now) and shift:-30m (by receive time, from where
    the target is). --to also takes the table: back lands whole receive hours again, with all shards, in one
    commit and in this process, and the group follows; forward leaves what lies between owed. With
    --forward-only no hour is landed again, and readers need not end.

    The group that feeds the table gets its ledger alone; forward only as its holder, and nothing is forced.
    Any other group is refused while it is read. A store's shards are frozen until a reader begins there.
    """
    logstore = own_holder(resolve(name))
    asked = CopyRequest(source, target, forward_only, shards, outside, drop, reader, execute)
    kind = target.partition(":")[0]
    if drop and kind not in ("file", "sql"):
        raise click.UsageError("--drop is for a file and a database: nothing else keeps shards that are gone")
    if kind == "csv" and str(source)[:6] == "shift:":
        raise click.UsageError("shift goes from where the target is, and a new file is nowhere yet")
    with SlsClient(logstore.service) as client:
        if target in TABLE:
            seek(output, asked, logstore, client)
            return
        publishes = source in TABLE and forward_only and group_of(target, logstore) == logstore.group.name
        try:
            copied = (_published if publishes else _copied)(asked, logstore, client)
        except CheckpointOutside as error:
            raise ConfigError(f"{error}: --out-of-range begin, or end. Nothing was moved") from error
    _show(output, asked, copied)
    if copied.failed:
        click.get_current_context().exit(EXIT_FAILED)


def _published(asked: CopyRequest, logstore: Logstore, client: SlsClient) -> Copied:
    """The ledger to the group that it feeds, as the holder."""
    moves, after = plan_repair(logstore, Lake.default(), client, shards=asked.shards), ""
    reports = execute_repair(logstore, client, moves) if asked.execute else []
    if any(move.difference == "ahead" for move in moves):
        after = "a checkpoint ahead of the table stays: landings begin at the frontier, and pass it"
    return Copied(
        f"ledger of {logstore.table}",
        f"group {logstore.group.name}",
        moves,
        {one.shard: Became(one.outcome, one.why, str(one)) for one in reports},
        failed=any(one.outcome in _OPEN for one in reports),
        after=after,
    )


def _copied(asked: CopyRequest, logstore: Logstore, client: SlsClient) -> Copied:
    """Anything to a group, a store or a CSV file."""
    group = group_of(asked.target, logstore)
    if group:
        refuse_fed(asked.source, logstore, group, client)
    store = store_of(asked.target, logstore, client, reader=asked.reader, written=True)
    new = _made_like(asked, logstore, client, group)
    kept = {} if new else store.read()
    outside = asked.outside or (None if asked.as_it_stands else "stop")
    heads = heads_of(client, asked.shards) if outside or is_aim(asked.source) else {}
    title, positions = source_of(
        asked.source, logstore, client, heads, kept, shards=asked.shards, reader=asked.reader
    )
    if title == store.name:
        raise click.UsageError(f"{title} is both: name another group or place for the copy")
    moves = copy(
        positions, kept, heads, forward_only=asked.forward_only, outside=outside, shards=asked.shards
    )
    done = _executed(asked, logstore, client, store, moves, new) if asked.execute else ()
    return Copied(
        title,
        store.name,
        moves,
        {one.shard: Became(one.fate, one.why, fate_text(one)) for one in done},
        failed=not_done(done),
        made=new is not None,
        readers=tuple(sorted({entry.holder for entry in kept.values()} - {"", logstore.group.holder})),
        after=_after(asked, logstore) if any(one.fate == "sent" for one in done) else "",
    )


def _made_like(asked: CopyRequest, logstore: Logstore, client: SlsClient, group: str) -> Group | None:
    """The settings of a group that is not there and is made, those of the group that is copied; else None."""
    source = group_of(str(asked.source), logstore)
    if not (source and group) or asked.forward_only:
        return None
    info = group_info(client, source)
    if group in {other.name for other in client.groups()}:
        return None
    return settings_for(logstore, group, info.timeout_s, info.order)


def _executed(
    asked: CopyRequest,
    logstore: Logstore,
    client: SlsClient,
    store: CheckpointStore,
    moves: tuple[Move, ...],
    new: Group | None,
) -> tuple[Written, ...]:
    """Carry it out. Back in a group is as its only member, unless nobody can be in it yet."""
    group = group_of(asked.target, logstore)
    made = new is not None and client.create_group(new)
    if group and not asked.forward_only and not made:
        its = new or logstore.group.model_copy(update={"name": group})
        return moving.moved(client, its, moves) if any(move.moves for move in moves) else ()
    return written(store, moves, forward_only=asked.forward_only, drop=asked.drop)


def _after(asked: CopyRequest, logstore: Logstore) -> str:
    """What a person knows after a copy that was done."""
    if asked.as_it_stands:
        return ""
    if group_of(asked.target, logstore):
        return (
            f"the group's shards stay with {logstore.group.holder} for one group timeout; a reader that "
            "begins sooner waits for them"
        )
    return "these shards are frozen: a reader that still runs moves none; the next one begins there"


def _show(output: Output, asked: CopyRequest, copied: Copied) -> None:
    """For people, and as JSON: `checkpoint` is where the target was, `cursor` where the source is."""
    output.say(escape(f"{copied.source} to {copied.target}{', which is made' if copied.made else ''}"))
    output.table(
        ["shard", ">checkpoint", ">to", ""],
        [
            (
                str(move.shard),
                "" if move.before is None else str(move.before),
                "=" if move.difference == "equal" else "" if move.to is None else str(move.to),
                copied.became[move.shard].text if move.shard in copied.became else _meaning(asked, move),
            )
            for move in copied.moves
        ],
    )
    for move in copied.moves:
        if move.reopens:
            children = ", ".join(map(str, move.children)) or "none"
            output.say(
                f"[yellow]shard {move.shard} was finished[/]: it is read again, after its children "
                f"({children}) were begun; a reader that needs the order moves them, too"
            )
    if copied.after:
        output.say(copied.after)
    if not asked.execute:
        if copied.readers:
            until = "their shards stay" if asked.forward_only else "--execute is refused until that has ended"
            output.say(f"[yellow]it is read by {escape(', '.join(copied.readers))}[/]: {until}")
        output.say_dry()
    output.result(
        {
            "executed": asked.execute,
            "from": copied.source,
            "to": copied.target,
            "made": copied.made,
            "readers": copied.readers,
            "shards": [_entry(move, copied.became.get(move.shard)) for move in copied.moves],
        }
    )


def _meaning(asked: CopyRequest, move: Move) -> str:
    if move.difference == "extra" and asked.drop:
        return "is forgotten"
    text = "begins there" if move.moves and move.before is None else _MEANS[move.difference]
    return f"{text}; {PLACES[move.place]}" if PLACES[move.place] else text


def _entry(move: Move, became: Became | None) -> dict[str, Any]:
    return {
        "shard": move.shard,
        "checkpoint": move.before,
        "cursor": move.to,
        "difference": move.difference,
        "moves": move.moves,
        "place": move.place,
        "reopens": move.reopens,
        "children": list(move.children),
        "outcome": became.outcome if became else None,
        "why": became.why if became else "",
    }


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
    if len(views) == 1:
        show_one(output, views[0])
    else:
        show_beside(output, views)
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
