"""Ten rows in each of two receive hours, and the landings that are refused after a change."""

import pytest

from sls_io.values.cures import Call
from sls_io.values.errors import LedgerBroken
from tests.worlds.one_logstore import World


@pytest.fixture
def started(world: World) -> World:
    """Three landings: the first start, 10 rows, 10 rows in the next hour; 60 logs to come."""
    return world.landed_at(2, 64, more=60)


def refused(world: World) -> list[str]:
    """A landing is refused; the arguments of the verb that its error names, of several the last."""
    with pytest.raises(LedgerBroken) as raised:
        world.land()
    *_, last = raised.value.cures
    assert isinstance(last, Call)
    return [*last.words]


def snapshots(world: World) -> list[int]:
    """Snapshot ids of main's landings, oldest first."""
    return [s.snapshot_id for s in world.table.metadata.snapshots]
