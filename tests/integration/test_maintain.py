"""`sls-lake table maintain`: the table gets smaller, its rows stay, and landings go on beside it."""

import io
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import SetLocationUpdate

from pipelines.cli.deciding import show_effect
from pipelines.cli.main import EXIT_USAGE
from pipelines.cli.output import Output
from pipelines.landing.commit.planned import execute
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.ledger.state import check_ancestry
from pipelines.landing.maintenance.expiry import affordable
from pipelines.landing.maintenance.maintain import STEPS, Maintainer, Maintenance
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.table.lake import SWEEP_FLOOR_S, Lake
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock, SystemClock
from sls_io.values.errors import CommitStands, ConfigError, LandingConflict, LedgerBroken, TransportError
from tests.worlds.changed_table import append_by_hand, compact, roll_back
from tests.worlds.command_line import Command
from tests.worlds.lossy_catalog import lossy
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World
from tests.worlds.spark_table import counted, in_spark, rewrite
from tests.worlds.two_logstores import second_logstore
from tests.worlds.two_runs import At

DAY_S = 24 * 3600.0


@pytest.fixture
def sealed(world: World) -> World:
    """Two hours of two small landings each, the first of them sealed, and 20 logs to come."""
    return fill(world)


def fill(world: World) -> World:
    for minute in (2, 30, 62, 90):
        world.at(HOUR0_S + 60 * (minute - 1))
        world.land_more(20, until_s=HOUR0_S + 60 * minute)
    world.put(20, until_s=HOUR0_S + 60 * 100)
    return world


def maintainer(world: World, **options: Any) -> Maintainer:
    return Maintainer(world.logstore, world.lake, **options)


def age(paths: list[Path], days: float = 3) -> None:
    """As if the files had been written days ago."""
    for path in paths:
        at = SYSTEM_CLOCK.now() - days * DAY_S
        os.utime(path, (at, at))


def folder(world: World) -> Path:
    return Path(world.table.location().removeprefix("file://"))


def on_disk(world: World) -> set[Path]:
    """Everything the table's folder holds."""
    return {p for p in folder(world).rglob("*") if p.is_file()}


def orphan(world: World, name: str = "left-behind.parquet", days: float = 3) -> Path:
    path = Path(world.published()[0]).with_name(name)
    path.write_bytes(b"1234")
    age([path], days)
    return path


def proved(world: World) -> None:
    """Every log once, the table's own proof, and the tag where landings look for it."""
    world.assert_sound()
    assert TAG in world.table.metadata.refs
    check_ancestry(world.table)


def test_a_sealed_hour_is_written_together_once_and_no_row_changes(sealed: World) -> None:
    rows, ledger = sealed.identities(), sealed.ledger

    planned = maintainer(sealed).plan(["compact"])
    done = maintainer(sealed).execute(["compact"])

    assert [(h.hour, h.rows, h.files) for h in planned.compacted] == [(HOUR0, 40, 4)]
    assert [(h.hour, h.files, h.files_after) for h in done.compacted] == [(HOUR0, 4, 1)]
    assert sealed.identities() == rows and sealed.ledger == ledger
    head = sealed.table.current_snapshot()
    assert head is not None and head.summary is not None
    assert head.summary.operation.value == "replace", "readers that follow appends pass over it"
    assert sealed.table.metadata.refs[TAG].snapshot_id == head.snapshot_id
    assert maintainer(sealed).execute(["compact"]).compacted == (), "never twice"
    sealed.land()
    proved(sealed)


def test_files_of_the_target_size_are_left_alone_and_new_ones_are_not_larger(sealed: World) -> None:
    size = min(f.file.file_size_in_bytes for f in sealed.table.scan().plan_files())

    assert maintainer(sealed, target_bytes=size).plan(["compact"]).compacted == ()
    (done,) = maintainer(sealed, target_bytes=2 * size).execute(["compact"]).compacted
    assert done.files_after is not None and 1 <= done.files_after < done.files
    sealed.land()
    proved(sealed)


def test_a_file_that_would_be_written_alone_stays_as_it_is(sealed: World) -> None:
    """Of four files of some 0.7 times the target, those are written together that fit a part together."""
    sizes = [
        f.file.file_size_in_bytes
        for f in sealed.table.scan().plan_files()
        if f"/{HOUR0}/" in f.file.file_path
    ]
    target = int(sum(sizes) / 2.8)
    before = set(sealed.published())

    (planned,) = maintainer(sealed, target_bytes=target).plan(["compact"]).compacted
    assert planned.files == 2
    (done,) = maintainer(sealed, target_bytes=target).execute(["compact"]).compacted

    assert (done.files, done.files_after) == (2, 1) and len(before - set(sealed.published())) == 2
    sealed.land()
    proved(sealed)


def test_an_hour_that_one_shard_has_not_passed_is_left_alone(world: World) -> None:
    for minute in (2, 30, 50):
        world.land_more(20, until_s=HOUR0_S + 60 * minute)
    assert maintainer(world).execute(["compact"]).compacted == ()


def test_bloom_filters_that_the_table_asks_for_are_in_what_lands_and_in_what_is_compacted(
    world: World,
) -> None:
    world.land_more(20, until_s=HOUR0_S + 60)
    before = {Path(path) for path in world.published()}
    asked = {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in ("n", "not_there")}
    with world.table.transaction() as transaction:
        transaction.set_properties(asked)

    sealed = fill(world)
    landed = {Path(path) for path in sealed.published()} - before
    maintainer(sealed).execute(["compact"])
    (compacted,) = {Path(path) for path in sealed.published()} - landed - before

    assert not any(map(filtered, before))
    assert landed and {name for path in landed for name in filtered(path)} == {"n"}
    assert filtered(compacted) == {"n"}
    sealed.land()
    proved(sealed)


def filtered(path: Path) -> set[str]:
    """The columns of a file that have a Bloom filter, as another reader sees them."""
    with duckdb.connect() as connection:
        query = "SELECT path_in_schema FROM parquet_metadata(?) WHERE bloom_filter_offset IS NOT NULL"
        return {name for (name,) in connection.execute(query, [str(path)]).fetchall()}


@pytest.mark.parametrize("steps", [["compact"], ["manifests"], ["sweep"], ["metadata"], list(STEPS)])
def test_maintenance_between_write_and_publish_costs_a_landing_one_try(
    sealed: World, steps: list[str]
) -> None:
    """The same files land, no page is pulled twice."""
    pulls = sealed.watch_pulls()
    tidy = maintainer(sealed, manifests_max=1, snapshots_max=3)

    report = sealed.land(on_event=At("publish", lambda: tidy.execute(steps)))

    assert (report.rows, report.conflicts, report.replans) == (20, 1, 0)
    pulls.assert_none_twice()
    proved(sealed)


def test_an_expiry_alone_between_write_and_publish_is_no_conflict(sealed: World) -> None:
    tidy = maintainer(sealed, snapshots_max=2)

    report = sealed.land(on_event=At("publish", lambda: tidy.execute(["expire"])))

    assert (report.rows, report.conflicts, report.replans) == (20, 0, 0)
    assert len(sealed.table.metadata.snapshots) == 3
    proved(sealed)


@pytest.mark.parametrize("event", ["manifests.built", "expire.built", "refresh.built"])
def test_a_landing_before_any_commit_of_the_maintenance_makes_it_look_again(
    sealed: World, event: str
) -> None:
    gone = orphan(sealed)
    race = At(event, sealed.land)

    done = maintainer(sealed, manifests_max=1, snapshots_max=3, on_event=race).execute()

    assert race.done and not gone.exists()
    # A landing after the expiry is a snapshot that the next maintenance counts.
    assert len(sealed.table.metadata.snapshots) <= 3 + (event == "refresh.built") and done.expired
    proved(sealed)


def test_many_manifests_become_few_and_a_few_stay(sealed: World) -> None:
    assert maintainer(sealed, manifests_max=4).execute(["manifests"]).manifests == (4, 4)
    rows = sealed.identities()

    planned = maintainer(sealed, manifests_max=3).plan(["manifests"]).manifests
    done = maintainer(sealed, manifests_max=3).execute(["manifests"]).manifests

    assert planned == done == (4, 1)
    assert sealed.identities() == rows
    sealed.land()
    proved(sealed)


def test_snapshots_are_bounded_and_the_tag_stays_although_others_commit_on_top(sealed: World) -> None:
    """Without the refresh nobody could prove any more that the tagged landing is part of main."""
    compact(sealed)
    compact(sealed)
    assert sealed.table.metadata.refs[TAG].snapshot_id != sealed.table.metadata.current_snapshot_id

    done = maintainer(sealed, snapshots_max=2).execute(["expire"])

    assert done.kept == len(sealed.table.metadata.snapshots) == 2
    assert sealed.table.metadata.refs[TAG].snapshot_id == sealed.table.metadata.current_snapshot_id
    sealed.land()
    proved(sealed)


def test_more_than_two_hundred_snapshots_become_two_hundred(sealed: World) -> None:
    tidy = maintainer(sealed)
    while len(sealed.table.metadata.snapshots) < 204:
        tidy._refresh()

    done = tidy.execute(["expire", "sweep"])

    assert len(sealed.table.metadata.snapshots) == 200 == done.kept
    assert maintainer(sealed).plan(["expire"]).expired == ()
    sizes = (1000, 500_000, 3_000_000)
    assert [affordable(with_ledgers(sealed.table, size)) for size in sizes] == [200, 39, 20]
    sealed.land()
    proved(sealed)


def with_ledgers(table: Table, size: int) -> Table:
    """The same, but each snapshot says so many bytes more."""
    snapshots = [
        each.model_copy(update={"summary": Summary(Operation.APPEND, ledger="0" * size)})
        for each in table.metadata.snapshots
    ]
    metadata = table.metadata.model_copy(update={"snapshots": snapshots})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def test_snapshots_younger_than_the_hours_to_keep_stay_however_many(sealed: World) -> None:
    """Made within moments, so the clock is put where the second of them is just too old."""
    made = sealed.table.metadata.snapshots
    gaps = [later.timestamp_ms - earlier.timestamp_ms for earlier, later in pairwise(made)]
    assert len(made) == 5 and min(gaps) > 0
    now_s = made[2].timestamp_ms / 1000 + 7200
    tidy = maintainer(sealed, snapshots_max=2, keep_s=7200.0, clock=ManualClock(now_s))

    left = tuple(each.snapshot_id for each in made[:2])
    assert tidy.plan(["expire"]).expired == tidy.execute(["expire"]).expired == left
    assert [s.snapshot_id for s in sealed.table.metadata.snapshots] == [s.snapshot_id for s in made[2:]]
    assert maintainer(sealed, snapshots_max=2).execute(["expire"]).kept == 2
    sealed.land()
    proved(sealed)


def test_snapshots_that_somebody_named_stay_on_top_of_the_newest(sealed: World) -> None:
    made = [each.snapshot_id for each in sealed.table.metadata.snapshots]
    for number, snapshot in enumerate(made[:3]):
        sealed.table.manage_snapshots().create_tag(snapshot, f"day-{number}").commit()
    sealed.land()
    tidy = maintainer(sealed, snapshots_max=2)
    planned, done = tidy.plan(["expire"]), tidy.execute(["expire"])
    assert planned.expired == done.expired == (made[3],) and planned.holding == done.holding
    assert "while these names do: day-0, day-1, day-2" in " ".join(note.text for note in done.said())
    assert sealed.table.scan(snapshot_id=made[1]).to_arrow().num_rows == 20
    proved(sealed)


def named(world: World) -> int:
    """Put the tag `audit` on the first landing."""
    first = world.table.metadata.snapshots[1].snapshot_id
    world.table.manage_snapshots().create_tag(first, "audit").commit()
    return first


def test_a_snapshot_that_somebody_names_between_plan_and_commit_stays(sealed: World) -> None:
    named_then = At("expire.built", lambda: named(sealed))

    done = maintainer(sealed, snapshots_max=2, on_event=named_then).execute(["expire"])

    first = sealed.table.metadata.refs["audit"].snapshot_id
    assert done.expired and first not in done.expired and done.put_off == ()
    assert sealed.table.scan(snapshot_id=first).to_arrow().num_rows == 20


def test_a_name_that_moves_to_an_old_snapshot_while_an_expiry_is_on_its_way_stays(sealed: World) -> None:
    head = sealed.table.metadata.current_snapshot_id
    assert head is not None
    sealed.table.manage_snapshots().create_tag(head, "audit").commit()
    sealed.lake, catalog = lossy(sealed.lake)
    catalog.script.append("outrun")
    catalog.meanwhile = lambda: named(sealed)

    done = maintainer(sealed, snapshots_max=2).execute(["expire"])

    assert sealed.table.metadata.refs["audit"].snapshot_id == sealed.table.metadata.snapshots[0].snapshot_id
    assert done.expired and done.put_off == ()


def test_a_name_that_leaves_with_its_snapshot_is_told_and_the_files_stay_for_once(sealed: World) -> None:
    """No commit can require that no name is made, so this one is found afterwards."""
    maintainer(sealed).execute(["compact"])
    age([*on_disk(sealed)])
    before, first = on_disk(sealed), sealed.table.metadata.snapshots[1].snapshot_id
    sealed.lake, catalog = lossy(sealed.lake)
    catalog.script.append("outrun")
    catalog.meanwhile = lambda: named(sealed)

    done = maintainer(sealed, snapshots_max=2).execute(["expire", "sweep", "metadata"])

    (said,) = done.put_off
    assert said.startswith(f"sweep, metadata: 'audit' was put on snapshot {first}") and done.unsettled
    lists = Path(said.rpartition("file://")[2].split()[0])
    assert lists.exists() and f'"audit":{{"snapshot-id":{first}' in lists.read_text().replace(" ", "")
    assert done.swept == done.metadata == () and before <= on_disk(sealed)
    assert maintainer(sealed).execute(["sweep"]).swept, "the next one"
    sealed.land()
    proved(sealed)


def test_old_files_that_nothing_refers_to_go_and_nothing_else_does(sealed: World) -> None:
    maintainer(sealed).execute(["compact"])
    maintainer(sealed, snapshots_max=3).execute(["expire", "sweep"])
    maintainer(sealed, snapshots_max=2).execute(["expire"])
    young = on_disk(sealed)
    assert maintainer(sealed).execute(["sweep", "metadata"]).swept == ()
    assert young <= on_disk(sealed), "all of it is younger than the floor"
    age(sorted(on_disk(sealed)))
    fresh = orphan(sealed, "about-to-be-published.parquet", days=0.9)
    planned = maintainer(sealed).plan(["sweep"])

    done = maintainer(sealed).execute(["sweep"])

    assert {o.path for o in planned.swept} <= {o.path for o in done.swept}
    gone = young - on_disk(sealed)
    assert gone == {folder(sealed) / o.path for o in done.swept}
    assert len([p for p in gone if p.suffix == ".parquet"]) == 4, "what was compacted"
    assert any(p.name.startswith("snap-") for p in gone) and fresh.exists()
    for snapshot in sealed.table.metadata.snapshots:
        sealed.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    sealed.land()
    proved(sealed)


def test_a_clock_that_is_days_ahead_deletes_nothing_young(sealed: World) -> None:
    """The storage's own clock counts, not ours alone."""
    left = orphan(sealed, days=0)
    ahead = ManualClock(SYSTEM_CLOCK.now() + 30 * DAY_S)

    assert maintainer(sealed, clock=ahead).execute(["sweep", "metadata"]).swept == ()

    assert left.exists()


def test_a_floor_that_writers_do_not_know_is_refused(sealed: World, command: Command) -> None:
    with pytest.raises(ConfigError, match="about to be published"):
        maintainer(sealed, floor_s=SWEEP_FLOOR_S - 1)
    said = command("table", "maintain", "--older-than", "1")
    assert said["code"] == EXIT_USAGE, said["error"]
    slow = sealed.changed(budget={"seconds_max": 80_000})
    with pytest.raises(ConfigError, match="about to be published"):
        Maintainer(slow, sealed.lake)


def test_a_writer_that_was_paused_for_days_does_not_publish_what_the_sweep_took(sealed: World) -> None:
    """It is refused by the refresh, finds its files old, and lands the same rows from new ones."""
    clock = Jumping()
    published = set(sealed.published())
    taken: list[Maintenance] = []

    def pause() -> None:
        waiting = [p for p in map(Path, sealed.data_files()) if str(p) not in published]
        assert waiting, "files are written and not published"
        age(waiting)
        clock.advance(3 * DAY_S)
        taken.append(maintainer(sealed).execute(["sweep"]))
        assert not any(p.exists() for p in waiting)

    report = sealed.land(on_event=At("publish", pause), clock=clock)

    assert taken[0].swept and report.replans == 1 and report.rows == 20
    proved(sealed)


def test_a_compaction_that_was_paused_for_days_commits_nothing(sealed: World) -> None:
    clock = ManualClock(SYSTEM_CLOCK.now())

    def pause() -> None:
        age([p for p in folder(sealed).rglob("*.parquet") if str(p) not in sealed.published()])
        clock.advance(3 * DAY_S)
        assert maintainer(sealed).execute(["sweep"]).swept

    done = maintainer(sealed, clock=clock, on_event=At("compact.built", pause)).execute(["compact"])

    assert done.compacted == () and len(done.put_off) == 1
    sealed.land()
    proved(sealed)


class Jumping(SystemClock):
    """The time that a paused process missed, without the wall clock: the service would refuse that."""

    def __init__(self) -> None:
        self._later_s = 0.0

    def monotonic(self) -> float:
        """It goes on while a process is stopped."""
        return super().monotonic() + self._later_s

    def advance(self, duration_s: float) -> None:
        """Pass the time."""
        self._later_s += duration_s


def test_a_rollback_that_was_looked_at_before_the_sweep_is_refused(sealed: World) -> None:
    """Its snapshot is gone by then, and so are its files."""
    target = sealed.table.metadata.snapshots[2].snapshot_id
    maintainer(sealed).execute(["compact"])
    planned = plan_rollback(sealed.lake, sealed.logstore.table, target)
    age(sorted(on_disk(sealed)))

    maintainer(sealed, snapshots_max=2).execute(["expire", "sweep"])

    with pytest.raises((LandingConflict, TransportError), match="nothing was changed"):
        execute(sealed.lake, planned)
    sealed.land()
    proved(sealed)


def test_old_metadata_versions_go_and_those_that_the_log_names_stay(sealed: World) -> None:
    tidy = maintainer(sealed)
    for _ in range(24):
        tidy._refresh()
    versions = sorted(folder(sealed).glob("metadata/*.metadata.json"))
    assert tidy.execute(["metadata"]).metadata == (), "younger than the floor"
    age(versions)

    assert tidy.execute(["metadata"]).metadata
    named = {Path(e.metadata_file).name for e in sealed.table.metadata.metadata_log}
    named.add(Path(sealed.table.metadata_location).name)
    assert named == {p.name for p in folder(sealed).glob("metadata/*.metadata.json")}
    sealed.land()
    proved(sealed)


def test_files_of_another_logstore_in_the_table_are_kept_and_compacted_apart(sealed: World) -> None:
    other = second_logstore(sealed)
    sealed.land(logstore=other)
    age(sorted(on_disk(sealed)))

    maintainer(sealed, snapshots_max=2).execute()
    sealed.land()

    sealed.assert_proved()
    World(sealed.emulator, sealed.lake, other, sealed.engine).assert_proved()


@pytest.mark.parametrize("damage", [roll_back, append_by_hand])
def test_a_table_that_cannot_be_trusted_is_left_as_it_is(
    sealed: World, damage: Callable[[World], None]
) -> None:
    left = orphan(sealed)
    damage(sealed)
    location = sealed.table.metadata_location

    for act in (maintainer(sealed).plan, maintainer(sealed).execute):
        with pytest.raises(LedgerBroken):
            act()

    assert left.exists() and sealed.table.metadata_location == location


def test_a_dry_run_changes_nothing_and_shows_what_would_go(sealed: World, command: Command) -> None:
    left = orphan(sealed)
    before, location = on_disk(sealed), sealed.table.metadata_location

    dry = command("table", "maintain")

    assert dry["code"] == 0 and not dry["executed"]
    assert [o["path"].rsplit("/", 1)[-1] for o in dry["swept"]] == [left.name]
    assert [(h["hour"], h["files"]) for h in dry["compacted"]] == [(HOUR0, 4)]
    assert on_disk(sealed) == before and sealed.table.metadata_location == location

    done = command("table", "maintain", "--only", "sweep", "--execute")

    assert done["code"] == 0 and done["executed"] and done["compacted"] == []
    assert not left.exists()
    assert command("table", "maintain", "--only", "paint")["code"] == EXIT_USAGE


def test_people_read_what_would_go(sealed: World) -> None:
    left = orphan(sealed)
    file = io.StringIO()

    show_effect(Output(file=file), maintainer(sealed, snapshots_max=2).plan())

    said = file.getvalue()
    assert left.name in said and "snapshots expired 5, snapshots kept 2" in said
    assert "2026-09-21-" in said and "/p/" not in said


def test_a_warehouse_that_is_reached_by_two_names_is_not_swept(sealed: World, tmp_path: Path) -> None:
    """Every file would look like an orphan: none is listed under the path that its snapshot names."""
    there = on_disk(sealed)
    (tmp_path / "link").symlink_to(folder(sealed))
    moved = SetLocationUpdate(location=f"file://{tmp_path}/link")
    sealed.table.catalog.commit_table(sealed.table, (), (moved,))
    age(sorted(there))

    # The sweep's own commit comes first, and stands.
    with pytest.raises(CommitStands, match="under other paths"):
        maintainer(sealed).execute(["sweep"])

    assert all(path.exists() for path in there)


def test_files_per_hour_are_shown(sealed: World, command: Command) -> None:
    shown = command("landings", "show")["files"]
    assert [(f["hour"], f["files"], f["rows"]) for f in shown] == [(HOUR0, 4, 40), (HOUR0 + 1, 4, 40)]

    assert command("table", "maintain", "--only", "compact", "--execute")["code"] == 0

    assert [f["files"] for f in command("landings", "show")["files"]] == [1, 4]


def test_nothing_landed_is_nothing_to_maintain(world: World, command: Command) -> None:
    said = command("table", "maintain", "--execute")
    assert said["code"] == EXIT_USAGE and "nothing has landed" in said["error"]


@pytest.mark.spark
def test_spark_reads_the_table_after_every_step(sealed: World, spark_lake: Lake) -> None:
    world = in_spark(sealed, spark_lake, "maintained")
    world.land()
    world.land_more(20, pass_s=3600)
    world.land_more(20, pass_s=3600)

    tidy = maintainer(world, manifests_max=1, snapshots_max=2)
    for step in STEPS:
        age(sorted(on_disk(world)))
        tidy.execute([step])
        assert counted(world) == world.counter
    since = "\"__receive_hour__ >= TIMESTAMP '2020-01-01 00:00:00+00'\""
    rewrite(world, f", strategy => 'sort', sort_order => 'n DESC', where => {since}")
    in_order = {path: pq.read_table(path).column("n").to_pylist() for path in world.published()}
    assert all(values == sorted(values, reverse=True) for values in in_order.values())
    tidy.execute()
    assert set(world.published()) == set(in_order), "what another engine has put in order stays so"
    world.land()
    assert counted(world) == world.counter
    proved(world)
