"""Dagster's page as a person uses it: switches, one batch now, hours, a backfill, a failed check, a split.

The tests are one story on one server, in this order; each gesture is one of `docs/tutorial.md`. With
`SCREENSHOTS=docs/images` they make the pictures of the docs anew.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect, sync_playwright

from pipelines.landing.hours import hour_text
from sls_io.values.window import HOUR_S
from tests import needs
from tests.browser.person import Person
from tests.browser.site import HOURS, Site, opened, rows_of
from tests.worlds.one_logstore import PROJECT

pytestmark = [pytest.mark.browser, pytest.mark.dagster, pytest.mark.slow]

OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
"""It works as root, and asks nobody but the page."""
ORDERS = [
    {"order_id": 1, "amount": "12.00", "placed": "2026-11-20T09:12:00Z", "item": "tea"},
    {"order_id": 2, "amount": "7.00", "placed": "2026-11-20T09:14:30Z", "item": "cup"},
    {"order_id": 3, "amount": "3.50", "placed": "2026-11-20T09:15:10Z", "item": "milk"},
]
NONE_MISSING = re.compile(r"Missing \([01]\)")
"""An hour that has begun since the test did is missing until something of it has landed."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    needs.browser()
    with opened(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture(scope="module")
def me(site: Site) -> Iterator[Person]:
    """Somebody with a browser that has been nowhere before."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.browser(), args=OPTIONS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 720}, timezone_id="UTC")
            yield Person(page, site.server)
        finally:
            browser.close()


def test_a_schedule_and_a_sensor_are_turned_on_by_their_switches(me: Person) -> None:
    me.turn_on("schedules", "access_logs_schedule")
    me.sees("Next tick")
    me.turn_on("sensors", "shop_demand_sensor")


def test_one_batch_now_shows_hours_plots_and_checks(me: Person, site: Site) -> None:
    me.run_now("access_logs_now")
    hour = site.first_hour + HOURS // 2
    me.open(f"assets/bronze/access_logs?view=partitions&partition={hour_text(hour)}", "rows with errors")
    me.sees(f"Materialized ({HOURS + 1})")
    me.sees(NONE_MISSING)
    rows = me.page.get_by_role("row", name=re.compile("^rows "))
    expect(rows.first).to_contain_text(str(rows_of(hour)))
    me.keep("hours")
    me.open("assets/bronze/access_logs", "Latest check results")
    me.press("Plots")
    me.sees("lag (s)")
    me.page.mouse.wheel(0, 2000)
    me.keep("plots")
    me.check("bronze/access_logs", "reconciled", "Passed")
    # The button leaves these checks out of its run: they must be told all the same.
    expect(me.page.get_by_text("Not Evaluated")).to_have_count(0)
    me.open("locations/sls_lake/asset-groups/access_logs/lineage", "access_logs_sealed")
    me.keep("lineage")


def test_a_typed_range_with_the_tag_of_a_mode_replaces_hours_in_one_backfill(me: Person, site: Site) -> None:
    first, last = site.first_hour + 2, site.first_hour + 4
    me.materialize(
        "access_logs",
        f"[{hour_text(first)}...{hour_text(last)}]",
        mode="replace",
        config="ops: {bronze__access_logs: {config: {execute: true}}}",
        picture="backfill",
    )
    me.view()
    me.sees("100% completed")
    me.open(f"assets/bronze/access_logs?view=partitions&partition={hour_text(last)}", "rows replaced")
    rows = me.page.get_by_role("row", name=re.compile("^rows replaced "))
    expect(rows.first).to_contain_text(str(rows_of(last)))
    site.worlds["access_logs"].assert_each_log_once()


def test_a_broken_contract_is_read_from_the_failed_check_and_mended_from_the_page(
    me: Person, site: Site
) -> None:
    site.order(*ORDERS)
    me.run_now("shop_now")
    site.edit("shop", "timestamp(iso)", "timestamp(epoch_s)")
    me.reload()
    begun = int(site.worlds["shop"].emulator.admin.now()) // HOUR_S
    site.order(*ORDERS)
    me.run_now("shop_now")
    me.check("sls/shop_logstore", "errors", "Failed")
    me.sees("placed is not timestamp")
    me.keep("failed-check")
    site.edit("shop", "timestamp(epoch_s)", "timestamp(iso)")
    me.reload()
    ended = int(site.worlds["shop"].emulator.admin.now()) // HOUR_S
    me.materialize(
        "shop",
        f"[{hour_text(begun)}...{hour_text(ended)}]",
        mode="errors",
        config="ops: {bronze__shop: {config: {execute: true}}}",
    )
    me.view()
    me.run_succeeds()
    me.check("sls/shop_logstore", "errors", "Passed")
    rows = site.worlds["shop"].table_rows()
    assert len(rows) == 6 and all(row["placed"] is not None for row in rows)


def test_a_split_is_followed_from_the_tick_of_the_sensor_to_the_drain_run(me: Person, site: Site) -> None:
    world = site.worlds["shop"]
    world.emulator.admin.split(PROJECT, "shop", 0)
    site.order(*ORDERS)
    me.open("locations/sls_lake/sensors/shop_demand_sensor", "1 run requested")
    me.keep("split")
    me.press("1 run requested")
    me.page.get_by_role("dialog").get_by_role("link").first.click()
    me.run_succeeds()
    assert world.ledger.shards[0].closed
    me.open("assets/sls/shop_logstore?view=events", "shard 0 was split into shards 2, 3")
    me.open("assets/sls/shop_shards?view=partitions&partition=2", "open: takes logs")
    me.sees("Missing (0)")
    me.keep("shards")
