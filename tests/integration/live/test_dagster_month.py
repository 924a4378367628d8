"""The runs of a month in Dagster's storage, and what the maintenance leaves of them."""

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log import SqliteEventLogStorage

from bench.old_runs import OldRuns
from pipelines.components.logstore.assets import bronze_key
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.window import HOUR_S
from tests.worlds.dagster_page import DAY_S, Page

pytestmark = [pytest.mark.dagster, pytest.mark.slow]

NAME = "access_logs"


def test_of_a_month_of_runs_a_night_leaves_two_weeks_and_what_told_an_hour_last(page: Page) -> None:
    """Of each twelve hours one run, of the first twelve four an hour; every tenth of those failed."""
    instance, now_s, hour = page.instance, SYSTEM_CLOCK.now(), int(page.world.emulator.admin.now()) // HOUR_S
    (well,) = (run.run_id for run in instance.get_runs())
    page.world.put(10, pass_s=60)
    fault = page.world.emulator.admin.fault("error", call="heartbeat", status=500, code="E", times=None)
    failed = page.land().run_id
    page.world.emulator.admin.remove(int(fault))
    old = OldRuns(instance, (well, failed), hour)
    oldest = int(now_s) // HOUR_S - 31 * 24
    hours = range(oldest + 24, oldest + 31 * 24, 12)
    spread = dict(zip(old.add((well, at * float(HOUR_S) + 60) for at in hours), hours, strict=True))
    began_s = [oldest * float(HOUR_S) + 900.0 * number + 60 for number in range(48)]
    kinds = [failed if number % 10 == 5 else well for number in range(48)]
    made = old.add(zip(kinds, began_s, strict=True))
    dense = {run: number for number, run in enumerate(made)}
    red = {run for run, number in dense.items() if number % 10 == 5}
    files = shards(instance)
    assert len(files) >= len(spread) + len(dense)
    done = page.run("maintenance")
    assert done.success
    left = {run.run_id for run in instance.get_runs()}
    young = {run for run, at in spread.items() if at * HOUR_S + 60 > now_s - 14 * DAY_S}
    assert young <= left and red <= left, "two weeks stay, and failures for three months"
    told = telling(page)
    gone = (spread.keys() | dense.keys()) - left
    assert gone and not gone & told
    assert (left & (spread.keys() | dense.keys())) - young - red <= told
    assert len(gone & dense.keys()) == len(dense) - len(red) - 12, "one of each hour stays"
    assert {path.stem for path in shards(instance)} == left, "no run's file is left behind"
    assert results(instance) <= left, "nor is what its checks said"


def shards(instance: dg.DagsterInstance) -> set[Path]:
    """The files of single runs."""
    storage = instance.event_log_storage
    assert isinstance(storage, SqliteEventLogStorage)
    folder = Path(storage.path_for_shard("index")).parent
    return {path for path in folder.glob("*.db") if path.stem != "index"}


def telling(page: Page) -> set[str]:
    """Runs that told the newest of an hour."""
    bronze = bronze_key(page.world.logstore)
    found = {}
    for key in page.instance.get_materialized_partitions(bronze):
        wanted = dg.AssetRecordsFilter(bronze, asset_partitions=[key])
        (record,) = page.instance.fetch_materializations(wanted, limit=1).records
        found[key] = record.run_id
    return set(found.values())


def results(instance: dg.DagsterInstance) -> set[str]:
    """Runs with a result of the check `errors`."""
    key = dg.AssetCheckKey(dg.AssetKey(["sls", f"{NAME}_logstore"]), "errors")
    return {r.run_id for r in instance.event_log_storage.get_asset_check_execution_history(key, limit=10_000)}
