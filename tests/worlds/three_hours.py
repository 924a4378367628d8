"""Ten rows in each of three receive hours, of which every shard has passed two."""

from collections.abc import Callable

import pytest

from pipelines.landing.commit.planned import Tools
from pipelines.landing.operations.replace import execute_replace, plan_replace
from pipelines.landing.operations.undo import PlannedUndo, plan_undo
from pipelines.landing.run.report import LandingReport
from tests.worlds.one_logstore import HOUR0, World

HOUR = "2026-09-21-14:00"
NEXT = "2026-09-21-15:00"
MIDDLE = range(HOUR0 + 1, HOUR0 + 2)


@pytest.fixture
def started(world: World) -> World:
    """10 rows in each of two hours that every shard has passed, 10 in the third; 60 logs to come."""
    return world.landed_at(2, 64, 124, more=60)


def undo_of(world: World, first: int = HOUR0 + 1, last: int | None = None) -> PlannedUndo:
    """An undo of the middle hour, or of others."""
    return world.asked(plan_undo, range(first, (last or first) + 1))


def fill(world: World, hour: int = HOUR0 + 1) -> int:
    """Backfill one hour; the rows landed."""
    return world.land(mode="fill", hours=(hour, hour + 1)).rows


def hours_in_table(world: World) -> list[int]:
    """The receive hours of the table's rows."""
    return sorted({int(r["__receive_hour__"].timestamp()) // 3600 - HOUR0 for r in world.table_rows()})


def replaced(
    world: World,
    hours: range = MIDDLE,
    on_event: Callable[[str], None] = lambda name: None,
    **changes: object,
) -> LandingReport:
    """Replace these hours, by default the middle one."""
    logstore = world.changed(**changes) if changes else world.logstore
    with world.client as client:
        planned = plan_replace(world.lake, logstore, client, hours)
        return execute_replace(world.lake, planned, Tools(engine=world.engine, on_event=on_event))[0]
