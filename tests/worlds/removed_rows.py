"""Rows that a filter takes out of the table for good."""

from pipelines.landing.commit.planned import Planned, execute
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.operations.removal import Forget
from tests.worlds.one_logstore import World

WHERE = "n >= 8 and n < 12"
"""Four rows, two in each of the first two hours; their files hold others, too."""


def removal(world: World, where: str = WHERE) -> Planned[Forget]:
    """The removal of what a filter takes."""
    return world.asked(plan_forget_where, where)


def carry_out(world: World, planned: Planned[Forget]) -> int:
    """Execute it."""
    return execute(world.lake, planned).snapshot


def left_over(rows: int) -> list[int]:
    """The numbers of `rows` logs without those that `WHERE` takes."""
    return [n for n in range(rows) if not 8 <= n < 12]
