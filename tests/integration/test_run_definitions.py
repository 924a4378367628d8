"""What the process of a run loads: the definitions of its job's logstore, the same as those of all."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import dagster as dg
import pytest
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._grpc.server import LoadedRepositories

from pipelines.components.logstore.wanted import OF_LOGSTORE, wanting
from pipelines.definitions import loaded
from pipelines.landing.project_file import write_kept
from sls_io.emulator import Emulator
from tests.integration.followed_site import followed

pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Parameter `execution_type`"),
    pytest.mark.filterwarnings("ignore:Property .* is deprecated:DeprecationWarning"),
]
_numbers = itertools.count()
ALONE = """type: pipelines.components.SlsLogstore
attributes:
  service: {endpoint: "http://127.0.0.1:9", project: demo, logstore: clicks}
  group: lake
  table: bronze.clicks
  start: 2026-11-20-00:00
post_processing:
  assets:
    - target: "*"
      attributes: {owners: [team:clicks]}
"""
OWN_JOBS = """
    import dagster as dg

    everything = dg.define_asset_job("nightly", dg.AssetSelection.all())
    like_ours = dg.define_asset_job("clicks_nightly", dg.AssetSelection.all())
"""
DEFINITIONS = """
    from pathlib import Path

    import dagster as dg

    from pipelines.definitions import code_location


    @dg.definitions
    def defs() -> dg.Definitions:
        return code_location(Path(__file__).parent)
"""
TELLING = """
    from pipelines.components.logstore.dagster_private import DefinitionsLoadContext


    @dg.definitions
    def telling() -> dg.Definitions:
        with Path(__file__).parent.with_suffix(".loads").open("a") as stream:
            print(DefinitionsLoadContext.get().load_type.name, file=stream)
        return defs()
"""


@pytest.fixture
def package(emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of two logstores that one file names, one that has a file of its own, and own jobs."""
    site = followed(emulator, tmp_path, f"ran_{next(_numbers)}")
    write_kept(site.folder, dict.fromkeys(("shop-orders", "shop-users"), "2026-11-20-00:00"))
    defs = site.package / "defs"
    (defs / "clicks").mkdir()
    (defs / "clicks" / "defs.yaml").write_text(ALONE)
    (defs / "own.py").write_text(dedent(OWN_JOBS))
    (site.package / "definitions.py").write_text(dedent(DEFINITIONS))
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield site.package
    DefinitionsLoadContext.set(DefinitionsLoadContext(DefinitionsLoadType.INITIALIZATION))


def of_a_run(package: Path) -> dg.RepositoryDefinition:
    """The definitions as the process of a run has them."""
    return ReconstructableRepository.for_file(
        str(package / "definitions.py"), "defs", str(package.parent)
    ).get_definition()


def test_every_job_is_the_one_that_the_code_server_told(package: Path) -> None:
    """The page shows a job by what the code server told of it, and a run that had another would do something
    else. Own jobs over the assets of all are among them, one under a name that begins as ours do."""
    told = loaded(package).get_repository_def()
    assert {"nightly", "clicks_nightly", "clicks_now", "shop_users_rework"} <= set(told.job_names)
    ours = {name.removeprefix("clicks_") for name in told.job_names if name.startswith("clicks_")}
    assert ours - {"nightly"} == OF_LOGSTORE
    for name in told.job_names:
        had = of_a_run(package).get_maybe_subset_job_def(name)
        assert had.get_job_snapshot_id() == told.get_job(name).get_job_snapshot_id(), name
    owned = of_a_run(package).get_job("clicks_now").asset_layer  # what its file says beside the settings
    assert [owned.get(key).owners for key in owned.selected_asset_keys] == [["team:clicks"]]


def test_a_part_of_a_job_is_that_part(package: Path) -> None:
    checkpoint = dg.AssetKey(["sls", "shop_orders_checkpoint"])
    part = of_a_run(package).get_maybe_subset_job_def(
        "shop_orders_microbatch", asset_selection=frozenset({checkpoint})
    )
    assert part.asset_layer.selected_asset_keys == {checkpoint}
    of_the_page = of_a_run(package).get_maybe_subset_job_def(
        "__ASSET_JOB", asset_selection=frozenset({checkpoint, dg.AssetKey(["bronze", "shop_users"])})
    )
    assert len(of_the_page.asset_layer.selected_asset_keys) == 2


@pytest.mark.parametrize("name", ["shop_orders", "clicks"])
def test_no_other_logstore_is_built_for_it(package: Path, name: str) -> None:
    with wanting(f"{name}_microbatch") as wanted:
        found = loaded(package)
    assert wanted.found
    assert {key.path[-1] for key in found.resolve_asset_graph().get_all_asset_keys()} == {
        name,
        *(f"{name}_{part}" for part in ("checkpoint", "logstore", "sealed", "shards")),
    }


def test_a_code_server_serves_what_it_loads_last(package: Path) -> None:
    """Dagster's own loading: the first time is for what components keep of it, the second one is served. So
    the second one must look each job up among the assets of its logstore (`test_many_definitions`): among
    those of all, a thousand logstores would take minutes."""
    file = package / "definitions.py"
    file.write_text(file.read_text() + dedent(TELLING))
    place = LoadableTargetOrigin(
        python_file=str(file), working_directory=str(package.parent), attribute="telling"
    )
    (served,) = LoadedRepositories(place, None, ["dagster"], None).definitions_by_name.values()
    assert any(served.get_job("shop_orders_now") is job for job in served.get_all_jobs()), "built once"
    assert RepositorySnap.from_def(served, defer_snapshots=True).component_tree is not None
    loads = package.with_suffix(".loads").read_text().split()
    assert loads == [
        each.name for each in (DefinitionsLoadType.INITIALIZATION, DefinitionsLoadType.RECONSTRUCTION)
    ]


def test_schedules_and_sensors_are_there_when_they_are_asked_for(package: Path) -> None:
    told, had = loaded(package).get_repository_def(), of_a_run(package)
    assert [each.name for each in had.schedule_defs] == [each.name for each in told.schedule_defs]
    assert [each.name for each in had.sensor_defs] == [each.name for each in told.sensor_defs]
    assert set(had.job_names) == set(told.job_names)
    assert set(had.asset_graph.get_all_asset_keys()) == set(told.asset_graph.get_all_asset_keys())


def test_a_job_that_is_run_by_its_name_in_a_process_of_its_own_has_its_logstore(package: Path) -> None:
    """`dagster job execute` looks the job up in the folder of a code location, and runs it."""
    asked = [sys.executable, "-m", "dagster", "job", "execute", "-f", str(package / "definitions.py")]
    done = subprocess.run(
        [*asked, "-j", "shop_orders_health"], capture_output=True, text=True, cwd=package.parent, check=False
    )
    said = done.stdout + done.stderr
    assert "health__shop_orders" in said and "Finished execution of run" in said, said[-2000:]
