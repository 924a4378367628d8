"""The sensor of an `SlsProject`: new logstores are kept and loaded, and no answer takes one away."""

import itertools
import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines.dagster_client import URL_VARIABLE
from pipelines.definitions import loaded
from pipelines.landing.project_file import KEPT, read_kept, read_project
from sls_io.values.errors import ConfigError, ServiceError, TransportError
from tests.integration.followed_site import Followed, followed
from tests.worlds.graphql_server import answering, data
from tests.worlds.one_logstore import PROJECT, World
from tests.worlds.projects import NOWHERE, settings_of

pytestmark = pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated:DeprecationWarning")
_numbers = itertools.count()


@pytest.fixture
def shop(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Followed:
    """Two logstores that the pattern names, and one that it does not."""
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    site = followed(world.emulator, tmp_path / "own", f"followed_{next(_numbers)}")
    site.make("shop-orders", "shop-users", "office-mail")
    return site


def sensor_of(site: Followed) -> dg.SensorDefinition:
    """The sensor as a process has it that loads the code now."""
    found = loaded(site.package).resolve_sensor_def("shop_logstores_sensor")
    assert isinstance(found, dg.SensorDefinition)
    return found


def tick(sensor: dg.SensorDefinition, cursor: str | None = None) -> tuple[str, str]:
    """What a tick says, and its cursor; nothing is ever launched."""
    with dg.build_sensor_context(cursor=cursor) as context:
        answer = sensor.evaluate_tick(context)
    assert not answer.run_requests and answer.skip_message and answer.cursor
    return answer.skip_message, answer.cursor


def names(site: Followed) -> set[str]:
    """The logstores with definitions, as a process has them that loads the code now."""
    jobs = loaded(site.package).resolve_all_job_defs()
    return {job.name.removesuffix("_microbatch") for job in jobs if job.name.endswith("_microbatch")}


def test_new_logstores_are_kept_and_the_button_is_named_once_a_change(shop: Followed) -> None:
    sensor = sensor_of(shop)
    assert names(shop) == set()

    said, cursor = tick(sensor)
    assert said.startswith("2 new: shop-orders, shop-users: press Reload beside sls_lake")
    assert URL_VARIABLE in said
    again, cursor = tick(sensor, cursor)
    assert "still not loaded, as was said" in again and "press" not in again
    shop.make("shop-carts")
    said, cursor = tick(sensor, cursor)
    assert said.startswith("3 new: shop-carts") and "press Reload" in said

    assert names(shop) == {"shop_orders", "shop_users", "shop_carts"}
    quiet, cursor = tick(sensor_of(shop), cursor)
    assert quiet == "3 logstores, none is new"
    # Whoever begins with an older list once more is told once more.
    (shop.folder / KEPT).unlink()
    assert "press Reload" in tick(sensor, cursor)[0]


def test_the_page_is_asked_once_a_change_to_load_the_code_again(
    shop: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    sensor, asked = sensor_of(shop), list[dict[str, Any]]()
    entry = {
        "__typename": "WorkspaceLocationEntry",
        "loadStatus": "LOADED",
        "locationOrLoadError": {"__typename": "RepositoryLocation"},
    }
    with answering(data(reloadRepositoryLocation=entry), asked) as url:
        monkeypatch.setenv(URL_VARIABLE, url)
        said, cursor = tick(sensor)
        assert (
            said
            == "2 new: shop-orders, shop-users: the code location sls_lake was told to load its code again"
        )
        # A code server that others start goes on as it is.
        assert "still not loaded" in tick(sensor, cursor)[0]
    assert [each["variables"] for each in asked] == [{"location": "sls_lake"}]


@pytest.mark.parametrize(
    "answer",
    [
        {"__typename": "ReloadNotSupported", "message": "no"},
        {
            "__typename": "WorkspaceLocationEntry",
            "locationOrLoadError": {"__typename": "PythonError", "message": "no"},
        },
    ],
)
def test_a_page_that_does_not_load_it_leaves_the_button(
    shop: Followed, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    with answering(data(reloadRepositoryLocation=answer)) as url:
        monkeypatch.setenv(URL_VARIABLE, url)
        said, _ = tick(sensor_of(shop))
    assert "did not load the code location again" in said and "press Reload" in said


def test_a_page_out_of_reach_is_a_red_tick_and_is_asked_again(
    shop: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL_VARIABLE, NOWHERE)
    sensor = sensor_of(shop)
    for _ in range(2):
        with pytest.raises(TransportError, match=f"no page answers at {NOWHERE}"):
            tick(sensor)
    assert set(read_kept(shop.folder)) == {"shop-orders", "shop-users"}, "what was found stays"


def test_no_answer_takes_a_logstore_away(shop: Followed) -> None:
    sensor = sensor_of(shop)
    _, cursor = tick(sensor)
    before = (shop.folder / KEPT).read_bytes()
    admin = shop.emulator.admin

    outage = admin.fault("error", call="list_logstores", times=None, status=503)
    with pytest.raises((ServiceError, TransportError)):
        tick(sensor, cursor)
    admin.remove(outage)
    assert (shop.folder / KEPT).read_bytes() == before
    shop.delete("shop-users")
    said, _ = tick(sensor_of(shop), cursor)
    assert "they stay: shop-users" in said and (shop.folder / KEPT).read_bytes() == before
    assert names(shop) == {"shop_orders", "shop_users"}


def test_a_logstore_with_which_nothing_would_load_is_not_kept(shop: Followed) -> None:
    """Whoever may make a logstore must not be able to stop the others: its table's name would be none."""
    text = (shop.folder / "defs.yaml").read_text().replace("[shop-*]", '["shop-*", "*-mail"]')
    text = text.replace("bronze.{logstore}", "'{logstore}.rows_of_{logstore}'")
    (shop.folder / "defs.yaml").write_text(text)
    shop.make("9-mail")
    said, _ = tick(sensor_of(shop))
    assert said.startswith("3 new: office-mail, shop-orders, shop-users")
    assert "not kept, since it would not load" in said and "9-mail" in said
    assert names(shop) == {"rows_of_office_mail", "rows_of_shop_orders", "rows_of_shop_users"}


@pytest.mark.parametrize("name", ["shop-users-proof", "shop-orders-maintenance", "shop-users-sealed"])
def test_one_that_would_be_what_belongs_to_another_is_not_kept(shop: Followed, name: str) -> None:
    """Dagster would find two schedules, or two assets, of one name, and load nothing at all."""
    shop.make(name)
    said, _ = tick(sensor_of(shop))
    assert said.startswith("2 new: shop-orders, shop-users") and f"({name}): its table makes it" in said
    assert names(shop) == {"shop_orders", "shop_users"}
    shop.make("shop-logstores")
    assert "(shop-logstores): its table makes it" in tick(sensor_of(shop))[0]
    assert names(shop) == {"shop_orders", "shop_users"}


def test_a_name_that_another_file_has_is_not_kept_and_stops_no_other(shop: Followed) -> None:
    sensor = sensor_of(shop)
    (shop.folder.parent / "mine").mkdir()
    (shop.folder.parent / "mine" / "defs.yaml").write_text(
        settings_of("mine", table="other.shop_users", start="2026-01-01-00:00")
    )
    said, _ = tick(sensor)
    assert "(shop-users): its table makes it the logstore shop_users, beside what is called" in said
    assert read_kept(shop.folder).keys() == {"shop-orders"}


def test_the_sensor_is_off_until_somebody_turns_it_on(world: World, tmp_path: Path, shop: Followed) -> None:
    assert sensor_of(shop).default_status is dg.DefaultSensorStatus.STOPPED
    module = f"followed_{next(_numbers)}"
    on = followed(world.emulator, tmp_path / "on", module, sensors="  sensors: [logstores]\n")
    assert sensor_of(on).default_status is dg.DefaultSensorStatus.RUNNING
    file = on.folder / "defs.yaml"
    file.write_text(file.read_text().replace("[logstores]", "[nightly]"))
    with pytest.raises(ConfigError, match=r"sensors.*'logstores'"):
        read_project(file)


def test_what_it_keeps_names_logstores_and_hours_alone(shop: Followed) -> None:
    tick(sensor_of(shop))
    kept = json.loads((shop.folder / KEPT).read_text())
    assert kept["logstores"].keys() == {"shop-orders", "shop-users"}
    assert {*kept["logstores"]["shop-orders"]} == {"start"} and PROJECT not in str(kept)
