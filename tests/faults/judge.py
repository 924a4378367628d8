"""What must hold in every cell: each log once, the table's proof, checkpoints where the ledger is."""

from pipelines.landing.run.report import LandingReport
from tests.worlds.one_logstore import World


def assert_whole(world: World) -> None:
    """Nothing lost, nothing twice, and every checkpoint at its shard's frontier."""
    world.assert_each_log_once()
    world.assert_proved()
    assert world.checkpoints() == {shard: entry.frontier for shard, entry in world.ledger.shards.items()}


def assert_next_run_lands(world: World, rows: int) -> None:
    """The next run, of the same name in the group, lands exactly what is missing, and then all is whole."""
    assert world.land().rows == rows
    assert_whole(world)


def pass_by(world: World, seconds: float = 31.0) -> None:
    """Time passes for the service: every claim that is not renewed is over."""
    world.emulator.admin.advance(seconds)


def land_a_gap(world: World) -> LandingReport:
    """What is gone is younger than retention: a run suspects it, one a group timeout later names it."""
    assert world.land().suspects
    pass_by(world)
    return world.land()
