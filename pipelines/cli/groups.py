"""`sls-lake groups`: the consumer groups of a logstore. A change is a dry run until `--execute`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.deciding import execute_option
from pipelines.cli.land import own_holder
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, moment, span, verb
from pipelines.cli.reset import document, refuse_fed
from pipelines.cli.reset import show as show_moves
from pipelines.cli.stores import PLACES, GroupName, not_done
from pipelines.landing.logstore import Logstore
from sls_io.checkpoints import moving
from sls_io.checkpoints.group import GroupCheckpoints
from sls_io.checkpoints.lag import ShardLag, lags, states
from sls_io.checkpoints.moving import Aim
from sls_io.checkpoints.store import Written, reset
from sls_io.client import GroupCheckpoint, GroupInfo, SlsClient
from sls_io.errors import ClaimLost, ConfigError
from sls_io.settings import Group
from sls_io.shard import ShardState

_STATES = {
    ShardState.WAIT: "waits for its parents",
    ShardState.NOT_ALLOC: "free",
    ShardState.ALREADY_ALLOC: "held, or on its way",
    ShardState.TRANSFER: "on its way",
    ShardState.OVER: "over",
}
timeout_option = click.option(
    "--timeout",
    "timeout_s",
    type=click.IntRange(3, 3600),
    metavar="SECONDS",
    help="A silent holder is dropped.",
)
order_option = click.option(
    "--order/--no-order", default=None, help="Whether a child shard waits until its parents are read."
)


@click.group("groups")
def groups() -> None:
    """Consumer groups: list, describe, create, update, delete, clone. Take --json and --debug."""


@groups.command("list")
@logstore_option
@verb
def listed(output: Output, *, name: str | None) -> None:
    """Show the logstore's consumer groups, who is seen in them, and when they last moved."""
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        found = [(info, client.checkpoints(info.name)) for info in client.groups()]
    rows = [_summary(info, entries) for info, entries in found]
    output.table(
        ["group", ">timeout", "order", ">held", ">checkpoints", "last (UTC)", ""],
        [
            (
                escape(row["name"]),
                f"{row['timeout_s']} s",
                row["order"],
                row["held"],
                row["checkpoints"],
                moment(row["last_s"]),
                f"of {logstore.table}" if row["name"] == logstore.group.name else "",
            )
            for row in rows
        ],
    )
    if not rows:
        leases = logstore.coordinator.kind == "sql_lease"
        own = "its runs hold shards by leases" if leases else "the first live run makes its own"
        output.say(f"the logstore has no consumer group; {own}")
    output.result({"groups": rows})


def _summary(info: GroupInfo, entries: Mapping[int, GroupCheckpoint]) -> dict[str, Any]:
    return {
        **asdict(info),
        "shards": len(entries),
        "held": sum(bool(entry.holder) for entry in entries.values()),
        "checkpoints": sum(entry.cursor is not None for entry in entries.values()),
        "holders": sorted({entry.holder for entry in entries.values()} - {""}),
        "last_s": max((entry.updated_us for entry in entries.values()), default=0) / 1e6,
    }


@dataclass(frozen=True)
class GroupView:
    """A group as it shows from outside: settings, each shard's entry, its lag and its state."""

    info: GroupInfo
    entries: Mapping[int, GroupCheckpoint]
    lags: tuple[ShardLag, ...]
    states: Mapping[int, ShardState]


def look(client: SlsClient, name: str) -> GroupView:
    """Ask the service. Raises ConfigError for a group that is not there."""
    info = _info(client, name)
    entries = client.checkpoints(name)
    found = lags(client, {shard: entry.cursor for shard, entry in entries.items()})
    holders = {shard: entry.holder for shard, entry in entries.items()}
    return GroupView(info, entries, found, states(found, client.shards(), holders, order=info.order))


def _info(client: SlsClient, name: str) -> GroupInfo:
    there = {info.name: info for info in client.groups()}
    if name not in there:
        others = f"there is {', '.join(sorted(there))}" if there else "there is none"
        raise ConfigError(f"the logstore has no consumer group {name!r}: {others}")
    return there[name]


@groups.command("describe")
@click.argument("group", type=GroupName(), required=False)
@click.option("--members", is_flag=True, help="Who holds what.")
@click.option("--checkpoints", is_flag=True, help="Each shard: checkpoint, receive time, lag, state.")
@click.option("--state", is_flag=True, help="Settings, and how many shards are in which state.")
@logstore_option
@verb
def describe(
    output: Output, *, group: str | None, members: bool, checkpoints: bool, state: bool, name: str | None
) -> None:
    """Show GROUP, or the logstore's own: state, members and checkpoints, or what is asked for.

    The service lists no members: who holds no shard is not seen.
    """
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        view = look(client, group or logstore.group.name)
    everything = not (members or checkpoints or state)
    if state or everything:
        _show_state(output, logstore, view)
    if members or everything:
        _show_members(output, view)
    if checkpoints or everything:
        _show_checkpoints(output, view)
    output.result(
        {
            **_summary(view.info, view.entries),
            "drift": drift(logstore.group, view.info),
            "members": _members(view),
            "shards": [_entry(view, lag) for lag in view.lags],
        }
    )


def drift(ours: Group, info: GroupInfo) -> list[str]:
    """How the group differs from the settings of the logstore whose it is; nothing for another's."""
    if ours.name != info.name:
        return []
    pairs = (("timeout_s", info.timeout_s, ours.timeout_s), ("order", info.order, ours.order))
    return [f"{word} is {there}, not {here}" for word, there, here in pairs if there != here]


def _show_state(output: Output, logstore: Logstore, view: GroupView) -> None:
    info = view.info
    order = "children wait for their parents" if info.order else "in no order"
    output.say(f"group {escape(info.name)}: a silent holder is dropped after {info.timeout_s} s, {order}")
    for text in drift(logstore.group, info):
        output.say(f"[yellow]differs from the settings[/]: {text}; `sls-lake groups update` changes it")
    counted = {state: list(view.states.values()).count(state) for state in ShardState}
    output.table(["state", ">shards"], [(_STATES[state], n) for state, n in counted.items() if n])


def _members(view: GroupView) -> list[dict[str, Any]]:
    found: dict[str, list[GroupCheckpoint]] = {}
    for entry in view.entries.values():
        if entry.holder:
            found.setdefault(entry.holder, []).append(entry)
    return [
        {
            "holder": holder,
            "shards": sorted(entry.shard for entry in entries),
            "last_s": max(entry.updated_us for entry in entries) / 1e6,
        }
        for holder, entries in sorted(found.items())
    ]


def _show_members(output: Output, view: GroupView) -> None:
    members = _members(view)
    if not members:
        output.say("nobody holds a shard")
        return
    output.table(
        ["holder", "shards", "last checkpoint (UTC)"],
        [(escape(m["holder"]), ", ".join(map(str, m["shards"])), moment(m["last_s"])) for m in members],
    )


def _show_checkpoints(output: Output, view: GroupView) -> None:
    output.table(
        ["shard", "state", "holder", ">checkpoint", ">end", "received (UTC)", ">lag", ">groups at most", ""],
        [
            (
                str(lag.shard),
                _STATES[view.states[lag.shard]],
                escape(entry.holder if entry else ""),
                "" if lag.at is None else str(lag.at),
                str(lag.end),
                moment(lag.received_s),
                span(lag.lag_s),
                lag.groups_max,
                PLACES[lag.place],
            )
            for lag in view.lags
            for entry in (view.entries.get(lag.shard),)
        ],
        less=("end", "groups at most", "received (UTC)", "holder"),
    )


def _entry(view: GroupView, lag: ShardLag) -> dict[str, Any]:
    entry = view.entries.get(lag.shard)
    return {
        "shard": lag.shard,
        "state": view.states[lag.shard],
        "holder": entry.holder if entry else "",
        "checkpoint": lag.at,
        "begin": lag.begin,
        "end": lag.end,
        "place": lag.place,
        "received_s": lag.received_s,
        "lag_s": lag.lag_s,
        "groups_max": lag.groups_max,
        "saved_s": entry.updated_us / 1e6 if entry else 0.0,
    }


@groups.command("create")
@click.argument("group", type=GroupName())
@timeout_option
@order_option
@logstore_option
@execute_option
@verb
def create(
    output: Output, *, group: str, timeout_s: int | None, order: bool | None, name: str | None, execute: bool
) -> None:
    """Make GROUP, with the settings of the logstore's own unless they are said."""
    logstore = resolve(name)
    wanted = _settings(logstore, group, timeout_s, order)
    with SlsClient(logstore.service) as client:
        if group in {info.name for info in client.groups()}:
            raise ConfigError(
                f"there is a group {group!r} already; `sls-lake groups update {group}` changes its settings"
            )
        if execute and not client.create_group(wanted):
            raise ConfigError(f"somebody else made the group {group!r} meanwhile; nothing of it was changed")
    output.say(escape(f"group {group}: timeout {wanted.timeout_s} s, order {wanted.order}"))
    _say_end(output, execute, "made")
    output.result({"executed": execute, **asdict(GroupInfo(group, wanted.timeout_s, wanted.order))})


def _settings(logstore: Logstore, group: str, timeout_s: int | None, order: bool | None) -> Group:
    """Its own timing does not matter to the service, so it is made to fit the timeout."""
    ours = logstore.group
    timeout = ours.timeout_s if timeout_s is None else timeout_s
    return Group(
        name=group,
        holder=ours.holder,
        timeout_s=timeout,
        heartbeat_s=min(ours.heartbeat_s, timeout / 3),
        heartbeat_deadline_s=min(ours.heartbeat_deadline_s, timeout / 3),
        order=ours.order if order is None else order,
        patience_s=ours.patience_s,
    )


@groups.command("update")
@click.argument("group", type=GroupName(), required=False)
@timeout_option
@order_option
@logstore_option
@execute_option
@verb
def update(
    output: Output,
    *,
    group: str | None,
    timeout_s: int | None,
    order: bool | None,
    name: str | None,
    execute: bool,
) -> None:
    """Change the timeout or the order of GROUP, or of the logstore's own: then to what its settings say.

    All its members go by the new settings. Order that is turned on holds for shards that come later.
    """
    logstore = resolve(name)
    chosen = group or logstore.group.name
    if timeout_s is None and order is None and chosen == logstore.group.name:
        timeout_s, order = logstore.group.timeout_s, logstore.group.order
    if timeout_s is None and order is None:
        raise click.UsageError("say what to change: --timeout, --order or --no-order")
    with SlsClient(logstore.service) as client:
        info = _info(client, chosen)
        after = GroupInfo(
            chosen,
            info.timeout_s if timeout_s is None else timeout_s,
            info.order if order is None else order,
        )
        if execute and after != info:
            client.update_group(chosen, timeout_s=after.timeout_s, order=after.order)
    output.table(
        ["", "is", "becomes"],
        [("timeout", f"{info.timeout_s} s", f"{after.timeout_s} s"), ("order", info.order, after.order)],
    )
    if after == info:
        output.say("nothing changes")
    else:
        _say_end(output, execute, "changed")
    output.result({"executed": execute, "before": asdict(info), "after": asdict(after)})


@groups.command("delete")
@click.argument("group", type=GroupName())
@logstore_option
@execute_option
@verb
def delete(output: Output, *, group: str, name: str | None, execute: bool) -> None:
    """Delete GROUP and its checkpoints. Refused while somebody holds its shards.

    A table's ledger stays: its next live run makes the group again and goes on where the table has got.
    """
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        info = _info(client, group)
        entries = client.checkpoints(group)
        summary = _summary(info, entries)
        if summary["holders"]:
            raise ClaimLost(
                f"group {group!r} is read by {', '.join(summary['holders'])}: end that first, and ask again "
                f"{info.timeout_s} s later"
            )
        if execute:
            client.delete_group(group)
    output.say(escape(f"group {group} with {summary['checkpoints']} checkpoints"))
    if group == logstore.group.name:
        output.say(f"it is the group of {logstore.table}, whose next live run makes it again")
    output.say(
        "what its checkpoints are can be kept: `sls-lake checkpoints reset --group "
        f"{group} --to-current --export FILE`"
    )
    _say_end(output, execute, "deleted")
    output.result({"executed": execute, **summary})


@groups.command("clone")
@click.argument("source", type=GroupName())
@click.argument("target", type=GroupName())
@logstore_option
@execute_option
@verb
def clone(output: Output, *, source: str, target: str, name: str | None, execute: bool) -> None:
    """Give the group TARGET the checkpoints of SOURCE; one that is not there is made with its settings.

    A checkpoint outside of its shard becomes the shard's begin.
    """
    logstore = own_holder(resolve(name))
    with SlsClient(logstore.service) as client:
        info = _info(client, source)
        there = target in {other.name for other in client.groups()}
        if there:
            refuse_fed(logstore, target, client, "clone")
        if source == target:
            raise click.UsageError(f"{source} is both: name another group for the copy")
        cursors = {s: e.cursor for s, e in client.checkpoints(source).items() if e.cursor is not None}
        had = GroupCheckpoints(client, target, forced=True).read() if there else {}
        moves = moving.aimed(client, had, Aim("cursors", cursors=cursors), policy="begin")
        written: tuple[Written, ...] = ()
        settings = _settings(logstore, target, info.timeout_s, info.order)
        store = GroupCheckpoints(client, target, forced=True)
        if execute and (there or not client.create_group(settings)):
            written = moving.moved(client, settings, moves)
        elif execute:
            written = reset(store, {m.shard: m.after for m in moves if m.moves and m.after is not None})
    output.say(escape(f"group {target} {'is there' if there else 'is made'}; the checkpoints of {source}"))
    show_moves(output, store, moves, written)
    if not execute:
        output.say_dry()
    output.result({"executed": execute, "made": not there, **document(store, moves, written)})
    if not_done(written):
        click.get_current_context().exit(EXIT_FAILED)


def _say_end(output: Output, execute: bool, done: str) -> None:
    if execute:
        output.say(f"done: {done}")
    else:
        output.say_dry()
