"""Hours whose rows or files are gone: what the service still holds is landed again, whatever is left."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan

from chaos.engine import InProcess
from pipelines.landing.table.contract import hour_place
from sls_io.values.errors import LedgerBroken
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World
from tests.worlds.three_hours import replaced, started
from tests.worlds.three_hours import undo_of as plan_undo

__all__ = ["started"]

LATER = range(HOUR0 + 2, HOUR0 + 3)
HOUR = And(
    GreaterThanOrEqual(term="__receive_hour__", value="2026-09-21T15:00:00+00:00"),
    LessThan(term="__receive_hour__", value="2026-09-21T16:00:00+00:00"),
)


@pytest.fixture
def here(started: World) -> World:
    """Three hours have landed; what is landed from now on is written in this process."""
    started.engine = InProcess()
    return started


def files_of(world: World, hour: int) -> list[Path]:
    """The data files of one receive hour."""
    table = world.table
    place = hour_place(table.spec(), table.schema())
    assert place is not None
    tasks = [t.file for t in table.scan().plan_files() if t.file.partition[place] == hour]
    return [Path(file.file_path.removeprefix("file://")) for file in tasks]


def one_shard(world: World) -> None:
    world.table.delete(And(HOUR, EqualTo(term="__shard__", value=1)))


def every_shard(world: World) -> None:
    world.table.delete(HOUR)


def one_file(world: World) -> None:
    files_of(world, HOUR0 + 1)[0].unlink()


def every_file(world: World) -> None:
    for path in files_of(world, HOUR0 + 1):
        path.unlink()


def broken_file(world: World) -> None:
    path = files_of(world, HOUR0 + 1)[0]
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("lose", [one_shard, every_shard, one_file, every_file, broken_file])
def test_an_hour_is_whole_again_whatever_was_lost_of_it(here: World, lose: Callable[[World], None]) -> None:
    ledger = here.ledger
    lose(here)
    with pytest.raises(LedgerBroken):
        plan_undo(here)

    assert replaced(here).rows == 10

    assert here.ledger == ledger, "the same cursors, so the same rows"
    here.land()
    here.assert_sound()


def test_the_newest_landing_is_whole_again_and_landings_go_on(here: World) -> None:
    """Every landing is refused while files of the newest one are gone."""
    here.at(HOUR0_S + 3 * 3600 + 60)
    assert here.land().rows == 60
    for path in files_of(here, HOUR0 + 2):
        path.unlink()
    with pytest.raises(LedgerBroken, match="file is gone"):
        here.land()

    assert replaced(here, LATER).rows == 70

    assert here.land_more(5, until_s=HOUR0_S + 3 * 3600 + 120).rows == 5
    here.assert_sound()
