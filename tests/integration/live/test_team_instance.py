"""The Dagster instance of several machines: the one of one machine, with everything kept in PostgreSQL."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster_postgres import PostgresEventLogStorage, PostgresRunStorage, PostgresScheduleStorage

from tests.backends.postgres import Postgres
from tests.worlds.dagster_page import Page

pytestmark = pytest.mark.dagster


DEPLOY = Path(__file__).parents[3] / "docs" / "deploy"


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """The instance that the page on deployment describes, on an empty database."""
    server = Postgres()
    try:
        monkeypatch.setenv("DAGSTER_POSTGRES_URL", server.new_database())
        shutil.copyfile(DEPLOY / "dagster-postgres.yaml", tmp_path / "dagster.yaml")
        with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
            yield instance
    finally:
        server.end()


def test_it_differs_from_one_machine_by_its_storage_alone() -> None:
    one, many = (
        yaml.safe_load((DEPLOY / name).read_text()) for name in ("dagster.yaml", "dagster-postgres.yaml")
    )
    assert many.pop("storage") == {"postgres": {"postgres_url": {"env": "DAGSTER_POSTGRES_URL"}}}
    assert one == many


def test_a_landing_and_its_hours_are_kept_in_the_database(page: Page, team: dg.DagsterInstance) -> None:
    assert isinstance(team.run_storage, PostgresRunStorage)
    assert isinstance(team.event_log_storage, PostgresEventLogStorage)
    assert isinstance(team.schedule_storage, PostgresScheduleStorage)
    page.world.put(10, pass_s=3600)
    result = Page(page.world, team).land()
    assert result.success
    (run,) = team.get_runs()
    assert run.run_id == result.run_id and run.is_finished
    bronze = dg.AssetKey(["bronze", "access_logs"])
    assert team.get_materialized_partitions(bronze)
    page.world.assert_each_log_once()
