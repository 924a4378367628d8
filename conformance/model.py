"""The emulator against the vendor's API model: where they differ, and whether docs/emulator.md says so."""

import re
from pathlib import Path
from typing import Any

from conformance.program import Failed, Program
from conformance.table import Table
from conformance.world import World
from sls_io.emulator.api import ROUTES
from sls_io.emulator.limits import QUOTAS_OFF

LANGUAGE = "openapi"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "emulator.md"
_PART = re.compile(r"(?<=<!-- model -->\n).*(?=\n<!-- end of model -->)", re.DOTALL)
_LIMIT_S = 600.0
_NOBODY = "-"
WHY = {
    ("CreateProject", "description"): "`@alicloud/log` leaves it out where it is told none",
    ("UpdateProject", "description"): "the model's own comment has empty text as the default",
    ("DeleteLogs", "query"): "one of `query` and `rowId` is needed, says its comment",
    ("DeleteLogs", "rowId"): "a query's result has these, and queries are not emulated",
    ("GetCursorTime", "cursor_time"): "the LogHub SDKs take a number",
    ("PullLogs", "answer"): "a page is a LogGroupList in protobuf, says its comment",
    ("PullLogs", "query"): "SPL needs the query engine",
    ("PutLogs", "body"): "without a LogGroup nothing can be put",
    ("ConsumerGroupUpdateCheckPoint", "consumer"): "a forced checkpoint needs none, says the API's page",
}
"""Why the emulator does not do as the model says; a difference that is not here fails."""


def judge(world: World, table: Table, *, draw: bool) -> list[str]:
    """Try every case of the model; the lines of its table. With `draw` the page says it from now on."""
    row, before = "the API model: parameters, answers", world.emulator.admin.limits()
    lines: list[str] = []
    with table.cell(row, LANGUAGE):
        world.emulator.admin.limits(**QUOTAS_OFF)
        try:
            program = world.start("model", LANGUAGE, "model", ["--sign", "v1"])
            program.wait(lambda: program.says("left"), "an end", _LIMIT_S)
        finally:
            world.emulator.admin.limits(**{name: before[name] for name in QUOTAS_OFF})
        lines = _lines(program)
        if new := [line for line in lines if line.endswith(f"| {_NOBODY} |")]:
            raise Failed(f"the model has it otherwise, and nobody says why: {new}")
        if old := [place for place in WHY if not any(_places(*place) in line for line in lines)]:
            raise Failed(f"these are no differences any more: {old}")
        whole = PAGE.read_text(encoding="utf-8")
        if draw:
            PAGE.write_text(_PART.sub(lambda _: "\n".join(lines), whole), encoding="utf-8")
        elif _PART.findall(whole) != ["\n".join(lines)]:
            raise Failed("docs/emulator.md has other differences: `make conformance DRAW=1` writes these")
    return lines


def _lines(program: Program) -> list[str]:
    """What was tried, and a row a difference."""
    left = next(line for line in program.told if line["event"] == "left")
    found = [line for line in program.told if line["event"] == "difference"]
    unknown = sorted({route.name for route in ROUTES} - set(left["calls"]))
    without = f"; the model has no {', no '.join(f'`{name}`' for name in unknown)}" if unknown else ""
    said = f"{len(left['calls'])} calls, {left['tried']} requests, {len(found)} differences{without}."
    head = [
        "| Call | Parameter or field | Case | The model | The emulator | Why |",
        "|---|---|---|---|---|---|",
    ]
    return [said, "", *head, *(_row(line) for line in found)]


def _places(call: str, name: str) -> str:
    return f"`{call}` | `{name}`"


def _row(line: dict[str, Any]) -> str:
    names = _places(line["call"], line["name"])
    why = WHY.get((line["call"], line["name"]), _NOBODY)
    return f"| {names} | {line['case']} | {line['model']} | {line['emulator']} | {why} |"
