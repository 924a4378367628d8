"""`sls-lake backfill`: land receive hours again, through a running Dagster, or in this process with --local.

    fill      lands only what the ledger lacks of the hours, withdrawn intervals included
    replace   drops what is there of the hours and lands them whole again, in one commit
    errors    reads the kept bytes of rows with an error again, after a contract fix; pulls nothing
    rest      fills columns that were declared later from `__rest__` of older rows, and takes plain values of
              keys that are drop or hash by now out of all rows; pulls nothing

No mode moves a checkpoint. A second fill of the same hours changes nothing. Fill removes nothing and runs at
once, but with `--dry-run`; the other modes are a dry run until `--execute`. A dry run is always done in this
process.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import click
from rich.markup import escape

from pipelines import dagster_client
from pipelines.cli.deciding import Working, decide, dry_run_option, engine_of_a_verb
from pipelines.cli.hours import HOUR
from pipelines.cli.landing import show as show_landing
from pipelines.cli.landing import tell_dagster
from pipelines.cli.logstores import logstore_option, resolve_to_land
from pipelines.cli.output import Output, moment, verb
from pipelines.cli.working import landing_line
from pipelines.landing.commit.after_commit import commits
from pipelines.landing.commit.planned import Finished, Tools
from pipelines.landing.hours import HOURS_MAX, check_begun, hour_text, hours_text
from pipelines.landing.inspection.table_files import hours_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations import reach
from pipelines.landing.operations.fill import PlannedFilling, plan_filling
from pipelines.landing.operations.mend import Kept, plan_mend
from pipelines.landing.operations.replace import execute_replace, plan_replace
from pipelines.landing.run.driver import Run
from pipelines.landing.run.report import Verdict
from pipelines.landing.spark.session import engine_here
from pipelines.landing.table.lake import Lake
from sls_io.planning.waits import Why
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import SlsError, amount
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient


@click.command("backfill")
@logstore_option
@click.option("--from", "first", type=HOUR, required=True, help="First receive hour, like 2026-11-20-07:00.")
@click.option("--to", "last", type=HOUR, help="Last hour, included.  [default: same as --from]")
@click.option(
    "--mode",
    type=click.Choice(["fill", "replace", "errors", "rest"]),
    default="fill",
    show_default=True,
    help="fill what is missing; replace hours in one commit; read rows with errors again; or fill "
    "columns that were declared later from __rest__, and take out what is drop or hash by now.",
)
@click.option("--local", is_flag=True, help="Land here, without Dagster.")
@click.option("--execute", is_flag=True, help="Do it; without this, all modes but fill are a dry run.")
@dry_run_option
@click.option(
    "--dagster-url",
    envvar=dagster_client.URL_VARIABLE,
    default=dagster_client.DEFAULT_URL,
    show_default=True,
    help="Where the Dagster page is.",
)
@verb
def backfill(
    output: Output,
    *,
    name: str | None,
    first: int,
    last: int | None,
    mode: str,
    local: bool,
    execute: bool,
    dry_run: bool,
    dagster_url: str,
) -> None:
    """Land what the receive hours lack, or replace them; moves no checkpoint.

    Names what cannot be landed and exits with 1: hours that are not received yet or were removed by decision,
    and logs that retention took.
    """
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute contradict each other: leave one out")
    logstore = resolve_to_land(name)
    end = (first if last is None else last) + 1
    if not first < end <= first + HOURS_MAX:
        raise click.UsageError("--to must not be before --from, nor more than a year after it")
    hours, here = range(first, end), local or dry_run or (mode != "fill" and not execute)
    _check_started(logstore, hours, here=here)
    if mode != "fill" and (local or not execute):
        if mode == "replace":
            replace_here(output, logstore, hours, execute=execute)
        else:
            mend_here(output, logstore, hours, "rest" if mode == "rest" else "errors", execute=execute)
    elif local or dry_run:
        fill_here(output, logstore, hours, dry_run=dry_run)
    else:
        check_begun(hours, SYSTEM_CLOCK.now(), mode)
        by_dagster(output, logstore, hours, mode, dagster_url)


def _check_started(logstore: Logstore, hours: range, *, here: bool) -> None:
    """Raises UsageError for hours before the history, and for those that Dagster has no partitions of, unless
    the work is done `here`: its partitions begin where the settings say, whatever the table has."""
    if hours.start >= logstore.start_hour:
        return
    with SlsClient(logstore.service) as client:
        begun = reach.first_hour(Lake.default(), logstore, client)
    if hours.start < begun:
        raise click.UsageError(f"{logstore.name} starts at {hour_text(begun)}: nothing before it is landed")
    if not here:
        raise click.UsageError(
            f"Dagster has no hours before `start`, {logstore.start}, although the history in "
            f"{logstore.table} began at {hour_text(begun)}: add --local"
        )


def _say_not_over(output: Output, logstore: Logstore, hours: range) -> range:
    """Say which of the hours are not over, and when to ask again; returns them."""
    with SlsClient(logstore.service) as client:
        open_ones = reach.not_over(logstore, client, hours)
    if open_ones:
        when = moment(open_ones.stop * HOUR_S + logstore.budget.settle_s)
        output.say(
            f"[yellow]{hours_text(open_ones)} is not over[/]: what has come of it lands, and more will come. "
            f"It is done only when nothing can come any more; ask again after {when} UTC"
        )
    return open_ones


def _landed_of(logstore: Logstore, open_ones: range) -> dict[int, int]:
    """Hour -> rows that the table has of it, of hours that are not over."""
    rows = dict.fromkeys(open_ones, 0)
    if open_ones:
        for files in hours_of(logstore, Lake.default()):
            if files.hour in rows:
                rows[files.hour] += files.rows
    return rows


def _say_so_far(output: Output, so_far: Mapping[int, int]) -> None:
    for hour, count in so_far.items():
        output.say(
            f"{hour_text(hour)}: {count:,} rows are in the table so far; not done, since it is not over"
        )


def _as_values(so_far: Mapping[int, int]) -> list[dict[str, object]]:
    return [{"hour": hour_text(hour), "rows": count} for hour, count in so_far.items()]


def fill_here(output: Output, logstore: Logstore, hours: range, *, dry_run: bool) -> None:
    """Land what the hours lack in this process, or only say what that is; and name what of them cannot be
    landed.

    What cannot come is asked before and after. Before, since of hours that can never come nothing is begun,
    no Spark either. After, since retention goes on: what was there at the plan may be gone at the pull, and
    the exit status is about what is true at the end.
    """
    before = _lacking(logstore, hours)
    if {hour for lack in before if lack.kind in reach.NEVER for hour in lack.hours}.issuperset(hours):
        output.result({"rows": 0, "problems": [], "cannot_come": _say(output, before)}, fails=True)
        return
    open_ones, lake = _say_not_over(output, logstore, hours), Lake.default()
    with SlsClient(logstore.service) as client:
        planned = plan_filling(lake, logstore, client, hours, before)
    carry_out = partial(_fill, output, logstore, planned, hours, open_ones)
    if planned.needed and not dry_run:
        decide(output, planned, carry_out, now=True)
        return
    lacks, so_far = _say(output, before), _as_values(_landed_of(logstore, open_ones))
    nothing = {} if planned.needed else {"rows": 0, "problems": []}
    more = {"cannot_come": lacks, "not_over": so_far, **nothing}
    decide(output, planned, carry_out, now=not dry_run, more=more, by="", fails=bool(lacks))


def _fill(
    output: Output, logstore: Logstore, planned: PlannedFilling, hours: range, open_ones: range
) -> Finished:
    engine = engine_here()
    with commits(logstore.table) as made:
        with (
            landing_line(output, f"backfill {logstore.name}", engine) as line,
            Run(logstore, engine, mode="fill", hours=(hours.start, hours.stop), on_event=line.phase) as run,
        ):
            report = run.land()
            made.snapshot(report.snapshot_id)
            verdict = run.reconcile()
        lacking, so_far = _lacking(logstore, hours), _landed_of(logstore, open_ones)
    if lacking:
        waits = {shard: why for shard, why in report.waits.items() if why.kind is not Why.NOTHING_MISSING}
        report = replace(report, waits=waits)
    show_landing(output, report, verdict, [])
    if verdict.ok:
        tell_dagster(output, logstore, report, {*open_ones, *(h for lack in lacking for h in lack.hours)})
    lacks = _say(output, lacking)
    _say_so_far(output, so_far)
    told = {
        **asdict(report),
        "problems": list(verdict.problems),
        "cannot_come": lacks,
        "not_over": _as_values(so_far),
    }
    fails = bool(lacks or report.undone or not verdict.ok)
    return Finished(report.snapshot_id, planned.view, fails, told)


def _lacking(logstore: Logstore, hours: range) -> tuple[reach.Lack, ...]:
    with SlsClient(logstore.service) as client:
        return reach.lacking(Lake.default(), logstore, client, hours)


def _say(output: Output, lacks: Iterable[reach.Lack]) -> list[str]:
    """Say what of the hours cannot be landed; returns the sentences."""
    texts = [lack.text for lack in lacks]
    for text in texts:
        output.say(f"[red]cannot come[/]: {escape(text)}")
    return texts


def replace_here(output: Output, logstore: Logstore, hours: range, *, execute: bool) -> None:
    """Drop the hours and land them again, in this process; a dry run without `execute`."""
    lake = Lake.default()

    def carry_out() -> Finished:
        with landing_line(output, f"replace {logstore.name}", engine) as line:
            report, view = execute_replace(lake, planned, Tools(on_event=line.phase, engine=engine))
        show_landing(output, report, Verdict(), [])
        return Finished(report.snapshot_id, view, more=asdict(report) | {"replaced": view.document()})

    with SlsClient(logstore.service) as client, engine_of_a_verb() as engine:
        working = Working(output, f"replace {logstore.name}", engine)
        planned = working.on(partial(plan_replace, lake, logstore, client, hours))
        decide(output, planned, carry_out, now=execute)


def mend_here(output: Output, logstore: Logstore, hours: range, kept: Kept, *, execute: bool) -> None:
    """Read rows of the hours again from what they keep; the service is not asked for them."""
    lake = Lake.default()
    with SlsClient(logstore.service) as client, engine_of_a_verb() as engine:
        working = Working(output, f"backfill {logstore.name}", engine)
        planned = working.on(partial(plan_mend, lake, logstore, client, hours, kept_in=kept))
        never = () if planned.view.rows else (x for x in _lacking(logstore, hours) if x.kind in reach.NEVER)
        lacks = _say(output, never)
        do = partial(working.carry_out, planned, lake)
        decide(output, planned, do, now=execute, more={"cannot_come": lacks}, fails=bool(lacks))


def by_dagster(output: Output, logstore: Logstore, hours: range, mode: str, url: str) -> None:
    """Post the backfill to Dagster and follow it to its end. Each of its runs is one commit: of a replace of
    many hours some may be done and others refused."""
    keys = hour_text(hours.start), hour_text(hours.stop - 1)
    open_ones = _say_not_over(output, logstore, hours) if mode == "fill" else range(0)
    asked_for: dict[str, Any] = {}
    if mode != "fill":
        step = {"config": {"execute": True}}
        asked_for = {"tags": {"sls/mode": mode}, "config": {"ops": {f"bronze__{logstore.name}": step}}}
    backfill_id = dagster_client.launch(url, ["bronze", logstore.name], *keys, **asked_for)
    try:
        output.say(f"backfill {backfill_id} of {amount(len(hours), 'hour')}: {url}/runs/b/{backfill_id}")
        state = _followed(output, logstore, url, backfill_id)
    except (KeyboardInterrupt, SlsError):
        # Dagster was asked already: whoever lands the same hours without it now would do them twice.
        output.say(f"it goes on in Dagster; to end it, cancel it there: {url}/runs/b/{backfill_id}")
        raise
    output.say(f"{state.status}: {state.done} of {amount(state.total, 'hour')} done, {state.failed} failed")
    so_far: dict[int, int] = {}
    failures: list[str] = []
    try:
        so_far = _landed_of(logstore, open_ones)
        _say_so_far(output, so_far)
        lacks = _say(output, _lacking(logstore, hours))
        failures = [] if state.ok else dagster_client.reasons(url, backfill_id)
        for text in failures:
            output.say(f"[red]a run failed[/]: {escape(text)}")
    except SlsError as error:
        lacks = [f"could not find out whether all of these hours can be landed: {error}"]
        output.say(escape(lacks[0]))
    output.result(
        {
            "backfill": backfill_id,
            **asdict(state),
            "failures": failures,
            "cannot_come": lacks,
            "not_over": _as_values(so_far),
        },
        fails=bool(lacks) or not state.ok,
    )


def _followed(output: Output, logstore: Logstore, url: str, backfill_id: str) -> dagster_client.Progress:
    with output.progress(f"backfill {logstore.name}") as progress:

        def asked() -> dagster_client.Progress:
            found = dagster_client.progress(url, backfill_id)
            progress.counted(found.done, found.total, f"{found.done:,} of {amount(found.total, 'hour')}")
            return found

        say: Callable[[str], None] = (lambda text: None) if progress.shown else output.say
        return follow(asked, say, SYSTEM_CLOCK)


def follow(
    read: Callable[[], dagster_client.Progress], say: Callable[[str], None], clock: Clock
) -> dagster_client.Progress:
    """Read until the backfill has ended; says each change once."""
    shown = read()
    state = shown
    while not state.ended:
        clock.sleep(dagster_client.POLL_S)
        state = read()
        if (state.done, state.failed) != (shown.done, shown.failed):
            say(f"{state.done} of {amount(state.total, 'hour')} done")
            shown = state
    return state
