"""`sls-lake groups`: the consumer groups of a logstore. A change is a dry run until `--execute`."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.deciding import execute_option
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, moment, verb
from pipelines.cli.positions import STATES, PlaceView, document, group_info, look_at_group, show_places
from pipelines.cli.stores import GROUP
from pipelines.landing.logstore import Logstore
from sls_io.checkpoints.group import GroupCheckpoints
from sls_io.checkpoints.lag import GroupState, group_state
from sls_io.checkpoints.store import Kept
from sls_io.values.cures import Call
from sls_io.values.errors import ClaimLost, ConfigError
from sls_io.values.settings import Group
from sls_io.values.shard import ShardState
from sls_io.wire.client import GroupInfo, SlsClient
from sls_io.wire.heads import Heads

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
    """Consumer groups: list, describe, set, delete. Take --json and --debug."""


@groups.command("list")
@logstore_option
@verb
def listed(output: Output, *, name: str | None) -> None:
    """Show the logstore's consumer groups, who is seen in them, and when they last moved."""
    logstore = resolve(name)
    with SlsClient(logstore.service) as client:
        heads = Heads(client)
        rows = [_listed(client, info, heads) for info in client.groups()]
    output.table(
        ["group", "state", ">timeout", "order", ">held", ">checkpoints", "last (UTC)", ""],
        [
            (
                escape(row["name"]),
                row["state"],
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


def _listed(client: SlsClient, info: GroupInfo, heads: Heads) -> dict[str, Any]:
    """Where nobody or somebody holds every shard, that is its state; else each shard is asked for its own."""
    entries = GroupCheckpoints(client, info.name).read()
    held = {shard for shard, entry in entries.items() if entry.holder}
    state = GroupState.STABLE if held else GroupState.EMPTY
    if held and {shard.id for shard in client.shards()} - held:
        state = group_state(look_at_group(client, info, heads).states)
    return _summary(info, entries, state)


def _summary(info: GroupInfo, entries: Mapping[int, Kept], state: GroupState) -> dict[str, Any]:
    return {
        **asdict(info),
        "state": state,
        "shards": len(entries),
        "held": sum(bool(entry.holder) for entry in entries.values()),
        "checkpoints": sum(entry.cursor is not None for entry in entries.values()),
        "holders": sorted({entry.holder for entry in entries.values()} - {""}),
        "last_s": max((entry.saved_s for entry in entries.values()), default=0.0),
    }


@groups.command("describe")
@click.argument("group", type=GROUP, required=False)
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
            **_summary(info, view.kept, group_state(view.states)),
            "drift": drift(logstore.group, info),
            "members": _members(view),
            "shards": document(view)["shards"],
        }
    )


def drift(ours: Group, info: GroupInfo) -> list[str]:
    """How the group differs from the settings of the logstore whose it is; nothing for another's."""
    return info.drift(ours) if ours.name == info.name else []


def _show_state(output: Output, logstore: Logstore, info: GroupInfo, view: PlaceView) -> None:
    order = "children wait for their parents" if info.order else "in no order"
    output.say(
        f"group {escape(info.name)} is {group_state(view.states)}, as Kafka calls it: a silent holder is "
        f"dropped after {info.timeout_s} s, {order}"
    )
    for text in drift(logstore.group, info):
        output.say(f"[yellow]differs from the settings[/]: {text}")
        output.say_cures(Call(("groups", "set", info.name), does="changes it"))
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


@groups.command("set")
@click.argument("group", type=GROUP, required=False)
@timeout_option
@order_option
@logstore_option
@execute_option
@verb
def set_(
    output: Output,
    *,
    group: str | None,
    timeout_s: int | None,
    order: bool | None,
    name: str | None,
    execute: bool,
) -> None:
    """Give GROUP, or the logstore's own, a timeout or an order. A group that is not there is made.

    What is not said stays; a new group has it from the settings of the logstore's own, and so has that group
    itself where nothing is said. All members go by it; order that is turned on holds for later shards.
    """
    logstore = resolve(name)
    chosen, changes = group or logstore.group.name, _said(timeout_s, order)
    with SlsClient(logstore.service) as client:
        before = next((info for info in client.groups() if info.name == chosen), None)
        after = _after(logstore.group, chosen, before, changes)
        if execute and before is None and not client.create_group(after):
            raise ConfigError(f"somebody else made the group {chosen!r} meanwhile; nothing of it was changed")
        if execute and before is not None and before != after:
            client.update_group(chosen, timeout_s=after.timeout_s, order=after.order)
    _show_change(output, before, after)
    if before == after:
        output.say("nothing changes")
    else:
        _say_end(output, execute, "changed" if before else "made")
    output.result({"executed": execute, "before": asdict(before) if before else None, "after": asdict(after)})


def _said(timeout_s: int | None, order: bool | None) -> dict[str, Any]:
    said = {"timeout_s": timeout_s, "order": order}
    return {name: value for name, value in said.items() if value is not None}


def _after(ours: Group, chosen: str, before: GroupInfo | None, changes: Mapping[str, Any]) -> GroupInfo:
    """The group as it is to be. Raises UsageError for another's group of which nothing is said."""
    if before and changes:
        return replace(before, **changes)
    if before and chosen != ours.name:
        raise click.UsageError("say what to change: --timeout, --order or --no-order")
    return replace(GroupInfo(chosen, ours.timeout_s, ours.order), **changes)


def _show_change(output: Output, before: GroupInfo | None, after: GroupInfo) -> None:
    if before is None:
        output.say(escape(f"group {after.name} is not there: it is made"))
    output.table(
        ["", "is", "becomes"],
        [
            ("timeout", f"{before.timeout_s} s" if before else "", f"{after.timeout_s} s"),
            ("order", before.order if before else "", after.order),
        ],
    )


@groups.command("delete")
@click.argument("group", type=GROUP)
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
        summary = _summary(info, entries, GroupState.DEAD if execute else GroupState.EMPTY)
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
    if not execute:
        kept = ("checkpoints", "set", "--from", f"group:{group}", "--to", "csv:FILE")
        output.say_cures(Call(kept, harmless=True, does="keeps what its checkpoints are"))
    _say_end(output, execute, "deleted")
    output.result({"executed": execute, **summary})


def _say_end(output: Output, execute: bool, done: str) -> None:
    if execute:
        output.say(f"done: {done}")
    else:
        output.say_dry()
