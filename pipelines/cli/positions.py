"""Places that have positions, as words of the command line: their cursors by shard, and how far behind."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rich.markup import escape

from pipelines.cli.logstores import known, load_named, project_root
from pipelines.cli.output import Output, megabytes, moment, span
from pipelines.cli.stores import PLACES, SPANS, seconds_of, store_of
from pipelines.landing.inspection.describe import describe, read_ledger
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints.copying import Positions
from sls_io.checkpoints.group import GroupCheckpoints
from sls_io.checkpoints.lag import ShardLag, lags, states
from sls_io.checkpoints.moving import Aim, aimed
from sls_io.checkpoints.policy import OutsidePolicy
from sls_io.checkpoints.store import Kept
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError
from sls_io.values.shard import Head, ShardState
from sls_io.values.side_by_side import side_by_side
from sls_io.values.window import Cursor
from sls_io.wire.client import GroupInfo, SlsClient
from sls_io.wire.heads import Heads

TABLE = ("ledger", "table")
"""Two words for one place: where the table has got."""
_SEEN = ("place", "begin", "end", "received_s", "lag_s", "groups_max")
STATES = {
    ShardState.WAIT: "waits for its parents",
    ShardState.NOT_ALLOC: "free",
    ShardState.ALREADY_ALLOC: "held, or on its way",
    ShardState.TRANSFER: "on its way",
    ShardState.OVER: "over",
}


def group_of(where: int | str, logstore: Logstore) -> str:
    """The consumer group that `where` names, "" for another place."""
    kind, _, name = str(where).partition(":")
    return (name or logstore.group.name) if kind == "group" else ""


@dataclass(frozen=True)
class CopyRequest:
    """What was typed of a copy; `source` is a place, an edge, a span or unix seconds."""

    logstore: Logstore
    client: SlsClient
    source: int | str
    target: str
    forward_only: bool
    shards: frozenset[int]
    outside: OutsidePolicy | None
    drop: bool
    reader: str | None
    execute: bool

    @property
    def group(self) -> str:
        """The consumer group that is copied to, "" for another place."""
        return group_of(self.target, self.logstore)

    @property
    def follows(self) -> bool:
        """Whether the ledger is put into the mirror that live runs move on."""
        return self.source in TABLE and self.target == self.logstore.mirror and not self.forward_only

    @property
    def as_it_stands(self) -> bool:
        """Whether a cursor outside of its shard is copied as it is, unless something else was said."""
        return self.forward_only or self.target.partition(":")[0] == "csv"


def group_info(client: SlsClient, name: str) -> GroupInfo:
    """Raises ConfigError for a group that is not there."""
    there = {info.name: info for info in client.groups()}
    if name not in there:
        others = f"there is {', '.join(sorted(there))}" if there else "there is none"
        raise ConfigError(f"the logstore has no consumer group {name!r} (Dead, as Kafka calls it): {others}")
    return there[name]


# --- where positions come from


def heads_of(client: SlsClient, shards: Collection[int] = ()) -> dict[int, Head]:
    """Every listed shard. Raises ConfigError unless these `shards` are among them."""
    listed = client.shards()
    check_listed(shards, [shard.id for shard in listed])
    return {head.shard.id: head for head in side_by_side(client.head, listed)}


def check_listed(shards: Collection[int], listed: Collection[int]) -> None:
    """Raises ConfigError for a shard that is not among those there are."""
    if unknown := sorted(set(shards) - set(listed)):
        names, there = ", ".join(map(str, unknown)), ", ".join(map(str, listed))
        raise ConfigError(f"the logstore lists no shard {names}: there is {there}")


def source_of(
    asked: CopyRequest, heads: Mapping[int, Head], kept: Mapping[int, Kept]
) -> tuple[str, Positions]:
    """The name and the positions of what `--from` says. `kept` is what the target has; an edge or a time is
    asked of `heads`. Raises ConfigError for a CSV file with a shard that is not listed, and where there is
    nothing to copy: of a file or a database nobody can tell "nothing yet" from a wrong name."""
    source, logstore, client = asked.source, asked.logstore, asked.client
    if aim := aim_of(source, int(client.now_s())):
        if aim.kind == "shift" and not any(entry.cursor is not None for entry in kept.values()):
            raise ConfigError(f"{asked.target} keeps no position to shift from. Nothing was changed")
        chosen = {shard: head for shard, head in heads.items() if not asked.shards or shard in asked.shards}
        title = f"{moment(source)} UTC" if isinstance(source, int) else source
        return title, aimed(client, aim, chosen, kept)
    if source in TABLE:
        return f"ledger of {logstore.table}", frontiers(logstore, client)
    return _kept_in(asked, heads)


def _kept_in(asked: CopyRequest, heads: Mapping[int, Head]) -> tuple[str, Positions]:
    """What a group, a file or a database keeps."""
    source, only = str(asked.source), asked.shards
    group = group_of(source, asked.logstore)
    if group:
        group_info(asked.client, group)
    store = store_of(source, asked.logstore, asked.client, reader=asked.reader)
    positions = {shard: entry.cursor for shard, entry in store.read().items()}
    if heads and not only and source.partition(":")[0] == "csv":
        check_listed(positions, heads)
    begun = {shard for shard, at in positions.items() if at is not None}
    if not group and not (begun & only if only else begun):
        shards = f" of shard {', '.join(map(str, sorted(only)))}" if only else ""
        raise ConfigError(
            f"{store.name} keeps no position{shards}: nobody has begun, or it is another file, database or "
            "--reader. Nothing was changed"
        )
    return store.name, positions


def aim_of(source: int | str, now_s: int) -> Aim | None:
    """The edge or time of each shard that it names, None for a place that keeps positions."""
    if isinstance(source, int):
        return Aim("time", source)
    if source in ("earliest", "latest"):
        return Aim("earliest" if source == "earliest" else "latest")
    if not SPANS.fullmatch(source):
        return None
    shifts, _, text = source.rpartition(":")
    seconds = seconds_of(text)
    return Aim("shift", seconds) if shifts else Aim("time", max(0, now_s + seconds))


def frontiers(logstore: Logstore, client: SlsClient) -> dict[int, Cursor]:
    """Of the listed shards: the service has no checkpoint of others."""
    ledger = read_ledger(logstore, Lake.default(), client)
    if not ledger.started:
        raise ConfigError(f"nothing has landed in {logstore.table} yet, so no checkpoint follows from it")
    listed = {shard.id for shard in client.shards()}
    return {shard: entry.frontier for shard, entry in ledger.shards.items() if shard in listed}


# --- groups that feed a table


def refuse_fed(asked: CopyRequest) -> None:
    """Raises ConfigError where the group that is copied to feeds a table, and gets not that table's ledger.

    The table decides where landings begin. A checkpoint that leads away from it would change nothing and show
    people a lie. Worked example: group `lake` feeds bronze.access_logs. A copy of `earliest` to it is refused
    and names `checkpoints set --to table`, which moves the table. A copy of `ledger` to it is what a run does
    anyway. A copy to `lake` from the ledger of another table on the same logstore is refused as well.
    """
    lake, source = Lake.default(), asked.source
    for name, other in _of_service(asked.logstore).items() if asked.group else ():
        own_ledger = not name and source in TABLE
        if other.group.name != asked.group or own_ledger:
            continue
        if read_ledger(other, lake, asked.client).started:
            its = ("-l", name) if name else ()
            move = Call(("checkpoints", "set", "--to", "table", *its, "--from", str(source)))
            raise ConfigError(
                f"group {asked.group!r} feeds the table {other.table}, and landings begin where the table "
                "has got: a checkpoint that is moved would change nothing",
                cures=(
                    move.plus(does="moves that table"),
                    commands.PUBLISH.plus(*its, does="publishes what it has"),
                ),
            )


def _of_service(logstore: Logstore) -> dict[str, Logstore]:
    """This logstore's settings, "" by name, and all others of the project about the same logstore of the
    service."""
    found = {"": logstore}
    for name in known(project_root()):
        # One that cannot be read says so when it is named.
        with suppress(ConfigError):
            other = load_named(name, project_root())
            if _place(other) == _place(logstore) and other.table != logstore.table:
                found[name] = other
    return found


def _place(logstore: Logstore) -> tuple[str, str, str]:
    service = logstore.service
    return service.region_name, service.project, service.logstore


# --- what a place has, beside the service


@dataclass(frozen=True)
class PlaceView:
    """A place: what it keeps, how far that is behind, raw bytes that wait where a ledger tells, and the state
    of each shard in a group. `word` is what was typed."""

    word: str
    name: str
    kept: Mapping[int, Kept]
    lags: Mapping[int, ShardLag]
    waiting: Mapping[int, int] = field(default_factory=dict)
    states: Mapping[int, ShardState] = field(default_factory=dict)

    @property
    def slowest(self) -> ShardLag | None:
        """The shard whose oldest waiting log is the oldest; None where nothing waits."""
        behind = [one for one in self.lags.values() if one.groups_max]
        return max(behind, key=lambda one: one.lag_s, default=None)


def look(
    word: str, logstore: Logstore, client: SlsClient, heads: Heads, *, reader: str | None = None
) -> PlaceView:
    """Ask the place and the service. LogGroups are the most that can wait: cursors may jump. Bytes are what
    landed lately would make of it, and only a table knows that; of a group or a file they are not said."""
    if word in TABLE:
        views = describe(logstore, Lake.default(), client, heads=heads)
        kept = {view.shard: Kept(view.frontier, holder=view.holder) for view in views}
        waiting = {view.shard: int(view.backlog.raw_bytes) for view in views if view.backlog is not None}
        return PlaceView(word, f"table {logstore.table}", kept, _lags(client, kept, heads), waiting)
    store = store_of(word, logstore, client, reader=reader)
    if group := group_of(word, logstore):
        return look_at_group(client, group_info(client, group), heads)
    there = store.read()
    return PlaceView(word, store.name, there, _lags(client, there, heads))


def look_at_group(client: SlsClient, info: GroupInfo, heads: Heads) -> PlaceView:
    """The same of a group, and the state of each shard as far as it shows from outside."""
    store = GroupCheckpoints(client, info.name)
    kept = store.read()
    found = _lags(client, kept, heads)
    holders = {shard: entry.holder for shard, entry in kept.items()}
    seen = states(found.values(), client.shards(), holders, order=info.order)
    return PlaceView(f"group:{info.name}", store.name, kept, found, states=seen)


def _lags(client: SlsClient, kept: Mapping[int, Kept], heads: Heads) -> dict[int, ShardLag]:
    places = {shard: entry.cursor for shard, entry in kept.items()}
    return {one.shard: one for one in lags(client, places, heads=heads)}


def document(view: PlaceView) -> dict[str, Any]:
    """The place as JSON."""
    return {
        "where": view.name,
        "lag_s": max((one.lag_s for one in view.lags.values()), default=0.0),
        "groups_max": sum(one.groups_max for one in view.lags.values()),
        "raw_bytes": sum(view.waiting.values()) if view.waiting else None,
        "shards": [_entry(view, shard) for shard in sorted({*view.kept, *view.lags})],
    }


def _entry(view: PlaceView, shard: int) -> dict[str, Any]:
    kept, lag = view.kept.get(shard, Kept(None)), view.lags.get(shard)
    seen = {name: getattr(lag, name, None) for name in _SEEN}
    return {
        "shard": shard,
        "checkpoint": kept.cursor,
        "saved_s": kept.saved_s,
        "frozen": kept.frozen,
        "holder": kept.holder,
        "state": view.states.get(shard),
        "listed": lag is not None,
        "raw_bytes": view.waiting.get(shard),
        **seen,
    }


def show_places(output: Output, views: Sequence[PlaceView]) -> None:
    """Each shard with all that is known of a place; of several their cursors and lags, beside one another."""
    shards = sorted({shard for view in views for shard in (*view.kept, *view.lags)})
    columns = [("shard", list(map(str, shards)))]
    columns += _all_of(views[0], shards) if len(views) == 1 else _beside(views, shards)
    output.table(
        [heading for heading, _ in columns],
        list(zip(*(values for _, values in columns), strict=True)),
        less=("kept (UTC)", "end", "groups at most", "received (UTC)", "holder"),
    )


def _all_of(view: PlaceView, shards: Sequence[int]) -> list[tuple[str, list[str]]]:
    """The columns that have something."""
    cells = [_cells(view, shard) for shard in shards]
    columns = [(heading, [each[heading] for each in cells]) for heading in _cells(view, -1)]
    return [(heading, values) for heading, values in columns if any(values)]


def _beside(views: Sequence[PlaceView], shards: Sequence[int]) -> list[tuple[str, list[str]]]:
    ends = {shard: str(lag.end) for view in views for shard, lag in view.lags.items()}
    columns = [(">end", [ends.get(shard, "") for shard in shards])]
    notes: list[list[str]] = [[] for _ in shards]
    for view in views:
        word, cells = escape(view.word), [_cells(view, shard) for shard in shards]
        columns.append((f">{word}", [each[">at"] for each in cells]))
        columns.append((">lag", [each[">lag"] for each in cells]))
        for said, each in zip(notes, cells, strict=True):
            said += [f"{word}: {each['']}"] if each[""] else []
    return [*columns, ("", ["; ".join(said) for said in notes])] if any(notes) else columns


def _cells(view: PlaceView, shard: int) -> dict[str, str]:
    """What is known of a shard. Cursors are names, not amounts: no thousands separators."""
    kept, lag = view.kept.get(shard, Kept(None)), view.lags.get(shard)
    notes = [
        "gone from the service" if lag is None else PLACES[lag.place],
        "frozen" if kept.frozen else "",
        "drained" if lag and lag.drained else "",
        "has not begun" if kept.cursor is None else "",
    ]
    return {
        "state": STATES[view.states[shard]] if shard in view.states else "",
        "holder": escape(kept.holder),
        ">at": "" if kept.cursor is None else str(kept.cursor),
        ">end": "" if lag is None else "=" if lag.end == kept.cursor else str(lag.end),
        ">lag": span(lag.lag_s) if lag else "",
        ">groups at most": f"{lag.groups_max:,}" if lag else "",
        ">about": megabytes(view.waiting[shard]) if shard in view.waiting else "",
        "received (UTC)": moment(lag.received_s) if lag else "",
        "kept (UTC)": moment(kept.saved_s),
        "": ", ".join(filter(None, notes)),
    }
