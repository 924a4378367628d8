"""What people have on Dagster's page to prove, repair and maintain a table: real runs of the jobs.

Runs are carried out in this process and so are their writing tasks; service and catalog are real ones.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from pyiceberg.expressions import EqualTo

from chaos.engine import InProcess
from pipelines.components.logstore.assets import checkpoint_key
from pipelines.components.logstore.health import check_key, last_told
from pipelines.components.logstore.maintenance import MAINTAINS_TAG
from pipelines.components.logstore.schedule import BACKFILL_TAG, CLAIMS_TAG, live_tags
from pipelines.components.logstore.spark import SparkEngine
from pipelines.landing.hours import hour_text
from pipelines.landing.recovery.start_over import plan_start_over, start_over
from pipelines.landing.spark.session import Engine
from pipelines.landing.watch.health import Kind, Level
from tests.worlds.dagster_page import DAY_S, Page, hours, plans, why
from tests.worlds.one_logstore import HOUR0

LOW = "0" * 32


def rework(mode: str, *, execute: bool = False) -> dict[str, Any]:
    """Config of `<name>_rework`."""
    return {"ops": {"bronze__access_logs": {"config": {"mode": mode, "execute": execute}}}}


class Losing(SparkEngine):
    """So do these, and a file is lost between its writing and the commit that lists it."""

    warehouse: str

    def engine(self) -> Engine:
        known = set(Path(self.warehouse).rglob("*.parquet"))

        def tell(name: str) -> None:
            for path in set(Path(self.warehouse).rglob("*.parquet")) - known if name == "task.done" else ():
                path.unlink()

        return InProcess(tell)


def columns_of(result: dg.ExecuteInProcessResult) -> list[dg.TableColumn]:
    """The columns as Dagster shows them after a run: it takes them from the newest event."""
    shown = hours(result)
    found: dg.TableSchema = shown[max(filter(None, shown))]["dagster/column_schema"].value
    return [*found.columns]


def check(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    (found,) = (e for e in result.get_asset_check_evaluations() if e.check_name == name)
    return found


def newest(page: Page, kind: Kind) -> int:
    """Which record of a check is its newest."""
    key = check_key(page.world.logstore, kind)
    return page.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key].id


def numbers(metadata: Any) -> dict[str, Any]:
    return {n: v.value for n, v in metadata.items() if isinstance(v, dg.IntMetadataValue)}


# --- proof ---------------------------------------------------------------------------------------------


def test_the_proof_is_a_check_with_counts_and_a_run_that_lands_repeats_it(page: Page) -> None:
    proven = page.run("proof")
    assert proven.success
    verdict = check(proven, "proven")
    assert verdict.passed and not verdict.blocking
    assert verdict.description == "50 rows, each once, as the ledger says"
    said = numbers(verdict.metadata)
    assert said.pop("files read whole") + said.pop("other files") == len(page.world.published())
    assert said == {
        "rows": 50,
        "shards": 2,
        "problems": 0,
        "gaps": 0,
        "withdrawn": 0,
        "rows forgotten": 0,
        "rows adopted": 0,
        "owed": 0,
    }
    page.world.put(10, pass_s=60)
    again = check(page.land(), "proven")
    twice = check(page.land(), "proven")
    repeated = "Not proven by this run; the last proof said: 50 rows, each once, as the ledger says"
    assert again.description == twice.description == repeated
    assert again.metadata["proven at"] == verdict.metadata["proven at"]
    assert check(page.run("proof"), "proven").metadata["rows"].value == 60


def test_a_row_that_is_gone_makes_the_proof_red_until_the_hour_is_replaced(page: Page) -> None:
    victim = page.world.table_rows()[0]
    page.world.table.delete(EqualTo(term="n", value=victim["n"]))
    assert len(page.world.table_rows()) == 49
    red = check(page.run("proof"), "proven")
    assert not red.passed and red.severity is dg.AssetCheckSeverity.ERROR
    assert "the table holds" in str(red.description) and f"shard {victim['__shard__']}" in str(
        red.description
    )
    assert numbers(red.metadata)["problems"] >= 1
    assert not check(page.land(), "proven").passed, "red stays red although rows land"
    hour = int(victim["__receive_hour__"].timestamp()) // 3600
    assert page.run("rework", hour=hour, config=rework("replace", execute=True)).success
    assert check(page.run("proof"), "proven").passed
    page.world.assert_each_log_once()


def test_a_proof_asks_the_service_again_on_demand_and_says_how_much(page: Page) -> None:
    every, first = pulled(page, "all"), pulled(page, hour_text(HOUR0))
    both = pulled(page, f"{hour_text(HOUR0)}..{hour_text(HOUR0 + 1)}")
    assert [check(run, "proven").metadata["rows pulled again"].value for run in (every, first, both)] == [
        50,
        20,
        50,
    ]
    assert "rows pulled again" not in check(page.run("proof"), "proven").metadata
    never = check(pulled(page, "2030-01-01-00:00"), "proven")
    assert not never.passed
    assert str(never.description).startswith("nothing of 2030-01-01-00:00 was compared with the service")

    page.world.table.delete(EqualTo(term="n", value=page.world.table_rows()[0]["n"]))
    red = check(pulled(page, "all"), "proven")
    assert not red.passed
    assert "rows, the service " in str(red.metadata["verdict"].value)


def test_hours_that_are_none_are_refused_before_anything_is_pulled(page: Page) -> None:
    for asked, said in (("yesterday", "'yesterday' is no hour; write it like"), ("..", "is no hour")):
        refused = pulled(page, asked)
        assert not refused.success and said in why(refused)


def pulled(page: Page, asked: str) -> dg.ExecuteInProcessResult:
    return page.run("proof", config={"ops": {"bronze__access_logs": {"config": {"pull": asked}}}})


def test_no_text_of_a_log_is_in_what_a_check_says(page: Page) -> None:
    page.world.put(5, value="s3cr3t-payload", pass_s=60)
    results = [page.land(), page.run("proof"), page.run("rework", hour=HOUR0 + 2, config=rework("errors"))]
    red = page.run("health")
    assert not red.success and "have an error" in why(red)
    for result in (*results, red):
        assert result.success or result is red
        for event in result.all_events:
            assert "s3cr3t-payload" not in str(event)


def test_the_first_landing_of_a_table_proves_it_and_no_output_is_missed(page: Page) -> None:
    (first,) = page.instance.get_runs()
    told = last_told(page.instance, page.world.logstore, [Kind.PROVEN]).get(Kind.PROVEN)
    assert told is not None and told.by_run and told.finding.level is Level.OK
    assert told.said.description == "50 rows, each once, as the ledger says"
    assert "never proven" not in told.said.metadata
    logged = page.instance.all_logs(first.run_id)
    assert logged and not [e.user_message for e in logged if "did not yield" in e.user_message]


def renamed(page: Page) -> None:
    page.world.logstore = page.world.changed(table="other.access_logs", group={"name": "other"})


def begun_anew(page: Page) -> None:
    world = page.world
    shutil.rmtree(world.table.metadata.location.removeprefix("file://"))
    with world.client as client:
        start_over(world.lake, plan_start_over(world.lake, world.logstore, client))


@pytest.mark.parametrize("elsewhere", [renamed, begun_anew])
def test_the_proof_of_another_table_is_none_and_the_first_landing_takes_one(
    page: Page, elsewhere: Callable[[Page], None]
) -> None:
    page.world.table.delete(EqualTo(term="n", value=page.world.table_rows()[0]["n"]))
    assert not check(page.run("proof"), "proven").passed
    elsewhere(page)
    first = check(page.land(), "proven")
    assert first.passed and first.description == "50 rows, each once, as the ledger says"
    assert first.metadata["table UUID"].value == str(page.world.table.metadata.table_uuid)
    assert str(check(page.land(), "proven").description).startswith("Not proven by this run; the last")


def test_a_proof_that_does_not_say_of_which_table_it_was_is_taken_again(page: Page) -> None:
    old = check(page.run("proof"), "proven")
    unsaid = {name: value for name, value in old.metadata.items() if name != "table UUID"}
    page.instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=old.asset_key,
            check_name=old.check_name,
            passed=False,
            description="2 are missing",
            metadata=unsaid,
        )
    )
    assert check(page.land(), "proven").description == "50 rows, each once, as the ledger says"


# --- live ----------------------------------------------------------------------------------------------


def test_a_run_now_lands_what_is_new_shows_its_hours_and_publishes_without_any_hours_asked(
    page: Page,
) -> None:
    page.world.put(10, pass_s=2 * 3600)
    now = page.run("now")
    assert now.success, why(now)
    shown = {hour: m["rows"].value for hour, m in hours(now).items()}
    assert shown == {hour_text(HOUR0 + 2): 10, hour_text(HOUR0 + 3): 0, hour_text(HOUR0 + 4): 0}
    assert all(check(now, name).passed for name in ("reconciled", "runway", "errors"))
    assert page.world.checkpoints() == {s: e.frontier for s, e in page.world.ledger.shards.items()}
    page.world.assert_each_log_once()


def test_a_live_run_follows_the_clock_whatever_hours_its_tick_named(page: Page) -> None:
    page.world.put(10, pass_s=3600)
    old = page.run("microbatch", tags=live_tags(page.world.logstore, HOUR0))
    assert old.success, why(old)
    told = {hour: m["rows"].value for hour, m in hours(old).items()}
    assert told == {hour_text(HOUR0 + 2): 10, hour_text(HOUR0 + 3): 0}, "the hour that is open now, too"
    page.world.assert_each_log_once()


def test_hours_that_a_gap_went_over_are_not_shown_as_landed(page: Page) -> None:
    page.world.put(10, pass_s=31 * DAY_S)
    landed = page.run("now")
    assert landed.success and check(landed, "runway").severity is dg.AssetCheckSeverity.ERROR
    assert set(hours(landed)) == {hour_text(HOUR0 + 2 + 31 * 24)}, "but for the one that is open"


@pytest.mark.parametrize(
    ("wrong", "severity"),
    [(1, None), (20, dg.AssetCheckSeverity.WARN), (99, dg.AssetCheckSeverity.ERROR)],
)
def test_rows_with_errors_turn_the_check_yellow_then_red_and_it_says_why_and_what_to_do(
    page: Page, wrong: int, severity: dg.AssetCheckSeverity | None
) -> None:
    page.world.put(100 - wrong)
    page.world.put(wrong, value="not a number", pass_s=3600)
    landed = page.run("now")
    assert landed.success and check(landed, "reconciled").passed
    hour = hour_text(HOUR0 + 2)
    shown = hours(landed)[hour]
    assert (shown["rows with errors"].value, shown["rows with errors (%)"].value) == (
        f"{wrong} of 100",
        wrong,
    )
    (status,) = (c for c in columns_of(landed) if c.name == "status")
    assert status.description == f"declared as `int`; {wrong}.0% of the rows of {hour} do not fit"
    errors = check(landed, "errors")
    assert errors.passed is (severity is None) and not errors.blocking
    assert str(errors.description).startswith(f"{wrong}.0% of 100 rows of {hour} have an error")
    assert errors.metadata["error rows"].value == wrong
    assert "WHERE __error__ IS NOT NULL" in str(errors.metadata["by hand"].value)
    cure = str(errors.metadata["mends them once columns fit"].value)
    assert (
        cure == f"sls-lake backfill --mode errors --local --from {hour} --to {hour} -l access_logs --execute"
    )
    if severity is not None:
        assert errors.severity is severity and "most often: status is not int" in str(errors.description)
        lenient = page.world.changed(health={"errors": [1, 1]})
        assert check(page.run("now", logstore=lenient), "errors").passed


# --- runway --------------------------------------------------------------------------------------------


def test_the_runway_is_a_number_of_each_landing_and_a_check_of_its_own(page: Page) -> None:
    page.world.put(10, key=LOW, pass_s=60)
    landed = page.land()
    assert {m["runway"].value for m in hours(landed).values()} == {"720.0 h"}
    assert check(landed, "runway").passed

    page.world.put(10, key=LOW, pass_s=25 * DAY_S)
    short = check(page.run("health"), "runway")
    assert (short.passed, short.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert short.metadata["runway h"].value == pytest.approx(5 * 24, abs=0.2)
    assert "shard 0" in str(short.description) and "turn the schedule on" in str(short.description)


def test_a_landing_that_names_a_gap_is_a_red_runway_although_nothing_is_behind_any_more(page: Page) -> None:
    page.world.put(10, key=LOW, pass_s=31 * DAY_S)
    lost = check(page.run("health"), "runway")
    assert (lost.passed, lost.severity) == (False, dg.AssetCheckSeverity.ERROR)
    landed = page.land()
    assert landed.success
    named = check(landed, "runway")
    assert (named.passed, named.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "this run named the gap" in str(named.description)
    # Whoever looks within a day hears of it.
    for later in (page.land(), page.run("health")):
        told = check(later, "runway")
        assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.ERROR)
        assert "lost to retention, named within a day" in str(told.description)


def test_a_landing_that_fails_still_looks_at_the_runway(page: Page) -> None:
    page.world.put(10, key=LOW, pass_s=25 * DAY_S)
    fault = page.world.emulator.admin.fault
    fault("error", call="heartbeat", status=500, code="InternalServerError", times=None)
    failed = page.land()
    assert not failed.success
    assert check(failed, "runway").severity is dg.AssetCheckSeverity.WARN
    assert "shard 0" in str(check(failed, "runway").description)
    # The button of the job's page leaves the checks out.
    job = page.definitions(page.world.logstore).resolve_job_def("access_logs_now")
    key = checkpoint_key(page.world.logstore)
    alone = job.get_subset(asset_selection={key}, asset_check_selection=set())
    before = newest(page, Kind.RUNWAY)
    assert not alone.execute_in_process(instance=page.instance, raise_on_error=False).success
    assert newest(page, Kind.RUNWAY) > before and newest(page, Kind.PROVEN) > before


def test_a_landing_whose_time_is_over_before_it_pulls_is_red_and_names_the_setting(page: Page) -> None:
    page.world.put(10, key=LOW, pass_s=60)
    last = int(page.world.emulator.admin.now()) // 3600
    tags = live_tags(page.world.logstore, last)
    # The service tells its time in whole seconds: one of them passes after the run has looked at it.
    page.world.emulator.admin.fault("delay", call="get_cursor", delay_s=1.1, times=1)
    hurried = page.run("microbatch", tags=tags, logstore=page.world.changed(budget={"seconds_max": 0.001}))
    assert not hurried.success and "`budget.seconds_max`" in why(hurried)
    assert check(hurried, "reconciled").passed and check(hurried, "runway").passed
    assert page.land().success
    page.world.assert_each_log_once()


# --- hours again ---------------------------------------------------------------------------------------


def test_a_replace_says_what_it_would_do_until_it_is_told_to(page: Page) -> None:
    before = set(page.world.published())
    dry = page.run("rework", hour=HOUR0, config=rework("replace"))
    assert dry.success and hours(dry) == {}
    (plan,) = plans(dry)
    assert plan.partition == hour_text(HOUR0)
    assert "`execute: true`" in str(plan.description)
    counted = numbers(plan.metadata)
    assert counted.pop("file bytes in all") > 0
    assert counted == {
        "rows replaced": 20,
        "windows pulled again": 2,
        "rows in all": 20,
        "files in all": 2,
        "windows in all": 2,
    }
    assert set(page.world.published()) == before

    done = page.run("rework", hour=HOUR0, config=rework("replace", execute=True))
    assert done.success and check(done, "reconciled").passed
    metadata = hours(done)[hour_text(HOUR0)]
    assert (metadata["mode"].value, metadata["rows"].value) == ("replace", 20)
    assert metadata["dagster/partition_row_count"].value == 20
    assert len(before & set(page.world.published())) == 2, "the files of the other hour"
    page.world.assert_sound()


def test_an_hour_that_is_still_landing_is_replaced_as_far_as_it_has_landed(page: Page) -> None:
    page.world.put(10, pass_s=60)
    page.land()
    before, rows = page.world.ledger, page.world.identities()
    done = page.run("rework", hour=HOUR0 + 2, config=rework("replace", execute=True))
    assert done.success and numbers(hours(done)[hour_text(HOUR0 + 2)])["rows replaced"] == 10
    assert page.world.ledger == before and page.world.identities() == rows
    page.world.assert_sound()


def test_rows_with_errors_are_read_again_and_asking_twice_changes_nothing(page: Page) -> None:
    page.world.put(8, value="not a number", pass_s=3600)
    page.land()
    fixed = page.world.changed(columns={"n": "long", "status": "int", "path": "string"})
    dry = page.run("rework", hour=HOUR0 + 2, logstore=fixed, config=rework("errors"))
    (plan,) = plans(dry)
    counted = numbers(plan.metadata)
    assert (counted["rows in all"], counted["mended in all"]) == (8, 0)
    left: Any = plan.metadata["left"].value
    assert [record.data for record in left.records] == [{"still": "status is not int", "rows": 8}]

    head = page.world.table.metadata.current_snapshot_id
    done = page.run("rework", hour=HOUR0 + 2, logstore=fixed, config=rework("errors", execute=True))
    assert done.success
    assert page.world.table.metadata.current_snapshot_id != head, "a new column fills from the kept bytes"
    head = page.world.table.metadata.current_snapshot_id
    again = page.run("rework", hour=HOUR0 + 2, logstore=fixed, config=rework("errors", execute=True))
    assert again.success and hours(again)[hour_text(HOUR0 + 2)]["files in all"].value == 0
    assert page.world.table.metadata.current_snapshot_id == head
    page.world.assert_proved()


def test_a_column_that_was_declared_later_is_filled_from_the_rest(page: Page) -> None:
    page.world.put(8, pass_s=3600)
    page.land()
    rest = {name for row in page.world.table_rows() for name, _ in row["__rest__"] or ()}
    (name, *_) = sorted(rest)
    later = page.world.changed(columns={"n": "long", "status": "int", name: "string"})
    dry = page.run("rework", hour=HOUR0 + 2, logstore=later, config=rework("rest"))
    (plan,) = plans(dry)
    rows = numbers(plan.metadata)["rows in all"]
    assert rows > 0 and name not in page.world.table.schema().column_names
    done = page.run("rework", hour=HOUR0 + 2, logstore=later, config=rework("rest", execute=True))
    assert done.success
    assert sum(row[name] is not None for row in page.world.table_rows()) == rows
    page.world.assert_proved()


@pytest.mark.parametrize("mode", ["", "fill", "live", "rework", "replac"])
def test_a_form_that_names_no_mode_changes_nothing_and_is_told_which_there_are(page: Page, mode: str) -> None:
    head = page.world.table.metadata.current_snapshot_id
    refused = page.run("rework", hour=HOUR0, config=rework(mode, execute=True))
    assert not refused.success and "name one of replace, errors, rest" in why(refused)
    assert page.world.table.metadata.current_snapshot_id == head


def test_a_mode_in_the_config_of_another_job_is_refused(page: Page) -> None:
    refused = page.run("microbatch", hour=HOUR0, config=rework("replace", execute=True))
    assert not refused.success and "is for <name>_rework" in why(refused)


def test_neither_moves_a_checkpoint_nor_claims(page: Page) -> None:
    before = page.world.checkpoints()
    tags = {BACKFILL_TAG: "b"}
    assert page.run("rework", hour=HOUR0, config=rework("replace", execute=True), tags=tags).success
    assert page.run("rework", hour=HOUR0, config=rework("errors", execute=True), tags=tags).success
    assert page.world.checkpoints() == before
    assert not page.instance.get_runs(dg.RunsFilter(tags={CLAIMS_TAG: "access_logs", BACKFILL_TAG: "b"}))


# --- maintenance ---------------------------------------------------------------------------------------


def test_maintenance_compacts_sealed_hours_and_its_figures_stand_with_the_table(page: Page) -> None:
    dry = page.run("maintenance", config={"ops": {"maintain__access_logs": {"config": {"execute": False}}}})
    (plan,) = plans(dry)
    assert "Dry run" in str(plan.description)
    assert (plan.metadata["hours compacted"].value, plan.metadata["files before"].value) == (2, 4)
    assert len(page.world.published()) == 4
    assert pruned(dry) == ["runs that would be", "old runs that stay"]

    done = page.run("maintenance")
    assert done.success and pruned(done) == ["runs deleted", "old runs that stay"]
    (figures,) = plans(done)
    assert figures.asset_key == dg.AssetKey(["bronze", "access_logs"])
    assert (figures.metadata["files before"].value, figures.metadata["files after"].value) == (4, 2)
    assert figures.metadata["rows compacted"].value == 50
    assert len(page.world.published()) == 2
    page.world.assert_sound()
    (again,) = plans(page.run("maintenance"))
    assert again.metadata["hours compacted"].value == 0, "each hour once"


def pruned(run: dg.ExecuteInProcessResult) -> list[str]:
    """What the step that deletes old runs counted."""
    (told,) = (e for e in run.all_events if e.is_successful_output and e.step_key == "prune__access_logs")
    return list(told.step_output_data.metadata)


def test_a_maintenance_of_a_table_that_lost_rows_does_nothing_and_fails(page: Page) -> None:
    page.world.table.delete(EqualTo(term="n", value=page.world.table_rows()[0]["n"]))
    head = page.world.table.metadata.current_snapshot_id
    failed = page.run("maintenance")
    assert not failed.success and "holds 49 rows, its ledger says 50" in why(failed)
    (figures,) = plans(failed)
    assert figures.metadata["put off"].value == 1
    assert pruned(failed), "old runs go all the same"
    assert page.world.table.metadata.current_snapshot_id == head


def test_bad_settings_of_a_maintenance_change_nothing_and_are_said(page: Page) -> None:
    head = page.world.table.metadata.current_snapshot_id
    for config, said in (
        ({"older_than_hours": 1.0}, "files younger than 24 hours"),
        ({"steps": ["compakt"]}, "'compakt' is no step"),
        ({"target_mb": 0}, "at least 1"),
    ):
        refused = page.run("maintenance", config={"ops": {"maintain__access_logs": {"config": config}}})
        assert not refused.success and said in why(refused)
    assert page.world.table.metadata.current_snapshot_id == head


def test_of_two_maintenances_of_a_table_the_second_ends_and_the_tick_is_skipped(page: Page) -> None:
    tags = {MAINTAINS_TAG: "access_logs"}
    at_work = create_run_for_test(page.instance, status=dg.DagsterRunStatus.STARTED, tags=tags)
    second = page.run("maintenance")
    assert not second.success and at_work.run_id in why(second)
    schedule = page.definitions(page.world.logstore).resolve_schedule_def("access_logs_maintenance_schedule")
    skipped = schedule(dg.build_schedule_context(page.instance))
    assert isinstance(skipped, dg.SkipReason) and at_work.run_id in str(skipped.skip_message)
    page.instance.report_run_canceled(at_work)
    create_run_for_test(page.instance, status=dg.DagsterRunStatus.STARTED, tags={MAINTAINS_TAG: "orders"})
    assert isinstance(schedule(dg.build_schedule_context(page.instance)), dg.RunRequest)
    assert page.run("maintenance").success, "another table's holds nobody up"


def test_a_landing_whose_check_fails_publishes_no_checkpoint(page: Page) -> None:
    before = page.world.checkpoints()
    page.world.put(20, pass_s=3600)
    page.spark = Losing(warehouse=page.world.lake.properties["warehouse"].removeprefix("file://"))

    landed = page.land()

    red = check(landed, "reconciled")
    assert not landed.success and not red.passed and "is gone" in str(red.description)
    shown = {event.asset_key for event in landed.all_events if event.is_step_materialization}
    assert dg.AssetKey(["sls", "access_logs_checkpoint"]) not in shown
    assert dg.AssetKey(["bronze", "access_logs"]) in shown
    assert page.world.checkpoints() == before
