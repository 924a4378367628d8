"""Two landings at once: what they bring is there once, and no page is pulled twice without need."""

import pytest

from pipelines.landing.run.report import LandingReport
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World
from tests.worlds.two_logstores import second_logstore
from tests.worlds.two_runs import At, at_once, share

pytestmark = pytest.mark.spark


@pytest.fixture
def started(world: World) -> World:
    """A world whose history began and whose two shards both have unread logs of one hour."""
    return world.begun(10, 60)


@pytest.mark.fault("4b.overlap.commit")
def test_of_two_landings_with_the_same_windows_one_wins_and_the_older_lets_go(started: World) -> None:
    """Both have the same name in the group, as in a blue and green deployment, and so the same shards."""
    won: list[LandingReport] = []
    race = At("publish", lambda: won.append(started.land()))

    lost = started.land(on_event=race)

    assert won[0].rows == 60
    assert (lost.rows, lost.replans, lost.snapshot_id) == (0, 0, None), "it lets go"
    assert len(started.data_files()) == 2 * 2 + len(started.landings()[1][1]), "the loser's files stay"
    started.assert_sound()


@pytest.mark.fault("4b.overlap.commit", "4b.backfill.commit")
def test_a_landing_that_lost_some_windows_goes_on_with_the_others(started: World) -> None:
    """A backfill takes one hour of a shard's two; the live run's other windows are landed as written."""
    started.at(HOUR0_S + 3600 + 10)
    started.put(40, until_s=HOUR0_S + 3600 + 120)
    fill = At("publish", lambda: started.land(mode="fill", hours=(HOUR0 + 1, HOUR0 + 2)))

    report = started.land(on_event=fill)

    assert {hour: x.rows for hour, x in report.hours.items()} == {HOUR0: 60}
    assert report.conflicts >= 1
    started.assert_sound()


def test_disjoint_shards_of_one_logstore_both_land_and_no_page_is_pulled_twice(started: World) -> None:
    one, two = share(started, "one", "two")
    pulls = started.watch_pulls()
    first: list[LandingReport] = []
    race = At("publish", lambda: first.append(started.land(logstore=two)))

    second = started.land(logstore=one, on_event=race)

    assert first[0].rows > 0 < second.rows
    assert first[0].rows + second.rows == 60
    assert (second.conflicts, second.replans) == (1, 0), "the same files on the new head"
    pulls.assert_none_twice()
    assert started.data_files() == set(started.published())
    started.assert_sound()


@pytest.mark.fault("4b.conflict.commit")
def test_two_logstores_into_one_table_both_land_and_no_page_is_pulled_twice(started: World) -> None:
    other = second_logstore(started)
    pulls = started.watch_pulls()
    first: list[LandingReport] = []
    race = At("write.done", lambda: first.append(started.land(logstore=other)))

    second = started.land(on_event=race)

    assert (first[0].rows, second.rows) == (25, 60)
    assert (second.conflicts, second.replans) == (1, 0)
    pulls.assert_none_twice()
    origins = {row["__origin__"].rpartition("-")[0]: 0 for row in started.table_rows()}
    assert set(origins) == {"access_logs", "other_logs"}
    assert len(started.table_rows()) == 10 + 60 + 25
    started.assert_proved()


def test_two_landings_that_start_together_in_threads_both_end(started: World) -> None:
    """Nobody arranges who comes first: a barrier lets both publish at the same moment."""
    logstores = share(started, "one", "two")
    pulls = started.watch_pulls()
    reports = at_once(started, logstores)

    assert sorted(r.rows > 0 for r in reports) == [True, True]
    assert sum(r.rows for r in reports) == 60
    pulls.assert_none_twice()
    started.assert_each_log_once()


@pytest.mark.fault("4b.backfill.commit", "4b.backfill.after")
def test_a_backfill_beside_live_landings_finishes_without_pulling_a_page_twice(world: World) -> None:
    """Three old hours are filled while, between write and publish of each try, a live run lands."""
    for hour in range(3):
        world.at(HOUR0_S + hour * 3600 + 60)
        world.put(40)
    world.at(HOUR0_S + 3 * 3600 + 60)
    live = world.changed(reset="latest")
    world.land(logstore=live)
    pulls = world.watch_pulls()
    between: list[LandingReport] = []

    def land_more(name: str) -> None:
        if name in ("survey", "write", "publish", "reload") and len(between) < 8:
            world.put(10, pass_s=60)
            between.append(world.land(logstore=live))

    fill = world.land(logstore=live, mode="fill", hours=(HOUR0, HOUR0 + 3), on_event=land_more)

    assert len(between) >= 4
    assert all(r.rows == 10 for r in between)
    assert (fill.rows, fill.replans) == (120, 0)
    assert fill.conflicts >= 1, "a live landing came between plan and publish"
    pulls.assert_none_twice()
    world.assert_sound()


def test_a_backfill_moves_no_checkpoint_and_doubles_nothing(started: World) -> None:
    started.land()
    checkpoints, landings = started.checkpoints(), started.landings()

    again = started.land(mode="fill", hours=(HOUR0, HOUR0 + 1))

    assert (again.rows, again.snapshot_id) == (0, None)
    assert started.landings() == landings
    assert started.checkpoints() == checkpoints
    started.assert_each_log_once()


def test_of_two_first_starts_one_decides_where_history_begins(world: World) -> None:
    """Both resolve `latest`, at different ends: whatever the second one thought, the first holds."""
    world.put(20)
    logstore = world.changed(reset="latest")
    starts: list[dict[int, int]] = []

    def be_first() -> None:
        world.land(logstore=logstore)
        starts.append({shard: int(entry.start) for shard, entry in world.ledger.shards.items()})
        world.put(30, pass_s=60)

    world.land(logstore=logstore, on_event=At("resolve_start", be_first))

    assert {shard: int(entry.start) for shard, entry in world.ledger.shards.items()} == starts[0]
    world.emulator.admin.advance(60)
    world.land(logstore=logstore)
    assert sum(world.identities().values()) == 30
    world.assert_proved()
