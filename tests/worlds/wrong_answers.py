"""A service that answers wrongly for a time, and what was written off then."""

import shlex

from pipelines.landing.hours import hour_of
from tests.worlds.one_logstore import World

LOW = "0" * 32


def tell(world: World, do: str, **wanted: object) -> int:
    """From here on answers are wrong until `forget`."""
    wanted = {"times": None, **wanted}
    return world.fault(do, **wanted)


def all_right(world: World) -> None:
    """The answers are right again."""
    world.emulator.admin.remove()


def backfill(world: World, problem: str) -> None:
    """Run the fill that a sentence names."""
    words = shlex.split(problem.split("`")[-2])
    assert words[:3] == ["sls-lake", "backfill", "--local"]
    first, last = (words[words.index(option) + 1] for option in ("--from", "--to"))
    world.land(mode="fill", hours=(hour_of(first), hour_of(last) + 1))
