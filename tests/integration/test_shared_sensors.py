"""The sensors that the logstores of a project share: each logstore as by a sensor of its own, and none stops
another."""

from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from chaos.in_dagster import definitions_of
from pipelines.components.logstore.health import OF_LOGSTORE
from pipelines.components.logstore.schedule import CLAIMS_TAG, MODE_TAG
from pipelines.landing.bounds import ON_VARIABLE
from pipelines.landing.hours import hour_text
from sls_io.values.errors import SlsError
from tests.integration.shop_site import (
    CARTS,
    DEMAND,
    HEALTH,
    ON,
    ORDERS,
    SEALED,
    USERS,
    WatchedShop,
    both,
    checked,
    jobs,
    observed,
    touched,
)
from tests.worlds.one_logstore import HOUR0

pytestmark = pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning")

LAGS = "    health: {lag_s: [600, 1200]}\n" + ON
"""The file ends with `defaults`, so what is indented deeper goes there."""
FIRST = "first look at the shards"


# --- which sensors there are ---------------------------------------------------------------------------


def test_the_setting_turns_on_what_it_names_and_no_logstore_has_a_sensor_of_its_own(
    shop: WatchedShop,
) -> None:
    shop.has(ORDERS, USERS, settings="  sensors: [demand, health]\n")
    assert shop.sensors == {"shop_logstores_sensor": False, DEMAND: True, SEALED: False, HEALTH: True}
    shop.has(settings="  sensors: [logstores, sealed]\n")
    assert shop.sensors == {"shop_logstores_sensor": True, DEMAND: False, SEALED: True, HEALTH: False}


def test_without_the_setting_they_are_there_and_off(shop: WatchedShop) -> None:
    shop.has(ORDERS, USERS, settings="")
    assert shop.sensors == dict.fromkeys(["shop_logstores_sensor", DEMAND, SEALED, HEALTH], False)


def test_dev_turns_on_those_of_a_project_and_of_schedules_those_that_land_its_logstores(
    shop: WatchedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ON_VARIABLE, "shop_users")
    shop.has(ORDERS, USERS, settings="")
    assert shop.sensors == dict.fromkeys(["shop_logstores_sensor", DEMAND, SEALED, HEALTH], True)
    status = {each.name: each.default_status for each in shop.defs.get_repository_def().schedule_defs}
    on = [name for name, said in status.items() if said is dg.DefaultScheduleStatus.RUNNING]
    assert on == ["shop_users_schedule"] and "shop_users_proof_schedule" in status


def test_they_tick_as_often_as_those_of_one_logstore_and_may_ask_for_its_jobs(shop: WatchedShop) -> None:
    shop.has(ORDERS, USERS, settings=ON)

    def asks(name: str) -> set[str]:
        return {target.job_name for target in shop.sensor(name).targets}

    every_s = {name: shop.sensor(name).minimum_interval_seconds for name in (DEMAND, SEALED, HEALTH)}
    assert every_s == {DEMAND: 60, SEALED: 300, HEALTH: 300}
    assert asks(DEMAND) == {"shop_orders_microbatch", "shop_users_microbatch"}
    of_health = {f"shop_{name}_{job}" for name in ("orders", "users") for job in ("health", "maintenance")}
    assert asks(HEALTH) == of_health
    assert not asks(SEALED)


def test_a_logstore_whose_settings_name_a_sensor_has_its_own_and_the_shared_one_leaves_it_out(
    shop: WatchedShop,
) -> None:
    both(shop, f"{ON}  overrides: {{{ORDERS}: {{sensors: [demand]}}}}\n")
    own = "shop_orders_demand_sensor"
    assert shop.sensors == {
        "shop_logstores_sensor": False,
        DEMAND: True,
        SEALED: True,
        HEALTH: True,
        own: True,
    }
    assert observed(shop.tick(DEMAND)) == {"shop_users_logstore": FIRST}
    assert observed(shop.tick(own)) == {"shop_orders_logstore": FIRST}
    # It named one kind; the others are shared as before.
    assert checked(shop.tick(HEALTH)).keys() == {"shop_orders_logstore", "shop_users_logstore"}
    shop.hours(1, ORDERS, USERS)
    assert touched(shop.tick(SEALED)) == {"shop_orders_sealed", "shop_users_sealed"}
    shop.split(ORDERS)
    assert not shop.tick(DEMAND).run_requests
    assert len(shop.tick(own).run_requests) == 1


def test_defaults_that_name_a_sensor_give_each_its_own_and_nobody_tells_twice(shop: WatchedShop) -> None:
    both(shop, f"    sensors: [demand]\n{ON}")
    own = [f"shop_{name}_demand_sensor" for name in ("orders", "users")]
    assert [shop.sensors.get(name) for name in own] == [True, True]
    told = [observed(shop.tick(name)) for name in shop.sensors if name.endswith("_demand_sensor")]
    assert Counter(name for each in told for name in each) == {
        "shop_orders_logstore": 1,
        "shop_users_logstore": 1,
    }


def test_an_override_that_names_none_leaves_a_logstore_to_the_shared_sensor(shop: WatchedShop) -> None:
    both(shop, f"    sensors: [demand]\n{ON}  overrides: {{{ORDERS}: {{sensors: []}}}}\n")
    assert "shop_orders_demand_sensor" not in shop.sensors
    assert observed(shop.tick(DEMAND)) == {"shop_orders_logstore": FIRST}
    assert observed(shop.tick("shop_users_demand_sensor")) == {"shop_users_logstore": FIRST}


# --- demand --------------------------------------------------------------------------------------------


def test_a_split_asks_for_one_run_of_its_logstore_and_tells_nothing_of_the_other(shop: WatchedShop) -> None:
    both(shop).tick(DEMAND)
    shop.world(ORDERS).put(5)
    shop.split(ORDERS)

    answer = shop.tick(DEMAND)

    (asked,) = answer.run_requests
    assert asked.job_name == "shop_orders_microbatch"
    assert (asked.tags[MODE_TAG], asked.tags[CLAIMS_TAG]) == ("live", "shop_orders")
    assert asked.run_key.startswith(f"drain-{shop.world(ORDERS).origin}-0@")
    assert observed(answer) == {"shop_orders_logstore": "shard 0 was split into shards 1, 2"}
    assert "shard 0 was split into shards 1, 2: a run is asked for that drains shard 0" in shop.said
    assert touched(answer) == {"shop_orders_logstore", "shop_orders_shards"}
    assert {*shop.instance.get_dynamic_partitions("shop_orders_shards")} == {"0", "1", "2"}
    assert shop.instance.get_dynamic_partitions("shop_users_shards") == ["0"]
    again = shop.tick(DEMAND)
    assert not again.run_requests and not again.asset_events


def test_it_does_what_the_sensor_of_each_logstore_would(shop: WatchedShop) -> None:
    both(shop)
    cursors: dict[str, str | None] = {}

    def alone(name: str) -> Any:
        """The tick of a sensor that this logstore has for itself; nothing of it is stored."""
        defs = definitions_of(shop.world(name).logstore)
        sensor = defs.resolve_sensor_def(f"{name.replace('-', '_')}_demand_sensor")
        assert isinstance(sensor, dg.SensorDefinition)
        cursor = cursors.get(name)
        with (
            dg.partition_loading_context(dynamic_partitions_store=shop.instance),
            dg.build_sensor_context(instance=shop.instance, cursor=cursor, definitions=defs) as context,
        ):
            answer = sensor.evaluate_tick(context)
        cursors[name] = answer.cursor
        return answer

    def of_run(asked: dg.RunRequest) -> Any:
        """All of it but which sensor asks, which Dagster writes there, and the job: here there is but one."""
        return {**asked.tags, "dagster/sensor_name": ""}, asked.asset_selection, asked.partition_key

    def compare() -> int:
        """Stores what the shared one finds, where it is what the two together find; the runs asked for."""
        own = [alone(name) for name in (ORDERS, USERS)]
        shared = shop.tick(DEMAND)
        events = [repr(event) for each in own for event in each.asset_events]
        assert sorted(map(repr, shared.asset_events)) == sorted(events)
        parts = [repr(asked) for each in own for asked in each.dynamic_partitions_requests or ()]
        assert sorted(map(repr, shared.dynamic_partitions_requests or ())) == sorted(parts)
        runs = {asked.run_key: of_run(asked) for asked in shared.run_requests}
        assert runs == {asked.run_key: of_run(asked) for each in own for asked in each.run_requests}
        return len(runs)

    assert compare() == 0
    shop.split(ORDERS)
    assert compare() == 1
    shop.split(USERS)
    shop.split(ORDERS, 1)
    assert compare() >= 1


def test_two_that_split_in_one_tick_are_two_runs(shop: WatchedShop) -> None:
    both(shop).tick(DEMAND)
    shop.split(ORDERS)
    shop.split(USERS)
    answer = shop.tick(DEMAND)
    assert jobs(answer) == ["shop_orders_microbatch", "shop_users_microbatch"]
    assert len({asked.run_key for asked in answer.run_requests}) == 2, "Dagster drops a key that it has seen"
    assert observed(answer).keys() == {"shop_orders_logstore", "shop_users_logstore"}
    assert not shop.tick(DEMAND).run_requests


def test_a_run_that_holds_the_claim_of_one_holds_up_no_drain_of_another(shop: WatchedShop) -> None:
    both(shop).tick(DEMAND)
    shop.split(ORDERS)
    shop.split(USERS)
    busy = create_run_for_test(
        shop.instance, status=dg.DagsterRunStatus.STARTED, tags={CLAIMS_TAG: "shop_orders"}
    )
    assert jobs(shop.tick(DEMAND)) == ["shop_users_microbatch"]
    quiet = shop.tick(DEMAND)
    assert not quiet.run_requests and busy.run_id in quiet.skip_message, "why there is no run"
    shop.instance.report_run_failed(busy)
    assert jobs(shop.tick(DEMAND)) == ["shop_orders_microbatch"]


# --- sealed hours --------------------------------------------------------------------------------------


def test_each_hour_is_sealed_once_for_each_logstore_whatever_becomes_of_the_cursor(shop: WatchedShop) -> None:
    shop.has(ORDERS, USERS, settings=ON)
    assert not shop.tick(SEALED).asset_events
    shop.hours(2, ORDERS, USERS)
    shop.hours(1, ORDERS)
    shop.until_quiet(SEALED)
    wanted = {
        ORDERS: [hour_text(HOUR0 + n) for n in range(3)],
        USERS: [hour_text(HOUR0 + n) for n in range(2)],
    }
    assert {name: shop.sealed(name) for name in wanted} == wanted
    shop.cursors.clear()
    assert shop.until_quiet(SEALED) == 0
    assert {name: shop.sealed(name) for name in wanted} == wanted
    shop.hours(1, USERS)
    shop.until_quiet(SEALED)
    wanted[USERS] += [hour_text(HOUR0 + n) for n in (2, 3)]
    assert {name: shop.sealed(name) for name in wanted} == wanted


def test_a_day_of_hours_is_caught_up_in_order_though_the_daemon_dies(shop: WatchedShop) -> None:
    shop.has(ORDERS, USERS, settings=ON)
    shop.hours(1, ORDERS, USERS)
    shop.admin.advance(29 * 3600)
    for name in (ORDERS, USERS):
        shop.world(name).land()
    told = Counter(event.asset_key.path[-1] for event in shop.tick(SEALED, kept=False).asset_events)
    assert told == {"shop_orders_sealed": 24, "shop_users_sealed": 24}
    assert not shop.tick(SEALED).asset_events, "they were told before the cursor was lost"
    shop.until_quiet(SEALED)
    wanted = [hour_text(HOUR0 + n) for n in range(30)]
    assert shop.sealed(ORDERS) == wanted and shop.sealed(USERS) == wanted


# --- one that fails ------------------------------------------------------------------------------------


def test_what_the_others_found_is_stored_and_a_failure_that_lasts_is_a_red_tick(shop: WatchedShop) -> None:
    both(shop)
    fault = shop.refuses(ORDERS)
    assert observed(shop.tick(DEMAND)) == {"shop_users_logstore": FIRST}
    assert "shop_orders" in shop.said and "503" in shop.said
    assert shop.instance.get_dynamic_partitions("shop_users_shards") == ["0"]
    before = shop.cursors[DEMAND]
    for _ in range(2):
        with pytest.raises(SlsError, match=r"shop.orders.*503|503.*shop.orders"):
            shop.tick(DEMAND)
    assert shop.cursors[DEMAND] == before
    shop.admin.remove(fault)
    assert observed(shop.tick(DEMAND)) == {"shop_orders_logstore": FIRST}
    assert not shop.tick(DEMAND).asset_events


def test_runs_of_others_are_asked_for_while_one_fails_and_its_own_comes_later_once(shop: WatchedShop) -> None:
    both(shop).tick(DEMAND)
    shop.split(ORDERS)
    shop.split(USERS)
    fault = shop.refuses(ORDERS)

    answer = shop.tick(DEMAND)

    assert jobs(answer) == ["shop_users_microbatch"] and touched(answer) == {
        "shop_users_logstore",
        "shop_users_shards",
    }
    assert "shop_orders" in shop.said and "503" in shop.said, "the tick's log, where no text is shown"
    with pytest.raises(SlsError, match=r"shop.orders"):
        shop.tick(DEMAND)
    shop.admin.remove(fault)
    later = shop.tick(DEMAND)
    assert jobs(later) == ["shop_orders_microbatch"]
    assert observed(later) == {"shop_orders_logstore": "shard 0 was split into shards 1, 2"}
    last = shop.tick(DEMAND)
    assert not last.run_requests and not last.asset_events
    for name in ("shop_orders", "shop_users"):
        told = shop.materialized(dg.AssetKey(["sls", f"{name}_shards"]))
        assert sorted(map(str, told)) == ["0", "1", "2"]


def test_a_red_tick_ends_with_the_first_news_of_others(shop: WatchedShop) -> None:
    both(shop).tick(DEMAND)
    shop.refuses(ORDERS)
    with pytest.raises(SlsError, match=r"shop.orders"):
        shop.tick(DEMAND)
    shop.split(USERS)
    assert jobs(shop.tick(DEMAND)) == ["shop_users_microbatch"]
    with pytest.raises(SlsError, match=r"shop.orders"):
        shop.tick(DEMAND)
    shop.landed(USERS)
    told = shop.tick(DEMAND)
    assert touched(told) == {"shop_users_shards"} and "shop_orders" in told.skip_message


def test_hours_of_others_are_sealed_while_one_fails_and_its_own_come_later_once(shop: WatchedShop) -> None:
    shop.has(ORDERS, USERS, settings=ON)
    shop.hours(2, ORDERS, USERS)
    wanted = [hour_text(HOUR0), hour_text(HOUR0 + 1)]
    fault = shop.refuses(ORDERS)
    assert touched(shop.tick(SEALED)) == {"shop_users_sealed"}
    assert "shop_orders" in shop.said
    with pytest.raises(SlsError, match=r"shop.orders"):
        shop.tick(SEALED)
    assert (shop.sealed(ORDERS), shop.sealed(USERS)) == ([], wanted)
    shop.admin.remove(fault)
    shop.until_quiet(SEALED)
    assert (shop.sealed(ORDERS), shop.sealed(USERS)) == (wanted, wanted)


def test_a_table_whose_files_somebody_deleted_stops_no_other(shop: WatchedShop) -> None:
    both(shop)
    lost = Path(shop.world(ORDERS).table.metadata_location.removeprefix("file://"))
    lost.rename(lost.with_suffix(".away"))
    assert observed(shop.tick(DEMAND)) == {"shop_users_logstore": FIRST}
    assert "shop_orders" in shop.said
    with pytest.raises(SlsError, match=r"shop.orders"):
        shop.tick(DEMAND)
    lost.with_suffix(".away").rename(lost)
    assert observed(shop.tick(DEMAND)) == {"shop_orders_logstore": FIRST}


def test_where_all_fail_the_tick_is_red_and_nothing_is_lost(shop: WatchedShop) -> None:
    both(shop).tick(DEMAND)
    shop.split(ORDERS)
    shop.split(USERS)
    before = shop.cursors[DEMAND]
    faults = [shop.refuses(name) for name in (ORDERS, USERS)]
    for _ in range(2):
        with pytest.raises(SlsError, match="503"):
            shop.tick(DEMAND)
        assert "shop_orders" in shop.said and "shop_users" in shop.said
    assert shop.cursors[DEMAND] == before
    for fault in faults:
        shop.admin.remove(fault)
    answer = shop.tick(DEMAND)
    assert jobs(answer) == ["shop_orders_microbatch", "shop_users_microbatch"]
    assert set(observed(answer).values()) == {"shard 0 was split into shards 1, 2"}


def test_a_first_look_at_which_all_fail_is_red_and_begins_anew(shop: WatchedShop) -> None:
    both(shop)
    faults = [shop.refuses(name) for name in (ORDERS, USERS)]
    with pytest.raises(SlsError, match="503"):
        shop.tick(DEMAND)
    assert DEMAND not in shop.cursors
    for fault in faults:
        shop.admin.remove(fault)
    assert observed(shop.tick(DEMAND)) == {"shop_orders_logstore": FIRST, "shop_users_logstore": FIRST}


# --- cursors -------------------------------------------------------------------------------------------


def test_a_cursor_of_somebody_else_is_a_first_look_and_one_that_was_cut(shop: WatchedShop) -> None:
    both(shop).tick(DEMAND)
    shop.tick(HEALTH)
    whole, others = shop.cursors[DEMAND], shop.cursors[HEALTH]
    assert whole and others
    half = len(whole) // 2
    flipped = f"{whole[:half]}{'a' if whole[half] != 'a' else 'b'}{whole[half + 1 :]}"
    foreign = ("junk", "[1]", '{"topology": 3}', '{"shop_orders": 7}', "null", "é\x00", "")
    for wrong in (*foreign, whole[:half], whole[:-3], whole[3:], whole[::-1], flipped, others):
        shop.cursors[DEMAND] = wrong
        told = observed(shop.tick(DEMAND))
        assert told == {"shop_orders_logstore": FIRST, "shop_users_logstore": FIRST}, (whole, wrong)
        assert not shop.tick(DEMAND).asset_events


def test_cursors_stay_the_same_texts_while_nothing_is_new(shop: WatchedShop) -> None:
    shop.has(ORDERS, USERS, settings=ON)
    shop.hours(1, ORDERS, USERS)
    for sensor in (DEMAND, SEALED, HEALTH):
        assert shop.tick(sensor).asset_events
    kept = dict(shop.cursors)
    assert all(kept.values())
    for _ in range(2):
        for sensor in kept:
            assert not shop.tick(sensor).asset_events
        assert shop.cursors == kept
    # Also after the code was loaded anew.
    shop.has(settings=ON)
    for sensor in kept:
        assert not shop.tick(sensor).asset_events
    assert shop.cursors == kept


def test_after_a_reset_all_is_told_once_more_and_no_drain_is_asked_for_twice(shop: WatchedShop) -> None:
    both(shop).tick(DEMAND)
    shop.split(ORDERS)
    (drain,) = shop.tick(DEMAND).run_requests
    shop.cursors.clear()
    again = shop.tick(DEMAND, stored=False, kept=False)
    assert [asked.run_key for asked in again.run_requests] == [drain.run_key], (
        "Dagster drops a key it has seen"
    )
    create_run_for_test(shop.instance, status=dg.DagsterRunStatus.FAILURE, tags=dict(drain.tags))
    answer = shop.tick(DEMAND)
    assert observed(answer) == {"shop_orders_logstore": FIRST, "shop_users_logstore": FIRST}
    assert not answer.run_requests, "the run is found by its tag"


def test_a_logstore_that_comes_from_its_own_sensor_is_seen_anew_and_asks_for_no_drain_twice(
    shop: WatchedShop,
) -> None:
    both(shop, f"{ON}  overrides: {{{ORDERS}: {{sensors: [demand]}}}}\n").tick(DEMAND)
    own = "shop_orders_demand_sensor"
    shop.tick(own)
    shop.split(ORDERS)
    (drain,) = shop.tick(own).run_requests
    create_run_for_test(shop.instance, status=dg.DagsterRunStatus.FAILURE, tags=dict(drain.tags))

    shop.has(settings=ON)

    answer = shop.tick(DEMAND)
    assert observed(answer) == {"shop_orders_logstore": FIRST} and not answer.run_requests
    assert own not in shop.sensors


def test_one_that_leaves_the_file_leaves_the_cursor_and_the_others_stay_in_it(shop: WatchedShop) -> None:
    both(shop.has(CARTS, settings=ON)).landed(CARTS)
    assert len(observed(shop.tick(DEMAND))) == 3
    of_three = shop.cursors[DEMAND]

    shop.has(settings=f"{ON}  exclude: {CARTS}\n")
    assert not shop.tick(DEMAND).asset_events, "the others are as they were"
    of_two = shop.cursors[DEMAND]
    assert of_two != of_three
    assert not shop.tick(DEMAND).asset_events and shop.cursors[DEMAND] == of_two

    shop.has(settings=ON)
    assert observed(shop.tick(DEMAND)) == {"shop_carts_logstore": FIRST}, "nothing of it was left"


def test_one_that_leaves_the_file_while_another_fails_takes_nothing_with_it(shop: WatchedShop) -> None:
    both(shop.has(CARTS, settings=ON)).landed(CARTS)
    shop.tick(DEMAND)
    shop.has(settings=f"{ON}  exclude: {CARTS}\n")
    shop.split(USERS)
    fault = shop.refuses(ORDERS)
    assert jobs(shop.tick(DEMAND)) == ["shop_users_microbatch"]
    shop.admin.remove(fault)
    assert not shop.tick(DEMAND).asset_events, "what the failed one had left is still there"


def test_a_logstore_that_is_new_is_looked_at_and_the_others_are_not_told_again(shop: WatchedShop) -> None:
    both(shop).tick(DEMAND)
    shop.has(CARTS, settings=ON)
    assert observed(shop.tick(DEMAND)) == {"shop_carts_logstore": FIRST}


# --- health --------------------------------------------------------------------------------------------


def test_health_of_each_is_told_once_and_runs_nothing(shop: WatchedShop) -> None:
    both(shop)
    fine = {kind.value: True for kind in OF_LOGSTORE}
    answer = shop.tick(HEALTH)
    assert checked(answer) == {"shop_orders_logstore": fine, "shop_users_logstore": fine}
    assert not answer.run_requests
    assert not shop.tick(HEALTH).asset_events


def test_a_check_that_begins_to_fail_asks_for_the_job_of_its_logstore_once(shop: WatchedShop) -> None:
    both(shop, LAGS).tick(HEALTH)
    shop.world(USERS).put(5)
    shop.admin.advance(1300)

    answer = shop.tick(HEALTH)

    assert checked(answer) == {"shop_users_logstore": {"lag": False}}
    (asked,) = answer.run_requests
    assert asked.job_name == "shop_users_health"
    assert not shop.launch(USERS, asked).success
    assert not shop.tick(HEALTH).run_requests
    shop.world(USERS).land()
    assert checked(shop.tick(HEALTH)) == {"shop_users_logstore": {"lag": True}}


def test_two_that_begin_to_fail_in_one_second_are_two_runs_with_two_keys(shop: WatchedShop) -> None:
    both(shop, LAGS).tick(HEALTH)
    for name in (ORDERS, USERS):
        shop.world(name).put(5)
    shop.admin.advance(1300)
    answer = shop.tick(HEALTH)
    assert jobs(answer) == ["shop_orders_health", "shop_users_health"]
    keys = [asked.run_key for asked in answer.run_requests]
    assert None not in keys and len(set(keys)) == 2, "Dagster drops a key that it has seen"


def test_what_health_cannot_look_at_is_a_warning_of_that_logstore_and_no_red_tick(shop: WatchedShop) -> None:
    both(shop).tick(HEALTH)
    fault = shop.refuses(ORDERS)
    assert checked(shop.tick(HEALTH)) == {"shop_orders_logstore": {"lag": False, "runway": False}}
    quiet = shop.tick(HEALTH)
    assert not quiet.asset_events and "nobody knows" in quiet.skip_message
    shop.admin.remove(fault)
    assert checked(shop.tick(HEALTH)) == {"shop_orders_logstore": {"lag": True, "runway": True}}


# --- many ----------------------------------------------------------------------------------------------


def test_more_logstores_than_are_looked_at_at_once_are_seen_in_one_tick(shop: WatchedShop) -> None:
    names = [f"shop-{n:02}" for n in range(35)]
    shop.has(*names, settings=ON)
    assert observed(shop.tick(DEMAND)) == {f"shop_{n:02}_logstore": FIRST for n in range(35)}
    shop.split(names[-1])
    assert observed(shop.tick(DEMAND)).keys() == {"shop_34_logstore"}
    assert not shop.tick(DEMAND).asset_events


def test_a_shared_sensor_is_there_once_there_is_a_logstore_that_it_looks_at(shop: WatchedShop) -> None:
    shop.has(settings=ON)
    assert shop.sensors == {"shop_logstores_sensor": False}
    shop.has(ORDERS, settings=ON)
    assert {DEMAND, SEALED, HEALTH} < {*shop.sensors}
    assert observed(shop.tick(DEMAND)) == {"shop_orders_logstore": FIRST}
    assert shop.tick(SEALED).skip_message, "nothing has landed"


def test_an_unset_endpoint_is_no_red_tick_and_its_variable_is_named(
    shop: WatchedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = shop.site.folder / "defs.yaml"
    shop.has(ORDERS, USERS, settings=ON)
    monkeypatch.delenv("SHOP_ENDPOINT", raising=False)
    endpoint = shop.around.emulator.endpoint
    file.write_text(file.read_text().replace(endpoint, "{{ env.SHOP_ENDPOINT }}"))
    shop.load()
    for name in (DEMAND, SEALED):
        answer = shop.tick(name)
        assert not answer.asset_events and "SHOP_ENDPOINT" in answer.skip_message
    monkeypatch.setenv("SHOP_ENDPOINT", endpoint)
    shop.load()
    assert observed(shop.tick(DEMAND)) == {"shop_orders_logstore": FIRST, "shop_users_logstore": FIRST}
