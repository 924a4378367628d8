"""`sls-lake land --dry-run`: what a run would do now, and why each other shard waits. Claims nothing."""

from dataclasses import asdict

from rich.markup import escape

from pipelines.cli.backlog import say_backlog
from pipelines.cli.output import Output, moment
from pipelines.landing.inspection.describe import preview
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import FIRST_RUN, PlanReport, notes_of
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.planning.waits import Why
from sls_io.wire.client import SlsClient


def show_preview(output: Output, logstore: Logstore) -> None:
    """What a run of the logstore would land now and why the other shards wait."""
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
        output.say(f"{len(report.windows)} windows would land, up to {moment(report.until_s)} UTC:")
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
