"""Another process acts between two looks of one verb: what is said and done is of one moment."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipelines.landing.doctor.trial import made
from pipelines.landing.doctor.warehouse import Scratch
from pipelines.landing.inspection.describe import describe
from pipelines.landing.inspection.landings import landings_of
from pipelines.landing.inspection.runway import runway
from pipelines.landing.inspection.verify import verify
from pipelines.landing.ledger.mirror import mirrored, standing
from pipelines.landing.ledger.start import find_table
from pipelines.landing.ledger.state import check_newest
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.maintenance.repair import plan_repair
from pipelines.landing.recovery.register import plan_register, register
from pipelines.landing.recovery.start_over import plan_start_over, start_over
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.health import Unknown
from pipelines.landing.watch.look import look
from pipelines.landing.watch.sealed import sealing
from pipelines.landing.watch.vitals import vitals
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, LandingConflict, TransportError
from sls_io.values.settings import Service
from sls_io.values.shard import Shard
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient
from tests.worlds.database_events import on_event
from tests.worlds.interrupted_catalog import interrupted
from tests.worlds.one_logstore import PROJECT, World
from tests.worlds.two_runs import At

_OLD_S = 3 * 24 * 3600
_RETENTION_S = 31 * 24 * 3600.0


class Overtaken(SlsClient):
    """Lists the shards, and then others do what `meanwhile` says, once."""

    def __init__(self, service: Service, meanwhile: Callable[[], object]) -> None:
        super().__init__(service)
        self._acts = [meanwhile]

    def shards(self) -> list[Shard]:
        found = super().shards()
        while self._acts:
            self._acts.pop()()
        return found


@contextmanager
def before_statement(begins: str, act: Callable[[], object]) -> Iterator[None]:
    """Others act before the first statement that begins so."""
    left = [act]

    def before(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(begins) and left:
            left.pop()()

    with on_event("before_cursor_execute", before):
        yield


def lose_row(world: World) -> None:
    """The catalog loses its tables."""
    path = world.lake.sqlite_path
    assert path is not None
    connection = sqlite3.connect(path, timeout=30)
    with connection:
        connection.execute("delete from iceberg_tables")
    connection.close()


def test_an_hour_is_not_complete_while_nobody_has_landed_the_children_of_a_shard_that_was_split_meanwhile(
    calm: World,
) -> None:
    """Its parent is closed in the ledger, and a list from before the split has no child."""
    calm.land_more(20)
    hour = int(calm.emulator.admin.now()) // 3600

    def split_and_land() -> None:
        calm.put(10)
        calm.emulator.admin.split(PROJECT, calm.logstore.service.logstore, 0)
        calm.put(20)
        calm.emulator.admin.set_clock((hour + 1) * HOUR_S + 120.0)
        calm.land()  # reads 0 to its end; its children are the next one's
        assert calm.ledger.shards[0].closed and {*calm.ledger.shards} == {0, 1}

    with Overtaken(calm.logstore.service, split_and_land) as overtaken:
        seen = look(calm.logstore, calm.lake, overtaken)
    assert not sealing(seen, hour, hours_max=24, start=calm.logstore.start_hour).hours
    with calm.client as client:
        seen = look(calm.logstore, calm.lake, client)
    assert not sealing(seen, hour, hours_max=24, start=calm.logstore.start_hour).hours
    calm.emulator.admin.advance(60)
    calm.land()
    calm.assert_each_log_once()


def test_landings_at_each_look_at_a_catalog_do_not_make_it_an_older_state(calm: World) -> None:
    calm.land_more(10)
    lake, catalog = interrupted(calm.lake)
    table = lake.load(calm.logstore.table)
    assert table is not None

    def land_twice() -> None:
        calm.land_more(10)
        calm.land_more(10)

    land_twice()
    catalog.loads.append(land_twice)
    check_newest(table)
    assert not catalog.loads


def test_a_first_landing_makes_the_namespace_again_that_a_look_of_doctor_takes_away(calm: World) -> None:
    lake, catalog = interrupted(calm.lake)
    doctor = Scratch(calm.logstore, calm.lake, SYSTEM_CLOCK)
    assert [*made(doctor.questions())]
    catalog.namespaces.append(doctor.dropped)
    calm.put(10, pass_s=60)
    calm.land(lake=lake)
    calm.assert_each_log_once()


def test_doctor_leaves_a_namespace_in_which_a_first_landing_has_made_its_table(calm: World) -> None:
    doctor = Scratch(calm.logstore, calm.lake, SYSTEM_CLOCK)
    assert [*made(doctor.questions())]
    calm.land_more(10)
    assert doctor.dropped() == "the table and its files are gone"
    calm.assert_each_log_once()


def test_a_run_that_lands_while_shards_are_described_is_not_a_table_that_was_further(calm: World) -> None:
    calm.land_more(10)
    lake, catalog = interrupted(calm.lake)
    catalog.loads.append(lambda: calm.land_more(10))
    with calm.client as client:
        views = describe(calm.logstore, lake.one_look(), client)
        assert not catalog.loads and not [view.shard for view in views if view.ahead]
        for loads in range(4):
            catalog.loads.extend([*[lambda: None] * loads, lambda: calm.land_more(10)])
            moves = plan_repair(calm.logstore, lake, client)
            catalog.loads.clear()
            assert not [move.shard for move in moves if move.difference == "ahead"], loads


def test_a_table_that_was_registered_meanwhile_is_not_called_a_new_one(calm: World) -> None:
    calm.land_more(10)
    lose_row(calm)
    with calm.client as client:
        decided = plan_start_over(calm.lake, calm.logstore, client)
        register(calm.lake, plan_register(calm.lake, calm.logstore, client))
    with pytest.raises(LandingConflict, match="says something else of"):
        start_over(calm.lake, decided)
    calm.assert_each_log_once()


def test_a_run_that_lands_while_newer_metadata_is_looked_for_leaves_nothing_to_register(calm: World) -> None:
    calm.land_more(10)
    lake, catalog = interrupted(calm.lake)
    catalog.loads.append(lambda: calm.land_more(10))
    with calm.client as client, pytest.raises(ConfigError, match=r"the newest metadata of table .* already"):
        plan_register(lake, calm.logstore, client)
    assert not catalog.loads


def test_a_mirror_that_another_run_has_moved_on_meanwhile_is_not_behind(calm: World, tmp_path: Path) -> None:
    calm.logstore = calm.changed(mirror=f"sql:sqlite:///{tmp_path}/mirror.sqlite")
    calm.land_more(10)
    calm.put(10, pass_s=60)
    with calm.run() as run:
        run.land()
        with before_statement("BEGIN IMMEDIATE", lambda: calm.land_more(10)):
            told = mirrored(calm.logstore, calm.lake)
    assert told is not None and not told.trouble
    assert (told.behind, told.lag_s, told.ahead) == (0, 0.0, 0)


def test_a_first_landing_while_a_look_goes_on_is_no_table_that_was_lost(calm: World) -> None:
    """The look keeps what it has found, that there is no table; the group has checkpoints by then."""
    look_at = calm.lake.one_look()
    assert look_at.load(calm.logstore.table) is None
    calm.land_more(10)
    with calm.client as client:
        assert find_table(look_at, calm.logstore, client) is not None
        describe(calm.logstore, look_at, client)


def test_a_mirror_that_moves_on_while_a_look_goes_on_is_not_ahead_of_its_table(
    calm: World, tmp_path: Path
) -> None:
    calm.logstore = calm.changed(mirror=f"file:{tmp_path}/mirror.json")
    calm.land_more(10)
    look_at = calm.lake.one_look()
    assert look_at.load(calm.logstore.table) is not None
    calm.land_more(10)
    with calm.client as client:
        told = standing(calm.logstore, look_at, client)
    assert (told.ahead, told.behind, told.trouble) == (0, 0, "")


def maintained(world: World) -> None:
    """Hours are written together, and their files, which are days old, leave with all older snapshots."""
    at = SYSTEM_CLOCK.now() - _OLD_S
    for path in Path(world.table.location().removeprefix("file://")).rglob("*"):
        os.utime(path, (at, at))
    done = Maintainer(world.logstore, world.lake, snapshots_max=2).execute()
    assert done.expired and done.swept


def proven(world: World, lake: Lake) -> object:
    with world.client as client:
        return verify(world.logstore, lake, client)


def listed(world: World, lake: Lake) -> object:
    return landings_of(world.logstore, lake)


def planned(world: World, lake: Lake) -> object:
    return Maintainer(world.logstore, lake).plan(["sweep"])


@pytest.mark.parametrize("ask", [proven, listed, planned])
def test_files_that_a_maintenance_takes_while_somebody_looks_are_not_lost(
    calm: World, ask: Callable[[World, Lake], object]
) -> None:
    calm.land_hours(3)
    lake, catalog = interrupted(calm.lake)
    catalog.loads.append(lambda: maintained(calm))
    with pytest.raises(TransportError, match="were expired while it was looked at"):
        ask(calm, lake)
    assert not catalog.loads
    ask(calm, lake)
    calm.assert_proved()


def test_files_that_a_maintenance_takes_while_health_is_looked_at_are_not_known_to_be_lost(
    calm: World,
) -> None:
    calm.land_hours(3)
    lake, catalog = interrupted(calm.lake)
    catalog.loads.append(lambda: maintained(calm))
    with calm.client as client:
        found = vitals(calm.logstore, lambda: lake, lambda: client)
        assert isinstance(found.reconciled, Unknown), found.reconciled
        assert vitals(calm.logstore, lambda: lake, lambda: client).reconciled == ()


def test_a_run_that_builds_on_what_a_maintenance_takes_meanwhile_finds_nothing_lost(calm: World) -> None:
    calm.land_hours(3, more=10)
    with pytest.raises(TransportError, match="were expired while it was looked at"):
        calm.land(on_event=At("publish", lambda: maintained(calm)))
    calm.land()
    calm.assert_sound()


def land_and_lose(world: World) -> None:
    """What waits lands, and then retention takes it."""
    world.land()
    world.emulator.admin.advance(_RETENTION_S)
    world.put(5)


def test_what_lands_while_a_proof_is_taken_is_not_lost_to_retention(calm: World) -> None:
    calm.begun(10, 10)
    lake, catalog = interrupted(calm.lake)
    catalog.loads.append(lambda: land_and_lose(calm))
    with calm.client as client:
        proof = verify(calm.logstore, lake, client)
    assert not catalog.loads and proof.ok
    assert not [note for shard in proof.shards for note in shard.notes if "lost" in note]


def test_what_lands_while_the_runway_is_looked_at_is_not_lost_to_retention(calm: World) -> None:
    calm.begun(10, 10)
    lake, catalog = interrupted(calm.lake)
    catalog.loads.append(lambda: land_and_lose(calm))
    with calm.client as client:
        assert not runway(calm.logstore, lake.one_look(), client).lost
        assert not catalog.loads
        calm.emulator.admin.advance(_RETENTION_S)
        calm.put(5)
        assert runway(calm.logstore, lake, client).lost, "what has not landed is"
