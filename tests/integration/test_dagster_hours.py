"""Hours as the page shows them after a run that did not do all, and the old runs that go."""

import uuid
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import AssetPartitionStatus

from pipelines.components.logstore.assets import bronze_key, checkpoint_key, hours_of
from pipelines.components.logstore.health import check_key
from pipelines.components.logstore.pruning import prune_op
from pipelines.components.logstore.schedule import MODE_TAG
from pipelines.landing.commit.planned import execute
from pipelines.landing.hours import hour_text
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.watch.health import Kind
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from tests.worlds.dagster_page import DAY_S, EXECUTE, Page, hours, of_hours, plans, why
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT


def test_an_hour_that_retention_has_taken_is_red_with_the_reason_and_the_others_land(page: Page) -> None:
    lake, logstore = page.world.lake, page.world.logstore
    with page.world.client as client:
        execute(lake, plan_undo(lake, logstore, client, range(HOUR0, HOUR0 + 2)))
    page.world.emulator.admin.retain(PROJECT, "access_logs", before_s=HOUR0_S + 3600)
    filled = page.run("microbatch", tags=of_hours(HOUR0, HOUR0 + 1))
    assert not filled.success and f"withdrawn rows of {hour_text(HOUR0)}" in why(filled)
    assert {hour: m["rows"].value for hour, m in hours(filled).items()} == {hour_text(HOUR0 + 1): 30}
    said = [e.user_message for e in page.instance.all_logs(filled.run_id) if "cannot come" in e.user_message]
    assert len(said) == 2, "a sentence a shard"


def test_a_part_of_an_hour_is_filled_by_config_and_the_hour_stays_to_be_done(page: Page) -> None:
    world, hour = page.world, hour_text(HOUR0 + 2)
    for minute in (10, 30, 50):
        world.at(HOUR0_S + 2 * 3600 + 60.0 * minute)
        world.put(10)
    world.at(HOUR0_S + 3 * 3600 + 60.0)

    def fill(since: str, until: str) -> dg.ExecuteInProcessResult:
        options = {"since": since, "until": until}
        return page.run(
            "microbatch", hour=HOUR0 + 2, config={"ops": {"bronze__access_logs": {"config": options}}}
        )

    middle = fill(hour.replace(":00", ":20"), hour.replace(":00", ":40"))
    assert middle.success and hours(middle) == {}, "the hour is not whole"
    (seen,) = plans(middle)
    assert (seen.partition, seen.metadata["rows"].value) == (hour, 10)
    assert len(world.table_rows()) == 60
    assert "is nothing of the hours of this run" in why(fill(hour.replace(":00", ":40"), hour))
    rest = fill("", "")
    assert {key: m["rows"].value for key, m in hours(rest).items()} == {hour: 20}
    world.assert_sound()


def test_an_hour_shows_the_windows_that_a_landing_pulled_of_it_and_its_run_what_they_cost(page: Page) -> None:
    page.world.put(10, pass_s=3600)
    landed = page.land()
    shown: Any = hours(landed)[hour_text(HOUR0 + 2)]["windows"].value
    assert [column.name for column in shown.schema.columns] == ["shard", "begin", "end", "rows"]
    rows = [record.data for record in shown.records]
    assert {row["shard"] for row in rows} == {0, 1} and sum(row["rows"] for row in rows) == 10
    frontiers = {shard: str(entry.frontier) for shard, entry in page.world.ledger.shards.items()}
    assert {row["shard"]: row["end"] for row in rows} == frontiers
    (told,) = landed.asset_materializations_for_node("bronze__access_logs")[-1:]
    assert told.asset_key == checkpoint_key(page.world.logstore)
    assert {"cost", "rows landed", "landed", "checkpoints", "snapshot"} <= told.metadata.keys()


def test_a_refused_replace_is_red_and_leaves_its_hours_as_they_looked(page: Page) -> None:
    page.world.emulator.admin.retain(PROJECT, "access_logs", before_s=HOUR0_S + 3600)
    before = status(page)
    assert before == dict.fromkeys(
        (hour_text(HOUR0), hour_text(HOUR0 + 1)), AssetPartitionStatus.MATERIALIZED
    )
    tags = {MODE_TAG: "replace", **of_hours(HOUR0, HOUR0 + 1)}
    refused = page.run("microbatch", tags=tags, config=EXECUTE)
    assert not refused.success and "retention" in why(refused)
    assert status(page) == before
    assert hours(refused) == {}, "a backfill counts what its runs materialize"
    (checked,) = (x for x in refused.get_asset_check_evaluations() if x.check_name == "reconciled")
    assert checked.passed, "what the table holds is looked at, whatever was asked for"
    newest = dg.AssetRecordsFilter(bronze_key(page.world.logstore), asset_partitions=[hour_text(HOUR0)])
    told = page.instance.fetch_materializations(newest, limit=1).records[0].asset_materialization
    assert told is not None and told.metadata["rows"].value == 20
    assert told.metadata["mode"].value == "as before, replace was refused"
    page.world.assert_proved()


@pytest.mark.parametrize("mode", ["fill", "replace"])
def test_hours_that_only_a_tag_can_name_end_the_run_with_a_sentence_and_its_cure(
    page: Page, mode: str
) -> None:
    def refused(first: int, last: int) -> str:
        run = page.run("microbatch", tags={MODE_TAG: mode, **of_hours(first, last)}, config=EXECUTE)
        assert not run.success and hours(run) == {}
        return why(run)

    said = refused(HOUR0 + 1, HOUR0)
    assert "the hours of this run end before they begin" in said and "the other way round" in said
    later = int(SYSTEM_CLOCK.now()) // 3600 + 2
    said = refused(later, later + 1)
    assert f"{hour_text(later)}..{hour_text(later + 1)} has not begun by this machine's clock" in said
    assert "--local" in said


def status(page: Page) -> dict[str, AssetPartitionStatus | None]:
    """What Dagster shows of the two hours."""
    keys = [hour_text(HOUR0), hour_text(HOUR0 + 1)]
    of, bronze = hours_of(page.world.logstore), bronze_key(page.world.logstore)
    return dict(page.instance.get_status_by_partition(bronze, keys, of) or {})


def test_old_runs_are_deleted_but_those_that_told_the_newest_of_an_hour_or_a_check(page: Page) -> None:
    world, bronze = page.world, bronze_key(page.world.logstore)
    (first,) = page.instance.get_runs()
    runs = [first.run_id]
    for _ in range(3):
        world.put(5, pass_s=60)
        runs.append(page.land().run_id)
    shown = status(page), page.instance.get_latest_materialization_event(bronze)

    def prune(days_later: int) -> dict[str, Any]:
        clock = ManualClock(SYSTEM_CLOCK.now() + days_later * DAY_S)
        checks = [check_key(world.logstore, Kind.ERRORS)]
        prune = prune_op(world.logstore, [bronze], checks, clock=clock)

        @dg.job
        def alone() -> None:
            prune()

        done = alone.execute_in_process(instance=page.instance)
        ((_, metadata),) = [(e.step_key, e.step_output_data.metadata) for e in done.filter_events(is_output)]
        return {name: value.value for name, value in metadata.items()}

    assert prune(13) == {"runs deleted": 0, "old runs that stay": 0}
    # The first told its two hours last; of the running hour only the newest run counts.
    assert prune(15) == {"runs deleted": 2, "old runs that stay": 2}
    assert {run.run_id for run in page.instance.get_runs()} >= {runs[0], runs[3]}
    assert all(page.instance.get_run_by_id(run) is None for run in runs[1:3])
    assert (status(page), page.instance.get_latest_materialization_event(bronze)) == shown


def test_old_runs_of_many_pages_are_all_deleted_and_told_once(page: Page) -> None:
    world, storage = page.world, page.instance.run_storage
    (first,) = page.instance.get_runs()
    ended_s = SYSTEM_CLOCK.now()
    old = [
        dg.DagsterRun(
            job_name="access_logs_microbatch", run_id=str(uuid.uuid4()), status=dg.DagsterRunStatus.STARTED
        )
        for _ in range(230)
    ]
    for run in old:
        storage.add_historical_run(run, datetime.fromtimestamp(ended_s, UTC))
        ended = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, run.job_name)
        storage.handle_run_event(run.run_id, ended, datetime.fromtimestamp(ended_s, UTC))
    bronze, clock = bronze_key(world.logstore), ManualClock(ended_s + 15 * DAY_S)
    checks = [check_key(world.logstore, Kind.ERRORS)]
    prune = prune_op(world.logstore, [bronze], checks, clock=clock, page=50)

    @dg.job
    def alone() -> None:
        prune()

    for gone in (230, 0):
        done = alone.execute_in_process(instance=page.instance)
        ((_, metadata),) = [(e.step_key, e.step_output_data.metadata) for e in done.filter_events(is_output)]
        assert metadata["runs deleted"].value == gone
        assert metadata["old runs that stay"].value == 1
    left = page.instance.get_runs(dg.RunsFilter(job_name="access_logs_microbatch"))
    assert [run.run_id for run in left] == [first.run_id]
    assert page.instance.all_logs(first.run_id), "the run that stays has its events"


def is_output(event: dg.DagsterEvent) -> bool:
    return event.is_successful_output
