"""Rows that a filter takes out of the table for good."""

from pipelines.landing.operations.forget import PlannedForget, execute_forget, plan_forget_where
from tests.worlds.one_logstore import World

WHERE = "n >= 8 and n < 12"
"""Four rows, two in each of the first two hours; their files hold others, too."""


def removal(world: World, where: str = WHERE) -> PlannedForget:
    """The removal of what a filter takes."""
    with world.client as client:
        return plan_forget_where(world.lake, world.logstore, client, where)


def carry_out(world: World, planned: PlannedForget) -> int:
    """Execute it."""
    with world.client as client:
        return execute_forget(world.lake, world.logstore, client, planned)


def left_over(rows: int) -> list[int]:
    """The numbers of `rows` logs without those that `WHERE` takes."""
    return [n for n in range(rows) if not 8 <= n < 12]
