"""The dbt project in Dagster: lineage, checks, when models follow. No daemon, no engine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster_dbt import DbtProject

from pipelines.cli.demo.dagster_runs import DEFINITIONS, MODELS
from pipelines.components.logstore.assets import bronze_key, landing_assets, origin_spec
from pipelines.components.logstore.spark import RESOURCE_KEY, SPARK
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import SYSTEM_COLUMNS
from pipelines.landing.table.home import ROOT
from pipelines.models import POOL, PROJECT, defs, models, stale
from tests.worlds.dagster_home import dagster_in

LOGSTORE = Logstore.model_validate(
    {
        "service": {"endpoint": "http://127.0.0.1:9", "project": "demo", "logstore": "access_logs"},
        "group": "lake",
        "table": "bronze.access_logs",
        "start": "2026-11-20-00:00",
    }
)
BRONZE = bronze_key(LOGSTORE)
VIEW = dg.AssetKey(["silver", "stg_access_logs"])
MINUTES = dg.AssetKey(["silver", "access_logs_by_minute"])
DAYS = dg.AssetKey(["gold", "access_logs_by_day"])
ROWS = dg.AssetKey(["silver", "access_logs_error_rows"])
CAUSES = dg.AssetKey(["silver", "access_logs_error_causes"])
DEFS = dg.Definitions(
    assets=[origin_spec(LOGSTORE), landing_assets(LOGSTORE), models], resources={RESOURCE_KEY: SPARK}
)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dagster_in(tmp_path / "dagster") as instance:
        yield instance


def requested_after(instance: dg.DagsterInstance, *, passed: bool) -> int:
    """How often the view is asked for once an hour has landed with such a check."""
    asked = dg.AssetSelection.assets(VIEW)
    before = dg.evaluate_automation_conditions(DEFS, instance, asset_selection=asked)
    land(instance, passed=passed)
    after = dg.evaluate_automation_conditions(DEFS, instance, asset_selection=asked, cursor=before.cursor)
    return before.total_requested + after.total_requested


def land(instance: dg.DagsterInstance, *, passed: bool) -> None:
    """One hour landed, with its check."""
    instance.report_runless_asset_event(dg.AssetMaterialization(BRONZE, partition="2026-11-20-05:00"))
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(asset_key=BRONZE, check_name="reconciled", passed=passed, blocking=True)
    )


def test_the_view_comes_after_the_landed_table_and_its_tests_are_blocking_checks() -> None:
    spec = models.get_asset_spec(VIEW)
    assert [dep.asset_key for dep in spec.deps] == [BRONZE]
    assert spec.description and "{{" not in spec.description and "SQL" not in spec.description
    checks = {check.name: check for check in models.check_specs if check.asset_key == VIEW}
    assert set(checks) == {
        "identity_is_unique",
        "rows_are_as_the_ledger_says",
        "origin_is_set",
        "shard_is_set",
        "cursor_is_set",
        "index_is_set",
    }
    assert all(check.blocking for check in checks.values())
    assert models.op.pool == POOL


def test_minutes_come_after_table_and_view_days_after_minutes_and_each_has_its_checks() -> None:
    def upstream(key: dg.AssetKey) -> set[dg.AssetKey]:
        return {dep.asset_key for dep in models.get_asset_spec(key).deps}

    assert upstream(MINUTES) == {BRONZE, VIEW}
    assert (upstream(DAYS), upstream(ROWS), upstream(CAUSES)) == ({MINUTES}, {VIEW}, {ROWS})
    assert {spec.group_name for spec in models.specs} == {"access_logs"}
    checks = {(check.asset_key, check.name) for check in models.check_specs if check.blocking}
    assert {(MINUTES, "every_row_is_in_a_minute"), (MINUTES, "minute_is_there_once")} <= checks
    assert {(DAYS, "days_sum_like_minutes"), (CAUSES, "cause_is_there_once")} <= checks


def test_each_column_says_of_which_columns_it_is_made_and_these_are_there() -> None:
    found = {}
    for spec in models.specs:
        lineage = spec.metadata["dagster/column_lineage"]
        assert isinstance(lineage, dg.TableColumnLineage)
        found[spec.key] = lineage.deps_by_column
    there = {key: set(columns) for key, columns in found.items()}
    there[BRONZE] = {*SYSTEM_COLUMNS, "status", "latency_ms"}
    for columns in found.values():
        for dep in (dep for deps in columns.values() for dep in deps):
            assert dep.column_name in there[dep.asset_key], dep
    assert found[VIEW]["logged_at"] == [dg.TableColumnDep(BRONZE, "__time__")]
    assert found[MINUTES]["latency_ms_p95"] == [dg.TableColumnDep(BRONZE, "latency_ms")]
    assert found[DAYS]["day"] == [dg.TableColumnDep(MINUTES, "minute")]


def test_the_hourly_job_builds_all_but_the_views_that_follow_each_landing() -> None:
    schedule = defs.resolve_schedule_def("dbt_models_schedule")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    job = defs.resolve_job_def(schedule.job_name)
    assert job.asset_layer.selected_asset_keys == {MINUTES, DAYS, ROWS, CAUSES}


def test_the_view_follows_a_landing_although_most_hours_never_come(instance: dg.DagsterInstance) -> None:
    assert requested_after(instance, passed=True) == 1


def test_the_view_stays_where_it_is_while_the_blocking_check_is_red(instance: dg.DagsterInstance) -> None:
    assert requested_after(instance, passed=False) == 0


def test_nobody_has_to_turn_on_what_makes_the_view_follow() -> None:
    found = defs.get_repository_def().sensor_defs
    (sensor,) = (each for each in found if isinstance(each, dg.AutomationConditionSensorDefinition))
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    graph = DEFS.resolve_asset_graph()
    assert sensor.asset_selection.resolve(graph) == {VIEW}


def test_a_manifest_is_stale_when_a_model_is_newer_than_it(tmp_path: Path) -> None:
    copy = shutil.copytree(
        PROJECT.project_dir, tmp_path / "dbt", ignore=shutil.ignore_patterns("target", "logs")
    )
    project = DbtProject(project_dir=copy, profiles_dir=copy)
    assert stale(project)
    project.manifest_path.parent.mkdir()
    project.manifest_path.touch()
    written_s = project.manifest_path.stat().st_mtime
    for path in (copy, *copy.rglob("*")):
        os.utime(path, (written_s, written_s - 1))
    assert not stale(project)
    os.utime(next(copy.glob("models/**/*.sql")), (written_s, written_s + 60))
    assert stale(project)


@pytest.mark.parametrize("gone", ["models/gold/access_logs_by_day.sql", "macros/causes_of.sql", "macros"])
def test_a_manifest_is_stale_when_something_of_it_is_deleted_and_not_for_what_dbt_writes(
    tmp_path: Path, gone: str
) -> None:
    copy = shutil.copytree(
        PROJECT.project_dir, tmp_path / "dbt", ignore=shutil.ignore_patterns("target", "logs")
    )
    project = DbtProject(project_dir=copy, profiles_dir=copy)
    for folder in (project.manifest_path.parent, copy / "logs"):
        folder.mkdir()
    project.manifest_path.touch()
    written_s = project.manifest_path.stat().st_mtime - 60
    for path in (copy, *copy.rglob("*")):
        os.utime(path, (written_s, written_s))
    (copy / "logs" / "dbt.log").touch()
    (copy / "target" / "run_results.json").touch()
    assert not stale(project)
    if (copy / gone).is_dir():
        shutil.rmtree(copy / gone)
    else:
        (copy / gone).unlink()
    assert stale(project)


def test_a_landing_does_not_import_dbt() -> None:
    """Each run imports its whole code location: what costs two CPU seconds there, each run pays."""
    program = (
        "import sys, pipelines.definitions as d; d.defs(); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('dbt', 'dagster_dbt')])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_workspace_has_the_models_beside_the_landings() -> None:
    listed = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    modules = {entry["python_module"]["module_name"] for entry in listed}
    assert modules == {DEFINITIONS, MODELS}


def test_where_the_catalog_keeps_neither_views_nor_tables_of_queries_there_are_no_models() -> None:
    told = {"TYPE": "osstables", "WAREHOUSE": "acs:osstables:cn-hangzhou:1234567890:bucket/logs"}
    variables = {f"PYICEBERG_CATALOG__LAKE__{name}": value for name, value in told.items()}
    program = "from pipelines.models import defs; print(defs.assets, defs.jobs, defs.sensors)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["None"] * 3
