"""Maintenance says of each hour that it does not compact why not, in a dry run and after."""

import io

import pytest

from pipelines.cli.deciding import show_effect
from pipelines.cli.output import Output
from pipelines.landing.hours import hour_text
from pipelines.landing.maintenance.maintain import Maintainer
from tests.worlds.command_line import Command
from tests.worlds.foreign_deletes import mark_deleted
from tests.worlds.one_logstore import World

LOW = "0" * 32
ONLY = ("table", "maintain", "--only", "compact")


@pytest.fixture
def world(calm: World) -> World:
    """What the verbs are run on."""
    return calm


def land(world: World, after_s: float, key: str | None = None) -> None:
    world.land_more(20, key=key, pass_s=after_s)


def test_each_reason_is_a_line_with_its_hours_and_files(calm: World, command: Command) -> None:
    land(calm, 3600)
    land(calm, 3600, LOW)
    land(calm, 60)
    newest = max(h for _, windows in calm.landings() for h in (w.window.hour for w in windows))

    dry = command(*ONLY)
    assert (dry["code"], len(dry["compacted"])) == (0, 1)
    found = {x["why"]: x for x in dry["left"]}
    assert {why: (x["hours"], x["files"]) for why, x in found.items()} == {"few": (1, 1), "unsealed": (1, 2)}
    assert found["few"]["text"] == "already as few files as hold their rows"
    behind = found["unsealed"]["text"]
    assert behind.startswith(f"not sealed: shards 0, 1 of {calm.origin} have not read all logs of hour ")
    assert hour_text(newest) in behind

    assert command(*ONLY, "--execute")["left"] == dry["left"]
    after = command(*ONLY)
    assert after["compacted"] == []
    assert {x["why"]: x["hours"] for x in after["left"]} == {"done": 1, "few": 1, "unsealed": 1}

    shown = io.StringIO()
    show_effect(Output(file=shown), Maintainer(calm.logstore, calm.lake).plan(["compact"]))
    assert shown.getvalue().count("not compacted: 1 hour, ") == 3
    assert command("table", "maintain", "--only", "expire")["left"] == []


def test_rows_that_another_engine_marked_are_a_reason(calm: World, command: Command) -> None:
    land(calm, 3600)
    land(calm, 3600)
    mark_deleted(calm, lambda n: n == 25)
    command("table", "adopt", "--at", "rows", "--without-missing", "--execute")
    calm.emulator.admin.advance(3600)
    calm.land()
    found = {x["why"]: x["hours"] for x in command(*ONLY)["left"]}
    assert found["marked"] == 1
