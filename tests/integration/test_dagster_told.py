"""What hours say after a commit, whatever fails behind it: done, or unknown and look; never refused."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import AssetPartitionStatus
from pyiceberg.expressions import EqualTo

from pipelines.cli.main import EXIT_FAILED, run
from pipelines.components.logstore.assets import bronze_key, hours_of
from pipelines.components.logstore.metadata import DATA_VERSION_TAG, UNKNOWN
from pipelines.components.logstore.schedule import MODE_TAG
from pipelines.components.logstore.telling import LATE_MAX, versions_told
from pipelines.landing.commit import authored
from pipelines.landing.commit.planned import Planned, execute
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.brought import COMMITS_MAX
from pipelines.landing.ledger.place import look_at
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.operations.forget import plan_forget_before, plan_forget_where
from pipelines.landing.operations.pause import plan_pause
from pipelines.landing.operations.replace import plan_replace
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.undo import plan_undo
from tests.worlds.command_line import settings
from tests.worlds.dagster_home import new_dagster
from tests.worlds.dagster_page import EXECUTE, Page, hours, of_hours, why
from tests.worlds.database_events import on_event
from tests.worlds.lossy_catalog import LossyCatalog, lossy
from tests.worlds.one_logstore import HOUR0, use_catalog


@pytest.fixture
def catalog(page: Page, monkeypatch: pytest.MonkeyPatch) -> LossyCatalog:
    """The catalog that this process finds from now on."""
    behind, catalog = lossy(page.world.lake)
    monkeypatch.delenv("PYICEBERG_CATALOG__LAKE__TYPE")
    use_catalog(behind, monkeypatch)
    return catalog


def told(page: Page, hour: int) -> dg.AssetMaterialization:
    """The newest event of an hour."""
    newest = dg.AssetRecordsFilter(bronze_key(page.world.logstore), asset_partitions=[hour_text(hour)])
    (record,) = page.instance.fetch_materializations(newest, limit=1).records
    assert record.asset_materialization is not None
    return record.asset_materialization


def version(page: Page, hour: int) -> str:
    return (told(page, hour).tags or {})[DATA_VERSION_TAG]


def again(page: Page, mode: str) -> dg.ExecuteInProcessResult:
    return page.run("microbatch", tags={MODE_TAG: mode, **of_hours(HOUR0, HOUR0 + 1)}, config=EXECUTE)


def test_a_replace_is_told_as_done_although_the_catalog_is_silent_after_its_commit(
    page: Page, catalog: LossyCatalog
) -> None:
    before = version(page, HOUR0)
    catalog.script.append("last")
    done = again(page, "replace")
    catalog.down = False
    head = page.world.table.metadata.current_snapshot_id
    assert not done.success and f"snapshot {head} of bronze.access_logs is committed and stands" in why(done)
    assert set(hours(done)) == {hour_text(HOUR0), hour_text(HOUR0 + 1)}
    assert told(page, HOUR0).metadata["mode"].value == "replace"
    assert told(page, HOUR0 + 1).metadata["dagster/partition_row_count"].value == 30
    assert version(page, HOUR0) == str(head) != before
    page.world.assert_proved()


def test_a_red_proof_stays_red_while_nobody_can_look_which_table_is_there(
    page: Page, catalog: LossyCatalog
) -> None:
    page.world.table.delete(EqualTo(term="n", value=page.world.table_rows()[0]["n"]))
    assert page.run("proof").success
    catalog.down = True
    away = page.land()
    catalog.down = False
    for result in (away, page.land()):
        (proven,) = (each for each in result.get_asset_check_evaluations() if each.check_name == "proven")
        assert not proven.passed and str(proven.description).startswith("Not proven by this run")
    assert not away.success


def test_a_mend_is_told_as_done_although_the_catalog_is_silent_after_its_commit(
    page: Page, catalog: LossyCatalog
) -> None:
    page.world.logstore = page.world.changed(columns={"n": "long", "status": "int", "path": "string"})
    catalog.script.append("last")
    done = again(page, "rest")
    catalog.down = False
    head = page.world.table.metadata.current_snapshot_id
    assert "is committed and stands" in why(done)
    assert told(page, HOUR0).metadata["mode"].value == "rest"
    assert version(page, HOUR0) == str(head)


def test_a_replace_whose_answer_was_lost_is_unknown_and_has_a_new_data_version(
    page: Page, catalog: LossyCatalog
) -> None:
    before = version(page, HOUR0)
    catalog.script.append("gone")
    lost = again(page, "replace")
    catalog.down = False
    assert not lost.success and "the answer to the commit was lost" in why(lost)
    assert hours(lost) == {}, "a backfill counts what its runs materialize"
    event = told(page, HOUR0)
    assert event.metadata["mode"].value == "unknown, look: replace may have been committed"
    assert version(page, HOUR0) not in (before, str(page.world.table.metadata.current_snapshot_id))
    page.land()
    assert str(told(page, HOUR0).metadata["told"].value).startswith("late")
    assert version(page, HOUR0) == str(page.world.table.metadata.current_snapshot_id)


def test_a_maintenance_that_failed_after_a_commit_says_that_the_commit_stands(
    page: Page, catalog: LossyCatalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(page.world))
    catalog.script.append("last")
    code = run(["table", "maintain", "--execute", "--logstore", str(defs), "--json"])
    catalog.down = False
    error: Any = json.loads(capsys.readouterr().out)["error"]
    head = page.world.table.metadata.current_snapshot_id
    assert code == EXIT_FAILED and error["kind"] == "CommitStands"
    assert f"snapshot {head} of bronze.access_logs is committed and stands" in error["message"]


# --- what nobody was told of ---------------------------------------------------------------------------


def status(page: Page, *hours: int) -> list[AssetPartitionStatus | None]:
    """What Dagster shows of the hours."""
    keys, of = [hour_text(hour) for hour in hours], hours_of(page.world.logstore)
    found = page.instance.get_status_by_partition(bronze_key(page.world.logstore), keys, of) or {}
    return [found[key] for key in keys]


def test_hours_of_a_run_that_ended_right_behind_its_commit_are_told_by_the_next(
    page: Page, catalog: LossyCatalog
) -> None:
    page.world.put(10, pass_s=2 * 3600)
    catalog.script.append("last")
    died = page.land()
    catalog.down = False
    landed = str(page.world.table.metadata.current_snapshot_id)
    assert not died.success and hours(died) == {} and f"snapshot {landed} of" in why(died)
    assert status(page, HOUR0 + 3, HOUR0 + 4) == [None, AssetPartitionStatus.FAILED], "the open hour alone"
    following = page.land()
    assert following.success
    assert status(page, HOUR0 + 2, HOUR0 + 3, HOUR0 + 4) == [AssetPartitionStatus.MATERIALIZED] * 3
    assert {h: m["rows"].value for h, m in hours(following).items()} == {
        hour_text(HOUR0 + 2): 10,
        hour_text(HOUR0 + 3): 0,
        hour_text(HOUR0 + 4): 0,
    }
    assert [version(page, hour) for hour in (HOUR0 + 2, HOUR0 + 3)] == [landed] * 2
    assert hours(page.land()) == {}, "nothing is told twice"


def test_hours_of_a_replace_that_ended_without_a_word_are_told_as_before(page: Page) -> None:
    hours_shown = HOUR0, HOUR0 + 1
    before = version(page, HOUR0)
    job = page.definitions(page.world.logstore).resolve_job_def("access_logs_microbatch")
    tags = {MODE_TAG: "replace", **of_hours(*hours_shown)}
    page.instance.report_run_failed(page.instance.create_run_for_job(job, tags=tags, run_config=EXECUTE))
    assert status(page, *hours_shown) == [AssetPartitionStatus.FAILED] * 2
    assert set(hours(page.land())) == set(map(hour_text, hours_shown))
    assert status(page, *hours_shown) == [AssetPartitionStatus.MATERIALIZED] * 2
    shown = told(page, HOUR0)
    assert shown.metadata["mode"].value == "as before, replace ended without a word"
    assert version(page, HOUR0) == before
    assert hours(page.land()) == {}, "nothing is told twice"


def test_an_hour_that_grew_beside_dagster_shows_what_the_table_holds(page: Page) -> None:
    page.world.put(10, pass_s=60)
    page.land()
    page.world.land_more(7)
    page.land()
    event = told(page, HOUR0 + 2)
    assert event.metadata["dagster/partition_row_count"].value == 17
    assert event.metadata["rows"].value == 7


def test_a_dagster_home_that_was_lost_is_told_again_what_the_table_holds(page: Page) -> None:
    page.world.put(7, pass_s=60)
    with new_dagster() as fresh:
        page.instance = fresh
        assert page.land().success
        rows = [told(page, HOUR0 + n).metadata["dagster/partition_row_count"].value for n in range(3)]
        assert rows == [20, 30, 7]
        assert not hours(page.land()), "once is enough"
    page.world.assert_sound()


def test_a_run_tells_so_many_late_hours_and_the_next_one_goes_on(page: Page) -> None:
    page.world.land_more(10, pass_s=(LATE_MAX + 30) * 3600)
    first, second, third = page.land(), page.land(), page.land()
    assert (len(hours(first)), len(hours(second)), len(hours(third))) == (LATE_MAX + 1, 30, 0)
    assert hour_text(HOUR0 + 2) in hours(first), "those with rows come first"


@pytest.mark.parametrize("mode", ["fill", "errors", "rest"])
def test_hours_of_a_run_that_had_nothing_to_do_keep_their_version_and_are_not_told_again(
    page: Page, mode: str
) -> None:
    before = version(page, HOUR0)
    tags = {MODE_TAG: mode, **of_hours(HOUR0, HOUR0 + 1)}
    done = page.run("microbatch", tags=tags, config=EXECUTE if mode != "fill" else {})
    assert done.success and hour_text(HOUR0) in hours(done)
    assert version(page, HOUR0) == before
    assert hours(page.land()) == {}


def test_more_hours_than_a_statement_of_sqlite_takes_are_asked_for_in_parts() -> None:
    """One landing passes years of a logstore that was quiet. Some builds of SQLite take more than others."""

    def stock(connection: sqlite3.Connection, _: object) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)

    hours, bronze = range(HOUR0, HOUR0 + 40_000), dg.AssetKey(["bronze", "quiet"])
    with on_event("connect", stock), new_dagster() as instance:
        last: Any = {"partition": hour_text(hours[-1]), "tags": {DATA_VERSION_TAG: "7"}}
        instance.report_runless_asset_event(dg.AssetMaterialization(bronze, **last))
        assert versions_told(instance, bronze, hours) == {hours[-1]: "7"}


def undone(page: Page) -> None:
    world = page.world
    world.carried_out(plan_undo, range(HOUR0, HOUR0 + 1))


def forgotten(page: Page) -> None:
    world = page.world
    world.carried_out(plan_forget_before, HOUR0 + 1)


@pytest.mark.parametrize("emptied", [undone, forgotten])
def test_an_hour_that_was_told_and_whose_rows_have_all_left_is_told_with_none(
    page: Page, emptied: Callable[[Page], None]
) -> None:
    assert rows_told(page, HOUR0) == (20, 20)
    emptied(page)
    assert set(hours(page.land())) == {hour_text(HOUR0)}
    assert rows_told(page, HOUR0) == (0, 0)
    assert str(told(page, HOUR0).metadata["told"].value).startswith("late: its rows have left")
    assert version(page, HOUR0) == str(page.world.table.metadata.current_snapshot_id)
    assert "windows" not in told(page, HOUR0).metadata
    assert hours(page.land()) == {}, "nothing is told twice"


def test_an_hour_that_nobody_was_told_of_and_whose_rows_have_left_is_not_told(page: Page) -> None:
    world = page.world
    world.emulator.admin.advance(3600)
    world.land_more(10, pass_s=2 * 3600)
    world.carried_out(plan_undo, range(HOUR0 + 3, HOUR0 + 4))
    assert set(hours(page.land())) == {hour_text(HOUR0 + hour) for hour in (2, 4, 5)}


def tidy(page: Page, times: int) -> None:
    """So many commits that leave all rows as they are, as a maintenance makes them."""
    world = page.world
    for _ in range(times):
        looked = look_at(world.lake, world.logstore.table)
        change = authored.unchanged(looked.head, looked.state, Deed(Operation.REFRESH))
        execute(world.lake, Planned(None, looked, change))


def test_hours_of_a_run_that_died_are_told_behind_a_maintenance_of_more_commits_than_are_looked_at(
    page: Page, catalog: LossyCatalog
) -> None:
    page.world.put(10, pass_s=2 * 3600)
    catalog.script.append("last")
    assert not page.land().success
    catalog.down = False
    landed = str(page.world.table.metadata.current_snapshot_id)
    tidy(page, COMMITS_MAX)
    assert set(hours(page.land())) == {hour_text(HOUR0 + hour) for hour in (2, 3, 4)}
    assert version(page, HOUR0 + 2) == landed


def test_an_hour_of_which_rows_were_forgotten_or_came_back_is_told_with_what_is_left(page: Page) -> None:
    world, was = page.world, version(page, HOUR0)
    landed = world.table.metadata.current_snapshot_id
    assert landed is not None
    world.carried_out(plan_forget_where, "n < 5")
    assert set(hours(page.land())) == {hour_text(HOUR0)}
    assert told(page, HOUR0).metadata["dagster/partition_row_count"].value == 15
    assert version(page, HOUR0) == str(world.table.metadata.current_snapshot_id) != was
    assert hours(page.land()) == {}, "nothing is told twice"


def rows_told(page: Page, hour: int) -> tuple[Any, Any]:
    """What its newest landing brought of an hour, and what the table has of it, as the page shows them."""
    shown = told(page, hour).metadata
    return shown["rows"].value, shown["dagster/partition_row_count"].value


def back(page: Page) -> None:
    """The table as it was before its newest commit."""
    newest = page.world.table.current_snapshot()
    assert newest is not None and newest.parent_snapshot_id is not None
    execute(
        page.world.lake, plan_rollback(page.world.lake, page.world.logstore.table, newest.parent_snapshot_id)
    )


def test_an_hour_that_landed_thrice_before_it_was_told_has_the_rows_of_its_newest_landing(
    page: Page,
) -> None:
    world, hour = page.world, HOUR0 + 2
    world.land_more(10, pass_s=2 * 3600)
    back(page)
    world.land()
    world.carried_out(plan_replace, range(hour, hour + 1))
    page.land()
    assert rows_told(page, hour) == (10, 10)


def test_an_hour_whose_newest_landing_was_rolled_back_has_the_rows_of_the_one_before(page: Page) -> None:
    world, hour = page.world, HOUR0 + 2
    for rows in (10, 7):
        world.land_more(rows)
    back(page)
    world.carried_out(plan_pause, [0, 1])
    page.land()
    assert rows_told(page, hour) == (10, 10)


def test_hours_that_a_rollback_brings_back_are_told(page: Page) -> None:
    world = page.world
    landed = world.table.metadata.current_snapshot_id
    assert landed is not None
    world.carried_out(plan_undo, range(HOUR0, HOUR0 + 1))
    assert set(hours(page.land())) == {hour_text(HOUR0)}
    execute(world.lake, plan_rollback(world.lake, world.logstore.table, landed))
    assert set(hours(page.land())) == {hour_text(HOUR0)}
    assert version(page, HOUR0) == str(world.table.metadata.current_snapshot_id)
    assert told(page, HOUR0).metadata["dagster/partition_row_count"].value == 20


def test_an_unknown_hour_is_told_as_it_is_although_no_commit_in_reach_has_changed_it(
    page: Page, catalog: LossyCatalog
) -> None:
    catalog.script.append("refused")
    lost = again(page, "replace")
    assert not lost.success and version(page, HOUR0).startswith(UNKNOWN), "nobody knows, and nothing was done"
    nothing = page.world.table.scan(limit=0).to_arrow()
    for _ in range(COMMITS_MAX):
        page.world.table.append(nothing)  # by other hands
    page.land()
    assert version(page, HOUR0) == str(page.world.table.metadata.current_snapshot_id)
    assert told(page, HOUR0).metadata["dagster/partition_row_count"].value == 20
    assert str(told(page, HOUR0).metadata["told"].value).startswith("late")
    before = version(page, HOUR0)
    page.land()
    assert version(page, HOUR0) == before, "told once"


@pytest.mark.parametrize("tags", [{}, {MODE_TAG: "errors"}], ids=str)
def test_a_run_without_hours_of_a_table_that_has_some_is_told_so(page: Page, tags: dict[str, str]) -> None:
    """Dagster tells a check with the partition of its run, and has its own error where there is none."""
    result = page.run("microbatch", tags=tags)
    assert not result.success and why(result).startswith("this run names no receive hours")
