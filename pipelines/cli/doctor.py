"""`sls-lake doctor`: all that a landing needs, tried before the first one."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain

import click
from rich.markup import escape

from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, verb
from pipelines.cli.working import quietly
from pipelines.landing.doctor.look import look
from pipelines.landing.doctor.trial import Grade, Question, Trial, made
from pipelines.landing.spark.session import engine_here
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.cures import Do
from sls_io.values.errors import ConfigError, amount

_MARKS = {
    Grade.FINE: "[green]fine[/]   ",
    Grade.NOTE: "[yellow]note[/]   ",
    Grade.WRONG: "[red]wrong[/]  ",
    Grade.SKIPPED: "skipped",
}
_HOME = "DAGSTER_HOME"


@click.command("doctor")
@logstore_option
@verb
def doctor(output: Output, *, name: str | None) -> None:
    """Try all that a landing needs: keys, network, clock, logstore, group, catalog, storage, Spark, Dagster.

    Each line says what was sent, what came and what to change. It makes a consumer group, a table and some
    files with names of their own, and takes them away again. No row is written, and no reader is disturbed.
    """
    logstore, lake, engine = resolve(name), Lake.default(), engine_here()
    dagster = Question("dagster", f"the instance of {_HOME}", _instance)
    trials = list(_shown(output, chain(look(logstore, lake, engine), made([dagster]))))
    counted = {grade: sum(trial.grade is grade for trial in trials) for grade in Grade}
    wrong = counted[Grade.WRONG]
    output.say(f"{len(trials)} trials: {', '.join(f'{n} {grade}' for grade, n in counted.items() if n)}")
    documents = [{**asdict(trial), "changes": commands.documents(trial.changes)} for trial in trials]
    output.result({"table": logstore.table, "ok": not wrong, "trials": documents}, fails=bool(wrong))


def _shown(output: Output, trials: Iterator[Trial]) -> Iterator[Trial]:
    while True:
        with quietly():
            trial = next(trials, None)
        if trial is None:
            return
        output.say(f"{_MARKS[trial.grade]} {trial.name:<10} {escape(f'{trial.sent} -> {trial.came}')}")
        output.say_cures(*trial.changes)
        yield trial


def _instance() -> str:
    if not os.environ.get(_HOME):
        return f"{_HOME} is not set here: nothing to look at"
    # Dagster takes a second to import, and the other trials have been shown by then.
    import dagster as dg

    try:
        with dg.DagsterInstance.get() as instance:
            runs = instance.get_runs_count()
    except dg.DagsterInvariantViolationError as error:
        raise ConfigError(
            str(error).splitlines()[0], cures=(Do("name a folder from the root on"),)
        ) from error
    return f"it answers, and knows {amount(runs, 'run')}"
