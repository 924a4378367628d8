"""`sls-lake shards`: which shards live runs leave alone."""

from collections.abc import Callable
from dataclasses import asdict

import click

from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, verb
from pipelines.cli.table import execute_option
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.pause import PlannedPause, execute_pause, plan_pause, plan_resume
from pipelines.landing.table.lake import Lake
from sls_io.client import SlsClient

_SHARDS = click.argument("numbers", metavar="SHARD...", type=click.IntRange(min=0), nargs=-1, required=True)


@click.group("shards")
def shards() -> None:
    """Pause and resume shards. A dry run until --execute; all take --json, --debug."""


@shards.command("pause")
@_SHARDS
@logstore_option
@execute_option
@verb
def pause(output: Output, *, numbers: tuple[int, ...], name: str | None, execute: bool) -> None:
    """Leave these shards alone: no live run lands them, until they are resumed.

    It is kept with the table: other deployments and later runs keep to it. Retention goes on: logs that it
    takes meanwhile are lost, and `sls-lake describe` says how long is left. Children wait for a paused
    parent. A backfill that names hours lands them all the same.
    """
    _change(output, name, execute, lambda lake, logstore, client: plan_pause(lake, logstore, client, numbers))


@shards.command("resume")
@_SHARDS
@logstore_option
@execute_option
@verb
def resume(output: Output, *, numbers: tuple[int, ...], name: str | None, execute: bool) -> None:
    """Let live runs land these shards again, from where they stood."""
    _change(
        output, name, execute, lambda lake, logstore, client: plan_resume(lake, logstore, client, numbers)
    )


def _change(
    output: Output,
    name: str | None,
    execute: bool,
    plan: Callable[[Lake, Logstore, SlsClient], PlannedPause],
) -> None:
    logstore, lake = resolve(name), Lake.default()
    with SlsClient(logstore.service) as client:
        planned = plan(lake, logstore, client)
    view = planned.view
    output.say(f"{view.table}: {_paused(view.before)}; then {_paused(view.after)}")
    committed = None
    if view.before == view.after:
        output.say("nothing to change")
    elif execute:
        committed = execute_pause(lake, planned)
        output.say(f"done: snapshot {committed}; runs that begin from now on keep to it")
    else:
        output.say_dry()
    output.result({"executed": execute, "committed": committed, **asdict(view)})


def _paused(shards: tuple[int, ...]) -> str:
    return f"paused: shard {', '.join(map(str, shards))}" if shards else "no shard is paused"
