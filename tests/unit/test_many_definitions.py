"""Many logstores in one code location: what Dagster makes of them, and that it looks at each once."""

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap

from pipelines.components import SlsLogstore
from pipelines.components.logstore.wanted import alone, wanting


def of_one(number: int) -> dg.Definitions:
    name = f"logs_{number}"
    attributes = {
        "service": {"endpoint": "http://127.0.0.1:9", "project": "demo", "logstore": name},
        "group": "lake",
        "table": f"bronze.{name}",
        "start": "2026-11-20-00:00",
    }
    component = SlsLogstore.from_attributes_dict(attributes=attributes)
    return component.build_defs(dg.ComponentTree.for_test().load_context)


def shown() -> RepositorySnap:
    """All that Dagster's page and daemon are told of three logstores."""
    each = [of_one(number) for number in range(3)]
    own = dg.Definitions(executor=dg.in_process_executor)
    return RepositorySnap.from_def(dg.Definitions.merge(*each, own).get_repository_def())


@pytest.mark.filterwarnings("ignore:Property .* is deprecated:DeprecationWarning")
def test_jobs_that_are_looked_up_among_own_assets_are_those_that_dagster_would_make() -> None:
    """A code server looks them up so, a run's process leaves it to Dagster: both must have the same jobs."""
    with alone():
        ours = shown()
    assert shown() == ours
    assert {job.name for job in ours.job_datas or ()} >= {f"logs_{n}_microbatch" for n in range(3)}


def test_each_job_of_a_logstore_is_found_before_dagster_has_all_of_them() -> None:
    """Found among all, a hundred logstores take a hundred times a hundred looks."""
    with alone():
        jobs = of_one(0).jobs or ()
    assert len(list(jobs)) == 6
    assert all(isinstance(job, dg.JobDefinition) for job in jobs)


@pytest.mark.parametrize("job", ["logs_0_now", "logs_0_maintenance"])
def test_a_run_looks_up_none_of_its_logstores_other_jobs(job: str) -> None:
    with wanting(job):
        left = [each.name for each in of_one(0).jobs or () if not isinstance(each, dg.JobDefinition)]
    assert len(left) == 5
