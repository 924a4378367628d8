"""The dbt staging model that `sls-lake stage` writes: read by dbt itself, beside the one that is there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli.main import EXIT_USAGE, run
from pipelines.cli.stage import model
from pipelines.landing.logstore import load_logstore
from pipelines.landing.spark.dbt_environment import dbt_folder
from tests.worlds.projects import ORDERS, make_project

ROOT = dbt_folder().parent


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project's dbt beside one more logstore."""
    monkeypatch.chdir(make_project(tmp_path, orders=ORDERS))
    shutil.copytree(dbt_folder(), tmp_path / "dbt", ignore=shutil.ignore_patterns("target", "logs"))
    return tmp_path


def test_the_model_that_is_there_is_the_one_that_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLS_ENDPOINT", "http://127.0.0.1:9")
    logstore = load_logstore(ROOT / "pipelines/defs/access_logs/defs.yaml")
    assert model(logstore) == (dbt_folder() / "models/staging/stg_access_logs.sql").read_text()


def test_dbt_reads_the_model_of_a_new_logstore_with_its_source_its_tests_and_its_place_in_dagster(
    project: Path,
) -> None:
    assert run(["stage", "--by-minute"]) == 0
    environment = {**os.environ, "SLS_DBT_SPARK_CONF": "{}", "DBT_TARGET_PATH": str(project / "target")}
    program = str(Path(sys.executable).with_name("dbt"))
    subprocess.run(
        [program, "parse", "--profiles-dir", "."],
        cwd=project / "dbt",
        env=environment,
        check=True,
        capture_output=True,
    )
    manifest = json.loads((project / "target" / "manifest.json").read_text())
    node = manifest["nodes"]["model.sls_lake.stg_orders"]
    assert node["depends_on"]["nodes"] == ["source.sls_lake.raw.orders"]
    assert node["meta"]["dagster"] == {
        "asset_key": ["silver", "stg_orders"],
        "group": "orders",
        "columns_of": ["bronze", "orders"],
    }
    made_of = {name: column["meta"]["from"] for name, column in node["columns"].items()}
    assert made_of["receive_hour"] == ["__receive_hour__"] and made_of["user.name"] == ["user.name"]
    assert made_of["source"] == ["source"] and made_of["__source__"] == ["__source__"]
    source = manifest["sources"]["source.sls_lake.raw.orders"]
    assert source["meta"]["dagster"]["asset_key"] == ["bronze", "orders"]
    tests = {
        name: test["name"]
        for name, test in manifest["nodes"].items()
        if test["resource_type"] == "test" and test["attached_node"] == "model.sls_lake.stg_orders"
    }
    assert len(tests) == 6 and "rows_are_as_the_ledger_says" in tests.values()
    assert "model.sls_lake.stg_access_logs" in manifest["nodes"]
    minutes = manifest["nodes"]["model.sls_lake.orders_by_minute"]
    assert set(minutes["depends_on"]["nodes"]) == {"source.sls_lake.raw.orders", "model.sls_lake.stg_orders"}
    assert (minutes["config"]["incremental_strategy"], minutes["config"]["unique_key"]) == ("merge", "minute")
    assert minutes["meta"]["dagster"]["asset_key"] == ["silver", "orders_by_minute"]


def test_a_declared_key_keeps_its_name_is_quoted_and_a_dropped_one_has_no_column(project: Path) -> None:
    assert run(["stage", "-l", "orders"]) == 0
    columns = (project / "dbt/models/staging/stg_orders.sql").read_text()
    assert "    __source__,\n" in columns and "    `source`,\n    `user.name`,\n    `card`,\n" in columns
    assert "__topic__ as topic" in columns and "secret" not in columns


def test_a_dry_run_names_the_files_and_writes_none(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(project.rglob("*"))
    assert run(["stage", "--by-minute", "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert sorted(project.rglob("*")) == before and len(said["files"]) == 4
    assert said["does_it"] == {"call": "sls-lake stage --by-minute", "loses": []}
    assert run(["stage", "--by-minute"]) == 0
    assert {str(path) for path in {*project.rglob("*")} - {*before} if path.is_file()} == {*said["files"]}


def test_a_model_that_is_there_is_never_written_over(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stage"]) == 0
    mine = project / "dbt/models/staging/stg_orders.sql"
    mine.write_text("select 1")
    assert run(["stage"]) == EXIT_USAGE
    assert "is there already" in capsys.readouterr().err
    assert run(["stage", "--by-minute"]) == 0, "only the model that is missing is written"
    assert mine.read_text() == "select 1"
    assert run(["stage", "--by-minute"]) == EXIT_USAGE
