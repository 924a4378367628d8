"""What the process of a run loads: the definitions of its job's logstore, the same as those of all."""

import itertools
import pickle
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

from pipelines.cli.init import DEFINITIONS
from pipelines.components.logstore.wanted import OF_LOGSTORE, wanting
from pipelines.definitions import code_location, loaded
from pipelines.landing.project_file import write_kept
from sls_io.emulator import Emulator
from tests.integration.followed_site import followed

pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Parameter `(execution_type|owners)`"),
    pytest.mark.filterwarnings("ignore:Property .* is deprecated:DeprecationWarning"),
]
_numbers = itertools.count()
ALONE = """type: pipelines.components.SlsLogstore
attributes:
  service: {endpoint: "http://127.0.0.1:9", project: demo, logstore: clicks}
  group: lake
  table: bronze.clicks
  start: 2026-11-20-00:00
"""
PROCESSED = """post_processing:
  assets:
    - target: "*"
      attributes: {owners: [team:clicks]}
"""
OWN = """
    import dagster as dg
    from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType


    @dg.asset_check(asset=dg.AssetKey(["bronze", "clicks"]))
    def of_a_person() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)


    class Elsewhere(dg.ConfigurableIOManager):
        where: str = "/"

        def handle_output(self, context, obj): ...

        def load_input(self, context): ...


    @dg.definitions
    def also() -> dg.Definitions:
        load = DefinitionsLoadContext.get()
        if load.load_type is DefinitionsLoadType.INITIALIZATION:
            load.add_to_pending_reconstruction_metadata("found", 7)
            found = 7
        else:
            found = load.reconstruction_metadata["found"]
        return dg.Definitions(
            assets=[dg.AssetSpec(f"found_{found}")],
            asset_checks=[of_a_person],
            jobs=[
                dg.define_asset_job("nightly", dg.AssetSelection.all()),
                dg.define_asset_job("clicks_nightly", dg.AssetSelection.all()),
            ],
            resources={"io_manager": Elsewhere()},
        )
"""
TELLING = """    from pipelines.components.logstore.dagster_private import DefinitionsLoadContext

    with Path(__file__).parent.with_suffix(".loads").open("a") as stream:
        print(DefinitionsLoadContext.get().load_type.name, file=stream)
"""


@pytest.fixture
def package(emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of two logstores that one file names, and of one that has a file of its own."""
    site = followed(emulator, tmp_path, f"ran_{next(_numbers)}")
    write_kept(site.folder, dict.fromkeys(("shop-orders", "shop-users"), "2026-11-20-00:00"))
    defs = site.package / "defs"
    (defs / "clicks").mkdir()
    (defs / "clicks" / "defs.yaml").write_text(ALONE)
    (site.package / "definitions.py").write_text(DEFINITIONS)
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield site.package
    DefinitionsLoadContext.set(DefinitionsLoadContext(DefinitionsLoadType.INITIALIZATION))


@pytest.fixture
def own(package: Path) -> Path:
    """The same, where a person has defined jobs, a check and a resource, and said more of a logstore."""
    (package / "defs" / "clicks" / "defs.yaml").write_text(ALONE + PROCESSED)
    (package / "defs" / "own.py").write_text(dedent(OWN))
    return package


def served(package: Path) -> dg.RepositoryDefinition:
    """The definitions as a code server has them, by Dagster's own loading."""
    place = LoadableTargetOrigin(
        python_file=str(package / "definitions.py"), working_directory=str(package.parent)
    )
    (found,) = LoadedRepositories(place, None, ["dagster"], None).definitions_by_name.values()
    return found


RUN = """
import pickle, sys
from dagster._core.definitions.reconstruct import ReconstructableRepository

place, load, names = pickle.load(sys.stdin.buffer)
found = ReconstructableRepository.for_file(place, "defs").with_repository_load_data(load).get_definition()
told = {}
for name in names:
    job = found.get_maybe_subset_job_def(name)
    keys = sorted(job.asset_layer.selected_asset_keys)
    told[name] = job.get_job_snapshot_id(), [job.asset_layer.get(key).owners for key in keys]
sys.stdout.buffer.write(b"told" + pickle.dumps(told))
"""


def of_runs(package: Path, told: dg.RepositoryDefinition) -> dict[str, tuple[str, list[list[str]]]]:
    """Each job as a run's process has it, which never asked what there is: its snapshot, and whose its assets
    are."""
    sent = pickle.dumps((str(package / "definitions.py"), told.repository_load_data, list(told.job_names)))
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=sent, capture_output=True, cwd=package.parent, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    had: dict[str, tuple[str, list[list[str]]]] = pickle.loads(done.stdout.partition(b"told")[2])
    return had


def of_a_run(package: Path) -> dg.RepositoryDefinition:
    """The definitions as the process of a run has them."""
    return ReconstructableRepository.for_file(
        str(package / "definitions.py"), "defs", str(package.parent)
    ).get_definition()


def test_every_job_is_the_one_that_the_code_server_told(package: Path) -> None:
    """The page shows a job by what the code server told of it, and a run that had another would do something
    else."""
    told = served(package)
    assert {"clicks_now", "shop_users_rework"} <= set(told.job_names)
    ours = {name.removeprefix("clicks_") for name in told.job_names if name.startswith("clicks_")}
    assert ours == OF_LOGSTORE
    had = of_runs(package, told)
    assert {name: job for name, (job, _) in had.items()} == {
        name: told.get_job(name).get_job_snapshot_id() for name in told.job_names
    }


def test_what_a_person_defined_beside_logstores_is_in_every_job_as_dagster_has_it(own: Path) -> None:
    """Jobs over the assets of all, one of a name that begins as ours do; a check of an asset of ours; a
    resource under Dagster's own name; more about assets than their settings; what was found when the code was
    loaded first."""
    told = served(own)
    had = of_runs(own, told)
    assert {"nightly", "clicks_nightly", "clicks_now"} <= set(had)
    assert {name: job for name, (job, _) in had.items()} == {
        name: told.get_job(name).get_job_snapshot_id() for name in told.job_names
    }
    assert had["clicks_now"][1] == [["team:clicks"]]
    steps = [node.name for node in told.get_job("clicks_microbatch").nodes]
    assert any("of_a_person" in step for step in steps), steps
    assert dg.AssetKey("found_7") in told.asset_graph.get_all_asset_keys()


@pytest.mark.parametrize(
    "file", ["own.py", "deep/more.py", "deep/__init__.py", "other/defs.yaml", "component.yaml"]
)
def test_whatever_else_is_defined_all_is_loaded(package: Path, file: str) -> None:
    """What it does to jobs nobody can tell without loading it."""
    assert not isinstance(loads(package), dg.Definitions)
    path = package / "defs" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("type: dagster.DefsFolderComponent\n" if file.endswith("yaml") else "import dagster\n")
    assert isinstance(loads(package), dg.Definitions)


def loads(package: Path) -> object:
    """What a run's process is given, which has not been asked what there is."""
    with DefinitionsLoadContext.scoped(DefinitionsLoadContext(DefinitionsLoadType.RECONSTRUCTION)):
        return code_location(package)


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
    with wanting(f"{name}_microbatch"):
        found = loaded(package)
    assert found.get_repository_def().has_job(f"{name}_microbatch")
    assert {key.path[-1] for key in found.resolve_asset_graph().get_all_asset_keys()} == {
        name,
        *(f"{name}_{part}" for part in ("checkpoint", "logstore", "sealed", "shards")),
    }


def test_a_code_server_serves_what_it_loads_last(package: Path) -> None:
    """Dagster's own loading: the first time is for what components keep of it, the second one is served. So
    the second one must look each job up among the assets of its logstore (`test_many_definitions`): among
    those of all, a thousand logstores would take minutes."""
    file = package / "definitions.py"
    file.write_text(file.read_text().replace("    return", TELLING + "    return"))
    found = served(package)
    assert any(found.get_job("shop_orders_now") is job for job in found.get_all_jobs()), "built once"
    assert RepositorySnap.from_def(found, defer_snapshots=True).component_tree is not None
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
