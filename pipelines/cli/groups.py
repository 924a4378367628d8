"""`sls-lake groups`: the consumer groups of a logstore. A change is a dry run until `--execute`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.deciding import execute_option
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, moment, verb
from pipelines.cli.positions import STATES, PlaceView, document, group_info, look_at_group, show_places
from pipelines.cli.stores import GroupName
from pipelines.landing.logstore import Logstore
from sls_io.checkpoints.group import GroupCheckpoints
from sls_io.checkpoints.store import Kept
from sls_io.values.cures import Call
from sls_io.values.errors import ClaimLost, ConfigError
from sls_io.values.settings import Group
from sls_io.values.shard import ShardState
from sls_io.wire.client import GroupInfo, Heads, SlsClient

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
    """Consumer groups: list, describe, create, update, delete. Take --json and --debug."""


@groups.command("list")
@logstore_option
@verb
def listed(output: Output, *, name: str | None) -> None:
    """Show the logstore's consumer groups, who is seen in them, and when they last moved."""
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        found = [(info, GroupCheckpoints(client, info.name).read()) for info in client.groups()]
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
        leases = logstore.coordinator.leases
        own = "its runs hold shards by leases" if leases else "the first live run makes its own"
        output.say(f"the logstore has no consumer group; {own}")
    output.result({"groups": rows})


def _summary(info: GroupInfo, entries: Mapping[int, Kept]) -> dict[str, Any]:
    return {
        **asdict(info),
        "shards": len(entries),
        "held": sum(bool(entry.holder) for entry in entries.values()),
        "checkpoints": sum(entry.cursor is not None for entry in entries.values()),
        "holders": sorted({entry.holder for entry in entries.values()} - {""}),
        "last_s": max((entry.saved_s for entry in entries.values()), default=0.0),
    }


@groups.command("describe")
@click.argument("group", type=GroupName(), required=False)
@click.option("--members", is_flag=True, help="Who holds what.")
@click.option("--state", is_flag=True, help="Settings, and how many shards are in which state.")
@logstore_option
@verb
def describe(output: Output, *, group: str | None, members: bool, state: bool, name: str | None) -> None:
    """Show GROUP, or the logstore's own: state, members and checkpoints, or what is asked for.

    The service lists no members: who holds no shard is not seen. `checkpoints show group:NAME` shows its
    checkpoints beside other places.
    """
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        info = group_info(client, group or logstore.group.name)
        view = look_at_group(client, info, Heads(client))
    if state or not members:
        _show_state(output, logstore, info, view)
    if members or not state:
        _show_members(output, view)
    if not (members or state):
        show_places(output, [view])
    output.result(
        {
            **_summary(info, view.kept),
            "drift": drift(logstore.group, info),
            "members": _members(view),
            "shards": document(view)["shards"],
        }
    )


def drift(ours: Group, info: GroupInfo) -> list[str]:
    """How the group differs from the settings of the logstore whose it is; nothing for another's."""
    if ours.name != info.name:
        return []
    pairs = (("timeout_s", info.timeout_s, ours.timeout_s), ("order", info.order, ours.order))
    return [f"{word} is {there}, not {here}" for word, there, here in pairs if there != here]


def _show_state(output: Output, logstore: Logstore, info: GroupInfo, view: PlaceView) -> None:
    order = "children wait for their parents" if info.order else "in no order"
    output.say(f"group {escape(info.name)}: a silent holder is dropped after {info.timeout_s} s, {order}")
    for text in drift(logstore.group, info):
        output.say(f"[yellow]differs from the settings[/]: {text}")
        output.say_cures(Call(("groups", "update", info.name), does="changes it"))
    counted = {state: list(view.states.values()).count(state) for state in ShardState}
    output.table(["state", ">shards"], [(STATES[state], n) for state, n in counted.items() if n])


def _members(view: PlaceView) -> list[dict[str, Any]]:
    found: dict[str, dict[int, Kept]] = {}
    for shard, entry in sorted(view.kept.items()):
        if entry.holder:
            found.setdefault(entry.holder, {})[shard] = entry
    return [
        {"holder": holder, "shards": list(its), "last_s": max(entry.saved_s for entry in its.values())}
        for holder, its in sorted(found.items())
    ]


def _show_members(output: Output, view: PlaceView) -> None:
    members = _members(view)
    if not members:
        output.say("nobody holds a shard")
        return
    output.table(
        ["holder", "shards", "last checkpoint (UTC)"],
        [(escape(m["holder"]), ", ".join(map(str, m["shards"])), moment(m["last_s"])) for m in members],
    )


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
    wanted = settings_for(logstore, group, timeout_s, order)
    with SlsClient(logstore.service) as client:
        if group in {info.name for info in client.groups()}:
            raise ConfigError(
                f"there is a group {group!r} already",
                cures=(Call(("groups", "update", group), does="changes its settings"),),
            )
        if execute and not client.create_group(wanted):
            raise ConfigError(f"somebody else made the group {group!r} meanwhile; nothing of it was changed")
    output.say(escape(f"group {group}: timeout {wanted.timeout_s} s, order {wanted.order}"))
    _say_end(output, execute, "made")
    output.result({"executed": execute, **asdict(GroupInfo(group, wanted.timeout_s, wanted.order))})


def settings_for(logstore: Logstore, group: str, timeout_s: int | None, order: bool | None) -> Group:
    """Those of a new group: the logstore's own unless they are said. Its own timing does not matter to the
    service, so it is made to fit the timeout."""
    ours = logstore.group
    timeout = ours.timeout_s if timeout_s is None else timeout_s
    return Group(
        name=group,
        holder=ours.holder,
        timeout_s=timeout,
        heartbeat_s=min(ours.heartbeat_s, timeout / 3),
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
        info = group_info(client, chosen)
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
        info = group_info(client, group)
        entries = GroupCheckpoints(client, group).read()
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
    kept = ("checkpoints", "set", "--from", f"group:{group}", "--to", "csv:FILE")
    output.say_cures(Call(kept, does="keeps what its checkpoints are"))
    _say_end(output, execute, "deleted")
    output.result({"executed": execute, **summary})


def _say_end(output: Output, execute: bool, done: str) -> None:
    if execute:
        output.say(f"done: {done}")
    else:
        output.say_dry()
