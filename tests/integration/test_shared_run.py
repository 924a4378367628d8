"""One run that lands all logstores of an `SlsProject`: one Spark, and each logstore for itself."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from pipelines.components.logstore.schedule import CLAIMS_TAG, MODE_TAG
from pipelines.definitions import loaded
from pipelines.landing.projects import keep, refreshed
from sls_io.wire.client import SlsClient
from tests.integration.followed_site import Followed, followed
from tests.worlds.dagster_home import dagster_in
from tests.worlds.one_logstore import World, group, patient, use_catalog

pytestmark = pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning")
_numbers = itertools.count()
ORDERS, USERS = (dg.AssetKey(["sls", f"shop_{name}_checkpoint"]) for name in ("orders", "users"))
NAME = "shop_logstores"


@dataclass
class Shop:
    """Two logstores with some logs each, and the definitions as a process has them that loads the code."""

    world: World
    site: Followed
    instance: dg.DagsterInstance
    defs: dg.Definitions = field(init=False)

    def __post_init__(self) -> None:
        self.site.make("shop-orders", "shop-users")
        keep(refreshed(self.site.folder / "defs.yaml", self.site.package.parent))
        for name, count in (("shop-orders", 3), ("shop-users", 4)):
            with SlsClient(patient(self.world.emulator, name)) as client:
                client.put_raw(group([{"n": str(n), "status": "200"} for n in range(count)]))
        self.world.emulator.admin.advance(3600)
        self.defs = loaded(self.site.package)

    def tick(self, name: str = f"{NAME}_schedule") -> dg.RunRequest | str:
        """What a schedule asks for, or why not."""
        schedule = self.defs.resolve_schedule_def(name)
        with dg.build_schedule_context(self.instance) as context:
            answer = schedule.evaluate_tick(context)
        return answer.run_requests[0] if answer.run_requests else str(answer.skip_message)

    def run(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        """The run that was asked for."""
        job = self.defs.resolve_job_def(f"{NAME}_microbatch")
        part = job.get_subset(asset_selection=set(request.asset_selection or ()))
        return part.execute_in_process(instance=self.instance, tags=dict(request.tags), raise_on_error=False)

    def rows(self, name: str) -> int:
        """Rows of the logstore's table."""
        table = self.world.lake.load(f"bronze.shop_{name}")
        return 0 if table is None else table.scan().to_arrow().num_rows


@pytest.fixture
def make_shop(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Shop]]:
    """Makes one with a line of settings more."""
    use_catalog(world.lake, monkeypatch)
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path / "home"))
    with dagster_in(tmp_path / "dagster") as instance:

        def make(line: str) -> Shop:
            site = followed(world.emulator, tmp_path / "own", f"shared_{next(_numbers)}", sensors=line)
            return Shop(world, site, instance)

        yield make


@pytest.fixture
def shop(make_shop: Callable[[str], Shop]) -> Shop:
    return make_shop("  schedule: H/5 * * * *\n")


def test_all_of_them_land_in_one_run_with_one_spark(shop: Shop) -> None:
    asked = shop.tick()
    assert isinstance(asked, dg.RunRequest)
    assert set(asked.asset_selection or ()) == {ORDERS, USERS}

    done = shop.run(asked)

    assert done.success
    assert (shop.rows("orders"), shop.rows("users")) == (3, 4)
    told = {event.asset_key for event in done.get_asset_materialization_events()}
    assert {ORDERS, USERS} <= told
    begun = [
        record
        for record in shop.instance.all_logs(done.run_id)
        if record.is_dagster_event and record.get_dagster_event().event_type_value == "RESOURCE_INIT_STARTED"
    ]
    assert len(begun) == 1


def test_one_that_fails_stops_no_other_and_makes_the_run_red(shop: Shop) -> None:
    asked = shop.tick()
    assert isinstance(asked, dg.RunRequest)
    shop.site.delete("shop-orders")

    done = shop.run(asked)

    assert not done.success
    assert (shop.rows("orders"), shop.rows("users")) == (0, 4)


def test_who_is_first_holds_the_claim_and_is_left_out_by_the_other(shop: Shop) -> None:
    own = create_run_for_test(
        shop.instance, status=dg.DagsterRunStatus.STARTED, tags={CLAIMS_TAG: "shop_users", MODE_TAG: "live"}
    )
    asked = shop.tick()
    assert isinstance(asked, dg.RunRequest)
    assert asked.asset_selection == [ORDERS]
    assert own.run_id in str(shop.tick("shop_users_schedule"))

    shared = create_run_for_test(
        shop.instance,
        status=dg.DagsterRunStatus.STARTED,
        tags=dict(asked.tags),
        asset_selection=frozenset(asked.asset_selection),
    )
    assert shared.run_id in str(shop.tick("shop_orders_schedule"))
    assert own.run_id in str(shop.tick("shop_users_schedule"))
    assert shared.run_id in str(shop.tick())


def test_a_whole_job_that_somebody_launched_holds_the_claim_on_each_of_its_logstores(shop: Shop) -> None:
    """`dagster job launch` makes a run that selects no asset."""
    job = shop.defs.resolve_job_def(f"{NAME}_microbatch")
    whole = shop.instance.create_run_for_job(job, tags=job.tags, status=dg.DagsterRunStatus.STARTED)
    assert whole.asset_selection is None

    for name in ("shop_orders", "shop_users"):
        assert whole.run_id in str(shop.tick(f"{name}_schedule"))
    assert whole.run_id in str(shop.tick())

    shop.instance.report_run_canceled(whole)
    assert isinstance(shop.tick("shop_orders_schedule"), dg.RunRequest)


def test_without_the_setting_each_has_runs_of_its_own_alone(make_shop: Callable[[str], Shop]) -> None:
    jobs = {job.name for job in make_shop("").defs.resolve_all_job_defs()}
    assert {"shop_orders_microbatch", "shop_users_microbatch"} <= jobs
    assert f"{NAME}_microbatch" not in jobs
