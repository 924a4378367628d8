"""Rows that another engine marks as deleted, without touching their file, beside maintenance."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.landing.commit.planned import Tools
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.operations.replace import execute_replace, plan_replace
from pipelines.landing.table.lake import Lake
from tests.worlds.one_logstore import HOUR0, World
from tests.worlds.two_runs import At

pytestmark = pytest.mark.spark


MARKED = "n >= 20 AND n < 26"


@pytest.fixture
def landed(world: World, spark_lake: Lake, tmp_path: Path) -> World:
    """Three sealed hours of two files and 20 rows each, in a table whose rows Spark deletes by marking."""
    world.lake, world.logstore = spark_lake, world.changed(table=f"bronze.{tmp_path.name}")
    for _ in range(3):
        world.put(20)
        world.land()
        world.emulator.admin.advance(3600)
        world.land()
    sql(world)(
        f"ALTER TABLE lake.{world.logstore.table} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    )
    return world


def sql(world: World) -> Callable[[str], list[int]]:
    """Statements to the shared Spark; the first column of what they answer."""
    return lambda text: [row[0] for row in world.engine.session.sql(text).collect()]


def test_a_compaction_that_was_planned_before_brings_no_marked_row_back(landed: World) -> None:
    """All hours are planned; the rows of the second are marked while the first is committed."""
    ask = sql(landed)

    def mark() -> None:
        ask(f"DELETE FROM lake.{landed.logstore.table} WHERE {MARKED}")

    race = At("compact.built", mark)
    done = Maintainer(landed.logstore, landed.lake, on_event=race).execute(["compact"])

    assert race.done and any(task.delete_files for task in landed.table.scan().plan_files())
    assert [hour.hour for hour in done.compacted] == [HOUR0, HOUR0 + 2]
    assert len(done.put_off) == 1 and "changed meanwhile" in done.put_off[0]
    assert ask(f"SELECT count(*) FROM lake.{landed.logstore.table} WHERE {MARKED}") == [0]
    assert ask(f"SELECT count(*) FROM lake.{landed.logstore.table}") == [landed.counter - 6]

    with landed.client as client:
        hours = range(HOUR0 + 1, HOUR0 + 2)
        planned = plan_replace(landed.lake, landed.logstore, client, hours)
        execute_replace(landed.lake, planned, Tools(engine=landed.engine))
    assert ask(f"SELECT count(*) FROM lake.{landed.logstore.table}") == [landed.counter]
    landed.land()
    landed.assert_sound()


def test_rows_that_spark_updates_by_marking_land_on_and_are_maintained_before_and_after_a_rewrite(
    landed: World,
) -> None:
    ask = sql(landed)
    ask(f"ALTER TABLE lake.{landed.logstore.table} SET TBLPROPERTIES ('write.update.mode'='merge-on-read')")
    ask(f"UPDATE lake.{landed.logstore.table} SET n = n WHERE {MARKED}")
    assert any(task.delete_files for task in landed.table.scan().plan_files())
    landed.assert_proved()

    landed.put(20)
    landed.land()
    for rewrite in ("rewrite_data_files", "rewrite_position_delete_files"):
        assert Maintainer(landed.logstore, landed.lake).execute().put_off == ()
        called = f"lake.system.{rewrite}(table => '{landed.logstore.table}'"
        ask(f"CALL {called}, options => map('rewrite-all', 'true'))")
    assert Maintainer(landed.logstore, landed.lake).execute().put_off == ()
    landed.emulator.admin.advance(3600)
    landed.land()
    landed.assert_sound()
