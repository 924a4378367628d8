"""Somebody else changes the table while a landing is on its way, or between two of them."""

import re
from pathlib import Path

import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from pipelines.landing.commit.planned import execute
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.recovery.adopt import plan_adopt
from pipelines.landing.table.commands import ADOPT
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError, LedgerBroken
from sls_io.values.window import HOUR_S
from tests.worlds.changed_table import append_by_hand, roll_back
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World
from tests.worlds.printed_cures import named
from tests.worlds.spark_table import counted, in_spark, rewrite
from tests.worlds.two_runs import At


@pytest.fixture
def started(world: World) -> World:
    """A world with two landings of rows in its table and 60 logs to come."""
    return world.landed_at(2, 4, more=60)


@pytest.mark.fault("4b.conflict.commit")
@pytest.mark.spark
def test_sparks_own_compaction_between_write_and_publish(started: World, spark_lake: Lake) -> None:
    """The same with `rewrite_data_files`, through Spark's catalog on the same database."""
    world = in_spark(started, spark_lake, "compacted")
    world.land()
    world.land_more(20, pass_s=120)
    world.put(30, pass_s=120)
    pulls = world.watch_pulls()

    def compact_in_spark() -> None:
        assert rewrite(world) > 0

    report = world.land(on_event=At("publish", compact_in_spark))

    assert (report.rows, report.conflicts, report.replans) == (30, 1, 0)
    pulls.assert_none_twice()
    world.assert_sound()
    assert counted(world) == world.counter, "Spark sees the same table"


@pytest.mark.spark
def test_a_table_that_somebody_made_again_of_its_own_rows_is_adopted(
    started: World, spark_lake: Lake
) -> None:
    world = in_spark(started, spark_lake, "again")
    world.land()
    ledger = world.ledger
    world.engine.session.sql(
        "CREATE OR REPLACE TABLE lake.bronze.again USING iceberg "
        "PARTITIONED BY (__origin__, hours(__receive_hour__)) AS SELECT * FROM lake.bronze.again"
    )
    with pytest.raises(LedgerBroken, match="main begins anew behind the newest landing") as refused:
        world.land()
    assert refused.value.cures == (ADOPT,)
    world.carried_out(plan_adopt)
    assert world.ledger == ledger
    world.assert_sound()


@pytest.mark.spark
def test_what_a_refusal_names_runs_in_spark_as_it_is_printed(started: World, spark_lake: Lake) -> None:
    """A partitioning by a value, one without origin and hour, files of many hours, metadata elsewhere: each
    is taken back."""
    world = in_spark(started, spark_lake, "partitioned")
    world.land()
    world.emulator.admin.advance(HOUR_S)
    world.land_more(20, pass_s=HOUR_S)
    sql, name = started.engine.session.sql, "lake.bronze.partitioned"
    for field in ("__origin__", "hours(__receive_hour__)"):
        sql(f"ALTER TABLE {name} DROP PARTITION FIELD {field}")
    rewrite(world)
    sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.metadata.path'='{world.table.location()}-else')")

    sql(f"ALTER TABLE {name} ADD PARTITION FIELD bucket(4, n)")

    ran = []
    for _ in range(2):
        with pytest.raises(LedgerBroken) as refused:
            world.land()
        for statement in re.findall(r"ALTER TABLE .*(?= in Spark)", named(refused.value.cures)):
            sql(statement)
            ran.append(statement)
    assert len(ran) == 3
    with pytest.raises(ConfigError, match="partitioned by 'n'") as split:
        world.land()
    dropped = re.search(r"ALTER TABLE lake.*(?= in Spark)", str(split.value))
    assert dropped
    sql(dropped[0])
    hours = range(HOUR0, HOUR0 + 1)
    with pytest.raises(ConfigError, match="rewrite_data_files") as mixed:
        world.asked(plan_undo, hours)
    found = re.search(r"CALL lake.*[)]", str(mixed.value))
    assert found
    sql(found[0]).collect()
    world.carried_out(plan_undo, hours)
    world.assert_proved()
    assert len(world.table_rows()) == 20


@pytest.mark.fault("4b.rollback.commit", "4b.rollback.plan")
def test_a_table_rolled_back_between_plan_and_publish_is_left_alone(started: World) -> None:
    checkpoints = started.checkpoints()
    tagged = started.table.metadata.current_snapshot_id

    with pytest.raises(LedgerBroken, match="rolled back by hand") as raised:
        started.land(on_event=At("publish", lambda: roll_back(started)))

    assert named(raised.value.cures).startswith("sls-lake table rollback")
    assert started.table.metadata.current_snapshot_id != tagged
    assert len(started.table_rows()) == 10, "nothing was appended"
    assert started.checkpoints() == checkpoints
    with pytest.raises(LedgerBroken, match="rolled back by hand"):
        started.land()
    assert started.checkpoints() == checkpoints


def test_of_the_ways_back_from_a_rollback_by_hand_the_one_that_loses_nothing_is_named_first(
    started: World,
) -> None:
    """Retention has taken what the hand took out: only the newest landing still has it."""
    newest, rows = started.table.metadata.current_snapshot_id, len(started.table_rows())
    roll_back(started)
    started.at(HOUR0_S + 40 * 24 * 3600)
    started.emulator.admin.retain(PROJECT, "access_logs", before_s=HOUR0_S + 24 * 3600)

    with pytest.raises(LedgerBroken) as raised:
        started.land()

    first, second = named(raised.value.cures).splitlines()
    assert first == f"sls-lake table rollback {newest}   # brings back what was there by then"
    assert second.startswith("sls-lake table rollback ") and "lost where retention has taken it" in second
    execute(started.lake, plan_rollback(started.lake, started.logstore.table, newest or 0))
    started.land()
    assert len(started.table_rows()) == rows
    started.assert_proved()


@pytest.mark.fault("4b.drift.commit")
def test_a_partition_field_added_in_between_makes_the_run_plan_again(started: World) -> None:
    """The files were written for the old partitioning; new ones land once, under the new."""

    def add_field() -> None:
        with started.table.update_spec() as update:
            update.add_field("__shard__", IdentityTransform(), "shard")

    report = started.land(on_event=At("publish", add_field))

    assert (report.rows, report.replans) == (60, 1)
    newest = {f.file.spec_id for f in started.table.scan().plan_files()}
    assert newest == {0, started.table.spec().spec_id}
    started.assert_sound()


def test_a_partition_field_that_a_window_does_not_settle_is_refused(started: World) -> None:
    """Rows of one window may differ in the key, so no file could be in one partition."""
    with started.table.update_spec() as update:
        update.add_field("status", IdentityTransform(), "status")
    landings = started.landings()

    with pytest.raises(ConfigError, match="status"):
        started.land()

    assert started.landings() == landings


@pytest.mark.fault("4b.drift.commit")
def test_a_column_added_by_somebody_else_in_between_makes_the_run_plan_again(started: World) -> None:
    def add_column() -> None:
        with started.table.update_schema() as update:
            update.add_column("remark", StringType())

    report = started.land(on_event=At("publish", add_column))

    assert (report.rows, report.replans) == (60, 1)
    assert "remark" in started.table.schema().column_names
    started.assert_each_log_once()


@pytest.mark.fault("4b.conflict.commit")
def test_a_property_set_in_between_is_no_conflict(started: World) -> None:
    def set_property() -> None:
        with started.table.transaction() as transaction:
            transaction.set_properties({"owner": "somebody"})

    report = started.land(on_event=At("publish", set_property))

    assert (report.rows, report.conflicts, report.replans) == (60, 0, 0)
    assert started.table.properties["owner"] == "somebody"
    started.assert_each_log_once()


def test_a_removed_file_turns_the_check_red_and_no_checkpoint_moves(started: World) -> None:
    """Neither in this run, nor in the next one, which plans nothing either."""
    checkpoints, listed = started.checkpoints(), set(started.published())

    with started.run() as run:
        report = run.land()
        new = sorted(set(started.published()) - listed)
        Path(new[0]).unlink()
        verdict = run.reconcile()
        assert run.checkpoint() == []

    assert report.rows == 60
    assert not verdict.ok
    assert Path(new[0]).name in verdict.problems[0]
    assert started.checkpoints() == checkpoints
    landings = started.landings()
    pulls = started.watch_pulls()
    with pytest.raises(LedgerBroken, match="does not add up"):
        started.land()
    assert pulls.asked == []
    assert started.landings() == landings
    assert started.checkpoints() == checkpoints


def test_rows_of_unknown_origin_added_in_between_are_refused(started: World) -> None:
    checkpoints = started.checkpoints()

    with pytest.raises(LedgerBroken, match="rows of unknown origin"):
        started.land(on_event=At("publish", lambda: append_by_hand(started)))

    assert started.checkpoints() == checkpoints
    assert len(started.table_rows()) == 21
