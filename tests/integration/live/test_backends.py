"""The landing contract on other catalogs and storages: PostgreSQL and REST, a disk and S3.

What the other files prove at length on SQLite and a disk is asked again of every place, by the same code,
once for each promise. Rows are counted by an independent reader: pyarrow opens the files, DuckDB counts.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.engine import InProcess
from pipelines.landing.commit.planned import execute
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.recovery import register, start_over
from pipelines.landing.recovery.adopt import plan_adopt
from pipelines.landing.run.report import LandingReport
from pipelines.landing.table.commands import REGISTER
from pipelines.landing.table.lake import Lake
from sls_io.emulator import start
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError, LedgerBroken
from tests import needs
from tests.backends.places import PLACES, Place, Servers, made
from tests.worlds.beside_servers import counted, proved, world
from tests.worlds.changed_table import roll_back
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World, new_world
from tests.worlds.three_hours import replaced
from tests.worlds.two_runs import At, at_once, share
from tests.worlds.wrong_clocks import Stepped, assert_snapshots_in_order

__all__ = ["world"]

OLD_DAYS = 3
REGISTERING = [name for name in PLACES if not name.startswith("osstables")]
"""OSS Tables has neither staged tables, which say where one would lie, nor a way to register one."""


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Iterator[Place]:
    """Each place in turn."""
    with made(request.param, tmp_path / "place", servers) as place:
        yield place


@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
@pytest.mark.parametrize("said", [{"type": "sql"}, {}])
def test_a_catalog_on_mariadb_has_the_address_that_leases_have_there(
    kind: str, said: dict[str, str], tmp_path: Path, servers: Servers
) -> None:
    needs.mariadb()
    where = servers.mariadb.new_database().partition("://")[2]
    lake = Lake({**said, "uri": f"{kind}://{where}", "warehouse": f"file://{tmp_path}/warehouse"})
    with start(tmp_path / "emulator", now=HOUR0_S + 60.0) as emulator:
        world = new_world(emulator, lake, InProcess()).begun(10, 40)
        assert [world.land().rows, world.land().rows] == [40, 0]
        world.assert_sound()


def test_windows_land_with_their_checkpoint_and_a_second_run_commits_nothing(
    world: World, servers: Servers
) -> None:
    report = world.land()

    assert (report.rows, report.conflicts) == (40, 0)
    assert len(world.landings()[-1][1]) == 2, "a window of each shard"
    assert world.checkpoints() == {shard: entry.frontier for shard, entry in world.ledger.shards.items()}
    head = world.table.metadata.current_snapshot_id
    again = world.land()
    assert (again.rows, again.snapshot_id) == (0, None)
    assert world.table.metadata.current_snapshot_id == head
    proved(world, servers)


@pytest.mark.fault("4a.5a.request_lost", "4a.5a.refused", "4a.5b.reply_lost", "4b.commit_unknown.commit")
def test_whatever_becomes_of_the_answer_to_a_commit_each_log_lands_once(
    world: World, place: Place, servers: Servers
) -> None:
    """An answer that is lost is found in the table, a request that is lost is sent again."""
    for word in place.words:
        pulls = world.watch_pulls()
        place.lose(word)
        report = world.land(publish_deadline_s=2.0)

        arrived = word in ("lost", "502", "silent")
        assert (report.rows, report.conflicts, report.replans) == (40, 0 if arrived else 1, 0), word
        pulls.assert_none_twice()
        world.put(40, pass_s=60)
    assert place.gate is None or place.gate.acted == list(place.words)
    world.land()
    assert world.data_files() == set(world.published()), "no file was written twice"
    proved(world, servers)


@pytest.mark.fault("4a.5a.late", "4a.5b.late")
@pytest.mark.parametrize("place", ["rest-file"], indirect=True)
def test_a_request_that_arrives_after_all_and_one_that_arrives_twice_are_refused(
    world: World, place: Place, servers: Servers
) -> None:
    """As a proxy between client and catalog may deliver them; others have committed in between."""
    assert place.gate is not None
    place.lose("late")
    report = world.land()
    assert (report.rows, report.conflicts) == (40, 1)
    assert place.gate.deliver() == [409]
    assert world.table.metadata.current_snapshot_id == report.snapshot_id

    place.lose("doubled")
    for _ in range(2):
        report = world.land_more(20)
        assert (report.rows, report.conflicts) == (20, 0)
    assert place.gate.deliver() == [409]
    assert world.table.metadata.current_snapshot_id == report.snapshot_id
    proved(world, servers)


@pytest.mark.fault("4b.overlap.commit")
def test_of_two_runs_with_the_same_windows_the_loser_is_refused(world: World, servers: Servers) -> None:
    won: list[LandingReport] = []

    lost = world.land(on_event=At("publish", lambda: won.append(world.land())))

    assert won[0].rows == 40
    assert (lost.rows, lost.replans, lost.snapshot_id) == (0, 0, None), "it lets go"
    assert len(world.data_files()) > len(world.published()), "the loser's files stay, unlisted"
    proved(world, servers)


def test_two_runs_that_publish_at_the_same_moment_both_land(world: World, servers: Servers) -> None:
    """Each holds a shard, and a barrier lets both of them go: the second commit finds another head."""
    logstores = share(world, "one", "two")
    reports = at_once(world, logstores)

    assert sum(r.rows for r in reports) == 40 and all(r.rows for r in reports)
    assert world.data_files() == set(world.published())
    proved(world, servers)


def test_a_column_is_added_by_the_landing_that_brings_its_first_values(
    world: World, servers: Servers
) -> None:
    wider = world.changed(columns={"n": "long", "status": "int", "path": "string"})

    report = world.land(logstore=wider)

    assert report.rows == 40 and len(world.table.metadata.schemas) == 2
    assert sorted({r["path"] is None for r in world.table_rows()}) == [False, True]
    proved(world, servers)


def test_a_backfill_lands_the_hours_that_a_live_run_began_after(world: World, servers: Servers) -> None:
    world.logstore = world.changed(table="bronze.late_logs", reset="latest", group={"name": "late"})
    world.at(HOUR0_S + 3600 + 60)
    world.land()
    assert world.land_more(20, until_s=HOUR0_S + 3600 + 120).rows == 20

    fill = world.land(mode="fill", hours=(HOUR0, HOUR0 + 1))

    assert (fill.rows, fill.replans) == (50, 0)
    assert world.land(mode="fill", hours=(HOUR0, HOUR0 + 1)).rows == 0
    proved(world, servers)


def test_a_table_rolled_back_by_hand_is_settled_and_lands_on(world: World, servers: Servers) -> None:
    world.land()
    roll_back(world)
    head = world.table.metadata.current_snapshot_id
    with pytest.raises(LedgerBroken, match="rolled back"):
        world.land()

    execute(world.lake, plan_rollback(world.lake, world.logstore.table, head or 0))

    assert world.land().rows == 40
    proved(world, servers)


def test_an_hour_is_undone_and_landed_again(world: World, servers: Servers) -> None:
    world.land()
    world.at(HOUR0_S + 3600 + 60)
    world.land()
    world.carried_out(plan_undo, range(HOUR0, HOUR0 + 1))
    assert world.table_rows() == []
    world.assert_proved()

    assert world.land(mode="fill", hours=(HOUR0, HOUR0 + 1)).rows == 50
    proved(world, servers)


def test_single_rows_are_removed_for_good(world: World, servers: Servers) -> None:
    world.land()
    world.carried_out(plan_forget_where, "n < 20")

    assert counted(world, servers.s3) == (30, 30)
    assert world.land().rows == 0
    world.assert_proved()


def test_a_table_without_its_tag_is_adopted_with_the_ledger_that_its_rows_prove(
    world: World, servers: Servers
) -> None:
    world.table.manage_snapshots().remove_tag(TAG).commit()
    with pytest.raises(LedgerBroken):
        world.land()

    world.carried_out(plan_adopt)

    assert world.land().rows == 40
    proved(world, servers)


def test_an_hour_is_replaced_in_one_commit(world: World, servers: Servers) -> None:
    world.land()
    world.at(HOUR0_S + 3600 + 60)
    world.land()
    files, ledger = set(world.published()), world.ledger

    assert replaced(world, range(HOUR0, HOUR0 + 1)).rows == 50

    assert files.isdisjoint(world.published()) and world.ledger == ledger
    proved(world, servers)


def test_maintenance_beside_a_landing_deletes_what_is_old_and_nothing_else(
    world: World, servers: Servers
) -> None:
    """Everything stored looks three days old, and one file is left behind; a landing is in between."""
    world.land()
    world.land_more(20, until_s=HOUR0_S + 3600 + 60)
    world.put(20, until_s=HOUR0_S + 3600 + 120)
    storage = world.storage
    assert storage is not None
    left = world.published()[0].rpartition("/")[0] + "/left-behind.parquet"
    storage.put(left, b"1234")
    storage.age([left], OLD_DAYS)
    young = world.published()[0].rpartition("/")[0] + "/about-to-be-published.parquet"
    storage.put(young, b"1234")
    tidy = Maintainer(world.logstore, world.lake, manifests_max=1, snapshots_max=3)

    report = world.land(on_event=At("publish", tidy.execute))

    assert (report.rows, report.replans) == (20, 0) and report.conflicts >= 1
    assert left not in storage.files() and young in storage.files()
    assert len(world.table.metadata.snapshots) <= 4
    proved(world, servers)

    storage.age(storage.files(), OLD_DAYS)
    again = Maintainer(world.logstore, world.lake, snapshots_max=2).execute()
    assert {o.path.rpartition(".")[2] for o in again.swept} == {"parquet", "avro"}
    assert again.put_off == ()
    assert world.data_files() == set(world.published()) | {
        f for f in world.data_files() if f in storage.files() and f in referenced(world)
    }
    proved(world, servers)


@pytest.mark.fault("4a.5a.clock")
def test_machines_whose_clocks_are_ahead_and_behind_land_into_one_table(
    world: World, servers: Servers
) -> None:
    """A REST server has a clock of its own, and takes no snapshot that is minutes ahead of it."""
    for off_s in (600.0, 0.0, -120.0):
        report = world.land(clock=Stepped(off_s))
        assert (report.rows, report.conflicts) == (40, 0)
        world.put(40, pass_s=60)

    assert world.land().rows == 40
    assert_snapshots_in_order(world)
    proved(world, servers)


def test_a_clock_that_is_days_ahead_deletes_nothing_young(world: World) -> None:
    """The storage's own stamp on the refresh counts, and every storage has one."""
    assert world.storage is not None
    left = world.published()[0].rpartition("/")[0] + "/left-behind.parquet"
    world.storage.put(left, b"1234")
    ahead = ManualClock(SYSTEM_CLOCK.now() + 30 * 24 * 3600)

    done = Maintainer(world.logstore, world.lake, clock=ahead).execute(["sweep", "metadata"])

    assert (done.swept, done.metadata) == ((), ()) and left in world.storage.files()


def referenced(world: World) -> set[str]:
    """Data files of every kept snapshot."""
    table = world.table
    return {
        task.file.file_path.removeprefix("file://")
        for snapshot in table.metadata.snapshots
        for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
    }


@pytest.mark.parametrize("place", REGISTERING, indirect=True)
def test_a_table_that_the_catalog_lost_is_refused_registered_again_and_lands_on(
    world: World, servers: Servers
) -> None:
    world.land()
    newest = world.table.metadata_location
    world.lake.catalog().drop_table(world.logstore.table)
    world.put(5, until_s=HOUR0_S + 360)

    with pytest.raises(LedgerBroken, match="but there was one") as refused:
        world.land()
    assert REGISTER.words in [cure.words for cure in refused.value.cures if isinstance(cure, Call)]
    planned = world.asked(register.plan_register)
    assert planned.view.trouble == () and planned.view.metadata.endswith(newest.rpartition("/")[2])
    register.register(world.lake, planned)

    assert world.land().rows == 5
    proved(world, servers)


@pytest.mark.parametrize("place", REGISTERING, indirect=True)
def test_a_catalog_that_was_put_back_is_refused_until_the_newest_metadata_is_registered(
    world: World, servers: Servers
) -> None:
    old = world.table.metadata_location
    world.land()
    world.land_more(5, until_s=HOUR0_S + 360)
    newest, catalog = world.table.metadata_location, world.lake.catalog()
    catalog.drop_table(world.logstore.table)
    catalog.register_table(world.logstore.table, old)

    with pytest.raises(LedgerBroken, match="older state"):
        world.land()
    with world.client as client:
        planned = register.plan_register(world.lake, world.logstore, client)
        try:
            register.register(world.lake, planned)
        except ConfigError as error:  # as printed, where a server cannot overwrite
            assert world.lake.kind == "rest" and "drop the table there, without its files" in str(error)
            catalog.drop_table(world.logstore.table)
            register.register(world.lake, register.plan_register(world.lake, world.logstore, client))

    assert world.table.metadata_location.rpartition("/")[2] == newest.rpartition("/")[2]
    assert world.land().rows == 0
    proved(world, servers)


@pytest.mark.parametrize("place", REGISTERING, indirect=True)
def test_a_table_that_is_given_up_begins_anew_in_a_folder_of_its_own(world: World, servers: Servers) -> None:
    world.land()
    old = world.table.location()
    world.lake.catalog().drop_table(world.logstore.table)
    before = world.files()

    planned = world.asked(start_over.plan_start_over)
    made = start_over.start_over(world.lake, planned)

    assert made.location() == planned.location and made.location().startswith(f"{old}-")
    assert world.land().rows == 50 and before <= world.files()
    proved(world, servers)
