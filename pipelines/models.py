"""The dbt project as assets after bronze: its models, and its tests as checks. A code location of its own.

Its own, because each run imports all of its location: dbt and its models cost a landing two CPU seconds and
a third of its time, and a model that dbt cannot read would stop the landings, too. Dagster joins the
locations by the keys of their assets: lineage and conditions go across.

The manifest is written by `dbt parse`, which needs neither Spark nor Java, whenever a file of the
project is newer than it; a machine that has it already loads it in milliseconds.

Views of staging follow each landing. All other models are the job `dbt_models`, hourly by its schedule
once somebody turns that on: what is counted by minute takes care of late rows, whenever it runs.

Why not `dagster_dbt.DbtProjectComponent`: it prepares its project without a lock, and only under
`dagster dev`, so processes that load at the same moment take the folder from each other, and elsewhere a
manifest is never renewed; and it makes its resource before code of ours is asked, with the `dbt` of the
PATH, which an environment that is not activated lacks.

Columns' lineage is said by the models' YAML (`from` in a column's meta). dagster-dbt would ask the
database, with an adapter in the run's own process: over a local Spark that starts a second one.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster_dbt import DagsterDbtTranslator, DbtCliResource, DbtProject, dbt_assets

from pipelines.components.logstore.spark import RESOURCE_KEY, SPARK, SparkEngine
from pipelines.landing import json_log
from pipelines.landing.catalogs.profiles import has_views
from pipelines.landing.spark.dbt_environment import dbt_environment, dbt_folder
from pipelines.landing.table.lake import configured
from pipelines.landing.umask import keep_others_out
from sls_io.values.errors import ConfigError

# As in `definitions.py`, before the manifest is written.
keep_others_out()
json_log.speak()

POOL = "dbt"
"""One dbt run at a time: it starts an engine of its own, and models are replaced as a whole."""

FOLLOWS_EVERY_S = 300
"""Views are built at most this often: their tests read the whole table."""

CRON = "10 * * * *"
"""Some minutes after the hour, when most of its rows have landed; later ones change their minute later."""

STAGING = "staging"
"""The folder of models whose views follow each landing."""

# A virtual environment need not be on the PATH for its `dg` to work; dbt lies beside the Python.
_DBT = str(Path(sys.executable).with_name("dbt"))
_FOLDERS = ("models", "macros", "tests", "seeds", "snapshots")


class _Translator(DagsterDbtTranslator):
    """Views follow bronze, at most one run behind, and stay where they are while a check is red."""

    def get_asset_spec(
        self, manifest: Mapping[str, Any], unique_id: str, project: DbtProject | None
    ) -> dg.AssetSpec:
        spec = super().get_asset_spec(manifest, unique_id, project)
        node = manifest["nodes"].get(unique_id) or manifest["sources"][unique_id]
        lineage = column_lineage(node)
        if lineage is not None:
            spec = spec.merge_attributes(metadata={"dagster/column_lineage": lineage})
        spec = spec.replace_attributes(kinds={"dbt", "iceberg"})
        if STAGING not in node["fqn"]:
            return spec
        # The open hour is missing until it has rows, so "no upstream partition is missing" does not hold.
        condition = dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing())
        ready = dg.AutomationCondition.all_deps_blocking_checks_passed()
        return spec.replace_attributes(automation_condition=condition & ready)

    def get_description(self, dbt_resource_props: Mapping[str, Any]) -> str:
        """What the YAML says, without the SQL behind it: that is Jinja, and stands in the project."""
        return str(dbt_resource_props["description"] or dbt_resource_props["name"])


def column_lineage(node: Mapping[str, Any]) -> dg.TableColumnLineage | None:
    """Which columns a model's columns are made of, as its YAML says; None where it says nothing.

    A model names the asset it reads (`columns_of` beside its asset key), a column the columns there (`from`).
    """
    upstream = node["meta"].get("dagster", {}).get("columns_of")
    if upstream is None:
        return None
    key = dg.AssetKey(upstream)
    return dg.TableColumnLineage(
        {
            name: [dg.TableColumnDep(key, origin) for origin in column["meta"]["from"]]
            for name, column in node["columns"].items()
            if "from" in column["meta"]
        }
    )


def stale(project: DbtProject) -> bool:
    """Whether the manifest is missing or older than what it is made from: a file, or a folder.

    A folder has the time at which a name in it came or went. Worked example: `models/gold/days.sql` is
    deleted. No file is newer than the manifest, which still has that model, but the folder `models/gold` is.
    The project's own folder counts, too: `macros` may go as a whole. dbt makes `target` and `logs` there
    once, and what it writes after that lies in them, where nobody looks.
    """
    if not project.manifest_path.exists():
        return True
    written, root = project.manifest_path.stat().st_mtime, project.project_dir
    inside = (path for name in _FOLDERS for path in root.glob(f"{name}/**/*"))
    sources = (root, *(root / name for name in _FOLDERS), *root.glob("*.yml"), *inside)
    return any(path.exists() and path.stat().st_mtime > written for path in sources)


def prepared(project: DbtProject) -> DbtProject:
    """`project` with a manifest that is up to date.

    Code server, daemon and run workers load this at the same moment: one of them parses, the others
    wait for it and then find nothing to do. It is looked at twice, before the lock and behind it: most loads
    find nothing to do and open no lock, and who waited for another's parse must not parse again.
    """
    if stale(project):
        folder = project.manifest_path.parent
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "manifest.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if stale(project):
                _parse(project)
        finally:
            os.close(lock)
    return project


def _parse(project: DbtProject) -> None:
    """`dbt parse` as a process of its own; through dagster-dbt it would take three times as long."""
    needed = {"DBT_TARGET_PATH": str(project.target_path), "DBT_LOG_PATH": str(project.target_path)}
    needed |= {"SLS_DBT_TARGET": "configured", "SLS_DBT_SPARK_CONF": "{}"}
    done = subprocess.run(
        [_DBT, "parse", "--quiet", "--profiles-dir", str(project.profiles_dir)],
        cwd=project.project_dir,
        env={**os.environ, **needed},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout.strip() or done.stderr.strip()).splitlines()
        raise ConfigError(f"dbt cannot read {project.project_dir}: {said[-1] if said else 'it said nothing'}")


_FOLDER = dbt_folder()
PROJECT = prepared(
    DbtProject(project_dir=_FOLDER, profiles_dir=_FOLDER, target_path=_FOLDER.parent / "var/dbt/target")
)


@dbt_assets(
    manifest=PROJECT.manifest_path,
    project=PROJECT,
    name="dbt__sls_lake",
    pool=POOL,
    dagster_dbt_translator=_Translator(),
)
def models(context: dg.AssetExecutionContext, spark: SparkEngine) -> Iterator[Any]:
    """`dbt build` of what was selected, over the catalog that the landing writes to."""
    dbt = DbtCliResource(project_dir=PROJECT, dbt_executable=_DBT)
    with _variables(dbt_environment(remote=spark.address())):
        yield from dbt.cli(["build"], context=context).stream()


FOLLOWERS = [spec.key for spec in models.specs if spec.automation_condition is not None]
"""The views that follow each landing."""

follow = dg.AutomationConditionSensorDefinition(
    "dbt_follows_bronze",
    target=dg.AssetSelection.assets(*FOLLOWERS),
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=FOLLOWS_EVERY_S,
    description="Builds the views after a landing. It is on: where nothing lands nothing runs.",
)

build = dg.define_asset_job(
    "dbt_models",
    selection=dg.AssetSelection.assets(*models.keys) - dg.AssetSelection.assets(*FOLLOWERS),
    description="Counts what landed since its last run: by minute, then by day; and the rows with errors.",
)

hourly = dg.ScheduleDefinition(
    name="dbt_models_schedule",
    job=build,
    cron_schedule=CRON,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Each hour, once somebody turns it on. Later rows change their minute in a later run.",
)


@contextmanager
def _variables(added: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the dbt process; taken back after it, other steps share the process."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


defs = (
    dg.Definitions(
        assets=[models],
        jobs=[build],
        schedules=[hourly],
        sensors=[follow],
        resources={RESOURCE_KEY: SPARK},
        executor=dg.in_process_executor,
    )
    if has_views(configured())
    else dg.Definitions()
)
"""Empty where the catalog keeps neither views nor tables of queries: `sls-lake dbt build` runs the tests."""
