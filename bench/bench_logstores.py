"""What a code location of many logstores costs: `make bench LANE=logstores`.

    python -m bench.bench_logstores [--logstores 25 100 400 1000]

One `SlsProject` file names them all. A line a number of logstores, each in a process of its own, which has
imported all modules before:

    code server    CPU seconds until it has told the page of all of them, and the MB of that; once a start
    run            CPU seconds until the process of a run has the definitions of its job; once a run
"""

import argparse
import importlib
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._grpc.server import LoadedRepositories
from dagster_shared.serdes import serialize_value

from bench.history import add_flag, record
from pipelines.cli.init import DEFINITIONS
from pipelines.landing.project_file import write_kept

_FILE = """type: pipelines.components.SlsProject
attributes:
  service: {endpoint: "http://127.0.0.1:9", project: bench}
  logstores: "*"
  defaults:
    group: lake
    table: bronze.{logstore}
    columns: {status: int, latency_ms: double}
"""


def made(root: Path, logstores: int) -> Path:
    """The package of a project of so many logstores, which nobody asks the service about."""
    package = root / f"many_{logstores}"
    folder = package / "defs" / "shop"
    folder.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "definitions.py").write_text(DEFINITIONS)
    (root / "pyproject.toml").write_text(f'[tool.dg.project]\nroot_module = "{package.name}"\n')
    (folder / "defs.yaml").write_text(_FILE)
    write_kept(folder, {f"logs{number}": "2026-01-01-00:00" for number in range(logstores)})
    return package


def code_server(package: Path) -> tuple[float, float]:
    """CPU seconds and MB of what a code server tells."""
    _imported()
    begun, file = time.process_time(), str(package / "definitions.py")
    place = LoadableTargetOrigin(python_file=file, working_directory=str(package.parent))
    server = LoadedRepositories(place, None, ["dagster"], None)
    (had,) = server.definitions_by_name.values()
    size = len(serialize_value(RepositorySnap.from_def(had, defer_snapshots=True)))
    return time.process_time() - begun, size / 1e6


def run(package: Path) -> tuple[float, float]:
    """CPU seconds of the definitions of a run, and the MB of memory that its process had at most."""
    place = ReconstructableRepository.for_file(str(package / "definitions.py"), "defs", str(package.parent))
    _imported()
    begun = time.process_time()
    place.get_definition().get_maybe_subset_job_def("logs7_microbatch")
    return time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _imported() -> None:
    for module in ("pipelines.definitions", "pipelines.components"):
        importlib.import_module(module)


def main() -> None:
    """A line a number of logstores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logstores", type=int, nargs="+", default=[25, 100, 400, 1000])
    add_flag(parser)
    asked = parser.parse_args()
    figures: dict[str, float] = {}
    print("logstores  code server CPU s  told MB  run CPU s  run MB of memory")
    with tempfile.TemporaryDirectory() as folder:
        for count in asked.logstores:
            (root := Path(folder) / str(count)).mkdir()
            package = made(root, count)
            with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as own:
                cpu_s, told_mb = own.apply(code_server, (package,))
                run_cpu_s, run_mb = own.apply(run, (package,))
            print(f"{count:9,}  {cpu_s:17.1f}  {told_mb:7.1f}  {run_cpu_s:9.2f}  {run_mb:16,.0f}")
            figures |= {f"code_server_{count}_cpu_s": cpu_s, f"run_{count}_cpu_s": run_cpu_s}
    if asked.record:
        record("logstores", figures)


if __name__ == "__main__":
    main()
