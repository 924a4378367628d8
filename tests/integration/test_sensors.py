"""Ticks of the demand and sealed sensors: what each sees and asks for, and does not do twice."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from pipelines.components import SlsLogstore
from pipelines.components.logstore.assets import bronze_key, checkpoint_key, hours_of, origin_key
from pipelines.components.logstore.health import OF_TABLE, check_key, last_told
from pipelines.components.logstore.schedule import CLAIMS_TAG, MODE_TAG, live_request
from pipelines.components.logstore.sensors.demand import demand_lookout
from pipelines.components.logstore.sensors.sealed import sealed_condition, sealed_key
from pipelines.components.logstore.sensors.ticks import sensor_of
from pipelines.components.logstore.sensors.topology import LANDED, OPEN, shards_key
from pipelines.components.logstore.telling import LATE_MAX
from pipelines.landing.commit.planned import execute
from pipelines.landing.hours import hour_text
from pipelines.landing.operations.pause import plan_pause
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.recovery.adopt import plan_adopt
from pipelines.landing.watch.health import Kind
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from sls_io.values.errors import SlsError
from tests.integration.sensor_site import MakeSite, Site, landed
from tests.worlds.one_logstore import HOUR0, PROJECT

BEHIND_DAYS = 4
"""Together its tests pass more than three days, and a live run is asked for by the machine's clock."""


def split(site: Site, shard: int = 0) -> None:
    site.world.emulator.admin.split(PROJECT, site.name, shard)


def observed(answer: Any) -> list[dg.AssetObservation]:
    return [event for event in answer.asset_events if isinstance(event, dg.AssetObservation)]


def by_shard(seen: dg.AssetObservation) -> list[dict[str, Any]]:
    table = seen.metadata["by shard"]
    assert isinstance(table, dg.TableMetadataValue)
    return [dict(record.data) for record in table.records]


def states(site: Site) -> list[tuple[str | None, str]]:
    """What was told of each shard, oldest first."""
    return [
        (shard, m["state"].value.partition(":")[0])
        for shard, m in site.materialized(shards_key(site.logstore))
    ]


# --- topology ------------------------------------------------------------------------------------------


def test_the_first_look_tells_the_shards_and_makes_a_partition_of_each(make_site: MakeSite) -> None:
    site = landed(make_site("first_look"))
    answer = site.tick("demand")
    (seen,) = observed(answer)
    assert seen.metadata["shards"].value == 2 and seen.metadata["readonly"].value == 0
    rows = by_shard(seen)
    assert [(r["shard"], r["status"], r["table"]) for r in rows] == [
        (0, "readwrite", "open"),
        (1, "readwrite", "open"),
    ]
    assert set(site.instance.get_dynamic_partitions("first_look_shards")) == {"0", "1"}
    assert not answer.run_requests and "2 shards" in answer.skip_message
    again = site.tick("demand")
    assert not again.asset_events and not again.dynamic_partitions_requests and not again.run_requests
    assert again.skip_message.startswith("2 shards, as before; no bound is passed")


def test_a_split_is_followed_from_the_tick_to_the_drain_and_the_childrens_landing(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("followed"))
    site.tick("demand")
    site.world.put(20)
    split(site)
    site.world.put(20, pass_s=60)
    answer = site.tick("demand")
    (seen,) = observed(answer)
    assert seen.description == "shard 0 was split into shards 2, 3"
    standing = {r["shard"]: r["table"] for r in by_shard(seen)}
    assert standing == {
        0: "read-only, not yet read to its end",
        1: "open",
        2: "waits for shard 0",
        3: "waits for shard 0",
    }
    lineage = {r["shard"]: r["parents"] for r in by_shard(seen)}
    assert lineage == {0: "", 1: "", 2: "0", 3: "0"}
    assert set(site.instance.get_dynamic_partitions("followed_shards")) == {"0", "1", "2", "3"}
    (drain,) = answer.run_requests
    origin = site.world.ledger.origin
    assert drain.run_key.startswith(f"drain-{origin}-0@") and drain.tags[MODE_TAG] == "live"
    assert site.launch(drain, "microbatch").success
    assert site.world.ledger.shards[0].closed and 2 not in site.world.ledger.shards
    told = site.tick("demand")
    assert [e.partition for e in told.asset_events] == ["0"] and not told.run_requests
    assert states(site) == [("0", OPEN), ("1", OPEN), ("2", OPEN), ("3", OPEN), ("0", LANDED)]
    assert site.launch(drain, "microbatch").success, "what the schedule asks for next"
    assert {2, 3} <= set(site.world.ledger.shards)
    site.world.assert_each_log_once()
    assert not site.tick("demand").asset_events, "a shard is drained once"


def test_a_drain_is_asked_for_once_whatever_becomes_of_the_cursor_and_by_whom(make_site: MakeSite) -> None:
    site = landed(make_site("asked_once"))
    site.tick("demand")
    site.world.put(5, key="0" * 32)
    split(site)
    (first,) = site.tick("demand").run_requests
    assert not site.tick("demand").run_requests, "the cursor knows it"
    other = replace(site, cursors={})
    (second,) = other.tick("demand", stored=False).run_requests
    assert second.run_key == first.run_key, "a lost cursor asks with the same key, which Dagster refuses"
    create_run_for_test(site.instance, status=dg.DagsterRunStatus.FAILURE, tags=first.tags)
    assert not other.tick("demand", stored=False).run_requests, "a run of any deployment is found by its tag"
    assert not any(CLAIMS_TAG in str(cursor) for cursor in site.cursors.values())


def test_a_drain_waits_for_a_run_that_holds_the_claim_and_is_not_forgotten(make_site: MakeSite) -> None:
    site = landed(make_site("deferred"))
    site.tick("demand")
    split(site, 1)
    run = create_run_for_test(site.instance, status=dg.DagsterRunStatus.STARTED, tags={CLAIMS_TAG: site.name})
    answer = site.tick("demand")
    assert not answer.run_requests and len(observed(answer)) == 1
    said = "shard 1 was split into shards 2, 3: the drain of shard 1 is asked for later: run "
    assert answer.skip_message.startswith(said)
    assert run.run_id in answer.skip_message
    site.instance.report_run_failed(run)
    (drain,) = site.tick("demand").run_requests
    assert "-1@" in drain.run_key


def test_shards_of_a_logstore_made_anew_do_not_stand_as_landed_by_their_numbers(make_site: MakeSite) -> None:
    site = landed(make_site("made_anew"))
    site.tick("demand")
    split(site)
    site.world.land()
    site.tick("demand")
    assert ("0", LANDED) in states(site)
    with site.world.client as client:
        client.transport.delete_logstore(PROJECT, site.name)
        site.world.emulator.admin.advance(10)
        client.transport.create_logstore(PROJECT, site.name, ttl=30, shard_count=2)
        plan = plan_adopt(site.world.lake, site.logstore, client, at="begin")
        execute(site.world.lake, plan)
    answer = site.tick("demand")
    assert "made anew" in str(observed(answer)[0].description)
    assert states(site) == [("0", OPEN), ("1", OPEN)]


def test_two_merged_shards_are_drained_by_one_run(make_site: MakeSite) -> None:
    site = landed(make_site("merged"))
    site.tick("demand")
    site.world.emulator.admin.merge(PROJECT, site.name, 0)
    answer = site.tick("demand")
    assert observed(answer)[0].description == "shards 0, 1 were merged into shard 2"
    (drain,) = answer.run_requests
    assert site.launch(drain, "microbatch").success
    assert site.world.ledger.closed([0, 1])


def test_before_the_first_landing_nothing_is_drained_since_the_first_run_takes_all(
    make_site: MakeSite,
) -> None:
    site = make_site("not_begun")
    site.tick("demand")
    split(site)
    answer = site.tick("demand")
    assert not answer.run_requests
    assert answer.skip_message.startswith("shard 0 was split into shards 2, 3: no run is needed for it")


def test_a_shard_that_retention_took_is_told_once_and_loses_its_partition(make_site: MakeSite) -> None:
    site = landed(make_site("taken"))
    split(site)
    site.tick("demand")
    for _ in range(2):
        site.world.emulator.admin.advance(60)
        site.world.land()
    site.tick("demand")
    site.world.emulator.admin.retain(PROJECT, site.name, shard=0, drop=True)
    answer = site.tick("demand")
    assert [str(o.description) for o in observed(answer)] == ["shard 0 is gone: retention took it"]
    assert set(site.instance.get_dynamic_partitions("taken_shards")) == {"1", "2", "3"}
    assert not site.tick("demand").asset_events


def test_partitions_that_no_shard_is_called_fail_no_tick_and_stay(make_site: MakeSite) -> None:
    site = landed(make_site("added_by_hand"))
    strange = ["by hand", "", "-1", "007", "٣", "9" * 30]
    site.instance.add_dynamic_partitions(f"{site.name}_shards", strange)
    for _ in range(2):
        site.tick("demand")
        assert {*site.instance.get_dynamic_partitions(f"{site.name}_shards")} == {*strange, "0", "1"}


def test_a_list_that_is_cut_short_deletes_nothing(make_site: MakeSite) -> None:
    site = landed(make_site("cut_short"))
    site.tick("demand")
    site.world.emulator.admin.fault("answer", call="list_shards", logstore=site.name, item=1, drop=True)
    answer = site.tick("demand")
    assert set(site.instance.get_dynamic_partitions("cut_short_shards")) == {"0", "1"}
    assert not observed(answer) and answer.skip_message.startswith("1 shard, as before")
    again = site.tick("demand")
    assert not observed(again) and again.skip_message.startswith("2 shards, as before")


def test_a_service_that_does_not_answer_is_a_failed_tick_with_the_cause_and_nothing_is_lost(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("away"))
    site.tick("demand")
    split(site)
    fault = site.world.emulator.admin.fault("error", call="list_shards", status=503, times=None)
    with pytest.raises(SlsError, match="HTTP 503"):
        site.tick("demand")
    site.world.emulator.admin.remove(fault)
    answer = site.tick("demand")
    assert len(answer.run_requests) == 1
    assert str(observed(answer)[0].description).startswith("shard 0 was split")


def test_an_unset_endpoint_skips_every_tick_but_that_of_health_and_names_the_variable(
    sensor_instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLS_ENDPOINT", raising=False)
    component = SlsLogstore.from_attributes_dict(
        attributes={
            "service": {"endpoint": "{{ env.SLS_ENDPOINT }}", "project": "demo", "logstore": "access_logs"},
            "group": "lake",
            "table": "bronze.access_logs",
            "start": hour_text(HOUR0),
        }
    )
    defs = component.build_defs(dg.ComponentTree.for_test().load_context)
    with dg.build_sensor_context(instance=sensor_instance, definitions=defs) as context:
        for what in ("demand", "sealed"):
            sensor = defs.resolve_sensor_def(f"access_logs_{what}_sensor")
            said = sensor.evaluate_tick(context).skip_message
            assert said == "set the environment variable SLS_ENDPOINT to the endpoint of access_logs"


# --- backlog -------------------------------------------------------------------------------------------


def test_no_shard_is_asked_while_the_ledger_alone_says_that_nothing_is_late(make_site: MakeSite) -> None:
    site = landed(make_site("on_time", shards=4))
    fault = site.world.emulator.admin.fault("observe", call="get_cursor", logstore=site.name, times=None)
    answer = site.tick("demand")
    assert not answer.run_requests and answer.skip_message.partition("; ")[2].startswith("no bound is passed")
    (seen,) = (f for f in site.world.emulator.admin.faults() if f["id"] == fault)
    assert seen["hits"] == 0


def test_logs_that_wait_too_long_ask_for_one_run_and_only_once_while_nothing_changes(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("too_long", health={"lag_s": [1200, 7200]}))
    site.world.put(20, pass_s=1000)
    (asked,) = site.tick("demand").run_requests
    assert asked.tags[MODE_TAG] == "live" and asked.tags[CLAIMS_TAG] == "too_long"
    assert "a run was asked for" in site.tick("demand").skip_message
    assert site.launch(asked, "microbatch").success
    site.world.assert_each_log_once()
    assert site.tick("demand").skip_message.partition("; ")[2].startswith("no bound is passed")


def test_a_clock_that_was_ahead_once_keeps_no_backlog_waiting(make_site: MakeSite) -> None:
    site = landed(make_site("was_ahead", health={"lag_s": [1200, 7200]}))
    job = site.definitions.resolve_job_def(f"{site.name}_microbatch")

    def asked(ahead_s: float) -> int:
        clock = ManualClock(SYSTEM_CLOCK.now() + ahead_s)
        sensor = sensor_of(demand_lookout(site.logstore, job, origin_key(site.logstore), clock=clock))
        return len(site.tick("demand", sensor=sensor).run_requests)

    site.world.put(20, pass_s=1000)
    assert [asked(30 * 86_400), asked(30 * 86_400 + 60), asked(0), asked(60)] == [1, 0, 1, 0]


def test_a_backlog_waits_for_the_run_that_holds_the_claim_and_names_it(make_site: MakeSite) -> None:
    site = landed(make_site("held_up", health={"lag_s": [1200, 7200]}))
    site.world.put(20, pass_s=1000)
    run = create_run_for_test(site.instance, status=dg.DagsterRunStatus.STARTED, tags={CLAIMS_TAG: site.name})
    answer = site.tick("demand")
    assert not answer.run_requests and run.run_id in answer.skip_message
    site.instance.report_run_failed(run)
    assert len(site.tick("demand").run_requests) == 1, "the held one was not taken for one that was asked for"


def test_a_quiet_logstore_is_not_late_however_long_ago_its_last_log_came(make_site: MakeSite) -> None:
    site = landed(make_site("quiet", health={"lag_s": [1200, 7200]}))
    site.world.emulator.admin.advance(5000)
    answer = site.tick("demand")
    assert not answer.run_requests and "at most 0 s" in answer.skip_message


def test_many_waiting_bytes_ask_for_a_run(make_site: MakeSite) -> None:
    site = make_site("many_mb", health={"lag_s": [0, 0]}, budget={"bytes_max": 200, "settle_s": 10})
    site.world.land_more(40, pass_s=1200)
    assert not site.tick("demand").run_requests
    site.world.put(40, pass_s=900)
    answer = site.tick("demand", stored=False)
    assert len(answer.run_requests) == 1
    run = create_run_for_test(site.instance, status=dg.DagsterRunStatus.STARTED, tags={CLAIMS_TAG: site.name})
    assert "MB wait" in site.tick("demand").skip_message and run.run_id


def test_a_shard_that_closes_and_logs_that_wait_are_one_run(make_site: MakeSite) -> None:
    site = landed(make_site("both", health={"lag_s": [1200, 7200]}))
    site.tick("demand")
    site.world.put(20)
    split(site)
    site.world.emulator.admin.advance(1000)
    (drain,) = site.tick("demand").run_requests
    assert drain.run_key.startswith("drain-")
    (backlog,) = site.tick("demand").run_requests
    assert backlog.run_key is None, "what waits still does: the drain was not carried out"
    said = site.tick("demand").skip_message
    assert said.startswith("4 shards, as before; ") and "a run was asked for" in said


def test_a_half_that_cannot_look_keeps_what_both_had_seen(make_site: MakeSite) -> None:
    site = landed(make_site("half_blind", health={"lag_s": [1200, 7200]}))
    site.tick("demand")
    site.world.put(20)
    split(site, 1)
    site.world.emulator.admin.advance(1000)
    fault = site.world.emulator.admin.fault("error", call="get_cursor_time", status=503, times=None)
    with pytest.raises(SlsError, match="HTTP 503"):
        site.tick("demand")
    site.world.emulator.admin.remove(fault)
    answer = site.tick("demand")
    assert len(answer.run_requests) == 1 and str(observed(answer)[0].description).startswith(
        "shard 1 was split"
    )


@pytest.mark.parametrize("cursor", ["junk", "[1]", '{"topology": 3}', '{"head": "7", "at_s": 1}'])
def test_a_cursor_of_somebody_else_is_a_first_look(make_site: MakeSite, cursor: str) -> None:
    site = landed(make_site(f"foreign_{len(cursor)}"))
    site.cursors["demand"] = cursor
    assert [str(o.description) for o in observed(site.tick("demand"))] == ["first look at the shards"]


def test_a_paused_shard_asks_for_no_run(make_site: MakeSite) -> None:
    site = landed(make_site("resting", health={"lag_s": [1200, 7200]}))
    with site.world.client as client:
        execute(site.world.lake, plan_pause(site.world.lake, site.logstore, client, [0, 1]))
    site.world.put(20, pass_s=1000)
    assert not site.tick("demand").run_requests


def test_before_the_first_landing_what_that_would_land_is_the_backlog(make_site: MakeSite) -> None:
    site = make_site("unborn", health={"lag_s": [1200, 7200]})
    site.world.put(20)
    assert not site.tick("demand").run_requests
    site.world.emulator.admin.advance(1000)
    (asked,) = site.tick("demand").run_requests
    assert "a run was asked for" in site.tick("demand").skip_message
    assert site.launch(asked, "microbatch").success
    assert not site.tick("demand").run_requests


def test_a_logstore_without_a_log_or_whose_start_is_to_come_has_no_backlog(make_site: MakeSite) -> None:
    assert not make_site("empty", health={"lag_s": [2, 2]}).tick("demand").run_requests
    later = make_site("later", health={"lag_s": [2, 2]}, start="2099-01-01-00:00")
    later.world.put(20, pass_s=1000)
    assert not later.tick("demand").run_requests


# --- sealed hours --------------------------------------------------------------------------------------


def sealed(site: Site) -> list[str | None]:
    return [partition for partition, _ in site.materialized(sealed_key(site.name))]


def test_an_hour_is_sealed_once_every_shard_has_passed_its_end(make_site: MakeSite) -> None:
    site = landed(make_site("one_hour"))
    assert "no further hour is complete: shard" in site.tick("sealed").skip_message
    first = site.world.hours[-1]
    site.world.emulator.admin.advance(3600)
    assert not site.tick("sealed").asset_events, "it is over, and nobody has looked at its end yet"
    site.world.land()
    (event,) = site.tick("sealed").asset_events
    assert event.partition == hour_text(first) and event.metadata["rows"].value == 20
    assert not site.tick("sealed").asset_events
    assert sealed(site) == [hour_text(first)]


def test_hours_are_sealed_in_order_so_many_a_tick_and_once_though_the_daemon_dies(
    make_site: MakeSite,
) -> None:
    site = make_site("caught_up")
    first = site.world.hours[-1]
    site.world.land_hours(2)
    site.world.emulator.admin.advance(24 * 3600)
    site.world.land()
    assert "2 more at the next ticks" in site.tick("sealed", kept=False).skip_message
    assert not site.tick("sealed").asset_events, "both were told before the cursor was lost"
    while site.tick("sealed").asset_events:
        pass
    assert sealed(site) == [hour_text(first + n) for n in range(26)], "empty hours are complete, too"
    site.cursors.clear()
    while site.tick("sealed").asset_events:
        pass
    assert len(sealed(site)) == 26


@pytest.mark.parametrize("wrong", ["2099-01-01-00:00", "1971-01-01-00:00"])
def test_a_cursor_that_no_look_can_have_left_skips_no_hour_and_tells_none_from_before_the_start(
    make_site: MakeSite, wrong: str
) -> None:
    site = make_site(f"misled_{wrong[:4]}")
    first = site.world.hours[-1]
    site.world.land_hours(2)
    damaged = json.dumps({"origin": site.world.origin, "next": wrong})
    for told in (2, 3):
        site.cursors["sealed"] = damaged
        site.tick("sealed")
        assert sealed(site) == [hour_text(first + n) for n in range(told)]
        site.world.land_hours(1)
    site.tick("sealed")
    assert sealed(site) == [hour_text(first + n) for n in range(4)], "it goes on from there"


def test_after_a_rollback_no_hour_is_told_twice_and_the_next_one_is_told(make_site: MakeSite) -> None:
    site = make_site("rolled_back")
    first = site.world.hours[-1]
    site.world.land_hours(3)
    before = site.world.table.metadata.current_snapshot_id
    assert before is not None
    site.world.land_hours(1)
    site.tick("sealed")
    execute(site.world.lake, plan_rollback(site.world.lake, site.logstore.table, before))
    answer = site.tick("sealed")
    assert not answer.asset_events and "no further hour is complete" in answer.skip_message
    site.world.land_hours(1)
    while site.tick("sealed").asset_events:
        pass
    assert sealed(site) == [hour_text(first + n) for n in range(5)]


def test_an_hour_with_a_shard_that_nobody_has_landed_yet_is_not_complete(make_site: MakeSite) -> None:
    site = landed(make_site("grown"))
    hour = site.world.hours[-1]
    split(site)
    site.world.land_more(20, pass_s=3600)
    answer = site.tick("sealed")
    assert not answer.asset_events and answer.skip_message.startswith("no further hour is complete: shard 2")
    site.world.land()
    assert [e.partition for e in site.tick("sealed").asset_events] == [hour_text(hour)]


def test_nothing_is_sealed_before_the_first_landing(make_site: MakeSite) -> None:
    assert make_site("untouched").tick("sealed").skip_message == "nothing has landed yet"


def test_an_hourly_model_is_asked_for_once_for_each_sealed_hour_also_for_late_ones(
    make_site: MakeSite,
) -> None:
    site = make_site("modelled")
    hours = hours_of(site.logstore)

    @dg.asset(deps=[sealed_key("modelled")], partitions_def=hours, automation_condition=sealed_condition())
    def by_hour() -> None: ...

    spec = dg.AssetSpec(sealed_key("modelled"), partitions_def=hours)
    defs = dg.Definitions(assets=[by_hour, spec])
    at = datetime.fromtimestamp(site.world.emulator.admin.now() + 4 * 3600, UTC)
    mine = dg.AssetSelection.assets(by_hour.key)
    begun = dg.evaluate_automation_conditions(defs, site.instance, mine, evaluation_time=at)
    assert begun.total_requested == 0
    first = site.world.hours[-1]
    site.world.land_hours(3)
    site.tick("sealed")
    asked = dg.evaluate_automation_conditions(
        defs, site.instance, mine, evaluation_time=at + timedelta(minutes=1), cursor=begun.cursor
    )
    wanted = {hour_text(first + n) for n in range(3)}
    assert asked.get_requested_partitions(by_hour.key) == wanted
    again = dg.evaluate_automation_conditions(
        defs, site.instance, mine, evaluation_time=at + timedelta(minutes=2), cursor=asked.cursor
    )
    assert again.total_requested == 0


def test_one_batch_from_the_page_tells_the_checks_that_the_page_leaves_out(make_site: MakeSite) -> None:
    site = make_site("one_batch")
    site.world.put(20, pass_s=60)
    # *Materialize* on the job's page selects the job's asset, and of the checks those of that asset: none.
    job = site.definitions.resolve_job_def("one_batch_now").get_subset(
        asset_selection={checkpoint_key(site.logstore)}, asset_check_selection=set()
    )
    done = job.execute_in_process(instance=site.instance)
    assert done.success
    kinds = (*OF_TABLE, Kind.RUNWAY, Kind.ERRORS)
    keys = [check_key(site.logstore, kind) for kind in kinds]
    newest = site.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    assert {newest[key].run_id for key in keys} == {done.run_id}
    site.world.assert_each_log_once()


# --- the tick of a schedule ----------------------------------------------------------------------------


@pytest.mark.parametrize("before", [30, 50_000])
def test_hours_before_the_first_log_are_done_with_no_rows_after_the_first_tick(
    make_site: MakeSite, before: int
) -> None:
    site = make_site(f"since_{before}")
    made = int(site.world.emulator.admin.now()) // 3600
    site.world.logstore = site.world.changed(start=hour_text(made - before))
    site.world.put(20, pass_s=3600)
    asked = live_request(site.instance, site.logstore)
    assert isinstance(asked, dg.RunRequest)
    assert site.launch(asked, "microbatch").success
    site.world.assert_each_log_once()
    rows = {hour: m["rows"].value for hour, m in site.materialized(bronze_key(site.logstore))}
    assert (rows.pop(hour_text(made)), rows.pop(hour_text(made + 1))) == (20, 0), "the open hour is told, too"
    told = range(made - before, made)[:LATE_MAX]
    assert rows == {hour_text(hour): 0 for hour in told} or before > LATE_MAX == len(rows)
    # Nothing is left to be told but the hour that is open.
    assert site.launch(asked, "microbatch").success
    again = len(site.materialized(bronze_key(site.logstore))) - len(rows) - 2
    assert again == (LATE_MAX if before > LATE_MAX else 0)


def test_hours_before_a_history_that_begins_with_what_comes_next_stay_to_be_asked_for(
    make_site: MakeSite,
) -> None:
    site = make_site("from_now_on")
    made = int(site.world.emulator.admin.now()) // 3600
    site.world.logstore = site.world.changed(start=hour_text(made - 3), reset="latest")
    site.world.put(20, pass_s=60)
    for said in ("Not proven yet", "20 rows, each once"):
        asked = live_request(site.instance, site.logstore)
        assert isinstance(asked, dg.RunRequest) and site.launch(asked, "microbatch").success
        told = last_told(site.instance, site.logstore, [Kind.PROVEN]).get(Kind.PROVEN)
        assert told is not None and told.said.passed and str(told.said.description).startswith(said)
        site.world.put(20, pass_s=3600)
    shown = {hour for hour, _ in site.materialized(bronze_key(site.logstore))}
    assert hour_text(made) in shown and not {hour_text(made - before) for before in (1, 2, 3)} & shown


def test_hours_that_the_service_had_deleted_before_the_first_landing_are_not_shown_as_landed(
    make_site: MakeSite,
) -> None:
    site = make_site("begun_late")
    made = int(site.world.emulator.admin.now()) // 3600
    site.world.logstore = site.world.changed(start=hour_text(made - 60))
    with site.world.client as client:
        client.transport.update_logstore(PROJECT, site.logstore.service.logstore, ttl=1, shard_count=1)
    site.world.emulator.admin.advance(26 * 3600)
    site.world.put(20, pass_s=3600)
    asked = live_request(site.instance, site.logstore)
    assert isinstance(asked, dg.RunRequest)
    assert site.launch(asked, "microbatch").success
    shown = {hour for hour, _ in site.materialized(bronze_key(site.logstore))}
    # Of the hour three after the first a part may be gone: only from the next one on it kept all.
    assert min(map(str, shown)) == hour_text(made + 4) and hour_text(made + 26) in shown
