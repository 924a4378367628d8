"""Machines whose clocks are wrong, and what must hold of a table that they land into."""

from sls_io.values.clock import SystemClock
from tests.worlds.one_logstore import World

MINUTES_S = (600.0, -600.0)


class Stepped(SystemClock):
    """The machine's clock, set wrong by `off_s`; `later_s` is what a suspended process missed."""

    def __init__(self, off_s: float = 0.0) -> None:
        self.off_s, self.later_s = off_s, 0.0

    def now(self) -> float:
        return super().now() + self.off_s

    def monotonic(self) -> float:
        return super().monotonic() + self.later_s


def assert_snapshots_in_order(world: World) -> None:
    """Spark refuses a table whose snapshot log goes back in time."""
    times = [entry.timestamp_ms for entry in world.table.metadata.snapshot_log]
    assert times == sorted(times)
    assert world.table.metadata.last_updated_ms >= times[-1]
