"""Places that have positions, as words of the command line: their cursors by shard, and how far behind."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pipelines.cli import calls
from pipelines.cli.logstores import known, load_named, project_root
from pipelines.cli.output import Output, megabytes, moment, span
from pipelines.cli.stores import PLACES, SPANS, Span, store_of
from pipelines.landing.inspection.describe import describe, read_ledger
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints.copying import Positions
from sls_io.checkpoints.group import GroupCheckpoints
from sls_io.checkpoints.lag import ShardLag, lags, states
from sls_io.checkpoints.moving import Aim, aimed
from sls_io.checkpoints.store import Kept
from sls_io.client import GroupInfo, Heads, SlsClient
from sls_io.errors import ConfigError
from sls_io.shard import Head, ShardState
from sls_io.window import Cursor

TABLE = ("ledger", "table")
"""Two words for one place: where the table has got."""
PUBLISH = ("checkpoints", "set", "--from", "ledger", "--to", "group", "--forward-only")
"""The call that gives the group of a table what its ledger has, as the holder."""
STATES = {
    ShardState.WAIT: "waits for its parents",
    ShardState.NOT_ALLOC: "free",
    ShardState.ALREADY_ALLOC: "held, or on its way",
    ShardState.TRANSFER: "on its way",
    ShardState.OVER: "over",
}


def group_of(where: str, logstore: Logstore) -> str:
    """The consumer group that `where` names, "" for another place."""
    kind, _, name = where.partition(":")
    return (name or logstore.group.name) if kind == "group" else ""


def group_info(client: SlsClient, name: str) -> GroupInfo:
    """Raises ConfigError for a group that is not there."""
    there = {info.name: info for info in client.groups()}
    if name not in there:
        others = f"there is {', '.join(sorted(there))}" if there else "there is none"
        raise ConfigError(f"the logstore has no consumer group {name!r}: {others}")
    return there[name]


# --- where positions come from


def heads_of(client: SlsClient, shards: Collection[int] = ()) -> dict[int, Head]:
    """Every listed shard. Raises ConfigError unless these `shards` are among them."""
    listed = client.shards()
    check_listed(shards, [shard.id for shard in listed])
    return {shard.id: client.head(shard) for shard in listed}


def check_listed(shards: Collection[int], listed: Collection[int]) -> None:
    """Raises ConfigError for a shard that the service does not list."""
    if unknown := sorted(set(shards) - set(listed)):
        names, there = ", ".join(map(str, unknown)), ", ".join(map(str, listed))
        raise ConfigError(f"the logstore lists no shard {names}: there is {there}")


def is_aim(source: int | str) -> bool:
    """Whether it is an edge or a time of each shard, and no place that keeps positions."""
    return isinstance(source, int) or source in ("earliest", "latest") or bool(SPANS.fullmatch(source))


def source_of(
    source: int | str,
    logstore: Logstore,
    client: SlsClient,
    heads: Mapping[int, Head],
    kept: Mapping[int, Kept],
    *,
    shards: Collection[int],
    reader: str | None,
) -> tuple[str, Positions]:
    """The name and the positions of what `--from` says. `kept` is what the target has; an edge or a time is
    asked of `heads`, of these `shards` only. Raises ConfigError for a CSV file with a shard that is not
    listed."""
    heads = {shard: head for shard, head in heads.items() if not shards or shard in shards}
    if isinstance(source, int):
        return f"the first log received at {moment(source)} UTC or later", aimed(
            client, Aim("time", source), heads, kept
        )
    if source in ("earliest", "latest"):
        return source, aimed(client, Aim("earliest" if source == "earliest" else "latest"), heads, kept)
    if SPANS.fullmatch(source):
        word, _, text = source.rpartition(":")
        seconds = Span(signed=True).convert(text, None, None)
        aim = Aim("shift", seconds) if word else Aim("time", max(0, int(client.now_s()) + seconds))
        return source, aimed(client, aim, heads, kept)
    if source in TABLE:
        return f"ledger of {logstore.table}", frontiers(logstore, client)
    store = store_of(source, logstore, client, reader=reader)
    positions = {shard: entry.cursor for shard, entry in store.read().items()}
    if heads and not shards and source.partition(":")[0] == "csv":
        check_listed(positions, heads)
    return store.name, positions


def frontiers(logstore: Logstore, client: SlsClient) -> dict[int, Cursor]:
    """Of the listed shards: the service has no checkpoint of others."""
    ledger = read_ledger(logstore, Lake.default(), client)
    if not ledger.started:
        raise ConfigError(f"nothing has landed in {logstore.table} yet, so no checkpoint follows from it")
    listed = {shard.id for shard in client.shards()}
    return {shard: entry.frontier for shard, entry in ledger.shards.items() if shard in listed}


# --- groups that feed a table


def refuse_fed(source: int | str, logstore: Logstore, group: str, client: SlsClient) -> None:
    """Raises ConfigError where `group` feeds a table, and what is copied is not that table's ledger.

    The table decides where landings begin. A checkpoint that leads away from it would change nothing and show
    people a lie.
    """
    lake = Lake.default()
    for name, other in _of_service(logstore).items():
        if other.group.name != group or (not name and source in TABLE):
            continue
        if read_ledger(other, lake, client).started:
            its = ["-l", name] if name else []
            move = calls.of(["checkpoints", "set", "--to", "table", *its, "--from", str(source)])
            raise ConfigError(
                f"group {group!r} feeds the table {other.table}, and landings begin where the table has got: "
                f"a checkpoint that is moved would change nothing. To move that table, `{move}`; to publish "
                f"what it has, `{calls.of([*PUBLISH, *its])}`"
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
    landed lately would make of it."""
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
    return {
        "shard": shard,
        "checkpoint": kept.cursor,
        "saved_s": kept.saved_s,
        "frozen": kept.frozen,
        "holder": kept.holder,
        "state": view.states.get(shard),
        "listed": lag is not None,
        "place": lag.place if lag else None,
        "begin": lag.begin if lag else None,
        "end": lag.end if lag else None,
        "received_s": lag.received_s if lag else None,
        "lag_s": lag.lag_s if lag else None,
        "groups_max": lag.groups_max if lag else None,
        "raw_bytes": view.waiting.get(shard),
    }


def show_one(output: Output, view: PlaceView) -> None:
    """A place with all that is known of it."""
    columns = [">at", ">end", ">lag", ">groups at most", ">about", "received (UTC)", "kept (UTC)"]
    columns = ["shard", "state", "holder", *columns, ""]
    rows = [_shown(view, shard) for shard in sorted({*view.kept, *view.lags})]
    filled = [n for n, _ in enumerate(columns) if any(row[n] != "" for row in rows)]
    output.table(
        [columns[n] for n in filled],
        [[row[n] for n in filled] for row in rows],
        less=("kept (UTC)", "end", "groups at most", "received (UTC)", "holder"),
    )


def _shown(view: PlaceView, shard: int) -> tuple[object, ...]:
    kept, lag = view.kept.get(shard, Kept(None)), view.lags.get(shard)
    notes = [
        "gone from the service" if lag is None else PLACES[lag.place],
        "frozen" if kept.frozen else "",
        "drained" if lag and lag.drained else "",
        "has not begun" if kept.cursor is None else "",
    ]
    return (
        str(shard),
        STATES[view.states[shard]] if shard in view.states else "",
        kept.holder,
        _cursor(kept.cursor),
        _cursor(lag.end if lag else None, kept.cursor),
        span(lag.lag_s) if lag else "",
        lag.groups_max if lag else "",
        megabytes(view.waiting[shard]) if shard in view.waiting else "",
        moment(lag.received_s) if lag else "",
        moment(kept.saved_s),
        ", ".join(filter(None, notes)),
    )


def show_beside(output: Output, views: Collection[PlaceView]) -> None:
    """Several places beside one another: where each is, and its lag."""
    ends = {shard: lag.end for view in views for shard, lag in view.lags.items()}
    shards = sorted({*ends, *(shard for view in views for shard in view.kept)})
    columns = ["shard", ">end", *(name for view in views for name in (f">{view.word}", ">lag"))]
    rows = []
    for shard in shards:
        row = [str(shard), _cursor(ends.get(shard))]
        for view in views:
            lag = view.lags.get(shard)
            row += [_cursor(view.kept.get(shard, Kept(None)).cursor, ends.get(shard))]
            row += [span(lag.lag_s) if lag else ""]
        rows.append(row)
    output.table(columns, rows, less=("end",))


def _cursor(cursor: Cursor | None, other: Cursor | None = None) -> str:
    """Cursors are names, not amounts: no thousands separators. `=` where it is the `other`."""
    if cursor is None:
        return ""
    return "=" if cursor == other else str(cursor)
