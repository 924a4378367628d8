"""A logstore and the Dagster that runs its jobs, in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from chaos.engine import InProcess
from chaos.in_dagster import Here, definitions_of
from pipelines.components.logstore.schedule import RANGE_END_TAG, RANGE_START_TAG, live_tags
from pipelines.components.logstore.spark import SparkEngine
from pipelines.landing.hours import hour_text
from pipelines.landing.logstore import Logstore
from sls_io.emulator import Emulator
from tests.worlds.dagster_home import dagster_in
from tests.worlds.mold import Mold
from tests.worlds.one_logstore import HOUR0, World, make_lake, new_world, use_catalog

DAY_S = 24 * 3600.0


EXECUTE = {"ops": {"bronze__access_logs": {"config": {"execute": True}}}}


@dataclass
class Page:
    """A world and the Dagster that runs its jobs."""

    world: World
    instance: dg.DagsterInstance
    spark: SparkEngine = field(default_factory=Here)

    def definitions(self, logstore: Logstore) -> dg.Definitions:
        return definitions_of(logstore, self.spark)

    def run(
        self,
        verb: str,
        *,
        hour: int | None = None,
        tags: dict[str, str] | None = None,
        config: dict[str, Any] | None = None,
        logstore: Logstore | None = None,
    ) -> dg.ExecuteInProcessResult:
        """One run of the job of this verb, over one hour where it has hours."""
        job = self.definitions(logstore or self.world.logstore).resolve_job_def(f"access_logs_{verb}")
        return job.execute_in_process(
            instance=self.instance,
            tags=tags,
            run_config=config,
            partition_key=None if hour is None else hour_text(hour),
            raise_on_error=False,
        )

    def land(self) -> dg.ExecuteInProcessResult:
        """A live micro-batch, as a tick asks for it."""
        last = int(self.world.emulator.admin.now()) // 3600
        return self.run("microbatch", tags=live_tags(self.world.logstore, last))


@pytest.fixture(scope="session")
def page_mold(tmp_path_factory: pytest.TempPathFactory) -> Mold:
    """Two receive hours with rows of both shards, landed by a run, and more to come in a third. What Dagster
    keeps of it lies beside the lake."""

    def made(emulator: Emulator, lake_folder: Path) -> World:
        place, lake = lake_folder.parent, make_lake(lake_folder)
        world = new_world(emulator, lake, InProcess(), start=hour_text(HOUR0))
        with _around(world, place) as page:
            page.world.put(20)
            emulator.admin.advance(3600)
            page.world.put(30)
            emulator.admin.advance(3600)
            assert page.land().success
        return world

    return Mold(tmp_path_factory.mktemp("page"), made)


@pytest.fixture
def page(page_mold: Mold) -> Iterator[Page]:
    """A copy of it."""
    with page_mold.copy() as world, _around(world, page_mold.folder / "place") as page:
        yield page


@contextmanager
def _around(world: World, place: Path) -> Iterator[Page]:
    with pytest.MonkeyPatch.context() as patch, dagster_in(place / "dagster") as instance:
        patch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "emulator-key")
        patch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "emulator-secret")
        patch.setenv("SLS_LAKE_HOME", str(place))
        use_catalog(world.lake, patch)
        yield Page(world, instance)


def why(result: dg.ExecuteInProcessResult) -> str:
    """The sentence of the step that failed."""
    (failed,) = (e for e in result.all_events if e.is_step_failure)
    failure = failed.step_failure_data.user_failure_data
    assert failure is not None
    return str(failure.description)


def hours(result: dg.ExecuteInProcessResult) -> dict[str | None, Any]:
    """Partition -> metadata of what the run materialized of the table."""
    events = [e.step_materialization_data.materialization for e in result.get_asset_materialization_events()]
    return {m.partition: m.metadata for m in events if m.partition is not None}


def plans(result: dg.ExecuteInProcessResult) -> list[dg.AssetObservation]:
    return [e.asset_observation_data.asset_observation for e in result.get_asset_observation_events()]


def of_hours(first: int, last: int) -> dict[str, str]:
    """Tags of a run over these hours, both included."""
    return {RANGE_START_TAG: hour_text(first), RANGE_END_TAG: hour_text(last)}
