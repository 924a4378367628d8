"""How one tick looks at many logstores: some at a time, for so long, and whose turn is next."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest

from pipelines.components.logstore.sensors.ticks import Lookout, Sighting
from pipelines.components.shared_sensors import shared_sensor
from pipelines.landing.logstore import Logstore
from sls_io.values.errors import SlsError
from tests.worlds.dagster_home import new_dagster

Look = Callable[[dg.DagsterInstance, str], Sighting]


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with new_dagster() as found:
        yield found


def lookout(name: str, look: Look) -> Lookout:
    logstore = Logstore.model_validate(
        {
            "service": {"endpoint": "http://127.0.0.1:9", "project": "shop", "logstore": name},
            "group": "lake",
            "table": f"bronze.{name}",
            "start": "2026-01-01-00:00",
        }
    )
    return Lookout(logstore, "demand", look, 60, "Looks.")


def ticking(instance: dg.DagsterInstance, sensor: dg.SensorDefinition, cursor: str = "") -> Any:
    with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
        return sensor.evaluate_tick(context)


def quiet(_: dg.DagsterInstance, cursor: str) -> Sighting:
    return Sighting("as before", cursor or "seen")


def refused(_: dg.DagsterInstance, cursor: str) -> Sighting:
    raise SlsError(f"no look after {cursor!r}")


def test_a_look_that_hangs_is_a_failure_and_the_others_are_kept(instance: dg.DagsterInstance) -> None:
    let_go = threading.Event()

    def hangs(_: dg.DagsterInstance, cursor: str) -> Sighting:
        let_go.wait(60)
        return Sighting("too late", "late")

    sensor = shared_sensor("shop", [lookout("aaa", hangs), lookout("bbb", quiet)], ends_s=2.0)
    try:
        first = ticking(instance, sensor)
        assert first.skip_message == "aaa: its look has not ended within 2 s; bbb: as before"
        with pytest.raises(SlsError, match="aaa: its look has not ended"):
            ticking(instance, sensor, first.cursor)
    finally:
        let_go.set()
    assert ticking(instance, sensor, first.cursor).skip_message == "aaa: too late; bbb: as before"


def test_what_a_tick_has_no_time_for_is_first_in_the_next_one_also_after_a_red_one(
    instance: dg.DagsterInstance,
) -> None:
    """Forty logstores that cannot be looked at, and one more that can, behind them."""
    looked = list[str]()

    def of(name: str) -> Lookout:
        def look(_: dg.DagsterInstance, cursor: str) -> Sighting:
            looked.append(name)
            return quiet(_, cursor) if name == "last" else refused(_, cursor)

        return lookout(name, look)

    names = [*(f"logs{number}" for number in range(40)), "last"]
    sensor = shared_sensor("shop", [of(name) for name in names], begins_s=-1.0)
    none = ticking(instance, sensor)
    assert none.skip_message == "41 were left for the next tick, which begins with them"
    assert not looked

    sensor = shared_sensor("shop", [of(name) for name in names])
    all_of_them = ticking(instance, sensor)
    assert {*looked} == {*names} and "last: as before" in all_of_them.skip_message
    assert "20 more could not be looked at either" in all_of_them.skip_message
    with pytest.raises(SlsError, match="logs0: no look after ''"):
        ticking(instance, sensor, all_of_them.cursor)


def test_those_that_were_left_come_first(instance: dg.DagsterInstance) -> None:
    """Looks that wait for one another, so that exactly sixteen begin in time."""
    looked, began = list[str](), threading.Barrier(16)
    first_tick = True

    def of(name: str) -> Lookout:
        def look(_: dg.DagsterInstance, cursor: str) -> Sighting:
            looked.append(name)
            if first_tick:
                began.wait(60)
                late.wait(60)
            return quiet(_, cursor)

        return lookout(name, look)

    late = threading.Event()
    names = [f"logs{number}" for number in range(20)]
    sensor = shared_sensor("shop", [of(name) for name in names], ends_s=2.0)
    try:
        with pytest.raises(SlsError, match="4 were left for the next tick"):
            ticking(instance, sensor)
    finally:
        first_tick = False
        late.set()
    assert sorted(looked) == sorted(names[:16])
    looked.clear()
    ticking(instance, sensor)
    assert sorted(looked) == sorted(names)
    assert {*looked[:4]} & {*names[16:]}


def test_a_defect_in_one_look_is_named_by_its_kind_and_stops_no_other(instance: dg.DagsterInstance) -> None:
    def broken(_: dg.DagsterInstance, cursor: str) -> Sighting:
        raise KeyError("no such thing")

    sensor = shared_sensor("shop", [lookout("aaa", broken), lookout("bbb", quiet)])
    said = ticking(instance, sensor).skip_message
    assert said == "aaa: KeyError: 'no such thing'; bbb: as before"


def test_many_that_are_quiet_are_a_number(instance: dg.DagsterInstance) -> None:
    sensor = shared_sensor("shop", [lookout(f"logs{number}", quiet) for number in range(30)])
    said = ticking(instance, sensor).skip_message
    assert said == "30 logstores, nothing new"
