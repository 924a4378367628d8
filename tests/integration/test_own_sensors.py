"""What sensors of one's own may ask for, and the snippet of docs/sensors.md."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from pipelines.components.logstore.assets import bronze_key
from pipelines.components.logstore.own_sensors import HOURS_MAX, backfill_request, landing_request
from pipelines.components.logstore.schedule import CLAIMS_TAG, MODE_TAG, RANGE_END_TAG, RANGE_START_TAG
from pipelines.landing.hours import hour_text
from sls_io.values.errors import ConfigError
from tests.integration.sensor_site import MakeSite, Site

SNIPPETS = (Path(__file__).parents[2] / "docs" / "sensors.md").read_text(encoding="utf-8")


def snippet(site: Site) -> dict[str, Any]:
    """What the Python of docs/sensors.md defines, for this logstore and its hours."""
    (text,) = re.findall(r"^```python\n(.*?)^```", SNIPPETS, flags=re.DOTALL | re.MULTILINE)
    hours = site.world.hours
    for said, meant in {
        "access_logs": site.name,
        "2026-11-20-07:00": hour_text(hours[1]),
        "2026-11-20-09:00": hour_text(hours[-1] + 1),
    }.items():
        assert said in text
        text = text.replace(said, meant)
    names: dict[str, Any] = {}
    exec(compile(text, "docs/sensors.md", "exec"), names)
    return names


def test_the_sensors_of_the_page_land_and_fill(make_site: MakeSite) -> None:
    site = make_site("own_sensors")
    names = snippet(site)
    site.world.put(20, pass_s=60)
    whole = site.definitions
    defs = dg.Definitions(
        assets=whole.assets,
        jobs=whole.jobs,
        sensors=[names["a_file_came"], names["hours_came"]],
        resources=whole.resources,
    )
    with dg.build_sensor_context(instance=site.instance, definitions=defs) as context:
        (asked,) = names["a_file_came"].evaluate_tick(context).run_requests
        assert site.launch(asked, "now").success
        site.world.assert_each_log_once()
        fills = names["hours_came"].evaluate_tick(context).run_requests
        before = site.world.checkpoints()
        assert all(site.launch(fill, "microbatch").success for fill in fills)
        assert site.world.checkpoints() == before
        run = create_run_for_test(
            site.instance, status=dg.DagsterRunStatus.STARTED, tags={CLAIMS_TAG: site.name}
        )
        assert run.run_id in names["a_file_came"].evaluate_tick(context).skip_message
        site.instance.report_run_failed(run)


def test_a_backfill_request_is_cut_into_runs_of_six_hours_and_can_never_claim() -> None:
    asked = backfill_request("access_logs", "2026-11-20-00:00", "2026-11-20-14:00", key="file-1")
    spans = [(r.tags[RANGE_START_TAG], r.tags[RANGE_END_TAG]) for r in asked]
    assert spans == [
        ("2026-11-20-00:00", "2026-11-20-05:00"),
        ("2026-11-20-06:00", "2026-11-20-11:00"),
        ("2026-11-20-12:00", "2026-11-20-13:00"),
    ]
    assert {r.tags[MODE_TAG] for r in asked} == {"fill"} and not any(CLAIMS_TAG in r.tags for r in asked)
    assert {r.job_name for r in asked} == {"access_logs_microbatch"}
    assert [r.asset_selection for r in asked] == [[dg.AssetKey(["bronze", "access_logs"])]] * 3
    assert len({r.run_key for r in asked}) == 3
    assert backfill_request("access_logs", "2026-11-20-00:00", "2026-11-20-01:00")[0].run_key is None


def test_a_time_inside_of_an_hour_means_all_of_it() -> None:
    at = datetime(2026, 11, 20, 7, 59, tzinfo=UTC)
    (asked,) = backfill_request("access_logs", at, at + timedelta(minutes=2))
    assert (asked.tags[RANGE_START_TAG], asked.tags[RANGE_END_TAG]) == (
        "2026-11-20-07:00",
        "2026-11-20-08:00",
    )


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2026-11-20-07:00", "2026-11-20-07:00"),
        ("2026-11-20-07:00", "2026-11-20-06:00"),
        ("2026-11-20 07:00", "2026-11-20-08:00"),
        (datetime(2026, 11, 20), datetime(2026, 11, 21)),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=HOURS_MAX + 1)),
    ],
)
def test_hours_that_make_no_sense_are_refused(start: Any, end: Any) -> None:
    with pytest.raises(ConfigError, match=r"hour|minute|zone"):
        backfill_request("access_logs", start, end)


def test_a_landing_is_asked_for_once_a_key(make_site: MakeSite) -> None:
    site = make_site("keyed")
    with dg.build_sensor_context(instance=site.instance) as context:
        asked = landing_request(context, "keyed", key="file-1")
    assert isinstance(asked, dg.RunRequest) and asked.run_key == "file-1" and asked.job_name == "keyed_now"
    assert bronze_key(site.logstore).path[-1] == "keyed"
