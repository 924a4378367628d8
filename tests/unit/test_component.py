"""A logstore's definitions, and what a run may do. No engine, no service."""

import io
import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from pipelines.cli.landing import show
from pipelines.cli.output import Output
from pipelines.components.component import LogstoreAttributes
from pipelines.components.logstore import metadata
from pipelines.components.logstore.assets import (
    Options,
    bronze_key,
    checkpoint_key,
    landing_assets,
    mode_of,
    origin_spec,
)
from pipelines.components.logstore.maintenance import Upkeep
from pipelines.components.logstore.schedule import (
    BACKFILL_TAG,
    CLAIMS_TAG,
    MODE_TAG,
    PARTITION_TAG,
    live_tags,
)
from pipelines.components.logstore.spark import RESOURCE_KEY, SPARK
from pipelines.components.logstore.telling import News, hour_events
from pipelines.landing.hours import hour_of, hour_text
from pipelines.landing.inspection.brought import complete_hours, landed_hours
from pipelines.landing.inspection.error_rows import HourErrors
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import (
    SPENT,
    STOPPED,
    TROUBLE,
    CheckpointOutcome,
    CheckpointReport,
    HourReport,
    LandingReport,
    Verdict,
    stop_text,
)
from sls_io.planning.waits import DRAINED, Wait, Why
from sls_io.values.errors import ConfigError
from tests.worlds.components import ATTRIBUTES, START, definitions, lake_home, logstore
from tests.worlds.dagster_home import new_dagster

__all__ = ["lake_home"]

CHECKS = {"reconciled", "proven"}
VERBS = ("microbatch", "now", "rework", "proof", "health", "maintenance")
HEALTH = {"runway", "lag", "commit", "errors"}
DEFINITIONS_MAX = 18
"""Of one logstore, beside its assets: what a person finds on the page, and has to know."""

# --- definitions -----------------------------------------------------------------------------


def test_a_logstore_becomes_assets_with_checks_jobs_and_stopped_schedules_and_sensors() -> None:
    defs = definitions(ATTRIBUTES)
    graph = defs.resolve_asset_graph()
    bronze = graph.get(dg.AssetKey(["bronze", "access_logs"]))
    checkpoint = graph.get(dg.AssetKey(["sls", "access_logs_checkpoint"]))
    assert bronze.parent_keys == {dg.AssetKey(["sls", "access_logs_logstore"])}
    assert checkpoint.parent_keys == {bronze.key}
    assert bronze.partitions_def == dg.HourlyPartitionsDefinition(
        start_date=START, timezone="UTC", end_offset=1
    )
    assert checkpoint.partitions_def is None
    assert bronze.backfill_policy == dg.BackfillPolicy.multi_run(max_partitions_per_run=6)
    assert not graph.get(dg.AssetKey(["sls", "access_logs_logstore"])).is_executable
    of_bronze = [key for key in graph.asset_check_keys if key.asset_key == bronze.key]
    blocking = {key.name: graph.get(key).blocking for key in of_bronze}
    assert blocking == {"reconciled": True, "proven": False}
    others = graph.asset_check_keys - set(of_bronze)
    assert {(key.asset_key.path[-1], key.name) for key in others} == {
        ("access_logs_logstore", name) for name in HEALTH
    }
    for told in ("sls/access_logs_shards", "bronze/access_logs_sealed"):
        assert not graph.get(dg.AssetKey(told.split("/"))).is_executable
    repository = defs.get_repository_def()
    jobs = {name for name in repository.job_names if not name.startswith("__")}
    assert jobs == {f"access_logs_{verb}" for verb in VERBS}
    assert all(repository.get_job(name).executor_def is dg.in_process_executor for name in jobs)
    schedules = {s.name: (s.job_name, s.default_status) for s in repository.schedule_defs}
    stopped = dg.DefaultScheduleStatus.STOPPED
    assert schedules == {
        "access_logs_schedule": ("access_logs_microbatch", stopped),
        "access_logs_proof_schedule": ("access_logs_proof", stopped),
        "access_logs_maintenance_schedule": ("access_logs_maintenance", stopped),
    }
    sensors = {s.name: s.default_status for s in repository.sensor_defs}
    off = dg.DefaultSensorStatus.STOPPED
    assert sensors == {f"access_logs_{kind}_sensor": off for kind in ("demand", "sealed", "health")}
    assert len(graph.asset_check_keys) + len(jobs) + len(schedules) + len(sensors) <= DEFINITIONS_MAX


@pytest.mark.parametrize(
    ("verb", "assets", "checked"),
    [
        ("microbatch", {"bronze", "checkpoint"}, CHECKS),
        ("now", {"checkpoint"}, CHECKS),
        ("rework", {"bronze"}, CHECKS),
        ("proof", set(), {"proven"}),
        ("health", set(), HEALTH),
    ],
)
def test_each_job_selects_what_it_does_with_the_checks_of_what_it_touches(
    verb: str, assets: set[str], checked: set[str]
) -> None:
    layer = definitions(ATTRIBUTES).resolve_job_def(f"access_logs_{verb}").asset_layer
    keys = {"bronze": bronze_key(logstore()), "checkpoint": checkpoint_key(logstore())}
    assert set(layer.executable_asset_keys) == {keys[name] for name in assets}
    assert {key.name for key in layer.asset_graph.asset_check_keys} == checked


def test_what_takes_something_away_is_a_dry_run_as_it_is_and_maintenance_is_not() -> None:
    defs = definitions(ATTRIBUTES)
    modes = {verb: defs.resolve_job_def(f"access_logs_{verb}").tags.get(MODE_TAG) for verb in VERBS}
    assert modes == {
        **dict.fromkeys(VERBS),
        "now": "live",
        "rework": "rework",
    }
    assert Options().execute is False and Options().mode == ""
    assert Upkeep().execute is True


@pytest.mark.parametrize("verb", VERBS)
def test_no_job_that_can_be_backfilled_carries_the_live_tag_so_no_backfill_can_claim(verb: str) -> None:
    job = definitions(ATTRIBUTES).resolve_job_def(f"access_logs_{verb}")
    live = job.tags.get(MODE_TAG) == "live" or CLAIMS_TAG in job.tags
    assert live is (verb == "now") and not (live and job.partitions_def)


def test_a_run_now_is_what_a_tick_asks_for_but_for_the_hours() -> None:
    tags = definitions(ATTRIBUTES).resolve_job_def("access_logs_now").tags
    ticked = live_tags(logstore(), 5)
    assert {n: v for n, v in ticked.items() if n != PARTITION_TAG} == {**tags}


def test_each_node_of_the_lineage_has_a_name_of_its_own() -> None:
    keys = definitions(ATTRIBUTES).resolve_asset_graph().get_all_asset_keys()
    assert len({key.path[-1] for key in keys}) == len(keys) == 5


def test_two_logstores_can_be_loaded_together() -> None:
    other = {**ATTRIBUTES, "table": "bronze.orders"}
    merged = dg.Definitions.merge(definitions(ATTRIBUTES), definitions(other))
    dg.Definitions.validate_loadable(merged)


def test_the_table_shows_its_name_and_every_column_with_its_type() -> None:
    spec = landing_assets(logstore()).get_asset_spec(bronze_key(logstore()))
    assert spec.metadata["dagster/table_name"] == dg.MetadataValue.text("bronze.access_logs")
    schema = spec.metadata["dagster/column_schema"].value
    types = {column.name: column.type for column in schema.columns}
    assert types["status"] == "int"
    assert types["__cursor__"] == "long"


def test_an_unset_endpoint_loads_and_is_named_as_soon_as_something_runs(
    lake_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLS_ENDPOINT", raising=False)
    service = {**ATTRIBUTES["service"], "endpoint": "{{ env.SLS_ENDPOINT }}"}
    defs = definitions({**ATTRIBUTES, "service": service})
    with new_dagster() as instance:
        result = defs.resolve_job_def("access_logs_microbatch").execute_in_process(
            instance=instance, tags=live_tags(logstore(), logstore().start_hour), raise_on_error=False
        )
        failure = next(e for e in result.all_events if e.is_step_failure).step_failure_data
        assert failure.user_failure_data is not None
        assert failure.user_failure_data.description == (
            "set the environment variable SLS_ENDPOINT to the endpoint of access_logs"
        )
        tick = defs.resolve_schedule_def("access_logs_schedule")(dg.build_schedule_context(instance))
        assert isinstance(tick, dg.SkipReason)


def test_any_other_unset_variable_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKE_GROUP", raising=False)
    with pytest.raises(ConfigError, match="LAKE_GROUP"):
        definitions({**ATTRIBUTES, "group": "{{ env.LAKE_GROUP }}"})


def test_the_address_of_leases_is_not_asked_for_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEASES", raising=False)
    leased = definitions({**ATTRIBUTES, "coordinator": {"database": "env:LEASES"}})
    assert leased.resolve_schedule_def("access_logs_schedule").cron_schedule == "*/5 * * * *"


def test_a_setting_that_does_not_exist_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match="shedule"):
        definitions({**ATTRIBUTES, "shedule": "* * * * *"})


@pytest.mark.parametrize(
    ("changed", "good"),
    [
        ({}, True),
        ({"group": {"name": "lake", "timeout_s": "{{ env.TIMEOUT }}"}}, True),
        ({"budget": {"bytes_max": "{{ env.BYTES }}"}}, True),
        ({"sensors": ["demand"], "health": {"lag_s": [600, "{{ env.LATE_S }}"]}}, True),
        ({"sensors": ["trouble"]}, False),
        ({"coordinator": "zookeeper"}, False),
        ({"coordinator": {"database": "env:LEASES"}}, True),
        ({"coordinator": {"kind": "sql_lease"}}, False),
        ({"budget": {"bytes_max": "lots"}}, False),
        ({"shedule": "* * * * *"}, False),
    ],
)
def test_the_schema_knows_the_settings_and_lets_templates_stand_for_numbers(
    changed: dict[str, Any], good: bool
) -> None:
    validator = Draft202012Validator(LogstoreAttributes.model_json_schema())
    assert validator.is_valid({**ATTRIBUTES, **changed}) is good


# --- what a run may do -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "bronze", "checkpoint", "mode"),
    [
        ({MODE_TAG: "live"}, True, True, "live"),
        ({}, True, True, "fill"),
        ({}, True, False, "fill"),
        ({BACKFILL_TAG: "b"}, True, False, "fill"),
        ({BACKFILL_TAG: "b"}, True, True, "fill"),
        ({MODE_TAG: "fill"}, True, True, "fill"),
        ({MODE_TAG: "replace"}, True, False, "replace"),
        ({MODE_TAG: "replace", BACKFILL_TAG: "b"}, True, False, "replace"),
        ({MODE_TAG: "errors"}, True, True, "errors"),
        ({MODE_TAG: "rest"}, True, True, "rest"),
        ({MODE_TAG: "replace"}, False, True, "publish"),
        ({}, False, True, "publish"),
        ({MODE_TAG: "live"}, False, True, "live"),
        ({BACKFILL_TAG: "b"}, False, True, "nothing"),
    ],
)
def test_selection_and_tags_say_what_a_run_does(
    tags: dict[str, str], bronze: bool, checkpoint: bool, mode: str
) -> None:
    assert mode_of(tags, bronze=bronze, checkpoint=checkpoint) == mode


@pytest.mark.parametrize(
    ("tags", "checkpoint"), [({MODE_TAG: "live", BACKFILL_TAG: "b"}, True), ({MODE_TAG: "live"}, False)]
)
def test_a_live_run_that_is_a_backfill_or_lacks_the_checkpoint_is_refused(
    tags: dict[str, str], checkpoint: bool
) -> None:
    with pytest.raises(ConfigError, match=MODE_TAG):
        mode_of(tags, bronze=True, checkpoint=checkpoint)


@pytest.mark.parametrize("mode", ["LIVE", "replac", ""])
def test_a_mode_that_does_not_exist_is_refused_with_those_that_do(mode: str) -> None:
    with pytest.raises(ConfigError, match="live, fill, replace, errors"):
        mode_of({MODE_TAG: mode}, bronze=True, checkpoint=True)


def assets_of(one: Logstore) -> list[Any]:
    return [origin_spec(one), landing_assets(one)]


def test_a_live_backfill_fails_with_one_sentence_and_is_not_retried(lake_home: Path) -> None:
    with new_dagster() as instance:
        result = dg.materialize(
            assets_of(logstore()),
            instance=instance,
            resources={RESOURCE_KEY: SPARK},
            tags={**live_tags(logstore(), logstore().start_hour), BACKFILL_TAG: "b"},
            raise_on_error=False,
        )
        failure = next(e for e in result.all_events if e.is_step_failure).step_failure_data
    assert failure.user_failure_data is not None
    assert "cannot claim shards" in (failure.user_failure_data.description or "")
    assert not any(e.is_step_up_for_retry for e in result.all_events)


@pytest.mark.parametrize("tags", [{}, {MODE_TAG: "replace"}, {MODE_TAG: "errors"}], ids=str)
def test_a_run_without_a_partition_fails_with_one_sentence(tags: dict[str, str], lake_home: Path) -> None:
    with new_dagster() as instance:
        result = (
            definitions(ATTRIBUTES)
            .resolve_job_def("access_logs_microbatch")
            .execute_in_process(instance=instance, tags=tags, raise_on_error=False)
        )
        failure = next(e for e in result.all_events if e.is_step_failure).step_failure_data
    assert failure.user_failure_data is not None
    assert (failure.user_failure_data.description or "").startswith("this run names no receive hours")


def test_a_checkpoint_backfilled_with_its_table_moves_nothing_and_is_not_left_hanging(
    lake_home: Path,
) -> None:
    one = logstore()
    with new_dagster() as instance:
        result = dg.materialize(
            assets_of(one),
            selection=[checkpoint_key(one)],
            instance=instance,
            resources={RESOURCE_KEY: SPARK},
            tags={BACKFILL_TAG: "b"},
        )
    (event,) = result.get_asset_materialization_events()
    assert event.asset_key == checkpoint_key(one)
    assert event.materialization.metadata["moved"].value == "no shard"


def test_publishing_waits_for_no_other_run_and_names_the_one_that_holds_the_claim(lake_home: Path) -> None:
    one = logstore()
    with new_dagster() as instance:
        other = create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags={CLAIMS_TAG: one.name})
        result = dg.materialize(
            assets_of(one),
            selection=[checkpoint_key(one)],
            instance=instance,
            resources={RESOURCE_KEY: SPARK},
            raise_on_error=False,
        )
        failure = next(e for e in result.all_events if e.is_step_failure).step_failure_data
    assert failure.user_failure_data is not None
    assert other.run_id in (failure.user_failure_data.description or "")


# --- hours -----------------------------------------------------------------------------------


def landing(**changed: Any) -> LandingReport:
    numbers = {"rows": 0, "raw_bytes": 0, "files": 0, "file_bytes": 0, "error_rows": 0, "pages": 0}
    base = {"mode": "live", "origin": "access_logs-1", "table": "bronze.access_logs", "snapshot_id": 7}
    return LandingReport(**{**base, **numbers, "seconds": 1.0, "until_s": 0, **changed})


@pytest.mark.parametrize("kind", STOPPED)
def test_a_run_that_found_logs_and_landed_none_says_so(kind: str) -> None:
    why = stop_text(kind, "Throttled: used up")
    waits, stopped = {2: Wait(Why.STOPPED, why), 0: DRAINED}, {2: kind}
    told = landing(waits=waits, stopped=stopped).came_to_nothing
    cure = told.removeprefix(f"logs are there and none landed: shard 2: {why}")
    assert "used up" in told and ("`budget.seconds_max`" in cure if kind in SPENT else cure == "")
    assert landing(waits=waits, stopped=stopped, rows=1).came_to_nothing == ""
    assert landing(waits={0: waits[0]}).came_to_nothing == ""
    nine = range(9)
    many = landing(waits=dict.fromkeys(nine, waits[2]), stopped=dict.fromkeys(nine, kind)).came_to_nothing
    assert many.count(why) == 5 and "; and 4 more" in many


def test_a_run_is_out_of_time_only_where_nothing_landed_and_no_shard_waits_for_somebody_else() -> None:
    assert landing(stopped={0: "time", 1: "quota", 2: "not reached"}).spent
    assert landing(stopped={0: "time"}).undone and not landing(stopped={0: "throttled"}).undone
    for other in sorted(STOPPED.keys() - SPENT):
        assert not landing(stopped={0: "time", 1: other}).spent
    assert (
        not landing(stopped={0: "time"}, windows=1).spent
        and not landing(waits={0: Wait(Why.HELD, "held")}).spent
    )


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({}, "checkpoints: 1 of 1 published, lag unknown"),
        ({"windows": 1, "rows": 5}, "checkpoints: 1 of 1 moved, lag unknown"),
        ({"closed": (0,)}, "checkpoints: 1 of 1 moved, lag unknown"),
    ],
)
def test_a_first_checkpoint_is_not_called_a_move_of_the_frontier(changed: dict[str, Any], what: str) -> None:
    first = CheckpointReport(0, 5, CheckpointOutcome.MOVED)
    shown = io.StringIO()
    show(Output(file=shown), landing(**changed), Verdict(), [first])
    assert what in shown.getvalue().splitlines()


@pytest.mark.parametrize("kind", STOPPED)
def test_a_run_whose_service_failed_it_says_so_whatever_landed(kind: str) -> None:
    report = landing(waits={2: Wait(Why.STOPPED, stop_text(kind, "why"))}, stopped={2: kind}, rows=5)
    assert report.trouble == (f"shard 2: {stop_text(kind, 'why')}" if kind in TROUBLE else "")


def test_hours_are_reported_oldest_first_each_with_its_own_numbers() -> None:
    first = logstore().start_hour
    report = landing(hours={first + 2: HourReport(rows=5, raw_bytes=2_000_000, files=1, file_bytes=10)})
    events = list(hour_events(logstore(), report, News(frozenset({first + 2, first})), {first + 2: 8}))
    assert [e.partition for e in events] == ["2026-11-20-00:00", "2026-11-20-02:00"]
    assert [e.metadata["rows"].value for e in events] == [0, 5]
    assert events[1].metadata["landed"].value == "2.00 MB of logs in 1 file of 0.00 MB"
    assert events[1].metadata["dagster/partition_row_count"].value == 8, "what the table holds, not what came"
    assert "dagster/partition_row_count" not in events[0].metadata, "unknown is not said as a number"
    assert events[1].tags == {"dagster/data_version": "7"}


def test_an_hour_is_complete_when_the_receive_time_reached_is_at_its_end() -> None:
    assert complete_hours(range(10, 13), reached_s=12 * 3600) == {10, 11}
    assert complete_hours(range(10, 13), reached_s=12 * 3600 - 1) == {10}


def test_an_hour_is_shown_as_landed_when_it_has_rows_or_every_frontier_passed_it_in_this_run() -> None:
    before_s, now_s = 10 * 3600 + 60, 13 * 3600 + 60
    assert landed_hours([], before_s, now_s) == {10, 11, 12}, (
        "empty hours that were passed, not the running one"
    )
    assert landed_hours([13], before_s, now_s) == {10, 11, 12, 13}
    assert landed_hours([], before_s=13 * 3600, reached_s=13 * 3600 + 60) == set()
    assert landed_hours([11], before_s=None, reached_s=13 * 3600) == {11, 12}, "nothing before the first row"
    assert landed_hours([], before_s=None, reached_s=13 * 3600) == set()


def test_an_hour_says_each_number_once_and_no_empty_table() -> None:
    report = landing(hours={9: HourReport(rows=5, raw_bytes=2_000_000, files=1, file_bytes=10)}, rows=5)
    shown = metadata.hour(report, 9, rows_in_table=8, errors=HourErrors(rows=8, errors=2))
    assert [name for name, value in shown.items() if value.value == 5] == ["rows"]
    assert "waits" not in shown and shown["rows with errors"].value == "2 of 8"
    assert shown["rows with errors (%)"].value == 25.0
    plots = [n for n, v in shown.items() if isinstance(v, dg.IntMetadataValue | dg.FloatMetadataValue)]
    assert {*plots, "lag (s)"} == set(re.findall(r"^\| `(.+?)` \|", metadata.PLOTS_OF_HOUR, re.MULTILINE))


def test_what_markdown_would_eat_is_shown_as_it_is_except_in_backticks() -> None:
    said = metadata.bullets(["`sls-lake land --dry-run -l a_b` and __error__ of *x*", "one ` alone_"]).value
    assert said == "- `sls-lake land --dry-run -l a_b` and \\_\\_error\\_\\_ of \\*x\\*\n- one \\` alone\\_"


def test_the_page_shows_no_column_s_description_in_bold() -> None:
    schema = metadata.table(logstore())["dagster/column_schema"].value
    assert isinstance(schema, dg.TableSchema)
    said = {column.name: column.description for column in schema.columns}
    assert said["__raw__"] == "the log's original bytes, where `__error__` is set"


@pytest.mark.parametrize("errors", [{"warn": 0.6}, {"warn": -1}, {"fail": 2}, {"warn": 0.2, "fail": 0.1}])
def test_shares_of_errors_that_make_no_sense_are_refused(errors: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="errors"):
        definitions({**ATTRIBUTES, "errors": errors})


def test_hour_keys_go_both_ways() -> None:
    assert hour_text(hour_of("2026-11-20-23:00")) == "2026-11-20-23:00"


def test_a_number_on_the_page_is_zero_only_where_it_is() -> None:
    shown = [metadata.short(number).value for number in (0.0, 0.000_412, 0.0399, 0.5, 12.346, -0.001)]
    assert shown == [0.0, 0.000_41, 0.04, 0.5, 12.35, -0.001]
