"""One run that lands all logstores of an `SlsProject`: one Spark, and each logstore for itself."""

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from chaos.in_dagster import Here
from pipelines.components.component import pruned_jobs
from pipelines.components.logstore.pruning import prune_op
from pipelines.components.logstore.schedule import CLAIMS_TAG, MODE_TAG
from pipelines.components.logstore.spark import RESOURCE_KEY
from pipelines.definitions import loaded
from pipelines.landing.logstore import load_member
from pipelines.landing.projects import keep, refreshed
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from sls_io.wire.client import SlsClient
from tests.integration.followed_site import Followed, followed
from tests.worlds.dagster_home import dagster_in
from tests.worlds.dagster_page import DAY_S
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
            self.put(name, count)
        self.world.emulator.admin.advance(3600)
        self.defs = loaded(self.site.package)

    def tick(self, name: str = f"{NAME}_schedule") -> dg.RunRequest | str:
        """What a schedule asks for, or why not."""
        schedule = self.defs.resolve_schedule_def(name)
        with dg.build_schedule_context(self.instance) as context:
            answer = schedule.evaluate_tick(context)
        return answer.run_requests[0] if answer.run_requests else str(answer.skip_message)

    def run(
        self, request: dg.RunRequest, resources: Mapping[str, Any] | None = None
    ) -> dg.ExecuteInProcessResult:
        """The run that was asked for."""
        job = self.defs.resolve_job_def(f"{NAME}_microbatch")
        part = job.get_subset(asset_selection=set(request.asset_selection or ()))
        return part.execute_in_process(
            instance=self.instance, tags=dict(request.tags), resources=resources, raise_on_error=False
        )

    def put(self, name: str, count: int) -> None:
        """Logs of a logstore of the service."""
        with SlsClient(patient(self.world.emulator, name)) as client:
            client.put_raw(group([{"n": str(n), "status": "200"} for n in range(count)]))

    def prune(self, name: str, *, days_later: float) -> int:
        """How many runs the step of this logstore deletes then."""
        each = [load_member(self.site.folder / "defs.yaml", f"shop_{one}") for one in ("orders", "users")]
        (own,) = [one for one in each if one.name == f"shop_{name}"]
        told = pruned_jobs((), [own])
        clock = ManualClock(SYSTEM_CLOCK.now() + days_later * DAY_S)
        shared = partial(pruned_jobs, [f"{NAME}_microbatch"], each)
        prune = prune_op(own, told.assets, told.checks, shared=shared, clock=clock)

        @dg.job
        def alone() -> None:
            prune()

        before = self.instance.get_runs_count()
        assert alone.execute_in_process(instance=self.instance).success
        return before + 1 - self.instance.get_runs_count()

    def old_run(self, *asked: dg.AssetKey) -> str:
        """A shared run that ended well 15 days ago, and told nothing."""
        at, storage = datetime.fromtimestamp(SYSTEM_CLOCK.now() - 15 * DAY_S, UTC), self.instance.run_storage
        run = dg.DagsterRun(
            job_name=f"{NAME}_microbatch",
            run_id=str(uuid.uuid4()),
            status=dg.DagsterRunStatus.STARTED,
            asset_selection=frozenset(asked),
        )
        storage.add_historical_run(run, at)
        ended = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, run.job_name)
        storage.handle_run_event(run.run_id, ended, at)
        return run.run_id

    def there(self, *runs: str) -> list[str]:
        """Those of these runs that Dagster has."""
        return [run for run in runs if self.instance.has_run(run)]

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


def test_an_old_shared_run_goes_once_it_has_nobodys_newest_word(shop: Shop) -> None:
    def lands(*names: str) -> str:
        for name in names:
            shop.put(f"shop-{name}", 2)
        shop.world.emulator.admin.advance(60)
        asked = shop.tick()
        assert isinstance(asked, dg.RunRequest)
        keys = [dg.AssetKey(["sls", f"shop_{name}_checkpoint"]) for name in names]
        done = shop.run(asked._replace(asset_selection=keys), resources={RESOURCE_KEY: Here()})
        assert done.success
        return done.run_id

    first, second, third = lands("orders", "users"), lands("orders", "users"), lands("orders")

    assert shop.prune("orders", days_later=15) == 0, "the second has the newest word of users"
    fourth = lands("orders", "users")
    assert shop.prune("users", days_later=15.4) == 0, "somebody looked less than half a day before"
    assert shop.prune("users", days_later=15.6) == 2
    assert shop.prune("orders", days_later=17) == 0
    assert shop.there(first, second, third, fourth) == [first, fourth], "the first has that of another hour"


def test_the_maintenance_of_any_of_them_deletes_old_shared_runs_but_not_those_of_who_left(shop: Shop) -> None:
    left = dg.AssetKey(["sls", "shop_carts_checkpoint"])
    old = [shop.old_run(ORDERS, USERS), shop.old_run(USERS), shop.old_run(USERS, left)]
    job = shop.defs.resolve_job_def("shop_users_maintenance")

    done = job.execute_in_process(instance=shop.instance, op_selection=["prune__shop_users"])

    assert done.success
    assert shop.there(*old) == old[2:]


def test_without_the_setting_each_has_runs_of_its_own_alone(make_shop: Callable[[str], Shop]) -> None:
    jobs = {job.name for job in make_shop("").defs.resolve_all_job_defs()}
    assert {"shop_orders_microbatch", "shop_users_microbatch"} <= jobs
    assert f"{NAME}_microbatch" not in jobs
