"""Machines whose wall clocks are wrong by minutes land into one table, and Spark goes on reading it."""

import pytest

from pipelines.landing.table.lake import Lake
from tests.worlds.one_logstore import World
from tests.worlds.spark_table import counted, in_spark
from tests.worlds.wrong_clocks import Stepped, assert_snapshots_in_order

pytestmark = pytest.mark.spark


@pytest.mark.fault("4a.5a.clock")
def test_spark_reads_a_table_that_clocks_ahead_and_behind_have_landed_into(
    world: World, spark_lake: Lake
) -> None:
    """Ahead by ten minutes, then right, then two minutes behind (four are a budget), then right again."""
    mine = in_spark(world, spark_lake, "clocks")
    for off_s in (600.0, 0.0, -120.0, 0.0):
        mine.put(10, pass_s=60)
        mine.land(clock=Stepped(off_s))

        assert_snapshots_in_order(mine)
        assert counted(mine) == mine.counter
    history = mine.engine.session.sql("SELECT * FROM lake.bronze.clocks.history").collect()
    assert len(history) == len(mine.table.metadata.snapshot_log) >= 5
    mine.assert_each_log_once()
