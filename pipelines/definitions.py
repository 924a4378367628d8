"""What Dagster loads: every folder of a project's `defs`, run in one process.

A code server builds all of it, and so does whatever else begins by asking what there is: Dagster loads the
code for that (INITIALIZATION), and once more to have it (RECONSTRUCTION); both get what was built for the
first. The process of a run begins with the latter, and builds the logstore of its job: eight milliseconds of
CPU a logstore are eight seconds of each run where there are a thousand.

That holds where the folder says nothing but logstores. What else is defined there may change any job: a check
of a person's own is part of each job that lands its asset, and a resource has the place of Dagster's. So then
all is built, and looked up among all, as Dagster does.
"""

import ast
import gc
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import dagster as dg

from pipelines.components.logstore.dagster_private import DefinitionsLoadContext, DefinitionsLoadType
from pipelines.components.logstore.wanted import alone, wanting
from pipelines.landing import json_log
from pipelines.landing.defs_file import FILES, check_folder
from pipelines.landing.table.home import use
from pipelines.landing.umask import keep_others_out

_NAME = "__repository__"
"""What Dagster calls the repository of a code location that gives it no name."""
_LOGSTORES = {"pipelines.components.SlsLogstore", "pipelines.components.SlsProject"}
_FIRST: dict[Path, dg.Definitions] = {}
"""What was built for a process that asked what there is, so no run's."""

# Code servers and runs begin here, and `dagster` started them, which leaves the umask as it is.
keep_others_out()
json_log.speak()


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions of the checkout."""
    return code_location(Path(__file__).parent)


def code_location(package: Path) -> dg.Definitions:
    """As `loaded`, for a `definitions.py` that adds nothing: a run's process builds what its job needs. One
    that adds something to it takes `loaded`."""
    said = _checked(package)
    first = DefinitionsLoadContext.get().load_type is not DefinitionsLoadType.RECONSTRUCTION
    if not _are_logstores_alone(package / "defs", said):
        return _built(package)
    if first:
        with alone():
            _FIRST[package] = _built(package)
        gc.freeze()  # it stays as long as the process
    if package in _FIRST:
        return _FIRST[package]
    # `@dg.definitions` takes a repository as well; only its type does not say so.
    return cast(dg.Definitions, dg.RepositoryDefinition(_NAME, repository_data=_OnDemand(package)))


def loaded(package: Path) -> dg.Definitions:
    """All definitions in the folder `defs` of a project's package. The executor holds for the runs that the
    web page and backfills make, too: steps of one run share its engine, and a terminated run leaves no child
    behind."""
    _checked(package)
    return _built(package)


def _checked(package: Path) -> list[Any]:
    """What the files of settings say. Dagster's reader takes a key twice, and one of an alias bomb never
    comes back."""
    use(package)
    return check_folder(package / "defs")


@contextmanager
def _without_collector() -> Iterator[None]:
    """Python looks for cycles among all objects each time that there are so many more of them. Definitions
    stay, so it finds none; among those of four hundred logstores that was a quarter of a code server's start.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@_without_collector()
def _built(package: Path) -> dg.Definitions:
    # Not `load_from_defs_folder`: that imports every package here that has component types, dbt's too, to
    # list them on a page of their own, and each run of a landing would wait for it.
    tree = dg.ComponentTree.for_project(package)
    own = dg.Definitions(executor=dg.in_process_executor, component_tree=tree)
    with warnings.catch_warnings():
        # Of Dagster about itself, in the log of each run.
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.Definitions.merge(tree.build_defs(Path()), own)


def _are_logstores_alone(defs: Path, said: Sequence[Any]) -> bool:
    """Whether nothing in the folder defines anything but logstores, as their settings `said`."""
    files = [path for path in defs.rglob("*") if path.suffix in (".py", ".yaml", ".yml")]
    if any(path.name not in (*FILES, "__init__.py") for path in files):
        return False
    inits = (path.read_bytes() for path in files if path.name == "__init__.py")
    try:
        if any(not isinstance(each, ast.Expr) for text in inits for each in ast.parse(text).body):
            return False
    except (SyntaxError, ValueError):  # Dagster says what is wrong with it
        return False
    settings = [each if isinstance(each, dict) else {} for each in said]
    return all(each.keys() == {"type", "attributes"} and each["type"] in _LOGSTORES for each in settings)


class _OnDemand(dg.RepositoryData):
    """The definitions of a package as the process of a run asks for them: one job by its name.

    Whatever else is asked for is answered from all definitions, and so is a job that belongs to no single
    logstore.
    """

    def __init__(self, package: Path) -> None:
        self._package = package
        self._jobs: dict[str, dg.JobDefinition] = {}

    def get_job(self, job_name: str) -> dg.JobDefinition:
        if job_name not in self._jobs:
            with wanting(job_name):
                part = _built(self._package).get_repository_def()
            self._jobs[job_name] = (part if part.has_job(job_name) else self._all).get_job(job_name)
        return self._jobs[job_name]

    @cached_property
    def _all(self) -> dg.RepositoryDefinition:
        return _built(self._package).get_repository_def()

    def get_all_jobs(self) -> Sequence[dg.JobDefinition]:
        return self._all.get_all_jobs()

    def get_all_schedules(self) -> Sequence[dg.ScheduleDefinition]:
        return self._all.schedule_defs

    def get_all_sensors(self) -> Sequence[dg.SensorDefinition]:
        return self._all.sensor_defs

    def get_top_level_resources(self) -> Mapping[str, dg.ResourceDefinition]:
        return self._all.get_top_level_resources()

    def get_env_vars_by_top_level_resource(self) -> Mapping[str, Set[str]]:
        return self._all.get_env_vars_by_top_level_resource()

    def get_source_assets_by_key(self) -> Mapping[dg.AssetKey, dg.SourceAsset]:
        return self._all.source_assets_by_key

    def get_assets_defs_by_key(self) -> Mapping[dg.AssetKey, dg.AssetsDefinition]:
        return self._all.assets_defs_by_key

    def get_asset_checks_defs_by_key(self) -> Mapping[dg.AssetCheckKey, dg.AssetChecksDefinition]:
        return self._all.asset_checks_defs_by_key
