"""What every verb does that decides something about a table: options, a plan, what it comes to, done or not.

A verb is its options and its plan. Here, once for all of them: the logstore is resolved, the plan is made and
shown; it is carried out where somebody said so, else the call that does it is named; then the document.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from rich.markup import escape

from pipelines.cli.logstores import logstore_option, resolve, resolve_to_land
from pipelines.cli.output import Output, cell, heading, verb
from pipelines.cli.session import DRY_RUN
from pipelines.landing.commit.decision import Decision, Finished, Tools
from pipelines.landing.commit.effect import Effect

if TYPE_CHECKING:
    from pipelines.landing.spark.session import Engine
    from pipelines.landing.table.lake import Lake

execute_option = click.option("--execute", is_flag=True, help="Do it; without this it is a dry run.")
dry_run_option = click.option(DRY_RUN, is_flag=True, help="Say what would be done, and change nothing.")
_LISTED = 20

Made = TypeVar("Made")
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def without_missing_option(told: str) -> Option:
    """The option of verbs that are refused while rows are missing; `told` says what it means."""
    return click.option("--without-missing", is_flag=True, help=told)


def decision(
    group: click.Group, name_of_verb: str, *options: Option, lands: bool = False
) -> Callable[[Callable[..., Decision[Any]]], Callable[..., Decision[Any]]]:
    """A verb of `group`: the function below plans, with lake, logstore and client before its options.

    `lands`: it brings rows, or decides whose table it is.
    """

    def made(plan: Callable[..., Decision[Any]]) -> Callable[..., Decision[Any]]:
        def run(output: Output, *, name: str | None, execute: bool, **asked: Any) -> None:
            from pipelines.landing.table.lake import Lake
            from sls_io.wire.client import SlsClient

            logstore, lake = (resolve_to_land if lands else resolve)(name), Lake.default()
            with SlsClient(logstore.service) as client, engine_of_a_verb() as engine:
                working = Working(output, f"{name_of_verb} {logstore.name}", engine)
                planned = working.on(partial(plan, lake, logstore, client, **asked))
                decide(output, planned, partial(working.carry_out, planned, lake), now=execute)

        run.__doc__ = plan.__doc__
        command: Callable[..., Any] = verb(run)
        every: tuple[Option, ...] = (execute_option, logstore_option, *reversed(options))
        for option in every:
            command = option(command)
        group.command(name_of_verb)(command)
        return plan

    return made


@contextmanager
def engine_of_a_verb() -> "Iterator[Engine]":
    """An engine that is started where it is needed, and ends with the block."""
    from pipelines.landing.spark.session import engine_here

    engine = engine_here()
    try:
        yield engine
    finally:
        engine.stop()


class Working(NamedTuple):
    """How the work of a verb is shown: a line on stderr says `what` it is and how far; Spark's own words go
    to its log. The engine goes on from one work to the next."""

    output: Output
    what: str
    engine: "Engine"

    def on(self, work: Callable[[], Made]) -> Made:
        """What the work comes to."""
        from pipelines.cli.working import working_line

        with working_line(self.output, self.what, self.engine) as line:
            line.phase("looking at the table")
            return work()

    def carry_out(self, planned: Decision[Any], lake: "Lake") -> Finished:
        """Do what was planned."""
        from pipelines.cli.working import working_line

        with working_line(self.output, self.what, self.engine) as line:
            return planned.carry_out(lake, Tools(on_event=line.phase))


def decide(
    output: Output,
    planned: Decision[Any],
    do: Callable[[], Finished],
    *,
    now: bool,
    more: Mapping[str, Any] | None = None,
    by: str = "--execute",
    fails: bool = False,
) -> None:
    """Show what was planned, and do it where `now`, else say how to; `more` is in the document beside it. The
    verb ends with 1 where it `fails` whatever is done, or what was done does.

    `by` is the option that does it; "" for a verb that does it without one, and has a dry run by request.
    """
    done = Finished(None, planned.view)
    show_effect(output, done.view)
    if not planned.needed:
        output.say(escape(planned.nothing))
    elif now:
        done = do()
        # Some of it is known only now: the name of a folder that was made, of which shards other rows came.
        if done.view.headline != planned.view.headline:
            output.say(escape(done.view.headline))
        said = list(planned.view.said())
        output.say_notes(note for note in done.view.said() if note not in said)
        output.say("done" if done.snapshot is None else f"done: snapshot {done.snapshot}")
        output.say_cures(*done.view.then())
    else:
        if planned.refusal:
            output.say(
                f"dry run: nothing was changed, and {by or 'it'} is refused: {escape(planned.refusal)}"
            )
        else:
            losses = [note.text for note in done.view.said() if note.level == "loss"]
            output.say_dry(planned.does, loses=losses, by=by)
        output.say_cures(*planned.cures)
    told = {**done.view.document(), **done.more, **(more or {})}
    output.result({"executed": now, "committed": done.snapshot, **told}, fails=fails or done.fails)


def show_effect(output: Output, effect: Effect) -> None:
    """What would be done, or was, for people."""
    output.say(escape(effect.headline))
    if numbers := {name: number for name, number in effect.numbers().items() if number != 0}:
        told = (f"{heading(name)} {'unknown' if n is None else cell(name, n)}" for name, n in numbers.items())
        output.say(", ".join(told))
    for name, values in effect.lists().items():
        some = ", ".join(cell(name, value) for value in values[:_LISTED])
        more = f" and {len(values) - _LISTED:,} more; --json has all" if len(values) > _LISTED else ""
        output.say(f"{heading(name)}: {some}{more}")
    for rows in effect.tables().values():
        output.records(rows)
    output.say_notes(effect.said())
