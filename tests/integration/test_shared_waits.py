"""Logs that wait too long, seen by the sensor that the logstores of a project share."""

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from pipelines.components.logstore.schedule import CLAIMS_TAG, MODE_TAG
from tests.integration.shop_site import CARTS, DEMAND, HEALTH, ON, ORDERS, USERS, WatchedShop, both, jobs

pytestmark = pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning")

WAITS = "    health: {lag_s: [1200, 7200]}\n" + ON


def test_logs_that_wait_too_long_ask_for_a_run_of_their_logstore_alone(shop: WatchedShop) -> None:
    both(shop, WAITS).tick(DEMAND)
    shop.world(USERS).put(5)
    shop.admin.advance(1000)
    answer = shop.tick(DEMAND)
    assert jobs(answer) == ["shop_users_microbatch"] and not answer.asset_events
    assert "a run was asked for" in shop.tick(DEMAND).skip_message, "the cursor knows it"
    assert shop.launch(USERS, answer.run_requests[0]).success
    assert not shop.tick(DEMAND).run_requests
    shop.world(USERS).assert_each_log_once()


def test_where_one_run_lands_them_all_those_that_wait_too_long_are_one_run(shop: WatchedShop) -> None:
    """One Spark for those that wait; a drain has a run of its own, and so has who waits while the run that
    they share is at work."""
    shop.has(ORDERS, USERS, CARTS, settings=WAITS + "  schedule: H/5 * * * *\n")
    shop.landed(ORDERS, USERS, CARTS).tick(DEMAND)
    for name in (USERS, CARTS):
        shop.world(name).put(5)
    shop.split(ORDERS)
    shop.admin.advance(1000)
    answer = shop.tick(DEMAND, kept=False)
    assert jobs(answer) == ["shop_logstores_microbatch", "shop_orders_microbatch"]
    targets = {each: {job.name for job in shop.sensor(each).jobs} for each in (DEMAND, HEALTH)}
    assert "shop_logstores_microbatch" in targets[DEMAND] - targets[HEALTH]
    shared = next(asked for asked in answer.run_requests if asked.asset_selection)
    waiting = {dg.AssetKey(["sls", f"shop_{name}_checkpoint"]) for name in ("carts", "users")}
    assert {*shared.asset_selection} == waiting
    for name in (USERS, CARTS):
        shop.world(name).land()
    assert jobs(shop.tick(DEMAND, kept=False)) == ["shop_orders_microbatch"], "the others have landed"

    for name in (USERS, CARTS):
        shop.world(name).put(5)
    shop.admin.advance(1000)
    tags = {tag: value for tag, value in shared.tags.items() if tag in (CLAIMS_TAG, MODE_TAG)}
    create_run_for_test(
        shop.instance,
        status=dg.DagsterRunStatus.STARTED,
        tags=tags,
        asset_selection=frozenset({dg.AssetKey(["sls", "shop_orders_checkpoint"])}),
    )
    assert jobs(shop.tick(DEMAND)) == ["shop_carts_microbatch", "shop_users_microbatch"]
