"""What the trouble and maintenance sensors tell and ask for, and what sensors of one's own may ask for."""

import re
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from pipelines.components import SlsLogstore
from pipelines.components.logstore.assets import bronze_key, origin_key
from pipelines.components.logstore.maintenance import MAINTAINS_TAG
from pipelines.components.logstore.requests import HOURS_MAX, backfill_request, landing_request
from pipelines.components.logstore.schedule import (
    CLAIMS_TAG,
    MODE_TAG,
    RANGE_END_TAG,
    RANGE_START_TAG,
    hour_key,
)
from pipelines.components.logstore.sensors.trouble import trouble_job, trouble_sensor
from pipelines.landing.bounds import MANIFESTS_KEPT, SNAPSHOTS_KEPT, Falling, Rising, UpkeepSettings
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.maintenance.maintain import MANIFESTS_MAX, SNAPSHOTS_MAX, Maintainer
from pipelines.landing.watch.troubles import Finding, Kind, Level, falling, rising, troubles
from pipelines.landing.watch.wear import Wear, wear
from sls_io.clock import SYSTEM_CLOCK, ManualClock
from sls_io.errors import ConfigError
from tests.integration.sensor_site import MakeSite, Site, landed
from tests.worlds.one_logstore import PROJECT, World, logstore_settings

BEHIND_DAYS = 45
SNIPPETS = (Path(__file__).parents[2] / "docs" / "sensors.md").read_text(encoding="utf-8")


def levels(site: Site, *, later_s: float = 0.0) -> dict[Kind, Level]:
    """Each kind's level, by a clock that is so much later."""
    clock = ManualClock(SYSTEM_CLOCK.now() + later_s)
    with site.world.client as client:
        found = troubles(site.logstore, site.world.lake, client, clock=clock)
    return {each.kind: each.level for each in found}


def told(answer: Any) -> dict[str, tuple[bool, str]]:
    """Check -> passed and severity, of the evaluations that a tick tells."""
    return {e.check_name: (e.passed, e.severity.value) for e in answer.asset_events}


# --- trouble -------------------------------------------------------------------------------------------


def test_a_logstore_without_trouble_is_told_once_and_runs_nothing(make_site: MakeSite) -> None:
    site = landed(make_site("untroubled"))
    first = site.tick("trouble")
    assert told(first) == {kind.value: (True, "WARN") for kind in Kind}
    assert {e.asset_key for e in first.asset_events} == {origin_key(site.logstore)}
    assert first.skip_message == "nothing is wrong" and not first.run_requests
    assert not site.tick("trouble").asset_events


def test_lag_warns_then_fails_with_one_run_that_says_why_and_passes_again(make_site: MakeSite) -> None:
    site = landed(make_site("lagging", trouble={"lag_s": {"warn": 600, "fail": 3000}}))
    site.tick("trouble")
    site.world.put(5)
    site.world.emulator.admin.advance(1000)
    warned = site.tick("trouble")
    assert told(warned) == {"lag": (False, "WARN")} and not warned.run_requests
    assert "lag: the oldest log that waits was received" in warned.skip_message
    site.world.emulator.admin.advance(3000)
    failed = site.tick("trouble")
    assert told(failed) == {"lag": (False, "ERROR")}
    (asked,) = failed.run_requests
    assert asked.run_key.startswith("trouble-lag-")
    run = site.launch(asked, "trouble")
    assert not run.success
    (event,) = (e for e in run.all_events if e.is_step_failure)
    why = event.step_failure_data.user_failure_data
    assert why is not None and str(why.description).startswith("lag: the oldest log that waits")
    assert {e.check_name for e in run.get_asset_check_evaluations()} == {kind.value for kind in Kind}
    assert not site.tick("trouble").run_requests, "a check that goes on failing is told once"
    site.world.land()
    assert told(site.tick("trouble")) == {"lag": (True, "WARN")}
    assert site.launch(asked, "trouble").success


def test_what_fails_again_within_the_hour_is_asked_for_when_the_hour_is_over(make_site: MakeSite) -> None:
    site = landed(make_site("fails_again", trouble={"lag_s": {"warn": 600, "fail": 1200}}))

    origin, clock, cursor = origin_key(site.logstore), ManualClock(SYSTEM_CLOCK.now()), ""
    sensor = trouble_sensor(site.logstore, trouble_job(site.logstore, origin), origin, clock=clock)

    def asked(after_s: float = 0.0) -> list[str | None]:
        nonlocal cursor
        clock.advance(after_s)
        with dg.build_sensor_context(instance=site.instance, cursor=cursor) as context:
            answer = sensor.evaluate_tick(context)
        cursor = answer.cursor or ""
        return [request.run_key for request in answer.run_requests or ()]

    def wait_too_long() -> None:
        site.world.put(5)
        site.world.emulator.admin.advance(1300)

    wait_too_long()
    (first,) = asked()
    site.world.land()
    assert not asked(60)
    wait_too_long()
    assert not asked(60) and not asked(3000)
    (second,) = asked(600)
    assert second != first, "Dagster drops a key that it has seen"
    assert not asked(4000), "it is told once"
    site.world.land()
    assert not asked(60)


def test_a_cursor_of_somebody_else_is_no_memory(make_site: MakeSite) -> None:
    site = landed(make_site("foreign_cursor"))
    for cursor in ("junk", "[1]", '{"lag": "ok"}', '{"levels": 3}'):
        site.cursors["trouble"] = cursor
        assert len(told(site.tick("trouble"))) == len(Kind)


def test_a_quiet_logstore_does_not_lag(make_site: MakeSite) -> None:
    site = landed(make_site("quiet_again"))
    site.world.emulator.admin.advance(20_000)
    assert levels(site)[Kind.LAG] is Level.OK


def test_the_runway_fails_before_retention_takes_what_waits(make_site: MakeSite) -> None:
    site = landed(make_site("short_runway"))
    site.world.put(5)
    site.world.emulator.admin.advance(28.5 * 86_400)
    assert levels(site)[Kind.RUNWAY] is Level.WARN
    site.world.emulator.admin.advance(86_400)
    assert levels(site)[Kind.RUNWAY] is Level.FAIL


def test_a_commit_that_is_old_warns_and_fails(make_site: MakeSite) -> None:
    site = landed(make_site("stale"))
    assert levels(site)[Kind.COMMIT] is Level.OK
    assert levels(site, later_s=3 * 3600)[Kind.COMMIT] is Level.WARN
    assert levels(site, later_s=7 * 3600)[Kind.COMMIT] is Level.FAIL


def test_only_its_own_landings_make_a_commit_young_whoever_else_commits_to_the_table(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("dead_schedule"))
    world, late = site.world, ManualClock(SYSTEM_CLOCK.now() + 7 * 3600)
    beside = logstore_settings(world.emulator, "living", table=site.logstore.table, shared=True)
    other = World(world.emulator, world.lake, beside, world.engine)
    with other.client as client:
        client.transport.create_logstore(PROJECT, "living", ttl=30, shard_count=1)

    def commit() -> Finding:
        with world.client as client:
            found = troubles(site.logstore, world.lake, client, clock=late)
        return next(each for each in found if each.kind is Kind.COMMIT)

    alone = commit()
    other.land_hours(4)
    assert commit() == alone, "the other logstore lands"
    before, after = Maintainer(beside, world.lake, manifests_max=1).execute(["manifests"]).manifests
    assert after < before and commit() == alone, "a maintenance commits, and names an origin"
    Maintainer(beside, world.lake, snapshots_max=2).execute(["expire"])
    hidden = commit()
    assert hidden.level is Level.FAIL and "is at least 7.0 h old" in hidden.text, "its landing expired"
    world.logstore = world.changed(shared=True)
    world.emulator.admin.advance(3600)
    world.land()
    assert not world.reports[-1].rows, "nothing came"
    again = commit()
    assert "at least" not in again.text
    assert again.numbers["commit age s"] < hidden.numbers["commit age s"]


def test_rows_with_errors_are_trouble_by_the_bounds_of_the_check_clean(make_site: MakeSite) -> None:
    site = make_site("wrong_rows")
    site.world.put(10, value="not a number")
    landed(site, 10)
    assert levels(site)[Kind.ERRORS] is Level.WARN
    site.world.put(40, value="not a number")
    landed(site, 1)
    assert levels(site)[Kind.ERRORS] is Level.FAIL


def test_a_landing_whose_file_is_gone_is_trouble_at_once(make_site: MakeSite) -> None:
    site = landed(make_site("file_gone"))
    Path(site.world.published()[0]).unlink()
    answer = site.tick("trouble")
    assert told(answer)["reconciled"] == (False, "ERROR")
    assert len(answer.run_requests) == 1


def without_ledger(site: Site) -> None:
    """Somebody deletes the tag under which the ledger is."""
    with site.world.table.manage_snapshots() as refs:
        refs.remove_tag(TAG)


def test_beside_a_ledger_that_cannot_be_trusted_what_failed_goes_on_failing_and_the_rest_fails_in_time(
    make_site: MakeSite,
) -> None:
    watch = Watch(landed(make_site("late_and_lost", trouble={"lag_s": {"warn": 600, "fail": 3000}})))
    watch.site.world.put(5)
    watch.site.world.emulator.admin.advance(4000)
    assert watch.tick()
    without_ledger(watch.site)
    (asked,) = watch.tick(60)
    assert asked.run_key is not None and asked.run_key.startswith("trouble-reconciled-")
    assert watch.shown(Kind.LAG)[:2] == (False, "ERROR")
    assert watch.shown(Kind.COMMIT)[:2] == (False, "WARN")
    (asked,) = watch.tick(3100)
    assert asked.run_key is not None and "commit-errors-runway" in asked.run_key
    assert "Nobody could look for 52 min" in watch.shown(Kind.COMMIT)[2]


def test_a_ledger_that_cannot_be_trusted_is_trouble_while_the_service_is_down_too(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("lost_and_down"))
    without_ledger(site)
    assert levels(site)[Kind.RECONCILED] is Level.FAIL
    fault = site.world.emulator.admin.fault("error", status=503, logstore=site.name, times=None)
    assert levels(site)[Kind.RECONCILED] is Level.FAIL
    site.world.emulator.admin.remove(fault)


def test_a_ledger_that_cannot_be_trusted_is_one_trouble_and_not_five(make_site: MakeSite) -> None:
    site = landed(make_site("lost_table"))
    site.world.lake.catalog().drop_table(site.logstore.table)
    found = levels(site)
    assert found.pop(Kind.RECONCILED) is Level.FAIL and set(found.values()) == {Level.WARN}


def test_without_the_service_what_the_table_says_is_told_and_the_rest_is_a_warning(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("unanswered"))
    fault = site.world.emulator.admin.fault("error", status=503, logstore=site.name, times=None)
    answer = site.tick("trouble")
    site.world.emulator.admin.remove(fault)
    assert {name for name, (passed, _) in told(answer).items() if not passed} == {"lag", "runway"}
    assert not answer.run_requests and "nobody knows" in answer.skip_message


@dataclass
class Watch:
    """The sensor by a clock of its own, from three hours ago on: runs go by the machine's, and come later.
    `tick` stores the events, as the daemon does, and returns what was asked for."""

    site: Site
    clock: ManualClock = field(default_factory=lambda: ManualClock(SYSTEM_CLOCK.now() - 3 * 3600))
    cursor: str = ""
    unset: str = ""

    def tick(self, after_s: float = 0.0) -> list[dg.RunRequest]:
        self.clock.advance(after_s)
        origin, logstore = origin_key(self.site.logstore), self.site.logstore
        job = trouble_job(logstore, origin)
        sensor = trouble_sensor(logstore, job, origin, unset=self.unset, clock=self.clock)
        with dg.build_sensor_context(instance=self.site.instance, cursor=self.cursor) as context:
            answer = sensor.evaluate_tick(context)
        for event in answer.asset_events:
            self.site.instance.report_runless_asset_event(event)
        self.cursor = answer.cursor or ""
        return list(answer.run_requests or ())

    def shown(self, kind: Kind) -> tuple[bool, str, str]:
        """What the page shows of a check: passed, severity, text."""
        key = dg.AssetCheckKey(origin_key(self.site.logstore), kind.value)
        (record,) = self.site.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
        assert record.evaluation is not None
        return record.evaluation.passed, record.evaluation.severity.value, record.evaluation.description or ""


def test_a_catalog_that_is_down_for_longer_than_a_log_may_wait_is_one_run_that_says_so(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(landed(make_site("catalog_down")))
    assert not watch.tick()
    with monkeypatch.context() as patched:
        patched.setenv("PYICEBERG_CATALOG__LAKE__URI", "postgresql+psycopg2://nobody@127.0.0.1:1/none")
        assert not watch.tick(600) and not watch.tick(7000), "two hours are not over"
        (asked,) = watch.tick(600)
        assert not watch.tick(300), "told once"
        run = watch.site.launch(asked, "trouble")
        assert not run.success
        (failed,) = (e for e in run.all_events if e.is_step_failure)
        why = failed.step_failure_data.user_failure_data
        assert why is not None and "cannot be reached" in str(why.description)
        assert "Nobody could look for" in str(why.description)
    assert not watch.tick(60)
    assert watch.shown(Kind.COMMIT)[0], "it is seen again"


def test_a_catalog_that_never_answers_is_told_before_dagster_ends_the_tick(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(landed(make_site("catalog_silent")))
    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as patched:
        address = f"postgresql+psycopg2://nobody@127.0.0.1:{silent.getsockname()[1]}/none"
        patched.setenv("PYICEBERG_CATALOG__LAKE__URI", address)
        begun_s = SYSTEM_CLOCK.monotonic()
        assert not watch.tick()
        assert SYSTEM_CLOCK.monotonic() - begun_s < 45, "Dagster waits for a minute"
    assert watch.shown(Kind.COMMIT)[:2] == (False, "WARN")
    assert "nobody knows" in watch.shown(Kind.COMMIT)[2]


def test_logs_that_wait_for_a_start_that_is_to_come_are_no_lag_of_nothing(make_site: MakeSite) -> None:
    site = make_site("start_to_come")
    site.world.logstore = site.world.changed(start="2100-01-01-00:00")
    site.world.put(5)
    watch = Watch(site)
    assert not watch.tick()
    passed, severity, said = watch.shown(Kind.LAG)
    assert (passed, severity) == (False, "WARN") and "nothing lands before" in said


def test_keys_that_are_refused_before_the_first_landing_become_a_run_that_fails(make_site: MakeSite) -> None:
    watch = Watch(make_site("refused_keys"))
    fault = watch.site.world.emulator.admin.fault(
        "error", status=401, code="Unauthorized", logstore=watch.site.name, times=None
    )
    assert not watch.tick() and not watch.tick(3600)
    (asked,) = watch.tick(4000)
    assert asked.run_key is not None and asked.run_key.startswith("trouble-lag-runway-")
    assert watch.shown(Kind.LAG)[:2] == (False, "ERROR") and "Unauthorized" in watch.shown(Kind.LAG)[2]
    watch.site.world.emulator.admin.remove(fault)
    assert not watch.tick(60) and watch.shown(Kind.LAG)[0]


def test_keys_that_are_gone_become_a_run_that_fails_and_what_the_table_says_is_told(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(landed(make_site("gone_keys")))
    assert not watch.tick()
    with monkeypatch.context() as patched:
        patched.delenv("ALIBABA_CLOUD_ACCESS_KEY_ID")
        assert not watch.tick(600)
        assert watch.shown(Kind.LAG)[:2] == (False, "WARN") and "no key pair" in watch.shown(Kind.LAG)[2]
        assert watch.shown(Kind.RECONCILED)[0]
        (asked,) = watch.tick(7300)
        assert asked.run_key is not None and "lag-runway" in asked.run_key
        assert not watch.site.launch(asked, "trouble").success
    assert not watch.tick(60) and watch.shown(Kind.LAG)[0]


def test_a_home_that_is_no_folder_becomes_a_run_that_fails_and_is_seen_again_once_it_is_mended(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    watch = Watch(landed(make_site("no_home")))
    assert not watch.tick()
    (tmp_path / "home").write_text("a file")
    with monkeypatch.context() as patched:
        patched.setenv("SLS_LAKE_HOME", str(tmp_path / "home"))
        for name in watch.site.world.lake.properties:
            patched.delenv(f"PYICEBERG_CATALOG__LAKE__{name.upper()}")
        assert not watch.tick(600)
        assert {watch.shown(kind)[:2] for kind in Kind} == {(False, "WARN")}
        assert all("is no folder: name another" in watch.shown(kind)[2] for kind in Kind)
        (asked,) = watch.tick(7300)
        assert {watch.shown(kind)[:2] for kind in Kind} == {(False, "ERROR")}
        assert not watch.site.launch(asked, "trouble").success
    assert not watch.tick(60) and all(watch.shown(kind)[0] for kind in Kind)


def test_an_endpoint_that_is_not_set_becomes_a_run_that_fails_and_what_the_table_says_is_told(
    make_site: MakeSite,
) -> None:
    watch = Watch(landed(make_site("no_endpoint")))
    assert not watch.tick()
    watch.unset = "SLS_ENDPOINT"
    assert not watch.tick(600)
    for kind in (Kind.LAG, Kind.RUNWAY):
        assert watch.shown(kind)[:2] == (False, "WARN")
        assert "set the environment variable SLS_ENDPOINT" in watch.shown(kind)[2]
    assert watch.shown(Kind.RECONCILED)[0] and watch.shown(Kind.COMMIT)[0]
    (asked,) = watch.tick(7300)
    assert asked.run_key is not None and "lag-runway" in asked.run_key
    load = dg.ComponentTree.for_test().load_context
    defs = SlsLogstore(watch.site.logstore, unset=watch.unset).build_defs(load)
    job = defs.resolve_job_def(f"{watch.site.name}_trouble")
    run = job.execute_in_process(instance=watch.site.instance, raise_on_error=False)
    assert {e.check_name: e.passed for e in run.get_asset_check_evaluations()} == {
        kind.value: kind not in (Kind.LAG, Kind.RUNWAY) for kind in Kind
    }
    assert not run.success
    watch.unset = ""
    assert not watch.tick(60) and watch.shown(Kind.LAG)[0]


def test_what_failed_goes_on_failing_while_nobody_can_look(make_site: MakeSite) -> None:
    watch = Watch(landed(make_site("hidden_lag", trouble={"lag_s": {"warn": 600, "fail": 3000}})))
    watch.site.world.put(5)
    watch.site.world.emulator.admin.advance(4000)
    (asked,) = watch.tick()
    fault = watch.site.world.emulator.admin.fault("error", status=503, logstore=watch.site.name, times=None)
    assert not watch.tick(60)
    assert watch.shown(Kind.LAG)[:2] == (False, "ERROR") and "nobody knows" in watch.shown(Kind.LAG)[2]
    assert not watch.site.launch(asked, "trouble").success
    watch.site.world.emulator.admin.remove(fault)
    watch.site.world.land()
    assert not watch.tick(60) and watch.shown(Kind.LAG)[0]


def test_blindness_begins_anew_after_a_look(make_site: MakeSite) -> None:
    watch = Watch(landed(make_site("seldom_blind", trouble={"lag_s": {"warn": 0, "fail": 7200}})))

    def blind() -> int:
        return watch.site.world.emulator.admin.fault(
            "error", status=503, logstore=watch.site.name, times=None
        )

    fault = blind()
    assert not watch.tick() and not watch.tick(5000)
    watch.site.world.emulator.admin.remove(fault)
    watch.tick(60)
    fault = blind()
    assert not watch.tick(3000) and not watch.tick(5000)
    watch.site.world.emulator.admin.remove(fault)


def test_before_the_first_landing_nothing_is_wrong(make_site: MakeSite) -> None:
    assert set(levels(make_site("to_come")).values()) == {Level.OK}


def test_a_number_is_measured_against_its_bounds_and_a_bound_of_0_is_never_passed() -> None:
    assert [rising(x, Rising(warn=1, fail=2)) for x in (1, 1.5, 3)] == [Level.OK, Level.WARN, Level.FAIL]
    assert [falling(x, Falling(warn=2, fail=1)) for x in (3, 1.5, 0.5)] == [Level.OK, Level.WARN, Level.FAIL]
    assert rising(1e9, Rising(warn=0, fail=0)) is falling(0, Falling(warn=0, fail=0)) is Level.OK


@pytest.mark.parametrize(
    "settings",
    [
        {"trouble": {"lag_s": {"warn": 2, "fail": 1}}},
        {"trouble": {"runway_s": {"warn": 1, "fail": 2}}},
        {"maintenance": {"snapshots": 200}},
        {"maintenance": {"manifests": 100}},
        {"topology": {"every_s": 1}},
        {"toplogy": {}},
    ],
    ids=str,
)
def test_bounds_that_make_no_sense_are_refused(make_site: MakeSite, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"warn|leaves|every_s|toplogy"):
        make_site.changed(settings)


def test_a_sensor_is_stopped_unless_its_settings_say_that_it_runs(make_site: MakeSite) -> None:
    site = make_site("switched", sealed={"running": True, "every_s": 120})
    sensors = {s.name: s for s in site.definitions.get_repository_def().sensor_defs}
    running = {name for name, s in sensors.items() if s.default_status is dg.DefaultSensorStatus.RUNNING}
    assert running == {"switched_sealed_sensor"} and len(sensors) == 5
    assert sensors["switched_sealed_sensor"].minimum_interval_seconds == 120


# --- maintenance ---------------------------------------------------------------------------------------


def test_a_table_with_many_new_files_is_maintained_once_and_is_small_again(make_site: MakeSite) -> None:
    site = make_site("worn", maintenance={"files": 2})
    assert not site.tick("maintenance").run_requests, "there is no table yet"
    site.world.land_hours(2)
    landed(site)
    before = wear(site.world.table)
    assert before.files > 2
    (asked,) = site.tick("maintenance").run_requests
    assert "could not lower that" in site.tick("maintenance").skip_message
    assert site.launch(asked, "maintenance").success
    assert wear(site.world.table).files < before.files
    site.tick("maintenance")
    site.world.assert_each_log_once()


def test_a_maintenance_is_not_asked_for_while_one_runs(make_site: MakeSite) -> None:
    site = landed(make_site("kept_up", maintenance={"files": 1}))
    run = create_run_for_test(
        site.instance, status=dg.DagsterRunStatus.STARTED, tags={MAINTAINS_TAG: site.name}
    )
    answer = site.tick("maintenance")
    assert not answer.run_requests and run.run_id in answer.skip_message
    site.instance.report_run_failed(run)
    assert len(site.tick("maintenance").run_requests) == 1


def test_counts_at_their_bounds_are_not_over_them() -> None:
    assert (SNAPSHOTS_KEPT, MANIFESTS_KEPT) == (SNAPSHOTS_MAX, MANIFESTS_MAX), "what a maintenance leaves"
    bounds = UpkeepSettings(files=10, snapshots=300, manifests=0)
    assert Wear(10, 300, 10_000).over(bounds) == ()
    assert Wear(11, 301, 10_000).over(bounds) == ("files", "snapshots")


# --- sensors of one's own ------------------------------------------------------------------------------


def snippet(site: Site) -> dict[str, Any]:
    """What the Python of docs/sensors.md defines, for this logstore and its hours."""
    (text,) = re.findall(r"^```python\n(.*?)^```", SNIPPETS, flags=re.DOTALL | re.MULTILINE)
    hours = site.world.hours
    for said, meant in {
        "access_logs": site.name,
        "2026-11-20-07:00": hour_key(hours[1]),
        "2026-11-20-09:00": hour_key(hours[-1] + 1),
    }.items():
        assert said in text
        text = text.replace(said, meant)
    names: dict[str, Any] = {}
    exec(compile(text, "docs/sensors.md", "exec"), names)
    return names


def test_the_sensors_of_the_page_land_and_fill(make_site: MakeSite) -> None:
    site = make_site("own_sensors")
    names = snippet(site)
    site.world.put(20)
    site.world.emulator.admin.advance(60)
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
    with pytest.raises(ConfigError, match=r"hour|zone"):
        backfill_request("access_logs", start, end)


def test_a_landing_is_asked_for_once_a_key(make_site: MakeSite) -> None:
    site = make_site("keyed")
    with dg.build_sensor_context(instance=site.instance) as context:
        asked = landing_request(context, "keyed", key="file-1")
    assert isinstance(asked, dg.RunRequest) and asked.run_key == "file-1" and asked.job_name == "keyed_now"
    assert bronze_key(site.logstore).path[-1] == "keyed"
