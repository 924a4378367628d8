"""One micro-batch without Dagster, and how it is told."""

import logging
import os
from collections.abc import Collection
from dataclasses import asdict

from rich.markup import escape

from pipelines import dagster_client
from pipelines.cli.output import Output, megabytes, span
from pipelines.cli.working import landing_line
from pipelines.landing import json_log
from pipelines.landing.commit.after_commit import commits
from pipelines.landing.commit.effect import record
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.describe import hour_rows
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.run.holder_name import of_command
from pipelines.landing.run.report import CheckpointOutcome, CheckpointReport, LandingReport, Verdict, notes_of
from pipelines.landing.spark.session import engine_here
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.health import TimeLeft, Vitals, findings
from sls_io.planning.waits import Why
from sls_io.values.errors import ServiceError, SlsError, amount


def land_now(output: Output, asked: Logstore) -> None:
    """Land what is new of it, publish the checkpoints, and say so. The verb ends with 1 as `land` says."""
    engine = engine_here()
    notes: list[str] = []

    def noted(note: str) -> None:
        notes.append(note)
        json_log.say(logging.WARNING, note)

    try:
        with (
            landing_line(output, f"land {asked.name}", engine) as line,
            of_command(asked, Lake.default()) as (logstore, holder),
            Run(logstore, engine, name=holder, warn=noted, on_event=line.phase) as run,
            commits(logstore.table) as made,
        ):
            report = run.land()
            made.snapshot(report.snapshot_id)
            verdict = run.reconcile()
            checkpoints = run.checkpoint() if verdict.ok else []
    finally:
        # Within the block what is printed goes to Spark's log.
        for note in notes:
            output.say(f"[yellow]note[/]: {escape(note)}")
    show(output, report, verdict, checkpoints)
    if verdict.ok:
        tell_dagster(output, logstore, report)
    facts = Vitals(reconciled=verdict.problems, runway=TimeLeft(None, report.gaps), mirror=run.mirrored)
    if run.mirrored is not None:
        output.say(f"{'[red]mirror[/]' if run.mirrored.trouble else 'mirror'}: {escape(str(run.mirrored))}")
    output.result(
        {
            **asdict(report),
            "health": [found.document(logstore.option) for found in findings(facts, logstore)],
            "problems": list(verdict.problems),
            "notes": [*notes, *filter(None, [report.came_to_nothing])],
            "checkpoints": [asdict(point) for point in checkpoints],
            "mirror": asdict(run.mirrored) if run.mirrored is not None else None,
        },
        fails=report.undone or not verdict.ok,
    )


def tell_dagster(
    output: Output, logstore: Logstore, report: LandingReport, but: Collection[int] = ()
) -> None:
    """Tell the Dagster whose address the environment has of the hours that landed, `but` those that are not
    done. What it is not told of, its next live run finds in the table."""
    url, hours = os.environ.get(dagster_client.URL_VARIABLE, ""), sorted(report.hours.keys() - set(but))
    if not url or report.snapshot_id is None:
        return
    try:
        in_table = hour_rows(logstore, Lake.default(), report.origin, hours)
        for hour in hours:
            said = {
                "rows": report.hours[hour].rows,
                "snapshot": str(report.snapshot_id),
                "told": "by the command line, which landed it",
                **({"dagster/partition_row_count": in_table[hour]} if hour in in_table else {}),
            }
            key, version = ["bronze", logstore.name], str(report.snapshot_id)
            dagster_client.materialized(url, key, hour_text(hour), version, said)
    except SlsError as error:
        why = error.code if isinstance(error, ServiceError) else type(error).__name__
        output.say(f"[yellow]note[/]: Dagster was not told ({why}): its next live run shows these hours")


def show(
    output: Output, report: LandingReport, verdict: Verdict, checkpoints: list[CheckpointReport]
) -> None:
    """The landing for people: numbers, hours, what waited, what is wrong."""
    output.say(_in_one_line(report))
    if report.hours:
        output.records([{"hour": hour, **record(each)} for hour, each in sorted(report.hours.items())])
    if report.error_rows:
        output.say(
            f"{amount(report.error_rows, 'row')} could not be typed exactly: kept, see __error__ and __raw__"
        )
    if report.barred_rows:
        output.say(f"{report.barred_rows:,} rows more were kept out: their values may not land, by decision")
    if report.closed:
        output.say(f"closed shards: {', '.join(map(str, report.closed))}")
    output.say_notes(notes_of(report))
    if report.trouble and not report.came_to_nothing:
        output.say(f"[red]not all landed that was to[/]: {report.trouble}; what landed stands")
    for problem in verdict.problems:
        output.say(f"[red]not reconciled[/]: {problem}; no checkpoint moved")
    _show_checkpoints(output, report, checkpoints)


def _in_one_line(report: LandingReport) -> str:
    if report.came_to_nothing:
        return f"[red]{report.table}: {report.came_to_nothing}[/]"
    if any(wait.kind is Why.AHEAD for wait in report.waits.values()):
        return f"{report.table}: no history has begun, nothing was landed and no checkpoint moved"
    unasked = sum(wait.kind is Why.UNASKED for wait in report.waits.values())
    if unasked and not report.rows:
        return f"[yellow]{report.table}: nothing landed, and {unasked} of its shards could not be asked[/]"
    if report.snapshot_id is None:
        return f"{report.table}: nothing new"
    if not report.rows:
        return f"{report.table}: no new rows; snapshot {report.snapshot_id} moves the ledger on"
    return (
        f"{amount(report.rows, 'row')} into {report.table}, {megabytes(report.raw_bytes)} raw in "
        f"{report.seconds:.1f} s ({report.raw_mb_per_s:.1f} MB/s), {amount(report.files, 'file')} of "
        f"{megabytes(report.file_bytes)}, snapshot {report.snapshot_id}"
    )


def _show_checkpoints(output: Output, report: LandingReport, checkpoints: list[CheckpointReport]) -> None:
    moved = sum(point.outcome is CheckpointOutcome.MOVED for point in checkpoints)
    if checkpoints:
        # A run that moves no frontier publishes what one before it could not, or what is the first.
        done = "moved" if report.moved else "published"
        what = f"{moved} of {len(checkpoints)} {done}" if moved else "none had to move"
        lag = f"at most {span(report.lag_s)}" if report.lag_s else span(report.lag_s) or "unknown"
        output.say(f"checkpoints: {what}, lag {lag}")
    for point in checkpoints:
        if point.outcome not in (CheckpointOutcome.MOVED, CheckpointOutcome.UNCHANGED):
            output.say(f"checkpoint of shard {point.shard}: {escape(str(point))}")
