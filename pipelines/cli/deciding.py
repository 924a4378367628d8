"""The end of every verb that decides something about a table: done, or a dry run; then the document."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.output import Output
from pipelines.landing.commit.operation import Planned, execute
from pipelines.landing.table.lake import Lake
from sls_io.values.cures import Cure

execute_option = click.option("--execute", is_flag=True, help="Do it; without this it is a dry run.")


def without_missing_option(told: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option of verbs that are refused while rows are missing; `told` says what it means."""
    return click.option("--without-missing", is_flag=True, help=told)


def decide(
    output: Output,
    lake: Lake,
    planned: Planned[Any],
    *,
    now: bool,
    then: Sequence[Cure] | str = (),
    more: Mapping[str, Any] | None = None,
) -> None:
    """Do what was planned and shown where `now`, else say how to.

    `then` follows "done: snapshot 17", words or commands; `more` is in the document beside what was planned.
    """
    committed = None
    if now and planned.needed:
        committed = execute(lake, planned).snapshot
        output.say(f"done: snapshot {committed}{then if isinstance(then, str) else ''}")
        output.say_cures(*(() if isinstance(then, str) else then))
    elif not planned.needed:
        output.say(escape(planned.nothing))
    elif planned.refusal:
        output.say(f"dry run: nothing was changed, and --execute is refused: {escape(planned.refusal)}")
        output.say_cures(*planned.cures)
    else:
        output.say_dry()
    document = {"executed": now, "committed": committed, **asdict(planned.view), **(more or {})}
    output.result(document)
