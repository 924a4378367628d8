"""Rows that somebody put into another receive hour: each hour may look right, the table is not."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.cli.main import EXIT_FAILED
from sls_io.values.window import HOUR_S
from tests.worlds.command_line import Command
from tests.worlds.landed_hours import an_hour_later
from tests.worlds.one_logstore import World


@pytest.fixture
def world(calm: World) -> World:
    """Two receive hours of 20 rows, both passed by every shard."""
    calm.land_hours(2)
    return calm


def test_a_row_that_is_there_once_more_in_another_hour_is_never_adopted(
    world: World, command: Command
) -> None:
    world.table.append(an_hour_later(world.table.scan().to_arrow().slice(0, 5)))

    refused = command("table", "adopt", "--at", "rows", "--execute")

    assert refused["code"] == EXIT_FAILED and "5 rows" in refused["error"]
    assert "more than once" in refused["error"]


def test_rows_that_were_moved_to_another_hour_are_missed_in_their_own(world: World) -> None:
    rows = world.table.scan().to_arrow()
    first = pc.equal(rows.column("__receive_hour__"), pc.min(rows.column("__receive_hour__")))
    moved = an_hour_later(rows.filter(first).slice(0, 3))
    world.table.overwrite(
        pa.concat_tables([rows.filter(pc.invert(first)), rows.filter(first).slice(3), moved])
    )

    proof = world.proof()

    assert not proof.ok and proof.rows == 40
    assert any("its landing brought" in problem for shard in proof.shards for problem in shard.problems)


def test_describe_answers_when_retention_took_all_that_waits(world: World, command: Command) -> None:
    world.put(10, pass_s=40 * 24 * HOUR_S)

    said = command("describe")

    assert said["code"] == 0 and said["document"]
