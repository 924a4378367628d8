"""`sls-lake land`: one micro-batch without Dagster; or what it would do now, and why each other shard waits,
which claims nothing and needs none of what a landing imports."""

from dataclasses import asdict

import click
from rich.markup import escape

from pipelines.cli.backlog import say_backlog
from pipelines.cli.deciding import dry_run_option
from pipelines.cli.logstores import logstore_option, resolve_to_land
from pipelines.cli.output import Output, moment, verb
from pipelines.landing.inspection.describe import preview
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import FIRST_RUN, PlanReport, notes_of
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.planning.waits import Why
from sls_io.values.errors import amount
from sls_io.wire.client import SlsClient


@click.command("land")
@dry_run_option
@logstore_option
@verb
def land(output: Output, *, dry_run: bool, name: str | None) -> None:
    """Land what is new and publish the checkpoints, once, without Dagster.

    Exits with 1 when the landing does not add up, while a shard is suspected to be gone, and when the run's
    time (`budget.seconds_max`) was over before anything landed.

    --dry-run shows what a run would land now and why the other shards wait.
    """
    logstore = resolve_to_land(name)
    if dry_run:
        _show_plan(output, logstore)
    else:
        from pipelines.cli.landing import land_now

        land_now(output, logstore)


def _show_plan(output: Output, logstore: Logstore) -> None:
    with SlsClient(logstore.service) as client:
        report = preview(logstore, Lake.default(), client)
    show(output, report)
    # A window has no names for its cursors, so they are written here as they are everywhere.
    windows = [(shard, hour, str(begin), str(end)) for shard, hour, begin, end in report.windows]
    if logstore.transform:
        output.say(f"each task calls {escape(logstore.transform)}")
    output.result({**asdict(report), "windows": windows, "transform": logstore.transform})


def show(output: Output, report: PlanReport) -> None:
    """The plan for people."""
    if report.unknown:
        output.say(f"[yellow]note[/]: {escape(report.unknown)}")
        output.say("the first run fixes where each shard starts")
    elif report.first_start:
        output.say(FIRST_RUN.format(table=report.table))
    if report.windows:
        output.say(f"{amount(len(report.windows), 'window')} would land, up to {moment(report.until_s)} UTC:")
        names = ("shard", "hour", "begin", "end")
        output.records([dict(zip(names, window, strict=True)) for window in report.windows])
    elif not any(reason.kind in (Why.AHEAD, Why.FIRST_START) for reason in report.waits.values()):
        output.say(f"nothing to land up to {moment(report.until_s)} UTC")
    for shard, end in sorted(report.closings.items()):
        output.say(f"shard {shard} would be closed at {end}: read-only and drained")
    for shard, backlog in sorted(report.backlog.items()):
        say_backlog(output, shard, backlog)
    output.say_notes(notes_of(report))
    if paused := sorted(shard for shard, reason in report.waits.items() if reason.kind is Why.PAUSED):
        output.say_cures(commands.resume(paused))
