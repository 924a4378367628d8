"""What a decision comes to, shown to people and to programs: one value, one end of every verb."""

import io
import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import click
import pytest

from pipelines.cli.deciding import decide
from pipelines.cli.output import Output
from pipelines.cli.session import TYPED
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Decision, Finished
from pipelines.landing.table import commands


@dataclass(frozen=True)
class ShardPart:
    """Of one shard."""

    shard: int
    frontier: int
    rows: int
    why: str = ""


@dataclass(frozen=True)
class Removal(Effect):
    """Rows that leave."""

    WHAT = "{table}: rows leave"
    THEN = (commands.VERIFY.plus(does="proves it"),)

    table: str
    rows: int
    file_bytes: int
    landed_s: int
    hours: dict[int, int]
    files: tuple[str, ...]
    shards: tuple[ShardPart, ...]

    def said(self) -> Iterable[Note]:
        return [Note("older snapshots have them"), Note("[red] rows do not come back", "loss")]


VIEW = Removal(
    "bronze.logs",
    1200,
    2_500_000,
    1_790_000_000,
    {494_600: 1200},
    ("a.parquet",),
    (ShardPart(3, 1790001, 1200),),
)
TYPED_CALL = "sls-lake table undo --hour 2026-06-04-08:00"


def end(planned: Decision[Any], *, now: bool = False, as_json: bool = False) -> str:
    """What is printed of it."""
    file = io.StringIO()
    with click.Context(click.Command("undo"), obj={TYPED: TYPED_CALL}):
        decide(Output(as_json=as_json, file=file), planned, lambda: Finished(17, VIEW), now=now)
    return file.getvalue()


def test_numbers_lists_and_rows_are_written_as_their_names_say() -> None:
    said = end(Decision(view=VIEW))
    lines = [line.split() for line in said.splitlines()]
    assert said.startswith("bronze.logs: rows leave\nrows 1,200, size 2.5 MB\nfiles: a.parquet\n")
    assert ["receive", "hour", "rows"] in lines and ["2026-06-04-08:00", "1,200"] in lines
    assert ["shard", "frontier", "rows"] in lines and ["3", "1790001", "1,200"] in lines, (
        "no column without a word"
    )
    assert "older snapshots have them\n[red] rows do not come back\n" in said, (
        "no markup of ours in what is told"
    )


def test_a_dry_run_ends_with_the_call_that_does_it_and_a_program_gets_it_with_what_it_loses() -> None:
    assert end(Decision(view=VIEW)).endswith(f"changed; this does it:\n  {TYPED_CALL} --execute\n")
    document = json.loads(end(Decision(view=VIEW), as_json=True))
    assert document["does_it"] == {
        "call": f"{TYPED_CALL} --execute",
        "loses": ["[red] rows do not come back"],
    }
    assert (document["executed"], document["committed"], document["rows"]) == (False, None, 1200)
    assert document["shards"] == [{"shard": 3, "frontier": "1790001", "rows": 1200, "why": ""}]


def test_a_decision_names_its_own_call() -> None:
    document = json.loads(
        end(Decision(view=VIEW, does=commands.REGISTER.plus("--metadata", "/a b")), as_json=True)
    )
    assert shlex.split(document["does_it"]["call"])[-3:] == ["--metadata", "/a b", "--execute"]


def test_what_is_refused_names_no_call_that_would_be_and_what_may_be_done_instead() -> None:
    refused = Decision(view=VIEW, refusal="rows are missing", cures=(commands.rollback(7, does="goes back"),))
    said = end(refused)
    assert "--execute is refused: rows are missing" in said and "this does it" not in said
    assert said.endswith("  sls-lake table rollback 7   # goes back\n")
    document = json.loads(end(refused, as_json=True))
    assert "does_it" not in document
    assert document["cures"] == [{"call": "sls-lake table rollback 7", "does": "goes back"}]


def test_what_was_done_goes_on_with_a_call_that_runs_as_the_line_is_copied() -> None:
    said = end(Decision(view=VIEW), now=True)
    done, then = said.splitlines()[-2:]
    assert done == "done: snapshot 17"
    assert shlex.split(then, comments=True) == ["sls-lake", "verify"] and "# proves it" in then
    document = json.loads(end(Decision(view=VIEW), now=True, as_json=True))
    assert (document["executed"], document["committed"]) == (True, "17")
    assert document["cures"] == [{"call": "sls-lake verify", "does": "proves it"}]


def test_where_nothing_is_to_be_done_nobody_is_asked() -> None:
    class Idle(Decision[Any]):
        needed = False

    said = end(Idle(view=VIEW, nothing="as it was asked for"), now=True)
    assert said.endswith("as it was asked for\n")


def test_of_what_did_not_come_about_the_verb_fails() -> None:
    with click.Context(click.Command("undo"), obj={}), pytest.raises(click.exceptions.Exit) as ended:
        decide(
            Output(file=io.StringIO()), Decision(view=VIEW), lambda: Finished(17, VIEW, fails=True), now=True
        )
    assert ended.value.exit_code == 1
