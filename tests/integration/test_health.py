"""What the health sensor tells and asks for."""

import json
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from pipelines.components import SlsLogstore
from pipelines.components.logstore.assets import checkpoint_key, origin_key
from pipelines.components.logstore.health import OF_LOGSTORE, check_key, last_told
from pipelines.components.logstore.maintenance import MAINTAINS_TAG
from pipelines.components.logstore.sensors import ticks
from pipelines.components.logstore.sensors.health import health_lookout
from pipelines.landing.commit.planned import execute
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.maintenance.expiry import LEDGER_BYTES_MAX, SNAPSHOTS_MAX
from pipelines.landing.maintenance.maintain import MANIFESTS_MAX, Maintainer
from pipelines.landing.operations.pause import plan_pause
from pipelines.landing.watch.health import Finding, Kind, Level, findings
from pipelines.landing.watch.vitals import vitals
from pipelines.landing.watch.wear import WORN, Wear, wear
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from tests.integration.sensor_site import MakeSite, Site, landed
from tests.worlds.one_logstore import PROJECT, World, logstore_settings

BEHIND_DAYS = 45
TOLD = (*OF_LOGSTORE, Kind.RECONCILED)
"""What the sensor may tell."""


def levels(site: Site, *, later_s: float = 0.0) -> dict[Kind, Level]:
    """Each kind's level, by a clock that is so much later."""
    clock = ManualClock(SYSTEM_CLOCK.now() + later_s)
    with site.world.client as client:
        found = findings(
            vitals(site.logstore, lambda: site.world.lake, lambda: client, clock=clock), site.logstore
        )
    return {each.kind: each.level for each in found}


def told(answer: Any) -> dict[str, tuple[bool, str]]:
    """Check -> passed and severity, of the evaluations that a tick tells."""
    return {e.check_name: (e.passed, e.severity.value) for e in answer.asset_events}


# --- health --------------------------------------------------------------------------------------------


def test_a_logstore_without_trouble_is_told_once_and_runs_nothing(make_site: MakeSite) -> None:
    site = landed(make_site("untroubled"))
    first = site.tick("health")
    assert told(first) == {kind.value: (True, "WARN") for kind in OF_LOGSTORE}
    assert {e.asset_key for e in first.asset_events} == {origin_key(site.logstore)}
    assert first.skip_message.startswith("nothing is wrong; 2 files since") and not first.run_requests
    assert not site.tick("health").asset_events


def test_lag_warns_then_fails_with_one_run_that_says_why_and_passes_again(make_site: MakeSite) -> None:
    site = landed(make_site("lagging", health={"lag_s": [600, 3000]}))
    site.tick("health")
    site.world.put(5, pass_s=1000)
    warned = site.tick("health")
    assert told(warned) == {"lag": (False, "WARN")} and not warned.run_requests
    assert "lag: the oldest log that waits was received" in warned.skip_message
    site.world.emulator.admin.advance(3000)
    failed = site.tick("health")
    assert told(failed) == {"lag": (False, "ERROR")}
    (asked,) = failed.run_requests
    assert asked.run_key.startswith("health-lag-")
    run = site.launch(asked, "health")
    assert not run.success
    assert why(run).startswith("lag: the oldest log that waits")
    assert {e.check_name for e in run.get_asset_check_evaluations()} == {kind.value for kind in OF_LOGSTORE}
    assert not site.tick("health").run_requests, "a check that goes on failing is told once"
    site.world.land()
    assert told(site.tick("health")) == {"lag": (True, "WARN")}
    assert site.launch(asked, "health").success


def test_what_fails_again_within_the_hour_is_asked_for_when_the_hour_is_over(make_site: MakeSite) -> None:
    site = landed(make_site("fails_again", health={"lag_s": [600, 1200]}))

    clock, cursor = ManualClock(SYSTEM_CLOCK.now()), ""
    sensor = sensor_of(site, clock=clock)

    def asked(after_s: float = 0.0) -> list[str | None]:
        nonlocal cursor
        clock.advance(after_s)
        with dg.build_sensor_context(instance=site.instance, cursor=cursor) as context:
            answer = sensor.evaluate_tick(context)
        cursor = answer.cursor or ""
        return [request.run_key for request in answer.run_requests or ()]

    def wait_too_long() -> None:
        site.world.put(5, pass_s=1300)

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


def test_a_clock_that_was_ahead_once_keeps_no_later_trouble_from_being_asked_for(make_site: MakeSite) -> None:
    site = landed(make_site("was_ahead", health={"lag_s": [600, 1200]}))
    watch = Watch(site, ManualClock(SYSTEM_CLOCK.now() + 30 * 86_400))
    for clock in (watch.clock, ManualClock(SYSTEM_CLOCK.now())):
        watch.clock = clock
        site.world.put(5, pass_s=1300)
        (asked,) = watch.tick()
        assert "lag" in (asked.run_key or "")
        site.world.land()
        assert not watch.tick(60)


def test_what_was_never_asked_for_has_no_hour_to_wait_for_even_where_the_clock_began_at_zero(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("clock_at_zero", health={"lag_s": [600, 1200]}))
    watch = Watch(site, ManualClock(100.0))
    site.world.put(5, pass_s=1300)
    (asked,) = watch.tick()
    assert "lag" in (asked.run_key or "")


def test_a_cursor_of_somebody_else_is_no_memory(make_site: MakeSite) -> None:
    site = landed(make_site("foreign_cursor"))
    for cursor in ("junk", "[1]", '{"lag": "ok"}', '{"levels": 3}'):
        site.cursors["health"] = cursor
        assert len(told(site.tick("health"))) == len(OF_LOGSTORE)


def test_a_mirror_has_a_check_of_its_own_and_stands_with_the_checkpoint_of_each_run(
    make_site: MakeSite, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    site = landed(make_site("mirrored", mirror=f"file:{tmp_path}/folder"))
    assert told(site.tick("health"))[Kind.MIRROR.value] == (False, "WARN")
    looked = site.launch(dg.RunRequest(), "health")
    assert looked.success, "a mirror fails nothing"
    assert {e.check_name for e in looked.get_asset_check_evaluations()} == {*OF_LOGSTORE, Kind.MIRROR}

    def said() -> tuple[Any, bool]:
        """What the newest run says with the checkpoint, and what the check says then."""
        done = site.launch(dg.RunRequest(), "now")
        assert done.success
        (_, values) = site.materialized(checkpoint_key(site.logstore))[-1]
        newest = last_told(site.instance, site.logstore, [Kind.MIRROR]).get(Kind.MIRROR)
        assert newest is not None
        return values["mirror"].value, newest.finding.level is Level.OK

    text, fine = said()
    assert "is no file" in text and not fine
    (tmp_path / "folder").rmdir()
    text, fine = said()
    assert "2 of 2 shards are where the table is" in text and fine


def test_a_quiet_logstore_does_not_lag(make_site: MakeSite) -> None:
    site = landed(make_site("quiet_again"))
    site.world.emulator.admin.advance(20_000)
    assert levels(site)[Kind.LAG] is Level.OK


def test_logs_of_a_paused_shard_are_noted_and_no_lag_and_retention_goes_on(make_site: MakeSite) -> None:
    site = landed(make_site("resting"))
    with site.world.client as client:
        execute(site.world.lake, plan_pause(site.world.lake, site.logstore, client, [0, 1]))
    site.world.put(20, pass_s=29.5 * 86_400)
    answer = site.tick("health")
    assert {name: level for name, level in told(answer).items() if not level[0]} == {
        "runway": (False, "ERROR")
    }
    (lag,) = (e for e in answer.asset_events if e.check_name == Kind.LAG.value)
    assert lag.description == "nothing waits; shards 0, 1 are paused, and logs wait there"


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
            found = findings(
                vitals(site.logstore, lambda: world.lake, lambda: client, clock=late), site.logstore
            )
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
    assert float(again.numbers["commit age s"]) < float(hidden.numbers["commit age s"])


def test_a_landing_whose_file_is_gone_is_trouble_at_once(make_site: MakeSite) -> None:
    site = landed(make_site("file_gone"))
    Path(site.world.published()[0]).unlink()
    answer = site.tick("health")
    assert told(answer)["reconciled"] == (False, "ERROR")
    (asked,) = answer.run_requests
    run = site.launch(asked, "health")
    assert not run.success and "reconciled: " in why(run)
    assert {e.check_name for e in run.get_asset_check_evaluations()} == {k.value for k in OF_LOGSTORE}


def why(run: dg.ExecuteInProcessResult) -> str:
    """The sentence of the step that failed."""
    (event,) = (e for e in run.all_events if e.is_step_failure)
    data = event.step_failure_data.user_failure_data
    return str(data.description) if data is not None else ""


def test_what_a_run_said_of_its_landing_is_not_taken_back_by_a_tick_that_sees_less(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("red_by_run"))
    key = check_key(site.logstore, Kind.RECONCILED)
    red = dg.AssetCheckEvaluation(
        asset_key=key.asset_key, check_name=key.name, passed=False, description="a page lacks a row"
    )
    run = create_run_for_test(site.instance, status=dg.DagsterRunStatus.STARTED)
    event = dg.DagsterEvent(
        "ASSET_CHECK_EVALUATION", job_name=run.job_name, event_specific_data=red, step_key="land"
    )
    site.instance.report_dagster_event(event, run.run_id)
    assert "reconciled" not in told(site.tick("health"))
    Path(site.world.published()[0]).rename(site.world.published()[0] + ".away")
    assert "reconciled" not in told(site.tick("health")), "it is red already"


def without_ledger(site: Site) -> None:
    """Somebody deletes the tag under which the ledger is."""
    with site.world.table.manage_snapshots() as refs:
        refs.remove_tag(TAG)


def test_beside_a_ledger_that_cannot_be_trusted_what_failed_goes_on_failing_and_the_rest_fails_in_time(
    make_site: MakeSite,
) -> None:
    watch = Watch(landed(make_site("late_and_lost", health={"lag_s": [600, 3000]})))
    watch.site.world.put(5, pass_s=4000)
    assert watch.tick()
    without_ledger(watch.site)
    (asked,) = watch.tick(60)
    assert asked.run_key is not None and asked.run_key.startswith("health-reconciled-")
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
    assert found.pop(Kind.RECONCILED) is Level.FAIL and set(found.values()) == {Level.UNKNOWN}


def test_without_the_service_what_the_table_says_is_told_and_the_rest_is_a_warning(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("unanswered"))
    fault = site.world.emulator.admin.fault("error", status=503, logstore=site.name, times=None)
    answer = site.tick("health")
    site.world.emulator.admin.remove(fault)
    assert {name for name, (passed, _) in told(answer).items() if not passed} == {"lag", "runway"}
    assert not answer.run_requests and "nobody knows" in answer.skip_message


def sensor_of(site: Site, **given: Any) -> dg.SensorDefinition:
    """The health sensor, with a clock or limits of a test."""
    job, upkeep = (site.definitions.resolve_job_def(f"{site.name}_{of}") for of in ("health", "maintenance"))
    return ticks.sensor_of(health_lookout(site.logstore, job, upkeep, **given))


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
        sensor = sensor_of(self.site, unset=self.unset, clock=self.clock)
        with dg.build_sensor_context(instance=self.site.instance, cursor=self.cursor) as context:
            answer = sensor.evaluate_tick(context)
        for event in answer.asset_events:
            self.site.instance.report_runless_asset_event(event)
        self.cursor = answer.cursor or ""
        return list(answer.run_requests or ())

    def level(self, kind: Kind) -> str:
        """The level that the last tick saw."""
        return str(json.loads(self.cursor)["levels"][kind.value])

    def shown(self, kind: Kind) -> tuple[bool, str, str]:
        """What the page shows of a check: passed, severity, text."""
        key = check_key(self.site.logstore, kind)
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
        run = watch.site.launch(asked, "health")
        assert not run.success
        assert "cannot be reached" in why(run) and "Nobody could look for" in why(run)
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
    assert asked.run_key is not None and asked.run_key.startswith("health-lag-runway-")
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
        (asked,) = watch.tick(7300)
        assert asked.run_key is not None and "lag-runway" in asked.run_key
        assert watch.level(Kind.RECONCILED) == "ok"
        assert not watch.site.launch(asked, "health").success
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
        assert {watch.shown(kind)[:2] for kind in TOLD} == {(False, "WARN")}
        assert all("is no folder: name another" in watch.shown(kind)[2] for kind in TOLD)
        (asked,) = watch.tick(7300)
        assert {watch.shown(kind)[:2] for kind in TOLD} == {(False, "ERROR")}
        assert not watch.site.launch(asked, "health").success
    assert not watch.tick(60) and all(watch.shown(kind)[0] for kind in TOLD)


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
    assert watch.level(Kind.RECONCILED) == "ok" and watch.shown(Kind.COMMIT)[0]
    (asked,) = watch.tick(7300)
    assert asked.run_key is not None and "lag-runway" in asked.run_key
    load = dg.ComponentTree.for_test().load_context
    defs = SlsLogstore(watch.site.logstore, unset=watch.unset).build_defs(load)
    job = defs.resolve_job_def(f"{watch.site.name}_health")
    run = job.execute_in_process(instance=watch.site.instance, raise_on_error=False)
    assert {e.check_name: e.passed for e in run.get_asset_check_evaluations()} == {
        kind.value: kind not in (Kind.LAG, Kind.RUNWAY) for kind in OF_LOGSTORE
    }
    assert not run.success
    watch.unset = ""
    assert not watch.tick(60) and watch.shown(Kind.LAG)[0]


def test_what_failed_goes_on_failing_while_nobody_can_look(make_site: MakeSite) -> None:
    watch = Watch(landed(make_site("hidden_lag", health={"lag_s": [600, 3000]})))
    watch.site.world.put(5, pass_s=4000)
    (asked,) = watch.tick()
    fault = watch.site.world.emulator.admin.fault("error", status=503, logstore=watch.site.name, times=None)
    assert not watch.tick(60)
    assert watch.shown(Kind.LAG)[:2] == (False, "ERROR") and "nobody knows" in watch.shown(Kind.LAG)[2]
    assert not watch.site.launch(asked, "health").success
    watch.site.world.emulator.admin.remove(fault)
    watch.site.world.land()
    assert not watch.tick(60) and watch.shown(Kind.LAG)[0]


def test_blindness_begins_anew_after_a_look(make_site: MakeSite) -> None:
    watch = Watch(landed(make_site("seldom_blind", health={"lag_s": [0, 7200]})))

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


@pytest.mark.parametrize(
    "settings",
    [
        {"health": {"lag_s": [2, 1]}},
        {"health": {"runway_s": [1, 2]}},
        {"health": {"errors": [0.2, 0.1]}},
        {"health": {"errors": [0.5, 2]}},
        {"health": {"wear": {}}},
        {"sensors": ["trouble"]},
    ],
    ids=str,
)
def test_bounds_that_make_no_sense_are_refused(make_site: MakeSite, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"warning|less than or equal to 1|wear|demand"):
        make_site.changed(settings)


def test_a_sensor_is_stopped_unless_its_settings_say_that_it_runs(make_site: MakeSite) -> None:
    site = make_site("switched", sensors=["sealed"])
    sensors = {s.name: s for s in site.definitions.get_repository_def().sensor_defs}
    running = {name for name, s in sensors.items() if s.default_status is dg.DefaultSensorStatus.RUNNING}
    assert running == {"switched_sealed_sensor"} and len(sensors) == 3
    assert {s.minimum_interval_seconds for s in sensors.values()} == {60, 300}


# --- maintenance ---------------------------------------------------------------------------------------


def upkeep_of(site: Site, files: int) -> Any:
    """A tick for which a table with more new files than that is worn."""
    return site.tick("health", sensor=sensor_of(site, worn=Wear(files, 400, 200, 10**6)))


def test_a_table_with_many_new_files_is_maintained_once_and_is_small_again(make_site: MakeSite) -> None:
    site = make_site("worn")
    assert not upkeep_of(site, 2).run_requests, "there is no table yet"
    site.world.land_hours(2)
    landed(site)
    before = wear(site.world.table)
    assert before.files > 2
    (asked,) = upkeep_of(site, 2).run_requests
    assert asked.job_name == "worn_maintenance"
    assert "could not lower that" in upkeep_of(site, 2).skip_message
    assert site.launch(asked, "maintenance").success
    assert wear(site.world.table).files < before.files
    assert "could not" not in upkeep_of(site, 2).skip_message
    site.world.assert_each_log_once()


def test_a_maintenance_is_not_asked_for_while_one_runs(make_site: MakeSite) -> None:
    site = landed(make_site("kept_up"))
    run = create_run_for_test(
        site.instance, status=dg.DagsterRunStatus.STARTED, tags={MAINTAINS_TAG: site.name}
    )
    answer = upkeep_of(site, 1)
    assert not answer.run_requests and run.run_id in answer.skip_message
    site.instance.report_run_failed(run)
    assert len(upkeep_of(site, 1).run_requests) == 1


def test_what_fails_and_what_is_worn_are_asked_for_by_one_tick(make_site: MakeSite) -> None:
    site = landed(make_site("both_wrong"))
    Path(site.world.published()[0]).unlink()
    assert {r.job_name for r in upkeep_of(site, 1).run_requests} == {
        "both_wrong_health",
        "both_wrong_maintenance",
    }
    assert not upkeep_of(site, 1).run_requests


def test_counts_at_their_limits_are_not_over_them_and_a_maintenance_leaves_less() -> None:
    assert (WORN.snapshots, WORN.manifests) > (SNAPSHOTS_MAX, MANIFESTS_MAX)
    assert WORN.ledger_bytes == 2 * LEDGER_BYTES_MAX
    limits = Wear(files=10, snapshots=300, manifests=100)
    assert Wear(10, 300, 100).over(limits) == ()
    assert Wear(11, 301, 100).over(limits) == ("files", "snapshots")


def test_a_loss_that_a_run_has_named_is_one_run_that_says_so_though_nothing_is_wrong_any_more(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("gone_by"))
    assert not site.tick("health").run_requests
    site.world.put(5, pass_s=31 * 86_400)
    site.world.put(5)
    assert site.world.land().gaps
    site.world.land()
    (asked,) = site.tick("health").run_requests
    run = site.launch(asked, "health")
    assert not run.success and "lost to retention, named within a day" in why(run)
    assert not site.tick("health").run_requests, "told once"
